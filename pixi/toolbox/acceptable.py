"""The JSON Schema of a stranger's tool, written anew so that every model server takes it."""

import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pixi.toolbox.arguments import expected
from pixi.toolbox.flat_schema import Facts, Flattening, TooLarge, kinds_of, names_in
from pixi.toolbox.renaming import Shape
from pixi.toolbox.safe_names import safe_names
from pixi.toolbox.schema_values import (
    LONGEST_VALUE,
    can_be_chosen,
    is_of,
    list_in,
    number_in,
    one_of_these,
    plain_text,
    shown,
)

MOST_CHARACTERS = 16_000
"""Of a schema, as JSON: some four thousand tokens, in every request."""

_LEVELS = ((6, 600), (5, 240), (4, 100), (3, 40), (2, 0))
"""How deep a schema may go and how long its descriptions may be: the first at which it is short enough."""

_MOST_PROPERTIES = 100  # of one object
_MOST_BRANCHES = 50  # that one value may be written in
_LONGEST_HINT = 160
_LARGEST = 2**53  # servers that make a grammar of a schema stumble over larger ones
_MOST_REPEATED = 1_000  # the same, of lengths
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
}

Node = dict[str, Any]

_IN_LISTS: tuple[Node, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object", "properties": {}},
)
_ANYTHING: Node = {"anyOf": [*_IN_LISTS, {"type": "array", "items": {"anyOf": [*_IN_LISTS]}}]}
_ANYTHING_IN_LISTS: Node = {"anyOf": [*_IN_LISTS]}


class UnusableSchema(ValueError):
    """No model can be given this tool. The text says why, for people."""


@dataclass(frozen=True, slots=True)
class AdaptedSchema:
    """A schema that every model server takes, and how arguments lead back to the stranger's own."""

    parameters: Node
    shape: Shape


def accepted(schema: object) -> AdaptedSchema:
    """Write the schema of a tool's arguments anew.

    What comes out is an object without references, of plain types, and small. What a schema says beyond that
    is told in words, or left out: then the tool itself must refuse what it does not take.

    Raises:
        Unacceptable: it is not for arguments that have names, or cannot be made small.
    """
    if schema is None or schema is True:
        schema = {}
    if not isinstance(schema, Mapping):
        raise UnusableSchema("what it calls a schema is none")
    for depth, words in _LEVELS:
        try:
            writing = _Writing(schema, depth, words)
            parameters, shape = writing.top()
        except TooLarge:
            continue
        except RecursionError:
            raise UnusableSchema("its schema is nested too deeply") from None
        if len(json.dumps(parameters, ensure_ascii=False)) <= MOST_CHARACTERS:
            return AdaptedSchema(parameters, shape)
    raise UnusableSchema("its schema is too large")


class _Writing:
    """Writes one schema anew, down to a depth and with descriptions of a length."""

    def __init__(self, schema: Mapping[str, Any], depth: int, words: int) -> None:
        self._flat = Flattening(schema)
        self._schema = schema
        self._depth = depth
        self._words = words

    def top(self) -> tuple[Node, Shape]:
        """The whole."""
        facts = self._flat.flat(self._schema)
        kinds = kinds_of(facts)
        choices = self._flat.choices(facts)
        if kinds and "object" not in kinds:
            raise UnusableSchema(f"it takes no arguments with names, but {' or '.join(kinds)}")
        if choices:
            objects = [each for each in choices if kinds_of(each) in ((), ("object",))]
            if not objects:
                raise UnusableSchema("it takes no arguments with names")
            facts = self._flat.joined(facts, objects)
        return self._object(facts, 0)

    def node(self, schema: object, depth: int, within: tuple[str, ...]) -> tuple[Node, Shape]:
        """A value within."""
        facts = self._flat.flat(schema, within)
        kinds = kinds_of(facts)
        choices = self._flat.choices(facts)
        if kinds == ("object",) and choices:
            return self._object(self._flat.joined(facts, choices), depth)
        if choices and not kinds:
            return self._one_of([self.node(each, depth, each.within) for each in choices], facts)
        if not kinds:
            return deepcopy(_ANYTHING) | self._described(facts, []), Shape()
        if len(kinds) == 1:
            return self._of_kind(kinds[0], facts, depth)
        return self._one_of([self._of_kind(kind, facts, depth) for kind in kinds], facts)

    def _of_kind(self, kind: str, facts: Facts, depth: int) -> tuple[Node, Shape]:
        self._flat.spend()
        match kind:
            case "object":
                return self._object(facts, depth)
            case "array":
                return self._array(facts, depth)
            case _:
                return self._scalar(kind, facts), Shape()

    def _object(self, facts: Facts, depth: int) -> tuple[Node, Shape]:
        properties = facts.get("properties")
        given = dict(properties) if isinstance(properties, Mapping) else {}
        required = dict.fromkeys(names_in(facts.said))
        # A name that must be given and is not described takes anything.
        given |= {name: {} for name in required if name not in given}
        given = {name: each for name, each in given.items() if name and each is not False}
        hints = [_values(facts)]
        if depth >= self._depth:
            hints.append(f"an object with {', '.join(given)}" if given else "")
            given, required = {}, {}
        if len(given) > _MOST_PROPERTIES:
            first = [*(name for name in required if name in given), *given]
            kept = set(dict.fromkeys(first[: max(_MOST_PROPERTIES, len(required))]))
            hints.append(f"{len(given) - len(kept)} more properties are left out here")
            given = {name: each for name, each in given.items() if name in kept}
        names = safe_names(given)
        written = {name: self.node(each, depth + 1, facts.within) for name, each in given.items()}
        node: Node = {"type": "object"} | self._described(facts, hints)
        node["properties"] = {
            names[name]: _renamed(each, name, names[name]) for name, (each, _) in written.items()
        }
        if must := [names[name] for name in required if name in names]:
            node["required"] = must
        inner = {names[name]: shape for name, (_, shape) in written.items()}
        return node, Shape({new: real for real, new in names.items()}, inner)

    def _array(self, facts: Facts, depth: int) -> tuple[Node, Shape]:
        items = facts.get("items")
        several = items if isinstance(items, list) else facts.get("prefixItems")
        hints: list[str] = []
        if isinstance(several, list) and several:
            items = {"anyOf": several[:_MOST_BRANCHES]}
            hints.append("the items stand in a fixed order")
        inner = self._flat.flat(items, facts.within)
        if depth >= self._depth:
            inner = Facts({"type": next((kind for kind in kinds_of(inner) if kind != "array"), "string")})
        if kinds_of(inner) or self._flat.choices(inner):
            node, shape = self.node(inner, depth + 1, inner.within)
        else:
            node, shape = deepcopy(_ANYTHING_IN_LISTS) | self._described(inner, []), Shape()
        bounds = self._bounded("array", facts, hints)
        return {"type": "array"} | self._described(facts, hints) | bounds | {"items": node}, Shape(
            items=shape
        )

    def _scalar(self, kind: str, facts: Facts) -> Node:
        hints: list[str] = []
        choices: list[Any] = [facts.get("const")] if "const" in facts else list_in(facts.get("enum"))
        fitting = [each for each in choices if is_of(kind, each)]
        node: Node = {"type": kind}
        if fitting:
            texts = list(dict.fromkeys(fitting))
            if kind == "string" and can_be_chosen(texts):
                node["enum"] = [each for each in texts if each]
            else:
                hints.append(one_of_these(texts))
        bounds = self._bounded(kind, facts, hints)
        if kind == "string":
            told = {key: facts.get(key) for key in ("format", "pattern")}
            hints += [f"{key}: {words}" for key, words in told.items() if isinstance(words, str)]
        return node | self._described(facts, hints) | bounds

    def _bounded(self, kind: str, facts: Facts, hints: list[str]) -> Node:
        """The bounds that servers take; the others are hinted at."""
        node: Node = {}
        low, high = _BOUNDS.get(kind, ("", ""))
        for key, up in ((low, False), (high, True)):
            bound = number_in(facts.get(key))
            if bound is None:
                continue
            if kind != "number":
                bound = math.floor(bound) if up else math.ceil(bound)
            if abs(bound) <= _LARGEST and (kind in ("integer", "number") or 0 <= bound <= _MOST_REPEATED):
                node[key] = bound
        if len(node) == 2 and node[low] > node[high]:
            node = {}
        if kind in ("integer", "number"):
            told = {"exclusiveMinimum": "above", "exclusiveMaximum": "below", "multipleOf": "a multiple of"}
            for key, words in told.items():
                bound = number_in(facts.get(key))
                if bound is not None:
                    hints.append(f"{words} {bound}")
        return node

    def _one_of(self, written: Sequence[tuple[Node, Shape]], facts: Facts) -> tuple[Node, Shape]:
        nodes = list({json.dumps(node, sort_keys=True): node for node, _ in written}.values())
        choices = [each for node in nodes for each in (node["anyOf"] if node.keys() == {"anyOf"} else [node])]
        shape = Shape(choices=tuple(each for _, its in written for each in (its, *its.choices)))
        described = self._described(facts, [])
        texts = [text for each in choices for text in each.get("enum", ())]
        if all("enum" in each for each in choices) and can_be_chosen(texts):
            return {"type": "string", "enum": list(dict.fromkeys(texts))} | described, shape
        if len(choices) == 1:
            return choices[0] | described, shape
        if len(choices) > _MOST_BRANCHES:
            raise TooLarge
        return {"anyOf": choices} | described, shape

    def _described(self, facts: Facts, hints: Sequence[str]) -> Node:
        """Its description, with what could not be said otherwise behind it."""
        told = [each for each in hints if each]
        default = facts.get("default")
        if default is not None and default != "" and (words := shown(default)):
            told.append(f"default: {words}")
        if facts.again:
            told.append("the same again, as above")
        hint = plain_text("; ".join(told), _LONGEST_HINT)
        words = plain_text(facts.get("description"), self._words) if self._words else ""
        whole = " ".join(part for part in (words, f"({hint})" if hint else "") if part)
        return {"description": whole} if whole else {}


def _renamed(node: Node, real: str, new: str) -> Node:
    """With the real name in the description, where it has a new one."""
    if real == new:
        return node
    words = f"“{plain_text(real, LONGEST_VALUE)}”. {node.get('description', '')}".rstrip()
    return node | {"description": words}


def _values(facts: Facts) -> str:
    """What the values of an object of any names are."""
    values = facts.get("additionalProperties", False)
    if not isinstance(values, Mapping):
        return "any other names may be given" if values is True and not facts.get("properties") else ""
    kinds = kinds_of(Facts(values))
    words = expected({"type": kinds[0]}) if len(kinds) == 1 else ""
    return f"each name may be given{f', with {words}' if words else ''}"
