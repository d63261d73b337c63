"""Programs that talk with personas: a talk that another process answers is waited for, and then goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.app.serving import handlers
from pixi.app.serving.handlers import McpTalks
from pixi.core.errors import ToolError
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
