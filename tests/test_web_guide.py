"""What docs/web.md says of pages holds."""

import re
import tomllib
from pathlib import Path

import pytest

from pixi.fetching.guard import Refused, parsed
from pixi.settings import load
from tests.pages import ROOT, blocks, read_page

PAGE = read_page(ROOT / "docs" / "web.md")


def test_the_settings_are_taken_and_are_the_defaults(tmp_path: Path) -> None:
    (text,) = (block.text for block in blocks(PAGE, "toml") if "[web_pages]" in block.text)
    (tmp_path / "pixi.toml").write_text(text, encoding="utf-8")
    told = load(environ={}, folder=tmp_path).web_pages
    default = load(environ={}, folder=tmp_path / "nothing").web_pages
    shown = tomllib.loads(text)["web_pages"]
    assert shown.keys() == {"read", "robots", "megabytes", "characters", "seconds", "personas", "contact"}
    for name in ("robots", "megabytes", "characters", "seconds"):
        assert getattr(told, name) == getattr(default, name) == shown[name]
    assert (told.read, told.personas) == (True, ("pixi",))
    assert (told.contact, default.contact) == (shown["contact"], "")


@pytest.mark.parametrize("host", re.findall(r"`(0x7f\.1|2130706433|0177\.0\.0\.1|127\.1|localhost)`", PAGE))
def test_what_is_told_to_be_refused_is(host: str) -> None:
    with pytest.raises(Refused):
        parsed(f"http://{host}/")
