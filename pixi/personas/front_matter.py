"""The front matter of a persona file: what its keys are, and what each of them means."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, get_args

from rapidfuzz import fuzz, process

from pixi.core.persona import Pace
from pixi.core.untrusted import display_line
from pixi.personas.entries import FrontMatterEntry, read_entries
from pixi.personas.faults import LintError

KEYS = (
    "name",
    "about",
    "avatar",
    "summon",
    "language",
    "likes",
    "databases",
    "tools",
    "commands",
    "confirm",
    "tool_steps",
    "pace",
    "silence",
    "when_broken",
    "when_tired",
    "when_foreign",
    "in_short",
)

_LONGEST = 32_768  # characters of front matter: it holds keys, and the YAML parser is slow
_PACES: tuple[Pace, ...] = get_args(Pace)
_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_COMMA = re.compile("[,，、،]")
_DIGITS = re.compile("[0-9]{1,6}")
_COMMAND = re.compile(r"[^\W\d_]\w*")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the keys say. The fields are those of `Persona`, with its defaults where a file is silent.

    `avatar` is as it was written; `lines` tells on which line of the file each key stands.
    """

    name: str = ""
    about: str = ""
    avatar: str = ""
    summon: tuple[str, ...] = ()
    language: str = "en"
    likes: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] | None = None
    confirm: tuple[str, ...] = ()
    tool_steps: int | None = None
    pace: Pace = "brisk"
    silence: bool = True
    when_broken: tuple[str, ...] = ()
    when_tired: tuple[str, ...] = ()
    when_foreign: tuple[str, ...] = ()
    in_short: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)


def read_front_matter(text: str, first_line: int = 1) -> tuple[FrontMatter, list[LintError]]:
    """Read what stands between the dashes; give what the keys say, and all that is wrong with them.

    A key that is wrong counts as not written. Of a text that is not YAML, what stands above is read.

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
    values = _Values(_checked(read_entries(text, first_line), faults), faults)
    return FrontMatter(
        name=values.title("name", 100),
        about=values.title("about", 500),
        avatar=values.text("avatar"),
        summon=values.words("summon") or (),
        language=values.language("language", "en"),
        likes=values.words("likes") or (),
        databases=values.words("databases") or (),
        tools=values.words("tools") or (),
        commands=values.commands("commands"),
        confirm=values.words("confirm") or (),
        tool_steps=values.number("tool_steps", 0, 100),
        pace=values.pace("pace", "brisk"),
        silence=values.switch("silence", True),
        when_broken=values.texts("when_broken"),
        when_tired=values.texts("when_tired"),
        when_foreign=values.texts("when_foreign"),
        in_short=values.text("in_short"),
        lines=values.lines(),
    ), faults


def _checked(entries: Iterator[FrontMatterEntry], faults: list[LintError]) -> dict[str, FrontMatterEntry]:
    """The entries by key. One whose key is not known or stands a second time is a fault."""
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
    except LintError as fault:  # what stands below it cannot be read
        faults.append(fault)
    return by_key


def _unknown(key: str) -> str:
    written = key.lower().replace("-", "_").replace(" ", "_")
    nearest = process.extractOne(written, KEYS, scorer=fuzz.ratio, score_cutoff=60)
    mend = f"do you mean `{nearest[0]}`?" if nearest else f"the keys are {', '.join(KEYS)}."
    return f"unknown key `{display_line(key, 40)}`: {mend}"


class _Values:
    """The entries, each read as what its key means. What a key leaves empty counts as not written.

    What does not fit its key is added to `faults`, and counts as not written.
    """

    def __init__(self, entries: Mapping[str, FrontMatterEntry], faults: list[LintError]) -> None:
        self._entries = entries
        self._faults = faults

    def lines(self) -> dict[str, int]:
        """On which line each key stands."""
        return {key: entry.line for key, entry in self._entries.items()}

    def text(self, key: str) -> str:
        """One text, "" where there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return ""
        if entry.is_list:
            self._faults.append(LintError(entry.line, f"`{key}` is one text, not a list."))
            return ""
        return entry.texts[0].strip()

    def title(self, key: str, longest: int) -> str:
        """One text that fits on a line."""
        text = " ".join(self.text(key).split())
        if len(text) > longest:
            line = self._entries[key].line
            self._faults.append(
                LintError(line, f"`{key}` has {len(text)} characters: {longest} is the most.")
            )
        return text

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one text alone is a list of one."""
        entry = self._entries.get(key)
        stripped = [text.strip() for text in entry.texts] if entry else []
        return tuple(text for text in stripped if text)

    def words(self, key: str) -> tuple[str, ...] | None:
        """A list of names; `cats, pancakes` without quotes is two of them. None where nothing is written."""
        entry = self._entries.get(key)
        if entry is None or (not entry.is_list and not entry.texts[0].strip()):
            return None
        split = not entry.is_list and not entry.quoted
        parts = _COMMA.split(entry.texts[0]) if split else entry.texts
        words = (" ".join(part.split()) for part in parts)
        return tuple(dict.fromkeys(word for word in words if word))

    def commands(self, key: str) -> tuple[str, ...] | None:
        """A list of names as commands have them."""
        words = self.words(key)
        for word in words or ():
            if not _COMMAND.fullmatch(word):
                line = self._entries[key].line
                text = f"`{key}` holds names such as `send`, not `{display_line(word, 40)}`."
                self._faults.append(LintError(line, text))
        return words

    def switch(self, key: str, default: bool) -> bool:
        """Yes or no."""
        written = self.text(key)
        if written.lower() in _SWITCH:
            return _SWITCH[written.lower()]
        return self._otherwise(key, written, default, "`yes` or `no`")

    def number(self, key: str, least: int, most: int) -> int | None:
        """A whole number; None where nothing is written."""
        written = self.text(key)
        if _DIGITS.fullmatch(written) and least <= int(written) <= most:
            return int(written)
        return self._otherwise(key, written, None, f"a number from {least} to {most}")

    def pace(self, key: str, default: Pace) -> Pace:
        """One of the paces."""
        written = self.text(key)
        for pace in _PACES:
            if pace == written.lower():
                return pace
        return self._otherwise(key, written, default, " or ".join(f"`{pace}`" for pace in _PACES))

    def language(self, key: str, default: str) -> str:
        """A BCP 47 tag."""
        written = self.text(key)
        if _LANGUAGE_TAG.fullmatch(written):
            return written
        return self._otherwise(key, written, default, "a language tag such as `en`, `fa` or `zh-CN`")

    def _otherwise(self, key: str, written: str, default: _T, expected: str) -> _T:
        """The default where nothing is written; what is written instead of `expected` is a fault."""
        if written:
            text = f"`{key}` is {expected}, not `{display_line(written, 40)}`."
            self._faults.append(LintError(self._entries[key].line, text))
        return default
