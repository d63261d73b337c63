"""Makes text harmless for a log or a terminal: nothing by which a stranger forges a line or drives it."""

import re

_STRUCTURE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # line breaks, the escape that terminals obey, and their like
    "\u2028\u2029"  # line breaks in other programs' eyes
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ud800-\udfff\ufeff]"
)


def on_one_line(text: str) -> str:
    """The text with its line breaks as blanks, and whatever else could forge a line written out."""
    return _STRUCTURE.sub(_written_out, " ".join(text.split("\n")))


def on_own_lines(text: str) -> str:
    """Return the text with its line breaks; what else could forge a line or drive a terminal is escaped."""
    return "\n".join(map(on_one_line, text.split("\n")))


def _written_out(found: re.Match[str]) -> str:
    return (
        found[0].encode("ascii", "backslashreplace").decode() if found[0] > "\x7f" else repr(found[0])[1:-1]
    )
