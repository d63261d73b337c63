"""Finds what somebody means who types a name: suggestions while they type, and the one that they chose."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

_ABOUT = 0.8  # what a line tells of somebody counts for less than the name
_GOOD = 60.0  # of 100, for a suggestion
_NEAR = 60.0  # of 100, for "do you mean"
_TYPED = 100  # characters that are looked at


@dataclass(frozen=True, slots=True)
class Choice:
    """What can be chosen.

    Attributes:
        value: by which it is known.
        name: as people see it.
        about: a line of what it is.
    """

    value: str
    name: str
    about: str = ""


def suggest(typed: str, choices: Sequence[Choice], limit: int) -> list[Choice]:
    """What may be meant by the beginning of a name, or a word of what it is; the likeliest first."""
    wanted = _key(typed[:_TYPED])
    if not wanted:
        return list(choices[:limit])
    scored = [(_score(wanted, choice), choice) for choice in choices]
    good = sorted((pair for pair in scored if pair[0] >= _GOOD), key=lambda pair: -pair[0])
    return [choice for _, choice in good[:limit]]


def find(typed: str, choices: Sequence[Choice]) -> Choice | None:
    """The one of this name: written exactly so, or else alike but for case."""
    exact = next((choice for choice in choices if choice.value == typed), None)
    return exact or _by_key(choices).get(_key(typed))


def nearest(typed: str, choices: Sequence[Choice]) -> Choice | None:
    """The one whose name is most like what was typed, if any is."""
    keys = _by_key(choices)
    found = process.extractOne(_key(typed[:_TYPED]), list(keys), scorer=fuzz.ratio, score_cutoff=_NEAR)
    return keys[found[0]] if found else None


def _by_key(choices: Sequence[Choice]) -> Mapping[str, Choice]:
    """A choice is known by both of its names; its value goes before another's name."""
    names = {_key(choice.name): choice for choice in reversed(choices)}
    return names | {_key(choice.value): choice for choice in reversed(choices)}


def _score(wanted: str, choice: Choice) -> float:
    names = (_key(choice.value), _key(choice.name))
    if any(name.startswith(wanted) for name in names):
        return 100.0
    by_name = max(fuzz.WRatio(wanted, name) for name in names)
    about = fuzz.partial_ratio(wanted, _key(choice.about)) if len(wanted) > 2 and choice.about else 0.0
    return max(by_name, about * _ABOUT)


def _key(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
