"""Makes text that strangers wrote fit for the place where it is shown.

- Everywhere: `clipped` keeps a text to a length, `without_middle` keeps both its ends, `without_halves` makes
  of it what UTF-8 can hold.
- A prompt, where a model must not take the text for another voice: `quoted` marks each line, `prompt_name`
  makes a name fit to stand between quotation marks.
- A log, where nothing may forge a line and nothing may be lost: `escaped_line`, `escaped_lines` and
  `json_line` write such characters out.
- A terminal, which nothing may drive: `printable` and `printable_line` drop such characters, one by one.
- A title or a path in a line for people: `display_line` and `display_path` show that a character is missing.
"""

import json
import re
import unicodedata
from typing import Any

_LONGEST_NAME = 60

# Marks that a model may take for the end of a name in quotation marks.
_QUOTATION_MARKS = str.maketrans(dict.fromkeys('"＂“”„‟〝〞″', "'"))

_STRUCTURE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # line breaks, the escape that terminals obey, and their like
    "\u2028\u2029"  # line breaks in other programs' eyes
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ud800-\udfff\ufeff]"
)

_UNFIT = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""Marks that turn the direction of writing, and make lines look alike. Joiners stay: words need them."""


_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_HALVES = re.compile("[\ud800-\udfff]")
_RAW_CONTROL_CHARACTERS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clipped(text: str, longest: int) -> str:
    """Return the text without blanks round it, cut with an ellipsis to at most `longest` characters."""
    text = text.strip()
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def without_middle(text: str, longest: int, gap: str = "\n[… {} characters left out …]\n") -> str:
    """Return the text without its middle where it is longer than `longest` characters, the gap not counted.

    Beginning and end stay: what is asked stands at the end, and there somebody who wants to hide something
    from a person who is to say yes would write it. In `gap`, `{}` becomes the number of characters left out.
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}{gap.format(len(text) - 2 * half)}{text[len(text) - half :]}"


def without_halves(text: str) -> str:
    """Return the text with surrogate pairs joined, and U+FFFD for half a pair, which has no UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def data_without_halves(data: Any) -> Any:
    """Return plain data whose texts and names hold no half of a surrogate pair."""
    match data:
        case str():
            return without_halves(data)
        case list() | tuple():
            return [data_without_halves(each) for each in data]
        case dict():
            return {
                without_halves(name) if isinstance(name, str) else name: data_without_halves(each)
                for name, each in data.items()
            }
    return data


# In a prompt.


def quoted(text: str) -> str:
    """Return each line behind `> `; "" for a text that is blank."""
    # `splitlines` knows every character that some model or server takes for the end of a line.
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def prompt_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name without line breaks, invisible characters and quotation marks, cut where it is long."""
    visible = "".join(c if c.isprintable() else " " for c in name.translate(_QUOTATION_MARKS))
    return " ".join(visible.split())[:longest].strip()


def name_key(name: str) -> str:
    """Return a name as it is compared: file systems and keyboards differ in how they spell an accent."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


# In a terminal or a log.


def escaped_line(text: str) -> str:
    """Return the text on one line, with all that could forge a line or drive a terminal written out."""
    return _STRUCTURE.sub(_written_out, " ".join(text.split("\n")))


def escaped_lines(text: str) -> str:
    """Return the text with its line breaks, and with all else of that kind written out."""
    return "\n".join(map(escaped_line, text.split("\n")))


def printable(text: str) -> str:
    """Return the text without control characters, broken halves, and marks that turn the direction.

    Control characters are C0, DEL and C1; line breaks and tabs stay.

    Without its escape character an escape sequence is plain text. Each character is judged alone, so
    that a message shown piece by piece ends up the same as one shown whole.
    """
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", _CONTROL_CHARACTERS.sub("", text))


def printable_line(text: str) -> str:
    """Return the text as `printable` does, with every run of white space made one space."""
    return " ".join(printable(text.replace("\n", " ")).split())


def json_line(value: object) -> str:
    """Return JSON on one line that is harmless wherever it is shown; nothing of the value is lost."""
    text = json.dumps(value, ensure_ascii=False)
    return _RAW_CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def display_line(text: str, longest: int = 300) -> str:
    """Return the text on one line, without what a terminal would obey, and cut where it is too long."""
    if not text.isascii() or not text.isprintable():
        text = "".join(_fit(character) for character in text)
    return clipped(" ".join(text.split()), longest)


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
