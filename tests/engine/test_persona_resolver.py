"""One engine plays many roles: who speaks on which model is asked anew for each turn."""

import asyncio

import pytest
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.events import Failed
from pixi.core.llm import AssistantLine, SystemLine
from pixi.core.message import Abilities
from pixi.core.persona import Persona
from pixi.engine import context
from pixi.engine.context import Role
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import PIXI, scene
from tests.waiting import until

MO = Persona("Mo", "You are Mo, who sails.")


class Stock:
    """Casts as it is told."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.others: dict[str, Role] = {}

    def __call__(self, conversation: str) -> Role:
        return self.others.get(conversation, self.role)


def told(model: ScriptedModel, request: int = -1) -> str:
    line = model.requests[request].lines[0]
    assert isinstance(line, SystemLine)
    return line.text


async def test_each_conversation_has_its_own_persona_and_model() -> None:
    one, two = ScriptedModel("[SEND: ahoy]"), ScriptedModel("[SEND: hi]")
    resolver = Stock(Role(PIXI, two))
    resolver.others["test:sea"] = Role(MO, one)
    async with scene(ScriptedModel(), resolver=resolver) as here:
        sea = RecordingChannel("test:sea")
        await here.engine.receive(sea.message("who are you?"), sea)
        await here.talk("who are you?")
        assert (sea.sent, here.channel.sent) == (["ahoy"], ["hi"])
        assert "who sails" in told(one)
        assert "art student" in told(two)


async def test_a_persona_and_a_model_chosen_meanwhile_take_effect_with_the_next_turn(
    store: SqliteStore,
) -> None:
    one, two = ScriptedModel("[SEND: a]", "[SEND: b]"), ScriptedModel("[SEND: c]", "[SEND: d]")
    resolver = Stock(Role(PIXI, one))
    async with scene(ScriptedModel(), resolver=resolver, store=store) as here:
        await here.talk("1")
        resolver.role = Role(replace(PIXI, prompt="You have learned to sail."), one)
        await here.talk("2")
        assert "learned to sail" in told(one)
        assert AssistantLine("[SEND: a]") in one.requests[-1].lines
        resolver.role = Role(MO, two)
        await here.talk("3", "4")
        assert here.channel.sent == ["a", "b", "c", "d"]
        assert two.requests[1].lines[: len(two.requests[0].lines)] == two.requests[0].lines
        assert AssistantLine("[SEND: b]") in two.requests[0].lines
        records = await store.turns(here.channel.conversation, 9)
        assert [record.persona for record in records] == ["Pixi", "Pixi", "Mo", "Mo"]
        assert {record.model for record in records} == {"scripted"}


async def test_a_turn_under_way_keeps_its_role() -> None:
    go_on = asyncio.Event()
    one, two = ScriptedModel(["[SEND: a]", go_on, "[SEND: b]"]), ScriptedModel("[SEND: c]")
    resolver = Stock(Role(PIXI, one))
    async with scene(ScriptedModel(), resolver=resolver) as here:
        await here.say("1")
        await until(lambda: here.channel.sent == ["a"])
        resolver.role = Role(MO, two)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]


async def test_a_smaller_model_sees_a_smaller_window_and_a_larger_one_all_of_it_again() -> None:
    large = ScriptedModel(*["[SEND: yes]"] * 12)
    small = ScriptedModel("[SEND: hm]", traits=Traits(context_tokens=700))
    resolver = Stock(Role(PIXI, large))
    async with scene(ScriptedModel(), resolver=resolver) as here:
        await here.talk(*(f"tell me {number} " + "x" * 100 for number in range(11)))
        resolver.role = Role(PIXI, small)
        await here.talk("and now?")
        resolver.role = Role(PIXI, large)
        await here.talk("and now?")
        assert len(small.requests[-1].lines) < len(large.requests[-2].lines) < len(large.requests[-1].lines)
        assert "tell me 0" in large.requests[-1].lines[1].text


async def test_what_was_overheard_before_the_role_changed_is_told_once() -> None:
    one, two = ScriptedModel("[SEND: a]"), ScriptedModel("[SEND: b]", "[SEND: c]")
    resolver = Stock(Role(PIXI, one))
    async with scene(ScriptedModel(), resolver=resolver) as here:
        await here.talk("1")
        await here.say("by the way", author="Ana", addressed=False)
        resolver.role = Role(MO, two)
        await here.talk("2", "3")
        assert here.channel.sent == ["a", "b", "c"]
        said = [line.text for line in two.requests[-1].lines]
        assert sum("by the way" in text for text in said) == 1


async def test_a_role_that_cannot_be_played_is_told_of_and_the_message_waits(store: SqliteStore) -> None:
    model = ScriptedModel("[SEND: both]")
    resolver = Stock(Role(replace(PIXI, tools=("moon",)), model))
    async with scene(ScriptedModel(), resolver=resolver, store=store) as here:
        message = await here.say("one")
        await here.engine.settled()
        (failed,) = [event.text for event in here.channel.events if isinstance(event, Failed)]
        assert "no tool 'moon'" in failed
        assert [waiting.id for waiting in (await store.load(message.conversation)).waiting] == [message.id]
        resolver.role = Role(PIXI, model)
        await here.talk("two")
        assert here.channel.sent == ["both"]
        assert "one" in model.requests[-1].lines[-1].text


async def test_whoever_casts_may_say_that_nobody_can_play() -> None:
    def nobody(conversation: str) -> Role:
        raise ConfigError("There is no persona for this.")

    async with scene(ScriptedModel(), resolver=nobody) as here:
        await here.talk("one")
        assert here.kinds() == ["Failed", "TurnEnded"]
        with pytest.raises(ConfigError):
            await here.engine.prefix(here.channel.message("x"))


async def test_what_is_read_beforehand_is_the_roles() -> None:
    resolver = Stock(Role(MO, ScriptedModel()))
    async with scene(ScriptedModel(), resolver=resolver) as here:
        lines = await here.engine.prefix(here.channel.message("x"))
        assert "who sails" in lines[0].text


async def test_personas_that_are_edited_all_day_are_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context, "_SESSIONS", 8)
    model = ScriptedModel(*["[SEND: x]"] * 20)
    resolver = Stock(Role(PIXI, model))
    async with scene(ScriptedModel(), resolver=resolver) as here:
        for number in range(20):
            resolver.role = Role(replace(PIXI, prompt=f"You are number {number}."), model)
            await here.talk("hello")
            assert f"number {number}." in told(model)
        assert here.engine._shared is not None
        assert len(here.engine._shared._sessions) == 8


async def test_a_hundred_servers_of_their_own_stickers_have_each_a_stage_that_stays() -> None:
    async with scene(ScriptedModel()) as here:
        places = [Abilities(stickers=(f"wave {number}",)) for number in range(100)]
        sessions = [await here.engine.session("test:chat", each) for each in places]
        assert len({id(session) for session in sessions}) == 100
        for each, session in zip(places, sessions, strict=True):
            assert await here.engine.session("test:chat", each) is session
