"""Tries a model of meanings on a database's own passages: does it know what they are about, as words do?

Many models know English alone, and ruin a search in any other language. So one sentence is taken out of
each of some passages, and the passage that it was taken from is looked for among all of them: by the model,
and by plain words. A model that finds it about as often as words do is trusted with the script of these.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from pixi.text.terms import normalise, pieces, runs

FEWEST = 8
"""Passages of a script below which nothing can be told."""

_MOST = 96  # passages of a script that are tried
_SHARE = 0.8  # of what words find, that a model must find
_LEAST = 0.2  # mean reciprocal rank below which words themselves tell nothing
_SENTENCE = re.compile(r"[^.!?。！？؟।\n]+[.!?。！？؟।]*")
_LONGEST = 400
_ENOUGH = 24  # characters of a sentence; of scripts without spaces half as many

_ONE = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


class Cloze(Struct, frozen=True):
    """A passage without one of its sentences, and that sentence."""

    script: str
    sentence: str
    rest: str


def script_of(text: str) -> str:
    """Return the script of most of its first letters (`LATIN`, `CJK`, `ARABIC`); "" where there are none."""
    letters = [c for c in text[:600] if c.isalpha()][:200]
    names = Counter(unicodedata.name(c, "").partition(" ")[0] for c in letters)
    counted: Counter[str] = Counter()
    for name, count in names.items():
        counted[_ONE.get(name, name)] += count
    return counted.most_common(1)[0][0] if counted else ""


def clozes(texts: Iterable[str]) -> list[Cloze]:
    """Return what passages can be tried with: some of each script that enough of them are in."""
    found: defaultdict[str, list[Cloze]] = defaultdict(list)
    for text in texts:
        cloze = _cloze(text)
        if cloze is not None and len(found[cloze.script]) < _MOST:
            found[cloze.script].append(cloze)
    return [cloze for some in found.values() if len(some) >= FEWEST for cloze in some]


def _cloze(text: str) -> Cloze | None:
    """Return the passage without its longest sentence but the first, which often is a title."""
    script = script_of(text)
    enough = _ENOUGH // 2 if script in ("CJK", "THAI", "HANGUL") else _ENOUGH
    spans = [found.span() for found in _SENTENCE.finditer(text)][1:]
    spans = [span for span in spans if enough <= span[1] - span[0] <= _LONGEST]
    if not spans or not script:
        return None
    start, end = max(spans, key=lambda span: span[1] - span[0])
    rest = f"{text[:start]} {text[end:]}".strip()
    return Cloze(script, text[start:end].strip(), rest) if len(rest) >= enough else None


def is_good(ours: Sequence[Sequence[float]], tried: Sequence[Cloze]) -> bool:
    """Return True if a model knows what passages are about.

    Args:
        ours: for each cloze, how near its sentence is to the rest of each.
        tried: of one script.
    """
    words = _mean_reciprocal_rank(_by_words(tried))
    return words >= _LEAST and _mean_reciprocal_rank(ours) >= _SHARE * words


def _mean_reciprocal_rank(scores: Iterable[Sequence[float]]) -> float:
    """Return the mean reciprocal rank of the diagonal: the score in each row that belongs to the row.

    Among equals it counts as the one in their middle.
    """
    ranks: list[float] = []
    for place, row in enumerate(scores):
        own = row[place]
        better = sum(1 for score in row if not score <= own)  # what is no number, too
        equal = sum(1 for score in row if score == own) - 1
        ranks.append(1 / (1 + better + equal / 2))
    return sum(ranks) / max(len(ranks), 1)


def _by_words(tried: Sequence[Cloze]) -> Iterator[list[float]]:
    """Yield, for each cloze, the score of each rest by the rare words that it shares with the sentence."""
    holders: defaultdict[str, set[int]] = defaultdict(set)
    for place, cloze in enumerate(tried):
        for term in _terms(cloze.rest):
            holders[term].add(place)
    for cloze in tried:
        scores = [0.0] * len(tried)
        for term in _terms(cloze.sentence):
            held = holders.get(term, ())
            for place in held:
                scores[place] += math.log(1 + len(tried) / len(held))
        yield scores


def _terms(text: str) -> set[str]:
    """Return words, and pairs of characters where a script parts no words."""
    found = pieces(normalise(text))
    return {term for kind, piece, _ in found for term in ([piece] if kind == "word" else runs(piece, 2))}
