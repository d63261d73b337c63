"""Calls of tools in words."""

import inspect
from typing import Any

import pytest

from pixi.addons import knowledge, memory, server_history, web, wiki
from pixi.channels.terminal.lines import _WORDS, call_in_words

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("search_pancakes_database", {"keyword": "crepe batter"}, "looks up “crepe batter” in pancakes"),
    ("query_tea_house_database", {"query": "how hot?", "ids": [1]}, "reads tea house for “how hot?”"),
    ("search_minecraft_wiki", {"query": "lava"}, "looks up “lava” in minecraft"),
    ("query_minecraft_wiki", {"question": "is it hot?"}, "reads minecraft for “is it hot?”"),
    ("search_pancakes_database", {}, "looks into pancakes"),
    ("web_search", {"query": "rain"}, "searches the web for “rain”"),
    ("read_page", {"url": "https://a.example/b"}, "reads https://a.example/b"),
    ("remember", {"fact": "they like tea"}, "remembers “they like tea”"),
    ("recall", {"query": ""}, "thinks back"),
    ("recall", {"query": " "}, "thinks back"),
    ("search", {"query": "x"}, "uses search: query x"),
    ("roll_dice", {}, "uses roll_dice"),
    ("convert", {"degrees": 375, "to": "celsius"}, "uses convert: degrees 375, to celsius"),
    ("f", dict.fromkeys("abcde", 1), "uses f: a 1, b 1, c 1, d 1, …"),
    ("evil\x1b[2J", {"a\nb": "c\x1b]0;x\x07"}, "uses evil[2J: a b c]0;x"),
]


@pytest.mark.parametrize(("tool", "arguments", "told"), CALLS)
def test_a_call_in_words(tool: str, arguments: dict[str, Any], told: str) -> None:
    assert call_in_words(tool, arguments) == told


def test_what_is_long_is_cut() -> None:
    assert len(call_in_words("remember", {"fact": "x" * 5_000})) < 120


def test_the_names_are_those_of_the_built_in_tools() -> None:
    source = "\n".join(inspect.getsource(module) for module in (knowledge, memory, server_history, web, wiki))
    for tool, (_, _, keys) in _WORDS.items():
        assert f"def {tool}(" in source
        assert all(f"{key}: Annotated[" in source for key in keys.split())
