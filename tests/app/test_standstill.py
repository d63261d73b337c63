"""Whoever holds the loop up is named to the operator, while it stands and after."""

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pixi.app import standstill
from pixi.app.standstill import telling_of_standstills
from pixi.toolbox.foreign import foreign


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "STILL_SECONDS", 0.1)
    monkeypatch.setattr(standstill, "_PAUSE", 0.01)


async def test_code_that_blocks_is_named_with_its_place_while_it_does_and_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    async def blocks() -> None:
        end = time.monotonic() + 5
        while not seen and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - that is the fault
            seen.extend(record.getMessage() for record in caplog.records)

    with telling_of_standstills():
        with foreign("command 'blocks'"):
            await blocks()
        await _until(lambda: len(caplog.records) == 2)
    during, after = (record.getMessage() for record in caplog.records)
    assert seen == [during]
    assert f"`blocks` ({__file__}:" in during
    assert "await asyncio.to_thread(...)" in during
    assert "nothing went on, held up by" in after
    assert f"`blocks` ({__file__}:" in after


async def test_where_nobody_else_does_it_is_told_where_in_pixi(caplog: pytest.LogCaptureFixture) -> None:
    ours: dict[str, Any] = {"__name__": "pixi.core.slow", "wait": subprocess.run}
    told = [sys.executable, "-c", "import time; time.sleep(0.3)"]
    exec(compile("def slow(told):\n    wait(told)\n", "pixi/core/slow.py", "exec"), ours)
    with telling_of_standstills():
        ours["slow"](told)  # Python's own functions, called by ours, are what ours does
        await _until(lambda: len(caplog.records) == 2)
    assert "`slow` (pixi/core/slow.py:2)" in caplog.records[0].getMessage()


async def test_a_loop_that_goes_on_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with telling_of_standstills():
        for _ in range(20):
            await asyncio.sleep(0.02)
    assert caplog.records == []


async def test_it_ends_at_once_and_leaves_no_thread() -> None:
    before = threading.active_count()
    for _ in range(50):
        with telling_of_standstills():
            await asyncio.sleep(0.001)
    assert threading.active_count() == before


async def test_what_lets_no_other_thread_run_is_told_of_too(caplog: pytest.LogCaptureFixture) -> None:
    with telling_of_standstills():
        await asyncio.sleep(0.05)
        sum(range(60_000_000))  # one long step of the interpreter: no other thread gets its turn
        await _until(lambda: caplog.records)
    assert "nothing went on" in caplog.records[-1].getMessage()


async def _until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - a thread tells of nothing
            await asyncio.sleep(0.01)
