"""A reply's text as it arrives: normalized, read once from left to right, and rewound to a mark."""

import re
from typing import Final

BREAK: Final = "\u2060"
"""WORD JOINER. It breaks a control word in a prompt (see `pixi.core.control_words`), is of no width, and is
dropped from what a model writes."""

UNCLEAN: Final = "\r\xa0\u200b\u2060\ufeff\ud800-\udfff"
"""What has to be normalized, as it stands in a set of a pattern."""
_unclean = re.compile(f"[{UNCLEAN}]").search
# Zero-width joiners stay: they shape emoji and Persian words.
_INVISIBLE: Final = str.maketrans({"\u200b": "", "\ufeff": "", "\xa0": " "})
# Behind `<` it stays for the reader: a control word that the model copied out of its prompt is text, no tag.
_BREAK: Final = re.compile(f"(?<!<){BREAK}")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE: Final = re.compile("[\ud800-\udfff]")


def unbroken(text: str) -> str:
    """Return the text without `BREAK`: for what a model copied out of its prompt."""
    return text.replace(BREAK, "")


def _join(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


class RewindBuffer:
    """Holds what of a reply is not read yet, and from the oldest mark on what was read.

    A mark is a place, told from the beginning of the reply. While there is one, each piece that was read is
    kept in a list, so that a long doubt costs nothing per piece.

    Attributes:
        text: what can be looked at.
        at: the place in `text` of the next character to read.
        start: the place in the reply where `text` begins.
        waiting: the end of the last piece, if what it means depends on the next one: CR, whose line break was
            given out, or the first half of a surrogate pair; else "".
        final: no more text comes: the stream has ended, or the reply in it.
        ended: the reply has ended, though its stream may go on.
    """

    __slots__ = ("_oldest", "_past", "at", "ended", "final", "start", "text", "waiting")

    def __init__(self) -> None:
        self.text = ""
        self.at = self.start = 0
        self.waiting = ""
        self.final = self.ended = False
        # Rewinding.
        self._oldest: int | None = None  # the oldest mark
        self._past: list[str] = []  # what was read between the oldest mark and `text`

    def append(self, piece: str) -> None:
        """Take the next piece of the reply. Only what is not read yet stays in `text`."""
        if self.waiting or _unclean(piece):
            piece = self._normalized(piece)
        at = self.at
        if self._oldest is not None:
            self._past.append(self.text[max(self._oldest - self.start, 0) : at])
        self.text = piece if at == len(self.text) else self.text[at:] + piece
        self.start += at
        self.at = 0

    def end(self) -> None:
        """Take note that no piece comes any more."""
        if self.waiting > "\r":
            self.text += "\ufffd"
        self.waiting = ""
        self.final = True

    def cut(self, at: int) -> None:
        """End the reply at a place in `text`: what follows is not the reply's."""
        self.text = self.text[:at]
        self.final = self.ended = True

    # --- marks -----------------------------------------------------------------------------------------

    def mark(self, at: int) -> int:
        """Return a mark for a place in `text` that is not behind `at`, and keep everything from there on."""
        mark = self.start + at
        if self._oldest is None:
            self._oldest = mark
        return mark

    def rewind(self, mark: int) -> None:
        """Read again from a mark. Later marks are void, earlier ones stay good."""
        kept = [self.text]
        while self.start > mark:
            kept.append(self._past.pop())
            self.start -= len(kept[-1])
        if len(kept) > 1:
            self.text = "".join(reversed(kept))
        self.at = mark - self.start

    def since(self) -> str:
        """Return what was read since the oldest mark, which there must be."""
        assert self._oldest is not None
        return "".join([*self._past, self.text[max(self._oldest - self.start, 0) : self.at]])

    def forget(self) -> None:
        """Drop all marks."""
        self._oldest = None
        self._past.clear()

    # --- normalizing -----------------------------------------------------------------------------------

    def _normalized(self, piece: str) -> str:
        """Return the piece with `\\n` line ends, whole characters, and nothing invisible that means nothing.

        Cutting a text elsewhere gives the same.
        """
        piece = piece.removeprefix("\n") if self.waiting == "\r" else self.waiting + piece
        end = piece[-1:]
        self.waiting = end if end == "\r" or "\ud800" <= end <= "\udbff" else ""
        if self.waiting > "\r":
            piece = piece[:-1]
        # Joined first: halves between which something invisible is dropped below are no pair.
        piece = _LONE.sub("\ufffd", _PAIR.sub(_join, piece))
        piece = piece.replace("\r\n", "\n").replace("\r", "\n").translate(_INVISIBLE)
        return _BREAK.sub("", f"<{piece}")[1:] if self.text[-1:] == "<" else _BREAK.sub("", piece)
