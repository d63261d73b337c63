"""Whoever holds the loop up is named to the operator, while it stands and after."""

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from pixi.app import health
from pixi.app.health import reporting_stalls
from pixi.cli.discord import stay_on_discord
from pixi.cli.serve import serve_http
from pixi.settings import load
from pixi.toolbox.foreign import foreign
from tests.waiting import LIMIT, until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STILL_SECONDS", 0.1)
    monkeypatch.setattr(health, "_PAUSE", 0.01)


def naming(function: str, log: pytest.LogCaptureFixture, count: int) -> list[str]:
    """Return what was told of a function, once there is so much; a busy machine may stand still elsewhere."""
    told = [message for message in log.messages if f"`{function}`" in message]
    return told if len(told) >= count else []


async def test_code_that_blocks_is_named_with_its_place_while_it_does_and_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    async def blocks() -> None:
        end = time.monotonic() + LIMIT
        while not seen and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - that is the fault
            seen.extend(naming("blocks", caplog, 1))

    with reporting_stalls():
        with foreign("command 'blocks'"):
            await blocks()
        during, after, *_ = await until(lambda: naming("blocks", caplog, 2))
    assert seen == [during]
    assert f"`blocks` ({__file__}:" in during
    assert "await asyncio.to_thread(...)" in during
    assert "nothing went on, held up by" in after
    assert f"`blocks` ({__file__}:" in after


async def test_where_nobody_else_does_it_is_told_where_in_pixi(caplog: pytest.LogCaptureFixture) -> None:
    ours: dict[str, Any] = {"__name__": "pixi.core.slow", "wait": subprocess.run}
    asked = [sys.executable, "-c", "import time; time.sleep(0.3)"]
    exec(compile("def slow(told):\n    wait(told)\n", "pixi/core/slow.py", "exec"), ours)
    with reporting_stalls():
        ours["slow"](asked)  # Python's own functions, called by ours, are what ours does
        told = await until(lambda: naming("slow", caplog, 2))
    assert "`slow` (pixi/core/slow.py:2)" in told[0]


async def test_a_loop_that_goes_on_is_not_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(health, "STILL_SECONDS", LIMIT)  # a busy machine may stand still for less
    asked: list[object] = []
    loop = asyncio.get_running_loop()
    answer = loop.call_soon_threadsafe

    def ask(*args: Any, **more: Any) -> asyncio.Handle:
        asked.append(args)
        return answer(*args, **more)

    monkeypatch.setattr(loop, "call_soon_threadsafe", ask)
    with reporting_stalls():
        await until(lambda: len(asked) == 10, "ten signs of life")
    assert caplog.records == []


async def test_it_ends_at_once_and_leaves_no_thread() -> None:
    before = threading.active_count()
    for _ in range(20):
        with reporting_stalls():
            await asyncio.sleep(0.001)
    assert threading.active_count() == before


async def test_what_lets_no_other_thread_run_is_told_of_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STILL_SECONDS", 0.01)
    with reporting_stalls():
        await asyncio.sleep(0.05)
        sum(range(12_000_000))  # one long step of the interpreter: no other thread gets its turn
        await until(lambda: "nothing went on" in caplog.text)


class EmptyModules(MetaPathFinder, Loader):
    """Makes modules that hold one thing each, and notes in which threads they are imported."""

    def __init__(self, contents: Mapping[str, tuple[str, object]]) -> None:
        self.threads: set[int] = set()
        self._contents = contents

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name in self._contents else None

    def exec_module(self, module: ModuleType) -> None:
        self.threads.add(threading.get_ident())
        setattr(module, *self._contents[module.__name__])


async def test_what_serves_is_imported_beside_the_loop_that_is_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Begun(Exception):
        """All is imported."""

    contents = {
        "pixi.app.studio": ("studio_routes", mock.Mock(side_effect=Begun)),
        "pixi.channels.discord.bot": ("Bot", mock.Mock(side_effect=Begun)),
        "pixi.channels.http.server": ("HttpServer", mock.Mock(side_effect=Begun)),
    }
    modules = EmptyModules(contents)
    for name in contents:
        package, _, own = name.rpartition(".")
        monkeypatch.setattr(import_module(package), own, None, raising=False)
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]
    monkeypatch.setattr(sys, "meta_path", [modules, *sys.meta_path])
    settings = load(environ={}, folder=tmp_path, overrides={"discord.token": "x", "store.url": ":memory:"})
    service = mock.MagicMock(settings=settings)
    with pytest.raises(Begun):
        await stay_on_discord(service)
    with pytest.raises(Begun):
        await serve_http(service, settings, AsyncExitStack(), AsyncExitStack())
    assert modules.threads
    assert threading.get_ident() not in modules.threads
