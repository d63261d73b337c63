"""Turns text into the terms that are looked up: word stems, runs of characters, and pieces of words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pixi.knowledge.normalising import normalise

MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0711\u0730-\u074a\u07a6-\u07b0"
    "\u0900-\u0963\u0971-\u0df3"  # Indic vowel signs belong to the word; dandas and digits do not stand here
)
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aad"  # Thai, Lao, Burmese, Khmer, Tai
)
_HAN_KANA = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"

_PLAIN = re.compile(r"[^\W_]+")
_MIXED = re.compile(
    f"(?P<han>[{_HAN_KANA}]+)|(?P<unspaced>[{_UNSPACED}]+)|(?P<hangul>[{_HANGUL}]+)"
    f"|(?:[{MARKS}]|(?![{_HAN_KANA}{_UNSPACED}{_HANGUL}])[^\\W_])+"
)
_SPECIAL = re.compile(f"[{MARKS}{_UNSPACED}{_HAN_KANA}{_HANGUL}]")

LONGEST_WORD = 60
"""What is longer is no word but code, and is known by its beginning."""

_GRAM = 4
_NO_STEMMER = ("", "persian")
"""Persian stems were measured to find less than its words do."""

_REMEMBERED = 20_000
"""Words whose terms are kept at hand while a text is read."""


def pieces(normal: str) -> Iterator[tuple[str, str, int]]:
    """The words and runs of a normalised text: kind ("word", "han", "unspaced", "hangul"), text, start.

    Runs are what is written without spaces between the words; Korean words are their own kind, as they
    change their endings by whole syllables.
    """
    if not _SPECIAL.search(normal):
        for match in _PLAIN.finditer(normal):
            yield "word", match[0], match.start()
        return
    for match in _MIXED.finditer(normal):
        yield match.lastgroup or "word", match[0], match.start()


def grams(word: str) -> list[str]:
    """The runs of four characters in `_word_`; none of a number, as one like it is another."""
    if word.isdigit():
        return []
    framed = f"_{word}_"
    return [framed[at : at + _GRAM] for at in range(len(framed) - _GRAM + 1)]


def runs(run: str, length: int) -> list[str]:
    """The runs of that many characters in a longer one; the whole where it is shorter."""
    return [run[at : at + length] for at in range(len(run) - length + 1)] or [run]


def terms_of(kind: str, piece: str) -> list[str]:
    """The terms of a piece that is no word: characters and pairs, or triples where a letter is no word."""
    match kind:
        case "han":
            return [*piece, *runs(piece, 2)] if len(piece) > 1 else [piece]
        case "hangul":
            return [piece, *runs(piece, 2)] if len(piece) > 2 else [piece]
        case _:
            return runs(piece, 3)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a text is found by, parted by spaces as the index takes it.

    Attributes:
        words: stems and runs.
        grams: pieces of its words.
    """

    words: str
    grams: str


class Analysis:
    """Finds the terms of texts. For one thread: stemmers keep state."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._stemmers: dict[str, object] = {}
        self._forms: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self.met: set[str] = set()
        """The words as they were written, for those who correct mistakes; empty it when it is large."""

    def stem(self, word: str, language: str) -> str:
        """The term of a normalised word in the language, as `language_of` names it."""
        word = word[:LONGEST_WORD]
        if language in _NO_STEMMER:
            return word
        import Stemmer

        stemmer = self._stemmers.get(language)
        if stemmer is None:
            stemmer = self._stemmers[language] = Stemmer.Stemmer(language)
        assert isinstance(stemmer, Stemmer.Stemmer)
        stem: str = stemmer.stemWord(word)
        return stem or word

    def forms(self, spelt: str, languages: tuple[str, ...]) -> tuple[str, ...]:
        """The terms that a word as it stands in a text may have been given: itself, and its stems."""
        forms = self._forms.get((spelt, languages))
        if forms is None:
            if len(self._forms) >= _REMEMBERED:
                self._forms.clear()
            words = normalise(spelt).split()
            stems = (self.stem(word, language) for word in words for language in ("", *languages))
            forms = self._forms[spelt, languages] = tuple(dict.fromkeys(stems))
        return forms

    def terms(self, parts: Sequence[tuple[str, str, int]], language: str) -> Terms:
        """The terms of what `pieces` found."""
        words: list[str] = []
        cut: list[str] = []
        known = self._known
        for kind, piece, _ in parts:
            if kind == "word":
                both = known.get((language, piece))
                if both is None:
                    both = self._remember(piece, language)
                words.append(both[0])
                cut.append(both[1])
            else:
                words += terms_of(kind, piece)
        return Terms(" ".join(words), " ".join(cut))

    def _remember(self, word: str, language: str) -> tuple[str, str]:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        word = word[:LONGEST_WORD]
        if is_corrigible(word):
            self.met.add(word)
        both = self._known[language, word] = self.stem(word, language), " ".join(grams(word))
        return both


def is_corrigible(word: str) -> bool:
    """Whether it may be a mistake: numbers never are, and short words are too near to each other."""
    return 3 <= len(word) <= 40 and not word.isdigit()
