"""Files of the project that a shipped database holds without copies of them: its `_sources.toml`.

A shipped database may name files of the folder in which `databases/` lies, as its pages do that explain
Pixi. Only a shipped one: a folder that came from a stranger must not reach what lies beside it.
"""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pixi.core.errors import ConfigError
from pixi.knowledge.one_line import on_one_line

NAME = "_sources.toml"


def shipped_folder() -> Path:
    """The folder of the databases that come with Pixi, in an installed package and in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / "databases"
    return installed if installed.is_dir() else package.parent / "databases"


def sources_of(folder: Path) -> tuple[Path, tuple[str, ...]] | None:
    """The house that a database's sources are relative to, and their patterns; None where it names none.

    Raises:
        ConfigError: the file is not well made, names what it may not, or the database is none of Pixi's.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    databases = shipped_folder()
    if folder.parent != Path(os.path.realpath(databases)):
        raise ConfigError(f"{NAME} is heeded in Pixi's own databases alone; put the files into the folder.")
    try:
        patterns = tomllib.loads(path.read_text(encoding="utf-8")).get("files")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{NAME} cannot be read: {on_one_line(str(error))}") from error
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise ConfigError(f'{NAME} needs a list of patterns, e.g. files = ["docs/*.md"].')
    for pattern in patterns:
        if not _within(pattern, databases.name):
            raise ConfigError(f"{NAME}: `{on_one_line(pattern)}` leads out of the project; name files in it.")
    return folder.parent.parent, tuple(patterns)


def named_by(house: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The files, each once, with its path as written from the house."""
    seen: set[str] = set()
    for pattern in patterns:
        for path in sorted(house.glob(pattern)):
            name = path.relative_to(house).as_posix()
            inside = Path(os.path.realpath(path)).is_relative_to(house)
            hidden = any(part.startswith(".") for part in PurePosixPath(name).parts)
            if name not in seen and inside and not hidden and path.is_file():
                seen.add(name)
                yield name, path


def _within(pattern: str, databases: str) -> bool:
    parts = PurePosixPath(pattern).parts
    return bool(
        parts
        and "\\" not in pattern
        and ":" not in pattern
        and not pattern.startswith("/")
        and not any(part.startswith(".") for part in parts)
        and parts[0].casefold() != databases
        and not ((len(parts) > 1 or "**" in parts[0]) and any(mark in parts[0] for mark in "*?["))
    )
