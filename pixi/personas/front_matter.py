"""Front matter of a persona's file: keys and values, and what is wrong with them."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args
from urllib.parse import urlsplit

import yaml
from msgspec import Struct, field
from yaml.reader import ReaderError

from pixi.core.persona import Pace
from pixi.core.untrusted import display_line

T = TypeVar("T")


class LintWarning(Struct, frozen=True):
    """Something that loads but is hardly meant. `line` counts from 1; `text` names the thing and the mend."""

    line: int
    text: str


class LintError(Exception):
    """The file cannot be a persona. Never leaves this package: the reader gathers them, with the file's name.

    Attributes:
        line: counts from 1.
        text: the thing and the mend, one line.
    """

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


FORMATS = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_LONGEST_ADDRESS = 2_000  # characters
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_EXPECTED = "an https address or the name of a picture (png, jpg, gif or webp) beside this file"


def find_avatar(written: str, line: int, path: Path) -> tuple[str, LintWarning | None]:
    """Return the address or the absolute path of the picture; "" with a warning where there is no such file.

    Args:
        written: what the front matter says.
        line: where it says that.
        path: of the persona's file.

    Raises:
        LintError: it is no https address, no picture, or lies outside of the persona's folder.
    """
    shown = display_line(written, 40)
    if not written:
        return "", None
    if len(written) > _LONGEST_ADDRESS:
        raise LintError(line, f"`avatar` has {len(written):,} characters: {_LONGEST_ADDRESS:,} is the most.")
    if _SCHEME.match(written):
        if not _is_https(written):
            raise LintError(line, f"`avatar` is {_EXPECTED}, not `{shown}`.")
        return written, None
    if not written.lower().endswith(FORMATS):
        raise LintError(line, f"`avatar` is {_EXPECTED}, not `{shown}`.")
    folder = os.path.realpath(path.parent)
    picture = os.path.realpath(os.path.join(folder, written))
    if os.path.isabs(written) or not picture.startswith(os.path.join(folder, "")):
        raise LintError(
            line, f"`avatar` leads out of this folder: put the picture beside this file, not `{shown}`."
        )
    if not os.path.isfile(picture):
        return "", LintWarning(
            line, f"there is no picture `{shown}` beside this file: mend `avatar`, or put it there."
        )
    return picture, None


def _is_https(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "https" and bool(parts.hostname) and not re.search(r"\s", address)
    except ValueError:
        return False  # brackets that are no IPv6 address


_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_MENDS = (
    ("mapping values are not allowed", "a text that holds a colon stands in quotes"),
    ("'\\t' that cannot start", "indent with spaces, not with a tab"),
    ("cannot start any token", "put the text in quotes"),
    ("alias", "put a text that begins with * or & in quotes"),
    ("flow", "put the text in quotes, or close the bracket"),
    ("quoted scalar", "close the quotation marks"),
)
_MEND = "write each line as `key: text`"


class FrontMatterEntry(Struct, frozen=True):
    """A key and what stands behind it.

    Attributes:
        line: where the key stands, counted in the file.
        texts: the items of a list, or the one text.
        is_list: whether a list was written.
        quoted: whether the one text stood in quotes or in a block.
    """

    key: str
    line: int
    texts: tuple[str, ...]
    is_list: bool = False
    quoted: bool = False


def read_entries(text: str, first_line: int) -> Iterator[FrontMatterEntry]:
    """Read a YAML mapping of texts and lists of texts.

    It goes by the events of the YAML parser: nothing is constructed, nothing nests, and no text is
    guessed to be a number, a date or a truth value: `language: no` is Norwegian.

    Args:
        text: YAML, line breaks as `\\n`.
        first_line: the line of the file on which `text` begins.

    Raises:
        LintError: it is not YAML, or more of YAML than texts and lists of texts.
    """
    events = _YamlEvents(text, first_line)
    try:
        yield from events.entries()
    except yaml.MarkedYAMLError as error:
        problem = f"{error.context or ''} {error.problem or ''}"
        mends = [mend for sign, mend in _MENDS if sign in problem]
        mend = mends[0] if mends else _MEND
        mark = error.problem_mark or error.context_mark
        raise LintError(events.line_at(mark.index if mark else 0), f"this is not YAML: {mend}.") from error
    except ReaderError as error:
        raise LintError(
            events.line_at(error.position), "delete the control character in this line."
        ) from error
    except (ValueError, OverflowError) as error:
        # What chr() and int() raise inside the YAML parser, on an escape or a version that does not exist.
        raise LintError(first_line, "this is not YAML: it holds an escape that means nothing.") from error


def find_unfit(text: str) -> re.Match[str] | None:
    """Return the first control character or lone surrogate: no prompt, terminal or server takes them well."""
    return _UNFIT.search(text)


class _YamlEvents:
    """Reads entries from the events of the YAML parser."""

    def __init__(self, text: str, first_line: int) -> None:
        self._text = text
        self._end = len(text.rstrip())
        self._first_line = first_line
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)

    def line_at(self, index: int) -> int:
        """Return the line of a character. The YAML parser counts more line breaks than editors do."""
        return self._first_line + self._text.count("\n", 0, min(index, self._end))

    def entries(self) -> Iterator[FrontMatterEntry]:
        """Yield the entries, in order. Raises `LintError`, and the errors of the YAML parser."""
        event = self._next()
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = self._next()
        if isinstance(event, yaml.StreamEndEvent) or (
            isinstance(event, yaml.ScalarEvent) and not event.value
        ):
            return
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._fault(event, f"{_MEND}.")
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            yield self._entry(event)
        for event in self._events:
            if not isinstance(event, yaml.DocumentEndEvent | yaml.StreamEndEvent):
                raise self._fault(event, "`...` ends the front matter too early: delete that line.")

    def _entry(self, event: yaml.Event) -> FrontMatterEntry:
        if not isinstance(event, yaml.ScalarEvent):
            raise self._fault(event, f"{_MEND}.")
        key, line = self._written(event), self._line(event)
        value = self._next()
        if isinstance(value, yaml.ScalarEvent):
            return FrontMatterEntry(key, line, (self._written(value),), quoted=value.style is not None)
        if not isinstance(value, yaml.SequenceStartEvent):
            raise self._fault(
                value, f"`{display_line(key, 40)}` is a text or a list: put the text in quotes."
            )
        texts: list[str] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            if not isinstance(item, yaml.ScalarEvent):
                raise self._fault(
                    item, f"an item of `{display_line(key, 40)}` is one text: put it in quotes."
                )
            texts.append(self._written(item))
        return FrontMatterEntry(key, line, tuple(texts), is_list=True)

    def _next(self) -> yaml.Event:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._fault(event, "put a text that begins with * or & in quotes.")
        if getattr(event, "tag", None) is not None:
            raise self._fault(event, "put a text that begins with ! in quotes.")
        return event

    def _written(self, event: yaml.ScalarEvent) -> str:
        unfit = find_unfit(event.value)
        if unfit:
            raise self._fault(event, f"delete the control character U+{ord(unfit[0]):04X}.")
        return str(event.value)

    def _fault(self, event: yaml.Event, text: str) -> LintError:
        return LintError(self._line(event), text)

    def _line(self, event: yaml.Event) -> int:
        return self.line_at(event.start_mark.index if event.start_mark else 0)


_LONGEST = 32_768  # characters of front matter: it holds keys, and the YAML parser is slow
_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_COMMA = re.compile("[,，、،]")
_DIGITS = re.compile("[0-9]{1,6}")
_COMMAND = re.compile(r"[^\W\d_]\w*")


class FrontMatter(Struct, frozen=True):
    """The keys of a file, those alone that it has.

    Attributes:
        values: what they say, by the fields of `Persona`; `avatar` is as it was written.
        lines: on which line of the file each key stands.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def read_front_matter(text: str, first_line: int = 1) -> tuple[FrontMatter, list[LintError]]:
    """Read the lines between the dashes; return the front matter, and all that is wrong with it.

    A key that is wrong counts as not written. Of a text that is not YAML, the lines above the fault are read.

    Args:
        text: YAML, line breaks as `\\n`.
        first_line: the line of the file on which `text` begins.
    """
    if len(text) > _LONGEST:
        return FrontMatter(), [
            LintError(
                first_line, "the front matter is too long: a long text belongs below it, in the prompt."
            )
        ]
    faults: list[LintError] = []
    entries = _checked(read_entries(text, first_line), faults)
    written: dict[str, Any] = {}
    for key, (read, *bounds) in _KINDS.items():
        if key in entries:
            try:
                value = read(entries[key], *bounds)
            except LintError as fault:
                faults.append(fault)
            else:
                if value is not None:
                    written[key] = value
    return FrontMatter(written, {key: entry.line for key, entry in entries.items()}), faults


def _checked(entries: Iterator[FrontMatterEntry], faults: list[LintError]) -> dict[str, FrontMatterEntry]:
    """Return the entries by key. One whose key is not known or stands a second time is a fault."""
    by_key: dict[str, FrontMatterEntry] = {}
    try:
        for entry in entries:
            if entry.key not in KEYS:
                faults.append(LintError(entry.line, _unknown(entry.key)))
            elif entry.key in by_key:
                first = by_key[entry.key].line
                text = f"`{entry.key}` stands on line {first} already: keep one of them."
                faults.append(LintError(entry.line, text))
            else:
                by_key[entry.key] = entry
    except LintError as fault:  # the rest below it cannot be read
        faults.append(fault)
    return by_key


def _unknown(key: str) -> str:
    from rapidfuzz import fuzz, process

    written = key.lower().replace("-", "_").replace(" ", "_")
    nearest = process.extractOne(written, KEYS, scorer=fuzz.ratio, score_cutoff=60)
    mend = f"do you mean `{nearest[0]}`?" if nearest else f"the keys are {', '.join(KEYS)}."
    return f"unknown key `{display_line(key, 40)}`: {mend}"


# Each reads an entry as what its key means. What a key leaves empty counts as not written.


def _text(entry: FrontMatterEntry) -> str:
    if entry.is_list:
        raise LintError(entry.line, f"`{entry.key}` is one text, not a list.")
    return entry.texts[0].strip()


def _title(entry: FrontMatterEntry, longest: int) -> str:
    """Return one text that fits on a line."""
    text = " ".join(_text(entry).split())
    if len(text) > longest:
        raise LintError(entry.line, f"`{entry.key}` has {len(text)} characters: {longest} is the most.")
    return text


def _texts(entry: FrontMatterEntry) -> tuple[str, ...]:
    """Return a list of texts; one text alone is a list of one."""
    return tuple(filter(None, (text.strip() for text in entry.texts)))


def _words(entry: FrontMatterEntry) -> tuple[str, ...] | None:
    """Return a list of names; `cats, pancakes` without quotes is two. None where nothing is written."""
    if not entry.is_list and not entry.texts[0].strip():
        return None
    split = not entry.is_list and not entry.quoted
    parts = _COMMA.split(entry.texts[0]) if split else entry.texts
    return tuple(dict.fromkeys(filter(None, (" ".join(part.split()) for part in parts))))


def _commands(entry: FrontMatterEntry) -> tuple[str, ...] | None:
    """Return a list of names as commands have them."""
    words = _words(entry)
    wrong = [f"`{display_line(word, 40)}`" for word in words or () if not _COMMAND.fullmatch(word)]
    if wrong:
        text = f"`{entry.key}` holds names such as `send`, not {display_line(', '.join(wrong), 150)}."
        raise LintError(entry.line, text)
    return words


def _meant(entry: FrontMatterEntry, read: Callable[[str], T | None], expected: str) -> T | None:
    """Return the value that `read` makes of one text; None where nothing is written.

    Args:
        expected: the values that a key takes, for the error text.
    """
    written = _text(entry)
    meant = read(written)
    if meant is None and written:
        raise LintError(entry.line, f"`{entry.key}` is {expected}, not `{display_line(written, 40)}`.")
    return meant


def _switch(entry: FrontMatterEntry) -> bool | None:
    return _meant(entry, lambda text: _SWITCH.get(text.lower()), "`yes` or `no`")


def _number(entry: FrontMatterEntry, least: int, most: int) -> int | None:
    def read(text: str) -> int | None:
        return int(text) if _DIGITS.fullmatch(text) and least <= int(text) <= most else None

    return _meant(entry, read, f"a number from {least} to {most}")


def _pace(entry: FrontMatterEntry) -> Pace | None:
    paces: dict[str, Pace] = {pace: pace for pace in get_args(Pace)}
    return _meant(entry, lambda text: paces.get(text.lower()), " or ".join(f"`{pace}`" for pace in paces))


def _language(entry: FrontMatterEntry) -> str | None:
    """Return a BCP 47 tag."""
    tag = "a language tag such as `en`, `fa` or `zh-CN`"
    return _meant(entry, lambda text: text if _LANGUAGE_TAG.fullmatch(text) else None, tag)


_KINDS: Mapping[str, tuple[Any, ...]] = {
    "name": (_title, 100),
    "about": (_title, 500),
    "avatar": (_text,),
    "summon": (_words,),
    "language": (_language,),
    "likes": (_words,),
    "databases": (_words,),
    "tools": (_words,),
    "commands": (_commands,),
    "confirm": (_words,),
    "tool_steps": (_number, 0, 100),
    "pace": (_pace,),
    "silence": (_switch,),
    "when_broken": (_texts,),
    "when_tired": (_texts,),
    "when_foreign": (_texts,),
    "in_short": (_text,),
}
"""How each key is read, with the bounds of its value."""

KEYS = tuple(_KINDS)
