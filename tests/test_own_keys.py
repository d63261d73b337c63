"""The keys of providers that have a variable of their own: where each comes from, and how it is told."""

from pathlib import Path

import pytest

from pixi.app.doctor.checks import check_key
from pixi.app.models import server_model_of
from pixi.core.errors import ConfigError
from pixi.models.deadlines import Deadlines
from pixi.settings import ModelSettings, Settings
from pixi.settings.load import load
from pixi.settings.model_choice import key_name

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}


async def told(settings: Settings) -> list[tuple[bool, str]]:
    return [(finding.ok, finding.text) async for finding in check_key(settings)]


@pytest.mark.parametrize(("api", "variable"), KEYS.items())
async def test_its_own_key_is_taken_and_named(tmp_path: Path, api: str, variable: str) -> None:
    given = {"PIXI_MODEL__NAME": "x", "PIXI_MODEL__API": api, "OPENAI_API_KEY": "openais"}
    settings = load(environ=given | {variable: "its-own"}, folder=tmp_path)
    assert settings.model.api_key is not None
    assert settings.model.api_key.reveal() == "its-own"
    assert await told(settings) == [(True, f"set by {variable}")]
    # OpenAI's is not sent there in its place.
    bare = load(environ=given, folder=tmp_path)
    assert bare.model.api_key is None
    assert await told(bare) == [(False, f"there is none: set {variable} in the environment or in .env")]


def test_a_host_has_its_own_key_in_any_api() -> None:
    for host, variable in [
        ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("https://models.example/v1", "OPENAI_API_KEY"),
    ]:
        assert key_name(ModelSettings(base_url=host)) == variable


def test_a_provider_without_a_key_of_its_own_takes_the_usual_one(tmp_path: Path) -> None:
    given = {"PIXI_MODEL__BASE_URL": "https://api.groq.com/openai/v1", "OPENAI_API_KEY": "usual"}
    for more, sent in [({}, "usual"), ({"GROQ_API_KEY": "its-own"}, "its-own")]:
        key = load(environ=given | more, folder=tmp_path).model.api_key
        assert key is not None
        assert key.reveal() == sent


OPENAIS = ("https://api.openai.com/v1", "https://api.openai.com/v1/", "https://api.openai.com", "")


@pytest.mark.parametrize("base_url", OPENAIS)
@pytest.mark.parametrize(("api", "variable"), KEYS.items())
def test_however_openais_address_is_written_its_key_stays_there(
    tmp_path: Path, base_url: str, api: str, variable: str
) -> None:
    given = {"PIXI_MODEL__NAME": "x", "PIXI_MODEL__API": api, "OPENAI_API_KEY": "openais"}
    settings = load(environ=given | ({"OPENAI_BASE_URL": base_url} if base_url else {}), folder=tmp_path)
    assert settings.model.api_key is None
    with pytest.raises(ConfigError, match=rf"no key for the model 'x' at \S+: set {variable} in"):
        server_model_of(settings.model, "x", native=False, deadlines=Deadlines())


STAND_INS = """\
[model]
name = "a"
api = "{api}"
api_key = "set-canary"

[[model.fallback]]
name = "b"
api = "{other}"

[helper_model]
api = "{other}"

[models.c]
name = "c"
api = "{other}"

[models.same]
name = "same"

[embedding_model]
name = "e"
"""


@pytest.mark.parametrize(
    ("api", "other"),
    [("chat", "anthropic"), ("responses", "gemini"), ("anthropic", "chat"), ("gemini", "anthropic")],
)
def test_a_key_that_is_set_goes_to_no_other_provider(tmp_path: Path, api: str, other: str) -> None:
    (tmp_path / "pixi.toml").write_text(STAND_INS.format(api=api, other=other))
    settings = load(environ={}, folder=tmp_path)
    told = settings.model.api_key
    assert told is not None
    assert settings.models["same"].api_key == told
    elsewhere = [*settings.model.fallback, settings.helper_model, settings.models["c"]]
    assert [(each.api, each.api_key) for each in elsewhere] == [(other, None)] * 3
    # What makes vectors of texts is asked at OpenAI's address.
    assert settings.embedding_model is not None
    assert settings.embedding_model.api_key == (None if api in KEYS else told)
