"""Texts made comparable, the terms by which they are found, and short lists of words of each language."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

_ARABIC_FOLDS = {
    # Letters that keyboards and habits mix, by the form that both Arabic and Persian can share.
    "ا": "أإآٱ",
    "ي": "ىیېۍێےئ",
    "ك": "کڪ",
    "ه": "ۀةہھۂۃە",
    "و": "ؤ",
}
_ARABIC_MARKS = (*range(0x0610, 0x061B), 0x0640, *range(0x064B, 0x0660), 0x0670, *range(0x06D6, 0x06EE))
_OTHER_FOLDS = {
    "\u200c": " ",  # ZWNJ parts words in Persian
    "\u0307": None,  # left over where a dotted capital I was made small
    "ё": "е",
    "ş": "ș",  # cedilla and comma below are one letter to Romanians, and to half of the keyboards
    "ţ": "ț",
    "ς": "σ",
    "‘": "'",
    "’": "'",
    "ʼ": "'",
}
_INVISIBLE = (
    *(0x00AD, 0x200B, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF),
    *(*range(0x202A, 0x202F), *range(0x2066, 0x206A)),
)
_HAN = "[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
CODES = {
    "arabic": "ar", "armenian": "hy", "basque": "eu", "catalan": "ca", "czech": "cs", "danish": "da",
    "dutch": "nl", "english": "en", "esperanto": "eo", "estonian": "et", "finnish": "fi", "french": "fr",
    "german": "de", "greek": "el", "hindi": "hi", "hungarian": "hu", "indonesian": "id", "irish": "ga",
    "italian": "it", "lithuanian": "lt", "nepali": "ne", "norwegian": "no", "persian": "fa", "polish": "pl",
    "portuguese": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr", "spanish": "es", "swedish": "sv",
    "tamil": "ta", "turkish": "tr",
}  # fmt: skip
"""The codes of languages, by which the word lists name them."""
WITHOUT_STEMMER = ("vi", "uk", "bg", "ur", "mr", "he", "th", "ko")
"""The codes of those that have no stemmer and words to be listed."""
_ENOUGH = 3
_SHARE = 0.04
"""Fewer of its words than this tell nothing: titles are short, and names hold words of any language."""
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
_MIXED = (
    f"(?P<han>[{_HAN_KANA}]+)|(?P<unspaced>[{_UNSPACED}]+)|(?P<hangul>[{_HANGUL}]+)"
    f"|(?:[{MARKS}]|(?![{_HAN_KANA}{_UNSPACED}{_HANGUL}])[^\\W_])+"
)
_SPECIAL = f"[{MARKS}{_UNSPACED}{_HAN_KANA}{_HANGUL}]"
LONGEST_WORD = 60
"""Length beyond which a word is code, and is known by its beginning."""
_GRAM = 4
_NO_STEMMER = ("", "persian")
"""Persian stems were measured to find less than its words do."""
_REMEMBERED = 20_000
"""Words whose terms are kept at hand while a text is read."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first wanted: one with as many scripts takes some milliseconds."""
    return re.compile(pattern)


@cache
def _folds() -> dict[int, str | None]:
    table: dict[int, str | None] = {
        ord(letter): fold for fold, letters in _ARABIC_FOLDS.items() for letter in letters
    }
    table |= {ord(letter): fold for letter, fold in _OTHER_FOLDS.items()}
    table |= dict.fromkeys((*_ARABIC_MARKS, *_INVISIBLE))
    table[0] = " "
    for zero in (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50):  # Arabic, Persian, Devanagari, Bengali, Thai
        table |= {zero + value: str(value) for value in range(10)}
    return table


@cache
def _simplified() -> dict[int, str]:
    """Return the simplified form of each traditional character, by its commonest reading."""
    from importlib.resources import files

    lines = (
        files("opencc").joinpath("dictionary", "TSCharacters.txt").read_text(encoding="utf-8").splitlines()
    )
    pairs = (line.split("\t") for line in lines if "\t" in line)
    return {ord(pair[0]): pair[1].split()[0] for pair in pairs if len(pair[0]) == 1}


def clean(text: str) -> str:
    """Return the text without lone surrogates, which no file and no index can hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def normalise(text: str) -> str:
    """Return the text with compatibility forms, case, Arabic letters, digits and Chinese characters made one.

    The result may be longer or shorter than the text, and holds no lone surrogates.
    """
    if text.isascii():
        return text.lower().replace("\0", " ")
    text = unicodedata.normalize("NFKC", clean(text)).casefold().translate(_folds())
    if _compiled(_HAN).search(text):
        text = text.translate(_simplified())
    return unicodedata.normalize("NFC", text)


@cache
def _speakers() -> dict[str, tuple[str, ...]]:
    """Return the languages of each stop word, in normalised form."""
    found: dict[str, dict[str, None]] = {}
    for line in _written("stop_words"):
        language, _, words = line.partition(":")
        for word in normalise(words).split():
            found.setdefault(word, {})[language] = None
    return {word: tuple(languages) for word, languages in found.items()}


def language_of(words: Iterable[str]) -> str | None:
    """Return the name of the Snowball stemmer for these normalised words.

    Returns:
        "" where the language has no stemmer; None where too little speaks for any.
    """
    speakers = _speakers()
    votes: dict[str, float] = {}
    count = 0
    for word in words:
        count += 1
        languages = speakers.get(word)
        if languages is not None:
            for language in languages:
                # A word that many share tells less.
                votes[language] = votes.get(language, 0.0) + 1 / len(languages)
    if not votes:
        return None
    language = max(votes, key=votes.__getitem__)
    return language if votes[language] >= max(_ENOUGH, _SHARE * count) else None


def pieces(normal: str) -> Iterator[tuple[str, str, int]]:
    """Yield the words and runs of a normalised text: kind ("word", "han", "unspaced", "hangul"), text, start.

    Runs are what is written without spaces between the words; Korean words are their own kind, as they
    change their endings by whole syllables.
    """
    if not _compiled(_SPECIAL).search(normal):
        for match in _PLAIN.finditer(normal):
            yield "word", match[0], match.start()
        return
    for match in _compiled(_MIXED).finditer(normal):
        yield match.lastgroup or "word", match[0], match.start()


def grams(word: str) -> list[str]:
    """Return the runs of four characters in `_word_`; none of a number, as one like it is another."""
    if word.isdigit():
        return []
    framed = f"_{word}_"
    return [framed[at : at + _GRAM] for at in range(len(framed) - _GRAM + 1)]


def runs(run: str, length: int) -> list[str]:
    """Return the runs of that many characters in a longer one; the whole where it is shorter."""
    return [run[at : at + length] for at in range(len(run) - length + 1)] or [run]


def terms_of(kind: str, piece: str) -> list[str]:
    """Return the terms of a piece that is no word: characters and pairs, or triples of letters."""
    match kind:
        case "han":
            return [*piece, *runs(piece, 2)] if len(piece) > 1 else [piece]
        case "hangul":
            return [piece, *runs(piece, 2)] if len(piece) > 2 else [piece]
        case _:
            return runs(piece, 3)


@dataclass(frozen=True, slots=True)
class Terms:
    """Search terms of a text, parted by spaces as the index takes them.

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
        """Return the term of a normalised word in the language, as `language_of` names it."""
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
        """Return the terms that a word as it stands in a text may have been given: itself, and its stems."""
        forms = self._forms.get((spelt, languages))
        if forms is None:
            if len(self._forms) >= _REMEMBERED:
                self._forms.clear()
            words = normalise(spelt).split()
            stems = (self.stem(word, language) for word in words for language in ("", *languages))
            forms = self._forms[spelt, languages] = tuple(dict.fromkeys(stems))
        return forms

    def terms(self, parts: Sequence[tuple[str, str, int]], language: str) -> Terms:
        """Return the terms of what `pieces` found."""
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
    """Return True if it may be a mistake: numbers never are, and short words are too near to each other."""
    return 3 <= len(word) <= 40 and not word.isdigit()


def stemmer(language: str) -> Callable[[str], str]:
    """Return a stemmer of one's own: those of Snowball may not be used by two threads at once."""
    import Stemmer

    if language not in Stemmer.algorithms():
        return str
    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem


@cache
def word_list(name: str, language: str = "") -> frozenset[str]:
    """Return the words of a list, normalised: those of one language by its code, or all."""
    lines = (line.rpartition(":") for line in _written(name))
    words = (line for code, _, line in lines if language in ("", code))
    return frozenset(word for line in words for word in normalise(line).split())


@cache
def glyph_list(name: str) -> tuple[str, ...]:
    """Return the words of a list for scripts without blanks, the longest first."""
    return tuple(sorted(word_list(name), key=lambda word: (-len(word), word)))


def telling_runs(run: str) -> list[str]:
    """Return the stretches of a run without blanks between characters that say nothing by themselves."""
    idle = word_list("idle_glyphs")
    return "".join(" " if glyph in idle else glyph for glyph in run).split()


def without_asking(run: str) -> str:
    """Return a run without the words in it by which somebody asks, each a blank instead."""
    for glyphs in glyph_list("question_glyphs"):
        run = run.replace(glyphs, " ")
    return run


def _written(name: str) -> list[str]:
    """Return the lines of a list without comments."""
    text = resources.files("pixi.text").joinpath("lists").joinpath(f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
