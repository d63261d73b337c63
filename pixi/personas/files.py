"""A persona's file: from the bytes on the disk to a `Persona`, with whatever is wrong named by its line."""

import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.core.persona import PLACEHOLDERS, Persona
from pixi.core.untrusted import display_path
from pixi.personas.front_matter import (
    FrontMatter,
    LintError,
    LintWarning,
    find_avatar,
    find_unfit,
    read_front_matter,
)
from pixi.personas.sections import IN_SHORT, check_reply, join, read_exchanges, read_sections

LARGEST = 256 * 1024
"""Bytes of the largest file that is read."""

_MOST_REMARKS = 50
_MOST_FAULTS = 50
_BRACES = re.compile(r"\{\{([^{}\n]{0,80})\}\}")


@dataclass(frozen=True, slots=True)
class LoadedPersona:
    """A persona and what its file says that is hardly meant, the first 50 of it in the order of the lines.

    `lines` tells on which line each key of the front matter stands.
    """

    path: Path
    persona: Persona
    remarks: tuple[LintWarning, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)


class PersonaError(ConfigError):
    """A persona's file has faults.

    Attributes:
        loaded: what could be read all the same, where a wrong key counts as not written; None: nothing.
    """

    def __init__(self, *faults: str, loaded: LoadedPersona | None = None) -> None:
        super().__init__(*faults)
        self.loaded = loaded


def load_persona(path: Path) -> LoadedPersona:
    """Read a persona's file, and say what in it is hardly meant.

    Raises:
        ConfigError: it cannot be read, or is no persona; each fault gives the file, the line and the mend.
    """
    return parse_persona(_read_text(path), path)


def parse_persona(text: str, path: Path) -> LoadedPersona:
    """Make a persona of a file's text. `path` names it, and is not opened; its picture is looked for there.

    Raises:
        PersonaError: it is no persona.
    """
    faults: list[LintError] = []
    loaded: LoadedPersona | None = None
    try:
        loaded = _parse(text, path, faults)
    except LintError as fault:  # of the rest nothing can be told
        faults.append(fault)
    if loaded is None or faults:
        first = sorted(faults, key=lambda fault: fault.line)[:_MOST_FAULTS]
        raise PersonaError(*(f"{shown(path)}:{fault.line}: {fault.text}" for fault in first), loaded=loaded)
    return loaded


def shown(path: Path) -> str:
    """The path as a person can be shown it, whatever bytes are in it."""
    return display_path(path)


def _parse(text: str, path: Path, faults: list[LintError]) -> LoadedPersona:
    """Read the file as far as it can be read; what is wrong is added to `faults`, or raised."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    unfit = find_unfit(text)
    if unfit:
        line = text.count("\n", 0, unfit.start()) + 1
        raise LintError(
            line, f"delete the control character U+{ord(unfit[0]):04X}, or save the file as UTF-8."
        )
    keys, body, first_line = _split(text, faults)
    sections = read_sections(body, first_line)
    prompt, in_short = join(sections.prompt), join(sections.in_short)
    if not prompt.strip():
        faults.append(LintError(first_line, "there is no prompt: write here who the character is."))
    if in_short and keys.in_short:
        line = keys.lines["in_short"]
        faults.append(
            LintError(line, f"`in_short` stands a second time as `## {IN_SHORT}`: keep one of them.")
        )
    exchanges, remarks = read_exchanges(sections.examples)
    for exchange in exchanges:
        remarks.extend(check_reply(exchange, keys.commands))
    remarks.extend(sections.remarks)
    remarks.extend(_unknown_placeholders(body, first_line))
    avatar = ""
    try:
        avatar, missing = find_avatar(keys.avatar, keys.lines.get("avatar", 1), path)
        remarks.extend([missing] if missing else [])
    except LintError as fault:
        faults.append(fault)
    persona = Persona(
        name=keys.name or _name_from(path),
        prompt=prompt,
        about=keys.about,
        in_short=in_short or keys.in_short,
        summon=keys.summon,
        language=keys.language,
        likes=keys.likes,
        databases=keys.databases,
        tools=keys.tools,
        commands=keys.commands,
        confirm=keys.confirm,
        tool_steps=keys.tool_steps,
        pace=keys.pace,
        silence=keys.silence,
        when_broken=keys.when_broken,
        when_tired=keys.when_tired,
        when_foreign=keys.when_foreign,
        examples=tuple(exchange.example for exchange in exchanges),
        avatar=avatar,
        origin=shown(path),
    )
    remarks.sort(key=lambda remark: remark.line)
    return LoadedPersona(path, persona, tuple(remarks[:_MOST_REMARKS]), keys.lines)


def _split(text: str, faults: list[LintError]) -> tuple[FrontMatter, str, int]:
    """The front matter, the Markdown below it, and the line on which that begins."""
    lines = text.split("\n")
    opens = next((index for index, line in enumerate(lines) if line.strip()), None)
    if opens is None:
        raise LintError(1, "the file is empty: write here who the character is.")
    if lines[opens].rstrip() == "+++":
        raise LintError(opens + 1, "the front matter is YAML between two lines `---`, not TOML.")
    if lines[opens].rstrip() != "---":
        return FrontMatter(), text, 1
    for closes in range(opens + 1, len(lines)):
        if lines[closes].rstrip() == "---":
            keys, wrong = read_front_matter("\n".join(lines[opens + 1 : closes]), opens + 2)
            faults.extend(wrong)
            return keys, "\n".join(lines[closes + 1 :]), closes + 2
    raise LintError(opens + 1, "the front matter never ends: close it with a second line `---`.")


def _unknown_placeholders(text: str, first_line: int) -> Iterator[LintWarning]:
    known = " and ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    line, counted = first_line, 0
    for braces in _BRACES.finditer(text):
        line += text.count("\n", counted, braces.start())
        counted = braces.start()
        if braces[1] not in PLACEHOLDERS:
            yield LintWarning(line, f"`{braces[0]}` stays as it is: only {known} are filled.")


def _name_from(path: Path) -> str:
    """A persona's name where its file gives none: the file's own."""
    words = re.sub("[-_]+", " ", unicodedata.normalize("NFC", shown(Path(path.stem))))
    return " ".join(words.split()) or "persona"


def _read_text(path: Path) -> str:
    """The file's text. Whatever stands in the way is a `ConfigError`."""
    try:
        status = path.stat()
        problem = _not_a_text_file(status.st_mode, status.st_size)
        if problem:
            raise ConfigError(f"{shown(path)}: {problem}")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        problem = "the link leads nowhere" if path.is_symlink() else "there is no such file"
        raise ConfigError(f"{shown(path)}: {problem}; check the path.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(
            f"{shown(path)}: cannot be read ({reason}); check the path and its permissions."
        ) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{shown(path)}:{line}: this is not UTF-8; save the file as UTF-8.") from error


def _not_a_text_file(mode: int, size: int) -> str:
    """Why this cannot be a persona's file; "" if it can. A pipe or a device would block or never end."""
    if stat.S_ISDIR(mode):
        return "this is a folder; name a file in it."
    if not stat.S_ISREG(mode):
        return "this is not a plain file; name a text file."
    if size > LARGEST:
        return f"this is too large for a persona ({size:,} bytes); keep it under {LARGEST // 1024} KB."
    return ""
