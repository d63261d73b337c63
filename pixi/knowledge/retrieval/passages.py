"""The passages of documents that share most with a question: what there is without a helper model."""

from collections.abc import Iterator, Sequence
from math import log

from pixi.knowledge.retrieval.findings import Found, Place
from pixi.knowledge.retrieval.grounding import Ground
from pixi.knowledge.retrieval.words import Analyser, Token

_LEAST = 0.34  # of what a question asks for; with less a passage is about something else
_PASSAGE = 320  # characters that a passage is filled up to
_SURE = 0.6  # the most that words alone tell


def best_passages(question: str, grounds: Sequence[Ground], most: int) -> list[Found]:
    """The passages that hold most of a question's telling words, best first; none where none holds enough."""
    keys = set(_asked(Analyser().tokens(question)))
    total = sum(len(ground.spans) for ground in grounds)
    weights = {key: log(1 + total / (1 + sum(len(g.holding(key)) for g in grounds))) for key in keys}
    whole = sum(weights.values())
    if not whole:
        return []
    best: list[Found] = []
    for number, ground in enumerate(grounds):
        held: dict[int, set[str]] = {}
        titled = ground.titled & keys
        for key in keys:
            for at in ground.holding(key):
                held.setdefault(at, set()).add(key)
        for at in held:
            last = _filled(ground, at)
            covered = titled.union(*(held.get(i, set()) for i in range(at, last + 1)))
            share = sum(weights[key] for key in covered) / whole
            if share >= _LEAST:
                first, end = ground.spans[at], ground.spans[last].end
                best.append(Found(Place(number, first.section, first.start, end), _SURE * share))
    best.sort(
        key=lambda found: (-found.confidence, found.place.entry, found.place.section, found.place.start)
    )
    return without_overlaps(best, most)


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


def _asked(tokens: Sequence[Token]) -> Iterator[str]:
    """The keys of a question, without pairs of glyphs that only ask."""
    before: Token | None = None
    for token in tokens:
        if token.kind == "glyph":
            joined = before is not None and before.kind == "glyph" and before.end == token.start
            if joined and before is not None and not (token.empty and before.empty):
                yield before.stem + token.stem
        elif token.kind == "number" or not token.empty:
            yield token.key
        before = token
