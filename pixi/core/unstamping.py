"""Takes a user line apart: Pixi's own words above those of people, what came to mind, and the words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pixi.core.forgetting import blocks_of
from pixi.core.untrusted import quoted

PartKind = Literal["stamp", "words", "memory", "notice", "document", "summary"]
"""Of a part: `stamp` is Pixi's own line, `words` are what people wrote, the others came to mind."""

_TIME = re.compile(r"[A-Z][a-z]+day \d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d")
_HEADS: tuple[tuple[PartKind, re.Pattern[str]], ...] = (
    ("summary", re.compile(r"you remember of what was said here before:")),
    ("memory", re.compile(r'you remember of "(?P<about>[^"]*)" \(id (?P<id>[^)]*)\):')),
    ("notice", re.compile(r'you are told by (?P<about>[^"]*) of "[^"]*" \(id (?P<id>[^)]*)\):')),
    ("document", re.compile(r'your documents say, in "(?P<about>[^"]*)":')),
)
_CITED = re.compile(r'(?P<about>[^\n]+) says: "(?P<text>[^"\n]*)"')  # for a small model


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of a user line, as it stands there.

    Attributes:
        about: of a memory the name of whom it tells, of others where it is from.
        person: of a memory and a notice: the id of the author of whom it tells.
    """

    kind: PartKind
    text: str
    about: str = ""
    person: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        """Of what came to mind: each piece, without the marks of quotation."""
        if found := _CITED.fullmatch(self.text):
            return (found["text"],)
        return tuple(row[1:].strip() for row in self.text.split("\n") if row.startswith(">"))


def parts_of(text: str, said: str = "") -> list[LinePart]:
    """The parts of a user line, in order: joined by line breaks they are the line.

    `said`: what the message says that stands last, where it is known. In the talk of two no line stands above
    it, so that nothing else tells it from what came to mind.
    """
    first, *rest = text.split("\n")
    if _TIME.fullmatch(first):
        parts = [LinePart("stamp", first), *(part for block in blocks_of(rest) for part in _block(block))]
        return [*parts[:-1], *_without_words(parts[-1], quoted(said))]
    if _kind_of(first):  # a summary
        return list(_block([first, *rest]))
    return list(_short(text))


def _without_words(last: LinePart, words: str) -> list[LinePart]:
    """What came to mind, and the words that follow it."""
    if last.kind in ("stamp", "words") or not words or not last.text.endswith(f"\n{words}"):
        return [last]
    return [replace(last, text=last.text.removesuffix(f"\n{words}")), LinePart("words", words)]


def _block(block: list[str]) -> Iterator[LinePart]:
    head, *words = block
    if head.startswith(">"):
        yield LinePart("words", "\n".join(block))
    elif known := _kind_of(head):
        kind, found = known
        named = found.groupdict()
        yield LinePart(kind, "\n".join(block), named.get("about", ""), named.get("id", ""))
    else:
        yield LinePart("stamp", head)
        if words:
            yield LinePart("words", "\n".join(words))


def _short(text: str) -> Iterator[LinePart]:
    """Those of a line for a small model, which holds words alone below what documents say."""
    rows = text.split("\n")
    while rows and (found := _CITED.fullmatch(rows[0])):
        yield LinePart("document", rows.pop(0), found["about"])
    if rows:
        yield LinePart("words", "\n".join(rows))


def _kind_of(head: str) -> tuple[PartKind, re.Match[str]] | None:
    for kind, pattern in _HEADS:
        if found := pattern.fullmatch(head):
            return kind, found
    return None
