"""What a tiny model cannot do, said to people; and what a persona says whose language it does not know."""

import pytest

from pixi.core.persona import Persona, foreign_words, on_bundled, shortcomings, speaks_unknown

QIN = Persona("老秦", "你是老秦。", language="zh-CN", databases=("茶",))


def test_a_larger_model_goes_without_nothing() -> None:
    assert shortcomings(QIN, small=False) == ""


def test_a_tiny_model_quotes_the_databases_that_there_are() -> None:
    assert shortcomings(QIN, small=True) == (
        "a tiny model: no tools, no notes, no memory of people; when asked, it quotes 茶"
    )
    assert "quotes" not in shortcomings(Persona("Mo", "You are Mo."), small=True)


def test_a_language_that_is_not_known_is_told() -> None:
    assert on_bundled(QIN, ("en",)).endswith("; it does not know zh-CN")
    assert "does not know" not in on_bundled(Persona("Mo", "You are Mo.", language="en-GB"), ("en",))
    assert speaks_unknown(QIN, ("en", "de"))
    assert not speaks_unknown(QIN, ("zh",))


def test_its_own_words_come_before_those_of_its_language() -> None:
    own = Persona("老秦", "你是老秦。", language="zh-CN", when_foreign=("小伙计不懂中文。",))
    assert foreign_words(own) == "小伙计不懂中文。"
    assert "不懂中文" in foreign_words(QIN)


@pytest.mark.parametrize("language", ["fa", "sw", "nds-DE"])
def test_of_another_language_it_is_told_in_english(language: str) -> None:
    assert language in foreign_words(Persona("Mo", "You are Mo.", language=language))
