"""Files of personas: the folders where they are found, and each read with what is wrong named by its line."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.persona import PLACEHOLDERS, Persona
from pixi.core.untrusted import display_line, display_path, name_key
from pixi.personas.front_matter import (
    KEYS,
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


class LoadedPersona(Struct, frozen=True):
    """A persona that was read from a file.

    Attributes:
        remarks: what in the file is hardly meant, by its lines; 50 at most.
        lines: on which line each key of the front matter stands.
    """

    path: Path
    persona: Persona
    remarks: tuple[LintWarning, ...] = ()
    lines: Mapping[str, int] = {}


class PersonaError(ConfigError):
    """A persona's file has faults.

    Attributes:
        loaded: what could be read all the same, where a wrong key counts as not written; None: nothing.
    """

    def __init__(self, *faults: str, loaded: LoadedPersona | None = None) -> None:
        super().__init__(*faults)
        self.loaded = loaded


def load_persona(path: Path) -> LoadedPersona:
    """Read a persona's file.

    Raises:
        ConfigError: the file cannot be read, or is no persona; each fault gives the file, line and mend.
    """
    return parse_persona(_read_text(path), path)


def parse_persona(text: str, path: Path) -> LoadedPersona:
    """Make a persona of a file's text. The file itself is not opened; a picture is looked for beside it.

    Raises:
        PersonaError: the text is no persona.
    """
    faults: list[LintError] = []
    loaded: LoadedPersona | None = None
    try:
        loaded = _parse(text, path, faults)
    except LintError as fault:  # nothing could be read
        faults.append(fault)
    if loaded is None or faults:
        first = sorted(faults, key=lambda fault: fault.line)[:_MOST_FAULTS]
        raise PersonaError(
            *(f"{display_path(path)}:{fault.line}: {fault.text}" for fault in first), loaded=loaded
        )
    return loaded


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
    unopened = [] if keys.lines else _unopened_front_matter(body, first_line)
    values = dict(keys.values)
    sections = read_sections(body, first_line)
    prompt, in_short = join(sections.prompt), join(sections.in_short)
    if not prompt.strip():
        faults.append(LintError(first_line, "there is no prompt: write here who the character is."))
    if in_short and values.get("in_short"):
        line = keys.lines["in_short"]
        faults.append(
            LintError(line, f"`in_short` stands a second time as `## {IN_SHORT}`: keep one of them.")
        )
    exchanges, remarks = read_exchanges(sections.examples)
    for exchange in exchanges:
        remarks.extend(check_reply(exchange, values.get("commands")))
    remarks.extend(sections.remarks)
    remarks.extend(unopened)
    remarks.extend(_unknown_placeholders(body, first_line))
    avatar = ""
    try:
        avatar, missing = find_avatar(values.get("avatar", ""), keys.lines.get("avatar", 1), path)
        remarks.extend([missing] if missing else [])
    except LintError as fault:
        faults.append(fault)
    values["name"] = values.get("name") or _name_from(path)
    values |= {"avatar": avatar, "in_short": in_short or values.get("in_short", "")}
    examples = tuple(exchange.example for exchange in exchanges)
    persona = Persona(prompt=prompt, examples=examples, origin=display_path(path), **values)
    remarks.sort(key=lambda remark: remark.line)
    return LoadedPersona(path, persona, tuple(remarks[:_MOST_REMARKS]), keys.lines)


def _split(text: str, faults: list[LintError]) -> tuple[FrontMatter, str, int]:
    """Return the front matter, the Markdown below it, and the line on which that begins."""
    lines = text.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled:
        raise LintError(1, "the file is empty: write here who the character is.")
    opens = filled[0]
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


def _unopened_front_matter(text: str, first_line: int) -> Iterator[LintWarning]:
    """Yield a warning of a front matter that no line `---` opens: it is read as a part of the prompt.

    It begins with a key and ends with a line of dashes. A first line such as `--` was meant to open it.
    """
    lines = [line.strip() for line in text.split("\n")]
    filled = [index for index, line in enumerate(lines) if line]
    if not filled:
        return
    first, keys_at, mend = filled[0], filled[0], "add a line `---` above this one"
    if _is_dashes(lines[first]):
        # Only the very next line: below a blank one, a rule of Markdown has a text and not keys.
        keys_at, mend = first + 1, "write exactly `---` on this line"
    key, colon, _ = "".join(lines[keys_at : keys_at + 1]).partition(":")
    if colon and key in KEYS and any(_is_dashes(line) for line in lines[keys_at + 1 :]):
        yield LintWarning(first_line + first, f"this is no front matter, but a part of the prompt: {mend}.")


def _is_dashes(line: str) -> bool:
    return line != "" and not line.strip("-—–")


def _unknown_placeholders(text: str, first_line: int) -> Iterator[LintWarning]:
    known = " and ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    line, counted = first_line, 0
    for braces in _BRACES.finditer(text):
        line += text.count("\n", counted, braces.start())
        counted = braces.start()
        if braces[1] not in PLACEHOLDERS:
            yield LintWarning(line, f"`{braces[0]}` stays as it is: only {known} are filled.")


def _name_from(path: Path) -> str:
    """Return a persona's name where its file gives none: the file's own."""
    words = re.sub("[-_]+", " ", unicodedata.normalize("NFC", display_path(Path(path.stem))))
    return " ".join(words.split()) or "persona"


def _read_text(path: Path) -> str:
    """Return the file's text.

    Raises:
        ConfigError: the file cannot be read, or is no text of a size that is read.
    """
    try:
        status = path.stat()
        problem = _not_a_text_file(status.st_mode, status.st_size)
        if problem:
            raise ConfigError(f"{display_path(path)}: {problem}")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        problem = "the link leads nowhere" if path.is_symlink() else "there is no such file"
        raise ConfigError(f"{display_path(path)}: {problem}; check the path.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(
            f"{display_path(path)}: cannot be read ({reason}); check the path and its permissions."
        ) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{display_path(path)}:{line}: this is not UTF-8; save the file as UTF-8."
        ) from error


def _not_a_text_file(mode: int, size: int) -> str:
    """Return why a file cannot be a persona's; "" if it can. A pipe or a device would block or never end."""
    if stat.S_ISDIR(mode):
        return "this is a folder; name a file in it."
    if not stat.S_ISREG(mode):
        return "this is not a plain file; name a text file."
    if size > LARGEST:
        return f"this is too large for a persona ({size:,} bytes); keep it under {LARGEST // 1024} KB."
    return ""


@dataclass(frozen=True, slots=True)
class BrokenPersona:
    """A file that is no persona.

    Attributes:
        faults: each gives the file, the line and the mend.
        loaded: what could be read all the same: the names in it can be checked too.
    """

    path: Path
    faults: tuple[str, ...]
    loaded: LoadedPersona | None = field(default=None, compare=False)


Found = LoadedPersona | BrokenPersona


def shipped_folder() -> Path:
    """Return the folder of the personas that come with Pixi, in an installed package and in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / "personas"
    return installed if installed.is_dir() else package.parent / "personas"


def persona_folders(own: Path, *, must_exist: bool = False) -> tuple[Path, ...]:
    """Return the folders of personas, in order: the operator's own, then the shipped one.

    Raises:
        ConfigError: `own` must exist, because somebody named it, and does not.
    """
    if must_exist and not own.exists():
        raise ConfigError(
            f"{display_path(own)}: there is no such folder of personas; create it, or mend the path."
        )
    shipped = shipped_folder()
    same = os.path.realpath(own) == os.path.realpath(shipped)
    return (own,) if same else (own, shipped)


def list_personas(folders: Sequence[Path], drafts: Mapping[Path, str] = {}) -> list[Found]:
    """Return every persona that can be found by name, and every file that is broken.

    A file is left out where an earlier folder has a persona of the same name. A folder that does not
    exist is empty.

    Args:
        folders: where to look, in order.
        drafts: texts that are read in place of the files of these paths.

    Raises:
        ConfigError: one of the folders is not a folder, or cannot be read.
    """
    found: list[Found] = []
    taken: set[str] = set()
    for folder in folders:
        here = [_load(path, folder, drafts.get(path)) for path in _files(folder)]
        found.extend(each for each in _with_namesakes(here) if not _names_of(each) <= taken)
        taken.update(*map(_names_of, here))
    return found


def find_persona(name_or_path: str, folders: Sequence[Path]) -> Persona:
    """Find a persona by the path of its file, by its file's name, or by its own name.

    Names are compared without regard to case. An earlier folder wins over a later one, and in one
    folder a file's name over a persona's.

    Raises:
        ConfigError: there is none (the text names the nearest), or its file is broken.
    """
    path = Path(os.path.expanduser(name_or_path))
    if path.name != name_or_path or (path.suffix.lower() == ".md" and os.path.lexists(path)):
        return load_persona(path).persona
    wanted = name_key(name_or_path.removesuffix(".md"))
    for folder in folders:
        found = _find_in(folder, wanted)
        if isinstance(found, BrokenPersona):
            raise ConfigError(*found.faults)
        if found:
            return found.persona
    raise ConfigError(_unknown(name_or_path, folders))


def _find_in(folder: Path, wanted: str) -> Found | None:
    """Return the persona of that name; None where there is none.

    Only where no file is called so are all read, for the names in them.
    """
    paths = list(_files(folder))
    for path in paths:
        if name_key(path.stem) == wanted:
            return _load(path, folder)
    for path in paths:
        found = _load(path, folder)
        if wanted in _names_of(found):
            return found
    return None


def _unknown(name: str, folders: Sequence[Path]) -> str:
    from rapidfuzz import fuzz, process

    from pixi.core.spending import some

    everything = list_personas(folders)
    names = {name_key(each.path.stem): each.path.stem for each in everything}
    names |= {
        name_key(each.persona.name): each.persona.name
        for each in everything
        if isinstance(each, LoadedPersona)
    }
    nearest = process.extractOne(name_key(name), list(names), scorer=fuzz.ratio, score_cutoff=60)
    known = some(sorted(names.values()), 12) or "none"
    mend = f"do you mean `{names[nearest[0]]}`?" if nearest else f"there are {known}."
    shipped = shipped_folder()
    places = " or ".join("Pixi's own folder" if each == shipped else display_path(each) for each in folders)
    return f"there is no persona `{display_line(name, 40)}` in {places}: {mend}"


def _with_namesakes(here: list[Found]) -> Iterator[Found]:
    """Yield the files of a folder, with a warning for each whose persona bears the name of one before it."""
    first: dict[str, Path] = {}
    for each in here:
        if isinstance(each, BrokenPersona):
            yield each
            continue
        other = first.setdefault(name_key(each.persona.name), each.path)
        if other == each.path:
            yield each
        else:
            text = f"`{each.persona.name}` is the name in {other.name} too: give one of them another."
            yield replace(each, remarks=(LintWarning(1, text), *each.remarks))


def _names_of(found: Found) -> set[str]:
    """Return the names under which a file is found, without regard to case."""
    names = {found.path.stem} if isinstance(found, BrokenPersona) else {found.path.stem, found.persona.name}
    return {name_key(name) for name in names}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the Markdown files of a folder in order of name, but for hidden ones and the folder's README."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise ConfigError(
            f"{display_path(folder)}: this is a file; name the folder of the personas."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{display_path(folder)}: cannot be read ({error.strerror}); check its permissions."
        ) from error
    for path in paths:
        hidden = path.name.startswith(".") or path.stem.lower() == "readme"
        if path.suffix.lower() == ".md" and not hidden:
            yield path


def _load(path: Path, folder: Path, draft: str | None = None) -> Found:
    """Read a file of a folder, or a draft in its place. A link that leads out of the folder is refused."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        text = f"{display_path(path)}: this link leads out of its folder; put the file itself there."
        return BrokenPersona(path, (text,))
    try:
        return load_persona(path) if draft is None else parse_persona(draft, path)
    except PersonaError as error:
        return BrokenPersona(path, error.faults, error.loaded)
    except ConfigError as error:
        return BrokenPersona(path, error.faults)
