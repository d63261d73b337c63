"""Where databases are found: the folders of a folder, the operator's own before the shipped ones."""

import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from rapidfuzz import fuzz, process

from pixi.core.errors import ConfigError
from pixi.knowledge.about import About, describe
from pixi.knowledge.one_line import on_one_line, shown
from pixi.knowledge.sources import shipped_folder

_LONGEST_TOOL = 40
"""So that `search_…_database` stays below the 64 characters that model servers take."""

_ASCII = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_FEW = 2
"""Letters that a tool's name needs to say anything."""


@dataclass(frozen=True, slots=True)
class Shelved:
    """A database that can be opened.

    Attributes:
        name: of its folder; a persona names it so.
        tool: the name as model servers take it, different for each, of `a-z`, `0-9` and `_`.
        folder: where its documents lie.
        shipped: it came with Pixi.
    """

    name: str
    tool: str
    folder: Path
    shipped: bool

    def describe(self) -> About:
        """Its title, and what its README or `_about.md` says; reads that file."""
        return describe(self.folder, self.name)


def database_folders(own: Path, *, must_exist: bool = False) -> tuple[Path, ...]:
    """Where to look, in order: the operator's own folder, then the shipped one.

    Raises:
        ConfigError: `own` must exist, because somebody named it, and does not.
    """
    if must_exist:
        require_folder(own)
    shipped = shipped_folder()
    same = os.path.realpath(own) == os.path.realpath(shipped)
    return (own,) if same else (own, shipped)


def databases_in(folders: Sequence[Path], names: Sequence[str] | None = None) -> list[Shelved]:
    """Every database there is, in order of name; with `names`, those alone, in their order.

    A folder is left out where an earlier one has a database of the same name. A folder of databases that
    does not exist is empty.

    Raises:
        ConfigError: one of the folders cannot be read, or one of the names is not there.
    """
    everything = _everything(folders)
    if names is None:
        return everything
    chosen = dict.fromkeys(_key(name) for name in names)
    by_name = {_key(each.name): each for each in everything}
    if unknown := [name for name in names if _key(name) not in by_name]:
        raise ConfigError(_unknown(unknown[0], folders, everything))
    return [by_name[key] for key in chosen]


def source_of(database: str) -> str:
    """The source of a database's tools: a persona that names the database gets them all."""
    return f"database:{database}"


def find_database(name: str, folders: Sequence[Path]) -> Shelved:
    """Find a database by the name of its folder or by its tool's; upper and lower case are the same.

    Raises:
        ConfigError: there is none; the text names the nearest.
    """
    everything = _everything(folders)
    wanted = _key(name)
    for each in everything:
        if wanted == _key(each.name):
            return each
    for each in everything:
        if wanted == each.tool:
            return each
    raise ConfigError(_unknown(name, folders, everything))


def require_folder(folder: Path) -> None:
    """See that there is such a folder.

    Raises:
        ConfigError: there is none; the text names the nearest one beside it.
    """
    if folder.is_dir():
        return
    if folder.exists():
        raise ConfigError(f"{shown(folder)}: this is a file; name the folder that holds it.")
    place = folder.absolute().parent
    beside = [each.name for each in _folders(place)]
    nearest = process.extractOne(
        _key(folder.name), beside, scorer=fuzz.ratio, processor=_key, score_cutoff=60
    )
    mend = f"do you mean {shown(place / nearest[0])}?" if nearest else "create it, or mend the path."
    raise ConfigError(f"{shown(folder)}: there is no such folder; {mend}")


def _everything(folders: Sequence[Path]) -> list[Shelved]:
    shipped = os.path.realpath(shipped_folder())
    found: dict[str, Path] = {}
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{shown(folder)}: this is a file; name the folder of the databases.")
        for each in _folders(folder):
            found.setdefault(_key(each.name), each)
    paths = sorted(found.values(), key=lambda path: _key(path.name))
    tools = tool_names([path.name for path in paths])
    return [
        Shelved(path.name, tools[path.name], path, os.path.realpath(path.parent) == shipped) for path in paths
    ]


def _folders(place: Path) -> Iterator[Path]:
    """The folders in a folder in order of name, but for hidden ones and those set aside by a `_`."""
    try:
        paths = sorted(place.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"{shown(place)}: cannot be read ({error.strerror}); mend its permissions."
        ) from error
    for path in paths:
        # A name of other bytes than UTF-8 could neither be written nor asked for.
        speakable = not any("\ud800" <= character <= "\udfff" for character in path.name)
        if path.name[0] not in "._" and speakable and path.is_dir():
            yield path


def tool_names(names: Sequence[str]) -> dict[str, str]:
    """A name for each that every model server takes in a tool's: of `a-z`, `0-9` and `_`, all different.

    What is Latin in a name stays, accents dropped. A name in another script is called after the script,
    with a mark that stays the same: the real name stands in the tool's description.
    """
    tools: dict[str, str] = {}
    taken: set[str] = set()
    # A name that is its own tool's name keeps it, whoever else comes near.
    for name in sorted(names, key=lambda name: (_latin(name) != name, name)):
        tool = _latin(name)[:_LONGEST_TOOL].strip("_")
        if sum(character.isalpha() for character in tool) < _FEW and tool != name:
            tool = f"{_script(name)}_{_mark(name)}"
        if tool in taken:
            tool = f"{tool[: _LONGEST_TOOL - 7]}_{_mark(name)}"
        tools[name] = tool
        taken.add(tool)
    return tools


def _latin(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).casefold()
    letters = (
        character if character in _ASCII else "" if unicodedata.combining(character) else " "
        for character in plain
    )
    return "_".join("".join(letters).split())


def _script(name: str) -> str:
    """The script of its first letter, in one word: `cjk`, `arabic`, `cyrillic`."""
    letter = next((character for character in name if character.isalpha()), "")
    return unicodedata.name(letter, "NAME").split()[0].split("-")[0].lower() if letter else "name"


def _mark(name: str) -> str:
    return blake2b(_key(name).encode("utf-8", "replace"), digest_size=3).hexdigest()


def _unknown(name: str, folders: Sequence[Path], everything: Sequence[Shelved]) -> str:
    known = {_key(each.name): on_one_line(each.name) for each in everything}
    nearest = process.extractOne(_key(name), list(known), scorer=fuzz.ratio, score_cutoff=60)
    there = ", ".join(known.values()) or "none"
    mend = f"do you mean `{known[nearest[0]]}`?" if nearest else f"there are {there}."
    shipped = shipped_folder()
    places = " or ".join("Pixi's own folder" if each == shipped else shown(each) for each in folders)
    return f"there is no database `{on_one_line(name, longest=60)}` in {places}: {mend}"


def _key(name: str) -> str:
    """A name as it is compared: file systems and keyboards differ in how they spell an accent."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())
