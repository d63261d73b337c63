"""Schemas that strangers wrote, made into such as every model server takes."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field

from pixi.toolbox.arguments import (
    LONGEST_VALUE,
    can_be_chosen,
    expected,
    is_of,
    list_in,
    number_in,
    one_of_these,
    plain_text,
    shown,
)
from pixi.toolbox.schema import safe_names

_MOST_NODES = 800
_MOST_NAMES = 5_000  # of properties of one object, and of those that must be given
_MOST_MERGED = 100_000  # names that are looked at where parts are put together, in all
_MOST_TIMES = 2  # that a definition may stand within itself: once more than it is, so that one sees how it is

_KINDS = {
    "string": "string",
    "str": "string",
    "text": "string",
    "integer": "integer",
    "int": "integer",
    "number": "number",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "object": "object",
    "dict": "object",
    "map": "object",
    "array": "array",
    "list": "array",
}
_TOLD_BY = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords that mean something for values of one kind only."""


class TooLarge(Exception):
    """The schema has more parts than are looked at."""


class Facts(Struct, frozen=True):
    """Facts of a schema about a value, without references and `allOf`.

    Attributes:
        said: by keyword.
        within: references that led here.
        again: it holds itself, and what is in it was left out for that.
    """

    said: Mapping[str, Any]
    within: tuple[str, ...] = ()
    again: bool = False

    def get(self, key: str, default: object = None) -> Any:
        """Return what a keyword says."""
        return self.said.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self.said


def kinds_of(facts: Facts) -> tuple[str, ...]:
    """Return the JSON types that a value may have, null aside; none where nothing is said of it."""
    told = facts.get("type")
    written = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    kinds = [_KINDS.get(each.casefold(), "") for each in written if isinstance(each, str)]
    if not any(kinds):
        kinds = _told_by_values(facts) or [
            next((kind for kind, keys in _TOLD_BY.items() if any(key in facts for key in keys)), "")
        ]
    if "number" in kinds:
        kinds = [kind for kind in kinds if kind != "integer"]
    return tuple(dict.fromkeys(kind for kind in kinds if kind))


def _told_by_values(facts: Facts) -> list[str]:
    values = [facts.get("const")] if "const" in facts else facts.get("enum")
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
    return [kinds.get(type(each), "") for each in values] if isinstance(values, list) else []


class Flattening:
    """Looks at the parts of one schema, and at no more than so many.

    Args:
        root: the whole, in which references lead.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MOST_NODES
        self._names_left = _MOST_MERGED

    def spend(self) -> None:
        """Count one part more.

        Raises:
            TooLarge: it is one too many.
        """
        self._left -= 1
        if self._left < 0:
            raise TooLarge

    def flat(self, schema: object, within: tuple[str, ...] = ()) -> Facts:
        """Return what a part says. What leads out of the whole is never followed: then nothing is said.

        Raises:
            TooLarge: too many parts were looked at.
        """
        if isinstance(schema, Facts):
            return schema
        self.spend()
        if not isinstance(schema, Mapping):
            return Facts({}, within)
        said = {key: value for key, value in schema.items() if isinstance(key, str)}
        reference, together = said.pop("$ref", None), said.pop("allOf", None)
        again = False
        if isinstance(reference, str):
            target = self._target(reference)
            if within.count(reference) >= _MOST_TIMES:
                again = True
                said.setdefault("type", list(kinds_of(Facts(target))))
            else:
                part = self.flat(target, (*within, reference))
                said, within, again = self._merged(said, part.said), part.within, part.again
        for each in together if isinstance(together, list) else ():
            part = self.flat(each, within)
            said, within = self._merged(said, part.said), part.within
        return Facts(said, within, again)

    def choices(self, facts: Facts) -> list[Facts]:
        """Return what the value may be, one of them; null and what cannot be are left out."""
        for key in ("anyOf", "oneOf"):
            several = facts.get(key)
            if isinstance(several, list) and several:
                flat = [self.flat(each, facts.within) for each in several if each is not False]
                return [each for each in flat if not _is_null(each)]
        return []

    def joined(self, facts: Facts, choices: Sequence[Facts]) -> Facts:
        """Objects of which the value is one, as one object: what only some of them want can be left out."""
        properties = {name: [each] for name, each in _properties(facts.said).items()}
        for choice in choices:
            for name, each in _properties(choice.said).items():
                here = properties.setdefault(name, [])
                if each not in here:
                    here.append(each)
        wanted = [set(names_in(choice.said)) for choice in choices]
        everywhere = set.intersection(*wanted) if wanted else set()
        required = [*names_in(facts.said), *(name for name in properties if name in everywhere)]
        described = next((text for each in (facts, *choices) if (text := each.get("description"))), None)
        said = {key: value for key, value in facts.said.items() if key not in ("anyOf", "oneOf")}
        said |= {"type": "object", "required": required, "description": described}
        said["properties"] = {
            name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in properties.items()
        }
        within = max((each.within for each in (facts, *choices)), key=len)
        return Facts(said, within, facts.again)

    def _merged(self, said: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
        """Merge two that both hold; where they disagree on a keyword, the first.

        Raises:
            TooLarge: too many names were looked at. A long list that is repeated costs as often as it is.
        """
        known, others = _properties(said), _properties(more)
        needed = (*names_in(said), *names_in(more))
        self._names_left -= len(known) + len(others) + len(needed)
        if self._names_left < 0:
            raise TooLarge
        merged, properties = {**more, **said}, {**known}
        for name, each in others.items():
            first = properties.setdefault(name, each)
            if first is not each and first != each:
                properties[name] = {"allOf": [first, each]}
        if properties:
            merged["properties"] = properties
        if needed:
            merged["required"] = [*dict.fromkeys(needed)]
        return merged

    def _target(self, reference: str) -> Mapping[str, Any]:
        place: object = self._root
        if reference.startswith("#") and not reference.startswith("#/") and len(reference) > 1:
            place = self._anchored(reference[1:])
        elif reference.startswith("#"):
            for part in reference.split("/")[1:]:
                name = unquote(part).replace("~1", "/").replace("~0", "~")
                if isinstance(place, Mapping):
                    place = place.get(name)
                elif isinstance(place, list) and name.isascii() and name.isdigit() and int(name) < len(place):
                    place = place[int(name)]
                else:
                    return {}
        else:
            return {}
        return place if isinstance(place, Mapping) else {}

    def _anchored(self, anchor: str) -> object:
        for key in ("$defs", "definitions"):
            for each in _mapping(self._root.get(key)).values():
                if isinstance(each, Mapping) and anchor in (each.get("$anchor"), each.get("$dynamicAnchor")):
                    return each
        return None


def names_in(said: Mapping[str, Any]) -> list[str]:
    """Return the names of what must be given.

    Raises:
        TooLarge: they are too many.
    """
    required = said.get("required")
    if not isinstance(required, list):
        return []
    if len(required) > _MOST_NAMES:
        raise TooLarge
    return [each for each in required if isinstance(each, str)]


def _properties(said: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = _mapping(said.get("properties"))
    if len(properties) > _MOST_NAMES:
        raise TooLarge
    return properties


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_null(facts: Facts) -> bool:
    return facts.get("type") in ("null", ["null"]) or ("const" in facts and facts.get("const") is None)


class Shape(Struct, frozen=True):
    """The way from arguments that follow the new schema to those of the stranger's own.

    Attributes:
        names: of an object's properties, the new to the real ones.
        inner: of properties, by their new names.
        items: of a list.
        choices: one of these, whichever knows most of the names.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, "Shape"] = field(default_factory=dict)
    items: "Shape | None" = None
    choices: tuple["Shape", ...] = ()

    def real(self, value: Any) -> Any:
        """Return the value as its own schema wants it."""
        match value:
            case dict():
                shape = max((self, *self.choices), key=lambda each: len(each.names.keys() & value.keys()))
                return {
                    shape.names.get(name, name): shape.inner[name].real(each) if name in shape.inner else each
                    for name, each in value.items()
                }
            case list():
                items = next((each.items for each in (self, *self.choices) if each.items), None)
                return [items.real(each) for each in value] if items else value
            case _:
                return value

    def place(self, path: Iterable[str | int]) -> str:
        """Return where something is in the real arguments, by the new names: `filter.user_id[2]`."""
        place, shapes = "", [self]
        for part in path:
            if isinstance(part, int):
                place += f"[{part}]"
                shapes = [each.items for shape in shapes for each in (shape, *shape.choices) if each.items]
            else:
                known = [each for shape in shapes for each in (shape, *shape.choices)]
                new = next((n for each in known for n, real in each.names.items() if real == part), part)
                place += f".{new}" if place else new
                shapes = [each.inner[new] for each in known if new in each.inner]
        return place or "arguments"


MOST_CHARACTERS = 16_000
"""Limit of a schema, as JSON: some four thousand tokens, in every request."""

_LEVELS = ((6, 600), (5, 240), (4, 100), (3, 40), (2, 0))
"""Depth of a schema and length of its descriptions: the first at which it is short enough."""

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


class AdaptedSchema(Struct, frozen=True):
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
        """Return the whole."""
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
        """Return a value within."""
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
        """Return the bounds that servers take; the others are hinted at."""
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
        """Add to its description what could not be said otherwise."""
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
    """Put the real name in the description, where it has a new one."""
    if real == new:
        return node
    words = f"“{plain_text(real, LONGEST_VALUE)}”. {node.get('description', '')}".rstrip()
    return node | {"description": words}


def _values(facts: Facts) -> str:
    """Return what the values of an object of any names are."""
    values = facts.get("additionalProperties", False)
    if not isinstance(values, Mapping):
        return "any other names may be given" if values is True and not facts.get("properties") else ""
    kinds = kinds_of(Facts(values))
    words = expected({"type": kinds[0]}) if len(kinds) == 1 else ""
    return f"each name may be given{f', with {words}' if words else ''}"
