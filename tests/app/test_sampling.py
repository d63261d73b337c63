"""How a model samples: each value reaches its server under the name of its API, or stops the start."""

from dataclasses import replace
from typing import Any

import pytest

from pixi.app.models import open_model
from pixi.core.errors import ConfigError
from pixi.core.llm import Finished, Request, UserLine
from pixi.models import llama
from pixi.models.breaker import Breakers
from pixi.settings import ModelSettings, load
from pixi.settings.secret import Secret
from pixi.settings.sections import ApiForm, Sampling
from tests.servers import scripted_anthropic as claude
from tests.servers import scripted_gemini as google
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, finish, stream
from tests.servers.scripted_responses import responses

ALL: dict[str, Any] = {
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "repeat_penalty": 1.1,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "seed": 7,
    "stop": ("END", "###"),
}
PLAIN = ALL | {"stop": ["END", "###"]}
GEMINIS = {
    "topP": 0.9,
    "topK": 40,
    "frequencyPenalty": 0.5,
    "presencePenalty": -0.5,
    "seed": 7,
    "stopSequences": ["END", "###"],
}


def some(*names: str) -> dict[str, Any]:
    return {name: ALL[name] for name in names}


async def body_at(api: ApiForm, reply: Reply, **values: Any) -> Any:
    """The body of a request by that API, to a model that is to sample so."""
    async with ScriptedOpenAI(reply) as server:
        chosen = replace(ModelSettings(), name="m", base_url=server.base_url, api=api, **values)
        model = await open_model(chosen, 30.0, print, Breakers())
        deltas = [delta async for delta in model.stream(Request((UserLine("hi"),)))]
        await model.close()
    assert isinstance(deltas[-1], Finished)
    return server.requests[-1].json()


async def test_chat_completions_take_all_and_the_penalty_under_both_its_names() -> None:
    body = await body_at("chat", stream("hi", finish()), **ALL, extra_body={"seed": 8, "n": 1})
    expected = PLAIN | {"repetition_penalty": 1.1, "seed": 8, "n": 1}
    assert {name: body[name] for name in expected} == expected
    assert not (await body_at("chat", stream("hi", finish()))).keys() & ALL.keys()


async def test_the_other_apis_take_what_they_know_in_their_own_words() -> None:
    body = await body_at("responses", responses("hi"), top_p=0.9)
    assert body["top_p"] == 0.9
    body = await body_at("anthropic", claude.message(claude.text("hi")), stop=("END",))
    assert body["stop_sequences"] == ["END"]
    known = some("top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "stop")
    extra = {"generationConfig": {"topK": 5}}
    body = await body_at("gemini", google.reply(google.said("hi")), **known, extra_body=extra, max_tokens=9)
    assert body["generationConfig"] == GEMINIS | {"topK": 5, "maxOutputTokens": 9}


@pytest.mark.parametrize(
    ("api", "refused"),
    [
        ("chat", "OpenAI's chat completions, which knows no top_k, min_p, repeat_penalty:"),
        ("responses", "the Responses API, which knows no top_k, min_p, repeat_penalty, frequency_penalty"),
        ("anthropic", "Anthropic's Messages API, which knows no top_p, top_k, min_p"),
        ("gemini", "Gemini's API, which knows no min_p, repeat_penalty:"),
    ],
)
async def test_what_an_api_has_no_words_for_stops_the_start(api: ApiForm, refused: str) -> None:
    chosen = replace(ModelSettings(), name="m", api_key=Secret("k"), api=api, **ALL)
    with pytest.raises(ConfigError, match=f"^The model 'm' is asked by {refused}"):
        await open_model(chosen, 30.0, print, Breakers())


async def test_a_model_that_runs_here_is_given_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    async def opened(path: object, **wanted: object) -> None:
        asked.update(wanted)

    monkeypatch.setattr(llama.LocalModel, "open", opened)
    await open_model(replace(ModelSettings(), **ALL), 30.0, print, Breakers())
    assert asked["sampling"] == PLAIN


def test_they_are_read_as_every_setting_is() -> None:
    environ = {f"PIXI_MODEL__{name.upper()}": str(value) for name, value in ALL.items()}
    settings = load(environ=environ | {"PIXI_MODEL__STOP": "END, ###", "PIXI_MODELS__CALM__TEMPERATURE": "0"})
    assert settings.model == replace(ModelSettings(), **ALL)
    assert settings.models["calm"].seed == 7  # it is [model] with one key on top
    assert Sampling(seed=0).fields_for("chat") == {"seed": 0}
    with pytest.raises(ConfigError, match=r"model\.top_p is 2; it must be a number from 0 to 1\."):
        load({"model": {"top_p": 2}}, environ={})
