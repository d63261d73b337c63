"""Text as a server sent it, mended: line ends, halves of characters, invisible characters."""

import re
from typing import Final

from pixi.core.control_words import BREAK

_NEEDED: Final = re.compile("[\r\xa0\u200b\u2060\ufeff\ud800-\udfff]")
# Zero-width joiners stay: they shape emoji and Persian words.
_INVISIBLE: Final = str.maketrans({"\u200b": "", "\ufeff": "", "\xa0": " "})
# Behind `<` it stays for the reader: a control word that the model copied out of its prompt is text, no tag.
_BREAK: Final = re.compile(f"(?<!<){BREAK}")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE: Final = re.compile("[\ud800-\udfff]")


def _join(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


class Mender:
    """Mends text that comes in pieces, so that cutting it elsewhere gives the same."""

    __slots__ = ("_after_angle", "_after_return", "_high")

    def __init__(self) -> None:
        self._after_return = False  # the last piece ended in CR, and its line break was given out
        self._after_angle = False  # the last piece ended in `<`
        self._high = ""  # the first half of a surrogate pair

    @property
    def waiting(self) -> bool:
        """Whether what the next piece means depends on the last one."""
        return self._after_return or bool(self._high)

    def mend(self, text: str) -> str:
        """The piece with `\\n` line ends, whole characters, and nothing invisible that means nothing."""
        if not text:
            return ""
        if self._after_return and text[0] == "\n":
            text = text[1:]
        self._after_return = False
        text = self._high + text
        self._high = ""
        if not _NEEDED.search(text):
            self._after_angle = text[-1:] == "<"
            return text
        if text[-1] == "\r":
            self._after_return = True
        elif "\ud800" <= text[-1] <= "\udbff":
            self._high, text = text[-1], text[:-1]
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_INVISIBLE)
        if BREAK in text:
            text = _BREAK.sub("", f"<{text}")[1:] if self._after_angle else _BREAK.sub("", text)
        if text:
            self._after_angle = text[-1] == "<"
        return _LONE.sub("\ufffd", _PAIR.sub(_join, text))

    def close(self) -> str:
        """What is left of a character whose second half never came."""
        rest, self._high = self._high and "\ufffd", ""
        return rest
