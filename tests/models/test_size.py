"""How large models are, by whoever tells: their names, servers nearby, or the settings; and what follows."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pixi.core.llm import Request, SystemLine, ToolSchema, UserLine
from pixi.models import traits
from pixi.models.faults import Server
from pixi.models.model import Traits
from pixi.models.server_model import ServerModel
from pixi.models.traits import describe, size_in, sized, tools_for
from tests.servers.scripted_openai import Hang, Reply, ScriptedOpenAI, answer, content, finish, stream

SAID = stream(content("[SEND: hi]"), finish())
LOOK = ToolSchema("look", "look", {"type": "object", "properties": {}})
ASKED = Request((SystemLine("You are Bo."), UserLine("hi")), (LOOK,), grammar="root ::= [a-z]")
PROPS = answer(200, {"chat_template": "<~turn~>"})


def listing(*models: tuple[str, int]) -> Reply:
    """As llama.cpp tells which models it has."""
    return answer(200, {"data": [{"id": name, "meta": {"n_params": count}} for name, count in models]})


def shown(size: str, count: object = None) -> Reply:
    """As Ollama tells of a model."""
    info = {} if count is None else {"general.parameter_count": count}
    return answer(200, {"details": {"parameter_size": size}, "model_info": info})


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., ServerModel]]:
    """Makes models that are closed when the test ends."""
    models: list[ServerModel] = []

    def make_model(base_url: str, name: str = "scripted", **settings: Any) -> ServerModel:
        chosen: dict[str, Any] = {"learns": True, "grammar": "auto", **settings}
        models.append(ServerModel(name, base_url=base_url, **chosen))
        return models[-1]

    yield make_model
    for model in models:
        await model.close()


async def ask(model: ServerModel, request: Request = ASKED) -> None:
    async for _ in model.stream(request):
        pass


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("qwen3:8b", 8),
        ("llama-3.2-3b", 3),
        ("Qwen2.5-1.5B-Instruct-Q4_K_M", 1.5),
        ("SmolLM2-135M-Instruct.Q4_1", 0.135),
        ("134.52M", 0.13452),
        ("mixtral-8x7b", 56),
        ("gemma-3n-e4b-it", 4),
        ("qwen3-30b-a3b", 30),  # three of its thirty work at a time
        ("qwen2.5-7b-instruct-1m", 7),  # it can hold a million tokens
        ("claude-sonnet-5[1m]", None),
        ("gpt-4o", None),
        ("some-model-4bit", None),
        ("command-r7b-12-2024", None),
        ("0b", None),
    ],
)
def test_what_a_name_tells(name: str, size: float | None) -> None:
    assert size_in(name) == size


@pytest.mark.parametrize(
    ("parameters", "wanted", "line"),
    [
        (0.135, "auto", "135M: short prompt, no tools"),
        (0.6999, "text", "700M: short prompt, tools"),
        (0.7, "auto", "700M: whole prompt, no tools"),
        (1.54, "auto", "1.5B: whole prompt, no tools"),
        (1.54, "text", "1.5B: whole prompt, tools"),
        (3.0, "auto", "3B: whole prompt, tools"),
        (70.6, "off", "71B: whole prompt, no tools"),
        (None, "auto", "size unknown: whole prompt, tools"),
    ],
)
def test_what_follows_from_a_size(parameters: float | None, wanted: Any, line: str) -> None:
    assert describe(sized(Traits(), parameters, tools_for(parameters, wanted))) == line


@pytest.mark.parametrize(
    ("about", "name", "line"),
    [
        ({"/props": [PROPS], "/v1/models": [listing(("a.gguf", 1_543_714_304))]}, "scripted", "1.5B: whole"),
        (
            {"/props": [PROPS], "/v1/models": [listing(("big", 8_000_000_000), ("tiny", 135_000_000))]},
            "tiny",
            "135M: short",
        ),
        ({"/api/show": [shown("8.2B", 8_190_735_360)]}, "scripted", "8.2B: whole"),
        ({"/api/show": [shown("134.52M")]}, "scripted", "135M: short"),
        # What the server tells goes before the name, and the name before nothing.
        ({"/api/show": [shown("1.5B")]}, "someone-70b", "1.5B: whole"),
        ({"/api/show": [shown("unknown", "many")]}, "zork-0.5b", "500M: short"),
        ({"/api/show": [shown("unknown", 10**400)]}, "zork-0.5b", "500M: short"),
        ({"/props": [PROPS], "/v1/models": [listing(("a", 10**400))]}, "zork-0.5b", "500M: short"),
        ({"/api/show": [answer(200, {"error": "Unexpected endpoint"})]}, "scripted", "size unknown: whole"),
        ({"/props": [answer(200, {"ok": True})], "/api/show": [answer(200, "[[[")]}, "zork", "size unknown"),
    ],
)
async def test_a_server_nearby_tells_how_large_its_model_is(
    make: Callable[..., ServerModel], about: dict[str, list[Reply]], name: str, line: str
) -> None:
    async with ScriptedOpenAI(SAID, about=about) as server:
        model = make(server.base_url, name)
        await model.learn()
        assert describe(model.traits).startswith(line)
        asked = len(server.questions)
        await ask(model)
        assert asked == len(server.questions) == 2


async def test_a_small_model_at_a_server_is_offered_no_tools_unless_they_are_set(
    make: Callable[..., ServerModel],
) -> None:
    async with ScriptedOpenAI(SAID, about={"/api/show": [shown("1.5B")]}) as server:
        await ask(make(server.base_url))
        await ask(make(server.base_url, tools="text"))
        await ask(make(server.base_url, tools="native"))
        await ask(make(server.base_url, traits=Traits(parameters=8.0)))
    plain, in_text, native, as_set = (json.loads(each.body) for each in server.requests)
    assert "tools" not in plain
    assert "look" not in str(plain["messages"])
    assert "tools" not in in_text
    assert "look" in str(in_text["messages"])
    assert "tools" in native
    assert "tools" in as_set
    # One whose size is set is asked for its control words alone.
    assert [each.path.split("?")[0] for each in server.questions][-1] == "/props"


@pytest.mark.parametrize(("by_llama", "name"), [(True, "scripted"), (False, "zork-135m")])
async def test_a_tiny_model_nearby_gets_what_suits_it(
    make: Callable[..., ServerModel], by_llama: bool, name: str
) -> None:
    about = {"/props": [PROPS], "/v1/models": [listing(("a", 135_000_000))]} if by_llama else {}
    style = {"temperature": 0.4, "min_p": 0.05, "max_tokens": 160}
    async with ScriptedOpenAI(SAID, about=about) as server:
        await ask(make(server.base_url, name, tiny_style=style))
        set_ = {"temperature": 0.9, "extra_body": {"min_p": 0.2}, "grammar": "off"}
        await ask(make(server.base_url, name, tiny_style=style, **set_))
    tiny, as_set = (json.loads(each.body) for each in server.requests)
    assert {key: tiny[key] for key in style} == style
    assert ("grammar" in tiny) == by_llama
    assert (as_set["temperature"], as_set["min_p"], as_set["max_tokens"]) == (0.9, 0.2, 160)
    assert "grammar" not in as_set


async def test_a_larger_model_at_llama_cpp_is_held_to_no_grammar_but_to_its_control_words(
    make: Callable[..., ServerModel],
) -> None:
    about = {"/props": [PROPS], "/v1/models": [listing(("a", 1_543_714_304))]}
    async with ScriptedOpenAI(SAID, about=about) as server:
        await ask(make(server.base_url), Request((UserLine("a <~turn~> b"),), grammar="root ::= [a-z]"))
    body = json.loads(server.requests[0].body)
    assert "grammar" not in body
    assert body["messages"][0]["content"] == "a <\u2060~turn~> b"


async def test_a_server_that_is_away_is_asked_again_and_one_that_hangs_is_not(
    make: Callable[..., ServerModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedOpenAI(
        SAID, about={"/props": [answer(503, {}), answer(404, {})], "/api/show": [shown("1.5B")]}
    ) as server:
        model = make(server.base_url)
        await model.learn()
        assert describe(model.traits).startswith("size unknown")
        await ask(model)
        assert describe(model.traits).startswith("1.5B")
    monkeypatch.setattr(traits, "_SECONDS", 0.05)
    async with ScriptedOpenAI(SAID, about={"/props": [Reply((Hang(),))]}) as server:
        model = make(server.base_url)
        await model.learn()
        await ask(model)
        assert len(server.questions) == 1
    model = make(server.base_url)  # nobody listens there any more
    await model.learn()
    assert describe(model.traits).startswith("size unknown")


@pytest.mark.parametrize(
    ("address", "nearby"),
    [
        ("http://192.168.1.7:8080/v1", True),
        ("http://ollama:11434/v1", True),
        ("http://box.local/v1", True),
        ("http://[fd00::1]:8080/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
async def test_only_servers_nearby_are_asked(
    make: Callable[..., ServerModel], monkeypatch: pytest.MonkeyPatch, address: str, nearby: bool
) -> None:
    asked = []

    async def ask_about_model(_: object, server: Server, *__: object, **___: object) -> traits.ServedModel:
        asked.append(server.base_url)
        return traits.ServedModel()

    monkeypatch.setattr("pixi.models.server_model.ask_about_model", ask_about_model)
    await make(address).learn()
    assert asked == ([address] if nearby else [])
