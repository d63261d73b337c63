"""The words of the command language: which text opens a command, closes one, or ends the reply."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from rapidfuzz.distance import OSA

from pixi.core.handles import DASHES, Handle, Handles, left_open, parts_from_text

CLOSERS: Final = {"[": "]", "【": "】", "［": "］"}
# Invisible in names and between the parts; inside a text the joiners among them shape emoji and Persian.
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
# Possessive: what fills the space before a separator is never taken for the separator.
FILL: Final = rf"[\s*_~`{_INVISIBLE}]{{0,24}}+"
_JOINERS = "\u200c?\u200d?"  # between the letters of a name; the other invisible ones are gone by now
_FILLED = re.compile(rf"^[\s*_~`{_INVISIBLE}]+|[\s*_~`{_INVISIBLE}]+$")
_HIDDEN = re.compile(f"[{_INVISIBLE}]")
_WINDOW = 96  # longer than any opening can be
_INDENT = re.compile(r"[ \t]{0,32}(?:(?:[-*+>]|\d{1,2}[.)])[ \t]{1,8}|>){0,4}(?:\*{1,3}|_{1,3}|~~)?")
_INDENT_BEGUN = re.compile(
    r"[ \t]{0,32}(?:(?:[-*+>]|\d{1,2}[.)])[ \t]{1,8}|>){0,4}(?:[-+]|\d{1,2}[.)]?|[*_~]{1,3})?"
)
_HANDLES = Handles(FILL)
# Real words that are one slip away from a built-in name.
_NO_SLIPS = frozenset({"MASSAGE", "NODE", "NONE", "NOPE", "NOSE", "NOT", "REACH", "REPAY", "SAND", "SEED"})
_NO_SLIPS |= {"SEEN", "SPEND", "SPENT", "THANK", "THICK", "THING"}
_PEOPLE = ("User", "Human")


def _folded(word: str) -> str:
    """The same for every way to write a word: its case, the Turkish i, what is invisible inside it."""
    return _HIDDEN.sub("", _FILLED.sub("", word)).casefold().replace("i\u0307", "i").replace("ı", "i")


def _writable(word: str) -> bool:
    """Whether it can stand in a command: a name begins with a letter or a digit."""
    return _FILLED.sub("", word)[:1].isalnum()


def _pattern(words: Iterable[str]) -> str:
    """Matches those words in any case, the longest first."""
    # Not every capital is one letter for one letter: ß is SS.
    bare = [_FILLED.sub("", word) for word in words]
    forms = {form.lower() for word in bare for form in (word, word.upper(), _folded(word))}
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return "|".join(_JOINERS.join(map(re.escape, form)) for form in longest_first) or r"(?!)"


@dataclass(frozen=True, slots=True)
class Opening:
    """A command opens here. `start` is where its argument begins; `bare`: it closed at once, without one.

    `target` is the number of the earlier message that it names, 0 where it names none.
    """

    name: str
    bracket: str
    start: int
    bare: bool = False
    emphasis: str = ""
    target: int = 0


Unsure = Literal["more", "cut"]
"""`more`: the text ends too early to tell. `cut`: the reply ends inside an opening of a known name."""


class Vocabulary:
    """Recognises the registered names and their aliases. Frozen once made, and shared.

    Attributes:
        tidy: the openings that nearly all commands have, e.g. `"[SEND:"`, and the names that they open.
    """

    __slots__ = ("_close", "_growing", "_longest", "_names", "_open", "_slips", "tidy")

    def __init__(self, names: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
        canonical = {_folded(name): name.lower() for name, _ in names if _writable(name)}
        aliases = {_folded(word): name.lower() for name, words in names for word in words if _writable(word)}
        self._names = aliases | canonical  # a name goes before another one's alias
        # An alias of three or four letters is one slip away from too many words.
        self._slips = {
            word.upper(): name
            for word, name in self._names.items()
            if word.isalpha() and len(word) >= (4 if word in canonical else 5)
        }
        # Names that another one begins with: what follows them decides.
        self._growing = frozenset(
            word for word in self._names for other in self._names if other != word and other.startswith(word)
        )
        self._longest = max(map(len, self._names), default=0)
        written = [word for name, aliases in names for word in (name, *aliases) if _writable(word)]
        words = _pattern(written)
        # A name, then no letter or digit: `[Sender: …]` is no SEND.
        self._open = re.compile(
            rf"([\[【［])({FILL})(?:({words})|([A-Z]{{3,24}}))(?![^\W_])({FILL})(.)",
            re.IGNORECASE | re.DOTALL,
        )
        self._close = re.compile(rf"[\[【［]{FILL}/{FILL}({words}){FILL}[\]】］]", re.IGNORECASE)
        self.tidy: dict[str, str] = {}
        self.tidy = dict(filter(None, map(self._tidy, written)))

    def _tidy(self, word: str) -> tuple[str, str] | None:
        """The word's opening in capitals and the name, if it is read as nothing but that."""
        text = f"[{word.upper()}:"
        opening = self.opening(text, 0, final=False)
        if not isinstance(opening, Opening) or opening != Opening(opening.name, "[", len(text)):
            return None
        return text, opening.name

    def opening(self, text: str, at: int, final: bool) -> Opening | Unsure | None:
        """What the bracket at `text[at]` opens; None where it is only a bracket."""
        end = text.find(":", at, at + _WINDOW) + 1
        tidy = self.tidy.get(text[at:end])
        if tidy is not None:
            return Opening(tidy, "[", end)
        match = self._open.match(text, at, at + _WINDOW)
        if match is None:
            return self._unfinished(text, at, final)
        bracket, before, word, slip, after, next_character = match.groups()
        colon = next_character in ":："
        name = self._names.get(_folded(word)) if word else self._slip(slip) if colon else None
        if not colon and word and _folded(word) in self._growing:
            grows = self._unfinished(text, at, final)
            if grows == "more":
                return grows
        if next_character in "#＃" and (named := name or self._slip(slip)):
            handle = self._handle(match, text, final)
            if isinstance(handle, Handle):
                return self._with_handle(match, named, handle, text, final)
            if handle is not None:
                return handle
        if name is None:
            # A capital word may be the beginning of a longer name.
            return None if colon else self._unfinished(text, at, final)
        if colon:
            # `[**SEND:** hi]`: the emphasis closes behind the colon.
            emphasis = "".join(mark for mark in before if mark in "*_~`" and mark not in after)
            return Opening(name, bracket, match.end(), emphasis=emphasis)
        if next_character == CLOSERS[bracket]:
            return self._bare(Opening(name, bracket, match.end(), bare=True), text, final)
        if not word.isupper():
            return None
        return self._without_colon(Opening(name, bracket, match.end()), after, text, final)

    def _handle(self, match: re.Match[str], text: str, final: bool) -> Handle | Unsure | None:
        """The number behind a name, `[REACT #3: 😂]`; None where the sign is only text."""
        word = match[3]
        handle = _HANDLES.at(text, match.end() - 1, match.start() + _WINDOW)
        if handle == "more":
            # Of a misspelt name, only the colon makes a command.
            return ("cut" if word else None) if final else "more"
        if handle is None or text[handle.end - 1] in ":：":
            return handle
        # Without a colon: only where the name is in capitals, and `# 1` may begin a headline.
        if not word or not word.isupper() or handle.apart:
            return None
        if handle.end == len(text) and text[-1] in DASHES and not final:
            return "more"  # it may stand between two numbers
        return handle if parts_from_text(handle, text) else None

    def _with_handle(
        self, match: re.Match[str], name: str, handle: Handle, text: str, final: bool
    ) -> Opening | Unsure | None:
        bracket, before, _, _, after, _ = match.groups()
        next_character = text[handle.end - 1]
        opening = Opening(name, bracket, handle.end, target=handle.number)
        if next_character in ":：":
            return replace(opening, emphasis=left_open(before, after, handle.fill))
        if next_character == CLOSERS[bracket]:
            return self._bare(replace(opening, bare=True), text, final)
        return self._without_colon(opening, handle.fill, text, final)

    def _bare(self, opening: Opening, text: str, final: bool) -> Opening | Literal["more"] | None:
        """`[SEND]`, unless it is the text of a link: `[reply](http://…)`."""
        if opening.start == len(text) and not final:
            return "more"
        return None if text.startswith("(", opening.start) else opening

    def _without_colon(self, opening: Opening, after: str, text: str, final: bool) -> Opening | Unsure | None:
        """`[SEND hello]`, `[SEND - hello]`, `[SEND=hello]`. `opening` starts behind the separator."""
        end = opening.start
        separator = text[end - 1]
        if separator in "]】］":
            return None
        spaced = any(character.isspace() for character in after)
        if separator == "=":
            return opening
        if separator in DASHES:
            if end == len(text):
                return "cut" if final else "more"
            if not spaced or text[end].isspace():
                return opening
        touches = opening.target and not spaced  # an emoji: `[REACT #3😂]`
        return replace(opening, start=end - 1) if spaced or touches else None

    def _unfinished(self, text: str, at: int, final: bool) -> Unsure | None:
        """The text may end inside an opening."""
        rest = text[at + 1 : at + _WINDOW]
        if at + _WINDOW <= len(text):
            return None
        written = _FILLED.sub("", rest)
        word = _folded(written)
        if final:
            return "cut" if word in self._names else None
        if not word:
            return "more" if len(rest) <= 24 else None
        if any(name.startswith(word) for name in self._names):
            return "more"
        slip = written.isupper() and written.isalpha() and len(written) <= self._longest + 1
        return "more" if slip else None

    def _slip(self, word: str) -> str | None:
        """The built-in or registered name that a capital word is one slip away from."""
        if not word.isupper() or word in _NO_SLIPS:
            return None
        for name, canonical in self._slips.items():
            if OSA.distance(word, name, score_cutoff=1) == 1:
                # Two letters changed places, or the first letter is right and nothing new was put in
                # between: `SNED`, `REAKT`, `SND`, `SENDD`; but not `SPEND`, `VOTE`, `END`.
                swapped = sorted(word) == sorted(name)
                grown = len(word) > len(name) and set(word) - set(name)
                if swapped or (word[0] == name[0] and not grown):
                    return canonical
        return None

    def closing(self, text: str, at: int, final: bool) -> tuple[str, int] | Literal["more"] | None:
        """`[/SEND]` at `text[at]`: the name, and the place behind it."""
        match = self._close.match(text, at, at + _WINDOW)
        if match is not None and (name := self._names.get(_folded(match[1]))):
            return name, match.end()
        rest = _FILLED.sub("", text[at + 1 : at + _WINDOW])
        if final or at + _WINDOW <= len(text) or not (rest == "" or rest.startswith("/")):
            return None
        word = _folded(_FILLED.sub("", rest[1:]))
        return "more" if any(name.startswith(word) for name in self._names) else None

    def line_opens(self, text: str, at: int, final: bool) -> bool | Literal["more"]:
        """Whether the line that starts at `text[at]` begins with a registered command."""
        indent = _INDENT.match(text, at)
        start = indent.end() if indent else at
        if not final and _INDENT_BEGUN.fullmatch(text, at):
            return "more"
        if start == len(text) or text[start] not in CLOSERS:
            return False
        opening = self.opening(text, start, final)
        if opening == "more":
            return "more"
        return opening is not None


@lru_cache(maxsize=64)
def vocabulary(names: tuple[tuple[str, tuple[str, ...]], ...]) -> Vocabulary:
    """The vocabulary of those names; the same one for the same names."""
    return Vocabulary(names)


class People:
    """Recognises a line that begins as somebody else's: `User:`, `Human:`, or a person's name."""

    __slots__ = ("_line", "_longest", "_names")

    def __init__(self, people: tuple[str, ...]) -> None:
        names = (*_PEOPLE, *(name for person in people if (name := " ".join(person.split()))))
        # A name in small letters gets a capital where a line begins with it.
        self._names = tuple({form: None for n in names for form in (n, n.upper(), n[:1].upper() + n[1:])})
        self._longest = max(map(len, self._names)) + 12
        words = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        self._line = re.compile(rf"[ \t]{{0,8}}[*_]{{0,3}}(?:{words})[*_]{{0,3}}[ \t]{{0,2}}[:：]")

    def speak(self, text: str, at: int, final: bool) -> bool | Literal["more"]:
        """Whether the line at `text[at]` is theirs."""
        if self._line.match(text, at):
            return True
        rest = text[at : at + self._longest + 1]
        if final or len(rest) > self._longest or "\n" in rest:
            return False
        as_written, bare = rest.lstrip(" \t"), rest.strip(" \t*_")
        begun = any(name.startswith((as_written, bare)) for name in self._names)
        return "more" if begun else False


@lru_cache(maxsize=256)
def people_named(people: tuple[str, ...]) -> People:
    """The recogniser for those people; the same one for the same names."""
    return People(people)
