"""Who sits at the terminal is asked for a yes: in place, with what they were writing left alone."""

import asyncio
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from PIL import Image as Pillow
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from pixi.channels.terminal import asking
from pixi.channels.terminal.lines import seat
from pixi.channels.terminal.live import LiveTerminal
from pixi.core.channel import Channel, OpenChannel, Question
from pixi.core.errors import Reporter
from pixi.core.events import Verdict
from pixi.core.message import Card, Field, Image, Message, Rights, Venue
from pixi.core.persona import Persona
from pixi.core.spending import UsageReport
from pixi.models.model import Model
from pixi.store.kept import LookedBack, TurnRecord
from pixi.testing import ScriptedModel
from tests.waiting import until, within

SEAT = seat("pixi", "mo")
SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]|\r")
ASK = "Allow it? (y/n)"


@dataclass
class Silent:
    """Takes messages, and answers nothing."""

    heard: list[str] = field(default_factory=list)
    stopped: int = 0
    model: Model = field(default_factory=ScriptedModel)
    persona: Persona = field(default_factory=lambda: Persona("Pixi", "You are Pixi."))

    async def owned_elsewhere(self, conversation: str) -> bool:
        return False

    async def own(self, conversation: str, *, seconds: float = 0.0) -> None:
        """Nobody else is here."""

    async def take_over(self, conversation: str) -> None:
        raise AssertionError

    async def resume(self, prefix: str, since: float, open_channel: OpenChannel) -> None:
        """Nothing was left."""

    async def waiting(self, conversation: str) -> tuple[Message, ...]:
        return ()

    async def look_back(self, turn: int) -> LookedBack | None:
        return None

    async def receive(self, message: Message, channel: Channel) -> None:
        self.heard.append(message.text)

    async def settled(self, conversation: str) -> None:
        await asyncio.Event().wait()

    async def stop(self, conversation: str) -> bool:
        self.stopped += 1
        return True

    async def bill(self) -> UsageReport:
        raise AssertionError

    async def turns(self, conversation: str, limit: int) -> tuple[TurnRecord, ...]:
        return ()

    async def reset(self, conversation: str) -> None:
        """Nothing was said."""

    async def take_back(self, conversation: str) -> tuple[Message, ...]:
        return ()

    async def branches(self, conversation: str) -> tuple[str, ...]:
        return ()

    async def restore(self, conversation: str, branch: str) -> None:
        raise AssertionError

    async def last_asked(self, conversation: str) -> tuple[Message, ...]:
        return ()

    async def forget(self, person: str) -> int:
        return 0

    async def export(self, person: str) -> dict[str, Any]:
        return {}


@dataclass
class Talk:
    """A live terminal, the keys that are typed at it, and what it drew."""

    terminal: LiveTerminal
    keys: PipeInput
    screen: io.StringIO
    answering: Silent
    running: "asyncio.Task[None]"

    @property
    def plain(self) -> str:
        """Everything that was drawn, without the sequences that say where and how."""
        return SEQUENCES.sub("", self.screen.getvalue())

    async def shows(self, text: str, *, times: int = 1) -> None:
        await until(lambda: self.screen.getvalue().count(text) >= times)

    async def left(self) -> None:
        """Wait until the window has closed by itself."""
        async with within("the end of the talk"):
            await self.running

    def ask(self, arguments: str = 'to: "Ana"', *, seconds: float = 20.0) -> "asyncio.Task[Verdict]":
        question = Question(SEAT.author.id, "send_email", "Sends an email.", arguments, "1")
        return asyncio.create_task(self.terminal.approve(question, seconds=seconds))


@pytest.fixture
async def talk(keys: PipeInput, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talk]:
    monkeypatch.setattr(asking, "_TYPED_AHEAD", 0.0)
    async with talking(keys) as talk:
        yield talk


@asynccontextmanager
async def talking(
    keys: PipeInput, depth: ColorDepth = ColorDepth.DEPTH_24_BIT, answering: Silent | None = None
) -> AsyncGenerator[Talk, None]:
    screen, answering = io.StringIO(), answering or Silent()

    @asynccontextmanager
    async def opened(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Any, None]:
        yield answering

    output = Vt100_Output(screen, lambda: Size(rows=40, columns=70), term="xterm", default_color_depth=depth)
    with create_app_session(input=keys, output=output):
        terminal = LiveTerminal(SEAT, "Pixi", "hello", InMemoryHistory(), notes=False)
        running = asyncio.create_task(terminal.run(opened))
        talk = Talk(terminal, keys, screen, answering, running)
        await talk.shows("mo ›")
        try:
            yield talk
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_where_it_is_and_who_governs_there(talk: Talk) -> None:
    assert talk.terminal.venue == Venue("", "one")
    assert await talk.terminal.rights(SEAT.author.id) == Rights(manager=True, operator=True)
    assert await talk.terminal.rights("terminal:ana") == Rights()


@pytest.mark.parametrize(("typed", "verdict"), [(" Y ", "yes"), ("no", "no"), ("\x03", "no")])
async def test_the_answer_is_written_in_place(talk: Talk, typed: str, verdict: Verdict) -> None:
    answer = talk.ask()
    await talk.shows("? Pixi wants to use send_email: Sends an email.")
    await talk.shows('to: "Ana"')
    await talk.shows(ASK)
    talk.keys.send_text(typed if typed == "\x03" else f"{typed}\r")
    assert await answer == verdict
    await talk.shows("send_email: allowed" if verdict == "yes" else "send_email: not allowed")
    assert talk.answering.heard == []
    assert talk.answering.stopped == 0


async def test_what_was_being_written_stays_and_is_sent_afterwards(talk: Talk) -> None:
    talk.keys.send_text("half a ")
    await talk.shows("half a")
    answer = talk.ask()
    await talk.shows(ASK)
    talk.keys.send_text("y\r")
    assert await answer == "yes"
    await talk.shows("send_email: allowed")
    talk.keys.send_text("message\r")
    await until(lambda: talk.answering.heard == ["half a message"])


async def test_nothing_but_y_or_n_is_an_answer(talk: Talk) -> None:
    answer = talk.ask()
    await talk.shows(ASK)
    for typed in ("\r", "yeah, sure\r", "maybe\r", "yn\r"):
        talk.keys.send_text(typed)
    await until(lambda: "please write y or n" in talk.terminal.status())
    assert not answer.done()
    assert talk.answering.heard == []
    talk.keys.send_text("n\r")
    assert await answer == "no"


async def test_what_was_typed_ahead_is_no_answer(keys: PipeInput) -> None:
    async with talking(keys) as talk:
        answer = talk.ask()
        await talk.shows(ASK)
        keys.send_text("y\r")
        await until(lambda: "please write y or n" in talk.terminal.status())
        assert not answer.done()
        await asyncio.sleep(asking._TYPED_AHEAD)
        keys.send_text("y\r")
        assert await answer == "yes"


async def test_who_does_not_answer_in_time_said_nothing(talk: Talk) -> None:
    assert await talk.ask(seconds=0.2) == "nobody"
    await talk.shows("send_email: not answered in time")
    talk.keys.send_text("y\r")
    await until(lambda: talk.answering.heard == ["y"])  # the line is the person's again


async def test_a_turn_that_is_stopped_takes_its_question_back(talk: Talk) -> None:
    answer = talk.ask()
    await talk.shows(ASK)
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    await talk.shows("send_email: not needed any more")
    talk.keys.send_text("hello\r")
    await until(lambda: talk.answering.heard == ["hello"])


async def test_questions_at_once_come_one_after_another(talk: Talk) -> None:
    first, second = talk.ask("first"), talk.ask("second")
    await talk.shows("first")
    assert "second" not in talk.screen.getvalue()
    talk.keys.send_text("y\r")
    assert await first == "yes"
    await talk.shows("second")
    talk.keys.send_text("n\r")
    assert await second == "no"


async def test_about_somebody_else_nobody_is_asked(talk: Talk) -> None:
    question = Question("terminal:ana", "send_email", "Sends an email.", "", "1")
    assert await talk.terminal.approve(question, seconds=5) == "nobody"
    assert ASK not in talk.screen.getvalue()


async def test_strangers_words_in_a_question_do_not_drive_the_terminal(talk: Talk) -> None:
    before = len(talk.screen.getvalue())
    answer = talk.ask('to: "\x1b(0\x07\x9b2J\u202eAna"\n' + "x" * 5_000 + "the end")
    await talk.shows("the end")
    drawn = talk.screen.getvalue()[before:]
    for driving in ("\x1b(0", "\x07", "\x9b", "\u202e"):
        assert driving not in drawn
    assert "characters in the middle are not shown" in " ".join(drawn.split())
    talk.keys.send_text("n\r")
    assert await answer == "no"


async def test_leaving_while_something_is_asked_is_no_yes(keys: PipeInput) -> None:
    async with talking(keys) as talk:
        answer = talk.ask()
        await talk.shows(ASK)
        keys.send_text("\x04")
        await asyncio.sleep(0.05)
        answer.cancel()
        assert (await asyncio.gather(answer, return_exceptions=True))[0] != "yes"


# Cards.


def picture() -> Image:
    file = io.BytesIO()
    Pillow.new("RGB", (8, 8), "gold").save(file, "PNG")
    return Image("image/png", file.getvalue())


async def test_a_card_is_shown_with_its_picture(talk: Talk) -> None:
    card = Card("Lemon sugar", "Thin and hot.", (Field("Time", "20 minutes"),), picture())
    assert await talk.terminal.card(card, nonce="1") is None
    await talk.shows("╭ ")
    await talk.shows("Lemon sugar")
    await talk.shows("20 minutes")
    await talk.shows("▀")


@pytest.mark.parametrize("depth", [ColorDepth.DEPTH_1_BIT, ColorDepth.DEPTH_4_BIT])
async def test_without_colours_a_picture_is_told_of(keys: PipeInput, depth: ColorDepth) -> None:
    async with talking(keys, depth) as talk:
        await talk.terminal.card(Card("Lemon sugar", picture=picture()), nonce="1")
        await talk.shows("[picture: image/png, 1 kB]")
        assert "▀" not in talk.screen.getvalue()


async def test_a_picture_that_cannot_be_read_is_told_of(talk: Talk) -> None:
    await talk.terminal.card(Card("Lemon sugar", picture=Image("image/png", b"\x89PNG" * 300)), nonce="1")
    await talk.shows("[picture: image/png, 1 kB]")
