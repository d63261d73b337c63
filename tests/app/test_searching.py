"""Wikis and the search of the web in a service: from the settings to the answer, the books, and a reload."""

import asyncio
import json
import logging
import ssl
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pixi.app import tool_integrations
from pixi.app.databases import DatabasePool
from pixi.app.integrations import Integrations
from pixi.app.reload import SettingsReloader
from pixi.app.service import BotService
from pixi.core.errors import ConfigError
from pixi.core.llm import Usage
from pixi.core.spending import UsageScope, day_of
from pixi.fetching import guard
from pixi.fetching.web import Web
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel
from pixi.toolbox.context import Context
from pixi.web.pages import WebPageReader
from tests.app.scene import hello, message, persona_file, reading, service_in, settings_file
from tests.servers.model_faults import speaking_tls
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, answer, call, finish, stream, usage
from tests.servers.scripted_responses import message as message_of
from tests.servers.scripted_responses import responses, searched
from tests.servers.scripted_wiki import Article, ScriptedWiki
from tests.servers.staged_web import Stage, StagedWeb, served
from tests.waiting import LIMIT, until

SEARCHED = {
    "query": "pancakes",
    "results": [{"url": "https://a.example/thin", "title": "Thin pancakes", "content": "How they are made."}],
}
WIKI = {"Creeper": Article("<p>A creeper drops gunpowder when it dies.</p>")}


EXA = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("exa")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_pages(search_query: str, num_results: int = 10) -> str:
    return f"{num_results} pages about {search_query}"


server.run()
"""


@dataclass
class World:
    """A model's server, a SearXNG server and a wiki."""

    model: ScriptedOpenAI
    searxng: ScriptedOpenAI
    wiki: ScriptedWiki
    folder: Path

    def settings(self, more: str = "") -> None:
        settings_file(self.folder, self.model, more)
        persona_file(self.folder, "wren")

    @property
    def search(self) -> str:
        """The section that has the web searched there."""
        url = self.searxng.base_url.removesuffix("/v1")
        return f'[web_search]\nengine = "searxng"\nurl = "{url}"\n'

    @property
    def blocks(self) -> str:
        """The section of the wiki."""
        return f'[wiki.blocks]\nurl = "{self.wiki.url}"\nabout = "the blocks game"\n'

    def told(self, at: int = -1) -> list[dict[str, Any]]:
        """The messages that the model was shown."""
        return list(self.model.requests[at].json()["messages"])

    def offered(self, at: int = -1) -> set[str]:
        """The tools that it was offered."""
        return {each["function"]["name"] for each in self.model.requests[at].json().get("tools", [])}


def asking(tool: str, **arguments: object) -> Reply:
    return stream(
        call(tool, json.dumps(arguments), index=0, call_id="call_1"), finish("tool_calls"), usage(50, 5)
    )


async def joined(service: BotService, source: str) -> None:
    """Wait for the tools of a source."""
    await until(lambda: any(tool.source == source for tool in service.engine.tools), f"tools of {source}")


SAYS = stream("[SEND: so it is]", finish(), usage(90, 5))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with (
        ScriptedOpenAI(choose=hello) as model,
        ScriptedOpenAI(answer(200, SEARCHED)) as searxng,
        ScriptedWiki(dict(WIKI)) as wiki,
    ):
        yield World(model, searxng, wiki, tmp_path)


def replying(world: World, *replies: Reply) -> None:
    """The model gives these, one after the other."""
    left = list(replies)

    def choose(_: Seen) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    world.model._choose = choose


async def test_a_search_is_made_answered_and_booked(world: World) -> None:
    world.settings(f"{world.search}price = 0.002\n")
    replying(world, asking("web_search", query="pancakes"), SAYS)
    channel = RecordingChannel()
    async with service_in(world.folder) as service:
        await service.receive(message(1, "search", persona="wren"), channel)
        await service.engine.settled()
        bill = await service.engine.bill()
        status = await service.status(UsageScope())
    assert channel.sent == ["so it is"]
    told = json.loads(world.told()[-1]["content"])
    assert told["results"][0]["url"] == "https://a.example/thin"
    (searched,) = world.searxng.requests
    assert searched.path.startswith("/search?q=pancakes&format=json")
    assert [(way.model, way.usage.searches, way.cost) for way in bill.searches] == [
        ("web search (searxng)", 1, 0.002)
    ]
    assert status.month.usage.searches == 1
    store = await SqliteStore.open(world.folder / "pixi.db")
    today = day_of(time.time())
    rows = {row.model: row for row in await store.usage(today - 1, today, "model", "person")}
    await store.close()
    assert rows["web search (searxng)"].person == "5"
    assert rows["first"].usage == Usage(140, 0, 10)


async def test_a_wiki_is_read_and_its_tools_are_everybodys(world: World) -> None:
    world.settings(world.blocks)
    question = "What does a creeper drop?"
    replying(world, asking("query_blocks_wiki", question=question, titles=["Creeper"]), SAYS)
    async with service_in(world.folder) as service:
        assert world.wiki.requests == [], "nothing is fetched before somebody asks"
        await service.receive(message(1, persona="wren"), RecordingChannel())
        await service.engine.settled()
    assert world.offered(0) == {"search_blocks_wiki", "query_blocks_wiki"}
    result = next(each for each in world.told() if each["role"] == "tool")
    told = json.loads(result["content"])
    assert told["wiki"] == "Blocks Wiki"
    assert told["read"] == ["Creeper"]


async def test_a_reload_brings_and_takes_away(world: World) -> None:
    world.settings()
    async with service_in(world.folder) as service:
        reloading = SettingsReloader(service, reading(world.folder), world.folder)
        channel = RecordingChannel()

        async def offered(number: int) -> set[str]:
            await service.receive(message(number, persona="wren"), channel)
            await service.engine.settled()
            return world.offered()

        assert await offered(1) == set()
        world.settings(world.search + world.blocks)
        await reloading.reload()
        assert await offered(2) == {"web_search", "search_blocks_wiki", "query_blocks_wiki"}
        world.settings("[web_pages]\nread = true\n" + world.search + 'personas = ["edda"]\n')
        await reloading.reload()
        assert "search_blocks_wiki" not in await offered(3)
        assert "web_search" not in world.offered()
        world.settings(world.blocks + 'personas = ["nobody"]\n')
        await reloading.reload()
        assert await offered(4) == set()


async def test_a_persona_may_name_a_wiki_that_others_do_not_have(world: World) -> None:
    world.settings(f"{world.blocks}personas = []\n")
    persona_file(world.folder, "jay", "---\nname: Jay\ntools: ['wiki:blocks']\n---\n\nYou are Jay.\n")
    async with service_in(world.folder) as service:
        channel = RecordingChannel()
        await service.receive(message(1, persona="wren"), channel)
        await service.receive(message(2, persona="jay"), channel)
        await service.engine.settled()
    tools = [world.offered(0), world.offered(1)]
    assert sorted(map(len, tools)) == [0, 2]


async def test_a_provider_searches_by_itself_where_it_can(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.settings('[web_search]\nengine = "native"\nprice = 0.01\n')
    (world.folder / ".env").write_text("PIXI_MODEL__API=responses\n")
    cited = message_of("[SEND: they are flat]", cited=[("https://a.example/", "A")], index=1)
    replying(world, responses(searched("pancakes"), cited))
    channel = RecordingChannel()
    async with service_in(world.folder) as service:
        await service.receive(message(1, persona="wren"), channel)
        await service.engine.settled()
        bill = await service.engine.bill()
    assert channel.sent[0] == "they are flat"
    assert {tool["type"] for tool in world.model.requests[-1].json()["tools"]} == {"web_search"}
    assert [(way.model, way.usage.searches, way.cost) for way in bill.searches] == [
        ("web search (native)", 1, 0.01)
    ]
    assert not [record for record in caplog.records if "cannot search" in record.getMessage()]


async def test_a_tool_of_an_mcp_server_searches(world: World) -> None:
    script = world.folder / "exa.py"
    script.write_text(EXA)
    world.settings(
        f'[mcp.exa]\ncommand = "{sys.executable}"\nargs = ["{script}"]\n'
        '[web_search]\nengine = "mcp"\ntool = "exa.find_pages"\nprice = 0.02\n'
    )
    replying(world, asking("web_search", query="pancakes", limit=3), SAYS)
    async with service_in(world.folder) as service:
        await joined(service, "mcp:exa")
        await service.receive(message(1, persona="wren"), RecordingChannel())
        await service.engine.settled()
        bill = await service.engine.bill()
    result = next(each for each in world.told() if each["role"] == "tool")
    assert "3 pages about pancakes" in result["content"]
    assert [(way.model, way.usage.searches, way.cost) for way in bill.searches] == [
        ("web search (mcp)", 1, 0.02)
    ]


async def test_a_model_that_cannot_search_by_itself_is_told_of_in_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.settings('[web_search]\nengine = "native"\n')
    with caplog.at_level(logging.WARNING, "pixi"):
        async with service_in(world.folder) as service:
            world.settings('[web_search]\nengine = "native"\nresults = 3\n')  # the tool is registered anew
            await SettingsReloader(service, reading(world.folder), world.folder).reload()
            await service.receive(message(1, persona="wren"), RecordingChannel())
            await service.engine.settled()
    lines = [record.getMessage() for record in caplog.records if "cannot search" in record.getMessage()]
    assert lines == ["first cannot search the web by itself; DuckDuckGo is asked in its place ([web_search])"]
    assert world.offered() == {"web_search"}


async def test_what_is_missing_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ConfigError('[web_search]: it needs `pip install "pixi-persona[web]"`')

    monkeypatch.setattr(tool_integrations, "require_ddgs", missing)
    for engine in ("duckduckgo", "native"):
        world.settings(f'[web_search]\nengine = "{engine}"\n')
        with pytest.raises(ConfigError, match=r"pip install"):
            async with service_in(world.folder):
                pass


async def test_wikis_whose_tools_have_a_name_that_is_taken_come_once_it_is_free(world: World) -> None:
    async def query_blocks_wiki(_: Context) -> str:
        """An addon's own."""
        return "mine"

    world.settings(world.blocks)
    settings = reading(world.folder)()
    world.settings()
    async with service_in(world.folder) as service:
        tools = service.engine.tools
        service.engine.addon.tool(source="mine")(query_blocks_wiki)
        engine, library = service.engine, DatabasePool(settings, None, progress=print)
        integrations = Integrations(engine.addon, engine.tools, engine.settings, library, print)
        for _ in range(2):
            with pytest.raises(ConfigError, match="query_blocks_wiki"):
                await tool_integrations.apply_wikis(integrations, settings)
        tools.remove("mine")
        await tool_integrations.apply_wikis(integrations, settings)
        brought = {tool.name for tool in tools if tool.source == "wiki:blocks"}
        assert brought == {"search_blocks_wiki", "query_blocks_wiki"}
        await integrations.close()


async def test_servers_are_told_where_the_operator_is_found(world: World) -> None:
    world.settings(f'{world.search}{world.blocks}[web_pages]\ncontact = "mo@example.org"\n')
    replying(
        world, asking("web_search", query="pancakes"), asking("search_blocks_wiki", query="creeper"), SAYS
    )
    async with service_in(world.folder) as service:
        await service.receive(message(1, persona="wren"), RecordingChannel())
        await service.engine.settled()
    asked = [*world.searxng.requests, *world.wiki.requests]
    assert len(asked) > 2
    assert all(seen.headers["user-agent"].endswith("; mo@example.org)") for seen in asked)


async def test_pages_that_hang_do_not_hold_up_other_hosts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def hello_there(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    stage = Stage()
    monkeypatch.setattr(guard, "_CONNECTIONS", 1)
    monkeypatch.setattr(tool_integrations, "Web", lambda: StagedWeb(stage))
    world.settings("[web_pages]\nread = true\nrobots = false\n[wiki.wikipedia]\n")
    async with served({"/slow": hang, "/": hello_there}) as port, service_in(world.folder) as service:
        host = stage.put("pages.org", port)
        pages: WebPageReader = service.integrations.once("pages", pytest.fail)
        asking_it = asyncio.create_task(pages.read(f"{host}/slow"))
        await until(hanging.is_set)
        of_wikis: Web = service.integrations.once("web", pytest.fail)
        assert (await of_wikis.get(host, trusted=False, seconds=LIMIT)).body == b"hello"
        assert not asking_it.done()
        asking_it.cancel()
        await asyncio.wait([asking_it])


async def test_two_wikis_whose_tools_would_be_called_the_same_are_refused(world: World) -> None:
    world.settings("[wiki.a-b]\n[wiki.a_b]\n")
    with pytest.raises(ConfigError, match=r"\[wiki.a-b\] and \[wiki.a_b\].*rename one"):
        async with service_in(world.folder):
            pass


async def test_wikipedia_is_asked_in_the_personas_language(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    stage = Stage(tls=tls)
    monkeypatch.setattr(tool_integrations, "Web", lambda: StagedWeb(stage))
    articles = {"苦力怕": Article("<p>苦力怕是一种会爆炸的生物。</p>")}
    async with ScriptedWiki(articles, name="維基百科", tls=speaking_tls("own")) as chinese:
        stage.put("zh.wikipedia.org", int(chinese.root.rpartition(":")[2]), as_port=443)
        chinese.host = "https://zh.wikipedia.org"
        world.settings("[wiki.wikipedia]\n")
        persona_file(world.folder, "qin", "---\nname: 秦\nlanguage: zh-Hant\n---\n\n你是秦。\n")
        replying(world, asking("query_wikipedia_wiki", question="苦力怕是什么？", titles=["苦力怕"]), SAYS)
        async with service_in(world.folder) as service:
            await service.receive(message(1, persona="qin"), RecordingChannel())
            await service.engine.settled()
    told = json.loads(next(each for each in world.told() if each["role"] == "tool")["content"])
    assert (told["wiki"], told["read"]) == ("維基百科", ["苦力怕"])
    assert told["relevant"][0]["source"]["url"].startswith("https://zh.wikipedia.org/wiki/%E8%8B%A6")
    assert {each["variant"] for each in chinese.asked if each["action"] == "parse"} == {"zh-hant"}
    assert set(stage.looked_up) == {"zh.wikipedia.org"}
