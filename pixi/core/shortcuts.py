"""How well-formed commands begin, spelled out: what is looked up here need not be searched for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pixi.core.language import CommandStarted, Event, Prose
from pixi.core.vocabulary import vocabulary

# What stands between two commands of a tidy reply. Other white space is for the reader.
_BEFORE = ("", "\n", " ", "\n\n")


@dataclass(frozen=True, slots=True)
class Shortcut:
    """An opening: the white space before it, the canonical name, and the events that it makes."""

    before: str
    name: str
    events: tuple[Event, ...]


class Shortcuts:
    """The tidy openings of some commands, and what may stand before them.

    Attributes:
        openings: by their text, e.g. `"\\n[SEND:"`.
        beginnings: every text that one of them begins with, up to the blank behind its colon.
    """

    __slots__ = ("beginnings", "openings")

    def __init__(self, tidy: Mapping[str, str]) -> None:
        self.openings: dict[str, Shortcut] = {}
        beginnings = set(_BEFORE)
        for opening, name in tidy.items():
            started = CommandStarted(name)
            for before in _BEFORE:
                text = before + opening
                events = (Prose(before), started) if before else (started,)
                self.openings[text] = Shortcut(before, name, events)
                beginnings.update(text[:length] for length in range(len(before), len(text) + 1))
                beginnings.add(text + " ")
        self.beginnings = frozenset(beginnings)


@lru_cache(maxsize=64)
def shortcuts(names: tuple[tuple[str, tuple[str, ...]], ...]) -> Shortcuts:
    """The shortcuts for those names; the same ones for the same names."""
    return Shortcuts(vocabulary(names).tidy)
