"""Tools of MCP servers as tools of Pixi: named, described and checked so that any model can call them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from pixi.core.errors import ToolError
from pixi.core.llm import ToolSchema
from pixi.core.untrusted import clipped
from pixi.mcp.offers import ForeignTool, ToolServer
from pixi.settings import McpSettings
from pixi.toolbox.arguments import expected, mended, plain_text, refusal, shown
from pixi.toolbox.foreign_schema import AdaptedSchema, UnusableSchema, accepted
from pixi.toolbox.schema import mark_of, safe_names
from pixi.toolbox.tools import EVERYBODY, BoundCall, Tool, Toolbox

_MOST_PROBLEMS = 6


def problems_in(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with arguments, in words for a model, by the schema that it was shown.

    What that does not say, and what may be one of several, is left to the server. So is null: a model is not
    told where it may stand.
    """
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(schema).iter_errors(dict(arguments)):
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        place, wanted = "".join(steps), error.schema
        if error.validator == "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            for name in missing:
                yield f"{place}.{name} is missing: {expected(wanted['properties'][name])}".lstrip(".")
        elif error.instance is not None and error.validator != "anyOf":
            yield f"{place.lstrip('.')} must be {expected(wanted)}, not {shown(error.instance)}"


ALL = "*"
"""Every tool of the server, in its settings."""

_MOST = 1_000  # tools of one server
_LONGEST_DESCRIPTION = 1_024
_LONGEST_NAME = 60  # of a tool's own, where people or models are told of it
_MOST_LEFT_OUT = 20  # that are named one by one

Written = Mapping[str, AdaptedSchema | UnusableSchema]
"""Adapted schemas of tools, by the server's names."""


def source_of(server: str) -> str:
    """Return the source of a server's tools: a persona may name it among its tools."""
    return f"mcp:{server}"


async def written(tools: Sequence[ForeignTool], wishes: McpSettings) -> Written:
    """Write the schemas of the tools that are wanted anew. In a thread: a stranger's may take long."""
    wanted = _wanted(tools, wishes)[:_MOST]
    return await asyncio.to_thread(lambda: {tool.name: _written(tool) for tool in wanted})


def register(
    tools: Sequence[ForeignTool],
    server: ToolServer,
    toolbox: Toolbox,
    wishes: McpSettings,
    schemas: Written = MappingProxyType({}),
) -> list[str]:
    """Register the tools of a server in the place of those that it had before.

    `schemas`: what `written` made of them; what is missing there is made here.

    Gives a line for each tool that is left out with its reason, and for each name in the settings that the
    server does not know. The names that tools get follow from the server's and their own alone, so that
    a conversation can go on with them whenever the server joins.
    """
    source = source_of(server.name)
    toolbox.announce(source)
    toolbox.remove(source)
    told = list(_unknown(tools, server.name, wishes))
    wanted = _wanted(tools, wishes)
    if len(wanted) > _MOST:
        told.append(
            f"MCP server {server.name}: it has {len(wanted)} tools, and the first {_MOST} are taken; "
            f"name those that you want under `tools` of [mcp.{server.name}]."
        )
    names = safe_names((tool.name for tool in tools), before=_front(server.name, toolbox))
    left_out: list[str] = []
    for tool in wanted[:_MOST]:
        schema = schemas.get(tool.name) or _written(tool)
        if isinstance(schema, UnusableSchema):
            left_out.append(f"MCP server {server.name}: the tool {_quoted(tool.name)} is left out: {schema}.")
            continue
        name = names[tool.name]
        instead = _tool(f"{name[:57]}_{mark_of(f'{server.name} {tool.name}')}", tool, schema, server, wishes)
        if toolbox.get(name) is None:
            toolbox.add(replace(_tool(name, tool, schema, server, wishes), instead=instead))
        elif toolbox.get(instead.name) is None:
            toolbox.add(instead)
    if len(left_out) > _MOST_LEFT_OUT:
        more = len(left_out) - _MOST_LEFT_OUT
        left_out[_MOST_LEFT_OUT:] = [f"MCP server {server.name}: {more} more tools are left out so."]
    return told + left_out


def _wanted(tools: Iterable[ForeignTool], wishes: McpSettings) -> list[ForeignTool]:
    """Return the tools that may be used."""
    names = None if wishes.tools is None else set(wishes.tools)
    return [tool for tool in tools if names is None or {tool.name, ALL} & names]


def _written(tool: ForeignTool) -> AdaptedSchema | UnusableSchema:
    try:
        return accepted(tool.schema)
    except UnusableSchema as error:
        return error


def _front(server: str, toolbox: Toolbox) -> str:
    """Return what stands before the names of a server's tools.

    Of the servers `a` and `a_b`, both could have an `a_b_c`: then the second one's are called `a-b_c`.
    """
    others = {name for kind, _, name in (each.partition(":") for each in toolbox.sources) if kind == "mcp"}
    if any(server.startswith(f"{other}_") for other in others - {server}):
        server = server.replace("_", "-")
    (safe,) = safe_names([server]).values()
    return f"{safe[:24]}_" if len(safe) <= 24 else f"{safe[:17]}_{mark_of(server)}_"


def _tool(
    name: str, tool: ForeignTool, schema: AdaptedSchema, server: ToolServer, wishes: McpSettings
) -> Tool:
    reads = tool.reads if wishes.reads is None else bool({tool.name, ALL} & set(wishes.reads))
    return Tool(
        ToolSchema(name, _described(name, tool), schema.parameters),
        _binding(name, tool, schema, server, wishes.seconds),
        timeout=wishes.seconds,
        writes=not reads,
        approval=wishes.approval == "always" or (wishes.approval == "writes" and not reads),
        source=source_of(server.name),
        personas=EVERYBODY if wishes.personas is None else wishes.personas,
    )


def _described(name: str, tool: ForeignTool) -> str:
    """The server's description; with the tool's own name in front, where a model calls it otherwise."""
    words = plain_text(tool.description, _LONGEST_DESCRIPTION) or plain_text(tool.title, _LONGEST_NAME)
    if not name.endswith(tool.name) or not words:
        named = f"“{plain_text(tool.name, _LONGEST_NAME)}” of the MCP server {tool.server}."
        words = clipped(f"{named} {words}", _LONGEST_DESCRIPTION)
    return words


def _binding(
    name: str, tool: ForeignTool, schema: AdaptedSchema, server: ToolServer, seconds: float
) -> Callable[[Mapping[str, Any]], BoundCall]:
    def bind(arguments: Mapping[str, Any]) -> BoundCall:
        meant = mended(arguments, schema.parameters)
        if problems := list(islice(problems_in(meant, schema.parameters), _MOST_PROBLEMS)):
            raise ToolError(refusal(name, problems, schema.parameters))
        given = schema.real(meant)
        return BoundCall(given, lambda _: server.call(tool.name, given, seconds))

    return bind


def _unknown(tools: Sequence[ForeignTool], server: str, wishes: McpSettings) -> Iterator[str]:
    """Yield names in the settings that the server does not have, each with the nearest that it has."""
    known = [tool.name for tool in tools]
    for key, names in (("tools", wishes.tools), ("reads", wishes.reads)):
        for name in names or ():
            if name in known or name == ALL:
                continue
            from difflib import get_close_matches

            near = get_close_matches(name, known[:_MOST], 1, 0.5)
            mend = f"did you mean {_quoted(near[0])}?" if near else f"it has {_listed(known)}."
            where = f"{key} of [mcp.{server}]"
            yield f"MCP server {server}: {where} names {_quoted(name)}, which it does not have; {mend}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(_quoted, names[:8])) or "no tools"
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def _quoted(name: str) -> str:
    return f"“{plain_text(' '.join(name.split()), _LONGEST_NAME)}”"
