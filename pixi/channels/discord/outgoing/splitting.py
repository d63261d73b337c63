"""Splits a message into parts that Discord takes, where a person would; nothing of it is lost."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

from msgspec import Struct
from wcwidth import grapheme_boundary_before

from pixi.channels.discord.formatting import LIMIT, units

_TOKENS = re.compile(
    r"""
    (?P<fence> ``` (?: (?P<language> [\w+\#.-]{0,30} ) [ \t]* (?=\n) )? (?P<body> .*? ) ``` )
    | (?P<loose> ^``` (?P<open_language> [\w+\#.-]{0,30} ) [ \t]* (?=\n) )  # never closed
    | (?P<ticks> `{1,2} ) (?!`) [^\n]+? (?<!`) (?P=ticks) (?!`)             # code in a line
    | \|\| (?!\|) .+? \|\|                                                  # a spoiler
    | \[ [^\[\]\n]{1,500} \] \( <? [^\s()<>]{1,1500} (?: \( [^\s()<>]* \) [^\s()<>]* )* >? \)
      (?: [ ] \( [^\s()]{1,260} \) )?                                       # a link, and its host beside it
    | < (?: a?:\w{1,64}:\d{1,25} | @[!&]?\d{1,25} | \#\d{1,25} | /[^<>\n:]{1,100}:\d{1,25}
          | t:-?\d{1,20}(?::[a-zA-Z])? | id:\w{1,30} ) >
    | https?://[^\s<>]+
    | :[\w+-]{1,64}:
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_CLOSERS = r"[\"'”’»)\]】」』）*_~|]*"
_PARAGRAPH = re.compile(r"\n(?=[ \t]*\n)")
_LINE = re.compile(r"\n")
_STOP = "[.!?…؟۔\u0964\u0965\u1362\u0589]"  # those that need a space after them
_SENTENCE = re.compile(rf"(?<!{_STOP}){_STOP}+{_CLOSERS}(?=\s)|[。！？｡]+{_CLOSERS}")
_WORD = re.compile(r"\s+|[，、；：]+")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")
_SPACE = re.compile(r"\s*")

_FENCE_END = "\n```"
_KEEP_WHOLE = 0.3  # a block of code begins the next part where this share of the present one is filled
_SHARES = (0.5, 0.4, 0.3, 0.25)  # and a paragraph, a line, a sentence, a word may end it


class _Fence(Struct, frozen=True):
    """A block of code in the text, from its opening to after its closing."""

    start: int
    end: int
    language: str

    @property
    def opening(self) -> str:
        return f"```{self.language}\n"


def clean(text: str) -> str:
    """Return a text as it can be posted: line breaks as Discord has them, nothing that cannot be stored."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


def split(text: str, limit: int = LIMIT) -> tuple[str, ...]:
    """Split a message into parts, none longer than `limit`; none at all where nothing can be seen.

    It is cut at paragraphs, lines, sentences, words, in this order of preference, and never within what a
    reader sees as one character, a mention, an emoji, a link or a line's code that fits into a part. A
    block of code that is cut is closed, and opened again with its language.
    """
    text = clean(text)
    if units(text) > limit:
        return tuple(part for part in _Splitter(text, limit).parts() if _visible(part))
    return (text,) if _visible(text) else ()


def _visible(text: str) -> bool:
    return any(unicodedata.category(character) not in ("Cc", "Cf", "Zs", "Zl", "Zp") for character in text)


class _Splitter:
    """One text, with what must stay together in it and where it may be cut. Every list is in order."""

    __slots__ = ("_breaks", "_fences", "_kept", "_kept_ends", "_kept_starts", "_limit", "_measure", "_text")

    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._measure = None if text.isascii() else [0, *accumulate(1 + (c > "\uffff") for c in text)]
        self._fences: list[_Fence] = []
        self._kept: list[tuple[int, int]] = []
        for match in _TOKENS.finditer(text):
            self._note(match)
        self._kept_starts = [start for start, _ in self._kept]
        self._breaks = (
            [match.start() for match in _PARAGRAPH.finditer(text)],
            [match.start() for match in _LINE.finditer(text)],
            [match.end() for match in _SENTENCE.finditer(text)],
            [match.start() if match[0].isspace() else match.end() for match in _WORD.finditer(text)],
        )

    def parts(self) -> Iterator[str]:
        """Return the parts, in order."""
        start = 0
        while start < len(self._text):
            fence = self._fence_at(start)
            opening = fence.opening if fence else ""
            room = self._limit - len(opening)
            cut = self._cut(start, room)
            closing = _FENCE_END if self._fence_at(cut) else ""
            if closing and self._units(start, cut) + len(closing) > room:
                cut = self._cut(start, room - len(closing))
                closing = _FENCE_END if self._fence_at(cut) else ""
            body = self._text[start:cut].rstrip()
            if body:
                yield opening + body + closing
            start = self._after(cut)

    def _note(self, match: re.Match[str]) -> None:
        """Note what a token asks for: a block of code may be cut, if not at its ends; the rest may not."""
        text, (start, end) = self._text, match.span()
        if match["loose"] is not None:
            self._fences.append(_Fence(start, len(text) + 1, match["open_language"]))
            self._kept.append((start, _first_visible(text, end, len(text))))
        elif match["fence"] is not None:
            body_start, body_end = match.span("body")
            self._fences.append(_Fence(start, end, match["language"] or ""))
            self._kept.append((start, _first_visible(text, body_start, body_end)))
            if text[body_start:body_end].strip():
                self._kept.append((body_start + len(match["body"].rstrip()), end))
        elif not self._fences or self._fences[-1].end <= start:
            self._kept.append((start, end))

    # Where to cut.

    def _cut(self, start: int, room: int) -> int:
        """Return where a part that begins at `start` best ends: after it, and within `room`."""
        most = self._reach(start, room)
        if most >= len(self._text):
            return len(self._text)
        fence = self._fence_at(most)
        if (
            fence is not None
            and fence.start > self._reach(start, int(room * _KEEP_WHOLE))
            and self._units(fence.start, min(fence.end, len(self._text))) <= self._limit - len(_FENCE_END)
        ):
            return fence.start
        for places, share in zip(self._breaks, _SHARES, strict=True):
            least = self._reach(start, int(room * share))
            for index in range(bisect_right(places, most) - 1, -1, -1):
                if places[index] <= least:
                    break
                if self._may_cut(places[index]):
                    return places[index]
        return self._forced(start, most)

    def _forced(self, start: int, most: int) -> int:
        """Cut where there is no good place: before what must be kept whole, or between two characters."""
        kept = self._kept_at(most)
        if kept is not None and kept[0] > start:
            return kept[0]
        place = grapheme_boundary_before(self._text, most + 1)
        kept = self._kept_at(place)
        if kept is not None and kept[0] > start:
            return kept[0]
        return place if place > start else most

    def _may_cut(self, place: int) -> bool:
        """Return whether neither a token nor a character goes on where the next part would begin."""
        if self._kept_at(place) is not None:
            return False
        after = self._after(place)
        return after >= len(self._text) or grapheme_boundary_before(self._text, after + 1) == after

    def _after(self, cut: int) -> int:
        """Return where the next part begins: white space at the cut is dropped, but no indent of code."""
        space = _BLANK_LINES if self._fence_at(cut) else _SPACE
        match = space.match(self._text, cut)
        return match.end() if match else cut

    # The text, measured.

    def _units(self, start: int, end: int) -> int:
        return self._measure[end] - self._measure[start] if self._measure else end - start

    def _reach(self, start: int, room: int) -> int:
        """Return the furthest place to which the text fits into `room`; at least one character on."""
        if self._measure is None:
            reach = start + room
        else:
            reach = bisect_right(self._measure, self._measure[start] + room) - 1
        return min(max(reach, start + 1), len(self._text))

    def _fence_at(self, place: int) -> _Fence | None:
        """Return the block of code that a cut here would cut."""
        index = bisect_left(self._fences, place, key=lambda fence: fence.start) - 1
        return self._fences[index] if index >= 0 and place < self._fences[index].end else None

    def _kept_at(self, place: int) -> tuple[int, int] | None:
        """Return what a cut here would cut although it must be kept whole."""
        index = bisect_left(self._kept_starts, place) - 1
        return self._kept[index] if index >= 0 and place < self._kept[index][1] else None


def _first_visible(text: str, start: int, end: int) -> int:
    """Return the place after the first character that is not white space, or the end."""
    match = _SPACE.match(text, start, end)
    return min(match.end() + 1 if match else start, end)
