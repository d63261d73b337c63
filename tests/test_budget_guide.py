"""docs/budgets.md: the settings that it shows are taken, and all of them are told."""

import dataclasses
import re
from pathlib import Path

from pixi.core.llm import Prices
from pixi.core.spending import Limits
from pixi.settings import LimitSettings, load
from tests.pages import ROOT, blocks, read_page

PAGE = read_page(ROOT / "docs" / "budgets.md")


def test_the_examples_of_settings_are_taken(tmp_path: Path) -> None:
    text = "\n".join(block.text for block in blocks(PAGE, "toml"))
    (tmp_path / "pixi.toml").write_text(text)
    settings = load(environ={}, folder=tmp_path)
    assert settings.limits.budgets.person.messages == 50
    assert settings.limits.month_dollars == 20
    assert settings.prices["gpt-5-mini"] == Prices(0.25, 2, 0.025)


def test_every_limit_of_a_day_and_a_month_is_told() -> None:
    own = {field.name for field in dataclasses.fields(LimitSettings)}
    own -= {field.name for field in dataclasses.fields(Limits)}
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == own
