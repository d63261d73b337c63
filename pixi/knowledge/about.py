"""What a folder says of itself: its README or `_about.md`, which describes the database to the model."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pixi.knowledge.one_line import on_one_line

_LONGEST_FILE = 65_536
_LONGEST = 4_000
"""Characters of it that a model is told at most."""

_SUFFIXES = ("", ".md", ".markdown", ".txt", ".rst")
_HEADING = re.compile(r"#\s+(.+?)\s*#*\s*\n|(?P<under>[^\n]+)\n(?:=+|-+)[ \t]*\n")


@dataclass(frozen=True, slots=True)
class About:
    """A description. Both are a stranger's words.

    Attributes:
        title: one line; the folder's name where the description begins with no heading.
        text: the rest; "" where there is none.
    """

    title: str
    text: str = ""


def describes(name: str) -> bool:
    """Whether a file of this name, at the top of a database's folder, describes it and is no entry."""
    stem, suffix = os.path.splitext(name.casefold())
    return stem in ("readme", "_about") and suffix in _SUFFIXES


def describe(folder: Path, name: str = "") -> About:
    """What the folder's description says; `_about.md` before a README."""
    title = on_one_line(re.sub(r"[_\s]+", " ", name or folder.name), longest=120)
    for path in _descriptions(folder):
        text = _read(path).strip()
        if not text:
            continue
        heading = _HEADING.match(f"{text}\n")
        if not heading:
            return About(title, text[:_LONGEST])
        told = on_one_line(heading["under"] or heading[1], longest=120)
        return About(told or title, text[heading.end() :].strip()[:_LONGEST])
    return About(title)


def _descriptions(folder: Path) -> list[Path]:
    """Files alone, and only such as lie in the folder: a link could show what is not meant to be shown."""
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
    return "\n".join(on_one_line(line, longest=_LONGEST) if line.strip() else "" for line in text.split("\n"))
