"""A text as the tokens that a fact and its source are compared by, each with its place in the text."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from pixi.knowledge.lists import glyph_list, irregular_forms, word_list
from pixi.knowledge.normalising import normalise
from pixi.knowledge.retrieval import numbers
from pixi.knowledge.retrieval.negation import denials, positive_form

if TYPE_CHECKING:
    import Stemmer


class Token(NamedTuple):
    """A word, a number, one character of a script without blanks, or a mark that parts clauses.

    Attributes:
        stem: by which it is compared; of a number its value.
        form: in normal form; of a verb that is denied by a prefix, without the prefix.
        empty: it carries no fact of its own.
        denies: it is a negation, or holds one.
        name: it begins with a capital, and not because a sentence begins.
    """

    kind: Literal["word", "number", "glyph", "mark"]
    stem: str
    form: str
    start: int
    end: int
    empty: bool = False
    denies: bool = False
    name: bool = False

    @property
    def key(self) -> str:
        """What a word or a number is looked up by."""
        return self.stem[:_KEY] if self.kind == "word" else self.stem


_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0971-\u0df3"
_NUMBER = r"\d+(?:[.,٫٬]\d+)*"
_WORD = rf"(?:[{_MARKS}]|(?![{_UNSPACED}])[^\W_])+(?:['’][^\W\d_{_UNSPACED}]+)?"
_GLYPH = re.compile(f"[{_UNSPACED}]")
_PIECE = re.compile(rf"{_NUMBER}|[{_UNSPACED}]+|{_WORD}")
_KEY = 5  # characters of a stem that a word is looked up by
_TOKEN = re.compile(
    rf"(?P<number>{_NUMBER})"
    rf"|(?P<chinese>{numbers.CHINESE_NUMBER})"
    rf"|(?P<glyph>[{_UNSPACED}])"
    rf"|(?P<word>{_WORD})"
    r"|(?P<mark>[,;:()\[\]،؛，；：、（）—–。！？.!?])"
)
_STEMMERS = (
    (re.compile("[a-zß-ÿ]"), "english"),
    (re.compile("[а-яё]"), "russian"),
    (re.compile("[α-ω]"), "greek"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
)
_ARABIC = re.compile("[\u0620-\u06ff]")
_SENTENCE_BEGINS = ".!?。！？:：("


class Analyser:
    """Cuts texts into tokens, and remembers the words that it has met. For one thread at a time."""

    def __init__(self) -> None:
        self._stemmers: dict[str, Stemmer.Stemmer] = {}
        self._known: dict[str, tuple[str, str, bool, bool]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}

    def tokens(self, text: str, start: int = 0, end: int | None = None) -> list[Token]:
        """The tokens of a stretch of a text, with their places in the whole of it."""
        found: list[Token] = []
        begins, glyphs = True, False
        for match in _TOKEN.finditer(text, start, len(text) if end is None else end):
            written, at, upto = match[0], match.start(), match.end()
            kind = match.lastgroup
            if kind == "number":
                found.append(_number(numbers.value_of_digits(written), at, upto))
            elif kind == "word":
                self._add_word(found, written, at, name=written[0].isupper() and not begins)
            elif kind == "mark":
                found.append(Token("mark", written, written, at, upto, empty=True))
            else:
                glyphs = True
                self._add_glyphs(found, written, at, is_number=kind == "chinese")
            begins = kind == "mark" and written in _SENTENCE_BEGINS
        return _weighed_glyphs(found) if glyphs else found

    def keys(self, text: str, start: int, end: int) -> set[str]:
        """What a stretch can be looked up by: what `keys_of` gives, but quickly and without number words."""
        keys: set[str] = set()
        for piece in _PIECE.findall(text, start, end):
            known = self._keys.get(piece)
            keys.update(self._keys_of_piece(piece) if known is None else known)
        return keys

    def _keys_of_piece(self, piece: str) -> tuple[str, ...]:
        if piece[0].isdecimal():
            keys: tuple[str, ...] = (numbers.value_of_digits(piece),)
        elif _GLYPH.match(piece):
            run = normalise(piece)
            return tuple(map("".join, pairwise(run)))  # hardly ever met again
        else:
            _, stem, empty, _ = self._known.get(piece) or self._analysed(piece)
            keys = () if empty else (stem[:_KEY],)
        self._keys[piece] = keys
        return keys

    def _add_word(self, found: list[Token], word: str, at: int, *, name: bool) -> None:
        form, stem, empty, denies = self._known.get(word) or self._analysed(word)
        upto = at + len(word)
        value = numbers.value_of_word(form)
        if value is not None:
            start = _joined_number(found, value)
            if start is None:
                found.append(_number(str(value), at, upto))
            else:
                found[-1] = _number(str(int(found[-1].stem) + value), start, upto)
        elif (alone := numbers.magnitude_of(form)) is not None and not _follows_number(found, at):
            found.append(_number(str(alone), at, upto))  # `a hundred`
        elif not _multiplied(found, form, at, upto):
            found.append(Token("word", stem, form, at, upto, empty, denies, name))

    def _add_glyphs(self, found: list[Token], written: str, at: int, *, is_number: bool) -> None:
        upto = at + len(written)
        if _multiplied(found, written, at, upto):
            return
        if is_number:
            found.append(_number(numbers.value_of_chinese(written), at, upto))
        else:
            form = (self._known.get(written) or self._analysed(written))[0]
            found.append(Token("glyph", form, form, at, upto))

    def _analysed(self, word: str) -> tuple[str, str, bool, bool]:
        """Form, stem, whether it is empty, whether it denies."""
        form = normalise(word).replace(" ", "")
        denies = form.endswith("n't") or form in word_list("negations")
        form = form.removesuffix("n't").removesuffix("'s").strip("'") or form
        positive = positive_form(form) if _ARABIC.search(form) else None
        if positive is not None:
            form, denies = positive, True
        form = irregular_forms().get(form, form)
        empty = form in word_list("function_words") or form in word_list("negations")
        self._known[word] = known = (form, self._stem(form), empty, denies)
        return known

    def _stem(self, form: str) -> str:
        if _ARABIC.search(form):
            return _persian_ending().sub("", _persian_ending().sub("", form))
        for script, language in _STEMMERS:
            if script.search(form):
                if language not in self._stemmers:
                    import Stemmer

                    self._stemmers[language] = Stemmer.Stemmer(language)
                return str(self._stemmers[language].stemWord(form))
        return form


def keys_of(tokens: list[Token]) -> Iterator[str]:
    """What a stretch of these tokens can be looked up by."""
    before: Token | None = None
    for token in tokens:
        if token.kind == "glyph":
            if before is not None and before.kind == "glyph" and before.end == token.start:
                yield before.stem + token.stem
        elif token.kind == "number" or not token.empty:
            yield token.key
        before = token


def _number(value: str, start: int, end: int) -> Token:
    return Token("number", value, value, start, end)


def _follows_number(found: list[Token], at: int) -> bool:
    return bool(found) and found[-1].kind == "number" and at - found[-1].end <= 1


def _multiplied(found: list[Token], word: str, at: int, upto: int) -> bool:
    """Whether a word was a magnitude, and went into the number before it."""
    magnitude = numbers.magnitude_of(word)
    if magnitude is None or not _follows_number(found, at):
        return False
    found[-1] = _number(numbers.times(found[-1].stem, magnitude), found[-1].start, upto)
    return True


def _joined_number(found: list[Token], value: int) -> int | None:
    """Where the number begins that a number word goes on: `twenty` `five`, `بیست` `و` `پنج`; None: none.

    What stands between them is taken away.
    """
    at = len(found) - 1
    if at > 0 and found[at].kind == "word" and found[at].form in ("و", "and"):
        at -= 1
    if at < 0 or found[at].kind != "number" or not found[at].stem.isdecimal():
        return None
    before = int(found[at].stem)
    room = 1000 if value >= 100 else 100 if value >= 10 else 10
    if before < 20 or before % room:
        return None
    del found[at + 1 :]
    return found[at].start


def _weighed_glyphs(tokens: list[Token]) -> list[Token]:
    """The tokens with what denies and what is empty marked among the glyphs."""
    at = 0
    while at < len(tokens):
        upto = at
        while (
            upto < len(tokens)
            and tokens[upto].kind == "glyph"
            and tokens[upto].end == tokens[at].start + upto - at + 1
        ):
            upto += 1
        if upto == at:
            at += 1
            continue
        run = "".join(token.stem[0] for token in tokens[at:upto])
        empty = {i for found in _empty_glyphs().finditer(run) for i in range(*found.span())}
        denying = {start: range(start, end) for start, end in denials(run)}
        denied = {i for stretch in denying.values() for i in stretch}
        for i in empty | denied:
            tokens[at + i] = tokens[at + i]._replace(empty=True, denies=i in denying)
        at = upto
    return tokens


@cache
def _empty_glyphs() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, glyph_list("function_glyphs"))))


@cache
def _persian_ending() -> re.Pattern[str]:
    endings = ("هایی", "های", "ها", "ترین", "تر", "یی", "ات", "ان", "ی", "ش", "م")
    return re.compile(f"(?<=...)(?:{'|'.join(map(normalise, endings))})$")
