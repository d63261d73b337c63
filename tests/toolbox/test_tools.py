"""A function becomes a tool by its name, its docstring and its type hints."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from pixi.core.errors import ConfigError, ToolError
from pixi.core.message import Card
from pixi.toolbox.context import Context
from pixi.toolbox.schema import ToolFunction
from pixi.toolbox.tools import Toolbox, tool_from

NOBODY: Any = None


class Place(BaseModel):
    town: str
    country: str = "SE"


async def weather(
    context: Context,
    place: Place,
    days: Annotated[int, Field(description="how many days", ge=1, le=7)] = 1,
    unit: Literal["C", "F"] = "C",
) -> str:
    """The weather at a place.

    In the next days.
    """
    return f"{type(place).__name__} {place.town} {days} {unit}"


async def oddly(context: Context, copy: int, json: str, model_x: bool, schema: list[int]) -> object:
    """Parameters that have the names of pydantic's own."""
    return [copy, json, model_x, schema]


def not_async(context: Context) -> None:
    """nothing"""


async def silent(context: Context) -> None:
    pass


async def unhinted(context: Context, a) -> None:  # type: ignore[no-untyped-def]
    """no hint"""


async def starred(context: Context, *a: int) -> None:
    """stars"""


async def unknown(context: Context, a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """a hint of nothing"""


async def unjsonable(context: Context, a: Context) -> None:
    """a hint that JSON cannot carry"""


async def structured(context: Context, a: list[Card]) -> None:
    """a hint of one of Pixi's own values"""


async def alone() -> None:
    """no context"""


def test_the_schema() -> None:
    tool = tool_from(weather)
    assert tool.name == "weather"
    assert tool.schema.description == "The weather at a place.\n\nIn the next days."
    parameters = tool.schema.parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["place"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["days"] == {
        "type": "integer",
        "default": 1,
        "minimum": 1,
        "maximum": 7,
        "description": "how many days",
    }
    assert parameters["properties"]["unit"]["enum"] == ["C", "F"]
    assert "title" not in parameters


async def test_arguments_are_checked_and_made_what_the_hints_say() -> None:
    tool = tool_from(weather)
    assert await tool.call(NOBODY, {"place": {"town": "Visby"}, "days": "3"}) == "Place Visby 3 C"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "place is missing: an object with town (a text), country (a text, optional)"),
        ({"place": {"town": "Visby"}, "days": 9}, "days must be a whole number from 1 to 7, not 9"),
        ({"place": {}}, "place.town is missing: a text"),
        ({"place": {"town": "Visby"}, "dais": 3}, "there is no argument dais; did you mean days?"),
        (
            {"place": 3, "unit": "K"},
            "place must be an object with town (a text), country (a text, optional), "
            'not 3; unit must be one of "C", "F", not "K"',
        ),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError) as caught:
        await tool_from(weather).call(NOBODY, arguments)
    assert str(caught.value) == (
        f"Wrong arguments for weather: {told}. It takes place (an object with town (a text), country "
        "(a text, optional)), days (a whole number from 1 to 7; may be left out), "
        'unit (one of "C", "F"; may be left out).'
    )


async def test_any_name_will_do() -> None:
    arguments = {"copy": 1, "json": "x", "model_x": True, "schema": [1]}
    assert await tool_from(oddly).call(NOBODY, arguments) == [1, "x", True, [1]]


@pytest.mark.parametrize(
    ("function", "mend"),
    [
        (not_async, "async def not_async"),
        (silent, "docstring"),
        (unhinted, "parameter 'a' needs a type hint"),
        (starred, "name each one"),
        (unknown, "'Nowhere', which is not known"),
        (unjsonable, "JSON cannot carry: .*Context'>; write a dataclass in its place"),
        (structured, "JSON cannot carry: .*Card'>; write a dataclass in its place"),
        (alone, "first parameter is the context"),
    ],
)
def test_what_cannot_be_a_tool(function: Any, mend: str) -> None:
    with pytest.raises(ConfigError, match=mend):
        tool_from(function)


def test_names_are_taken_once() -> None:
    toolbox = Toolbox()
    toolbox.add(tool_from(weather, timeout=3))
    with pytest.raises(ConfigError, match="'weather'"):
        toolbox.add(tool_from(weather))
    assert [tool.timeout for tool in toolbox] == [3]
    assert len(toolbox) == 1
    assert toolbox.get("sun") is None


def test_tools_of_one_closure_keep_their_own_names() -> None:
    def named(name: str) -> ToolFunction:
        async def search(context: Context) -> None:
            """search"""

        search.__module__, search.__name__ = "pixi.anything", name
        return search

    assert [tool_from(named(name)).name for name in ("tea", "cakes")] == ["tea", "cakes"]


async def knowing(context: Context) -> None:
    """know"""


def test_a_source_goes_with_its_tools_and_stays_known() -> None:
    toolbox = Toolbox()
    toolbox.add(tool_from(weather))
    toolbox.add(tool_from(knowing, source="database:cakes"))
    before = toolbox.version
    assert toolbox.remove("database:tea") == 0
    assert toolbox.version == before
    assert toolbox.remove("database:cakes") == 1
    assert toolbox.version != before
    assert [tool.name for tool in toolbox] == ["weather"]
    assert toolbox.sources == {"database:cakes"}
    again = toolbox.version
    toolbox.add(tool_from(knowing, source="database:cakes"))  # as many as before, and yet another version
    assert toolbox.version != again


@pytest.mark.parametrize(
    ("terms", "mend"),
    [
        ({"timeout": 0}, "timeout is 0"),
        ({"result_bytes": 10}, "give it 256 or more"),
        ({"allow": "admins"}, "write one of everyone, managers, operators"),
    ],
)
def test_terms_that_cannot_hold(terms: Any, mend: str) -> None:
    with pytest.raises(ConfigError, match=f"tool 'knowing': .*{mend}"):
        tool_from(knowing, **terms)


def test_a_name_that_servers_refuse() -> None:
    async def جستجو(context: Context) -> None:  # noqa: PLC2401
        """search"""

    with pytest.raises(ConfigError, match="letters a to z"):
        tool_from(جستجو)


def test_what_it_does_in_a_line() -> None:
    assert tool_from(weather).does == "The weather at a place."
