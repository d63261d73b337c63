"""The words of the command language: which text opens a command, a thought or a call, and which closes it."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from pixi.core.language.events import BUILT_IN, CommandStarted, Event, Prose
from pixi.core.language.states import BREAK, NEED_MORE, UNCLEAN, NeedMore

Kind = Literal["think", "end_think", "tool", "end", "special"]
_END: Final = (
    r"</s>|<eos>|<end_of_turn>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end\|>|<\|endoftext\|>"
    r"|<\|end_of_text\|>|<\|end_of_turn\|>|<｜end▁of▁sentence｜>"
)
_TAG: Final = re.compile(
    rf"(?P<end>{_END})|(?P<special><[|｜][\w▁-]{{1,32}}[|｜]>|<s>|<bos>|<pad>|<unk>|<start_of_turn>)"
    r"|(?P<think><think(?:ing)?\s{0,4}>)|(?P<end_think></think(?:ing)?\s{0,4}>)"
    r"|(?P<tool><tool-call\b[^<>]{0,200}>)",
    re.IGNORECASE,
)
_WORDS: Final = (
    "</s>",
    "<s>",
    "<bos>",
    "<pad>",
    "<unk>",
    "<eos>",
    "<end_of_turn>",
    "<start_of_turn>",
    "<think>",
    "<thinking>",
    "</think>",
    "</thinking>",
    "<tool-call",
)
_UNFINISHED: Final = re.compile(
    r"<[|｜][\w▁-]{0,32}[|｜]?|</?think(?:ing)?\s{0,4}|<tool-call\b[^<>]{0,200}", re.IGNORECASE
)
_LONGEST: Final = 216
_TOOL_NAME: Final = re.compile(
    r"""\b(?:tool|name)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'/>]+))""", re.IGNORECASE
)
END_THINK: Final = re.compile(r"</think(?:ing)?\s{0,4}>", re.IGNORECASE)
END_TOOL: Final = re.compile(r"</tool-call\s{0,4}>", re.IGNORECASE)
_LONGEST_END: Final = "</tool-call    >"
_BLANK: Final = re.compile(r"\s")
_BLANKS: Final = re.compile(r"\s*")
MEANING: Final = re.escape(f"[]【】［］\\`\n<{BREAK}")
"""The characters that mean something in an argument, as they stand in a set of a pattern."""
CLOSERS: Final = {"[": "]", "【": "】", "［": "］"}
# Invisible in names and between the parts; inside a text the joiners among them shape emoji and Persian.
_INVISIBLE: Final = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
# Possessive: what fills the space before a separator is never taken for the separator.
FILL: Final = rf"[\s*_~`{_INVISIBLE}]{{0,24}}+"
_GAP: Final = r"[^\S\n]{0,4}+"
_NUMBER: Final = rf"[#＃]({_GAP})([0-9０-９]{{1,9}}+)(?![^\W_])({FILL})"
_NUMBER_BEGUN: Final = re.compile(rf"[#＃]{_GAP}|{_NUMBER}")
_JOINERS: Final = "\u200c?\u200d?"  # between the letters of a name; the other invisible ones are gone by now
_FILLED: Final = re.compile(rf"^[\s*_~`{_INVISIBLE}]+|[\s*_~`{_INVISIBLE}]+$")
_HIDDEN: Final = re.compile(f"[{_INVISIBLE}]")
_MARKS: Final = re.compile(r"\*+|_+|~+|`+")
_DASHES: Final = "-–—"
_WINDOW: Final = 96  # longer than any opening can be
_INDENT: Final = re.compile(r"[ \t]{0,32}(?:(?:[-*+>]|\d{1,2}[.)])[ \t]{1,8}|>){0,4}(?:\*{1,3}|_{1,3}|~~)?")
_INDENT_BEGUN: Final = re.compile(
    r"[ \t]{0,32}(?:(?:[-*+>]|\d{1,2}[.)])[ \t]{1,8}|>){0,4}(?:[-+]|\d{1,2}[.)]?|[*_~]{1,3})?"
)
# Real words that are one slip away from a built-in name.
_NO_SLIPS: Final = frozenset(
    [
        "MASSAGE",
        "NODE",
        "NONE",
        "NOPE",
        "NOSE",
        "NOT",
        "REACH",
        "REPAY",
        "SAND",
        "SEED",
        "SEEN",
        "SPEND",
        "SPENT",
        "THANK",
        "THICK",
        "THING",
    ]
)
# The usual text before commands.
_BEFORE: Final = ("", "\n", " ", "\n\n")
_PEOPLE: Final = ("User", "Human")


class Tag(NamedTuple):
    """A tag as it stands in the text. `end`: the reply is over. `special`: it means nothing to us."""

    kind: Kind
    text: str

    @property
    def tool(self) -> str:
        """The tool that a `<tool-call …>` names; "" where it names none."""
        match = _TOOL_NAME.search(self.text)
        return match[match.lastindex or 0].strip() if match else ""


def tag_at(text: str, at: int, final: bool) -> Tag | NeedMore | None:
    """Return the tag at `text[at]`, which is a `<`; None where it is only text."""
    match = _TAG.match(text, at, at + _LONGEST)
    if match is not None:
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are named as the kinds
        return Tag(kind, match[0])
    if final or len(text) - at >= _LONGEST:
        return None
    rest = text[at:]
    begun = _UNFINISHED.fullmatch(rest) or any(word.startswith(rest.lower()) for word in _WORDS)
    return NEED_MORE if begun else None


def end_of_thought_begun(text: str, at: int) -> int:
    """Return where the text may end in the beginning of a `</think>`; its length where it does not."""
    tag = text.rfind("<", max(at, len(text) - 16))
    return tag if tag >= 0 and tag_at(text, tag, final=False) is NEED_MORE else len(text)


def end_of_tool_begun(text: str, at: int) -> int:
    """Return where the text may end in the beginning of a `</tool-call>`; its length where it does not."""
    tag = text.rfind("<", max(at, len(text) - len(_LONGEST_END)))
    begun = tag >= 0 and _LONGEST_END.startswith(_BLANK.sub(" ", text[tag:].lower()))
    return tag if begun else len(text)


def json_end(text: str, at: int) -> int:
    """Return where the JSON value at `text[at]` ends; the end of the text where there is none."""
    blank = _BLANKS.match(text, at)
    try:
        return json.JSONDecoder().raw_decode(text, blank.end() if blank else at)[1]
    except (ValueError, RecursionError):
        return len(text)


class Opening(Struct, frozen=True, gc=False):
    """A command opens here.

    Attributes:
        name: the canonical name; "" where the reply ends inside the opening of a known one.
        bracket: that it opened with.
        start: where its argument begins.
        bare: it closed at once, without an argument.
        emphasis: marks that opened in the opening, and are closed behind its colon.
        target: the number of the earlier message that it names; 0 where it names none.
    """

    name: str
    bracket: str
    start: int
    bare: bool = False
    emphasis: str = ""
    target: int = 0


class Usual(Struct, frozen=True, gc=False):
    """The usual opening of a command: the canonical name, and what is given out with it."""

    name: str
    events: tuple[Event, ...]


class Closing(NamedTuple):
    """A closing tag, `[/SEND]`: the name, and the place behind it."""

    name: str
    end: int


def _folded(word: str) -> str:
    """Return the same for every way to write a word: its case, the Turkish i, what is invisible inside it."""
    return _HIDDEN.sub("", _FILLED.sub("", word)).casefold().replace("i\u0307", "i").replace("ı", "i")


def _writable(word: str) -> bool:
    """Return True if it can stand in a command: a name begins with a letter or a digit."""
    return _FILLED.sub("", word)[:1].isalnum()


def _pattern(words: Iterable[str]) -> str:
    """Return a pattern for those words in any case, the longest first."""
    # Not every capital is one letter for one letter: ß is SS.
    bare = [_FILLED.sub("", word) for word in words]
    forms = {form.lower() for word in bare for form in (word, word.upper(), _folded(word))}
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return "|".join(_JOINERS.join(map(re.escape, form)) for form in longest_first) or r"(?!)"


class Vocabulary:
    """Recognizes the registered names and their aliases. Frozen once made, and shared.

    Attributes:
        usual: the usual openings up to the colon, e.g. `"[SEND"`, alone and behind the usual white space.
        beginnings: every text that one of them begins with, up to the blank behind its colon.
        whole: matches a usual command with plain text in it: its opening, and that text.
    """

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
        # A name, then no letter or digit: `[Sender: …]` is no SEND. Then perhaps a number.
        self._open = re.compile(
            rf"([\[【［])({FILL})(?:({words})|([A-Z]{{3,24}}))(?![^\W_])({FILL})(?:{_NUMBER})?(.)",
            re.IGNORECASE | re.DOTALL,
        )
        self._close = re.compile(rf"[\[【［]{FILL}/{FILL}({words}){FILL}[\]】］]", re.IGNORECASE)
        self.usual: dict[str, Usual] = {}
        beginnings = set(_BEFORE)
        for text in [f"[{word.upper()}" for word in written]:
            opening = self.opening(f"{text}:", 0, final=False)
            if not isinstance(opening, Opening) or opening != Opening(opening.name, "[", len(text) + 1):
                continue
            started = CommandStarted(opening.name)
            for before in _BEFORE:
                whole = before + text
                self.usual[whole] = Usual(opening.name, (Prose(before), started) if before else (started,))
                beginnings.update(whole[:length] for length in range(1, len(whole) + 1))
                beginnings.update(whole + colon for colon in (":", ": ", "：", "： "))
        self.beginnings = frozenset(beginnings)
        bare = "|".join(re.escape(text[1:]) for text in self.usual if text[0] == "[") or "(?!)"
        self.whole = re.compile(
            rf"((?:\n\n?| )?\[(?:{bare}))[:：] *((?!\s)[^{MEANING}{UNCLEAN}]++)(?<![:=])\]"
        ).match

    def opening(self, text: str, at: int, final: bool) -> Opening | NeedMore | None:
        """Return what the bracket at `text[at]` opens; None where it is only a bracket."""
        colon = text.find(":", at, at + _WINDOW)
        if colon > at and (usual := self.usual.get(text[at:colon])):
            return Opening(usual.name, "[", colon + 1)
        if colon < 0 and not final and len(text) - at < _WINDOW and text[at:] in self.beginnings:
            return NEED_MORE
        match = self._open.match(text, at, at + _WINDOW)
        if match is None:
            return self._unfinished(text, at, final)
        bracket, before, word, slip, after, apart, number, fill, separator = match.groups()
        sign = match.end(5)  # the place behind the name
        end, gap, target = sign + 1, after, 0
        has_colon = text[sign] in ":："
        name: str | None = None
        if word:
            name = self._names.get(_folded(word))
        elif has_colon:
            name = self._slip(slip)
        if not has_colon and word and _folded(word) in self._growing:
            grows = self._unfinished(text, at, final)
            if grows is NEED_MORE:
                return grows
        if text[sign] in "#＃" and (numbered := name or self._slip(slip)):
            if len(text) < at + _WINDOW and _NUMBER_BEGUN.fullmatch(text, sign):
                # Of a misspelt name, only the colon makes a command.
                return (_cut(text, at) if word else None) if final else NEED_MORE
            # Without a colon: only where the name is in capitals, and `# 1` may begin a headline.
            if number and (separator in ":：" or (word and word.isupper() and not apart)):
                if match.end() == len(text) and separator in _DASHES and not final:
                    return NEED_MORE  # it may stand between two numbers
                if separator in ":：" or _parts_from_text(text, match.end(), fill):
                    name, end, gap, target = numbered, match.end(), fill, int(number)
        if name is None:
            # A capital word may be the beginning of a longer name.
            return None if has_colon else self._unfinished(text, at, final)
        if text[end - 1] in ":：":
            # `[**SEND:** hi]`: the emphasis closes behind the colon.
            emphasis = _left_open(before, after, gap if end > sign + 1 else "")
            return Opening(name, bracket, end, emphasis=emphasis, target=target)
        if text[end - 1] == CLOSERS[bracket]:
            if end == len(text) and not final:
                return NEED_MORE
            link = text.startswith("(", end)  # `[reply](http://…)`
            return None if link else Opening(name, bracket, end, bare=True, target=target)
        if not word.isupper():
            return None
        return _without_colon(Opening(name, bracket, end, target=target), gap, text, final)

    def _unfinished(self, text: str, at: int, final: bool) -> Opening | NeedMore | None:
        """Return what becomes of an opening that the text may end in."""
        rest = text[at + 1 : at + _WINDOW]
        if at + _WINDOW <= len(text):
            return None
        written = _FILLED.sub("", rest)
        word = _folded(written)
        if final:
            return _cut(text, at) if word in self._names else None
        if not word:
            return NEED_MORE if len(rest) <= 24 else None
        if any(name.startswith(word) for name in self._names):
            return NEED_MORE
        slip = written.isupper() and written.isalpha() and len(written) <= self._longest + 1
        return NEED_MORE if slip else None

    def _slip(self, word: str) -> str | None:
        """Return the built-in or registered name that a capital word is one slip away from."""
        if not word.isupper() or word in _NO_SLIPS:
            return None
        from rapidfuzz.distance import OSA  # most replies hold no slip

        for name, canonical in self._slips.items():
            if OSA.distance(word, name, score_cutoff=1) == 1:
                # Two letters changed places, or the first letter is right and nothing new was put in
                # between: `SNED`, `REAKT`, `SND`, `SENDD`; but not `SPEND`, `VOTE`, `END`.
                swapped = sorted(word) == sorted(name)
                grown = len(word) > len(name) and set(word) - set(name)
                if swapped or (word[0] == name[0] and not grown):
                    return canonical
        return None

    def closing(self, text: str, at: int, final: bool) -> Closing | NeedMore | None:
        """Return the closing tag at `text[at]`; None where it is only a bracket."""
        match = self._close.match(text, at, at + _WINDOW)
        if match is not None and (name := self._names.get(_folded(match[1]))):
            return Closing(name, match.end())
        rest = _FILLED.sub("", text[at + 1 : at + _WINDOW])
        if final or at + _WINDOW <= len(text) or not (rest == "" or rest.startswith("/")):
            return None
        word = _folded(_FILLED.sub("", rest[1:]))
        return NEED_MORE if any(name.startswith(word) for name in self._names) else None

    def line_opens(self, text: str, at: int, final: bool) -> bool | NeedMore:
        """Return True if the line that starts at `text[at]` begins with a registered command."""
        indent = _INDENT.match(text, at)
        start = indent.end() if indent else at
        if not final and _INDENT_BEGUN.fullmatch(text, at):
            return NEED_MORE
        if start == len(text) or text[start] not in CLOSERS:
            return False
        opening = self.opening(text, start, final)
        return opening if opening is NEED_MORE else opening is not None


def _cut(text: str, at: int) -> Opening:
    """Return what stands for a command whose opening the reply ends in."""
    return Opening("", text[at], len(text))


def _without_colon(opening: Opening, gap: str, text: str, final: bool) -> Opening | NeedMore | None:
    """Return what opens in `[SEND hello]`, `[SEND - hello]`, `[SEND=hello]`.

    `opening` starts behind the separator, and `gap` stands before that.
    """
    end = opening.start
    separator = text[end - 1]
    if separator in "]】］":
        return None
    spaced = any(character.isspace() for character in gap)
    if separator == "=":
        return opening
    if separator in _DASHES:
        if end == len(text):
            return _cut(text, end - 1) if final else NEED_MORE
        if not spaced or text[end].isspace():
            return opening
    if spaced or opening.target:  # `[REACT #3😂]`
        return Opening(opening.name, opening.bracket, end - 1, target=opening.target)
    return None


def _parts_from_text(text: str, end: int, fill: str) -> bool:
    """Return True if what stands behind a number without a colon parts it from text, or ends the command.

    In `[REACT #3😂]` it does, in `[SEND #3, you win]` and `[SEND #3-4 are fun]` it does not.

    Args:
        text: that the number stands in.
        end: the place behind the first character that is not `fill`.
        fill: blanks and marks behind the number.
    """
    if any(character.isspace() for character in fill):
        return True
    if text[end - 1] in _DASHES:
        return not text[end : end + 1].isdigit()
    return text[end - 1] in "=]】］" or unicodedata.category(text[end - 1]) == "So"


def _left_open(*fills: str) -> str:
    """Return the emphasis that opens in those parts of an opening and does not close in them."""
    marks: list[str] = []
    for fill in fills:
        for mark in _MARKS.findall(fill):
            if marks and marks[-1] == mark:
                marks.pop()
            else:
                marks.append(mark)
    return "".join(reversed(marks))


@lru_cache(maxsize=64)
def _vocabulary(names: tuple[tuple[str, tuple[str, ...]], ...]) -> Vocabulary:
    return Vocabulary(names)


_BUILT_IN: Final = Vocabulary(tuple(BUILT_IN.items()))


def vocabulary(names: Mapping[str, Iterable[str]] | Iterable[str] | None) -> Vocabulary:
    """Return the vocabulary of those names: the same one for the same names.

    Args:
        names: a mapping of name to aliases, or names alone (the aliases of built-in ones are known). None:
            the built-in commands.
    """
    if names is None:
        return _BUILT_IN
    if isinstance(names, Mapping):
        return _vocabulary(tuple((name, tuple(aliases)) for name, aliases in names.items()))
    return _vocabulary(tuple((name, BUILT_IN.get(name.lower(), ())) for name in names))


class People:
    """Recognizes a line that begins as somebody else's: `User:`, `Human:`, or a person's name."""

    __slots__ = ("_firsts", "_line", "_longest", "_names")

    def __init__(self, people: tuple[str, ...]) -> None:
        named = (" ".join(person.split()) for person in people)
        # A bracket opens a command, whoever is called so.
        names = (*_PEOPLE, *(name for name in named if name and name[0] not in CLOSERS))
        # A name in small letters gets a capital where a line begins with it.
        self._names = tuple({form: None for n in names for form in (n, n.upper(), n[:1].upper() + n[1:])})
        self._firsts = {" ", "\t", "*", "_", *(name[0] for name in self._names)}
        self._longest = max(map(len, self._names)) + 12
        words = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        self._line = re.compile(rf"[ \t]{{0,8}}[*_]{{0,3}}(?:{words})[*_]{{0,3}}[ \t]{{0,2}}[:：]")

    def speak(self, text: str, at: int, final: bool) -> bool | NeedMore:
        """Return True if the line at `text[at]` is theirs."""
        if text[at : at + 1] not in self._firsts:
            return False if final or at < len(text) else NEED_MORE
        if self._line.match(text, at):
            return True
        rest = text[at : at + self._longest + 1]
        if final or len(rest) > self._longest or "\n" in rest:
            return False
        as_written, bare = rest.lstrip(" \t"), rest.strip(" \t*_")
        begun = any(name.startswith((as_written, bare)) for name in self._names)
        return NEED_MORE if begun else False


@lru_cache(maxsize=256)
def people_named(people: tuple[str, ...]) -> People:
    """Return the recognizer for those people; the same one for the same names."""
    return People(people)
