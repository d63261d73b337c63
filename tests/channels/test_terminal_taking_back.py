"""Who sits at the terminal takes back what was said last: to have it answered anew, changed, or left out."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput
from prompt_toolkit.output.vt100 import Vt100_Output

from pixi.channels.terminal import asking
from pixi.channels.terminal.lines import seat
from pixi.channels.terminal.live import LiveTerminal
from pixi.core.errors import LeaseHeld, ModelError, Reporter
from pixi.core.llm import UserLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.engine.engine import Engine
from pixi.testing import ScriptedModel
from tests.channels.test_terminal_asking import SEAT, SEQUENCES, Silent, talking
from tests.waiting import until

NOTHING = "There is no message of yours in this talk."


@dataclass
class Sitting:
    """A terminal with a real engine, the keys that are typed at it, and what it drew."""

    keys: PipeInput
    screen: io.StringIO
    model: ScriptedModel
    engine: Engine
    terminal: LiveTerminal

    def enter(self, line: str) -> None:
        self.keys.send_text(f"{line}\r")

    async def shows(self, text: str, *, times: int = 1) -> None:
        await until(lambda: SEQUENCES.sub("", self.screen.getvalue()).count(text) >= times, text)

    async def answers(self, text: str) -> None:
        """Wait until the persona has said this, and nothing more is to come."""
        await self.shows(f"Pixi › {text}")
        await until(lambda: not self.terminal.busy, "the end of the reply")

    def asked(self) -> list[str]:
        """What people had said that the model was shown last."""
        lines = (line for line in self.model.requests[-1].lines if isinstance(line, UserLine))
        return [line.text.rpartition("> ")[2] for line in lines]


@pytest.fixture
async def sitting(keys: PipeInput) -> AsyncIterator[Sitting]:
    model, screen = ScriptedModel(), io.StringIO()
    engine = Engine(model=model, persona=Persona("Pixi", "You are Pixi."))

    @asynccontextmanager
    async def opened(progress: Reporter, report: Reporter, remark: Reporter) -> AsyncGenerator[Engine, None]:
        async with engine:
            yield engine

    output = Vt100_Output(screen, lambda: Size(rows=40, columns=70), term="xterm")
    with create_app_session(input=keys, output=output):
        terminal = LiveTerminal(seat("pixi", "mo"), "Pixi", "hello", InMemoryHistory(), notes=False)
        running = asyncio.create_task(terminal.run(opened))
        there = Sitting(keys, screen, model, engine, terminal)
        await there.shows("mo ›")
        yield there
        keys.send_text("\x04")
        await running


async def test_a_message_is_answered_anew(sitting: Sitting) -> None:
    sitting.model.add("[SEND: oh]", "[SEND: gulls]", "[REACT: 🐈][SEND: pelicans]")
    sitting.enter("hello")
    await sitting.answers("oh")
    sitting.enter("who flies there?")
    await sitting.answers("gulls")
    sitting.enter("/retry")
    await sitting.shows("· set aside; once more:")
    await sitting.shows("mo › who flies there?   🐈")
    await sitting.answers("pelicans")
    assert sitting.asked() == ["hello", "who flies there?"]
    assert "gulls" not in str(sitting.model.requests[-1].lines)
    assert "gulls" in str(await sitting.engine.export(SEAT.author.id))


async def test_a_message_is_changed_and_answered_anew(sitting: Sitting) -> None:
    sitting.model.add("[SEND: gulls]", "[SEND: herrings]", "[SEND: plaice]")
    sitting.enter("who flies there?")
    await sitting.answers("gulls")
    sitting.enter("/edit  who /swims  there?")
    await sitting.shows("· set aside; with another text:")
    await sitting.shows("mo › who /swims  there?")
    await sitting.answers("herrings")
    assert sitting.asked() == ["who /swims  there?"]
    sitting.enter("/edit")
    await sitting.shows("mo › /edit who /swims  there?")
    sitting.keys.send_text("\x7f, and where?\r")
    await sitting.answers("plaice")
    assert sitting.asked() == ["who /swims  there, and where?"]


async def test_messages_are_taken_out_one_by_one(sitting: Sitting) -> None:
    sitting.model.add("[SEND: one]", "[SEND: two]", "[SEND: three]")
    for said, answer in (("first", "one"), ("second", "two")):
        sitting.enter(said)
        await sitting.answers(answer)
    sitting.enter("/undo")
    await sitting.shows("· taken out with its answer: second")
    sitting.enter("/undo")
    await sitting.shows("· taken out with its answer: first")
    sitting.enter("/undo")
    await sitting.shows(NOTHING)
    sitting.enter("third")
    await sitting.answers("three")
    assert sitting.asked() == ["third"]


async def test_what_was_entered_after_it_comes_after_it(sitting: Sitting) -> None:
    sitting.model.add("[SEND: one]", "[SEND: two]", "[SEND: three]", "[SEND: three]")
    sitting.enter("first")
    await sitting.answers("one")
    sitting.keys.send_text("/undo\rsecond\r")
    await sitting.answers("two")
    assert sitting.asked() == ["second"]
    sitting.keys.send_text("/retry\rthird\r")
    await until(lambda: "third" in str(sitting.model.requests[-1].lines))
    said = str(sitting.model.requests[-1].lines)
    assert "first" not in said
    assert said.index("second") < said.index("third")


async def test_where_nothing_was_said_that_is_told(sitting: Sitting) -> None:
    for times, command in enumerate(("/retry", "/edit", "/edit hello", "/undo"), 1):
        sitting.enter(command)
        await sitting.shows(NOTHING, times=times)
    assert sitting.model.requests == []


async def test_a_reply_that_is_being_written_is_stopped_first(sitting: Sitting) -> None:
    sitting.model.add(["[SEND: one][SEND: two", asyncio.Event()], "[SEND: three]")
    sitting.enter("hello")
    await sitting.shows("Pixi › one")
    await sitting.shows("two▌")
    sitting.enter("/retry")
    await sitting.shows("two … (stopped)")
    await sitting.answers("three")
    assert sitting.asked() == ["hello"]
    assert sitting.model.streaming == 0


async def test_messages_that_one_reply_answered_go_together(sitting: Sitting) -> None:
    sitting.engine.settings.gather_seconds = 0.05
    sitting.model.add("[SEND: both]", "[SEND: again]")
    sitting.keys.send_text("one\rtwo\r")
    await sitting.answers("both")
    sitting.enter("/edit three")
    await sitting.answers("again")
    assert "".join(sitting.asked()).endswith("three")
    sitting.enter("/undo")
    await sitting.shows("· taken out with their answer: one / three")


async def test_what_failed_can_be_tried_again(sitting: Sitting) -> None:
    sitting.model.add([ModelError("Nobody answers there.", permanent=True)], "[SEND: here]")
    sitting.enter("hello")
    await sitting.shows("Nobody answers there.")
    sitting.enter("/retry")
    await sitting.answers("here")


async def test_who_is_forgotten_is_forgotten_with_what_was_set_aside(sitting: Sitting) -> None:
    sitting.model.add("[NOTE: they draw][SEND: one]", "[SEND: two]")
    sitting.enter("my canary")
    await sitting.answers("one")
    sitting.enter("/undo")
    await sitting.shows("· taken out")
    kept = str(await sitting.engine.export(SEAT.author.id))
    assert "my canary" in kept
    assert "they draw" in kept
    sitting.enter("/forget me yes")
    await sitting.shows("You are forgotten.")
    assert (await sitting.engine.export(SEAT.author.id))["conversations"] == []


class Busy(Silent):
    """Is answering in another window."""

    async def take_back(self, conversation: str) -> tuple[Message, ...]:
        raise LeaseHeld("Another process is answering.")


async def test_where_it_is_not_possible_that_is_told_and_the_talk_goes_on(keys: PipeInput) -> None:
    async with talking(keys, answering=Busy()) as talk:
        keys.send_text("/undo\rhello\r")
        await talk.shows("Another process is answering.")
        await until(lambda: talk.answering.heard == ["hello"])


async def test_a_window_without_the_talk_takes_nothing_out_of_it(
    keys: PipeInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has taken the talk over."""
    monkeypatch.setattr(asking, "_TYPED_AHEAD", 0.0)
    asked: list[str] = []

    class Elsewhere(Silent):
        async def owned_elsewhere(self, conversation: str) -> bool:
            return True

        async def take_back(self, conversation: str) -> tuple[Message, ...]:
            asked.append(conversation)
            return ()

    async with talking(keys, answering=Elsewhere()) as talk:
        await talk.shows("This talk is open in another window.")
        talk.terminal.entered("/undo")
        talk.keys.send_text("q\r")
        await talk.left()
    assert asked == []


async def test_one_may_go_back_to_what_was_set_aside(sitting: Sitting) -> None:
    sitting.model.add("[SEND: gulls]", "[SEND: pelicans]", "[SEND: yes]", "[SEND: they sleep]")
    sitting.enter("/branches")
    await sitting.shows("Nothing was taken out of this talk.")
    sitting.enter("who flies there?")
    await sitting.answers("gulls")
    sitting.enter("/retry")
    await sitting.answers("pelicans")
    sitting.enter("are they white?")
    await sitting.answers("yes")
    sitting.enter("/branches")
    await sitting.shows("/branches NUMBER goes back to one of these:")
    await sitting.shows("mo › who flies there? · Pixi › gulls")
    sitting.enter("/branches 99")
    await sitting.shows("There is no branch 99; /branches lists them.")
    sitting.enter("/branches 1")
    await sitting.shows("Your talk goes on; this was today, ")
    await sitting.shows("Pixi › gulls", times=3)
    sitting.enter("what do they do?")
    await sitting.answers("they sleep")
    assert sitting.asked() == ["who flies there?", "what do they do?"]
    assert "pelicans" not in str(sitting.model.requests[-1].lines)
    sitting.enter("/branches")
    await sitting.shows("· Pixi › pelicans")


async def test_nothing_of_a_talk_that_was_reset_can_be_gone_back_to(sitting: Sitting) -> None:
    sitting.model.add("[SEND: gulls]")
    sitting.enter("who flies there?")
    await sitting.answers("gulls")
    sitting.enter("/undo")
    await sitting.shows("· taken out")
    sitting.enter("/reset")
    await sitting.shows("The conversation is forgotten.")
    sitting.enter("/branches")
    await sitting.shows("Nothing was taken out of this talk.")
