"""A talk with a model at a server nearby: its prompt and its tools go by the size that the server tells."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pixi.app import open_engine
from pixi.app.personas import find_persona
from pixi.settings import load
from pixi.testing import RecordingChannel
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, answer, finish, stream


def shown(size: str) -> Reply:
    """As Ollama tells of a model."""
    return answer(200, {"details": {"parameter_size": size}})


async def bodies(
    folder: Path, about: Mapping[str, Sequence[Reply]], *texts: str, **more: object
) -> list[dict[str, Any]]:
    """What the server is asked in a talk of so many messages."""
    async with ScriptedOpenAI(stream("[SEND: Hi.]", finish()), about=about) as server:
        given = {
            "model.name": "scripted",
            "model.base_url": server.base_url,
            "store.url": f"sqlite:///{folder}/pixi.db",
            **{f"model.{key}": value for key, value in more.items()},
        }
        settings = load(environ={}, folder=folder, overrides=given)
        channel = RecordingChannel()
        async with open_engine(settings, find_persona(settings)) as engine:
            for text in texts:
                await engine.receive(channel.message(text), channel)
                await engine.settled()
        assert channel.sent == ["Hi."] * len(texts)
        return [each.json() for each in server.requests]


@pytest.mark.parametrize(
    ("size", "more", "whole", "tools"),
    [("134.52M", {}, False, False), ("1.5B", {}, True, False), ("8.2B", {"parameters": 0.5}, False, False)],
)
async def test_the_first_prompt_is_written_for_the_size(
    tmp_path: Path, size: str, more: dict[str, object], whole: bool, tools: bool
) -> None:
    (body,) = await bodies(tmp_path, {"/api/show": [shown(size)]}, "hi", **more)
    assert ("## Commands" in body["messages"][0]["content"]) == whole
    assert ("tools" in body) == tools
    assert (body.get("max_tokens") == 160) == (not whole)


async def test_a_server_that_tells_later_is_gone_by_from_then_on(tmp_path: Path) -> None:
    about = {"/props": [answer(503, {}), answer(404, {})], "/api/show": [shown("134.52M")]}
    first, second = await bodies(tmp_path, about, "hi", "and now?")
    assert "## Commands" in first["messages"][0]["content"]
    assert "## Commands" not in second["messages"][0]["content"]
