"""Where personas are found: folders of files, the operator's own before the shipped ones."""

import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rapidfuzz import fuzz, process

from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.core.untrusted import display_line
from pixi.personas.files import LoadedPersona, PersonaError, load_persona, parse_persona, shown
from pixi.personas.front_matter import LintWarning


@dataclass(frozen=True, slots=True)
class BrokenPersona:
    """A file that is no persona. Each of `faults` gives the file, the line and the mend.

    `loaded` is what could be read all the same: the names in it can be checked too.
    """

    path: Path
    faults: tuple[str, ...]
    loaded: LoadedPersona | None = field(default=None, compare=False)


Found = LoadedPersona | BrokenPersona


def shipped_folder() -> Path:
    """The folder of the personas that come with Pixi, in an installed package and in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / "personas"
    return installed if installed.is_dir() else package.parent / "personas"


def persona_folders(own: Path, *, must_exist: bool = False) -> tuple[Path, ...]:
    """Where to look, in order: the operator's own folder, then the shipped one.

    Raises:
        ConfigError: `own` must exist, because somebody named it, and does not.
    """
    if must_exist and not own.exists():
        raise ConfigError(f"{shown(own)}: there is no such folder of personas; create it, or mend the path.")
    shipped = shipped_folder()
    same = os.path.realpath(own) == os.path.realpath(shipped)
    return (own,) if same else (own, shipped)


def list_personas(folders: Sequence[Path], drafts: Mapping[Path, str] = {}) -> list[Found]:
    """Every persona that can be found by name, and every file that is broken.

    A file is left out where an earlier folder has a persona of the same name. A folder that does not
    exist is empty.

    Args:
        folders: where to look, in order.
        drafts: texts that stand for those of the files of these paths.

    Raises:
        ConfigError: one of the folders is not a folder, or cannot be read.
    """
    found: list[Found] = []
    taken: set[str] = set()
    for folder in folders:
        here = [_load(path, folder, drafts.get(path)) for path in _files(folder)]
        found.extend(each for each in _with_namesakes(here) if not _keys(each) <= taken)
        taken.update(key for each in here for key in _keys(each))
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
    wanted = _key(name_or_path.removesuffix(".md"))
    for folder in folders:
        found = _find_in(folder, wanted)
        if isinstance(found, BrokenPersona):
            raise ConfigError(*found.faults)
        if found:
            return found.persona
    raise ConfigError(_unknown(name_or_path, folders))


def _find_in(folder: Path, wanted: str) -> Found | None:
    """The file of that name; only where there is none, all are read for the names in them."""
    paths = list(_files(folder))
    for path in paths:
        if _key(path.stem) == wanted:
            return _load(path, folder)
    for path in paths:
        found = _load(path, folder)
        if wanted in _keys(found):
            return found
    return None


def _unknown(name: str, folders: Sequence[Path]) -> str:
    everything = list_personas(folders)
    names = {_key(each.path.stem): each.path.stem for each in everything}
    names |= {
        _key(each.persona.name): each.persona.name for each in everything if isinstance(each, LoadedPersona)
    }
    nearest = process.extractOne(_key(name), list(names), scorer=fuzz.ratio, score_cutoff=60)
    known = ", ".join(sorted(names.values())) or "none"
    mend = f"do you mean `{names[nearest[0]]}`?" if nearest else f"there are {known}."
    shipped = shipped_folder()
    places = " or ".join("Pixi's own folder" if each == shipped else shown(each) for each in folders)
    return f"there is no persona `{display_line(name, 40)}` in {places}: {mend}"


def _with_namesakes(here: list[Found]) -> Iterator[Found]:
    """The files of a folder; one whose persona has the name of another before it is told so."""
    first: dict[str, Path] = {}
    for each in here:
        if isinstance(each, BrokenPersona):
            yield each
            continue
        other = first.setdefault(_key(each.persona.name), each.path)
        if other == each.path:
            yield each
        else:
            text = f"`{each.persona.name}` is the name in {other.name} too: give one of them another."
            yield replace(each, remarks=(LintWarning(1, text), *each.remarks))


def _keys(found: Found) -> set[str]:
    """The names under which a file is found."""
    names = {found.path.stem} if isinstance(found, BrokenPersona) else {found.path.stem, found.persona.name}
    return {_key(name) for name in names}


def _key(name: str) -> str:
    """A name as it is compared: file systems and keyboards differ in how they spell an accent."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _files(folder: Path) -> Iterator[Path]:
    """The Markdown files of a folder in order of name, but for hidden ones and the folder's README."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise ConfigError(f"{shown(folder)}: this is a file; name the folder of the personas.") from error
    except OSError as error:
        raise ConfigError(
            f"{shown(folder)}: cannot be read ({error.strerror}); check its permissions."
        ) from error
    for path in paths:
        hidden = path.name.startswith(".") or path.stem.lower() == "readme"
        if path.suffix.lower() == ".md" and not hidden:
            yield path


def _load(path: Path, folder: Path, draft: str | None = None) -> Found:
    """Read a file of a folder. A link out of the folder is refused: what it shows is not the folder's.

    `draft`: what is read in place of its text.
    """
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        text = f"{shown(path)}: this link leads out of its folder; put the file itself there."
        return BrokenPersona(path, (text,))
    try:
        return load_persona(path) if draft is None else parse_persona(draft, path)
    except PersonaError as error:
        return BrokenPersona(path, error.faults, error.loaded)
    except ConfigError as error:
        return BrokenPersona(path, error.faults)
