"""Makes text that strangers wrote fit for the place where it is shown.

In a prompt a model must not take the text for another voice: `quoted` marks each of its lines, `clipped`
keeps a text to a length, `prompt_name` is for names between quotation marks. In a terminal or a log nothing
may forge a line or drive the terminal: `escaped_line` and `escaped_lines` write such characters out, so
that a reader sees what is there; `display_line` and `display_path` leave them out, for titles and names
that a person is shown.
"""

import re
import unicodedata

_LONGEST_NAME = 60

# What a model may take for the end of a name that stands in quotation marks.
_QUOTATION_MARKS = str.maketrans(dict.fromkeys('"＂“”„‟〝〞″', "'"))

_STRUCTURE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # line breaks, the escape that terminals obey, and their like
    "\u2028\u2029"  # line breaks in other programs' eyes
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ud800-\udfff\ufeff]"
)

_UNFIT = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""What turns the direction of writing, and makes a line look like another. Joiners stay: words need them."""


# In a prompt.


def quoted(text: str) -> str:
    """Return each line behind `> `; "" for a text that is blank."""
    # `splitlines` knows every character that some model or server takes for the end of a line.
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def clipped(text: str, longest: int) -> str:
    """Return the text without blanks round it, cut where it is longer than `longest` characters."""
    text = text.strip()
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def prompt_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name without line breaks, invisible characters and quotation marks, cut where it is long."""
    visible = "".join(c if c.isprintable() else " " for c in name.translate(_QUOTATION_MARKS))
    return " ".join(visible.split())[:longest].strip()


# In a terminal or a log.


def escaped_line(text: str) -> str:
    """Return the text on one line, with all that could forge a line or drive a terminal written out."""
    return _STRUCTURE.sub(_written_out, " ".join(text.split("\n")))


def escaped_lines(text: str) -> str:
    """Return the text with its line breaks, and with all else of that kind written out."""
    return "\n".join(map(escaped_line, text.split("\n")))


def display_line(text: str, longest: int = 300) -> str:
    """Return the text on one line, without what a terminal would obey, and cut where it is too long."""
    if not text.isascii() or not text.isprintable():
        text = "".join(_fit(character) for character in text)
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def display_path(path: object) -> str:
    """Return a path as a person can be shown it, whatever bytes are in it."""
    return display_line(str(path).encode("utf-8", "surrogateescape").decode(errors="replace"), longest=1_000)


def _written_out(found: re.Match[str]) -> str:
    return (
        found[0].encode("ascii", "backslashreplace").decode() if found[0] > "\x7f" else repr(found[0])[1:-1]
    )


def _fit(character: str) -> str:
    if character in "\t\n\r\x0b\x0c\x85\u2028\u2029":
        return " "
    if character in _TURNS:
        return ""
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _UNFIT else character
