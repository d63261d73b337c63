"""What happens in the service reaches those who look on, and nobody waits for them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import asdict

from pixi.app import live_hub
from pixi.app.live_hub import KEPT_SECONDS, KEPT_TURNS, MOST_TALKS, LiveHub
from pixi.core.masking import SecretRedactor
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import scene, until

Form = dict[str, Any]
NOW = {"kind": "now"}
SECRET = "correct-horse-battery"


def hub(*secrets: str) -> LiveHub:
    mask = SecretRedactor()
    mask.learn(secrets)
    return LiveHub(mask)


def told(event: str, conversation: str = "a", *, turn: int = 1, **more: object) -> Form:
    """An event of a turn, as an engine tells it."""
    form = {
        "event": event,
        "conversation": conversation,
        "persona": "Pixi",
        "turn": turn,
        "at": 0.0,
        "step": 1,
    }
    if event == "turn_start":
        form |= {"model": "m", "began": 1.0, "answers": []}
    return {**form, **more}


def text(said: str, offset: int = 0, conversation: str = "a") -> Form:
    return told("text", conversation, text=said, offset=offset)


async def taken(events: AsyncGenerator[Form, None], count: int) -> list[Form]:
    """The next events, without what tells that all which was kept has come."""
    seen: list[Form] = []
    while len(seen) < count:
        form = await anext(events)
        seen += [form] if form != NOW else []
    return seen


async def caught_up(events: AsyncGenerator[Form, None]) -> list[Form]:
    """What was kept."""
    seen: list[Form] = []
    while (form := await anext(events)) != NOW:
        seen.append(form)
    return seen


def words(forms: list[Form]) -> str:
    return "".join(form["text"] for form in forms if form.get("event") == "text")


async def test_whoever_comes_in_mid_turn_sees_it_from_its_beginning() -> None:
    here = hub()
    model = ScriptedModel(["[SEND: one]\n", going := asyncio.Event(), "[SEND: two]"])
    async with scene(model) as there, aclosing(here.follow(["turn"])) as late:
        there.engine.settings.observers.append(here.observe)
        await there.say("hi")
        await until(lambda: there.channel.sent == ["one"])
        seen = await caught_up(late)
        assert seen[0]["event"] == "turn_start"
        assert words(seen) == "[SEND: one]\n"
        going.set()
        await there.engine.settled()
        while seen[-1]["event"] != "turn_end":
            seen += await taken(late, 1)
    assert words(seen) == "[SEND: one]\n[SEND: two]"
    assert [form["name"] for form in seen if form["event"] == "close"] == ["send", "send"]


async def test_pieces_of_text_that_follow_each_other_are_kept_as_one() -> None:
    here = hub()
    here.observe(told("turn_start"))
    for at in range(2_000):
        here.observe(text("x", at))
    here.observe(told("open", number=0, name="send", offset=0))
    here.observe(text("y", 2_000))
    async with aclosing(here.follow(conversation="a")) as events:
        seen = await taken(events, 4)
    assert [form["event"] for form in seen] == ["turn_start", "text", "open", "text"]
    assert words(seen) == "x" * 2_000 + "y"


async def test_the_last_turns_of_one_talk_are_kept_and_of_all_talks_those_under_way() -> None:
    here = hub()
    for turn in range(1, KEPT_TURNS + 3):
        here.observe(told("turn_start", turn=turn))
        here.observe(told("turn_end", turn=turn, finish="stop"))
    here.observe(told("turn_start", "b", turn=99))
    async with aclosing(here.follow(["turn"], conversation="a")) as events:
        seen = await taken(events, 2 * KEPT_TURNS)
    assert sorted({form["turn"] for form in seen}) == list(range(3, KEPT_TURNS + 3))
    async with aclosing(here.follow(["turn"])) as events:
        assert (await anext(events))["turn"] == 99


async def test_a_talk_whose_words_were_dropped_takes_no_place_of_another() -> None:
    live = hub()
    for number in range(MOST_TALKS // 4 + 1):  # one more than is kept
        live.observe(told("turn_start", str(number)))
    for dropped in (text("Hi", conversation="0"), told("open", "0", number=0, name="send", offset=0)):
        live.observe(dropped)

    for conversation, kept in (("0", []), ("1", ["turn_start"])):
        async with aclosing(live.follow(conversation=conversation)) as events:
            assert [form["event"] for form in await caught_up(events)] == kept


async def test_one_who_reads_too_slowly_is_told_and_gets_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_hub, "MOST_WAITING", 10)
    here = hub()
    async with aclosing(here.follow(["turn"])) as slow:
        here.observe(told("turn_start"))
        assert (await taken(slow, 1))[0]["event"] == "turn_start"
        for at in range(50):
            here.observe(text("x", at))
        assert await anext(slow) == {"kind": "missed"}
        seen = await caught_up(slow)
        here.observe(text("y", 50))
        seen += await taken(slow, 1)
    assert [form["event"] for form in seen] == ["turn_start", "text", "text"]
    assert words(seen) == "x" * 50 + "y"


async def test_only_what_is_asked_for_comes() -> None:
    here = hub()
    async with aclosing(here.follow(["health", "talk"], persona="Edda")) as events:
        assert await caught_up(events) == []
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        here.publish("log", {"line": "x"})
        here.observe(told("turn_start"))
        here.observe(told("turn_start", persona="Edda", answers=[{"text": "no word of this"}]))
        assert await waiting == {"kind": "talk", **asdict(here.talks[0])}
        here.publish("health", {"lag": 1})
        assert await anext(events) == {"kind": "health", "lag": 1}


@pytest.mark.parametrize("size", [1, 2, 5, 100])
async def test_secrets_are_hidden_however_they_are_cut(size: int) -> None:
    here = hub(SECRET, "another")
    here.observe(told("turn_start", answers=[{"text": f"is it {SECRET}?"}]))
    said = f"[SEND: it is {SECRET}, or not; correct]"
    for at in range(0, len(said), size):
        here.observe(text(said[at : at + size], at))
    here.observe(told("answered"))
    here.observe(told("effect", text=SECRET))
    async with aclosing(here.follow(conversation="a")) as events:
        start, *seen = await taken(events, 4)
    assert SECRET not in str([start, *seen])
    assert words(seen) == said.replace(SECRET, "•" * len(SECRET)), "offsets still fit"


async def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_hidden_too() -> None:
    here = hub(SECRET)
    here.observe(told("turn_start"))
    here.observe(text(f"it is {SECRET[:-1]}"))
    here.observe(told("answered"))
    async with aclosing(here.follow(conversation="a")) as events:
        seen = await taken(events, 3)
    assert words(seen) == "it is " + "•" * (len(SECRET) - 1)


@pytest.mark.usefixtures("clock")
async def test_words_are_dropped_after_a_long_silence() -> None:
    here = hub()
    here.observe(told("turn_start"))
    here.observe(text("hello"))
    here.observe(told("turn_end", finish="stop"))
    await asyncio.sleep(KEPT_SECONDS - 1)
    here.observe(told("turn_start", "b"))
    await asyncio.sleep(2)
    async with aclosing(here.follow(["turn"], conversation="a")) as events:
        assert await caught_up(events) == []
    async with aclosing(here.follow(["turn"], conversation="b")) as events:
        assert (await anext(events))["event"] == "turn_start"
    assert [talk.conversation for talk in here.talks] == ["b", "a"], "that there was a talk is known"


async def test_what_is_forgotten_is_dropped_at_once() -> None:
    here = hub()
    async with scene(ScriptedModel("[SEND: one]"), channel=RecordingChannel("a")) as there:
        there.engine.settings.observers.append(here.observe)
        await there.talk("hi")
        await there.engine.reset("a")
    async with aclosing(here.follow(["turn"], conversation="a")) as events:
        assert await caught_up(events) == []
