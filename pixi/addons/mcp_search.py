"""The web searched with a tool of an MCP server, found when it is wanted and asked in its own words."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pixi.core.errors import ToolError
from pixi.toolbox.context import Context
from pixi.toolbox.safe_names import safe_names
from pixi.toolbox.tools import Tool, Toolbox

_QUERIES = (
    "query",
    "q",
    "search_query",
    "search_term",
    "search",
    "keywords",
    "keyword",
    "term",
    "text",
    "question",
)
_LIMITS = ("limit", "max_results", "num_results", "count", "results", "top_k", "n", "num")


class McpSearch:
    """A `pixi.addons.web_search.SearchBackend`.

    Args:
        toolbox: has the server's tools, once it is there.
        wanted: the tool, as `SERVER.TOOL`.
    """

    name = "mcp"

    def __init__(self, toolbox: Toolbox, wanted: str) -> None:
        self._toolbox = toolbox
        self._wanted = wanted
        self._server, _, self._tool = wanted.partition(".")

    async def __call__(self, context: Context, query: str, limit: int) -> object:
        """Have the server's tool search; what it gives is handed on."""
        tool = self._found()
        return await tool.call(context, self._arguments(tool, query, limit))

    def _found(self) -> Tool:
        its = [tool for tool in self._toolbox if tool.source == f"mcp:{self._server}"]
        if not its:
            raise ToolError(
                f"The web cannot be searched just now: the MCP server {self._server!r} is not there. Say so."
            )
        names = set(_names(self._server, self._tool))
        tool = next((each for each in its if each.name in names), None)
        if tool is None:
            known = [each.name for each in its]
            near = get_close_matches(min(names, key=len), known, 1, 0.3)
            meant = f"; {near[0]} is the nearest that it has" if near else ""
            raise ToolError(
                f"The web cannot be searched: the MCP server {self._server!r} has no tool {self._tool!r}"
                f"{meant}. The operator can mend `tool` of [web_search]."
            )
        if tool.writes or tool.approval:
            raise ToolError(
                f"The web cannot be searched with {self._wanted}: as far as is known it changes something. "
                f'The operator can add reads = ["{self._tool}"] to [mcp.{self._server}].'
            )
        return tool

    def _arguments(self, tool: Tool, query: str, limit: int) -> dict[str, Any]:
        """The query and the limit, by the names that the tool has for them."""
        properties = tool.schema.parameters.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        name = _named(known, _QUERIES, "string") or _only(tool.schema.parameters, known)
        if name is None:
            raise ToolError(
                f"The web cannot be searched with {self._wanted}: none of its parameters is a query "
                f"({', '.join(known) or 'it has none'}). The operator can name another in [web_search]."
            )
        several = _named(known, _LIMITS, "integer") or _named(known, _LIMITS, "number")
        return {name: query} | ({several: _within(known[several], limit)} if several else {})


def _names(server: str, tool: str) -> Iterator[str]:
    """What a tool of a server may be called here."""
    (safe,) = safe_names([tool], before="_").values()
    for front in (server, server.replace("_", "-")):
        yield f"{safe_names([front])[front]}{safe}"


def _named(known: Mapping[str, Any], names: tuple[str, ...], kind: str) -> str | None:
    """The parameter that has one of these names, however it is written."""
    plain = {name.replace("_", "").replace("-", "").casefold(): name for name in known}
    found = (plain.get(name.replace("_", "")) for name in names)
    return next((name for name in found if name is not None and _is(known[name], kind)), None)


def _only(schema: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
    """The one text that must be given; else the one that there is."""
    texts = [name for name in known if _is(known[name], "string")]
    required = [name for name in texts if name in schema.get("required", ())]
    return required[0] if len(required) == 1 else texts[0] if len(texts) == 1 else None


def _is(schema: object, kind: str) -> bool:
    told = schema.get("type", kind) if isinstance(schema, Mapping) else None
    return kind in told if isinstance(told, list) else told == kind


def _within(schema: Mapping[str, Any], limit: int) -> int:
    most, least = schema.get("maximum"), schema.get("minimum")
    limit = min(limit, int(most)) if isinstance(most, int | float) else limit
    return max(limit, int(least)) if isinstance(least, int | float) else limit
