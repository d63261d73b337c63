"""The request of a past turn, made again from history and record, is the one that a server really got."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from pixi.app.looking_back import RebuiltRequest, look_back
from pixi.app.service import BotService
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.spending import Limits
from pixi.testing import RecordingChannel
from tests.app.scene import address, message, persona_file, service_in
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, call, finish, stream

HERE = address("wren")
WREN = """\
---
name: Wren
tools: [recall, remember]
---

You are {0}, and you like {{{{user}}}}.
"""


class Talk:
    """A service with one persona, and the server that its model is at."""

    def __init__(self, service: BotService, server: ScriptedOpenAI, channel: RecordingChannel) -> None:
        self.service, self.server, self.channel = service, server, channel

    async def say(self, number: int, text: str) -> None:
        await self.service.receive(message(number, text, persona="wren"), self.channel)
        await self.service.engine.settled()

    async def turn(self, number: int) -> RebuiltRequest:
        """Look back at a turn, counted from the first."""
        records = await self.service.store.turns(HERE, 100)
        found = await look_back(self.service.engine, self.service.store, records[number].id)
        assert found is not None
        return found

    async def sent_again(self, rebuilt: RebuiltRequest) -> list[bytes]:
        """The bodies that the server gets where the requests are sent again by the same model."""
        before = len(self.server.requests)
        for request in rebuilt.requests():
            async with aclosing(rebuilt.session.role.model.stream(request)) as deltas:
                async for _ in deltas:
                    pass
        bodies = [seen.body for seen in self.server.requests[before:]]
        del self.server.requests[before:]
        return bodies


def written(seen: Seen) -> Reply:
    """A note and a message; to a message with a question mark, first a call of a tool."""
    lines = seen.json()["messages"]
    if lines[-1]["role"] == "user" and "?" in str(lines[-1]["content"]):
        asked = call("recall", '{"query": "tea"}', index=0, call_id=f"c{len(lines)}")
        return stream("[NOTE: hm]\n[SEND: let me think]", asked, finish("tool_calls"))
    return stream(f"[NOTE: line {len(lines)}]\n[SEND: {'hello ' * 60}]\n[REACT: 🥞]", finish())


@asynccontextmanager
async def talk(
    folder: Path, server: ScriptedOpenAI, *, context_tokens: int = 60_000, about: str = "Wren"
) -> AsyncGenerator[Talk, None]:
    persona_file(folder, "wren", WREN.format(about))
    (folder / "pixi.toml").write_text(
        f'[model]\nname = "first"\nbase_url = "{server.base_url}"\ncontext_tokens = {context_tokens}\n'
        f'[store]\nurl = "sqlite:///{folder}/pixi.db"\n[history]\nsummarize = false\n'
    )
    async with service_in(folder) as service:
        yield Talk(service, server, RecordingChannel(HERE))


async def test_each_request_is_the_one_that_was_sent_to_the_byte(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=written) as server:
        async with talk(tmp_path, server, context_tokens=3_000) as here:
            for number in range(1, 15):
                await here.say(number, f"and {number}{'?' if number % 4 == 2 else ' is a number'}")
            sent = [seen.body for seen in server.requests]
        firsts = set()
        async with talk(tmp_path, server, context_tokens=3_000) as here:  # a later process looks back
            made: list[bytes] = []
            for number in range(14):
                rebuilt = await here.turn(number)
                assert rebuilt.changed == frozenset()
                firsts.add(rebuilt.window[0].id if rebuilt.window else 0)
                made += await here.sent_again(rebuilt)
    assert made == sent
    assert len(firsts) > 2, "the window was cut now and then"


async def test_what_was_changed_since_is_told_apart(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=written) as server:
        async with talk(tmp_path, server) as here:
            await here.say(1, "hi")
            await here.say(2, "and now?")
        async with talk(tmp_path, server, about="a Wren of another kind") as here:
            assert (await here.turn(1)).changed == frozenset({"prefix"})
        (tmp_path / "personas" / "wren.md").write_text(WREN.format("Wren").replace(", remember", ""))
        async with service_in(tmp_path) as service:
            rebuilt = await Talk(service, server, RecordingChannel(HERE)).turn(1)
            assert rebuilt.changed == frozenset({"tools"})
            assert rebuilt.gone == ("remember",)


async def test_nothing_is_left_of_a_turn_whose_words_were_forgotten(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=written) as server, talk(tmp_path, server) as here:
        await here.say(1, "my name is Mo")
        await here.say(2, "and now?")
        turn = (await here.turn(1)).looked_back.record.id
        await here.service.engine.forget("5")
        rebuilt = await look_back(here.service.engine, here.service.store, turn)
        assert rebuilt is not None
        assert rebuilt.said is None
        assert rebuilt.requests() == []
        assert rebuilt.changed is None, "not even a digest is kept"
        assert "Mo" not in str(rebuilt.looked_back)
        await here.say(3, "hi")
        after = await here.turn(-1)
        assert after.changed == frozenset()
        await here.service.engine.reset(HERE)
        rebuilt = await look_back(here.service.engine, here.service.store, after.looked_back.record.id)
        assert rebuilt is not None
        assert (rebuilt.said, rebuilt.changed, rebuilt.history) == (None, None, ())


async def test_a_turn_that_was_taken_out_has_the_window_that_it_had(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=written) as server, talk(tmp_path, server) as here:
        for number, text in enumerate(("one", "two", "three"), start=1):
            await here.say(number, text)
        records = await here.service.store.turns(HERE, 9)
        await here.service.engine.rewind(HERE, records[1].id)
        await here.say(4, "two, otherwise")
        rebuilt = await look_back(here.service.engine, here.service.store, records[2].id)
        assert rebuilt is not None
        assert rebuilt.changed == frozenset()
        assert [turn.id for turn in rebuilt.window] == [records[0].id, records[1].id]


async def test_of_a_turn_of_which_nothing_was_put_on_record_it_is_said(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=written) as server, talk(tmp_path, server) as here:
        store = here.service.store
        await store.receive(message(1, "hi", persona="wren"))
        lease = await store.lease(HERE)
        turn = (await store.begin_turn(HERE, 0, "Wren", ("1",), lease=lease)).turn
        lines = (UserLine("> hi"), AssistantLine("[SEND: hey]"))
        await store.end_turn(turn, lines, "stop", 1, Usage())
        rebuilt = await look_back(here.service.engine, here.service.store, turn)
        assert rebuilt is not None
        assert rebuilt.changed is None
        assert rebuilt.said == lines[0]
        assert len(rebuilt.requests()) == 1
        assert await look_back(here.service.engine, here.service.store, turn + 1) is None


async def test_the_limits_that_a_turn_reached_are_on_record(tmp_path: Path) -> None:
    def many(seen: Seen) -> Reply:
        return stream(*("[SEND: a]" for _ in range(6)), finish("length"))

    async with ScriptedOpenAI(choose=many) as server, talk(tmp_path, server) as here:
        here.service.engine.settings.limits = Limits(messages=3)
        await here.say(1, "hi")
        framing = (await here.turn(0)).looked_back.framing
        assert framing is not None
        assert framing.limits == ("messages",)
