"""docs/settings.md tells of every setting, as the code has it; and the file of `init` points there."""

import dataclasses
import re
from importlib.resources import files

import pytest

from pixi.settings.sections import SECTIONS
from pixi.settings.values import known_keys
from tests.architecture_page import edited
from tests.pages import section
from tests.settings_page import PAGE, sections, sentences

MAKE = "python -m tests.settings_page makes the page anew"
TOLD = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_made_from_the_code() -> None:
    assert edited(TOLD, {"settings": sections()}) == TOLD, MAKE


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_of_a_section_has_a_sentence_of_its_own(title: str) -> None:
    keys = {field.name for field in dataclasses.fields(SECTIONS[title])}
    assert keys == set(sentences(SECTIONS[title]))
    assert all(text.endswith(".") and ". " not in text for text in sentences(SECTIONS[title]).values())


@pytest.mark.parametrize("title", sorted(known_keys().keys() - {"helper_model"}))
def test_every_key_stands_under_its_section_with_its_range(title: str) -> None:
    (heading,) = re.findall(rf"^## (`\[{re.escape(title)}(?:\.NAME)?\]`.*)$", TOLD, re.MULTILINE)
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \| .+ \|$", section(TOLD, heading), re.MULTILINE))
    assert rows.keys() == set(known_keys()[title])
    for key, value in rows.items():
        assert bool(re.search("number( from -?[0-9.,]+ to [0-9.,]+)$", value)) == ("number" in value), key


def test_the_file_of_init_is_short_and_says_where_every_key_is_told() -> None:
    text = (files("pixi") / "starter" / "settings.toml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 25
    assert "docs/settings.md lists every key" in text
