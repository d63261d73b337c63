"""Every setting is told of: where people read, and in the file that `init` makes."""

import dataclasses
import re
from importlib.resources import files

import pytest

from pixi.settings.check import SECTIONS, known_keys
from tests.pages import PAGES, code, read_page

SECRETS = {"api_key", "token", "open_webui_secret"}  # which belong in `.env`
PARTS = [title for title, section in SECTIONS.items() if dataclasses.is_dataclass(section)]


def names_in(title: str) -> set[str]:
    return set(known_keys()[title])


@pytest.mark.parametrize("title", PARTS)
def test_every_setting_stands_in_a_page(title: str) -> None:
    told = "\n".join(line for path in PAGES for line in code(read_page(path)))
    assert not {name for name in names_in(title) if not re.search(rf"\b{name}\b", told)}


@pytest.mark.parametrize("title", PARTS)
def test_every_setting_stands_in_the_file_of_init(title: str) -> None:
    text = (files("pixi") / "starter" / "settings.toml").read_text(encoding="utf-8")
    assert not {
        name
        for name in names_in(title) - SECRETS
        if not re.search(rf"^# *(\[\[model\.)?{name}\b", text, re.MULTILINE)
    }
    assert not {name for name in SECRETS if re.search(rf"^# *{name} *=", text, re.MULTILINE)}
