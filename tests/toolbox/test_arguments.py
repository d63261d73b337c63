"""Arguments as models write them: mended where it is plain what was meant, else refused in words."""

import json
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from pixi.core.errors import ToolError
from pixi.core.llm import ToolCall
from pixi.toolbox.arguments import arguments_in, checked
from pixi.toolbox.context import Context
from pixi.toolbox.schema import signature_of


class Unit(Enum):
    METRIC = "metric"
    IMPERIAL = "Imperial"


class Place(BaseModel):
    """somewhere"""

    title: str
    tags: list[str] = []
    parent: int | None = None


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


async def look(  # noqa: PLR0917
    context: Context,
    place: Place | None = None,
    ids: list[int] = [],  # noqa: B006 - pydantic copies it
    names: list[str] = [],  # noqa: B006
    unit: Unit = Unit.METRIC,
    level: Literal["low", "high", 3] = "low",
    count: Annotated[int, Field(ge=1, le=9)] = 1,
    loud: bool = False,
    text: str = "",
    limit: int | None = 5,
    scores: dict[str, float] = {},  # noqa: B006
) -> None:
    """Look at something.

    In whatever way.

    Args:
        place (Place): where to look,
            if anywhere
        ids: numbers of entries: those that a search gave
        nobody: is told of nowhere

    Returns:
        nothing at all

    Raises:
        ToolError: never
    """


async def grow(context: Context, tree: Tree) -> None:
    """Grow a tree."""


async def ask(context: Context, query: str, anything: Any = None) -> None:
    """Ask."""


LOOK, GROW, ASK = signature_of(look), signature_of(grow), signature_of(ask)


def test_the_docstring_describes_the_tool_and_its_parameters() -> None:
    assert LOOK.schema.description == (
        "Look at something.\n\nIn whatever way.\n\nReturns:\n    nothing at all"
    )
    told = LOOK.schema.parameters["properties"]
    assert told["place"]["description"] == "where to look, if anywhere"
    assert told["ids"]["description"] == "numbers of entries: those that a search gave"
    assert "nobody" not in told


def test_the_schema_is_written_out_without_references_titles_and_nulls() -> None:
    schema = LOOK.schema.parameters
    text = json.dumps(schema)
    assert [word for word in ("$ref", "$defs", "null") if word in text] == []
    assert schema["properties"]["place"] == {
        "description": "where to look, if anywhere",
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "parent": {"type": "integer"},
        },
        "required": ["title"],
    }
    assert schema["properties"]["unit"] == {
        "enum": ["metric", "Imperial"],
        "type": "string",
        "default": "metric",
    }
    assert schema["properties"]["limit"] == {"type": "integer", "default": 5}
    assert schema["additionalProperties"] is False


def test_a_type_that_holds_itself_keeps_its_reference_and_works() -> None:
    assert "$defs" in GROW.schema.parameters
    tree = {"name": "a", "children": [{"name": "b"}]}
    assert checked(GROW, {"tree": tree})["tree"].children[0].name == "b"
    with pytest.raises(ToolError, match=r"tree\.name"):
        checked(GROW, {"tree": {}})


@pytest.mark.parametrize(
    ("given", "name", "meant"),
    [
        ({"count": "5"}, "count", 5),
        ({"count": 5.0}, "count", 5),
        ({"loud": "true"}, "loud", True),
        ({"text": 5}, "text", "5"),
        ({"ids": 3}, "ids", [3]),
        ({"ids": "3"}, "ids", [3]),
        ({"ids": "1, 2;3 4"}, "ids", [1, 2, 3, 4]),
        ({"ids": "[1, 2]"}, "ids", [1, 2]),
        ({"ids": ["1", 2]}, "ids", [1, 2]),
        ({"names": "a, b"}, "names", ["a, b"]),
        ({"names": '["a", "b"]'}, "names", ["a", "b"]),
        ({"names": [1]}, "names", ["1"]),
        ({"unit": "METRIC"}, "unit", Unit.METRIC),
        ({"unit": " imperial "}, "unit", Unit.IMPERIAL),
        ({"level": "HIGH"}, "level", "high"),
        ({"level": "3"}, "level", 3),
        ({"place": '{"title": "x", "tags": "y"}'}, "place", Place(title="x", tags=["y"])),
        ({"place": None}, "place", None),
        ({"count": None, "ids": None}, "count", 1),
        ({"limit": None}, "limit", None),
        ({}, "limit", 5),
        ({"arguments": {"count": 2}}, "count", 2),
        ({"params": '{"count": 2}'}, "count", 2),
        ({"scores": '{"a": "1.5"}'}, "scores", {"a": 1.5}),
    ],
)
def test_what_was_plainly_meant(given: dict[str, Any], name: str, meant: object) -> None:
    assert checked(LOOK, given)[name] == meant


def test_a_text_stays_the_text_that_it_is() -> None:
    for text in ('{"a": 1}', "[1]", "null", "5"):
        assert checked(ASK, {"query": text}) == {"query": text, "anything": None}
    assert checked(ASK, {"query": "q", "anything": [1]})["anything"] == [1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"count": 12}, "count must be a whole number from 1 to 9, not 12"),
        ({"count": "many"}, 'count must be a whole number from 1 to 9, not "many"'),
        ({"unit": "kelvin"}, 'unit must be one of "metric", "Imperial", not "kelvin"'),
        ({"ids": ["x"]}, 'ids[0] must be a whole number, not "x"'),
        ({"place": {"tags": []}}, "place.title is missing: a text"),
        ({"place": 5}, "place must be an object with title (a text), "),
        ({"loud": "perhaps"}, 'loud must be true or false, not "perhaps"'),
        ({"kount": 1}, "there is no argument kount; did you mean count?"),
        ({"zzz": 1}, "there is no argument zzz."),
        (
            {"count": 0, "loud": 7},
            "count must be a whole number from 1 to 9, not 0; loud must be true or false",
        ),
        ({"text": ["x" * 99]}, 'text must be a text, not ["' + "x" * 57),
        ({"scores": {"a": "much"}}, 'scores.a must be a number, not "much"'),
    ],
)
def test_what_is_wrong_is_said_so_that_it_can_be_mended(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError) as caught:
        checked(LOOK, given)
    assert str(caught.value).startswith(f"Wrong arguments for look: {told}")
    assert "It takes place (an object with" in str(caught.value)
    assert len(str(caught.value)) <= 1_501


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("  ", {}),
        ("null", {}),
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
    ],
)
def test_the_text_of_a_call(text: str, arguments: dict[str, Any]) -> None:
    assert arguments_in(ToolCall("1", "look", text)) == arguments


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[1]", "7", '"x"', "[" * 100_000, '{"a": ' * 100_000, "look(1)"),
        *(
            '{"a": NaN}',
            '{"a": -Infinity}',
            '{"a": 1e999}',
            '"{\\"a\\": NaN}"',
        ),  # who reads events knows none
    ],
)
def test_a_text_that_is_no_object(text: str) -> None:
    with pytest.raises(ToolError, match="arguments of look"):
        arguments_in(ToolCall("1", "look", text))


def test_deep_and_wide_values_are_refused_in_few_words() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    for value in (deep, {str(number): number for number in range(10_000)}, "x" * 1_000_000):
        with pytest.raises(ToolError) as caught:
            checked(LOOK, {"count": value})
        assert len(str(caught.value)) <= 1_501
