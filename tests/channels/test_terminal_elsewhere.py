"""A window whose talk is open in another one asks first, and hands nothing on until it has the talk."""

import asyncio
import io
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from prompt_toolkit.input import PipeInput

from pixi.channels.terminal import asking, live
from pixi.channels.terminal.lines import LinesChannel, say
from pixi.core.channel import TAKEN_OVER, Channel, OpenChannel
from pixi.core.errors import LeaseHeld, StoreError
from pixi.core.events import Failed, Opened, Sent, TurnEnded
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.store.kept import Effect, TurnRecord
from tests.channels.test_terminal_asking import SEAT, Silent, Talk, talking
from tests.held_clock import HeldClock
from tests.waiting import until

ASK = "Take it over? (Enter/q)"
HOW = "Enter takes the talk over, q leaves"


@dataclass
class Elsewhere(Silent):
    """Answers nothing, and can be in another window."""

    elsewhere: bool = True
    quicker: bool = False
    trouble: StoreError | None = None
    calls: list[str] = field(default_factory=list)
    told: tuple[TurnRecord, ...] = ()
    resuming: Callable[[Channel, float], None] = lambda channel, since: None

    async def owned_elsewhere(self, conversation: str) -> bool:
        self.calls.append("looked")
        if self.trouble:
            raise self.trouble
        return self.elsewhere

    async def own(self, conversation: str, *, seconds: float = 0.0) -> None:
        self.calls.append("own")
        if self.quicker:
            self.quicker, self.elsewhere = False, True
            raise LeaseHeld("Another process is answering.")

    async def take_over(self, conversation: str) -> None:
        self.calls.append("take over")
        self.elsewhere = False

    async def resume(self, prefix: str, since: float, open_channel: OpenChannel) -> None:
        assert prefix == SEAT.conversation
        channel = await open_channel(prefix)
        assert channel is not None
        self.resuming(channel, since)

    async def turns(self, conversation: str, limit: int) -> tuple[TurnRecord, ...]:
        return self.told


@pytest.fixture
def other() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
async def window(keys: PipeInput, other: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talk]:
    monkeypatch.setattr(asking, "_TYPED_AHEAD", 0.0)
    monkeypatch.setattr(live, "_LOOK_SECONDS", 0.01)
    async with talking(keys, answering=other) as there:
        yield there


async def test_it_is_asked_and_taken_over_with_enter_alone(window: Talk, other: Elsewhere) -> None:
    await window.shows("? This talk is open in another window.")
    await window.shows(ASK)
    assert window.terminal.status() == HOW
    assert "take over" not in other.calls
    window.keys.send_text("\r")
    await window.shows("· the talk goes on here")
    window.keys.send_text("hello\r")
    await until(lambda: other.heard == ["hello"])
    assert other.calls.count("take over") == 1


@pytest.mark.parametrize("keys_typed", ["q\r", "Q\r", "/quit\r", "\x03", "\x04"])
async def test_one_may_leave_instead(window: Talk, other: Elsewhere, keys_typed: str) -> None:
    await window.shows(ASK)
    window.keys.send_text(keys_typed)
    await window.left()
    assert "take over" not in other.calls
    assert "goes on here" not in window.screen.getvalue()


async def test_what_was_written_instead_of_an_answer_is_sent_to_nobody_and_comes_back(
    window: Talk, other: Elsewhere
) -> None:
    await window.shows(ASK)
    window.keys.send_text("hello\r")
    await until(lambda: window.terminal.status().startswith("not sent: Enter takes the talk over"))
    window.keys.send_text("there\r\r")
    await window.shows("· the talk goes on here")
    assert other.heard == []
    window.keys.send_text("\r")
    await until(lambda: other.heard == ["hello there"])


async def test_what_was_sent_while_it_loaded_waits_for_the_answer(window: Talk, other: Elsewhere) -> None:
    window.terminal.entered("typed ahead")
    await window.shows(ASK)
    await until(lambda: other.calls.count("looked") > 5)
    assert other.heard == []
    window.keys.send_text("\r")
    await until(lambda: other.heard == ["typed ahead"])


async def test_an_idle_window_says_that_its_talk_was_taken_and_gives_the_line_back_as_it_was(
    window: Talk, other: Elsewhere
) -> None:
    other.elsewhere = False
    await window.shows("· it ended there: the talk goes on here")
    window.keys.send_text("half a ")
    await window.shows("half a")
    other.elsewhere = True
    await window.shows(f"? {TAKEN_OVER}")
    await until(lambda: window.terminal.status() == HOW)
    window.keys.send_text("\r")
    await window.shows("· the talk goes on here")
    window.keys.send_text("message\r")
    await until(lambda: other.heard == ["half a message"])


async def test_a_reply_that_was_cut_is_told_of_once(window: Talk, other: Elsewhere) -> None:
    window.keys.send_text("\r")
    await window.shows("· the talk goes on here")
    window.keys.send_text("hi\r")
    await until(lambda: other.heard == ["hi"])
    window.terminal.show(Opened("send", "message"))
    other.elsewhere = True
    window.terminal.show(Failed(TAKEN_OVER))
    window.terminal.show(TurnEnded("cancelled", 1))
    await window.shows(f"? {TAKEN_OVER}")
    await until(lambda: window.terminal.status() == HOW)
    assert window.screen.getvalue().count(TAKEN_OVER) == 1


async def test_what_is_entered_just_as_another_takes_the_talk_waits_until_it_is_back_and_no_longer(
    window: Talk, other: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.keys.send_text("\r")
    await until(lambda: "take over" in other.calls)
    other.elsewhere = True
    window.terminal.entered("just now")
    await until(lambda: window.terminal.status() == HOW)
    assert other.heard == []
    monkeypatch.setattr(live, "_LOOK_SECONDS", math.inf)
    window.keys.send_text("\r")
    await until(lambda: other.heard == ["just now"])


async def test_who_was_quicker_is_asked_about(keys: PipeInput, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_TYPED_AHEAD", 0.0)
    late = Elsewhere(elsewhere=False, quicker=True)
    async with talking(keys, answering=late) as there:
        await there.shows(ASK)
        keys.send_text("\r")
        await until(lambda: [call for call in late.calls if call != "looked"] == ["own", "take over"])
        await there.shows("· the talk goes on here")


async def test_a_store_that_cannot_be_asked_asks_nobody(window: Talk, other: Elsewhere) -> None:
    window.keys.send_text("\r")
    await window.shows("· the talk goes on here")
    other.trouble = StoreError("The store is locked.")
    looks = other.calls.count("looked")
    await until(lambda: other.calls.count("looked") > looks + 5)
    window.keys.send_text("hi\r")
    await until(lambda: other.heard == ["hi"])
    assert window.screen.getvalue().count("another window") == 1


def turn(began: float, *said: str) -> TurnRecord:
    lines = (UserLine("> hi"), AssistantLine("[SEND: …]"))
    effects = tuple(
        Effect(1, at, "send", text.rstrip("?"), "unknown" if text.endswith("?") else "done")
        for at, text in enumerate(said)
    )
    return TurnRecord(
        1, SEAT.conversation, "Pixi", "m", began, "cancelled", 1, Usage(), None, (), lines, effects
    )


async def test_what_was_left_half_done_is_finished_below_what_was_said_and_then_goes_on(
    keys: PipeInput,
) -> None:
    def resuming(channel: Channel, since: float) -> None:
        if since == math.inf:
            channel.show(Sent("beta"))
        else:
            channel.show(Sent("gamma"))

    left = Elsewhere(elsewhere=False, told=(turn(1.0, "alpha", "perhaps?", "beta"),), resuming=resuming)
    async with talking(keys, answering=left) as there:
        await there.shows("gamma")
        shown = [line.strip() for line in there.plain.split("\n")]
    # What is drawn before all of it is there is drawn again below.
    assert [line for line in shown if " › " in line and "goes on" not in line][-5:] == [
        "mo › hi",
        "Pixi › alpha",
        "Pixi › perhaps (nobody knows whether you saw this)",
        "Pixi › beta",
        "Pixi › gamma",
    ]


class Held(Silent):
    """Is in the midst of a reply elsewhere, for so many seconds by the held clock."""

    def __init__(self, clock: HeldClock, seconds: float) -> None:
        super().__init__()
        self._ends = clock.time() + seconds
        self._clock = clock

    async def own(self, conversation: str, *, seconds: float = 0.0) -> None:
        left = self._ends - self._clock.time()
        await asyncio.sleep(min(left, seconds))
        if left > seconds:
            raise LeaseHeld("Another process is answering.")

    async def settled(self, conversation: str) -> None:
        """Nothing is to be done."""


@pytest.mark.parametrize(("seconds", "waited", "told"), [(0.0, 0.0, 0), (0.9, 0.9, 0), (12.0, 12.0, 1)])
async def test_a_pipe_waits_for_a_reply_and_says_so_after_a_moment(
    clock: HeldClock, seconds: float, waited: float, told: int
) -> None:
    answering: Any = Held(clock, seconds)
    err, began = io.StringIO(), clock.time()
    channel = LinesChannel(io.StringIO(), err)
    for line in ("hi", "ho"):
        await say(line, SEAT, answering, channel)
    assert answering.heard == ["hi", "ho"]
    assert clock.time() - began == pytest.approx(waited)
    assert err.getvalue().count("it is waited for, 30 s at most") == told


async def test_a_pipe_waits_thirty_seconds_and_no_longer(clock: HeldClock) -> None:
    answering: Any = Held(clock, 31.0)
    began = clock.time()
    with pytest.raises(LeaseHeld, match="in another window of this talk, and did not end in 30 s"):
        await say("hi", SEAT, answering, LinesChannel(io.StringIO(), io.StringIO()))
    assert answering.heard == []
    assert clock.time() - began == pytest.approx(30.0)


async def test_a_pipe_whose_talk_was_taken_over_has_failed() -> None:
    err = io.StringIO()
    channel = LinesChannel(io.StringIO(), err)
    channel.show(Failed(TAKEN_OVER))
    channel.show(TurnEnded("cancelled", 1))
    assert channel.failed
    assert err.getvalue() == f"pixi-persona: {TAKEN_OVER}\n"
