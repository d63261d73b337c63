"""Messages come at the pace of somebody who types them, where a channel keeps one; the stream never waits."""

from typing import Any

import pytest

from pixi.core.events import Failed
from pixi.core.persona import Pace, Persona
from pixi.core.spending import Limits
from pixi.engine.turn_actions import typing_seconds
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import PIXI, Scene, scene
from tests.held_clock import HeldClock
from tests.waiting import until

NEVER = 1_000.0


def paced() -> RecordingChannel:
    return RecordingChannel(paced=True)


class Timed(RecordingChannel):
    """Notes when each message came, in seconds since it was made."""

    def __init__(self, clock: HeldClock) -> None:
        super().__init__(paced=True)
        self._clock = clock
        self._began = clock.time()
        self.at: list[float] = []

    async def send(self, text: str, **how: Any) -> str | None:
        self.at.append(self._clock.time() - self._began)
        return await super().send(text, **how)


@pytest.fixture
def slow_typist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typing takes ages: whoever waits for it waits for something else too."""
    monkeypatch.setattr("pixi.engine.turn_actions.typing_seconds", lambda _, pace: NEVER * (pace != "off"))


def test_longer_texts_take_longer_and_none_takes_long() -> None:
    paces: list[tuple[Pace, float]] = [("brisk", 2.5), ("human", 8.0)]
    for pace, most in paces:
        seconds = [typing_seconds("x" * length, pace) for length in (1, 10, 50, 10_000)]
        assert seconds == sorted(seconds)
        assert 0 < seconds[0] < seconds[1]
        assert seconds[-1] == most
    assert typing_seconds("hello there", "brisk") < typing_seconds("hello there", "human")
    assert typing_seconds("hello there", "off") == 0


@pytest.mark.parametrize("text", ["今日はパンケーキを作りました", "오늘은 팬케이크를 만들었어요"])
def test_a_character_of_some_scripts_is_worth_several_letters(text: str) -> None:
    assert typing_seconds(text, "human") > 1.5 * typing_seconds("x" * len(text), "human")
    assert typing_seconds("Ärger, Жук", "human") == typing_seconds("x" * 10, "human")


async def test_a_message_is_posted_when_it_would_be_typed(
    clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.engine.turn_actions.typing_seconds", lambda text, _: 0.5 * len(text))
    channel = Timed(clock)
    async with scene(ScriptedModel("[SEND: abcd]\n[SEND: ab]"), channel=channel) as here:
        await here.talk("hello")
        assert channel.sent == ["abcd", "ab"]
        assert channel.at == [2.0, 3.0]


@pytest.mark.parametrize(("takes", "posted"), [(1.5, 2.0), (2.5, 2.5)])
async def test_the_time_that_the_model_took_to_write_it_counts(
    clock: HeldClock, monkeypatch: pytest.MonkeyPatch, takes: float, posted: float
) -> None:
    monkeypatch.setattr("pixi.engine.turn_actions.typing_seconds", lambda *_: 2.0)
    channel = Timed(clock)
    async with scene(ScriptedModel(["[SEND: a", takes, "b]"]), channel=channel) as here:
        await here.talk("hello")
        assert (channel.sent, channel.at) == (["ab"], [posted])


@pytest.mark.parametrize(
    ("setting", "own", "waits"),
    [("persona", "human", True), ("persona", "off", False), ("off", "human", False), ("brisk", "off", True)],
)
@pytest.mark.usefixtures("slow_typist")
async def test_the_pace_is_the_personas_unless_there_is_one_for_all(
    setting: Pace, own: Pace, waits: bool
) -> None:
    persona = Persona("Pixi", "x", pace=own)
    async with scene(ScriptedModel("[SEND: a]"), persona=persona, pace=setting, channel=paced()) as here:
        message = await here.say("hello")
        if waits:
            await until(lambda: here.model.streaming == 0 and here.channel.typed > 0)
            assert here.channel.sent == []
            await here.engine.stop(message.conversation)
        else:
            await here.engine.settled()
            assert here.channel.sent == ["a"]


@pytest.mark.usefixtures("slow_typist")
async def test_a_channel_that_keeps_no_pace_gets_messages_at_once() -> None:
    async with scene(ScriptedModel("[SEND: a]"), pace="human") as here:
        await here.talk("hello")
        assert here.channel.sent == ["a"]


async def waiting(here: Scene) -> None:
    """Until a whole message waits to be posted."""
    await until(lambda: here.model.streaming == 0 and here.channel.typed > 0)
    assert here.channel.sent == []


@pytest.mark.usefixtures("slow_typist")
async def test_a_stop_cuts_the_waiting_short_and_says_nothing(clock: HeldClock) -> None:
    async with scene(ScriptedModel("[SEND: a]"), channel=paced()) as here:
        message = await here.say("hello")
        await waiting(here)
        began = clock.time()
        await here.engine.stop(message.conversation)
        assert clock.time() == began
        assert here.channel.sent == []
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]


@pytest.mark.usefixtures("slow_typist")
async def test_at_the_turns_deadline_what_is_typed_is_posted_and_no_excuse_made() -> None:
    limits = Limits(seconds=60)
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]"), channel=paced(), limits=limits) as here:
        await here.talk("hello")
        assert here.channel.sent == ["a"]
        assert not [event for event in here.channel.events if isinstance(event, Failed)]
        assert here.channel.ended[0].finish == "limit"


@pytest.mark.usefixtures("slow_typist")
async def test_what_waits_to_be_posted_was_not_seen_so_a_newer_message_is_answered_along(
    store: SqliteStore,
) -> None:
    async with scene(ScriptedModel("[SEND: a]", "[SEND: both]"), channel=paced(), store=store) as here:
        await here.say("one")
        await waiting(here)
        here.engine.settings.pace = "off"
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["both"]
        assert "one" in here.history()[-1].text
        (record,) = await store.turns(here.channel.conversation, 5)
        assert [effect.payload for effect in record.effects] == ["both"]


@pytest.mark.usefixtures("slow_typist")
async def test_pace_limits_and_prose_may_be_set_anew_for_the_turns_that_follow() -> None:
    async with scene(ScriptedModel("[SEND: a] b [SEND: c]", "[SEND: a] b"), channel=paced()) as here:
        engine_settings = here.engine.settings
        engine_settings.pace, engine_settings.limits = "off", Limits(messages=1)
        await here.talk("one")
        assert here.channel.sent == ["a"]
        engine_settings.limits, engine_settings.prose = Limits(), "send"
        await here.talk("two")
        assert here.channel.sent[1:] == ["a", "b"]


def test_a_personas_own_pace_is_brisk() -> None:
    assert PIXI.pace == "brisk"
