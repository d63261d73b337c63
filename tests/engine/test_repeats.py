"""A model that runs here begins its reply with what it said before: it is asked anew, while nobody saw it."""

import asyncio

import pytest
from msgspec.structs import replace

from pixi.core.errors import ModelError
from pixi.core.events import Grew, Noted, Opened, Sent, TurnReport
from pixi.core.llm import Finished, ToolCall, Usage
from pixi.models.model import Traits
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Scripted
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.scene import PIXI, Scene, scene
from tests.waiting import until

HERE = Traits(runs_here=True)
OLD = "pancakes are the best food of all"
AGAIN = f"[NOTE: food]\n[REACT: 🥞]\n[SEND: {OLD.upper()}!]\n[SEND: really]"


def model(*replies: Scripted, piece: int = 4) -> ScriptedModel:
    """A model that runs here, and has said something already."""
    return ScriptedModel(f"[SEND: {OLD}]", *replies, piece=piece, traits=HERE)


async def said_before(here: Scene) -> None:
    await here.talk("hi")
    here.channel.events.clear()


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 11, 0])
async def test_a_repeat_is_asked_anew_and_nothing_of_it_is_seen(piece: int, growing: bool) -> None:
    reports: list[TurnReport] = []
    new = "[NOTE: what else?]\n[SEND: and waffles]"
    async with scene(
        model(AGAIN, new, "[SEND: x]", piece=piece), growing=growing, on_turn=reports.append
    ) as here:
        await said_before(here)
        await here.talk("what do you like?")
        assert here.channel.sent == [OLD, "and waffles"]
        assert here.channel.reactions == []
        grew = [event.text for event in here.channel.events if isinstance(event, Grew)]
        assert "".join(grew) == (growing * "what else?and waffles")
        rest = [event for event in here.channel.events if not isinstance(event, Grew | Opened)]
        assert rest[:-1] == [Noted("what else?"), Sent("and waffles")]
        assert [(ended.finish, ended.steps) for ended in here.channel.ended] == [("stop", 2)]
        assert here.model.requests[1].lines == here.model.requests[2].lines
        await here.talk("ok")
        assert here.replies() == [f"[SEND: {OLD}]", new]
    assert reports[1].steps == 2
    assert reports[1].effects == {"send": 1}


async def test_what_a_reply_used_that_was_thrown_away_is_counted() -> None:
    used = Usage(100, 90, 10)
    async with scene(model(AGAIN, ["[SEND: no]", Finished(usage=used)])) as here:
        await said_before(here)
        await here.talk("what do you like?")
        ended = here.channel.ended[-1]
        assert ended.usage.completion_tokens > used.completion_tokens
        assert ended.usage.prompt_tokens > used.prompt_tokens


async def test_the_second_time_it_stands() -> None:
    async with scene(model(AGAIN, f"[SEND: {OLD}]", "[SEND: x]")) as here:
        await said_before(here)
        await here.talk("what do you like?", "ok")
        assert here.channel.sent == [OLD, OLD, "x"]
        assert here.replies() == [f"[SEND: {OLD}]"] * 2


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        ("say that again", f"[SEND: {OLD}]"),
        (f"repeat after me? {OLD}", f"[SEND: {OLD}]"),
        ("what do you like?", f"[SEND: hm]\n[SEND: {OLD}]"),  # something was seen before
    ],
)
async def test_a_repeat_stands_that_was_asked_for_or_comes_later(asked: str, reply: str) -> None:
    async with scene(model(reply)) as here:
        await said_before(here)
        await here.talk(asked)
        assert here.channel.sent[-1] == OLD
        assert len(here.model.requests) == 2


async def test_a_model_at_a_server_may_say_what_it_likes() -> None:
    async with scene(ScriptedModel(f"[SEND: {OLD}]", f"[SEND: {OLD}]")) as here:
        await here.talk("hi", "hi")
        assert here.channel.sent == [OLD, OLD]


async def test_a_message_is_seen_growing_as_soon_as_it_has_words_of_its_own() -> None:
    held, flows = asyncio.Event(), asyncio.Event()
    reply: Scripted = ["[SEND: pancakes are", held, " nice", flows, "!]"]
    async with scene(model(reply), growing=True) as here:
        await said_before(here)
        await here.say("what do you like?")
        await until(lambda: here.model.streaming == 1)
        await asyncio.sleep(1)
        assert here.channel.events == []
        held.set()
        await until(lambda: here.channel.events != [])
        await asyncio.sleep(1)
        assert "".join(e.text for e in here.channel.events if isinstance(e, Grew)) == "pancakes are nice"
        flows.set()
        await here.engine.settled()
        assert here.channel.sent == [OLD, "pancakes are nice!"]


async def test_a_repeat_in_prose_is_asked_anew() -> None:
    async with scene(model(OLD, "something else")) as here:
        await said_before(here)
        await here.talk("what do you like?")
        assert here.channel.sent == [OLD, "something else"]


async def test_what_was_held_back_is_shown_where_the_stream_ends_or_breaks() -> None:
    broken: Scripted = ["[SEND: pancakes are", ModelError("gone", permanent=True)]
    async with scene(model("[REACT: 🥞]", "[NOTE: pancakes]", broken)) as here:
        await said_before(here)
        await here.talk("a", "b", "c")
        assert [emoji for _, emoji in here.channel.reactions] == ["🥞"]
        assert here.channel.notes == ["pancakes"]
        assert here.channel.sent == [OLD, "pancakes are"]


async def test_the_deadline_of_the_turn_holds_and_the_words_of_a_broken_model_join_the_history() -> None:
    never = asyncio.Event()
    slow: Scripted = ["[REACT: 🥞]\n[SEND: pancakes are", never]
    async with scene(model(slow, "[SEND: x]")) as here:
        await said_before(here)
        await here.talk("a", "b")
        assert here.channel.reactions == []
        assert here.channel.sent == [OLD, "brb, ink spilled", "x"]
        assert here.replies() == [f"[SEND: {OLD}]", "[SEND: brb, ink spilled]"]


async def test_a_message_that_comes_while_it_is_asked_anew_is_answered_along() -> None:
    never = asyncio.Event()
    async with scene(model(AGAIN, ["[SEND: and", never], "[SEND: both]")) as here:
        # `never` stands behind words of which a growing channel alone shows anything.
        await said_before(here)
        await here.say("one")
        await until(lambda: len(here.model.requests) == 3)
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == [OLD, "both"]
        assert "one" in here.history()[-1].text
        assert "two" in here.history()[-1].text


def look(addon: Addon) -> None:
    @addon.tool
    async def look(context: Context) -> str:
        """look out of the window"""
        return "fog"


async def test_what_a_tool_gave_may_be_told_again() -> None:
    call = ToolCall("1", "look", "{}")
    persona = replace(PIXI, tools=("look",))
    async with scene(model([call], f"[SEND: {OLD}]"), persona=persona, addons=[look]) as here:
        await said_before(here)
        await here.talk("what do you see?")
        assert here.channel.sent == [OLD, OLD]
        assert [request.repeats for request in here.model.requests] == ["free", "few", "free"]


async def test_the_model_is_told_how_much_it_may_say_again() -> None:
    replies = [AGAIN, "[SEND: and waffles]", "[SEND: waffles]"]
    async with scene(model(*replies)) as here:
        await here.talk("hi", "what do you like?", "say that again")
        assert [request.repeats for request in here.model.requests] == ["free", "few", "none", "free"]
