"""The first thing in which a fact and the stretch of its source that is nearest to it differ, if any."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from pixi.knowledge.lists import opposites, word_list
from pixi.knowledge.retrieval.matching import Matched, Stretch, matched, weight_of
from pixi.knowledge.retrieval.words import Analyser, Token

Reason = Literal["empty", "foreign", "numbers", "words", "opposite", "negation", "roles"]

_MOST_FROM_AROUND = 0.5  # of a fact's words
_LONGEST_SLOT = 4  # tokens
_CLAUSE_SPOKEN = 0.5  # of a clause's words: then the fact speaks of it
_BETWEEN_NUMBERS = frozenset(
    ("to", "and", "or", "until", "through", "و", "تا", "يا", "الي", "至", "到", "和", "与")
)
_PLACING = frozenset(("of", "on", "in", "at", "near"))
_ARTICLES = frozenset(("the", "a", "an", "of", "his", "her", "its", "their", "this", "that"))


@dataclass(frozen=True, slots=True)
class Compared:
    """A fact beside the source that is nearest to it.

    Attributes:
        said: the fact.
        sentence: the one sentence that holds most of it, and `alone` what of it.
        stretch: that sentence with those beside it that hold more, and `found` what of the fact.
        before: what stands before the stretch.
        titles: of the document and the section.
    """

    said: list[Token]
    sentence: list[Token]
    alone: Matched
    stretch: list[Token]
    found: Matched
    before: list[Token]
    titles: list[Token]


def difference(compared: Compared) -> Reason | None:
    """What the fact says otherwise than its source; None: nothing."""
    named = named_in(compared.said, compared.found, [*compared.titles, *compared.before])
    own = [at for at in compared.found.missing if at not in named]
    if _numbers_differ(compared):
        return "numbers"
    if _opposed(compared.said, compared.alone.missing, compared.sentence):
        return "opposite"
    if own or weight_in([compared.said[at] for at in named]) > _MOST_FROM_AROUND * weight_in(compared.said):
        return "words"
    if _replaced(compared.said, compared.stretch):
        return "words"
    if _denied(compared):
        return "negation"
    if _roles_differ(compared.said, compared.found, compared.stretch):
        return "roles"
    return None


def weight_in(tokens: Sequence[Token]) -> float:
    """How much tokens carry together."""
    return sum(map(weight_of, tokens))


def named_in(said: list[Token], found: Matched, around: list[Token]) -> frozenset[int]:
    """What is missing because the source has a pronoun for it, or nothing."""
    if not found.missing or not around:
        return frozenset()
    place = {at: there[0] for at, there in matched(said, Stretch(around)).places.items()}
    named = set()
    for at in found.missing:
        if said[at].kind == "word" and at in place:
            named.add(at)
        elif said[at].kind == "glyph" and at in place:
            beside = (place.get(at - 1, -9) + 1 == place[at], place.get(at + 1, -9) - 1 == place[at])
            if any(beside):
                named.add(at)
    return frozenset(named)


def _numbers_differ(compared: Compared) -> bool:
    said, source = compared.said, compared.stretch
    told = {token.stem for token in compared.titles if token.kind == "number"}
    numbers = [at for at, token in enumerate(said) if token.kind == "number"]
    if any(at not in compared.found.places and said[at].stem not in told for at in numbers):
        return True
    known = frozenset(token.stem for token in compared.titles)
    if any(_counts_another(said, at, source, known) for at in numbers):
        return True
    return _turned_round(said, numbers, source)


def _counts_another(said: list[Token], at: int, source: list[Token], known: frozenset[str]) -> bool:
    """Whether the word beside a number stands beside other numbers alone in the source."""
    for step in (1, -1):
        word = _beside(said, at, step, known)
        if word is None:
            continue
        there = {
            (token.stem, _beside(source, i, step, known))
            for i, token in enumerate(source)
            if token.kind == "number"
        }
        own = {beside for number, beside in there if number == said[at].stem}
        if word not in own and any(beside == word for _, beside in there):
            return True
    return False


def _beside(tokens: list[Token], at: int, step: int, known: frozenset[str]) -> str | None:
    """The word that a number counts or that leads to it; None where another number or a mark is nearer.

    What the whole document is about, `known`, may stand anywhere for a pronoun.
    """
    for i in range(at + step, at + 4 * step, step):
        if not 0 <= i < len(tokens) or tokens[i].kind in ("mark", "number"):
            return None
        if tokens[i].stem not in known and (tokens[i].kind == "glyph" or not tokens[i].empty):
            return tokens[i].stem
    return None


def _turned_round(said: list[Token], numbers: list[int], source: list[Token]) -> bool:
    """Whether the two numbers of a range or a list stand the other way round."""
    there = {(one.stem, other.stem) for one, other in pairwise(t for t in source if t.kind == "number")}
    for one, other in pairwise(numbers):
        pair = said[one].stem, said[other].stem
        between = said[one + 1 : other]
        joined = all(token.kind == "mark" or token.form in _BETWEEN_NUMBERS for token in between)
        if between and joined and pair[0] != pair[1] and pair not in there and pair[::-1] in there:
            return True
    return False


def _opposed(said: list[Token], own: Sequence[int], source: list[Token]) -> bool:
    """Whether a word that is not in the source has its opposite there."""
    if not own:
        return False
    stems = {token.stem for token in source}
    if any(_opposite_stems().get(said[at].stem, frozenset()) & stems for at in own):
        return True
    against = opposites()
    glyphs = _text(source)
    here = _text(said)
    for at in own:
        if said[at].kind == "glyph":
            for word in {said[at].stem, *_pairs_at(said, at)}:
                if any(other in glyphs and other not in here for other in against.get(word, ())):
                    return True
    return False


@cache
def _opposite_stems() -> dict[str, frozenset[str]]:
    analyser = Analyser()

    def stem(word: str) -> str:
        return next((token.stem for token in analyser.tokens(word)), word)

    found: dict[str, frozenset[str]] = {}
    for word, others in opposites().items():
        found[stem(word)] = found.get(stem(word), frozenset()) | {stem(other) for other in others}
    return found


def _text(tokens: list[Token]) -> str:
    return "".join(token.stem if token.kind == "glyph" else "\n" for token in tokens)


def _pairs_at(tokens: list[Token], at: int) -> list[str]:
    """The two-glyph words of which a glyph may be part."""
    beside = [(at - 1, at), (at, at + 1)]
    return [
        tokens[a].stem + tokens[b].stem
        for a, b in beside
        if a >= 0 and b < len(tokens) and tokens[a].kind == tokens[b].kind == "glyph"
    ]


def _replaced(said: list[Token], source: list[Token]) -> bool:
    """Whether two glyphs or more stand where the source has others, and come from elsewhere in it.

    Then the fact says of one what the source says of another. In scripts with capitals, `_roles_differ`
    knows more of names than places do.
    """
    here = {token.stem for token in said}
    glyphs = _text(source)
    for first, last in _slots(said):
        left, right = said[first - 1].stem, said[last + 1].stem
        at = glyphs.find(left)
        while at >= 0:
            upto = glyphs.find(right, at + 3, at + _LONGEST_SLOT + 2)
            between = source[at + 1 : upto] if upto >= 0 else []
            carrying = [token for token in between if token.kind != "glyph" or not token.empty]
            if carrying and all(token.kind == "glyph" and token.stem not in here for token in carrying):
                return True
            at = glyphs.find(left, at + 1)
    return False


def _slots(said: list[Token]) -> Iterator[tuple[int, int]]:
    """Stretches of two to four glyphs that carry something, with glyphs round them that carry nothing."""
    for first in range(1, len(said) - 2):
        if said[first].kind != "glyph" or said[first].empty or not said[first - 1].empty:
            continue
        last = first
        while last + 1 < len(said) and said[last + 1].kind == "glyph" and not said[last + 1].empty:
            last += 1
        bounded = last + 1 < len(said) and said[last + 1].kind == said[first - 1].kind == "glyph"
        if bounded and 1 <= last - first < _LONGEST_SLOT:
            yield first, last


def _denied(compared: Compared) -> bool:
    """Whether the fact denies more, or less, than the clauses that it speaks of."""
    denies = sum(token.denies for token in compared.said)
    more = frozenset(compared.said[at].stem for at in compared.alone.missing)
    here = {token.start for token in compared.sentence}
    spoken = 0
    before = False
    for clause in _clauses(compared.stretch):
        # Beside the sentence itself, what repeats its words says nothing more of the fact.
        alone = compared.stretch[clause[-1]].start in here
        carried = [i for i in clause if not compared.stretch[i].empty]
        told = [
            i for i in carried if i in compared.found.spoken and (alone or compared.stretch[i].stem in more)
        ]
        whole = weight_in([compared.stretch[i] for i in carried])
        if whole:
            before = weight_in([compared.stretch[i] for i in told]) > _CLAUSE_SPOKEN * whole
        if before:
            spoken += sum(compared.stretch[i].denies for i in clause)
    return denies != spoken


def _clauses(source: list[Token]) -> list[list[int]]:
    """The positions of the tokens, clause by clause; a mark ends one, a conjunction begins one."""
    clauses: list[list[int]] = [[]]
    for at, token in enumerate(source):
        if token.form in word_list("conjunctions"):
            clauses.append([])
        clauses[-1].append(at)
        if token.kind == "mark":
            clauses.append([])
    return [clause for clause in clauses if clause]


def _roles_differ(said: list[Token], found: Matched, source: list[Token]) -> bool:
    """Whether two names have changed places round a word that stands between them in both."""
    names = [
        at
        for at, there in found.places.items()
        if (said[at].name or source[there[0]].name) and not _led_by(said, at, _PLACING)
    ]
    for one, other in pairwise(names):
        there = found.places[other][0], found.places[one][0]
        if there[0] >= there[1] or said[one].stem == said[other].stem:
            continue
        if _parted(said[one:other]) or _parted(source[there[0] : there[1]]):
            continue  # clauses that were moved
        here_between = _acts(said[one + 1 : other])
        there_between = _acts(source[there[0] + 1 : there[1]])
        voices = [
            any(t.form in ("by", "توسط", "被", "от") for t in tokens)
            for tokens in (said[one:other], source[there[0] : there[1]])
        ]
        if here_between & there_between and voices[0] == voices[1]:
            return True
    return False


def _led_by(tokens: list[Token], at: int, words: frozenset[str]) -> bool:
    return any(token.form in words for token in tokens[max(0, at - 2) : at])


def _parted(tokens: list[Token]) -> bool:
    return any(token.kind == "mark" for token in tokens)


def _acts(between: list[Token]) -> set[str]:
    """What may be a verb among the words between two names."""
    led = [False, *(token.form in _ARTICLES for token in between)]
    return {t.stem for t, noun in zip(between, led, strict=False) if not (t.empty or t.name or noun)}
