"""The settings of limits and prices: what may be used, what it costs, and mistakes in either."""

from pathlib import Path

import pytest

from pixi.core.llm import Prices
from pixi.core.spending import Allowance, Budgets
from tests.test_settings import fault, loaded

STOP = "[limits]\nmonth_dollars = 20\n"
SERVER = '[model]\nname = "gpt-5-mini"\n'


def test_without_any_limit_everything_may_be_used(tmp_path: Path) -> None:
    assert loaded(tmp_path).limits.budgets == Budgets()


def test_limits_of_a_day_and_a_month_are_read(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "[limits]\nperson_messages = 20\nperson_tokens = 100_000\nchannel_tokens = 7\nguild_writes = 0\n"
        "month_dollars = 12.5\ncommands = 3",
        PIXI_LIMITS__PERSON_WRITES="4",
    )
    assert settings.limits.budgets == Budgets(
        Allowance(20, 100_000, 4), Allowance(tokens=7), Allowance(writes=0), 12.5
    )
    assert settings.limits.commands == 3


def test_prices_stand_in_a_table_by_the_names_of_models(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        SERVER
        + "[helper_model]\nname = 'qwen/qwen3:8b'\nprices = { prompt = 9, completion = 9 }\n"
        + "[models.fast]\nname = 'gpt-4.1'\n[models.other]\nname = 'x'\n[embedding_model]\nname = 'vectors'\n"
        + "[[model.fallback]]\nname = 'gpt-4.1'\n"
        + "[prices]\ngpt-5-mini = { prompt = 1, completion = 2, cached = 0.5 }\n"
        + "'gpt-4.1' = { prompt = 3, completion = 4 }\n'qwen/qwen3:8b' = { prompt = 5, completion = 6 }\n"
        + '"vectors" = { prompt = 7, completion = 0 }\n"nobody\'s" = { prompt = 8, completion = 8 }',
    )
    assert settings.model.prices == Prices(1, 2, 0.5)
    assert settings.models["fast"].prices == Prices(3, 4, 3)
    assert settings.models["other"].prices is None
    assert settings.model.fallback[0].prices == Prices(3, 4, 3)
    assert settings.helper_model.prices == Prices(9, 9, 9), "its own section is nearer"
    assert settings.embedding_model is not None
    assert settings.embedding_model.prices == Prices(7, 0, 7)
    assert settings.prices["nobody's"] == Prices(8, 8, 8)


def test_a_model_of_meanings_writes_nothing(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "[embedding_model]\nname = 'v'\nprices = { prompt = 0.02 }")
    assert settings.embedding_model is not None
    assert settings.embedding_model.prices == Prices(0.02, 0.0, 0.02)


@pytest.mark.parametrize(
    "toml",
    [
        STOP,
        STOP + '[model]\nname = "mine.gguf"',
        STOP + SERVER + "[prices]\ngpt-5-mini = { prompt = 1, completion = 2 }",
        STOP + SERVER + "prices = { prompt = 0, completion = 0 }",
        SERVER,
    ],
)
def test_the_dollars_of_a_month_can_be_counted(tmp_path: Path, toml: str) -> None:
    assert loaded(tmp_path, toml).limits.budgets.month_dollars in (20.0, None)


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (SERVER, "[model] 'gpt-5-mini'"),
        ("[helper_model]\nname = 'x'", "[helper_model] 'x'"),
        ("[models.fast]\nname = 'x'", "[models.fast] 'x'"),
        ("[[model.fallback]]\nname = 'x'", "[[model.fallback]] 'x'"),
        ("[embedding_model]\nname = 'x'", "[embedding_model] 'x'"),
    ],
)
def test_a_price_that_is_not_known_stops_the_start(tmp_path: Path, toml: str, told: str) -> None:
    text = fault(tmp_path, STOP + toml)
    assert text == (
        "pixi.toml, line 2: month_dollars needs the price of each model, and none is known for "
        f'{told}; add "{told.split(chr(39))[1]}" = {{ prompt = …, completion = … }} to [prices], '
        "with 0 if it costs nothing."
    )


def test_a_model_without_a_name_has_no_price(tmp_path: Path) -> None:
    told = fault(tmp_path, STOP + '[model]\nbase_url = "http://localhost:1/v1"')
    assert "and [model] names none; give it a name and prices" in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (
            "person_messages = -1",
            "limits.person_messages is -1; it must be a whole number from 0 to 1,000,000.",
        ),
        ("guild_tokens = 1e3", "limits.guild_tokens is 1000.0; it must be a whole number from 0 to"),
        ("channel_writes = 1_000_001", "it must be a whole number from 0 to 1,000,000."),
        ("person_tokens = 99999999999999999", "from 0 to 1,000,000,000,000."),
        ("month_dollars = -5", "limits.month_dollars is -5; it must be a number from 0.01 to 1,000,000."),
        ("month_dollars = 0", "it must be a number from 0.01 to 1,000,000."),
        ("month_dollars = nan", "it must be a number from 0.01 to 1,000,000."),
        ("month_dollars = inf", "it must be a number from 0.01 to 1,000,000."),
        ('month_dollars = "much"', 'limits.month_dollars is "much"; it must be a number'),
        ("person_mesages = 1", "has no key 'person_mesages'; did you mean 'person_messages'?"),
        ("[prices]\nx = 1", "prices.x is 1; it must be dollars for a million tokens"),
        ("[prices]\nx = { prompt = -1, completion = 1 }", "each from 0 to 1,000,000."),
        ("[prices]\nx = { prompt = 1e9, completion = 1 }", "each from 0 to 1,000,000."),
        ("[prices]\nx = { prompt = 1, completion = inf }", "each from 0 to 1,000,000."),
        ("[prices]\nx = { prompt = 1 }", "it must be dollars for a million tokens"),
        ("[prices]\nx = { promt = 1 }", "prices.x has no key 'promt'; did you mean 'prompt'?"),
        (
            "[prices]\ngpt-4.1 = { prompt = 1, completion = 1 }",
            'pixi.toml: put the name of the model in quotes: "gpt-4.1" = { … }',
        ),
        ('[prices]\n"x/y" = 1', "pixi.toml, line 3: prices.x/y is 1"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, toml: str, told: str) -> None:
    text = fault(tmp_path, f"[limits]\n{toml}")
    assert told in text
    assert len(text.splitlines()) == 1


def test_prices_are_a_section(tmp_path: Path) -> None:
    assert "prices is a section; write [prices] and its keys below." in fault(tmp_path, "prices = 3")
    assert loaded(tmp_path, "[prices]").prices == {}
