"""Writes the tables of docs/settings.md from `pixi.settings`: `python -m tests.settings_page`.

A key's sentence is its line in the docstring of the dataclass that has it.
"""

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

from pixi.settings.sections import SECTIONS
from pixi.settings.sources import INNER, NAMED
from pixi.settings.values import words_for_key
from tests.architecture_page import edited, table
from tests.pages import ROOT

PAGE = ROOT / "docs" / "settings.md"

_LIKE_MODEL = ("helper_model",)
_ALSO = {"model": " · `[models.NAME]` · `[helper_model]`"}
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8,}.+)*)", re.MULTILINE)


def sections() -> str:
    """Make a table of keys for each section."""
    return "\n\n".join(_section(title, kind) for title, kind in SECTIONS.items() if title not in _LIKE_MODEL)


def sentences(kind: type) -> dict[str, str]:
    """Read what the docstrings of a dataclass say of each of its fields."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        about = inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n")[2]
        found |= {match[1]: " ".join(match[2].split()) for match in _ENTRY.finditer(about)}
    return found


def _section(title: str, kind: type) -> str:
    told = sentences(kind)
    header = f"{title}.NAME" if title in NAMED else title
    rows = [
        (
            f"`{field.name}`",
            "a secret" if "Secret |" in str(field.type) else words_for_key(f"{header}.{field.name}"),
            _default(field),
            _sentence(told[field.name]),
        )
        for field in _own_first(kind)
        if f"{title}.{field.name}" not in INNER
    ]
    purpose = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    head = f"## `[{header}]`{_ALSO.get(title, '')}"
    return (
        f"{head}\n\n{' '.join(purpose.split())}\n\n{table(('key', 'value', 'default', 'what it says'), rows)}"
    )


def _own_first(kind: type) -> "list[dataclasses.Field[Any]]":
    """Return the fields of a dataclass, those that it inherits last."""
    return sorted(dataclasses.fields(kind), key=lambda field: field.name not in kind.__annotations__)


def _default(field: "dataclasses.Field[Any]") -> str:
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if default is dataclasses.MISSING:
        return "must be set"
    if default is None:
        return "not set"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    if isinstance(default, Path):
        default = default.as_posix()
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


if __name__ == "__main__":
    PAGE.write_text(edited(PAGE.read_text(encoding="utf-8"), {"settings": sections()}), encoding="utf-8")
