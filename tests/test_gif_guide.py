"""docs/gifs.md keeps its word: its settings are taken, its example is read, its events are so."""

import re
from pathlib import Path

import pytest

from pixi.core.events import Performed, Pictured, to_json
from pixi.core.message import Picture
from pixi.core.reading import commands_in
from pixi.settings import load
from tests.pages import ROOT, Block, blocks, read_page

GUIDE = read_page(ROOT / "docs" / "gifs.md")


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
    assert [(act.name, act.argument) for act in commands_in(example.text, names)] == [
        ("send", "it worked!!"),
        ("gif", "excited cat"),
        ("send", "i am the cat"),
    ]


def test_the_events_have_the_keys_that_are_told() -> None:
    picture = to_json(Pictured(Picture("a cat", "https://klipy.com/gifs/x", "KLIPY")))
    assert list(picture) == re.findall(r'"(\w+)":', GUIDE)[: len(picture)]
    assert '{"event": "command", "id": …, "name": "gif", "argument": "excited cat"}' in GUIDE
    assert to_json(Performed("gif", "excited cat"))["event"] == "command"
