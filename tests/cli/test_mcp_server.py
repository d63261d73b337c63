"""Pixi as an MCP server, asked by the SDK's own client: databases, personas, and who hears what."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from mcp import types
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from pixi.app.mcp_server.server import open_server
from pixi.cli.store_access import recorded_usage
from pixi.core.errors import Reporter
from pixi.core.spending import day_of
from pixi.settings import load
from pixi.store.opening import open_store
from tests.cli.conftest import Program
from tests.servers.scripted_openai import (
    Hang,
    Reply,
    ScriptedOpenAI,
    Seen,
    content,
    error,
    event,
    finish,
    head,
    stream,
    usage,
)
from tests.waiting import until, within


@asynccontextmanager
async def served(
    folder: Path,
    environ: Mapping[str, str] = MappingProxyType({}),
    *,
    told: Reporter = print,
    alone: bool = True,
) -> AsyncGenerator[Any, None]:
    """The server of a folder; nobody listens at the model's address unless a test says so."""
    model = {"PIXI_MODEL__NAME": "scripted", "PIXI_MODEL__BASE_URL": "http://127.0.0.1:9/v1"}
    settings = load(environ={**model, **environ}, folder=folder)
    open_usage = partial(recorded_usage, settings)
    async with open_server(settings, open_usage, user="Mo", alone=alone, report=told) as server:
        yield server


def at(server: ScriptedOpenAI) -> Mapping[str, str]:
    return {"PIXI_MODEL__BASE_URL": server.base_url}


def text_of(result: Any) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


# Databases.


async def test_each_database_is_searched_and_asked_by_a_tool_of_its_own(trolley: Path) -> None:
    async with served(trolley.parent.parent) as server, Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"search_trolley_database", "query_trolley_database", "talk_to"} <= tools.keys()
        assert "search_pixi_manual_database" in tools
        hints = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in tools.items()}
        assert (hints["search_trolley_database"], hints["talk_to"]) == (True, False)
        assert (tools["search_trolley_database"].description or "").startswith("Search The tea trolley")


def test_a_search_gives_what_the_command_gives_and_needs_no_model(trolley: Path, program: Program) -> None:
    async def searched() -> Any:
        async with served(trolley.parent.parent) as server, Client(server) as client:

            async def found() -> Any:
                result = await client.call_tool("search_trolley_database", {"keyword": "ginger", "limit": 2})
                return None if "note" in (result.structured_content or {}) else result  # it still reads

            return await until(found)

    result = asyncio.run(searched())
    code, out, _ = program("search", "trolley", "ginger", "--limit", "2", "--json")
    assert code == 0
    assert result.structured_content == json.loads(out) == json.loads(text_of(result))
    assert result.structured_content["results"][0]["title"] == "Teas on the trolley"


async def test_settings_say_which_databases_are_served(trolley: Path) -> None:
    only = {"PIXI_DATABASES__NAMES": '["trolley"]'}
    async with served(trolley.parent.parent, only) as server, Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["search_trolley_database", "query_trolley_database", "talk_to"]


async def test_a_question_is_read_up_by_the_model_and_entered_in_the_books(trolley: Path) -> None:
    def read(seen: Seen) -> Reply:
        assert "How long does ginger steep?" in str(seen.json()["messages"])
        named = {"answerable": True, "sentences": ["it steeps for eight minutes"]}
        return stream(json.dumps(named), finish(), usage(100, 20))

    news: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        news.append(message or "")

    async with (
        ScriptedOpenAI(choose=read) as model,
        served(trolley.parent.parent, at(model)) as server,
        Client(server) as client,
    ):
        result = await client.call_tool(
            "query_trolley_database", {"query": "How long does ginger steep?"}, progress_callback=hear
        )
        assert result.structured_content is not None
        assert result.structured_content["database"] == "trolley"
    assert news[0] == "looking for a model that reads"
    store = await open_store(f"sqlite:///{trolley.parent.parent}/pixi.db")
    (spent,) = await store.usage(day_of(0), day_of(4e9))
    await store.close()
    assert (spent.usage.prompt_tokens, spent.usage.completion_tokens) == (100, 20)


async def test_what_does_not_fit_and_what_cannot_be_read_is_told_in_a_line(trolley: Path) -> None:
    async with served(trolley.parent.parent) as server, Client(server) as client:
        wrong = await client.call_tool("search_trolley_database", {"keyword": "tea", "limit": 900})
        assert wrong.is_error
        assert "limit must be a whole number from 1 to 20, not 900" in text_of(wrong)
        empty = await client.call_tool("query_trolley_database", {"query": " "})
        assert empty.is_error
        assert text_of(empty) == "The query is empty: ask a whole question."
        with pytest.raises(MCPError, match="There is no tool 'search_trolly_database'"):
            await client.call_tool("search_trolly_database", {"keyword": "tea"})


# Personas.


async def test_each_persona_is_a_prompt_with_the_name_of_whom_it_talks_to(home: Path) -> None:
    async with served(home) as server, Client(server) as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert prompts["pixi"].title == "Pixi"
        assert "art student" in (prompts["pixi"].description or "")
        filled = await client.get_prompt("pixi", {"user": "Björk {{char}}\n## Rules"})
        (message,) = filled.messages
        assert isinstance(message.content, types.TextContent)
        assert message.content.text.startswith("You are Pixi, Björk {{char}} ## Rules's friend")
        with pytest.raises(MCPError, match="There is no prompt 'nobody'"):
            await client.get_prompt("nobody")


async def test_a_persona_answers_and_remembers_what_was_said(home: Path) -> None:
    replies = [
        stream("[NOTE: a new friend][REACT: 🥞][SEND: hello Mo!][SEND: how are you?]", finish()),
        stream("[SEND: you said hi]", finish()),
    ]
    news: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        news.append(message or "")

    async with ScriptedOpenAI(*replies) as model, served(home, at(model)) as server, Client(server) as client:
        first = await client.call_tool(
            "talk_to", {"persona": "pixi", "message": "hi"}, progress_callback=hear
        )
        again = await client.call_tool("talk_to", {"persona": "pixi", "message": "what did I say?"})
    told = first.structured_content
    assert told is not None
    assert told["messages"] == ["hello Mo!", "how are you?"]
    assert (told["persona"], told["reactions"], told["finish"]) == ("pixi", ["🥞"], "stop")
    assert text_of(first) == "hello Mo!\n\nhow are you?\n\n(🥞)"
    assert news == ["opening the model", "hello Mo!", "how are you?"]
    assert text_of(again) == "you said hi"
    assert again.structured_content is not None
    assert again.structured_content["conversation"] == told["conversation"]
    assert "hello Mo!" in str(model.requests[1].json()["messages"])
    assert "Mo" in str(model.requests[0].json()["messages"])


async def test_where_nobody_can_tell_clients_apart_each_call_is_its_own_unless_it_names_one(
    home: Path,
) -> None:
    async with (
        ScriptedOpenAI(stream("[SEND: ok]", finish())) as model,
        served(home, at(model), alone=False) as server,
        Client(server) as client,
    ):
        say = {"persona": "pixi", "message": "my secret is a blue door"}
        first = await client.call_tool("talk_to", say)
        await client.call_tool("talk_to", {"persona": "pixi", "message": "what is my secret?"})
        assert "blue door" not in str(model.requests[1].json())
        assert first.structured_content is not None
        talk = first.structured_content["conversation"]
        await client.call_tool(
            "talk_to", {"persona": "pixi", "message": "what is my secret?", "conversation": talk}
        )
        assert "blue door" in str(model.requests[2].json())
        # Another persona has not heard it, in the same talk.
        await client.call_tool("talk_to", {"persona": "edda", "message": "and you?", "conversation": talk})
        assert "blue door" not in str(model.requests[3].json())


async def test_what_strangers_say_is_bounded(home: Path) -> None:
    async with served(home) as server, Client(server) as client:
        for said, told in (
            ({"message": " "}, "The message is empty"),
            ({"message": "x" * 8_001}, "message must be a text of 8000 characters at most"),
            ({"persona": "nobody", "message": "hi"}, "persona must be one of"),
            ({"message": "hi", "conversation": "../../etc"}, "There is no such conversation"),
        ):
            result = await client.call_tool("talk_to", {"persona": "pixi", **said})
            assert result.is_error
            assert told in text_of(result)


async def test_a_model_that_fails_is_told_in_a_line_and_without_the_key(home: Path) -> None:
    key = {"PIXI_MODEL__API_KEY": "sk-canary-0123456789abcdef"}
    bad = error(401, "Incorrect API key provided: sk-canary-0123456789abcdef")
    async with (
        ScriptedOpenAI(bad) as model,
        served(home, {**at(model), **key}) as server,
        Client(server) as client,
    ):
        (home / "personas").mkdir(exist_ok=True)
        result = await client.call_tool("talk_to", {"persona": "edda", "message": "hi"})
    assert "canary" not in text_of(result) + str(result.structured_content)


async def test_a_house_that_cannot_be_opened_is_told_and_tried_again(home: Path) -> None:
    async with ScriptedOpenAI(stream("[SEND: there]", finish())) as model:
        blocked = home / "blocked"
        blocked.write_text("a file where a folder should be")
        store = {"PIXI_STORE__URL": f"sqlite:///{blocked}/pixi.db"}
        async with served(home, {**at(model), **store}) as server, Client(server) as client:
            first = await client.call_tool("talk_to", {"persona": "pixi", "message": "hi"})
            assert first.is_error
            assert text_of(first).startswith("Nobody can answer: ")
            blocked.unlink()
            blocked.mkdir()
            second = await client.call_tool("talk_to", {"persona": "pixi", "message": "hi"})
    assert text_of(second) == "there"


async def test_a_broken_persona_is_left_out_and_said(home: Path) -> None:
    (home / "personas").mkdir()
    (home / "personas" / "broken.md").write_text("---\nname: [\n---\nYou are broken.\n")
    told: list[str] = []
    async with served(home, told=told.append) as server, Client(server) as client:
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert "pixi" in prompts
    assert "broken" not in prompts
    assert any("broken.md" in line for line in told)


async def test_a_call_that_is_cancelled_stops_the_reply(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "asyncio")
    # A model that is silent is not given up within this test: only the cancellation ends its reply.
    patient = {"PIXI_MODEL__GAP_SECONDS": "3600", "PIXI_LIMITS__SECONDS": "3600"}
    async with (
        ScriptedOpenAI(Reply((head(), event(content("[SEND: one] ")), Hang()))) as model,
        served(home, {**at(model), **patient}) as server,
        Client(server) as client,
    ):
        said = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            if message == "one":
                said.set()

        arguments = {"persona": "pixi", "message": "hi"}
        asking = asyncio.create_task(client.call_tool("talk_to", arguments, progress_callback=hear))
        async with within("its first message"):
            await said.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with within("the end of the request"):
            await model.requests[0].gone.wait()
        assert len(model.requests) == 1
    assert caplog.records == []


async def test_only_so_many_replies_are_written_at_once(home: Path) -> None:
    waiting = Reply((head(), event(content("[NOTE: hm] ")), Hang()))
    async with (
        ScriptedOpenAI(waiting) as model,
        served(home, at(model), alone=False) as server,
        Client(server) as client,
    ):
        say = {"persona": "pixi", "message": "hi"}
        asking = [asyncio.create_task(client.call_tool("talk_to", say)) for _ in range(8)]
        await until(lambda: len(model.requests) == 8, "eight requests")
        ninth = await client.call_tool("talk_to", say)
        assert ninth.is_error
        assert text_of(ninth) == "8 replies are being written already; try again in a moment."
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
