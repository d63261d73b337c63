"""The live terminal with a real engine, a real prompt that is typed into, and a screen kept in memory."""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from pixi.channels.terminal import seat
from pixi.channels.terminal_live import LiveTerminal, Tell
from pixi.channels.terminal_own import history_in
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.engine.engine import Engine
from pixi.testing import ScriptedModel

PIXI = Persona("Pixi", "You are Pixi.")
RED, DIM = "\x1b[0;31m", "\x1b[0;90m"


@pytest.fixture
def typing() -> Iterator[PipeInput]:
    with create_pipe_input() as keys:
        yield keys


@pytest.fixture
def screen(typing: PipeInput) -> Iterator[io.StringIO]:
    drawn = io.StringIO()
    output = Vt100_Output(drawn, lambda: Size(rows=20, columns=60), term="xterm")
    with create_app_session(input=typing, output=output):
        yield drawn


def terminal(*, notes: bool = False) -> LiveTerminal:
    return LiveTerminal(seat("pixi", "mo"), "Pixi", "Pixi · on a script", InMemoryHistory(), notes=notes)


@asynccontextmanager
async def engine_on(*replies: str) -> AsyncGenerator[Engine, None]:
    async with Engine(model=ScriptedModel(*replies), persona=PIXI) as engine:
        yield engine


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not happened():  # noqa: ASYNC110 - a screen tells nobody that it was drawn on
            await asyncio.sleep(0.01)


async def test_a_talk(typing: PipeInput, screen: io.StringIO) -> None:
    talk = asyncio.create_task(
        terminal().run(lambda progress, report, remark: engine_on("[REACT: 🥞][SEND: yay\nme too]"))
    )
    typing.send_text("pancakes!\r")
    await until(lambda: "me too" in screen.getvalue())
    await until(lambda: "pancakes!   🥞" in screen.getvalue())
    typing.send_text("\x04")
    await talk
    assert "Pixi · on a script" in screen.getvalue()


async def test_what_is_typed_while_it_loads_is_answered_afterwards(
    typing: PipeInput, screen: io.StringIO
) -> None:
    ready = asyncio.Event()

    @asynccontextmanager
    async def slow(progress: Tell, report: Tell, remark: Tell) -> AsyncGenerator[Engine, None]:
        progress("loading the weights")
        await ready.wait()
        progress("")
        report("addon x is left out: it is broken")
        remark("second answers instead of first: it failed")
        async with engine_on("[SEND: here i am]") as engine:
            yield engine

    talk = asyncio.create_task(terminal().run(slow))
    typing.send_text("anybody there?\r")
    await until(lambda: "loading the weights" in screen.getvalue() and "anybody there?" in screen.getvalue())
    assert "here i am" not in screen.getvalue()
    ready.set()
    await until(lambda: "here i am" in screen.getvalue())
    assert f"{RED}addon x is left out" in screen.getvalue()
    assert f"{DIM}second answers instead of first" in screen.getvalue()
    typing.send_text("/quit\r")
    await talk


async def test_what_cannot_be_opened_ends_the_talk(typing: PipeInput, screen: io.StringIO) -> None:
    @asynccontextmanager
    async def broken(progress: Tell, report: Tell, remark: Tell) -> AsyncGenerator[Engine, None]:
        raise ConfigError("there is no model.")
        yield

    with pytest.raises(ConfigError, match="there is no model"):
        await terminal().run(broken)


async def test_leaving_amid_a_reply_closes_the_engine(typing: PipeInput, screen: io.StringIO) -> None:
    opened: list[Engine] = []

    @asynccontextmanager
    async def kept(progress: Tell, report: Tell, remark: Tell) -> AsyncGenerator[Engine, None]:
        async with engine_on("[SEND: one][SEND: two]") as engine:
            opened.append(engine)
            yield engine

    talk = asyncio.create_task(terminal().run(kept))
    typing.send_text("hi\r")
    await until(lambda: "one" in screen.getvalue())
    typing.send_text("\x04")
    await talk
    with pytest.raises(Exception, match="closed"):
        await opened[0].reset("terminal:pixi:mo")


def test_history_is_kept_for_oneself_alone(tmp_path: Path) -> None:
    history = history_in(tmp_path / "state")
    assert isinstance(history, FileHistory)
    history.store_string("hi")
    assert (tmp_path / "state" / "history").stat().st_mode & 0o077 == 0


def test_without_a_place_for_it_history_lasts_as_long_as_the_talk(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert isinstance(history_in(tmp_path / "state"), InMemoryHistory)


async def test_whoever_sits_here_is_told_all_that_is_kept_and_can_be_forgotten(
    typing: PipeInput, screen: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[Engine] = []

    @asynccontextmanager
    async def kept(progress: Tell, report: Tell, remark: Tell) -> AsyncGenerator[Engine, None]:
        async with engine_on("[SEND: a canary?]") as engine:
            opened.append(engine)
            yield engine

    place, history = seat("pixi", "mo"), history_in(tmp_path / "state")
    live = LiveTerminal(place, "Pixi", "Pixi · on a script", history, notes=False)
    talk = asyncio.create_task(live.run(kept))
    typing.send_text("my canary\r")
    await until(lambda: "a canary?" in screen.getvalue())
    typing.send_text("/export me\r")
    await until(lambda: any(tmp_path.glob("pixi-export-*.json")) and "nobody else may" in screen.getvalue())
    (file,) = tmp_path.glob("pixi-export-*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "my canary" in file.read_text()

    typing.send_text("/forget me\r")
    await until(lambda: "/forget me yes to do it" in " ".join(screen.getvalue().split()))
    assert (await opened[0].export(place.author.id))["conversations"] != []
    typing.send_text("/forget me yes\r")
    await until(lambda: "You are forgotten. Conversations that changed: 1" in screen.getvalue())
    assert (await opened[0].export(place.author.id))["conversations"] == []
    assert "canary" not in (tmp_path / "state" / "history").read_text()
    assert [line async for line in history.load()] == []
    typing.send_text("\x04")
    await talk
    assert (tmp_path / "state" / "history").stat().st_mode & 0o777 == 0o600
