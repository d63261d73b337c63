"""Rewrites schemas that strangers wrote into such as every model server takes, and leads arguments back.

A server's schema may hold references, choices at the top, keywords and names that some model API refuses.
The new one has none of them: plain types, few keywords, small. What the old one says beyond that is told in
words, or left out: then the tool itself refuses what it does not take.

The depth and the descriptions are cut until the schema is short enough. All reading is paid from one number
of steps, so that a schema that doubles, or is a megabyte, ends; a reference within itself is followed twice.
"""

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from msgspec import Struct, field

from pixi.toolbox.arguments import expected, plain_text, shown
from pixi.toolbox.schema import safe_names

MOST_CHARACTERS = 16_000
"""Limit of a schema, as JSON: some four thousand tokens, in every request."""

_LEVELS = ((6, 600), (5, 240), (4, 100), (3, 40), (2, 0))
"""Depth of a schema and length of its descriptions: the first at which it is short enough."""

_MOST_STEPS = 80_000  # of reading a schema at one level
_STEPS_OF_PART = 100  # each of its names is one more
_MOST_TIMES = 2  # that a reference is followed within itself: a second time shows how it goes on
_MOST_PROPERTIES = 100  # of one object
_MOST_BRANCHES = 50  # that one value may be written in
_MOST_CHOICES = 100  # of one value
_FEW = 8  # of them, that are told in words
_LONGEST_HINT = 160
_LONGEST_VALUE = 100
_LARGEST = 2**53  # servers that make a grammar of a schema stumble over larger ones
_MOST_REPEATED = 1_000  # the same, of lengths
_INDEX = re.compile(r"[0-9]{1,6}")

_ALIASES = {"str": "string", "text": "string", "int": "integer", "float": "number", "double": "number"}
_ALIASES |= {"bool": "boolean", "dict": "object", "map": "object", "list": "array"}
_SCALARS = ("string", "integer", "number", "boolean")
_KINDS = {*_SCALARS, "object", "array"}
_TOLD_BY = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
"""Keywords that mean something for values of one kind only."""

_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
}
_TOLD = {"exclusiveMinimum": "above", "exclusiveMaximum": "below", "multipleOf": "a multiple of"}

Node = dict[str, Any]

_IN_LISTS: list[Node] = [*({"type": kind} for kind in _SCALARS if kind != "integer"), {"type": "object"}]
_IN_LISTS[-1]["properties"] = {}
_ANYTHING: Node = {"anyOf": [*_IN_LISTS, {"type": "array", "items": {"anyOf": _IN_LISTS}}]}


class UnusableSchema(ValueError):
    """No model can be given this tool. The text says why, for people."""


class _TooLarge(Exception):
    """The schema has more parts than are looked at."""


class Shape(Struct, frozen=True):
    """The way from arguments that follow the new schema to those of the stranger's own.

    Attributes:
        names: of an object's properties, the new to the real ones.
        inner: of properties, by their new names; of the items of a list under "".
        choices: one of these, whichever knows most of the names.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, "Shape"] = field(default_factory=dict)
    choices: tuple["Shape", ...] = ()

    def real(self, value: Any) -> Any:
        """Return the value as its own schema wants it."""
        known = (self, *self.choices)
        match value:
            case dict():
                shape = max(known, key=lambda each: len(each.names.keys() & value.keys()))
                return {
                    shape.names.get(name, name): shape.inner[name].real(each) if name in shape.inner else each
                    for name, each in value.items()
                }
            case list():
                items = next((each.inner[""] for each in known if "" in each.inner), Shape())
                return [items.real(each) for each in value]
            case _:
                return value

    def place(self, path: Iterable[str | int]) -> str:
        """Return where something is in the real arguments, by the new names: `filter.user_id[2]`."""
        place, shapes = "", [self]
        for part in path:
            known = [each for shape in shapes for each in (shape, *shape.choices)]
            if isinstance(part, int):
                new, place = "", f"{place}[{part}]"
            else:
                new = next((n for each in known for n, real in each.names.items() if real == part), part)
                place += f".{new}" if place else new
            shapes = [each.inner[new] for each in known if new in each.inner]
        return place or "arguments"


class AdaptedSchema(Struct, frozen=True):
    """A schema that every model server takes, and how arguments lead back to the stranger's own."""

    parameters: Node
    shape: Shape


def accepted(schema: object) -> AdaptedSchema:
    """Write the schema of a tool's arguments anew.

    Raises:
        UnusableSchema: it is not for arguments that have names, or cannot be made small.
    """
    if schema is None or schema is True:
        schema = {}
    if not isinstance(schema, Mapping):
        raise UnusableSchema("what it calls a schema is none")
    for depth, words in _LEVELS:
        try:
            parameters, shape = _Writer(schema, depth, words).top()
        except _TooLarge:  # at the next level there is less of it
            continue
        except RecursionError:
            raise UnusableSchema("its schema is nested too deeply") from None
        if len(json.dumps(parameters, ensure_ascii=False)) <= MOST_CHARACTERS:
            return AdaptedSchema(parameters, shape)
    raise UnusableSchema("its schema is too large")


class _Part(NamedTuple):
    """A part of a schema without references and `allOf`, and the references that led to it."""

    said: Mapping[str, Any]
    within: tuple[str, ...] = ()


class _Writer:
    """Writes one schema anew, down to a depth and with descriptions of a length."""

    def __init__(self, root: Mapping[str, Any], depth: int, words: int) -> None:
        self._root = root
        self._depth = depth  # deeper objects are told in words
        self._words = words  # characters of a description
        self._left = _MOST_STEPS  # of reading; then it is too large

    def top(self) -> tuple[Node, Shape]:
        """Return the schema of all arguments, written anew, and the way back from it."""
        part = self._flat(self._root)
        kinds, choices = _kinds(part.said), self._choices(part)
        objects = [each for each in choices if _kinds(each.said) in ([], ["object"])]
        if (kinds and "object" not in kinds) or (choices and not objects):
            but = f", but {' or '.join(kinds)}" if kinds else ""
            raise UnusableSchema(f"it takes no arguments with names{but}")
        return self._object(_joined(part, objects), 0)

    def _flat(self, schema: object, within: tuple[str, ...] = ()) -> _Part:
        """Return what a part says; where parts of it disagree on a keyword, the first of them.

        What leads out of the whole is never followed: then nothing is said.
        """
        if isinstance(schema, _Part):
            return schema
        said = dict(_mapping(schema))
        self._spend(_STEPS_OF_PART)
        reference, together = said.pop("$ref", None), _list(said.pop("allOf", None))
        parts: list[Mapping[str, Any]] = [said]
        if isinstance(reference, str):
            target = self._target(reference)
            if within.count(reference) < _MOST_TIMES:
                within = (*within, reference)
                together = [target, *together]
            else:
                said.setdefault("type", _kinds(target))
                words = plain_text(said.get("description"), self._words)
                said["description"] = f"{words} (the same again, as above)".lstrip()
        for each in together:
            flat, within = self._flat(each, within)
            parts.append(flat)
        merged = {key: value for one in reversed(parts) for key, value in one.items()}
        properties: dict[str, Any] = {}
        required: list[str] = []
        for one in parts:
            its, needed = _mapping(one.get("properties")), _required(one)
            self._spend(len(its) + len(needed))
            required += needed
            for name, each in its.items():
                first = properties.setdefault(name, each)
                if first is not each:
                    properties[name] = {"allOf": [first, each]}
        if properties:
            merged["properties"] = properties
        return _Part(merged | {"required": required} if required else merged, within)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooLarge

    def _target(self, reference: str) -> Mapping[str, Any]:
        """Return where a reference leads; nothing where it is none of `#/a/b`."""
        front, *names = reference.split("/")
        place: object = self._root if front == "#" else None
        for each in names:
            self._spend(1)
            if not place:
                break
            name = unquote(each).replace("~1", "/").replace("~0", "~")
            if isinstance(place, list):
                place = place[int(name)] if _INDEX.fullmatch(name) and int(name) < len(place) else None
            else:
                place = _mapping(place).get(name)
        return _mapping(place)

    def _choices(self, part: _Part) -> list[_Part]:
        """Return what the value may be, one of them; null and what cannot be are left out."""
        several = _list(part.said.get("anyOf")) or _list(part.said.get("oneOf"))
        flat = [self._flat(each, part.within) for each in several if each is not False]
        return [each for each in flat if not _is_null(each.said)]

    def _node(self, schema: object, depth: int, within: tuple[str, ...] = ()) -> tuple[Node, Shape]:
        """Return a value within the arguments, written anew, and the way back from it."""
        part = self._flat(schema, within)
        kinds, choices = _kinds(part.said), self._choices(part)
        if kinds == ["object"]:
            return self._object(_joined(part, choices), depth)
        if len(kinds) == 1:
            return self._of_kind(kinds[0], part, depth)
        if kinds:
            written = [self._of_kind(kind, part, depth) for kind in kinds]
        elif choices:
            written = [self._node(each, depth) for each in choices]
        else:
            written = [(_ANYTHING, Shape())]
        return self._one_of(written, part)

    def _one_of(self, written: Sequence[tuple[Node, Shape]], part: _Part) -> tuple[Node, Shape]:
        """Return a value that is one of several: each of them once, and texts to choose from as one list."""
        different = {json.dumps(node, sort_keys=True): node for node, _ in written}
        branches: list[Node] = []
        for node in different.values():
            branches += node["anyOf"] if node.keys() == {"anyOf"} else [node]
        if len(branches) > _MOST_BRANCHES:
            raise _TooLarge
        texts = list(dict.fromkeys(text for each in branches for text in each.get("enum", ())))
        if all("enum" in each for each in branches) and _can_be_chosen(texts):
            branches = [{"type": "string", "enum": texts}]
        shapes: list[Shape] = []
        for _, its in written:
            shapes += (its, *its.choices)
        chosen = branches[0] if len(branches) == 1 else {"anyOf": branches}
        return chosen | self._described(part, []), Shape(choices=tuple(shapes))

    def _of_kind(self, kind: str, part: _Part, depth: int) -> tuple[Node, Shape]:
        match kind:
            case "object":
                return self._object(part, depth)
            case "array":
                return self._array(part, depth)
            case _:
                return self._scalar(kind, part), Shape()

    def _object(self, part: _Part, depth: int) -> tuple[Node, Shape]:
        required = dict.fromkeys(_required(part.said))
        properties = _mapping(part.said.get("properties"))
        # A name that must be given and is not described takes anything.
        given = {**properties, **{name: {} for name in required if name not in properties}}
        given = {name: each for name, each in given.items() if name and each is not False}
        hints = [_values(part.said)]
        if depth >= self._depth:
            hints.append(f"an object with {', '.join(given)}" if given else "")
            given = {}
        elif len(given) > _MOST_PROPERTIES:
            first = sorted(given, key=lambda name: name not in required)
            kept = {*first[: max(_MOST_PROPERTIES, len(required))]}
            hints.append(f"{len(given) - len(kept)} more properties are left out here")
            given = {name: each for name, each in given.items() if name in kept}
        new = safe_names(given)
        written = {name: self._node(each, depth + 1, part.within) for name, each in given.items()}
        node: Node = {"type": "object"} | self._described(part, hints)
        node["properties"] = {new[name]: _renamed(its, name, new[name]) for name, (its, _) in written.items()}
        if must := [new[name] for name in required if name in new]:
            node["required"] = must
        inner = {new[name]: shape for name, (_, shape) in written.items()}
        return node, Shape({safe: name for name, safe in new.items()}, inner)

    def _array(self, part: _Part, depth: int) -> tuple[Node, Shape]:
        items, hints = part.said.get("items"), []
        if several := _list(items) or _list(part.said.get("prefixItems")):
            items = {"anyOf": several[:_MOST_BRANCHES]}
            hints.append("the items stand in a fixed order")
        inner = self._flat(items, part.within)
        if depth >= self._depth:
            inner = _Part({"type": next((kind for kind in _kinds(inner.said) if kind != "array"), "string")})
        node, shape = self._node(inner, depth + 1) if inner.said else ({"anyOf": _IN_LISTS}, Shape())
        around = {"type": "array"} | self._described(part, hints) | _bounds("array", part.said)
        return around | {"items": node}, Shape(inner={"": shape})

    def _scalar(self, kind: str, part: _Part) -> Node:
        said, hints = part.said, list[str]()
        node: Node = {"type": kind}
        fits = {kind, "integer"} if kind == "number" else {kind}
        fitting = list(dict.fromkeys(each for each in _values_of(said) if _kind_of(each) in fits))
        if kind == "string" and _can_be_chosen(fitting):
            node["enum"] = [each for each in fitting if each]
        elif fitting:
            hints.append(_one_of_these(fitting))
        if kind == "string":
            hints += [
                f"{key}: {said[key]}" for key in ("format", "pattern") if isinstance(said.get(key), str)
            ]
        elif kind != "boolean":
            hints += [f"{_TOLD[key]} {said[key]}" for key in _TOLD if _number(said.get(key)) is not None]
        return node | self._described(part, hints) | _bounds(kind, said)

    def _described(self, part: _Part, hints: Sequence[str]) -> Node:
        """Return the description: the server's, and in words what the new schema cannot say otherwise."""
        default = part.said.get("default")
        written = "" if default in (None, "") else shown(default)
        # A model would repeat a default that is cut.
        told = [*hints, f"default: {written}" if written and not written.endswith("…") else ""]
        hint = plain_text("; ".join(filter(None, told)), _LONGEST_HINT)
        words = plain_text(part.said.get("description"), self._words) if self._words else ""
        whole = " ".join(filter(None, (words, f"({hint})" if hint else "")))
        return {"description": whole} if whole else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int | float | None:
    """Return a number, but none so large that it is no `float`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return None
    return value


def _kind_of(value: object) -> str:
    """Return the JSON type of a value; "" for null."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
    return kinds.get(type(value), "")


def _required(said: Mapping[str, Any]) -> list[str]:
    return [each for each in _list(said.get("required")) if isinstance(each, str)]


def _is_null(said: Mapping[str, Any]) -> bool:
    """Return True if null is the one value."""
    return said.get("type") in ("null", ["null"]) or said.get("const", "") is None


def _values_of(said: Mapping[str, Any]) -> list[Any]:
    return [said["const"]] if "const" in said else _list(said.get("enum"))


def _kinds(said: Mapping[str, Any]) -> list[str]:
    """Return the JSON types that a value may have, null aside; none where nothing is said of it."""
    told = said.get("type")
    names = [
        each.casefold() for each in (told if isinstance(told, list) else [told]) if isinstance(each, str)
    ]
    kinds = [_ALIASES.get(each, each) for each in names]
    if not _KINDS & {*kinds}:
        told_by = [kind for kind, keys in _TOLD_BY.items() if keys & said.keys()]
        kinds = [_kind_of(each) for each in _values_of(said)] or told_by[:1]
    known = dict.fromkeys(kind for kind in kinds if kind in _KINDS)
    return [kind for kind in known if kind != "integer" or "number" not in known]


def _can_be_chosen(texts: Sequence[str]) -> bool:
    """Return whether servers take these choices, and they survive as they are."""
    whole = [each for each in texts if each]
    return (
        0 < len(whole) <= _MOST_CHOICES
        and sum(map(len, whole)) <= _MOST_CHOICES * 40
        and all(plain_text(each, _LONGEST_VALUE) == each for each in whole)
    )


def _one_of_these(choices: Sequence[Any]) -> str:
    """Return the choices in words."""
    if len(choices) == 1:
        return f"always {shown(choices[0])}"
    words = expected({"enum": choices[:_FEW]})
    return f"{words} and {len(choices) - _FEW} more" if len(choices) > _FEW else words


def _joined(part: _Part, choices: Sequence[_Part]) -> _Part:
    """Return objects of which a value is one as one object: what only some of them want can be left out."""
    if not choices:
        return part
    properties: dict[str, list[object]] = {}
    for each in (part, *choices):
        for name, its in _mapping(each.said.get("properties")).items():
            if its is not False:
                properties.setdefault(name, []).append(its)
    everywhere = set.intersection(*(set(_required(each.said)) for each in choices))
    texts = (each.said["description"] for each in choices if "description" in each.said)
    said = {
        "description": next(texts, None),
        **part.said,
        "properties": {name: {"anyOf": its} for name, its in properties.items()},
        "required": [*_required(part.said), *(name for name in properties if name in everywhere)],
    }
    deepest = max((part, *choices), key=lambda each: len(each.within))  # so that no reference gets more turns
    return _Part(said, deepest.within)


def _bounds(kind: str, said: Mapping[str, Any]) -> Node:
    """Return the bounds that servers take."""
    node: Node = {}
    for key, rounded in zip(_BOUNDS.get(kind, ()), (math.ceil, math.floor), strict=False):
        if (bound := _number(said.get(key))) is not None:
            bound = bound if kind == "number" else rounded(bound)
            if abs(bound) <= _LARGEST if kind in ("integer", "number") else 0 <= bound <= _MOST_REPEATED:
                node[key] = bound
    return node if list(node.values()) == sorted(node.values()) else {}


def _renamed(node: Node, real: str, new: str) -> Node:
    """Put the real name in the description, where it has a new one."""
    if real == new:
        return node
    words = f"“{plain_text(real, _LONGEST_VALUE)}”. {node.get('description', '')}".rstrip()
    return node | {"description": words}


def _values(said: Mapping[str, Any]) -> str:
    """Tell in words that an object takes names besides those of its schema; "" where it takes none."""
    values = said.get("additionalProperties")
    if not isinstance(values, Mapping) and (values is not True or said.get("properties")):
        return ""
    kinds = _kinds(_mapping(values))
    return "each name may be given" + (f", with {expected({'type': kinds[0]})}" if len(kinds) == 1 else "")
