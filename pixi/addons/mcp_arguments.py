"""Checks arguments against the schema of an MCP server's tool, which may be any, in bounded time."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pixi.core.untrusted import clipped
from pixi.toolbox.arguments import expected
from pixi.toolbox.renaming import Shape

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
"""What is left to the server: checking it here has no bound."""

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
        self._left = 0
        self._validator: Validator | None = None
        self._made = False

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong, in words for a model; empty where nothing is, or nobody can tell."""
        from referencing.exceptions import Unresolvable

        if not self._made:
            self._made = True
            self._validator = self._make()
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

    def _make(self) -> "Validator | None":
        """What checks; None where the schema is none that can be checked by."""
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
                        wanted = _wanted(its)
                        path = self._shape.place([*error.absolute_path, name])
                        yield f"{path} is missing{f': {wanted}' if wanted else ''}"
            case "additionalProperties" if isinstance(error.instance, dict):
                known = schema.get("properties", {})
                for name in error.instance.keys() - known:
                    yield f"there is no argument {self._shape.place([*error.absolute_path, name])}"
            case _ if wanted := _wanted(schema):
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


def _wanted(schema: object) -> str:
    """What a part of the schema takes, in words; "" where it says it in no simple way."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type", ""), str):
        return ""
    try:
        return clipped(expected(schema), _LONGEST_WORDS)
    except (AttributeError, KeyError, TypeError, RecursionError):  # references and other dialects within
        return ""


def _shown(value: object) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), _LONGEST_VALUE)
