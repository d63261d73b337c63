"""The passages of documents that share most with a question: what there is without a helper model."""

from collections.abc import Iterator, Sequence
from math import log
from typing import Literal

from pixi.knowledge.retrieval.findings import Found, Place
from pixi.knowledge.retrieval.grounding import Ground
from pixi.knowledge.retrieval.words import Analyser, Token

_LEAST = 0.34  # of what a question asks for; with less a passage is about something else
_LEAST_OF_LETTERS = 0.45  # the same where words are not parted: pairs of letters meet by chance more often
_PASSAGE = 320  # characters that a passage is filled up to
_SURE = 0.6  # the most that words alone tell
_CHANCE = 0.2  # of a pair of ideographs that stands nowhere: mostly parts of two words
_IDEOGRAPHS = "\u2e80"  # from here on a glyph is nearly a word; in scripts such as Thai it is a letter

_Kind = Literal["word", "ideographs", "letters"]


def best_passages(question: str, grounds: Sequence[Ground], most: int) -> list[Found]:
    """The passages that hold most of a question's telling words, best first; none where none holds enough."""
    rated, least = _rated(question, grounds)
    return without_overlaps([found for found in rated if found.confidence >= _SURE * least], most)


def nearest_passages(question: str, grounds: Sequence[Ground], most: int) -> list[Found]:
    """The passages that hold any word of a question, best first; where none does, the first of each document.

    None only where the documents hold no text.
    """
    rated, _ = _rated(question, grounds)
    return without_overlaps(rated, most) or _beginnings(grounds)[:most]


def _beginnings(grounds: Sequence[Ground]) -> list[Found]:
    return [
        Found(Place(number, first.section, first.start, ground.spans[_filled(ground, 0)].end), 0.0)
        for number, ground in enumerate(grounds)
        for first in ground.spans[:1]
    ]


def _rated(question: str, grounds: Sequence[Ground]) -> tuple[list[Found], float]:
    """Every passage that holds any of a question's words, best first; and what share of them is enough."""
    asked = dict(_asked(Analyser().tokens(question)))
    keys = set(asked)
    total = sum(len(ground.spans) for ground in grounds)
    held_by = {key: sum(len(g.holding(key)) for g in grounds) for key in keys}
    weights = {
        key: log(1 + total / (1 + held_by[key]))
        * (_CHANCE if kind == "ideographs" and not held_by[key] else 1)
        for key, kind in asked.items()
    }
    least = _LEAST_OF_LETTERS if "letters" in asked.values() else _LEAST
    whole = sum(weights.values())
    if not whole:
        return [], least
    best: list[Found] = []
    for number, ground in enumerate(grounds):
        held: dict[int, set[str]] = {}
        for key in keys:
            for at in ground.holding(key):
                held.setdefault(at, set()).add(key)
        above = [(ground.titled | headed) & keys for headed in ground.headed]
        for at, span in enumerate(ground.spans):  # what stands below a heading answers to it
            if above[span.section] and (at == 0 or ground.spans[at - 1].section != span.section):
                held.setdefault(at, set())
        for at in held:
            last = _filled(ground, at)
            covered = above[ground.spans[at].section].union(
                *(held.get(i, set()) for i in range(at, last + 1))
            )
            share = sum(weights[key] for key in covered) / whole
            if share:
                first, end = ground.spans[at], ground.spans[last].end
                best.append(Found(Place(number, first.section, first.start, end), _SURE * share))
    best.sort(
        key=lambda found: (-found.confidence, found.place.entry, found.place.section, found.place.start)
    )
    return best, least


def without_overlaps(found: Sequence[Found], most: int) -> list[Found]:
    """The first of those that stand in each other's place."""
    kept: list[Found] = []
    for each in found:
        if len(kept) == most:
            break
        if not any(_overlap(each.place, other.place) for other in kept):
            kept.append(each)
    return kept


def _overlap(one: Place, other: Place) -> bool:
    same = (one.entry, one.section) == (other.entry, other.section)
    return same and one.start < other.end and other.start < one.end


def _filled(ground: Ground, at: int) -> int:
    """The last sentence of a passage that begins with this one."""
    first = ground.spans[at]
    last = at
    while last + 1 < len(ground.spans):
        following = ground.spans[last + 1]
        if following.section != first.section or following.end - first.start > _PASSAGE:
            break
        last += 1
    return last


def _asked(tokens: Sequence[Token]) -> Iterator[tuple[str, _Kind]]:
    """The keys of a question, and of what they are made; without pairs of glyphs that only ask."""
    before: Token | None = None
    for token in tokens:
        if token.kind == "glyph":
            joined = before is not None and before.kind == "glyph" and before.end == token.start
            if joined and before is not None and not (token.empty and before.empty):
                yield before.stem + token.stem, "ideographs" if token.stem >= _IDEOGRAPHS else "letters"
        elif token.kind == "number" or not token.empty:
            yield token.key, "word"
        before = token
