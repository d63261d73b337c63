"""Takes a stranger's JSON Schema apart: references followed, what holds together put together, in bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

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
    """It has more parts than are looked at."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a schema says of a value, without references and `allOf`.

    Attributes:
        said: by keyword.
        within: references that led here.
        again: it holds itself, and what is in it was left out for that.
    """

    said: Mapping[str, Any]
    within: tuple[str, ...] = ()
    again: bool = False

    def get(self, key: str, default: object = None) -> Any:
        """What a keyword says."""
        return self.said.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self.said


def kinds_of(facts: Facts) -> tuple[str, ...]:
    """The JSON types that a value may have, null aside; none where nothing is said of it."""
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
        """One part more.

        Raises:
            TooLarge: it is one too many.
        """
        self._left -= 1
        if self._left < 0:
            raise TooLarge

    def flat(self, schema: object, within: tuple[str, ...] = ()) -> Facts:
        """What a part says. What leads out of the whole is never followed: then nothing is said.

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
        """What the value may be, one of them; null and what cannot be are left out."""
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
        """Both hold; where they disagree on a keyword, the first.

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
    """The names of what must be given.

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
