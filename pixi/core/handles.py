"""The number of an earlier message behind a command's name: `[REACT #3: 😂]`."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

_GAP: Final = r"[^\S\n]{0,4}+"
DASHES: Final = "-–—"
_MARKS: Final = re.compile(r"\*+|_+|~+|`+")


@dataclass(frozen=True, slots=True)
class Handle:
    """A number that stands where a handle may.

    Attributes:
        number: of the message; 0 is none.
        apart: whether a blank parts the sign from its number: `# 3`.
        fill: what stands between it and the next character, which is at `end - 1`.
        end: the place behind that character.
    """

    number: int
    apart: bool
    fill: str
    end: int


class Handles:
    """Finds the handle in an opening.

    Args:
        fill: the pattern of what may stand between the parts of an opening.
    """

    __slots__ = ("_begun", "_whole")

    def __init__(self, fill: str) -> None:
        number = rf"[#＃]({_GAP})([0-9０-９]{{1,9}}+)(?![^\W_])({fill})"
        self._whole = re.compile(rf"{number}(.)", re.DOTALL)
        self._begun = re.compile(rf"[#＃]{_GAP}|{number}")

    def at(self, text: str, at: int, limit: int) -> Handle | Literal["more"] | None:
        """The handle at the sign `text[at]`, looked for up to `limit`; None where it is only text.

        `more`: the text ends too early to tell.
        """
        if len(text) < limit and self._begun.fullmatch(text, at):
            return "more"
        match = self._whole.match(text, at, limit)
        if match is None:
            return None
        gap, number, fill, _ = match.groups()
        return Handle(int(number), bool(gap), fill, match.end())


def parts_from_text(handle: Handle, text: str) -> bool:
    """Whether what stands behind a handle without a colon parts it from an argument, or ends the command.

    In `[REACT #3😂]` it does, in `[SEND #3, you win]` and `[SEND #3-4 are fun]` it does not.
    """
    if any(character.isspace() for character in handle.fill):
        return True
    next_character = text[handle.end - 1]
    if next_character in DASHES:
        return not text[handle.end : handle.end + 1].isdigit()
    return next_character in "=]】］" or unicodedata.category(next_character) == "So"


def left_open(*fills: str) -> str:
    """The emphasis that opens in those parts of an opening and does not close in them."""
    marks: list[str] = []
    for fill in fills:
        for mark in _MARKS.findall(fill):
            if marks and marks[-1] == mark:
                marks.pop()
            else:
                marks.append(mark)
    return "".join(reversed(marks))
