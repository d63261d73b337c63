"""A persona's tools come and go while it runs; and no person's answer is waited for in the turn's time."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.channel import Question
from pixi.core.errors import ConfigError
from pixi.core.events import Failed, Verdict
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.message import Author
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.engine import Engine
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from pixi.toolbox.tools import tool_from
from tests.engine.scene import Scene, scene
from tests.held_clock import HeldClock
from tests.waiting import until

BANNER = Persona("Pixi", "x", tools=("ban",))


async def search_cakes_database(context: Context, keyword: str) -> str:
    """search"""
    return keyword


async def query_cakes_database(context: Context, query: str) -> str:
    """query"""
    return query


def cakes(addon: Addon) -> None:
    for function in (search_cakes_database, query_cakes_database):
        addon.tool(source="database:cakes")(function)


def banning(addon: Addon) -> None:
    @addon.tool(approval=True, timeout=5)
    async def ban(context: Context) -> str:
        """ban"""
        return "banned"


def told(here: Scene) -> list[str]:
    return [line.text for line in here.history() if isinstance(line, ToolLine)]


async def test_a_persona_has_the_tools_of_its_databases_and_none_unless_it_names_some() -> None:
    for persona, names in (
        (Persona("P", "x", databases=("cakes",)), ["search_cakes_database", "query_cakes_database"]),
        (
            Persona("P", "x", tools=("query_cakes_database",), databases=("cakes",)),
            ["query_cakes_database", "search_cakes_database"],
        ),
        (Persona("P", "x"), []),
    ):
        model = ScriptedModel("[SEND: hi]")
        async with scene(model, persona=persona, addons=[cakes]) as here:
            await here.talk("hello")
            assert [schema.name for schema in model.requests[0].tools] == names


def test_a_mistyped_database_names_the_nearest() -> None:
    engine = Engine(model=ScriptedModel(), persona=Persona("P", "x"), addons=[cakes])
    with pytest.raises(ConfigError, match=r"no database 'caks'; did you mean 'cakes'\?"):
        engine.check(Persona("P", "x", databases=("caks",)))
    with pytest.raises(ConfigError, match="remove it, or put its folder there"):
        engine.check(Persona("P", "x", databases=("zzz",)))


async def test_a_folder_that_vanishes_and_comes_back_is_noticed_and_breaks_no_persona() -> None:
    model = ScriptedModel(*(["[SEND: hi]"] * 3))
    async with scene(model, persona=Persona("P", "x", databases=("cakes",)), addons=[cakes]) as here:
        await here.talk("one")
        here.engine.tools.remove("database:cakes")
        await here.talk("two")
        # One comes where two went: that there are fewer is not what tells.
        here.engine.tools.add(tool_from(query_cakes_database, source="database:cakes"))
        await here.talk("three")
        assert [[tool.name for tool in request.tools] for request in model.requests] == [
            ["search_cakes_database", "query_cakes_database"],
            [],
            ["query_cakes_database"],
        ]
        assert not [event for event in here.channel.events if isinstance(event, Failed)]


async def test_a_name_with_a_namespace_or_brackets_is_understood() -> None:
    for name in (
        "functions.query_cakes_database",
        "default_api:query_cakes_database",
        "query_cakes_database()",
    ):
        model = ScriptedModel([ToolCall("1", name, '{"query": "x"}')], "[SEND: ok]")
        async with scene(model, persona=Persona("P", "x", databases=("cakes",)), addons=[cakes]) as here:
            await here.talk("go")
            assert told(here) == ["x"]


class Thoughtful(RecordingChannel):
    """Somebody who thinks for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        self.questions.append(question)
        await asyncio.sleep(min(self.seconds, seconds))
        return "yes" if self.seconds <= seconds else "nobody"


async def test_a_person_may_think_longer_than_the_turn_and_the_tool_may_take() -> None:
    model = ScriptedModel([10, ToolCall("1", "ban", "{}")], [9, "[SEND: ok]"])
    async with scene(
        model, persona=BANNER, addons=[banning], channel=Thoughtful(50), limits=Limits(seconds=20)
    ) as here:
        await here.talk("go")
        assert told(here) == ["banned"]
        assert here.channel.sent == ["ok"]
        assert here.channel.ended[0].finish == "stop"


async def test_what_was_left_of_the_turns_time_is_all_there_is_afterwards(clock: HeldClock) -> None:
    model = ScriptedModel([10, ToolCall("1", "ban", "{}")], [1000, "[SEND: ok]"])
    async with scene(
        model, persona=BANNER, addons=[banning], channel=Thoughtful(50), limits=Limits(seconds=20)
    ) as here:
        began = clock.time()
        await here.talk("go")
        assert clock.time() - began == 20 + 50
        assert here.channel.sent == []


async def test_nobody_is_waited_for_longer_than_the_engine_says(clock: HeldClock) -> None:
    model = ScriptedModel([ToolCall("1", "ban", "{}")], "[SEND: ok]")
    async with scene(model, persona=BANNER, addons=[banning], channel=Thoughtful(60)) as here:
        here.engine.settings.approval_seconds, began = 30, clock.time()
        await here.talk("go")
        assert clock.time() - began == 30
        assert told(here)[0].startswith('ban needs "Mo"\'s yes, and no answer came')
        assert here.channel.sent == ["ok"]


async def test_a_stop_ends_the_waiting_for_a_person_at_once(clock: HeldClock) -> None:
    channel = Thoughtful(60)
    model = ScriptedModel([ToolCall("1", "ban", "{}")], "[SEND: ok]")
    async with scene(model, persona=BANNER, addons=[banning], channel=channel) as here:
        message = await here.say("go")
        await until(lambda: bool(channel.questions))
        began = clock.time()
        await here.engine.stop(message.conversation)
        assert clock.time() == began
        await here.talk("more")
        assert told(here) == ["This was stopped before it was done."]


async def test_an_end_that_is_called_for_while_a_person_answers_is_not_forgotten(clock: HeldClock) -> None:
    for turns in range(20):
        channel = Thoughtful(0)
        model = ScriptedModel([ToolCall("1", "ban", "{}")], [30.0, "[SEND: ok]"])
        async with scene(model, persona=BANNER, addons=[banning], channel=channel) as here:
            message = await here.say("go")
            await until(lambda: bool(channel.questions))  # noqa: B023 - called before the next one
            for _ in range(turns):
                await asyncio.sleep(0)
            began = clock.time()
            await here.engine.stop(message.conversation)
            await here.engine.settled()
            assert clock.time() - began <= 0.01, "the model is not waited for"


async def test_a_newer_message_of_the_person_takes_the_question_back_and_nobody_elses_does(
    clock: HeldClock,
) -> None:
    channel = Thoughtful(60)
    model = ScriptedModel([ToolCall("1", "ban", "{}")], "[SEND: fine]", "[SEND: ok]")
    async with scene(model, persona=BANNER, addons=[banning], channel=channel) as here:
        await here.say("go")
        await until(lambda: bool(channel.questions))
        await here.say("and me?", author="Ann")
        await asyncio.sleep(10)
        assert len(model.requests) == 1
        began = clock.time()
        await here.say("never mind")
        await here.engine.settled()
        assert clock.time() == began
        assert channel.sent == ["fine"]
        assert told(here) == ["This was stopped before it was done."]


async def test_a_bot_is_not_waited_for() -> None:
    channel = Thoughtful(60)
    model = ScriptedModel([ToolCall("1", "ban", "{}")], "[SEND: ok]")
    async with scene(model, persona=BANNER, addons=[banning], channel=channel) as here:
        await here.say("go", author=Author("9", "Robo", is_bot=True))
        await here.engine.settled()
        assert channel.questions == []
        assert channel.sent == ["ok"]


async def test_a_persona_asks_before_it_uses_a_tool_that_its_file_says_so_of() -> None:
    done: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.tool(writes=True)
        async def ban(context: Context, who: str) -> str:
            """ban"""
            done.append(who)
            return "banned"

    for confirm, asked in (((), 0), (("ban",), 1)):
        channel = RecordingChannel()
        model = ScriptedModel([ToolCall("1", "ban", '{"who": "mo"}')], "[SEND: ok]")
        persona = replace(BANNER, confirm=confirm)
        async with scene(model, persona=persona, addons=[setup], channel=channel) as here:
            await here.talk("go")
            assert len(channel.questions) == asked
    assert done == ["mo"]


@pytest.mark.parametrize(("reason", "asked"), [("small", 0), ("large", 1), ("broken", 1)])
async def test_a_tool_may_say_itself_whether_to_ask(reason: str, asked: int) -> None:
    def weighed(context: Context, given: Mapping[str, Any]) -> bool:
        if given["size"] == "broken":
            raise ValueError
        return bool(given["size"] == "large")

    def setup(addon: Addon) -> None:
        @addon.tool(approval=weighed)
        async def ban(context: Context, size: str) -> str:
            """ban"""
            return "banned"

    channel = RecordingChannel()
    model = ScriptedModel([ToolCall("1", "ban", f'{{"size": "{reason}"}}')], "[SEND: ok]")
    async with scene(model, persona=BANNER, addons=[setup], channel=channel) as here:
        await here.talk("go")
        assert len(channel.questions) == asked
        assert told(here)[0].startswith("ban needs" if asked else "banned")
