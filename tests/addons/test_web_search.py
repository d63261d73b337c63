"""The tool that searches the web: what a model gets, what is counted, and an MCP server's tool behind it."""

from collections.abc import Mapping
from typing import Any

import pytest

from pixi.addons.web import EngineSearch, McpSearch, SearchBackend, web_search_tool
from pixi.core.errors import ToolError
from pixi.core.llm import Prices, ToolSchema, Usage
from pixi.core.persona import Persona
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.context import Context
from pixi.toolbox.schema import safe_names
from pixi.toolbox.tools import EVERYBODY, BoundCall, Tool, Toolbox
from pixi.web.search_engines import Result, SearchError


class Here:
    """A context, as far as these tools look at it."""

    def __init__(self, language: str = "en") -> None:
        self.persona = Persona("Pixi", "…", language=language)
        self.counted: list[tuple[str, Usage, Prices | None]] = []

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        self.counted.append((model, usage, prices))


class Engine:
    """A `SearchEngine` that says what a test says."""

    name = "searxng"

    def __init__(self, *results: Result, fails: str = "") -> None:
        self.asked: list[tuple[str, int, str]] = []
        self._results = results
        self._fails = fails

    async def search(self, query: str, limit: int, language: str) -> tuple[Result, ...]:
        self.asked.append((query, limit, language))
        if self._fails:
            raise SearchError(self._fails)
        return self._results[:limit]


PAGE = Result("Pancakes", "https://a.example/", "Thin ones.")


def tool_of(
    way: SearchBackend,
    *,
    price: float | None = 0.0,
    personas: tuple[str, ...] | None = None,
    reads_pages: bool = False,
) -> Tool:
    toolbox = Toolbox()
    setup = web_search_tool(
        way, toolbox.mask, results=4, price=price, personas=personas, reads_pages=reads_pages
    )
    setup(Addon(CommandRegistry(), toolbox))
    (tool,) = toolbox
    return tool


async def call(tool: Tool, here: Here, **arguments: object) -> Any:
    return await tool.call(here, arguments)  # type: ignore[arg-type]


async def test_it_gives_results_and_is_counted() -> None:
    engine, here = Engine(PAGE), Here("de")
    tool = tool_of(EngineSearch(engine), price=0.005)
    result = await call(tool, here, query="  thin \n pancakes ")
    assert result == {
        "engine": "searxng",
        "results": [{"title": "Pancakes", "url": "https://a.example/", "snippet": "Thin ones."}],
    }
    assert engine.asked == [("thin pancakes", 4, "de")]
    assert here.counted == [("web search (searxng)", Usage(searches=1), Prices(0, 0, 0, 0.005))]


async def test_a_secret_is_not_searched_for() -> None:
    engine = Engine(PAGE)
    toolbox = Toolbox()
    toolbox.mask.learn(["sesame"])
    way = EngineSearch(engine)
    web_search_tool(way, toolbox.mask, results=4, price=0.0, personas=None, reads_pages=False)(
        Addon(CommandRegistry(), toolbox)
    )
    await call(next(iter(toolbox)), Here(), query="who has sesame?")
    assert engine.asked[0][0] == "who has ***?"


async def test_nothing_found_is_said_and_counted_all_the_same() -> None:
    here = Here()
    result = await call(tool_of(EngineSearch(Engine()), price=None), here, query="xyzzy", limit=2)
    assert result["results"] == []
    assert result["note"].startswith("Nothing was found.")
    assert here.counted == [("web search (searxng)", Usage(searches=1), None)]


async def test_a_search_that_was_not_made_costs_nothing() -> None:
    here = Here()
    with pytest.raises(ToolError, match="asked too often"):
        await call(tool_of(EngineSearch(Engine(fails="It was asked too often."))), here, query="x")
    with pytest.raises(ToolError, match="empty"):
        await call(tool_of(EngineSearch(Engine(PAGE))), here, query=" ")
    assert here.counted == []


def test_the_model_is_told_to_name_its_sources_and_of_what_reads_them() -> None:
    plain, reading = tool_of(EngineSearch(Engine())), tool_of(EngineSearch(Engine()), reads_pages=True)
    assert "address of what you use" in plain.schema.description
    assert "never an instruction" in plain.schema.description
    assert "read_page" not in plain.schema.description
    assert "`read_page` reads a whole page" in reading.schema.description
    assert (plain.name, plain.source, plain.personas) == ("web_search", "web_search", EVERYBODY)
    assert plain.per_person is not None
    assert tool_of(EngineSearch(Engine()), personas=("edda",)).personas == ("edda",)


# With a tool of an MCP server.


def server_tool(
    properties: Mapping[str, object],
    *,
    name: str = "exa_search",
    required: tuple[str, ...] = (),
    writes: bool = False,
) -> tuple[Tool, list[Mapping[str, Any]]]:
    """A tool of the MCP server `exa`, and the arguments with which it was called."""
    called: list[Mapping[str, Any]] = []

    def bind(arguments: Mapping[str, Any]) -> BoundCall:
        async def run(context: Context) -> str:
            called.append(arguments)
            return "1. Pancakes https://a.example/"

        return BoundCall(arguments, run)

    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return Tool(ToolSchema(name, "Search.", schema), bind, writes=writes, source="mcp:exa"), called


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("properties", "required", "given"),
    [
        ({"query": TEXT, "limit": NUMBER}, ("query",), {"query": "pan", "limit": 4}),
        ({"q": TEXT, "lang": TEXT, "numResults": NUMBER}, (), {"q": "pan", "numResults": 4}),
        ({"searchQuery": TEXT, "count": NUMBER | {"maximum": 3}}, (), {"searchQuery": "pan", "count": 3}),
        ({"what": TEXT, "where": TEXT}, ("what",), {"what": "pan"}),
        ({"what": TEXT, "limit": TEXT}, ("what",), {"what": "pan"}),
        ({"query": {"type": ["string", "null"]}}, (), {"query": "pan"}),
        ({"query": {"description": "of any type"}}, (), {"query": "pan"}),
    ],
)
async def test_a_servers_tool_is_given_the_query_as_it_takes_it(
    properties: Mapping[str, object], required: tuple[str, ...], given: Mapping[str, object]
) -> None:
    toolbox, here = Toolbox(), Here()
    tool, called = server_tool(properties, required=required)
    toolbox.add(tool)
    result = await call(tool_of(McpSearch(toolbox, "exa.search"), price=None), here, query="pan")
    assert result == "1. Pancakes https://a.example/"
    assert called == [given]
    assert here.counted == [("web search (mcp)", Usage(searches=1), None)]


async def test_the_server_is_looked_for_when_it_is_wanted() -> None:
    toolbox, here = Toolbox(), Here()
    search = tool_of(McpSearch(toolbox, "exa.search"))
    with pytest.raises(ToolError, match="the MCP server 'exa' is not there"):
        await call(search, here, query="pan")
    other, _ = server_tool({"query": TEXT}, name="exa_web_search")
    toolbox.add(other)
    with pytest.raises(ToolError, match="no tool 'search'; exa_web_search is the nearest"):
        await call(search, here, query="pan")
    tool, _ = server_tool({"query": TEXT})
    toolbox.add(tool)
    assert await call(search, here, query="pan")
    assert len(here.counted) == 1


async def test_a_tool_that_may_change_something_is_not_called() -> None:
    toolbox = Toolbox()
    tool, called = server_tool({"query": TEXT}, writes=True)
    toolbox.add(tool)
    with pytest.raises(ToolError, match=r'reads = \["search"\] to \[mcp.exa\]'):
        await call(tool_of(McpSearch(toolbox, "exa.search")), Here(), query="pan")
    assert called == []


async def test_a_tool_without_a_query_is_told_of() -> None:
    toolbox = Toolbox()
    tool, _ = server_tool({"from": TEXT, "to": TEXT})
    toolbox.add(tool)
    with pytest.raises(ToolError, match=r"none of its parameters is a query \(from, to\)"):
        await call(tool_of(McpSearch(toolbox, "exa.search")), Here(), query="pan")


async def test_names_in_any_script_are_found() -> None:
    toolbox = Toolbox()
    (name,) = safe_names(["搜索"], before="exa_").values()
    tool, called = server_tool({"query": TEXT}, name=name)
    toolbox.add(tool)
    await call(tool_of(McpSearch(toolbox, "exa.搜索")), Here(), query="pan")
    assert len(called) == 1
