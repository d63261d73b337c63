import asyncio
import logging
from collections.abc import Mapping

import pytest

from pixi.channels.discord.incoming.catch_up import Watermarks
from pixi.core.errors import StoreError
from tests.channels.discord.backend import RecordingBackend
from tests.waiting import within


class AttentiveHouse(RecordingBackend):
    """A service that says when watermarks were written."""

    marked: asyncio.Event

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        await super().mark(watermarks)
        self.marked.set()


class FullHouse(RecordingBackend):
    """A service whose disk is full."""

    full = True

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        if self.full:
            raise StoreError("The disk is full.")
        await super().mark(watermarks)


def attentive(marks: Mapping[str, int] | None = None) -> AttentiveHouse:
    backend = AttentiveHouse(marks=dict(marks or {}))
    backend.marked = asyncio.Event()
    return backend


async def written(marks: Watermarks, backend: AttentiveHouse) -> None:
    """Wait until something was written, which must not take the seconds that are between two writes."""
    writing = asyncio.create_task(marks.keep_written())
    async with within("a write"):
        await backend.marked.wait()
    writing.cancel()


async def test_watermarks_are_written_together_by_the_channels_address() -> None:
    backend = RecordingBackend()
    marks = Watermarks(backend)
    await marks.load(1, 40)
    marks.raise_to(7, 100)
    marks.raise_to(7, 90)
    marks.raise_to(8, 50)

    assert backend.marks == {}
    await marks.write()
    assert backend.marks == {"discord:1:0:": 40, "discord:1:7:": 100, "discord:1:8:": 50}


async def test_only_those_of_the_same_bot_are_read() -> None:
    marks = Watermarks(RecordingBackend(marks={"discord:1:7:": 100, "discord:2:8:": 50, "terminal:x": 3}))
    await marks.load(1, 40)

    assert marks.marks == {7: 100}


async def test_a_frozen_watermark_stays_until_it_thaws() -> None:
    marks = Watermarks(RecordingBackend())
    marks.raise_to(7, 100)
    marks.freeze(7)
    marks.raise_to(7, 101)

    assert marks.marks == {7: 100}
    marks.thaw(7)
    marks.raise_to(7, 102)
    assert marks.marks == {7: 102}


async def test_what_could_not_be_written_is_written_later_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = FullHouse(marks={"discord:1:8:": 40})
    marks = Watermarks(backend)
    await marks.load(1, 40)
    marks.raise_to(7, 100)
    with caplog.at_level(logging.INFO, logger="pixi.discord"):
        await marks.write()
        marks.raise_to(7, 101)
        await marks.write()
    backend.full = False
    await marks.write()

    assert backend.marks == {"discord:1:7:": 101, "discord:1:8:": 40}
    assert [record.getMessage() for record in caplog.records] == [
        "the watermarks could not be written: The disk is full."
    ]


async def test_a_bot_that_is_here_for_the_first_time_remembers_since_when_at_once() -> None:
    backend = attentive()
    marks = Watermarks(backend)
    await marks.load(1, 40)
    await written(marks, backend)

    assert backend.marks == {"discord:1:0:": 40}


async def test_the_first_message_of_a_channel_can_be_found_again_while_it_is_still_being_dealt_with() -> None:
    backend = attentive(marks={"discord:1:7:": 100})
    marks = Watermarks(backend)
    await marks.load(1, 40)
    marks.meet(7, 150)
    marks.meet(8, 200)
    await written(marks, backend)

    assert backend.marks == {"discord:1:7:": 100, "discord:1:8:": 199}
