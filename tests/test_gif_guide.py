"""docs/gifs.md keeps its word: settings, ratings, figures and forms are as it says."""

import re
from pathlib import Path

import pytest

from pixi.addons import gifs
from pixi.channels.discord.speaking.stickers import MOST_NAMES
from pixi.core.events import Performed, Pictured, to_json
from pixi.core.picture import Picture
from pixi.core.written import read_again
from pixi.settings import load
from pixi.web.gifs import folder as gif_folder
from pixi.web.gifs import services as gif_services
from tests.pages import ROOT, Block, blocks, read_page

GUIDE = read_page(ROOT / "docs" / "gifs.md")
ONE_LINE = " ".join(GUIDE.split())


@pytest.mark.parametrize("block", blocks(GUIDE, "toml"), ids=lambda block: block.text.split("\n")[1])
def test_the_examples_of_settings_are_taken(tmp_path: Path, block: Block) -> None:
    (tmp_path / "pixi.toml").write_text(block.text, encoding="utf-8")
    settings = load(environ={"PIXI_GIFS__API_KEY": "x"}, folder=tmp_path)
    assert settings.discord.stickers or settings.gifs.engine in ("klipy", "folder")
    assert settings.gifs.folder == tmp_path / "gifs"
    assert settings.gifs.rating == "pg"


def test_the_example_is_three_commands() -> None:
    (example,) = blocks(GUIDE, "")
    names = {"send": (), "gif": ()}
    assert [(act.name, act.argument) for act in read_again(example.text, names)] == [
        ("send", "it worked!!"),
        ("gif", "excited cat"),
        ("send", "i am the cat"),
    ]


def test_the_table_of_ratings_is_what_is_asked() -> None:
    rows = re.findall(r'^\| `"([\w-]+)"` \| (?:`(\w+)`|no) filtering \| `([\w-]+)` \|$', GUIDE, re.MULTILINE)
    assert {rating: klipy or "off" for rating, klipy, _ in rows} == dict(gif_services._KLIPY_FILTERS)
    assert all(rating == giphy for rating, _, giphy in rows)


def test_the_figures_are_those_of_the_code() -> None:
    assert f"at most {_word(gifs.PATIENCE)} seconds" in ONE_LINE
    assert f"the first {_word(gifs.CHOICES)} that fit" in ONE_LINE
    assert f"names of up to {MOST_NAMES}" in ONE_LINE
    assert f"above {gif_folder.MOST_BYTES // 1_000_000} MB" in ONE_LINE
    assert "for a minute" in ONE_LINE
    assert gif_services._REST == 60


def test_the_events_have_the_keys_that_are_told() -> None:
    picture = to_json(Pictured(Picture("a cat", "https://klipy.com/gifs/x", "KLIPY")))
    assert list(picture) == re.findall(r'"(\w+)":', GUIDE)[: len(picture)]
    assert '{"event": "command", "name": "gif", "argument": "excited cat"}' in GUIDE
    assert to_json(Performed("gif", "excited cat"))["event"] == "command"


def _word(number: float) -> str:
    return {5: "five", 6: "six"}[int(number)]
