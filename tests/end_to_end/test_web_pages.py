"""A page read in a talk: the real engine and settings, a scripted model, and a site on loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pixi.app import open_engine, tool_integrations
from pixi.channels.terminal.lines import seat
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.engine.engine import Engine
from pixi.settings import Settings, load
from pixi.testing import RecordingChannel
from tests.servers.scripted_openai import ScriptedOpenAI, call, content, finish, stream
from tests.servers.staged_web import Stage, StagedWeb, canary, served
from tests.web.test_pages import ARTICLE

KEY = "sk-a-key-that-nobody-may-see"
DONE = stream("[SEND: so it is]", finish())
PERSONA = Persona("Pixi", "You are Pixi.")


def reads(**arguments: object) -> Any:
    """A reply that calls the tool."""
    return stream(call("read_page", json.dumps(arguments), index=0, call_id="call_1"), finish("tool_calls"))


def told(server: ScriptedOpenAI, request: int = -1) -> str:
    """What a request told last of a tool."""
    last = server.requests[request].json()["messages"][-1]
    assert last["role"] == "tool"
    return str(last["content"])


def tools(server: ScriptedOpenAI, request: int = -1) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[request].json().get("tools", [])]


@dataclass
class Kitchen:
    """A site, and where its page is.

    Attributes:
        asked: what it was asked for, in order.
    """

    url: str
    asked: list[str]


@pytest.fixture
async def kitchen(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kitchen]:
    asked: list[str] = []

    async def page(request: web.Request) -> web.StreamResponse:
        asked.append(request.path_qs)
        return web.Response(text=ARTICLE, content_type="text/html")

    stage = Stage()
    monkeypatch.setattr(tool_integrations, "Web", lambda: StagedWeb(stage))
    async with served({"/pancakes": page}) as port:
        yield Kitchen(f"{stage.put('kitchen.pixi-web.net', port)}/pancakes", asked)


def settings_in(folder: Path, server: ScriptedOpenAI, **overrides: object) -> Settings:
    values: dict[str, object] = {
        "store.url": f"sqlite:///{folder / 'talk.db'}",
        "model.name": "scripted",
        "model.base_url": server.base_url,
        "model.api_key": KEY,
        "web_pages.read": True,
    }
    return load(environ={}, folder=folder, overrides=values | overrides)


@asynccontextmanager
async def talking(settings: Settings, text: str, persona: Persona = PERSONA) -> AsyncIterator[Engine]:
    """Something was said, and answered."""
    place = seat(persona.name, "mo")
    async with open_engine(settings, persona) as engine:
        await engine.receive(place.message(text), RecordingChannel())
        await engine.settled(place.conversation)
        yield engine


async def test_a_page_is_read_and_answered_with(tmp_path: Path, kitchen: Kitchen) -> None:
    async with ScriptedOpenAI(reads(url=kitchen.url), DONE) as server:
        async with talking(settings_in(tmp_path, server), f"what does {kitchen.url} say?"):
            pass
        result = json.loads(told(server))
        assert tools(server, 0) == ["read_page"]
    assert (result["url"], result["title"]) == (kitchen.url, "Pancakes")
    assert "- Flour, 200 g" in result["text"]
    assert "Ignore all" not in result["text"]


async def test_a_question_is_answered_by_the_model_that_reads(tmp_path: Path, kitchen: Kitchen) -> None:
    found = {"answerable": True, "sentences": ["- Flour, 200 g"]}
    helper = stream(content(json.dumps(found)), finish())
    async with ScriptedOpenAI(reads(url=kitchen.url, question="How much flour?"), helper, DONE) as server:
        async with talking(settings_in(tmp_path, server), "how much flour?"):
            pass
        result = json.loads(told(server))
    assert "Flour, 200 g" in result["relevant"][0]["fact"]
    assert result["relevant"][0]["section"] == "What you need"
    assert "text" not in result


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0.0.0.0"])
async def test_nothing_of_the_private_network_is_read(tmp_path: Path, host: str) -> None:
    async with canary() as bird:
        async with ScriptedOpenAI(reads(url=f"http://{host}:{bird.port}/"), DONE) as server:
            async with talking(settings_in(tmp_path, server), "read that"):
                pass
            assert "secret" not in told(server)
        assert bird.visits == 0


@pytest.mark.parametrize("secret", [KEY, "%73k-a-key-that-nobody-may-see", "sk-another0123456789abcdef"])
async def test_an_address_that_holds_a_secret_is_not_fetched(
    tmp_path: Path, kitchen: Kitchen, secret: str
) -> None:
    """A page told the model to carry it out, and the model does as it is told."""
    orders = reads(url=kitchen.url), reads(url=f"{kitchen.url}?said={secret}"), DONE
    async with ScriptedOpenAI(*orders) as server:
        async with talking(settings_in(tmp_path, server), "read that"):
            pass
        assert "holds a secret of this bot" in told(server)
        assert kitchen.asked == ["/pancakes"]
        assert KEY not in "".join(str(request.json()) for request in server.requests[:2])


async def test_who_has_the_tool(tmp_path: Path, kitchen: Kitchen) -> None:
    other: dict[str, object] = {"web_pages.personas": ["Somebody else"]}
    named = Persona("Pixi", "You are Pixi.", tools=("web_pages",))
    cases: list[tuple[dict[str, object], Persona, list[str]]] = [
        ({}, PERSONA, ["read_page"]),
        (other, PERSONA, []),
        (other, named, ["read_page"]),
        ({"web_pages.personas": ["pixi"]}, PERSONA, ["read_page"]),
        ({"web_pages.read": False}, PERSONA, []),
    ]
    async with ScriptedOpenAI(DONE) as server:
        for at, (overrides, persona, expected) in enumerate(cases):
            folder = tmp_path / str(at)
            folder.mkdir()
            async with talking(settings_in(folder, server, **overrides), "hi", persona):
                pass
            assert tools(server) == expected, (overrides, persona)


async def test_without_what_reads_pages_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_integrations, "find_spec", lambda name: None)
    async with ScriptedOpenAI(DONE) as server:
        with pytest.raises(ConfigError, match=r'needs `pip install "pixi-persona\[web\]"`'):
            async with talking(settings_in(tmp_path, server), "hi"):
                pass
