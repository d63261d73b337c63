"""Programs that talk with personas: a talk that another process answers is waited for, and then goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.app.mcp_server import handlers
from pixi.app.mcp_server.handlers import GatheringChannel, McpTalks
from pixi.core.channel import Question
from pixi.core.errors import ChannelError, ChannelForgot, ToolError
from pixi.core.events import Failed, Reacted, Sourced, ToolCalled, TurnEnded
from pixi.core.llm import Cited
from pixi.core.message import Card, Picture, Rights
from tests.app.scene import reading, settings_file
from tests.servers.scripted_openai import ScriptedOpenAI, Until, finish, stream
from tests.waiting import until, within


@asynccontextmanager
async def two(folder: Path, server: ScriptedOpenAI) -> AsyncGenerator[tuple[McpTalks, McpTalks], None]:
    """Two that serve from one store, as two processes would."""
    settings_file(folder, server)
    both = [McpTalks(reading(folder)(), "mo", lambda line: None, alone=True) for _ in range(2)]
    try:
        yield both[0], both[1]
    finally:
        for each in both:
            await each.close()


def say(talk: McpTalks, text: str, conversation: str) -> "asyncio.Task[list[str]]":
    async def said() -> list[str]:
        answer = await talk.say("pixi", text, conversation, lambda line: None)
        messages: list[str] = answer["messages"]
        return messages

    return asyncio.create_task(said())


async def test_a_talk_goes_on_once_the_reply_of_the_other_process_has_ended(tmp_path: Path) -> None:
    gate, talk = asyncio.Event(), "0" * 32
    slow = stream("[SEND: alpha]", Until(gate), "[SEND: beta]", finish())
    async with (
        ScriptedOpenAI(slow, stream("[SEND: gamma]", finish())) as server,
        two(tmp_path, server) as (one, other),
        within("both answers"),
    ):
        first = say(one, "one", talk)
        await until(lambda: server.requests)
        second = say(other, "two", talk)
        assert await say(other, "apart", "1" * 32) == ["gamma"]
        assert not second.done()
        gate.set()
        assert await first == ["alpha", "beta"]
        assert await second == ["gamma"]
        assert "beta" in str(server.requests[2].json()["messages"])


async def test_a_talk_that_another_process_answers_for_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "OWN_SECONDS", 0.1)
    gate, talk = asyncio.Event(), "0" * 32
    slow = stream("[SEND: alpha]", Until(gate), "[SEND: beta]", finish())
    async with ScriptedOpenAI(slow) as server, two(tmp_path, server) as (one, other), within("both answers"):
        first = say(one, "one", talk)
        await until(lambda: server.requests)
        with pytest.raises(ToolError, match="answering"):
            await say(other, "two", talk)
        gate.set()
        assert await first == ["alpha", "beta"]
        assert len(server.requests) == 1


async def test_a_bot_that_cannot_be_imported_is_told_of_and_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*modules: str) -> None:
        raise ImportError("half installed")

    async with (
        ScriptedOpenAI(stream("[SEND: alpha]", finish())) as server,
        two(tmp_path, server) as (talks, _),
        within("the errors and the answer"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(handlers, "import_beside", broken)
            for _ in range(2):
                with pytest.raises(ImportError, match="half installed"):
                    await say(talks, "hi", "")
        assert await say(talks, "hi", "") == ["alpha"]


async def test_all_that_is_said_and_shown_is_gathered_in_order() -> None:
    news: list[str] = []
    channel = GatheringChannel(news.append)
    channel.show(ToolCalled("1", "weather_forecast", {}))
    await channel.send("look:", nonce="a")
    await channel.card(Card(title="Oslo", text="rain"), nonce="b")
    await channel.picture(Picture("a wet cat", "https://example.org/cat"), nonce="c")
    channel.show(Reacted("☔"))
    channel.show(Sourced((Cited("https://example.org", "Weather"),)))
    channel.show(TurnEnded("length", 1))
    assert channel.messages[0] == "look:"
    assert "Oslo" in channel.messages[1]
    assert channel.messages[2] == "[picture: a wet cat · https://example.org/cat]"
    assert (channel.reactions, channel.finish, channel.failure) == (["☔"], "length", "")
    assert channel.sources == [{"title": "Weather", "url": "https://example.org"}]
    assert news == ["using weather_forecast", *channel.messages]


async def test_nobody_governs_or_agrees_to_anything_from_here() -> None:
    channel = GatheringChannel()
    assert await channel.rights("mcp:Mo") == Rights()
    assert await channel.approve(Question("mcp:Mo", "wipe", "wipes", "", "n"), seconds=5) == "nobody"
    with pytest.raises(ChannelError):
        await channel.sticker("wave", nonce="s")


async def test_only_what_was_said_last_is_known_to_have_been_said() -> None:
    channel = GatheringChannel()
    await channel.send("hi", nonce="a")
    assert await channel.sent_before("hi", nonce="a", after="") == "a"
    with pytest.raises(ChannelForgot):
        await channel.sent_before("hi", nonce="b", after="")


def test_what_went_wrong_is_kept() -> None:
    channel = GatheringChannel()
    channel.show(Failed("The model is away."))
    channel.show(TurnEnded("error", 1))
    assert (channel.failure, channel.finish) == ("The model is away.", "error")
