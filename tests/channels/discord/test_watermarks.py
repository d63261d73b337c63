import logging
from collections.abc import Mapping

import pytest

from pixi.channels.discord.watermarks import Watermarks
from pixi.core.errors import StoreError
from tests.channels.discord.house import RecordingHouse


class FullHouse(RecordingHouse):
    """A house whose disk is full."""

    full = True

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        if self.full:
            raise StoreError("The disk is full.")
        await super().mark(watermarks)


async def test_watermarks_are_written_together_by_the_channels_address() -> None:
    house = RecordingHouse()
    marks = Watermarks(house)
    await marks.load(1)
    marks.raise_to(7, 100)
    marks.raise_to(7, 90)
    marks.raise_to(8, 50)

    assert house.marks == {}
    await marks.write()
    assert house.marks == {"discord:1:7:": 100, "discord:1:8:": 50}


async def test_only_those_of_the_same_bot_are_read() -> None:
    marks = Watermarks(RecordingHouse(marks={"discord:1:7:": 100, "discord:2:8:": 50, "terminal:x": 3}))
    await marks.load(1)

    assert marks.marks == {7: 100}


async def test_a_frozen_watermark_stays_until_it_thaws() -> None:
    marks = Watermarks(RecordingHouse())
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
    house = FullHouse()
    marks = Watermarks(house)
    await marks.load(1)
    marks.raise_to(7, 100)
    with caplog.at_level(logging.INFO, logger="pixi.discord"):
        await marks.write()
        marks.raise_to(7, 101)
        await marks.write()
    house.full = False
    await marks.write()

    assert house.marks == {"discord:1:7:": 101}
    assert [record.getMessage() for record in caplog.records] == [
        "the watermarks could not be written: The disk is full."
    ]
