"""`pixi-persona demo`: the script plays through the engine, in its time, and any key ends it."""

import asyncio
import io
import re
import sys
from collections.abc import AsyncGenerator, Iterator

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input
from rich.console import Console

from pixi.cli import demo_screen
from pixi.cli.demo_screen import draw, show
from pixi.cli.demo_stage import SCENES, TOKEN_SECONDS, DemoState, open_pancakes, play
from pixi.cli.frame import run
from pixi.knowledge.database import DirectoryDatabase
from tests.held_clock import HeldClock
from tests.waiting import until


def a_console(columns: int = 100) -> Console:
    return Console(file=io.StringIO(), width=columns, height=24, force_terminal=True, color_system=None)


def lines(console: Console, stage: DemoState) -> list[str]:
    with console.capture() as shown:
        console.print(draw(stage, console))
    return re.sub(r"\x1b\[[\d;]*m", "", shown.get()).splitlines()


def test_without_a_terminal_the_raw_commands_and_their_acts_come_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = ("[NOTE: first", "[REACT: 🥞]", "try!!  🥞", "[SEND: omg]", "Pixi: omg")
    at = [out.index(each) for each in told]
    assert at == sorted(at)
    assert out.count("Pixi: ") == 7
    assert "“A crêpe batter is as thin as cream: twice as much milk as flour" in out  # from the database
    assert out.endswith("Talk to Pixi now:  make chat  (or: pixi-persona chat)\n")


@pytest.fixture
async def pancakes() -> AsyncGenerator[DirectoryDatabase, None]:
    """Opened while time still passes: a process of its own reads the documents."""
    async with open_pancakes() as database:
        yield database


async def test_it_takes_25_seconds_and_each_command_acts_when_its_bracket_closes(
    pancakes: DirectoryDatabase, clock: HeldClock
) -> None:
    stage, console = DemoState(), a_console(80)
    late: list[int] = []
    said: list[float] = []
    screens: list[list[str]] = []

    def happened() -> None:
        ends = [command.end() for command in stage.commands()]
        if stage.acted and stage.writing:
            late.append(len(stage.stream) - ends[len(stage.acted) - 1])
        if not (stage.stream or stage.writing):
            said.append(clock.time() - (stage.began or 0.0))
        screens.append(lines(console, stage))

    await play(stage, pancakes, happened)
    assert said == pytest.approx([0.8, 7.3, 11.8, 19.8])
    assert sum(scene.seconds for scene in SCENES) == 25.0
    assert TOKEN_SECONDS == 1 / 40
    assert max(late) <= 4  # characters that were written since: a token
    assert {len(row) for row in screens[-1][1:3]} == {80}
    first = next(text for screen in screens if "✓ [SEND: omg]" in (text := "\n".join(screen)))
    assert "✓ [REACT: 🥞]" in first
    assert "Pixi  omg" in first
    assert "Pixi  look at those" not in first
    assert [row for row in screens[-1] if "it is. i'll" in row]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        monkeypatch.setattr("prompt_toolkit.input.create_input", lambda: pipe)
        monkeypatch.setattr(demo_screen, "_has_keyboard", lambda: True)
        yield pipe


@pytest.mark.parametrize("key", ["x", "\x03", "\x1b"], ids=["letter", "Ctrl-C", "Escape"])
async def test_any_key_ends_it_and_what_to_run_next_is_told(keys: PipeInput, key: str) -> None:
    console = a_console()
    written = console.file
    assert isinstance(written, io.StringIO)
    showing = asyncio.create_task(show(console))
    await until(lambda: "the model writes" in written.getvalue())
    keys.send_text(key)
    assert await showing == 0
    assert written.getvalue().splitlines()[-1].endswith("make chat  (or: pixi-persona chat)")


def test_no_key_is_waited_for_where_none_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert not demo_screen._has_keyboard()
