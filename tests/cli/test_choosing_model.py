"""Which model answers where none is set: what is offered, what is asked once, what is written down."""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.formatted_text import fragment_list_to_text, to_formatted_text
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pixi.cli import chat, choosing_model, discord, frame
from pixi.cli.choosing_model import ModelOption, _label, chosen_model, options_of, said_of
from pixi.core.errors import ConfigError, ModelError
from pixi.core.providers import providers_with_key
from pixi.models import hub, machine
from pixi.models.hub import CatalogueModel
from pixi.models.machine import FoundServer, KnownServer
from pixi.settings import load
from pixi.settings.model_choice import server_of
from pixi.settings.sources import write_model
from tests.cli.conftest import Program
from tests.servers.scripted_openai import ScriptedOpenAI, answer
from tests.waiting import LIMIT

OLLAMA = FoundServer("Ollama", "http://127.0.0.1:11434/v1", ("nomic-embed-text", "big:cloud", "qwen3:8b"))
LLAMA_CPP = FoundServer("llama.cpp", "http://127.0.0.1:8080/v1", ("/home/mo/tiny-7b.gguf",))


@pytest.fixture(autouse=True)
def hub_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test environment have what downloads need, or not."""
    monkeypatch.setattr(
        choosing_model, "find_spec", lambda name: object() if name == "huggingface_hub" else find_spec(name)
    )


@pytest.fixture(autouse=True)
def nothing_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is there yet, and there is memory for it."""
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8_000_000_000)
    monkeypatch.setattr(hub, "cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (choosing_model, chat, discord):
        monkeypatch.setattr(module, "at_terminal", lambda: True, raising=False)


def serves(monkeypatch: pytest.MonkeyPatch, *servers: tuple[str, ScriptedOpenAI]) -> None:
    known = [KnownServer(kind, urlsplit(server.base_url).port or 0) for kind, server in servers]
    monkeypatch.setattr(machine, "KNOWN_SERVERS", known)
    monkeypatch.setattr(machine, "FINDING_SECONDS", LIMIT)


def listing(*names: str) -> ScriptedOpenAI:
    return ScriptedOpenAI(answer(200, {"data": [{"id": name} for name in names]}))


def asked(home: Path, keys: str) -> Mapping[str, str]:
    """What is set by somebody who presses keys."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        return chosen_model(load(folder=home), asks=True)


def titles(options: list[ModelOption]) -> list[str]:
    return [option.title for option in options]


def test_models_that_are_here_come_first_then_keys_then_downloads_then_the_tiny_one() -> None:
    providers = providers_with_key({"OPENAI_API_KEY": "sk", "GROQ_API_KEY": "gsk"})
    options = [*options_of([OLLAMA, LLAMA_CPP], providers)]
    assert titles(options) == [
        "qwen3:8b",
        "tiny-7b.gguf",
        "big:cloud",
        "gpt-5-mini",
        "openai/gpt-oss-120b",
        "Download qwen2.5-1.5b",
        "The tiny included one",
    ]
    local = {"base_url": OLLAMA.base_url, "api_key": "none"}
    assert options[0].values == {"name": "qwen3:8b", **local}
    # A name that would be a file of this machine is left to the server, which has no other.
    assert options[1].values == {"base_url": LLAMA_CPP.base_url, "api_key": "none"}
    assert options[-1].values == {"name": "local"}


def test_the_key_of_another_address_is_not_offered_for_openai() -> None:
    providers = providers_with_key({"OPENAI_API_KEY": "sk"})
    offered = options_of([], providers, "https://models.example/v1")
    assert titles([*offered]) == ["Download qwen2.5-1.5b", "The tiny included one"]


@pytest.mark.parametrize("base_url", ["", "https://models.example/v1"])
@pytest.mark.parametrize("key_name", ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"])
def test_the_key_of_a_provider_goes_to_no_other_address(home: Path, base_url: str, key_name: str) -> None:
    environ = {"OPENAI_BASE_URL": base_url, key_name: "sk"}
    (provider,) = providers_with_key(environ)
    option = next(options_of([], [provider], base_url))
    write_model(home / "pixi.toml", option.values)
    model = load(folder=home, environ=environ).model
    assert model.api_key is not None
    assert model.api_key.reveal() == "sk"
    place = server_of(model.base_url, model.api)
    assert place in (provider.base_url, model.api)


def test_what_cannot_be_downloaded_here_is_offered_last_with_the_mend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        choosing_model, "find_spec", lambda name: None if name == "huggingface_hub" else find_spec(name)
    )
    tiny, download = options_of([], ())
    assert tiny.values == {"name": "local"}
    assert download.note.endswith('needs pip install "pixi-persona[hub]"')


def test_what_the_memory_does_not_hold_is_not_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: 1_000_000_000)
    tiny, download = options_of([], ())
    assert tiny.values == {"name": "local"}
    assert download.note.endswith("too large: this machine has 1.0 GB")


def test_of_many_models_some_are_offered() -> None:
    many = FoundServer("LM Studio", "http://127.0.0.1:1234/v1", tuple(f"m{number}" for number in range(50)))
    assert titles([*options_of([many, OLLAMA], ())])[:5] == ["m0", "m1", "m2", "qwen3:8b", "big:cloud"]


def test_a_model_that_was_downloaded_is_offered_before_the_tiny_one() -> None:
    model = hub.catalogue()[1]
    model.path.parent.mkdir()
    model.path.touch()
    offered = [*options_of([], ())]
    assert titles(offered) == [model.name, "The tiny included one"]
    assert offered[0].values == {"name": str(model.path)}


def test_a_long_name_shows_its_beginning_and_its_end() -> None:
    name = "hf.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M"
    label = fragment_list_to_text(to_formatted_text(_label(ModelOption(name, "Ollama here", {}), 48)))
    assert label.split() == ["hf.co/bartowski/Met…Instruct-GGUF:Q4_K_M", "Ollama", "here"]


def test_what_is_wrong_with_a_server_is_said_with_its_mend() -> None:
    dead = FoundServer("Ollama", "http://127.0.0.1:11434/v1", state="silent")
    locked = FoundServer("Jan", "http://127.0.0.1:1337/v1", state="locked")
    empty = FoundServer("vLLM", "http://127.0.0.1:8000/v1")
    assert said_of([], "m")[0] == "m answers now. No model server runs on this machine."
    said = said_of([dead, locked, empty])
    assert [line.partition(" at ")[0] for line in said[1:]] == ["Ollama", "Jan", "vLLM"]
    assert "does not answer" in said[1]
    assert "wants a key" in said[2]
    assert "no model yet" in said[3]


async def test_enter_takes_what_was_found_and_it_is_written_and_not_asked_again(
    home: Path, terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "pixi.toml").write_text("# mine\n[reply]\nprose = 'send'\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnop")
    async with listing("qwen3:8b") as server:
        serves(monkeypatch, ("Ollama", server))
        assert await asyncio.to_thread(asked, home, "\r") == {}
        written = f'[model]\nname = "qwen3:8b"\nbase_url = "{server.base_url}"\napi_key = "none"\n'
        assert (home / "pixi.toml").read_text() == f"# mine\n[reply]\nprose = 'send'\n\n{written}"
        out = capsys.readouterr().out
        assert "pixi.toml" in out
        assert 'name = "qwen3:8b"' in out
        assert "sk-abc" not in out
        assert len(server.requests) == 1
        model = load(folder=home).model
        assert model.api_key is not None
        assert model.api_key.reveal() == "none"  # and not OpenAI's
        assert await asyncio.to_thread(asked, home, "") == {}
        assert len(server.requests) == 1


@pytest.mark.parametrize("keys", ["2", "2\r"], ids=["alone", "with_enter_behind_it"])
def test_a_number_takes_another_at_once(
    home: Path, terminal: None, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "fetch", lambda *_, **__: pytest.fail("the first one was taken"))
    asked(home, keys)
    assert load(folder=home).model.name == "local"
    assert (home / "pixi.toml").read_text() == '[model]\nname = "local"\n'


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_whoever_leaves_has_changed_nothing(home: Path, terminal: None, key: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        asked(home, key)
    assert [*home.iterdir()] == []


def test_what_was_found_nowhere_is_downloaded_after_a_yes(
    home: Path, terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: list[str] = []

    async def fetch(model: CatalogueModel, **_: object) -> Path:
        wanted.append(model.name)
        if len(wanted) == 1:
            raise ModelError("huggingface.co could not be reached.")
        return home / "brain.gguf"

    monkeypatch.setattr(hub, "fetch", fetch)
    asked(home, "\r\r")  # it fails; then the tiny one is the first
    assert wanted == ["qwen2.5-1.5b"]
    assert "could not be reached" in capsys.readouterr().err
    assert load(folder=home).model.name == "local"
    (home / "pixi.toml").unlink()
    asked(home, "\r")
    assert load(folder=home).model.name == str(home / "brain.gguf")


def test_a_download_that_is_stopped_tells_how_it_goes_on(
    home: Path, terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fetch(model: CatalogueModel, **_: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(hub, "fetch", fetch)
    with pytest.raises(KeyboardInterrupt):
        asked(home, "\r")
    assert "is kept" in capsys.readouterr().err
    assert [*home.iterdir()] == []


def test_what_cannot_be_written_holds_for_this_run(
    home: Path, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "pixi.toml").write_text("model.temperature = 0.5\n")
    assert asked(home, "2") == {"model.name": "local"}
    assert 'under [model]: name = "local"' in capsys.readouterr().err


async def test_a_name_alone_is_found_at_the_first_server_that_has_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        listing("llama3") as first,
        listing("qwen3:latest") as second,
        listing("qwen3:latest") as third,
    ):
        serves(monkeypatch, ("Ollama", first), ("LM Studio", second), ("Jan", third))
        settings = load(folder=home, overrides={"model.name": "qwen3"})
        found = await asyncio.to_thread(chosen_model, settings, asks=False)
    assert found == {"model.name": "qwen3:latest", "model.base_url": second.base_url, "model.api_key": "none"}
    assert "LM Studio is asked" in capsys.readouterr().err


async def test_a_model_of_the_catalogue_goes_by_its_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = hub.catalogue()[1]
    settings = load(folder=home, overrides={"model.name": model.name})
    async with listing("llama3") as server:
        serves(monkeypatch, ("Ollama", server))
        with pytest.raises(ConfigError, match=f"models get {model.name}"):
            await asyncio.to_thread(chosen_model, settings, asks=False)
    model.path.parent.mkdir()
    model.path.touch()
    for environ in ({}, {"OPENAI_API_KEY": "sk"}):
        settings = load(folder=home, overrides={"model.name": model.name}, environ=environ)
        assert await asyncio.to_thread(chosen_model, settings, asks=False) == {"model.name": str(model.path)}


async def test_a_name_that_no_server_has_is_told_with_the_nearest(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listing("qwen3:8b", "llama3") as server:
        serves(monkeypatch, ("Ollama", server))
        settings = load(folder=home, overrides={"model.name": "qwen3:9b"})
        with pytest.raises(ConfigError) as caught:
            await asyncio.to_thread(chosen_model, settings, asks=False)
    told = str(caught.value)
    assert len(told.splitlines()) == 2
    for part in ("'qwen3:9b'", "Ollama has qwen3:8b, llama3", "Do you mean qwen3:8b?", "OPENAI_API_KEY"):
        assert part in told


@pytest.mark.parametrize(
    ("overrides", "environ"),
    [
        ({"model.name": "x", "model.base_url": "http://127.0.0.1:9/v1"}, {}),
        ({"model.name": "x"}, {"OPENAI_API_KEY": "sk"}),
        ({"model.name": "x"}, {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}),
        ({"model.name": "x"}, {"PIXI_MODEL__API": "anthropic"}),
        ({"model.name": "local"}, {}),
        ({"model.name": "x.gguf"}, {}),
        ({}, {"PIXI_MODEL__NAME": "local"}),
    ],
)
async def test_nobody_is_looked_for_where_it_is_said_who_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch, overrides: dict[str, str], environ: dict[str, str]
) -> None:
    async with listing("x") as server:
        serves(monkeypatch, ("Ollama", server))
        settings = load(folder=home, overrides=overrides, environ=environ)
        assert await asyncio.to_thread(chosen_model, settings, asks=True) == {}
        assert server.requests == []


def test_discord_without_a_model_and_a_terminal_says_what_to_mend(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = program("discord")
    assert code == 2
    assert "DISCORD_TOKEN" in err  # all that is missing is told at once
    assert "No model is set" in err
    monkeypatch.setenv("DISCORD_TOKEN", "x" * 30)
    code, _, err = program("discord")
    assert (code, err.count("\n")) == (2, 2)
    assert "No model is set" in err


def test_init_asks_too_and_writes_into_its_settings(
    home: Path, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("2")
        assert frame.run(["init", "mine"]) == 0
    text = (home / "mine" / "pixi.toml").read_text()
    assert '\n[model]\nname = "local"\n# name = ' in text
    assert load(folder=home / "mine").model_is_set
    assert "Talk to the example persona" not in capsys.readouterr().err
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        assert frame.run(["init", "mine"]) == 0  # it is set: nobody is asked


def test_doctor_shows_what_is_there(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_not_to_be_shown")

    async def find_servers() -> tuple[FoundServer, ...]:
        return (OLLAMA, FoundServer("Jan", "http://127.0.0.1:1337/v1", state="silent"))

    monkeypatch.setattr(machine, "find_servers", find_servers)
    _, out, _ = program("doctor")
    found = [line.removeprefix("ok   found — ") for line in out.splitlines() if line.startswith("ok   found")]
    assert found[0].startswith(
        "Ollama at http://127.0.0.1:11434/v1 has nomic-embed-text, big:cloud, qwen3:8b"
    )
    assert "does not answer" in found[1]
    assert found[2].startswith("keys of Groq (GROQ_API_KEY)")
    assert found[3].startswith("no model is set")
    assert "not_to_be_shown" not in out
