"""A line in the log on the signal USR1."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pixi.app.health import LoopMonitor, vitals_of
from pixi.app.service import BotService
from pixi.cli.logs import vitals_on_signal
from pixi.core.persona import Persona
from pixi.engine import Engine
from pixi.testing import ScriptedModel
from tests.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signal")


async def told(caplog: pytest.LogCaptureFixture, count: int = 1) -> logging.LogRecord:
    """The record of the last line, once there are so many."""

    def found() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.name == "pixi.vitals"]

    await until(lambda: len(found()) >= count)
    return found()[-1]


@asynccontextmanager
async def service() -> AsyncGenerator[BotService, None]:
    """As much of a service as has figures."""
    async with Engine(model=ScriptedModel(), persona=Persona("Pixi", "You are Pixi.")) as engine:
        count = partial(vitals_of, engine, LoopMonitor(), version="1.2", up_seconds=90_061.0)
        yield cast(BotService, SimpleNamespace(vitals=count))


async def test_a_signal_is_answered_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pixi.vitals")
    async with service() as it:
        with vitals_on_signal(it):
            os.kill(os.getpid(), signal.SIGUSR1)
            first = await told(caplog)
            waiting = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGUSR1)
            second = await told(caplog, 2)
            waiting.cancel()

    before, after = (record.__dict__["fields"] for record in (first, second))
    assert after["tasks"] == before["tasks"] + 1
    assert (after["conversations"], after["talking"]) == (0, 0)
    assert first.getMessage().startswith("up 1 d 1:01 · 0 conversations in memory, 0 being answered · ")
    if Path("/proc/self/statm").exists():
        assert 10 < after["megabytes"] < 10_000
        assert after["files"] > 3


async def test_afterwards_the_signal_ends_nothing() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)  # which would end the process
        async with service() as it:
            with vitals_on_signal(it):
                assert callable(signal.getsignal(signal.SIGUSR1))
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)
