"""The words of the pages: each language has all of them, with the same places to be filled in."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pixi.channels.http import pages

WORDS = Path(pages.__file__).parent / "page" / "words"
RULES = {"zero", "one", "two", "few", "many", "other"}


def places(words: dict[str, Any], above: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """The keys, each with what is filled in."""
    for key, value in words.items():
        if isinstance(value, dict) and not (value and value.keys() <= RULES):
            yield from places(value, f"{above}{key}.")
        else:
            text = value["other"] if isinstance(value, dict) else value
            yield f"{above}{key}", frozenset(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("face", sorted(path.name for path in WORDS.iterdir()))
@pytest.mark.parametrize("language", ["de", "es", "fr", "ja", "pt-BR", "zh-CN"])
def test_a_language_has_all_words(face: str, language: str) -> None:
    english, own = (
        dict(places(json.loads((WORDS / face / f"{tag}.json").read_text(encoding="utf-8"))))
        for tag in ("en", language)
    )
    assert own == english
