"""Tools: typed arguments in, a result out, at the price of another round."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pixi.core.deltas import ToolSchema
from pixi.core.errors import ConfigError, ToolError
from pixi.toolbox.context import Context

ToolFunction = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call.

    `call` validates the arguments and runs it; it raises `ToolError` with words the model can act on.
    `timeout` is in seconds; an engine's own limit may be shorter.
    """

    schema: ToolSchema
    call: Callable[[Context, Mapping[str, Any]], Awaitable[Any]]
    timeout: float = 20.0

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.schema.name


def tool_from(function: ToolFunction, *, timeout: float = 20.0) -> Tool:
    """Make a tool of `async def name(context, ...)`: name, docstring and type hints make the schema.

    A hint `Annotated[int, Field(description="…", ge=1)]` gives its parameter a description and bounds.

    Raises:
        ConfigError: it is not `async def`, has no docstring, does not take the context first, or a
            parameter has no type hint, or one that JSON cannot carry.
    """
    # Imported here: pydantic takes a while, and a persona without tools needs none of it.
    import pydantic

    name = function.__name__
    description = _checked_description(function)
    fields = _fields(function)
    # Fields are numbered and known by alias, so that no parameter's name meets one of pydantic's own.
    numbered: dict[str, Any] = {
        f"field_{number}": (hint, pydantic.Field(default, alias=parameter))
        for number, (parameter, (hint, default)) in enumerate(fields.items())
    }
    try:
        arguments_model = pydantic.create_model(
            name, __config__=pydantic.ConfigDict(extra="forbid"), **numbered
        )
        schema = arguments_model.model_json_schema()
    except pydantic.errors.PydanticUserError as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"tool {name!r}: a type hint that JSON cannot carry: {reason}") from None
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)

    async def call(context: Context, arguments: Mapping[str, Any]) -> Any:
        try:
            checked = arguments_model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
                for problem in error.errors(include_url=False)
            )
            raise ToolError(f"Wrong arguments for {name}. {problems}") from None
        given = {parameter: getattr(checked, f"field_{number}") for number, parameter in enumerate(fields)}
        return await function(context, **given)

    return Tool(ToolSchema(name, description, schema), call, timeout)


def _checked_description(function: ToolFunction) -> str:
    name = function.__name__
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"tool {name!r}: write it as `async def {name}(context, ...)`.")
    description = inspect.cleandoc(function.__doc__ or "")
    if not description:
        raise ConfigError(f"tool {name!r}: give it a docstring; the model reads it.")
    return description


def _fields(function: ToolFunction) -> dict[str, tuple[Any, Any]]:
    """The parameters after the context: name to (hint, default), `...` where there is none."""
    name = function.__name__
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except NameError as error:
        raise ConfigError(f"tool {name!r}: a type hint names {error.name!r}, which is not known.") from None
    if not parameters:
        raise ConfigError(f"tool {name!r}: its first parameter is the context.")
    fields: dict[str, tuple[Any, Any]] = {}
    for parameter in parameters[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"tool {name!r}: {parameter} cannot be described to a model; name each one.")
        if parameter.annotation is parameter.empty:
            raise ConfigError(f"tool {name!r}: parameter {parameter.name!r} needs a type hint.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, default)
    return fields


class Toolbox:
    """The tools that an engine knows, by name."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def add(self, tool: Tool) -> None:
        """Register it.

        Raises:
            ConfigError: the name is taken.
        """
        if tool.name in self._tools:
            raise ConfigError(f"tool {tool.name!r}: the name is taken; give it another.")
        self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)
