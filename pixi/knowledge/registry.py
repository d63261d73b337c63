"""The databases that there are: where they lie, what they say of themselves, what their tools are called."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_line, display_path, name_key

_LONGEST_FILE = 65_536
_LONGEST = 4_000
"""Characters of it that a model is told at most."""

_SUFFIXES = ("", ".md", ".markdown", ".txt", ".rst")
_HEADING = re.compile(r"#\s+(.+?)\s*#*\s*\n|(?P<under>[^\n]+)\n(?:=+|-+)[ \t]*\n")


class DatabaseDescription(Struct, frozen=True):
    """A description. Both are a stranger's words.

    Attributes:
        title: one line; the folder's name where the description begins with no heading.
        text: the rest; "" where there is none.
    """

    title: str
    text: str = ""


def describes(name: str) -> bool:
    """Return True if a file of this name, at the top of a database's folder, describes it and is no entry."""
    stem, suffix = os.path.splitext(name.casefold())
    return stem in ("readme", "_about") and suffix in _SUFFIXES


def describe(folder: Path, name: str = "") -> DatabaseDescription:
    """Return what the folder's description says; `_about.md` before a README."""
    title = display_line(re.sub(r"[_\s]+", " ", name or folder.name), longest=120)
    for path in _descriptions(folder):
        text = _read(path).strip()
        if not text:
            continue
        heading = _HEADING.match(f"{text}\n")
        if not heading:
            return DatabaseDescription(title, text[:_LONGEST])
        told = display_line(heading["under"] or heading[1], longest=120)
        return DatabaseDescription(told or title, text[heading.end() :].strip()[:_LONGEST])
    return DatabaseDescription(title)


def _descriptions(folder: Path) -> list[Path]:
    """Return the files that describe a folder; a link that leads out of it is none of them."""
    try:
        with os.scandir(folder) as inside:
            names = [each.name for each in inside if describes(each.name) and each.is_file()]
    except OSError:
        return []
    root = os.path.realpath(folder)
    paths = [folder / name for name in sorted(names, key=lambda name: (name.casefold()[0] != "_", name))]
    return [path for path in paths if Path(os.path.realpath(path)).is_relative_to(root)]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_FILE).decode("utf-8-sig", "replace")
    except OSError:
        return ""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(
        display_line(line, longest=_LONGEST) if line.strip() else "" for line in text.split("\n")
    )


# A shipped database may name files of the folder in which `databases/` lies, as its pages do that explain
# Pixi. Only a shipped one: a folder that came from a stranger must not reach what lies beside it.

SOURCES_FILE = "_sources.toml"


def shipped_folder() -> Path:
    """Return the folder of the databases that come with Pixi, in an installed package and in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / "databases"
    return installed if installed.is_dir() else package.parent / "databases"


class _Sources(Struct):
    files: list[str]


def sources_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that a database names, each once, with its path as written from the project's folder.

    Raises:
        ConfigError: the database is none of Pixi's, or the file that names them is not well made.
    """
    path = folder / SOURCES_FILE
    if not path.is_file():
        return
    if folder.parent != Path(os.path.realpath(shipped_folder())):
        raise ConfigError(
            f"{SOURCES_FILE} is heeded in Pixi's own databases alone; put the files into the folder."
        )
    project = folder.parent.parent
    try:
        patterns = msgspec.toml.decode(path.read_bytes(), type=_Sources).files
        named = dict.fromkeys(each for pattern in patterns for each in sorted(project.glob(pattern)))
    except (OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(f"{SOURCES_FILE} cannot be read: {display_line(str(error))}") from error
    for source in named:
        within = source.relative_to(project)
        inside = Path(os.path.realpath(source)).is_relative_to(project)
        if inside and source.is_file() and not any(part.startswith(".") for part in within.parts):
            yield within.as_posix(), source


_LONGEST_TOOL = 40
"""Limit that keeps `search_…_database` below the 64 characters that model servers take."""

_ASCII = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_FEW = 2
"""Letters that a tool's name needs to say anything."""


class DatabaseRef(Struct, frozen=True):
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

    def describe(self) -> DatabaseDescription:
        """Read its title, and what its README or `_about.md` says."""
        return describe(self.folder, self.name)


def database_folders(own: Path, *, must_exist: bool = False) -> tuple[Path, ...]:
    """Return where to look, in order: the operator's own folder, then the shipped one.

    Raises:
        ConfigError: `own` must exist, because somebody named it, and does not.
    """
    if must_exist:
        require_folder(own)
    shipped = shipped_folder()
    same = os.path.realpath(own) == os.path.realpath(shipped)
    return (own,) if same else (own, shipped)


def databases_in(folders: Sequence[Path], names: Sequence[str] | None = None) -> list[DatabaseRef]:
    """Return every database there is, in order of name; with `names`, those alone, in their order.

    A folder is left out where an earlier one has a database of the same name. A folder of databases that
    does not exist is empty.

    Raises:
        ConfigError: one of the folders cannot be read, or one of the names is not there.
    """
    everything = _everything(folders)
    if names is None:
        return everything
    chosen = dict.fromkeys(name_key(name) for name in names)
    by_name = {name_key(each.name): each for each in everything}
    if unknown := [name for name in names if name_key(name) not in by_name]:
        raise ConfigError(_unknown(unknown[0], folders, everything))
    return [by_name[key] for key in chosen]


def source_of(database: str) -> str:
    """Return the source of a database's tools: a persona that names the database gets them all."""
    return f"database:{database}"


def find_database(name: str, folders: Sequence[Path]) -> DatabaseRef:
    """Find a database by the name of its folder or by its tool's; upper and lower case are the same.

    Raises:
        ConfigError: there is none; the text names the nearest.
    """
    everything = _everything(folders)
    found = {each.tool: each for each in everything} | {name_key(each.name): each for each in everything}
    if name_key(name) not in found:
        raise ConfigError(_unknown(name, folders, everything))
    return found[name_key(name)]


def require_folder(folder: Path) -> None:
    """See that there is such a folder.

    Raises:
        ConfigError: there is none; the text names the nearest one beside it.
    """
    if folder.is_dir():
        return
    if folder.exists():
        raise ConfigError(f"{display_path(folder)}: this is a file; name the folder that holds it.")
    place = folder.absolute().parent
    nearest = _nearest(folder.name, [each.name for each in _folders(place)])
    mend = f"do you mean {display_path(place / nearest)}?" if nearest else "create it, or mend the path."
    raise ConfigError(f"{display_path(folder)}: there is no such folder; {mend}")


def _everything(folders: Sequence[Path]) -> list[DatabaseRef]:
    shipped = shipped_folder()
    found: dict[str, Path] = {}
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{display_path(folder)}: this is a file; name the folder of the databases.")
        for each in _folders(folder):
            found.setdefault(name_key(each.name), each)
    paths = sorted(found.values(), key=lambda path: name_key(path.name))
    tools = tool_names([path.name for path in paths])
    return [DatabaseRef(path.name, tools[path.name], path, path.parent == shipped) for path in paths]


def _folders(place: Path) -> Iterator[Path]:
    """Yield the folders in a folder in order of name, but for hidden ones and those set aside by a `_`."""
    try:
        paths = sorted(place.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"{display_path(place)}: cannot be read ({error.strerror}); mend its permissions."
        ) from error
    for path in paths:
        # A name of other bytes than UTF-8 could neither be written nor asked for.
        speakable = not any("\ud800" <= character <= "\udfff" for character in path.name)
        if path.name[0] not in "._" and speakable and path.is_dir():
            yield path


def tool_names(names: Sequence[str]) -> dict[str, str]:
    """Return a name for each that every model server takes: of `a-z`, `0-9` and `_`, all different.

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
    """Return the script of its first letter, in one word: `cjk`, `arabic`, `cyrillic`."""
    letter = next((character for character in name if character.isalpha()), "")
    return unicodedata.name(letter, "NAME").split()[0].split("-")[0].lower() if letter else "name"


def _mark(name: str) -> str:
    return blake2b(name_key(name).encode("utf-8", "replace"), digest_size=3).hexdigest()


def _nearest(name: str, names: Sequence[str]) -> str:
    """Return the name that is most like another; "" where none is near."""
    from rapidfuzz import fuzz, process

    found = process.extractOne(name_key(name), names, scorer=fuzz.ratio, processor=name_key, score_cutoff=60)
    return found[0] if found else ""


def _unknown(name: str, folders: Sequence[Path], everything: Sequence[DatabaseRef]) -> str:
    from pixi.core.spending import some

    known = [each.name for each in everything]
    nearest = _nearest(name, known)
    there = some([*map(display_line, known)], 12) or "none"
    mend = f"do you mean `{display_line(nearest)}`?" if nearest else f"there are {there}."
    shipped = shipped_folder()
    places = " or ".join("Pixi's own folder" if each == shipped else display_path(each) for each in folders)
    return f"there is no database `{display_line(name, longest=60)}` in {places}: {mend}"
