"""Tools: typed arguments in, a result out, at the price of another round."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pixi.core.deltas import ToolSchema
from pixi.core.errors import ConfigError, ToolError
from pixi.toolbox.context import Context


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call.

    `call` validates the arguments and runs it; it raises `ToolError` with words the model can act on.
    """

    schema: ToolSchema
    call: Callable[[Context, Mapping[str, Any]], Awaitable[Any]]
    timeout: float = 20.0

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.schema.name


def tool_from(function: Callable[..., Awaitable[Any]], *, timeout: float = 20.0) -> Tool:
    """Make a tool of `async def name(context, ...)`: name, docstring and type hints make the schema.

    Raises:
        ConfigError: it is not `async def`, has no docstring, or a parameter has no type hint.
    """
    # Imported here: pydantic takes a while, and a persona without tools needs none of it.
    import pydantic

    name = function.__name__
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"tool {name!r}: write it as `async def {name}(context, ...)`.")
    description = inspect.cleandoc(function.__doc__ or "")
    if not description:
        raise ConfigError(f"tool {name!r}: give it a docstring; the model reads it.")
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.annotation is inspect.Parameter.empty:
            raise ConfigError(f"tool {name!r}: parameter {parameter.name!r} needs a type hint.")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, default)
    arguments_model = pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid"), **fields)
    schema = arguments_model.model_json_schema()
    schema.pop("title", None)

    async def call(context: Context, arguments: Mapping[str, Any]) -> Any:
        try:
            checked = arguments_model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
            )
            raise ToolError(f"Wrong arguments for {name}. {problems}") from None
        return await function(context, **{field: getattr(checked, field) for field in fields})

    return Tool(ToolSchema(name, description, schema), call, timeout)


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
            raise ConfigError(f"tool {tool.name!r}: the name is taken.")
        self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)
