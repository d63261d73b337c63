"""Rewrites schemas that strangers wrote into such as every model server takes.

A server's schema may hold references, choices at the top, keywords and names that some model API refuses.
The new one has none of them: plain types, few keywords, small. Bounds, formats and the like are told in
words; what else the old one says is left out: then the server itself refuses what it does not take.

The depth and the descriptions are cut until the schema is short enough. All reading is paid from one number
of steps, so that a schema that doubles, or is a megabyte, ends; a reference within itself is not followed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from pixi.toolbox.arguments import expected, plain_text, shown
from pixi.toolbox.schema import safe_names

MOST_CHARACTERS = 16_000
"""Limit of a schema, as JSON: some four thousand tokens, in every request."""

_LEVELS = ((6, 600), (5, 240), (4, 100), (3, 40), (2, 0))
"""Depth of a schema and length of its descriptions: the first at which it is short enough."""

_MOST_STEPS = 80_000  # of reading a schema at one level
_STEPS_OF_PART = 100  # each of its names is one more
_MOST_BRANCHES = 50  # that one value may be written in
_MOST_CHOICES = 100  # of one value
_FEW = 8  # of them, that are told in words
_LONGEST_HINT = 160
_LONGEST_VALUE = 100

_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string"}
_KINDS = {*_SCALARS.values(), "object", "array"}
_TOLD_BY = {"object": {"properties", "required", "additionalProperties"}, "array": {"items", "prefixItems"}}
"""Keywords that tell the type where it is not named."""

_IN_WORDS = (
    *("format", "pattern", "minLength", "maxLength", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "default"),
)

Node = dict[str, Any]

_IN_LISTS: list[Node] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_IN_LISTS += [{"type": "object", "properties": {}}]
_ANYTHING: Node = {"anyOf": [*_IN_LISTS, {"type": "array", "items": {"anyOf": _IN_LISTS}}]}


class UnusableSchema(ValueError):
    """No model can be given this tool. The text says why, for people."""


class _TooLarge(Exception):
    """The schema has more parts than are looked at."""


class AdaptedSchema(Struct, frozen=True):
    """A schema that every model server takes.

    Attributes:
        parameters: the schema.
        names: the stranger's own names of its properties, by the new ones.
    """

    parameters: Node
    names: Mapping[str, str]

    def real(self, value: Any, schema: Node | None = None) -> Any:
        """Return arguments, or a value of that schema within, with the stranger's own names."""
        schema = self.parameters if schema is None else schema
        if not schema:
            return value
        nodes = schema.get("anyOf", [schema])
        match value:
            case dict():
                inner = {name: its for node in nodes for name, its in node.get("properties", {}).items()}
                return {
                    self.names[name] if name in inner else name: self.real(each, inner.get(name, {}))
                    for name, each in value.items()
                }
            case list():
                items: Node = next((node["items"] for node in nodes if "items" in node), {})
                return [self.real(each, items) for each in value]
            case _:
                return value


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
            writer = _Writer(schema, depth, words, {})
            parameters = writer.top()
            new = safe_names(writer.named)
            if any(name != safe for name, safe in new.items()):
                parameters = _Writer(schema, depth, words, new).top()
        except (_TooLarge, RecursionError):  # at the next level there is less of it
            continue
        if len(json.dumps(parameters, ensure_ascii=False)) <= MOST_CHARACTERS:
            return AdaptedSchema(parameters, {safe: name for name, safe in new.items()})
    raise UnusableSchema("its schema is too large")


class _Part(NamedTuple):
    """A part of a schema without references and `allOf`, and the references that led to it."""

    said: Mapping[str, Any]
    within: frozenset[str] = frozenset()


class _Writer:
    """Writes one schema anew, down to a depth and with descriptions of a length.

    Args:
        new: new names of properties; the others are kept.

    Attributes:
        named: the properties that were written, by their own names.
    """

    def __init__(self, root: Mapping[str, Any], depth: int, words: int, new: Mapping[str, str]) -> None:
        self.named: set[str] = set()
        self._root = root
        self._depth = depth
        self._words = words
        self._new = new
        self._left = _MOST_STEPS

    def top(self) -> Node:
        """Return the whole."""
        part = self._flat(self._root)
        choices = self._choices(part)
        kinds = _kinds(part) or [kind for each in choices for kind in _kinds(each)] or ["object"]
        if "object" not in kinds:
            raise UnusableSchema(f"it takes no arguments with names, but {' or '.join(kinds)}")
        return self._object(_any_of(part, [each for each in choices if _kinds(each) == ["object"]]), 0)

    def _flat(self, schema: object, within: frozenset[str] = frozenset()) -> _Part:
        """Return what a part says, with what it refers to. What leads out of the whole is never followed."""
        if isinstance(schema, _Part):
            return schema
        said = dict(_mapping(schema))
        reference, together = said.pop("$ref", None), _list(said.pop("allOf", None))
        parts = [_Part(said, within)]
        if isinstance(reference, str):
            target = self._target(reference)
            if reference in within:
                words = f"{said.get('description', '')} (the same again, as above)".lstrip()
                said |= {"type": _kinds(_Part(target)), "description": words}
            else:
                parts.append(self._flat(target, within | {reference}))
        parts += [self._flat(each, within) for each in together]
        whole = _merged(parts, "allOf", [name for each in parts for name in _required(each)])
        self._left -= _STEPS_OF_PART
        self._left -= sum(len(value) for value in whole.said.values() if isinstance(value, list | dict))
        if self._left < 0:
            raise _TooLarge
        return whole

    def _target(self, reference: str) -> Mapping[str, Any]:
        """Return where a reference leads; nothing where it is none of `#/a/b`."""
        front, *names = reference.split("/")
        place: object = self._root if front == "#" else None
        for name in names:
            if isinstance(place, list):
                place = next(iter(place[int(name[:6]) :]), None) if name.isdecimal() else None
            else:
                place = _mapping(place).get(unquote(name).replace("~1", "/").replace("~0", "~"))
            if not place:
                break
        return _mapping(place)

    def _choices(self, part: _Part) -> list[_Part]:
        """Return what the value may be, one of them, null aside."""
        several = _list(part.said.get("anyOf")) or _list(part.said.get("oneOf"))
        flat = (self._flat(each, part.within) for each in several)
        return [each for each in flat if each.said.get("type") not in ("null", ["null"])]

    def _node(self, part: _Part, depth: int) -> Node:
        """Return a value within."""
        kinds, choices = _kinds(part), self._choices(part)
        if kinds == ["object"]:
            part = _any_of(part, choices)
        written = [self._of_kind(kind, part, depth) for kind in kinds]
        if len(written) == 1:
            return written[0]
        branches: list[Node] = []
        for node in written or [self._node(each, depth) for each in choices] or [_ANYTHING]:
            branches += [each for each in node.get("anyOf", [node]) if each not in branches]
        if len(branches) > _MOST_BRANCHES:
            raise _TooLarge
        texts = dict.fromkeys(text for each in branches for text in each.get("enum", ()))
        if all("enum" in each for each in branches) and len(texts) <= _MOST_CHOICES:
            branches = [{"type": "string", "enum": [*texts]}]
        return (branches[0] if len(branches) == 1 else {"anyOf": branches}) | self._described(part, [])

    def _of_kind(self, kind: str, part: _Part, depth: int) -> Node:
        match kind:
            case "object":
                return self._object(part, depth)
            case "array":
                return self._array(part, depth)
        values = _values(part)
        texts = list(dict.fromkeys(each for each in values if isinstance(each, str)))
        whole = all(plain_text(each, _LONGEST_VALUE) == each for each in texts)
        if kind == "string" and 0 < len(texts) <= _MOST_CHOICES and whole:
            return {"type": kind, "enum": texts} | self._described(part, [])
        more = f" and {len(values) - _FEW} more" if len(values) > _FEW else ""
        hints = [f"{expected({'enum': values[:_FEW]})}{more}"] if values else []
        return {"type": kind} | self._described(part, hints)

    def _object(self, part: _Part, depth: int) -> Node:
        required = dict.fromkeys(_required(part))
        # A name that must be given and is not described takes anything.
        properties = _mapping(part.said.get("properties"))
        given = {**properties, **{name: {} for name in required if name not in properties}}
        hints = ["any name may be given"] if part.said.get("additionalProperties") else []
        if depth >= self._depth and given:
            hints.append(f"an object with {', '.join(given)}")
            given = {}
        self.named |= given.keys()
        written: dict[str, Node] = {}
        for name, each in given.items():
            new = self._new.get(name, name)
            node = written[new] = self._node(self._flat(each, part.within), depth + 1)
            if new != name:
                words = f"“{plain_text(name, _LONGEST_VALUE)}”. {node.get('description', '')}"
                written[new] = node | {"description": words.rstrip()}
        must = [self._new.get(name, name) for name in required if name in given]
        whole = {"type": "object"} | self._described(part, hints) | {"properties": written}
        return whole | ({"required": must} if must else {})

    def _array(self, part: _Part, depth: int) -> Node:
        items, hints = part.said.get("items"), []
        if several := _list(items) or _list(part.said.get("prefixItems")):
            items, hints = {"anyOf": several[:_MOST_BRANCHES]}, ["the items stand in a fixed order"]
        inner = self._flat(items if depth < self._depth else {}, part.within)
        node = self._node(inner, depth + 1) if inner.said else {"anyOf": _IN_LISTS}
        return {"type": "array"} | self._described(part, hints) | {"items": node}

    def _described(self, part: _Part, hints: Sequence[str]) -> Node:
        """Return the description, with what is told in words."""
        values = {key: part.said.get(key, "") for key in _IN_WORDS}
        told = (
            f"{key}: {shown(value)}"
            for key, value in values.items()
            if value != "" and type(value) in _SCALARS
        )
        # A model would repeat a value that is cut.
        whole_ones = (each for each in told if not each.endswith("…"))
        hint = plain_text("; ".join((*hints, *whole_ones)), _LONGEST_HINT)
        words = plain_text(part.said.get("description"), self._words) if self._words else ""
        whole = " ".join(filter(None, (words, f"({hint})" if hint else "")))
        return {"description": whole} if whole else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _required(part: _Part) -> list[str]:
    return [each for each in _list(part.said.get("required")) if isinstance(each, str)]


def _values(part: _Part) -> list[Any]:
    """Return the values that it may have; none where it may have any."""
    values = [part.said["const"]] if "const" in part.said else _list(part.said.get("enum"))
    return [each for each in values if each is not None and each != ""]


def _kinds(part: _Part) -> list[str]:
    """Return the JSON types that a value may have, null aside; none where nothing is said of it."""
    told = part.said.get("type")
    kinds = [each.lower() for each in (told if isinstance(told, list) else [told]) if isinstance(each, str)]
    if not _KINDS & {*kinds}:
        kinds = [_SCALARS.get(type(each), "") for each in _values(part)]
        kinds = kinds or [kind for kind, keys in _TOLD_BY.items() if keys & part.said.keys()][:1]
    known = dict.fromkeys(kind for kind in kinds if kind in _KINDS)
    return [kind for kind in known if kind != "integer" or "number" not in known]


def _merged(parts: Sequence[_Part], keyword: str, required: list[str]) -> _Part:
    """Return parts as one. Of a keyword that several have the first counts, of a property all or any of them.

    Args:
        keyword: `allOf` or `anyOf`, for such properties.
        required: properties of the whole that must be given.
    """
    found: dict[str, list[object]] = {}
    for each in parts:
        for name, its in _mapping(each.said.get("properties")).items():
            found.setdefault(name, []).append(its)
    said = {key: value for each in reversed(parts) for key, value in each.said.items()}
    if found:
        said["properties"] = {
            name: its[0] if len(its) == 1 else {keyword: its} for name, its in found.items()
        }
    if required:
        said["required"] = required
    return _Part(said, frozenset().union(*(each.within for each in parts)))


def _any_of(part: _Part, choices: Sequence[_Part]) -> _Part:
    """Return objects of which a value is one as one object: what only some of them want can be left out."""
    if not choices:
        return part
    everywhere = set.intersection(*(set(_required(each)) for each in choices))
    return _merged([part, *choices], "anyOf", [*_required(part), *sorted(everywhere)])
