"""How long somebody would take to type a message."""

import unicodedata
from typing import Literal

from pixi.core.persona import Pace

PaceSetting = Literal["persona", "off", "brisk", "human"]
"""How fast messages follow each other: as the persona says, or one pace for all."""

_WIDE = 2.5  # a character of Chinese, Japanese or Korean says as much as so many letters
_BEGINNING = 0.3  # seconds before the first letter
_LETTERS_PER_SECOND = {"brisk": 40.0, "human": 12.0}
_MOST_SECONDS = {"brisk": 2.5, "human": 8.0}


def typing_seconds(text: str, pace: Pace) -> float:
    """Seconds from the first thought of a message to its posting; 0 where there is no pace to keep."""
    if pace == "off":
        return 0.0
    most, speed = _MOST_SECONDS[pace], _LETTERS_PER_SECOND[pace]
    longest = int(most * speed) + 1  # a longer one takes no longer
    return min(most, _BEGINNING + _letters(text[:longest]) / speed)


def _letters(text: str) -> float:
    if text.isascii():
        return len(text)
    return sum(_WIDE if unicodedata.east_asian_width(c) in "WF" else 1.0 for c in text)
