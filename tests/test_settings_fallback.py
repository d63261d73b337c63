"""`[[model.fallback]]`: the models that stand by another, and what each mistake is told."""

import re
from pathlib import Path
from typing import Any

import pytest

from pixi.app.reload import changed_keys
from pixi.core.llm import Prices
from pixi.settings import ModelSettings, Secret, Settings
from pixi.settings.secret import secrets_in
from pixi.settings.values import known_keys
from tests.pages import ROOT, blocks, read_page
from tests.test_settings import fault, loaded

MAIN = """
[model]
name = "a"
base_url = "http://one/v1"
api_key = "key-one"
first_seconds = 9
temperature = 1
"""
LIST = """
[[model.fallback]]
name = "b"

[[model.fallback]]
name = "c"
base_url = "http://two/v1"
context_tokens = 4096
prices = { prompt = 1, completion = 2 }
gap_seconds = 3

[[model.fallback]]
name = "local"
"""

OTHERS = """
[[model.fallback]]
name = "b"
[models.same]
temperature = 2
[models.fast]
name = "f"
[models.far]
name = "g"
base_url = "http://far/v1"
api_key = "key-far"
[[models.far.fallback]]
name = "h"
[[models.far.fallback]]
name = "i"
base_url = "http://one/v1"
[helper_model]
name = "small"
[[helper_model.fallback]]
name = "smaller"
"""


def test_a_list_in_its_order(tmp_path: Path) -> None:
    settings = loaded(tmp_path, MAIN + LIST)
    near, far, local = settings.model.fallback
    assert near == ModelSettings(
        "b", base_url="http://one/v1", api_key=Secret("key-one"), first_seconds=9.0
    ), "address, key and patience are those of the model, and nothing else"
    assert far == ModelSettings(
        "c",
        base_url="http://two/v1",
        context_tokens=4096,
        prices=Prices(1, 2, 1),
        first_seconds=9.0,
        gap_seconds=3.0,
    )
    assert (local.name, local.fallback) == ("local", ())
    assert settings.sources["model.fallback"] == str(tmp_path / "pixi.toml")


def test_without_one_there_is_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, MAIN).model.fallback == ()


def test_other_sections_have_their_own(tmp_path: Path) -> None:
    settings = loaded(tmp_path, MAIN + OTHERS)
    assert [each.name for each in settings.models["same"].fallback] == ["b"]
    assert settings.models["fast"].fallback == ()
    near, back = settings.models["far"].fallback
    assert (near.name, near.base_url, near.api_key) == ("h", "http://far/v1", Secret("key-far"))
    assert (back.name, back.base_url, back.api_key) == ("i", "http://one/v1", None)
    (smaller,) = settings.helper_model.fallback
    assert (smaller.name, smaller.api_key) == ("smaller", Secret("key-one"))
    assert loaded(tmp_path, MAIN + '[[model.fallback]]\nname = "b"\n').helper_model.fallback[0].name == "b"


@pytest.mark.parametrize(
    ("base_url", "key"),
    [
        ("http://one/v1", "key-one"),
        ("http://one/v2", None),
        ("https://one/v1", None),
        ("http://one:8080/v1", None),
        ("http://one.example/v1", None),
        ("https://api.openai.com/v1", "ambient"),
    ],
)
def test_a_key_never_goes_to_another_server(tmp_path: Path, base_url: str, key: str | None) -> None:
    table = f'[[model.fallback]]\nname = "b"\nbase_url = "{base_url}"\n'
    (other,) = loaded(tmp_path, MAIN + table, OPENAI_API_KEY="ambient").model.fallback
    assert other.api_key == (Secret(key) if key else None)
    (own,) = loaded(tmp_path, MAIN + table + 'api_key = "own"\n', OPENAI_API_KEY="ambient").model.fallback
    assert own.api_key == Secret("own")


def test_a_model_here_can_have_one_at_a_server_behind_it(tmp_path: Path) -> None:
    (other,) = loaded(tmp_path, '[[model.fallback]]\nname = "gpt"\n', OPENAI_API_KEY="ambient").model.fallback
    assert (other.base_url, other.api_key) == ("https://api.openai.com/v1", Secret("ambient"))


def test_an_address_without_a_name_means_the_servers_only_model(tmp_path: Path) -> None:
    (other,) = loaded(tmp_path, MAIN + '[[model.fallback]]\nbase_url = "http://two/v1"\n').model.fallback
    assert other.name == ""


def test_a_variable_holds_the_whole_list(tmp_path: Path) -> None:
    variables: dict[str, Any] = {"PIXI_MODEL__FALLBACK": '[{"name": "x"}, {"name": "y", "vision": true}]'}
    settings = loaded(tmp_path, MAIN + LIST, **variables)
    assert [(each.name, each.vision) for each in settings.model.fallback] == [("x", False), ("y", True)]


def test_no_key_of_a_list_prints(tmp_path: Path) -> None:
    settings = loaded(tmp_path, MAIN + '[[model.fallback]]\nname = "b"\napi_key = "canary-key"\n')
    assert "canary-key" not in repr(settings)
    assert "canary-key" in secrets_in(settings)


def test_a_list_that_changed_is_told_as_one_key(tmp_path: Path) -> None:
    def of(toml: str) -> Settings:
        return loaded(tmp_path, toml)

    assert changed_keys(of(MAIN), of(MAIN + LIST)) == ("model.fallback",)
    assert changed_keys(of(MAIN + LIST), of(MAIN + LIST.replace('"c"', '"d"'))) == ("model.fallback",)


FAULTS = [
    (
        '[[model.fallback]]\nname = "b"\n[[model.fallback]]\nname = "c"\nnmae = 1',
        "pixi.toml, line 5: [[model.fallback]] has no key 'nmae'; did you mean 'name'?",
    ),
    (
        '[[models.fast.fallback]]\nname = "c"\nprose = "send"',
        "pixi.toml, line 3: [[models.fast.fallback]] has no key 'prose'; it belongs in [reply].",
    ),
    (
        '[[helper_model.fallback]]\nname = "c"\ntemperature = 9',
        "pixi.toml, line 3: helper_model.fallback.temperature is 9; it must be a number from 0 to 5.",
    ),
    (
        '[[models.fast.fallback]]\nname = "c"\nfirst_seconds = 0',
        "line 3: models.fast.fallback.first_seconds is 0; it must be a number from 0.01 to 3,600.",
    ),
    (
        '[[model.fallback]]\nname = "c"\nbase_url = "localhost"',
        'line 3: model.fallback.base_url is "localhost"; it must be an address such as https://api.openai.com/v1.',
    ),
    (
        "[model]\nfallback = []",
        "pixi.toml, line 2: model.fallback is empty; name a model in it, or remove it.",
    ),
    (
        '[model.fallback]\nname = "b"',
        "pixi.toml, line 1: several models can stand in a list: write [[model.fallback]], in two brackets.",
    ),
    (
        '[model]\nfallback = "b"',
        "line 2: model.fallback is a list of models: write [[model.fallback]] and its",
    ),
    ('[model]\nfallback = ["b"]', "model.fallback is a list of models"),
    (
        '[[model.fallback]]\nname = "b"\n[[model.fallback]]\ntemperature = 1',
        "pixi.toml, line 3: [[model.fallback]] names no model; give it a name or a base_url.",
    ),
    ("[[model.fallback]]\n", "pixi.toml, line 1: [[model.fallback]] names no model"),
    (
        '[[model.fallback]]\nname = "b"\n[[model.fallback.fallback]]\nname = "c"',
        "a fallback has none of its own; write each model as a [[model.fallback]].",
    ),
    ('[reply]\nfallback = "x"', "[reply] has no key 'fallback'; it belongs in [model]."),
    ('[[embedding_model.fallback]]\nname = "x"', "[embedding_model] has no key 'fallback'"),
]


@pytest.mark.parametrize(("toml", "told"), FAULTS)
def test_a_mistake_is_told_with_its_place_and_mend(tmp_path: Path, toml: str, told: str) -> None:
    assert told in fault(tmp_path, toml)


@pytest.mark.parametrize("value", ["b", "[", "{}", '[{"nmae": "x"}]', "3"])
def test_a_mistake_in_a_variable_is_told(tmp_path: Path, value: str) -> None:
    variables: dict[str, Any] = {"PIXI_MODEL__FALLBACK": value}
    assert fault(tmp_path, **variables).startswith("PIXI_MODEL__FALLBACK: ")
    assert "write PIXI_MODEL__FALLBACK" in fault(tmp_path, PIXI_MODEL_FALLBACK=value)


def test_the_page_about_it_says_what_is_taken(tmp_path: Path) -> None:
    page = read_page(ROOT / "docs" / "models.md")
    settings = [loaded(tmp_path, block.text, OPENAI_API_KEY="k").model for block in blocks(page, "toml")]
    (listed,) = [each for each in settings if each.fallback]
    assert [each.name for each in listed.fallback] == ["qwen3:8b", "local"]
    assert [each.seed for each in settings if each.seed] == [7]
    told = {name for row in re.findall(r"(?m)^\| (`\w.*?) \|", page) for name in re.findall(r"`(\w+)`", row)}
    assert told == set(known_keys()["model"])


def test_what_a_server_speaks_goes_along_with_its_address(tmp_path: Path) -> None:
    settings = loaded(tmp_path, MAIN + 'api = "responses"\n' + LIST + OTHERS.partition("[models.same]")[2])
    assert [each.api for each in settings.model.fallback] == ["responses", "auto", "responses"]
    fast, far = settings.models["fast"], settings.models["far"]
    assert (fast.api, far.api, settings.helper_model.api) == ("responses", "auto", "responses")
    assert [each.api for each in far.fallback] == ["auto", "auto"]


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ('name = "c"\napi = "anthropic"\n', "own-canary-1"),
        ('name = "c"\nbase_url = "https://api.anthropic.com/v1"\n', "own-canary-1"),
        ('name = "c"\napi = "anthropic"\napi_key = "set-canary-2"\n', "set-canary-2"),
        ('name = "c"\napi = "chat"\n', "openai-canary-3"),
        ('name = "c"\nbase_url = "https://models.example/v1"\n', "openai-canary-3"),
        ('name = "c"\napi = "gemini"\n', None),
        ('name = "c"\napi = "gemini"\nbase_url = "https://models.example"\n', "openai-canary-3"),
    ],
)
def test_a_provider_with_a_variable_of_its_own_is_sent_that_key(
    tmp_path: Path, toml: str, key: str | None
) -> None:
    settings = loaded(
        tmp_path, f"[model]\n{toml}", OPENAI_API_KEY="openai-canary-3", ANTHROPIC_API_KEY="own-canary-1\n"
    )
    assert settings.model.api_key == (None if key is None else Secret(key))
    assert settings.helper_model.api_key == settings.model.api_key
    if key:
        assert key in secrets_in(settings)


def test_no_mistake_shows_a_key(tmp_path: Path) -> None:
    for toml in ('api_key = "canary canary"', "api_key = 1234567", 'fallback = "canary"', 'nmae = "canary"'):
        told = fault(tmp_path, f'[[model.fallback]]\nname = "b"\n{toml}\n')
        assert "canary" not in told.replace("'canary'", "")
        assert "1234567" not in told
    told = fault(tmp_path, '[model]\nfallback = [{ api_key = "canary" }, 3]\n')
    assert "canary" not in told
