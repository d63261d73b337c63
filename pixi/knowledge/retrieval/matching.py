"""Which tokens of a fact stand in a stretch of its source, and which of the source's are spoken of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz import fuzz, process

from pixi.knowledge.retrieval.words import Token

_ALIKE = 84.0
_SHORTEST_ALIKE = 5
_NEAR = 4  # glyphs
_Piece = tuple[int, int, list[int]]  # of a fact: where it begins, its size, its places
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
        places: for each position of the fact that was found, those in the stretch.
        spoken: positions in the stretch of what the fact speaks of.
    """

    weight: float
    missing: tuple[int, ...]
    places: dict[int, Sequence[int]]
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
    return Matched(found.weight, tuple(found.missing), found.places, frozenset(found.spoken))


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
        self.places: dict[int, Sequence[int]] = {}
        self.spoken: set[int] = set()

    def look_up(self, at: int) -> None:
        """Find a word or a number."""
        token = self._said[at]
        found = self._source.where.get(token.stem)
        if found is None and token.kind == "word" and not token.empty:
            found = _alike(token, self._source)
        if found:
            self.places[at] = found
            self.spoken.update(found)
            self.weight += weight_of(token)
        elif not token.empty:
            self.missing.append(at)

    def lay_out(self, at: int, upto: int) -> None:
        """Lay a run of glyphs out with the longest pieces of the source."""
        said, glyphs = self._said, self._source.glyphs
        run = "".join([token.stem[0] for token in said[at:upto]])
        pieces: list[_Piece] = []
        begin = 0
        while begin < len(run):
            size = 1
            while begin + size < len(run) and run[begin : begin + size + 1] in glyphs:
                size += 1
            pieces.append((at + begin, size, list(_occurrences(glyphs, run[begin : begin + size]))))
            begin += size
        for number, (here, size, found) in enumerate(pieces):
            single = size == 1 and not said[here].empty
            beside = pieces[max(0, number - 2) : number], pieces[number + 1 : number + 3]
            self._lay(here, size, _near(found, *beside) if single else found)

    def _lay(self, here: int, size: int, starts: list[int]) -> None:
        for i in range(size):
            if starts:
                self.places[here + i] = [start + i for start in starts]
                self.spoken.update([start + i for start in starts])
                self.weight += weight_of(self._said[here + i])
            elif not self._said[here + i].empty:
                self.missing.append(here + i)


def _near(starts: list[int], before: Sequence[_Piece], after: Sequence[_Piece]) -> list[int]:
    """Where a single glyph stands near a piece that is beside it in the fact; elsewhere it means another."""
    ends = [start + size for _, size, places in before for start in places if size > 1]
    begins = [start for _, size, places in after for start in places if size > 1]
    if not ends and not begins:
        return starts
    return [at for at in starts if any(abs(at - place) <= _NEAR for place in (*ends, *begins))]


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
