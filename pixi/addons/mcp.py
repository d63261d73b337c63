"""Tools of MCP servers as tools of Pixi: named, described and checked so that any model can call them."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pixi.core.errors import ToolError
from pixi.core.llm import ToolSchema
from pixi.core.untrusted import clipped
from pixi.mcp.offers import ForeignTool, ToolServer
from pixi.settings import McpSettings
from pixi.toolbox.arguments import expected, mended, plain_text, refusal
from pixi.toolbox.foreign_schema import AdaptedSchema, Shape, UnusableSchema, accepted
from pixi.toolbox.schema import mark_of, safe_names
from pixi.toolbox.tools import EVERYBODY, BoundCall, Tool, Toolbox

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_MOST_STEPS = 20_000
_MOST_PROBLEMS = 6
_LONGEST_SCHEMA = 200_000  # characters, as JSON: a larger one is left to the server
_LONGEST_WORDS = 200
_LONGEST_VALUE = 60

_PASSED_OVER = (
    "pattern",  # a stranger's pattern can take for ever
    "patternProperties",
    "format",
    "uniqueItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords left to the server: checking them here has no bound."""

Rule = Callable[["Validator", Any, Any, Mapping[str, Any]], Iterable["ValidationError"] | None]


class _TooMuch(Exception):
    """Checking takes longer than it is worth."""


class ArgumentCheck:
    """Finds what is wrong with arguments before they are sent. What it cannot tell is left to the server.

    Args:
        schema: as the server gave it; read when it is first wanted.
        shape: how a model names what is in them.
    """

    def __init__(self, schema: Mapping[str, Any], shape: Shape) -> None:
        self._schema = schema
        self._shape = shape
        self._left = 0  # steps of checking that are left for these arguments

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return what is wrong, in words for a model; empty where nothing is, or nobody can tell."""
        from referencing.exceptions import Unresolvable

        if self._validator is None:
            return []
        self._left = _MOST_STEPS
        problems: dict[str, None] = {}
        try:
            for error in self._validator.iter_errors(dict(arguments)):
                problems |= dict.fromkeys(self._said(error))
                if len(problems) >= _MOST_PROBLEMS:
                    break
        except (_TooMuch, RecursionError, Unresolvable):
            return []
        return list(problems)

    @cached_property
    def _validator(self) -> "Validator | None":
        """The validator; None where the schema is none that arguments can be checked by."""
        import jsonschema
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import extend, validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        try:
            if len(json.dumps(self._schema)) > _LONGEST_SCHEMA:
                return None
            draft = validator_for(self._schema, default=jsonschema.Draft202012Validator)
            draft.check_schema(self._schema, format_checker=jsonschema.FormatChecker(formats=()))
        except (SchemaError, Unresolvable, ValueError, TypeError, RecursionError):
            return None
        rules = {name: self._counted(rule) for name, rule in draft.VALIDATORS.items()}
        rules |= dict.fromkeys(_PASSED_OVER, _nothing)
        rules["additionalProperties"] = self._counted(
            _unless_by_pattern(draft.VALIDATORS["additionalProperties"])
        )
        counting = extend(draft, validators=rules)
        # An empty registry fetches nothing: no schema leads out of itself.
        checker: Validator = counting(self._schema, registry=Registry())
        return checker

    def _counted(self, rule: Rule) -> Rule:
        def counted(
            validator: "Validator", value: Any, instance: Any, schema: Mapping[str, Any]
        ) -> Iterator["ValidationError"]:
            self._left -= 1
            if self._left < 0:
                raise _TooMuch
            yield from rule(validator, value, instance, schema) or ()

        return counted

    def _said(self, error: "ValidationError") -> Iterator[str]:
        place = self._shape.place(error.absolute_path)
        schema = error.schema if isinstance(error.schema, Mapping) else {}
        match error.validator:
            case "required" if isinstance(error.instance, dict) and isinstance(error.validator_value, list):
                for name in error.validator_value:
                    if name not in error.instance:
                        its = schema.get("properties", {}).get(name, {})
                        wanted = _wanted_value(its)
                        path = self._shape.place([*error.absolute_path, name])
                        yield f"{path} is missing{f': {wanted}' if wanted else ''}"
            case "additionalProperties" if isinstance(error.instance, dict):
                known = schema.get("properties", {})
                for name in error.instance.keys() - known:
                    yield f"there is no argument {self._shape.place([*error.absolute_path, name])}"
            case _ if wanted := _wanted_value(schema):
                yield f"{place} must be {wanted}, not {_shown(error.instance)}"
            case _:
                yield f"{place}: {clipped(error.message, _LONGEST_WORDS)}"


def _nothing(*_: Any) -> None:
    return None


def _unless_by_pattern(rule: Rule) -> Rule:
    def ruled(
        validator: "Validator", value: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Iterable["ValidationError"] | None:
        return None if "patternProperties" in schema else rule(validator, value, instance, schema)

    return ruled


def _wanted_value(schema: object) -> str:
    """Return what a part of the schema takes, in words; "" where it says it in no simple way."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type", ""), str):
        return ""
    try:
        return clipped(expected(schema), _LONGEST_WORDS)
    except (AttributeError, KeyError, TypeError, RecursionError):  # references and other dialects within
        return ""


def _shown(value: object) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), _LONGEST_VALUE)


ALL = "*"
"""Every tool of the server, in its settings."""

_MOST = 1_000  # tools of one server
_LONGEST_DESCRIPTION = 1_024
_LONGEST_NAME = 60  # of a tool's own, where people or models are told of it
_AT_ONCE = 20  # schemas that are written anew in a thread, before others get their turn
_MOST_LEFT_OUT = 20  # that are named one by one

Written = Mapping[str, AdaptedSchema | UnusableSchema]
"""Adapted schemas of tools, by the server's names."""


def source_of(server: str) -> str:
    """Return the source of a server's tools: a persona may name it among its tools."""
    return f"mcp:{server}"


async def written(tools: Sequence[ForeignTool], wishes: McpSettings) -> Written:
    """Write the schemas of the tools that are wanted anew. In a thread: a stranger's may take long."""
    wanted = _wanted(tools, wishes)[:_MOST]
    result: dict[str, AdaptedSchema | UnusableSchema] = {}
    for first in range(0, len(wanted), _AT_ONCE):
        result |= await asyncio.to_thread(_all_written, wanted[first : first + _AT_ONCE])
    return result


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


def _all_written(tools: Sequence[ForeignTool]) -> dict[str, AdaptedSchema | UnusableSchema]:
    return {tool.name: _written(tool) for tool in tools}


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
    """Return the server's description, with the tool's own name in front where a model calls it otherwise."""
    words = plain_text(tool.description, _LONGEST_DESCRIPTION) or plain_text(tool.title, _LONGEST_NAME)
    if not name.endswith(tool.name) or not words:
        named = f"“{plain_text(tool.name, _LONGEST_NAME)}” of the MCP server {tool.server}."
        words = clipped(f"{named} {words}", _LONGEST_DESCRIPTION)
    return words


def _binding(
    name: str, tool: ForeignTool, schema: AdaptedSchema, server: ToolServer, seconds: float
) -> Callable[[Mapping[str, Any]], BoundCall]:
    check = ArgumentCheck(tool.schema, schema.shape)

    def bind(arguments: Mapping[str, Any]) -> BoundCall:
        given = schema.shape.real(mended(arguments, schema.parameters))
        if problems := check.problems(given):
            raise ToolError(refusal(name, problems, schema.parameters))
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
