"""Which tokens of a fact stand in a stretch of its source, and which of the source's are spoken of."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz import fuzz, process

from pixi.knowledge.retrieval.words import Token

_ALIKE = 84.0
_SHORTEST_ALIKE = 5
_CONTRARY = (
    ("hypo", "hyper"), ("over", "under"), ("pre", "post"), ("intra", "inter"), ("in", "ex"), ("im", "ex"),
    ("in", "de"), ("up", "down"), ("macro", "micro"), ("mono", "poly"), ("maxi", "mini"), ("pro", "anti"),
    ("endo", "exo"), ("homo", "hetero"), ("ante", "post"), ("sub", "super"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Matched:
    """What of a fact is found in a stretch.

    Attributes:
        weight: how much of the fact is there: a word counts one, a glyph half.
        missing: positions in the fact of what carries meaning and is not there.
        place: for each position of the fact that was found, one in the stretch.
        spoken: positions in the stretch of what the fact speaks of.
    """

    weight: float
    missing: tuple[int, ...]
    place: dict[int, int]
    spoken: frozenset[int]


class Stretch:
    """Tokens of a source that stand beside each other, laid out to be looked up."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.where: dict[str, list[int]] = {}
        for at, token in enumerate(tokens):
            if token.kind != "mark":
                self.where.setdefault(token.stem, []).append(at)
        # One character for each token, so that places in it are places among the tokens.
        self.glyphs = "".join([token.stem[0] if token.kind == "glyph" else "\n" for token in tokens])

    @cached_property
    def long_words(self) -> dict[str, list[str]]:
        """The words that are long enough to be known in another spelling, by their first letter."""
        words: dict[str, list[str]] = {}
        for token in self.tokens:
            if token.kind == "word" and not token.empty and len(token.form) >= _SHORTEST_ALIKE:
                words.setdefault(token.form[0], []).append(token.form)
        return words


def matched(said: list[Token], source: Stretch) -> Matched:
    """Compare a fact with a stretch."""
    found = _Finding(said, source)
    at = 0
    while at < len(said):
        if said[at].kind == "glyph":
            upto = at + 1
            while upto < len(said) and said[upto].kind == "glyph":
                upto += 1
            found.lay_out(at, upto)
            at = upto
            continue
        if said[at].kind != "mark":
            found.look_up(at)
        at += 1
    return Matched(found.weight, tuple(found.missing), found.place, frozenset(found.spoken))


def weight_of(token: Token) -> float:
    """How much a token counts: a glyph is about half of a word."""
    return 0.0 if token.empty else 0.5 if token.kind == "glyph" else 1.0


class _Finding:
    """A comparison in the making; see `Matched`."""

    def __init__(self, said: list[Token], source: Stretch) -> None:
        self._said = said
        self._source = source
        self.weight = 0.0
        self.missing: list[int] = []
        self.place: dict[int, int] = {}
        self.spoken: set[int] = set()

    def look_up(self, at: int) -> None:
        """Find a word or a number."""
        token = self._said[at]
        found = self._source.where.get(token.stem)
        if found is None and token.kind == "word" and not token.empty:
            found = _alike(token, self._source)
        if found:
            self.place[at] = found[0]
            self.spoken.update(found)
            self.weight += weight_of(token)
        elif not token.empty:
            self.missing.append(at)

    def lay_out(self, at: int, upto: int) -> None:
        """Lay a run of glyphs out with the longest pieces of the source."""
        said, glyphs = self._said, self._source.glyphs
        run = "".join([token.stem[0] for token in said[at:upto]])
        begin = 0
        while begin < len(run):
            size = 1
            while begin + size < len(run) and run[begin : begin + size + 1] in glyphs:
                size += 1
            starts = list(_occurrences(glyphs, run[begin : begin + size]))
            for i in range(size):
                here = at + begin + i
                if starts:
                    self.place[here] = starts[0] + i
                    self.spoken.update([start + i for start in starts])
                    self.weight += weight_of(said[here])
                elif not said[here].empty:
                    self.missing.append(here)
            begin += size


def _occurrences(text: str, piece: str) -> Iterator[int]:
    found = text.find(piece)
    while found >= 0:
        yield found
        found = text.find(piece, found + 1)


def _alike(token: Token, source: Stretch) -> list[int]:
    """The word of the source that this one is another form or spelling of."""
    form = token.form
    if len(form) < _SHORTEST_ALIKE:
        return []
    words = source.long_words.get(form[0])
    if not words or any(map(str.isdigit, form)):
        return []
    best = process.extractOne(form, words, scorer=fuzz.ratio, score_cutoff=_ALIKE)
    if best is None or _contrary(form, best[0]):
        return []
    return [at for at, other in enumerate(source.tokens) if other.form == best[0]]


def _contrary(one: str, other: str) -> bool:
    """Whether words are alike but for a prefix that turns the meaning round."""
    shorter, longer = sorted((one, other), key=len)
    if longer.endswith(shorter):  # `regular`, `irregular`
        return True
    for prefix, against in _CONTRARY:
        for a, b in ((prefix, against), (against, prefix)):
            if one.startswith(a) and other.startswith(b):
                return True
    return False
