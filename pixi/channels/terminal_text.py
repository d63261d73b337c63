"""Making text safe for a terminal: what strangers and models wrote must not drive it."""

import json
import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_HALVES = re.compile("[\ud800-\udfff]")
_RAW_CONTROLS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text without control characters (C0, DEL, C1; line breaks and tabs stay) and broken halves, and
    without those that turn the direction of all that follows.

    Without its escape character an escape sequence is plain text. Each character is judged alone, so
    that a message shown piece by piece ends up the same as one shown whole.
    """
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", _CONTROLS.sub("", text))


def one_line(text: str) -> str:
    """`printable`, with every run of white space made one space."""
    return " ".join(printable(text.replace("\n", " ")).split())


def json_line(value: object) -> str:
    """JSON in one line that stays one line, and harmless, in whatever shows it; nothing of it is lost."""
    text = json.dumps(value, ensure_ascii=False)
    return _RAW_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
