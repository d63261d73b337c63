"""The live terminal with a real engine, a real prompt that is typed into, and a screen kept in memory."""

import asyncio
import io
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import PipeInput
from prompt_toolkit.output.vt100 import Vt100_Output

from pixi.channels.terminal.commands import history_in, last_said, told_time
from pixi.channels.terminal.lines import seat
from pixi.channels.terminal.live import LiveTerminal
from pixi.core.errors import ConfigError, Reporter
from pixi.core.events import Opened, Progressed, ToolAnswered, ToolCalled
from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, PromptProgress, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.engine.engine import Engine
from pixi.models.model import Traits
from pixi.store.kept import Effect, TurnRecord
from pixi.store.sqlite import SqliteStore
from pixi.testing import ScriptedModel
from tests.begun import begun
from tests.channels.test_terminal_asking import SEQUENCES
from tests.waiting import until

PIXI = Persona("Pixi", "You are Pixi.")
RED, DIM = "\x1b[0;31m", "\x1b[0;90m"


@dataclass
class Drawn:
    """A terminal in memory: what was drawn on it, and what is typed at it."""

    keys: PipeInput
    screen: io.StringIO = field(default_factory=io.StringIO)
    columns: int = 60

    @property
    def text(self) -> str:
        return self.screen.getvalue()


@pytest.fixture
def drawn(keys: PipeInput) -> Iterator[Drawn]:
    there = Drawn(keys)
    output = Vt100_Output(there.screen, lambda: Size(rows=20, columns=there.columns), term="xterm")
    with create_app_session(input=keys, output=output):
        yield there


@dataclass
class Now:
    seconds: float = 1_000.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    """The time, which stands."""
    there = Now()
    monkeypatch.setattr(time, "monotonic", lambda: there.seconds)
    return there


@pytest.fixture
def screen(drawn: Drawn) -> io.StringIO:
    return drawn.screen


def terminal(*, notes: bool = False) -> LiveTerminal:
    return LiveTerminal(seat("pixi", "mo"), "Pixi", "Pixi · on a script", InMemoryHistory(), notes=notes)


async def rest(there: LiveTerminal) -> None:
    """Wait until nothing is to come: what is seen growing is said only then."""
    await until(lambda: not there.busy)


@asynccontextmanager
async def engine_on(*replies: str) -> AsyncGenerator[Engine, None]:
    async with Engine(model=ScriptedModel(*replies), persona=PIXI) as engine:
        yield engine


async def test_a_talk(keys: PipeInput, screen: io.StringIO) -> None:
    talk = asyncio.create_task(
        terminal().run(lambda progress, report, remark: engine_on("[REACT: 🥞][SEND: yay\nme too]"))
    )
    keys.send_text("pancakes!\r")
    await until(lambda: "me too" in screen.getvalue())
    await until(lambda: "pancakes!   🥞" in screen.getvalue())
    keys.send_text("\x04")
    await talk
    assert "Pixi · on a script" in screen.getvalue()


async def test_what_is_typed_while_it_loads_is_answered_afterwards(
    keys: PipeInput, screen: io.StringIO
) -> None:
    ready = asyncio.Event()

    @asynccontextmanager
    async def slow(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        progress("loading the weights")
        await ready.wait()
        progress("")
        report("addon x is left out: it is broken")
        remark("second answers instead of first: it failed")
        async with engine_on("[SEND: here i am]") as engine:
            yield engine

    talk = asyncio.create_task(terminal().run(slow))
    keys.send_text("anybody there?\r")
    await until(lambda: "loading the weights" in screen.getvalue() and "anybody there?" in screen.getvalue())
    assert "here i am" not in screen.getvalue()
    ready.set()
    await until(lambda: "here i am" in screen.getvalue())
    assert f"{RED}addon x is left out" in screen.getvalue()
    assert f"{DIM}second answers instead of first" in screen.getvalue()
    keys.send_text("/quit\r")
    await talk


@pytest.mark.parametrize(("columns", "stops"), [(80, True), (50, True), (40, False)])
def test_how_much_is_left_of_a_prompt_grows_fewer(columns: int, stops: bool, drawn: Drawn, now: Now) -> None:
    drawn.columns = columns
    there = terminal()
    there.entered("hello")
    there.show(PromptProgress(0, 1669))
    assert "Pixi is thinking" in there.status(), "it may take no time"
    now.seconds += 2
    assert "reading 1,669 tokens" in there.status()
    there.show(PromptProgress(669, 1669, 40.0))
    told = []
    for _ in range(3):
        told.append(there.status()[2:])
        now.seconds += 20
    end = " (Ctrl-C stops)" if stops else ""
    assert told == [
        f"reading 1,000 tokens · 40 s to go{end}",
        f"reading 1,000 tokens · 20 s to go{end}",
        f"reading 1,000 tokens{end or ' (Ctrl-C stops)'}",
    ]
    there.show(PromptProgress(1669, 1669, 0.0))
    assert "Pixi is thinking · 62 s" in there.status()
    there.show(Opened("send", "message"))
    assert "Pixi is writing" in there.status()


async def test_which_tool_runs_and_how_far_it_is_stands_below(drawn: Drawn) -> None:
    here = terminal()
    here.entered("when does it leave?")
    assert "Pixi is thinking" in here.status()
    here.show(ToolCalled("1", "look", {}))
    assert here.status()[2:] == "Pixi uses look"
    here.show(Progressed("reading \x1b[31mferry.pdf · 120 of 340 tokens"))
    assert here.status()[2:].startswith("reading ")
    assert here.status().endswith("ferry.pdf · 120 of 340 tokens")
    assert here.status().isprintable()
    here.show(ToolAnswered("1", "look", True, "at nine"))
    assert "Pixi is thinking" in here.status()


async def test_what_cannot_be_opened_ends_the_talk(keys: PipeInput, screen: io.StringIO) -> None:
    @asynccontextmanager
    async def broken(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        raise ConfigError("there is no model.")
        yield

    with pytest.raises(ConfigError, match="there is no model"):
        await terminal().run(broken)


async def test_leaving_amid_a_reply_closes_the_engine(keys: PipeInput, screen: io.StringIO) -> None:
    opened: list[Engine] = []

    @asynccontextmanager
    async def kept(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        async with engine_on("[SEND: one][SEND: two]") as engine:
            opened.append(engine)
            yield engine

    talk = asyncio.create_task(terminal().run(kept))
    keys.send_text("hi\r")
    await until(lambda: "one" in screen.getvalue())
    keys.send_text("\x04")
    await talk
    with pytest.raises(Exception, match="closed"):
        await opened[0].reset("terminal:pixi:mo")


@pytest.mark.skipif(sys.platform == "win32", reason="a signal tells of it on POSIX alone")
@pytest.mark.parametrize(("terminal_type", "rows"), [("xterm-256color", 4), ("rxvt", 3)])
async def test_what_was_drawn_is_found_again_when_the_terminal_became_narrower(
    drawn: Drawn, monkeypatch: pytest.MonkeyPatch, terminal_type: str, rows: int
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("XTERM_VERSION", raising=False)
    monkeypatch.setenv("TERM", terminal_type)  # the second breaks no rows
    words = "all the gulls of the island came to see the pancakes and stayed"  # in two rows of 60 columns
    model = ScriptedModel([f"[SEND: {words}", asyncio.Event()], piece=0)

    def hanging(progress: Reporter, report: Reporter, remark: Reporter) -> Engine:
        return Engine(model=model, persona=PIXI)

    talk = asyncio.create_task(terminal().run(hanging))
    drawn.keys.send_text("hi\r")
    await until(lambda: "stayed" in drawn.text and "is writing" in drawn.text)
    before = len(drawn.text)
    drawn.columns = 40
    signal.raise_signal(signal.SIGWINCH)
    await until(lambda: "stayed" in drawn.text[before:])
    # Above the line to type in: `mo › hi`, and the message, whose first row takes two where it is broken.
    assert f"\x1b[{rows}A\x1b[J" in drawn.text[before:]
    talk.cancel()
    await asyncio.wait([talk])


async def test_a_talk_that_goes_on_shows_its_end_dimmed_and_when_that_was(
    keys: PipeInput, screen: io.StringIO, tmp_path: Path
) -> None:
    @asynccontextmanager
    async def kept(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        store = await SqliteStore.open(str(tmp_path / "pixi.db"))
        try:
            async with Engine(model=ScriptedModel("[SEND: i see them]"), persona=PIXI, store=store) as engine:
                yield engine
        finally:
            await store.close()

    for returned in (False, True):
        there = terminal()
        talk = asyncio.create_task(there.run(kept))
        if returned:
            await until(lambda: "Your talk goes on" in screen.getvalue())
        else:
            keys.send_text("look, gulls\r")
            await until(lambda: "i see them" in screen.getvalue())
            await rest(there)
            assert "goes on" not in screen.getvalue()
        keys.send_text("\x04")
        await talk
    shown = screen.getvalue().partition("Your talk goes on; this was today, ")[2]
    assert "mo › look, gulls" in shown
    assert "Pixi › i see them" in shown
    assert f"{DIM}  Your talk goes on" in screen.getvalue() or f"{DIM}Your talk goes on" in screen.getvalue()


def test_what_was_said_last_is_told_in_short_lines() -> None:
    def turn(line: str, *sent: str) -> TurnRecord:
        effects = tuple(Effect(1, at, "send", text, "done") for at, text in enumerate(sent))
        lines = (UserLine(line), AssistantLine("[SEND: …]")) if line else ()
        return TurnRecord(1, "c", "Pixi", "m", then.timestamp(), "stop", 1, Usage(), None, (), lines, effects)

    then = datetime(2026, 5, 3, 21, 40).astimezone()
    now = then + timedelta(hours=10)
    stamped = "It is Sunday.\nearlier, you:\n> older\n> hello\n> there\x1b[2J"
    assert last_said(
        [turn(stamped, "oh", "x" * 500), turn('a.md says: "x"\nsmall', "hm")], (), "mo", "Pixi", now
    ).split("\n") == [
        "Your talk goes on; this was yesterday, 21:40 (/reset begins anew):",
        "mo › older hello there[2J",
        "Pixi › oh",
        f"Pixi › {'x' * 100} … {'x' * 100}",
        "mo › small",
        "Pixi › hm",
    ]
    assert last_said([turn("", "what was forgotten")], (), "mo", "Pixi", now) == ""
    assert last_said([], (), "mo", "Pixi", now) == ""
    asked = Message("1", "c", Author("a", "mo"), "still\nthere?", then.timestamp())
    goes_on = turn("It is Sunday.\n#4, still waits for your answer:\n> hello", "and so on")
    both = turn("It is Sunday.\n#4, still waits for your answer:\n> hello\n#5:\n> and this", "yes")
    assert last_said([goes_on, both], [replace(asked, again=True), asked], "mo", "Pixi", now).split("\n")[
        1:
    ] == ["Pixi › and so on", "mo › and this", "Pixi › yes", "mo › still there?"]
    assert last_said([], [asked], "mo", "Pixi", now) == (
        "Your talk goes on; this was yesterday, 21:40 (/reset begins anew):\nmo › still there?"
    )
    told = [told_time(then, then + timedelta(days=days)) for days in (0, 1, 6, 7)]
    assert told == ["today, 21:40", "yesterday, 21:40", "on Sunday, 21:40", "on 2026-05-03, 21:40"]


@pytest.mark.skipif(sys.platform == "win32", reason="there the time zone cannot be set")
def test_what_was_said_before_the_clocks_were_changed_has_the_time_of_its_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    then = datetime.fromisoformat("2026-10-24T21:40:00+02:00")
    lines = (UserLine("hi"), AssistantLine(""))
    turn = TurnRecord(1, "c", "Pixi", "m", then.timestamp(), "stop", 1, Usage(), None, (), lines, ())
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        now = datetime.fromisoformat("2026-10-25T12:00:00+01:00").astimezone()
        said = last_said([turn], (), "mo", "Pixi", now)
    time.tzset()
    assert "this was yesterday, 21:40 (" in said


def test_history_is_kept_for_oneself_alone(tmp_path: Path) -> None:
    history = history_in(tmp_path / "state")
    assert isinstance(history, FileHistory)
    history.store_string("hi")
    assert (tmp_path / "state" / "history").stat().st_mode & 0o077 == 0


def test_without_a_place_for_it_history_lasts_as_long_as_the_talk(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert isinstance(history_in(tmp_path / "state"), InMemoryHistory)


async def test_whoever_sits_here_is_told_all_that_is_kept_and_can_be_forgotten(
    keys: PipeInput, screen: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[Engine] = []

    @asynccontextmanager
    async def kept(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        async with engine_on("[SEND: a canary?]") as engine:
            opened.append(engine)
            yield engine

    place, history = seat("pixi", "mo"), history_in(tmp_path / "state")
    live = LiveTerminal(place, "Pixi", "Pixi · on a script", history, notes=False)
    talk = asyncio.create_task(live.run(kept))
    keys.send_text("my canary\r")
    await until(lambda: "a canary?" in screen.getvalue())
    keys.send_text("/export me\r")
    await until(lambda: any(tmp_path.glob("pixi-export-*.json")) and "nobody else may" in screen.getvalue())
    (file,) = tmp_path.glob("pixi-export-*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "my canary" in file.read_text()

    keys.send_text("/forget me\r")
    await until(lambda: "/forget me yes to do it" in " ".join(screen.getvalue().split()))
    assert (await opened[0].export(place.author.id))["conversations"] != []
    keys.send_text("/forget me yes\r")
    await until(lambda: "You are forgotten. Conversations that changed: 1" in screen.getvalue())
    assert (await opened[0].export(place.author.id))["conversations"] == []
    assert "canary" not in (tmp_path / "state" / "history").read_text()
    assert [line async for line in history.load()] == []
    keys.send_text("\x04")
    await talk
    assert (tmp_path / "state" / "history").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("small", [True, False])
async def test_what_a_tiny_model_does_without_is_said_once_and_told_again_by_model(
    drawn: Drawn, small: bool
) -> None:
    keeper = Persona("老秦", "你是老秦。", databases=("茶",))
    model = ScriptedModel("[SEND: ok]", traits=Traits(small=small, tools=not small))

    @asynccontextmanager
    async def opened(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        engine = Engine(model=model, persona=keeper)
        engine.tools.announce("database:茶")
        async with engine:
            yield engine

    live = LiveTerminal(
        seat("laoqin", "mo"),
        "老秦",
        "老秦",
        InMemoryHistory(),
        notes=False,
        first_words="我的小伙计不懂中文。",
    )
    talk = asyncio.create_task(live.run(opened))
    await until(lambda: "老秦 › 我的小伙计不懂中文。" in drawn.text, "its first words")
    before = drawn.text
    assert ("On a tiny model: no tools" in before) == small
    drawn.keys.send_text("/model\r")
    await until(lambda: "pixi-persona models" in drawn.text, "how to choose another")
    told = drawn.text[len(before) :]
    assert "scripted: " in told
    assert ("a tiny model: no tools" in told) == small
    drawn.keys.send_text("/quit\r")
    await talk


async def test_an_act_of_which_nobody_knows_is_told_once_and_the_reply_goes_on(
    drawn: Drawn, tmp_path: Path
) -> None:
    path, place = str(tmp_path / "pixi.db"), seat("pixi", "mo")
    store = await SqliteStore.open(path)
    await store.receive(asked := place.message("one"))
    turn = await begun(store, place.conversation, 0, "Pixi", (asked.id,))
    await store.plan(
        turn, (Planned(1, "send", "alpha"), Planned(2, "send", "beta"), Planned(3, "send", "gamma"))
    )
    for number, text in enumerate(("alpha", "beta"), 1):
        await store.intend(turn, number, "send", text, command=number)
    await store.settle(turn, 1, "done")
    await store.close()  # the process died as it showed the second message

    store = await SqliteStore.open(path)
    model = ScriptedModel("[SEND: delta]")
    async with Engine(model=model, persona=PIXI, store=store) as engine:

        @asynccontextmanager
        async def opened(
            progress: Reporter, report: Reporter, remark: Reporter
        ) -> AsyncGenerator[Engine, None]:
            yield engine

        talk = asyncio.create_task(terminal().run(opened))
        await until(lambda: "delta" in drawn.text)
        drawn.keys.send_text("\x04")
        await talk
        (request,) = model.requests
    await store.close()
    shown = SEQUENCES.sub("", drawn.text)
    unknown = "Pixi › beta (nobody knows whether you saw this)"
    places = [
        shown.index(each) for each in ("mo › one", "Pixi › alpha", unknown, "Pixi › gamma", "Pixi › delta")
    ]
    assert places == sorted(places)
    assert shown.count("beta") == 1
    told = "\n".join(line.text for line in request.lines if isinstance(line, AssistantLine))
    assert told.count("beta") == 1
    assert "may or may not have been seen" in told
