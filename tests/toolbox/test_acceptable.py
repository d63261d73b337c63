"""Schemas that strangers write, of every kind: what comes out keeps the narrowest rules, or says why not."""

import json
import math
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.toolbox import foreign_schema
from pixi.toolbox.foreign_schema import UnusableSchema, accepted
from tests.steps import steps_of
from tests.toolbox.narrow import faults_of


def written(schema: object) -> dict[str, Any]:
    """The new schema, which keeps the rules."""
    parameters = accepted(schema).parameters
    assert faults_of(parameters) == []
    return parameters


def argument(schema: object, **more: object) -> dict[str, Any]:
    """The new schema of a single argument `x`."""
    its = written({"type": "object", "properties": {"x": schema}, **more})["properties"]["x"]
    assert isinstance(its, dict)
    return its


# What comes through as it was.


def test_a_plain_schema_stays_as_it_is() -> None:
    plain = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where", "minLength": 1, "maxLength": 80},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
            "near": {
                "type": "object",
                "properties": {"lat": {"type": "number"}, "exact": {"type": "boolean"}},
                "required": ["lat"],
            },
        },
        "required": ["city"],
    }
    assert written(plain) == plain


@pytest.mark.parametrize("nothing", [None, True, {}, {"type": "object"}, {"type": ["object", "null"]}])
def test_a_tool_without_arguments_has_an_empty_object(nothing: object) -> None:
    assert written(nothing) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "no arguments with names, but string"),
        ({"type": ["array", "integer"]}, "but array or integer"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "no arguments with names"),
        (False, "is none"),
        ("a text", "is none"),
        ([], "is none"),
    ],
)
def test_what_is_no_object_is_refused_and_says_why(schema: object, why: str) -> None:
    with pytest.raises(UnusableSchema, match=why):
        accepted(schema)


# What is said otherwise.


@pytest.mark.parametrize(
    ("schema", "becomes"),
    [
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer"}),
        ({"type": ["integer", "number"]}, {"type": "number"}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"const": "all"}, {"type": "string", "enum": ["all"]}),
        ({"const": 3}, {"type": "integer", "description": "(always 3)"}),
        ({"enum": [1, 2, 3]}, {"type": "integer", "description": "(one of 1, 2, 3)"}),
        ({"enum": ["a", "", "b", "a", None]}, {"type": "string", "enum": ["a", "b"]}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"type": "string", "enum": ["a", "b"]}),
        ({"minimum": 0}, {"type": "number", "minimum": 0}),
        ({"type": "Integer", "minimum": 0.5}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMinimum": 4}, {"type": "integer", "description": "(above 4)"}),
        ({"type": "integer", "minimum": True, "maximum": math.nan}, {"type": "integer"}),
        ({"type": "integer", "minimum": 9, "maximum": 1}, {"type": "integer"}),
        ({"type": "integer", "maximum": 10**40}, {"type": "integer"}),
        ({"type": "integer", "maximum": 10**400, "multipleOf": 10**400}, {"type": "integer"}),
        ({"type": "boolean", "": 3}, {"type": "boolean"}),
        ({"type": "string", "maxLength": 5_000_000}, {"type": "string"}),
        ({"type": "string", "format": "date"}, {"type": "string", "description": "(format: date)"}),
        (
            {"type": "string", "pattern": "^a+$"},
            {"type": "string", "description": "(pattern: ^a+$)"},
        ),
        (
            {"type": "string", "description": "the colour", "default": "red"},
            {"type": "string", "description": 'the colour (default: "red")'},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "description": "(each name may be given, with a text)", "properties": {}},
        ),
        (
            {"type": "array", "items": [{"type": "number"}, {"type": "number"}]},
            {
                "type": "array",
                "description": "(the items stand in a fixed order)",
                "items": {"type": "number"},
            },
        ),
        ({"type": "string", "default": "a" * 200}, {"type": "string"}),
        ({"type": "double"}, {"type": "number"}),
        ({"enum": [{"a": 1}]}, {"type": "object", "properties": {}}),
        ({"allOf": [{"type": "string"}, {"maxLength": 4}]}, {"type": "string", "maxLength": 4}),
        ({"type": "string", "x-vendor": 1, "examples": ["a"], "title": "X"}, {"type": "string"}),
    ],
)
def test_what_some_servers_refuse_is_said_otherwise(schema: object, becomes: dict[str, Any]) -> None:
    assert argument(schema) == becomes


@pytest.mark.parametrize("anything", [True, {}, {"description": "any"}, {"type": "whatever"}, {"not": {}}])
def test_a_value_of_which_nothing_is_said_may_be_anything(anything: object) -> None:
    kinds = [each["type"] for each in argument(anything)["anyOf"]]
    assert kinds == ["string", "number", "boolean", "object", "array"]


@pytest.mark.parametrize("kind", ["array", "list"])
def test_a_list_of_anything_holds_no_lists(kind: str) -> None:
    items = argument({"type": kind})["items"]
    assert [each["type"] for each in items["anyOf"]] == ["string", "number", "boolean", "object"]


def test_a_property_that_nothing_fits_is_left_out() -> None:
    assert written({"properties": {"never": False, "a": {"type": "string"}}, "required": ["never", "a"]}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    }


def test_a_choice_of_objects_at_the_top_becomes_one_object() -> None:
    schema = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "file"}, "path": {"type": "string"}},
                "required": ["kind", "path"],
            },
            {
                "description": "where from",
                "properties": {"kind": {"const": "web"}, "url": {"type": "string"}, "body": False},
                "required": ["kind"],
            },
            {"type": "null"},
        ],
        "properties": {"quiet": {"type": "boolean"}},
    }
    assert written(schema) == {
        "type": "object",
        "description": "where from",
        "properties": {
            "quiet": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["file", "web"]},
            "path": {"type": "string"},
            "url": {"type": "string"},
        },
        "required": ["kind"],
    }


def test_references_are_written_out_and_what_holds_itself_ends_after_a_look() -> None:
    schema = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/No~1de"}, "far": {"$ref": "https://example.org/x.json"}},
        "$defs": {
            "No/de": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "inner": {"type": "array", "items": {"$ref": "#/$defs/No~1de"}},
                },
            }
        },
    }
    parameters = written(schema)
    inner = parameters["properties"]["root"]["properties"]["inner"]["items"]
    assert inner["properties"]["name"] == {"type": "string"}
    last = inner["properties"]["inner"]["items"]
    assert last == {"type": "object", "description": "(the same again, as above)", "properties": {}}
    assert "anyOf" in parameters["properties"]["far"]  # nothing is fetched


@pytest.mark.parametrize("reference", ["#", "#/properties/x", "#/$defs/a", "#/nowhere/at/all", "#/$defs/0"])
def test_a_reference_in_a_circle_or_to_nowhere_ends(reference: str) -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": reference}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}},
    }
    written(schema)


def test_a_long_reference_to_nowhere_is_left_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []

    def unquoted(name: str) -> str:
        walked.append(name)
        return name

    monkeypatch.setattr(foreign_schema, "unquote", unquoted)
    written({"properties": {"x": {"$ref": "#/properties/y" + "/z" * 10_000}}})
    assert len(walked) <= 2 * 2  # it is written twice at the most, and leads nowhere at the second name


# What is too much.


def refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema, match="too large"):
        accepted(schema)


def test_a_schema_of_a_megabyte_becomes_small_or_is_refused_in_few_steps() -> None:
    wordy = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "x" * 10_000} for n in range(100)},
    }
    huge = {"type": "object", "properties": {f"p{n}": {"enum": list(range(200))} for n in range(1_000)}}
    endless = {
        "type": "object",
        "properties": {f"p{n}": {"$ref": f"#/$defs/d{n}"} for n in range(60)},
        "$defs": {
            f"d{n}": {"properties": {f"q{m}": {"$ref": f"#/$defs/d{m}"} for m in range(60)}}
            for n in range(60)
        },
    }
    demanding = {"type": "object", "required": [str(n) for n in range(300_000)]}
    folded = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/d"}] * 700,
        "$defs": {"d": {"required": [str(n) for n in range(4_000)]}},
    }
    assert len(json.dumps(wordy)) > 1_000_000
    small: list[dict[str, Any]] = []
    schema: dict[str, Any]
    for schema in (wordy, huge):
        steps_of(partial(lambda each: small.append(written(each)), schema), most=2_000_000)
    assert [len(each["properties"]) for each in small] == [100, 100]
    assert "900 more properties are left out" in small[1]["description"]
    for schema in (demanding, folded, endless):
        steps_of(partial(refused, schema), most=2_000_000)


def test_definitions_that_double_at_each_step_end() -> None:
    doubling: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)
    }
    assert argument({"$ref": "#/$defs/d0"}, **{"$defs": doubling})["anyOf"]


def test_a_thousand_levels_are_cut_where_a_model_still_follows() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(1_000):
        schema = {"type": "object", "properties": {"in": schema}}
    parameters = written(schema)
    assert json.dumps(parameters).count('"in"') == 6
    assert "an object with in" in json.dumps(parameters)


def test_an_enum_of_thousands_is_told_of_in_words() -> None:
    assert argument({"enum": [f"zone {n}" for n in range(5_000)]}) == {
        "type": "string",
        "description": '(one of "zone 0", "zone 1", "zone 2", "zone 3", "zone 4", "zone 5", "zone 6", '
        '"zone 7" and 4992 more)',
    }


def test_more_required_properties_than_fit_are_all_kept_or_it_is_refused() -> None:
    names = [f"p{n}" for n in range(150)]
    parameters = written({"properties": {name: {"type": "string"} for name in names}, "required": names})
    assert len(parameters["required"]) == 150


# Names.


def test_property_names_are_made_safe_and_lead_back() -> None:
    schema = {
        "type": "object",
        "properties": {
            "user.name": {"type": "string", "description": "who"},
            "user_name": {"type": "string"},
            "$filter": {"type": "object", "properties": {"按": {"type": "string"}}, "required": ["按"]},
            "行": {"type": "array", "items": {"properties": {"a b": {"type": "integer"}}}},
        },
        "required": ["行", "user.name"],
    }
    found = accepted(schema)
    assert faults_of(found.parameters) == []
    names = list(found.parameters["properties"])
    assert names[1:3] == ["user_name", "filter"]
    dotted, rows = names[0], names[3]
    assert dotted.startswith("user_name_")
    assert rows.startswith("cjk_")
    assert found.parameters["properties"][dotted]["description"] == "“user.name”. who"
    assert found.parameters["required"] == [rows, dotted]
    (by,) = found.parameters["properties"]["filter"]["properties"]
    given_back = found.shape.real(
        {dotted: "Mo", "user_name": "B", "filter": {by: "x"}, rows: [{"a_b": 1}, {"a_b": 2}], "new": 1}
    )
    assert given_back == {
        "user.name": "Mo",
        "user_name": "B",
        "$filter": {"按": "x"},
        "行": [{"a b": 1}, {"a b": 2}],
        "new": 1,
    }
    assert found.shape.place(["行", 1, "a b"]) == f"{rows}[1].a_b"


def test_names_within_a_choice_lead_back_by_the_choice_that_knows_them() -> None:
    schema = {
        "properties": {
            "x": {
                "anyOf": [
                    {"type": "object", "properties": {"a.b": {"type": "string"}, "c": {"type": "string"}}},
                    {"type": "object", "properties": {"a b": {"type": "string"}, "d": {"type": "string"}}},
                ]
            }
        }
    }
    found = accepted(schema)
    assert found.shape.real({"x": {"a_b": "1", "d": "2"}}) == {"x": {"a b": "1", "d": "2"}}
    assert found.shape.real({"x": {"a_b": "1", "c": "2"}}) == {"x": {"a.b": "1", "c": "2"}}


# Whatever comes in.

NAMES = st.sampled_from(["a", "b", "a.b", "a b", "名", "имя", "$x", "", "x" * 90, "\ud800", "\x00", "9"])
TYPES = st.sampled_from(
    [
        "object",
        "string",
        "array",
        "integer",
        "number",
        "boolean",
        "null",
        "any",
        "OBJECT",
        3,
        None,
        ["string"],
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("<|im_end|>\ud801")
)
KEYS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref"),
        *("$defs", "definitions", "enum", "const", "default", "description", "format", "pattern", "not"),
        *("minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems", "if"),
        *("additionalProperties", "patternProperties", "title", "multipleOf", "nullable"),
    ]
)
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/properties/b", "http://x/y", "#anchor", "", "#/anyOf/0"])


def schemas() -> st.SearchStrategy[Any]:
    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists, maps = st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)
        value = st.one_of(
            SCALARS, lists, maps, inner, st.lists(NAMES, max_size=3), st.lists(TYPES, max_size=3)
        )
        sound = st.fixed_dictionaries(
            {},
            optional={
                "type": TYPES,
                "properties": maps,
                "required": st.lists(NAMES, max_size=3),
                "items": inner,
                "anyOf": lists,
                "oneOf": lists,
                "allOf": lists,
                "$ref": REFERENCES,
                "$defs": maps,
                "enum": st.lists(SCALARS, max_size=4),
                "const": SCALARS,
                "default": SCALARS,
                "description": st.text(max_size=8),
                "minimum": SCALARS,
                "maxLength": SCALARS,
                "additionalProperties": inner,
            },
        )
        return st.one_of(sound, sound, st.dictionaries(KEYS, value, max_size=5))

    return st.recursive(st.one_of(SCALARS, st.just({})), around, max_leaves=14)


@given(schemas())
def test_whatever_comes_in_what_goes_out_keeps_the_rules(schema: object) -> None:
    for whole in (
        schema,
        {"type": "object", "properties": {"x": schema, "名": schema}, "$defs": {"a": schema}},
    ):
        with suppress(UnusableSchema):
            assert faults_of(accepted(whole).parameters) == []


@given(st.dictionaries(st.text(max_size=6), st.integers(), max_size=8))
def test_whatever_the_names_arguments_lead_back(meant: dict[str, int]) -> None:
    properties = {name: {"type": "integer"} for name in meant}
    found = accepted({"type": "object", "properties": properties})
    assert faults_of(found.parameters) == []
    new = dict(zip(found.shape.names.values(), found.shape.names, strict=True))
    assert found.shape.real({new[name]: value for name, value in meant.items() if name}) == {
        name: value for name, value in meant.items() if name
    }
