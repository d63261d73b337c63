"""`pixi-persona models`: the list, a model fetched from a hub on loopback, a model that is tried."""

import asyncio
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pixi.cli import frame
from pixi.cli.models_try import LINES, attempt, is_valid
from pixi.core.errors import ConfigError
from pixi.models import hub as catalogue_module
from pixi.models import machine
from pixi.models.hub import CatalogueModel
from pixi.models.machine import FoundServer, KnownServer, Trial
from pixi.models.weights import cache_folder
from tests.cli.conftest import Program
from tests.servers.loopback_hub import LoopbackHub, loopback_hub
from tests.servers.scripted_openai import ScriptedOpenAI, error, finish, stream

GGUF = b"GGUF" + bytes(range(256)) * 1000
GOOD = CatalogueModel(
    name="good",
    repository="tiny/model-GGUF",
    file="good.gguf",
    parameters=1.5,
    languages=("en", "zh"),
    licence="Apache-2.0",
    bytes=1_000_000_000,
    memory_bytes=2_000_000_000,
    source="https://huggingface.co/tiny/model-GGUF/tree/main",
)


@pytest.fixture(autouse=True)
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without servers, with a cache of its own, whose trial was made; and a small catalogue."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(home / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(machine, "KNOWN_SERVERS", (KnownServer("Ollama", 1),))  # nobody's port
    monkeypatch.setattr(catalogue_module, "catalogue", lambda: (GOOD,))
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8_000_000_000)

    async def made(*_: object, **__: object) -> Trial:
        return Trial("here", 100_000_000, 80.0)

    monkeypatch.setattr(machine, "trial", made)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub in a thread: the program has a loop of its own."""
    with _in_thread() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@contextmanager
def _in_thread() -> Iterator[LoopbackHub]:
    loop, found, stood = asyncio.new_event_loop(), [], threading.Event()
    ending = asyncio.Event()

    async def stand() -> None:
        async with loopback_hub(good=GGUF) as hub:
            found.append(hub)
            stood.set()
            await ending.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(stand(),))
    thread.start()
    stood.wait()
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
        loop.close()


class _Typed(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


def test_the_list_names_what_is_here_and_what_can_be_fetched(program: Program) -> None:
    cache_folder().mkdir(parents=True)
    mine = cache_folder() / "mine.gguf"
    mine.write_bytes(b"GGUF")
    os.truncate(mine, 50_000_004)
    code, out, err = program("models")
    assert (code, err) == (0, "")
    assert "none: no Ollama, and no other" in out
    assert f"{mine}\n  50.0 MB · about 160 tokens/s here" in out
    assert "good\n  1.5B parameters · Apache-2.0 · 1.0 GB\n  2.0 GB of memory · about 8 tokens/s here" in out
    assert "too large" not in out
    assert max(map(len, (line for line in out.splitlines() if str(mine) not in line))) <= 60


def test_a_model_that_the_memory_does_not_hold_says_so(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: 1_900_000_000)
    assert "too large: this machine has 1.9 GB" in program("models")[1]
    rows = [json.loads(line) for line in program("models", "--json")[1].splitlines()]
    assert [row["fits"] for row in rows if row["kind"] == "catalogue"] == [False]


def test_the_servers_of_this_machine_are_listed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    async def found() -> tuple[FoundServer, ...]:
        return (
            FoundServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen3:8b", "llama3.2:3b")),
            FoundServer("LM Studio", "http://127.0.0.1:1234/v1", state="locked"),
            FoundServer("vLLM", "http://127.0.0.1:8000/v1", state="silent"),
            FoundServer("Jan", "http://127.0.0.1:1337/v1"),
        )

    monkeypatch.setattr(machine, "find_servers", found)
    out = program("models")[1]
    assert "Ollama  http://127.0.0.1:11434/v1\n  qwen3:8b\n  llama3.2:3b\n" in out
    assert "LM Studio  http://127.0.0.1:1234/v1\n  wants a key\n" in out
    assert "8000/v1\n  took the connection and does not answer\n" in out
    assert "1337/v1\n  lists no model\n" in out
    rows = [json.loads(line) for line in program("models", "--json")[1].splitlines()]
    servers = [row for row in rows if row["kind"] == "server"]
    assert [row["models"] for row in servers] == [["qwen3:8b", "llama3.2:3b"], [], [], []]
    assert [row["state"] for row in servers] == ["lists", "locked", "silent", "lists"]


def test_get_asks_first_and_tells_what_to_do_with_it(
    program: Program, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", _Typed("n\n"))
    code, out, _ = program("models", "get", "GOOD")
    assert code == 1
    assert "licence Apache-2.0" in out
    assert f"to     {GOOD.path}" in out
    assert "size   256.0 kB, and" in out  # of the hub, not of the catalogue
    assert out.endswith("Fetch it? [y/N] Nothing was fetched.\n")
    assert hub.ranges == []

    monkeypatch.setattr(sys, "stdin", _Typed("y\n"))
    code, out, err = program("models", "get", "good")
    assert (code, err) == (0, "")
    assert GOOD.path.read_bytes() == GGUF
    assert f'[model]\nname = "{GOOD.path}"' in out
    assert out.endswith("or run: pixi-persona chat --model good\n")

    code, out, _ = program("models", "get", "good")
    assert (code, out.splitlines()[0]) == (0, "It is here already.")
    assert "good  fetched" in program("models")[1]


def test_get_without_a_terminal_wants_the_flag(program: Program, hub: LoopbackHub) -> None:
    code, out, err = program("models", "get", "good")
    assert (code, out) == (2, "")
    assert "Run: pixi-persona models get good --yes" in err
    assert hub.keys == []  # nobody was asked anything
    assert program("models", "get", "good", "--yes")[0] == 0
    assert GOOD.path.read_bytes() == GGUF


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_get_that_is_stopped_keeps_what_was_fetched_and_says_so(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    number = getattr(signal, name)

    async def fetch(*_: object, **__: object) -> Path:
        assert signal.getsignal(number) != signal.SIG_DFL  # it would end the tests
        signal.raise_signal(number)
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(catalogue_module, "fetch", fetch)
    try:
        code = frame.run(["models", "get", "good", "--yes"])
    except SystemExit as stopped:
        code = int(str(stopped.code))
    assert code == 128 + number
    assert "stopped. What was fetched is kept" in capsys.readouterr().err


def test_get_of_what_is_not_in_the_catalogue_tells_what_is(program: Program) -> None:
    code, _, err = program("models", "get", "goood")
    assert code == 2
    assert "did you mean 'good'?" in err
    code, _, err = program("models", "try", "good")
    assert code == 2
    assert "Run: pixi-persona models get good" in err


async def test_try_shows_what_a_model_made_of_five_lines(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = stream("[NOTE: a cat]\n", "[REACT: 😺]\n[SEND: hello", " there]", finish())
    plain = stream("I am ", "a helpful assistant.", finish())
    async with ScriptedOpenAI(good, good, plain, good, good) as server:
        code = await attempt(None, "scripted", server.base_url, None, as_json=True)
        asked = [request.json() for request in server.requests]
    assert code == 0
    *rows, total = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in rows] == list(LINES)
    assert [row["valid"] for row in rows] == [True, True, False, True, True]
    assert rows[0]["notes"] == ["a cat"]
    assert rows[0]["sent"] == ["hello there"]
    assert rows[0]["reactions"] == ["😺"]
    assert rows[2]["sent"] == ["I am a helpful assistant."]
    assert (total["valid"], total["of"], total["notes"], total["sent"]) == (4, 5, 4, 5)
    assert total["first_seconds"] is not None
    assert not any(body.get("tools") for body in asked)
    assert "hello there" in str(asked[1])  # it is one talk
    assert not list(home.glob("*.db*")) or "Biscuit" not in (home / "pixi.db").read_text("latin-1")


async def test_try_of_a_found_server_sends_no_key_and_no_other_model_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedOpenAI(error(401, "no")) as server, ScriptedOpenAI(stream("[SEND: hi]")) as other:

        async def found() -> tuple[FoundServer, ...]:
            return (FoundServer("Ollama", server.base_url, ("here:latest",)),)

        monkeypatch.setattr(machine, "find_servers", found)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
        (home / "pixi.toml").write_text(
            f'[[model.fallback]]\nname = "other"\nbase_url = "{other.base_url}"\n', encoding="utf-8"
        )
        assert await attempt(None, "here", None, None, as_json=True) == 1
        assert "sk-of-somebody" not in str([request.headers for request in server.requests])
        assert len(server.requests) == 1  # it would fail four times more
        assert other.requests == []
    told = capsys.readouterr()
    assert "wants a key" in told.err
    rows = [json.loads(line) for line in told.out.splitlines()]
    # The persona's excuse is not the model's.
    assert (rows[0]["first_seconds"], rows[0]["sent"]) == (None, [])
    assert (rows[-1]["valid"], rows[-1]["of"]) == (0, 5)


async def test_try_for_people_and_a_model_that_cannot_be_asked(
    home: Path, capsys: pytest.CaptureFixture[str], unused_tcp_port: int
) -> None:
    async with ScriptedOpenAI(stream("[NOTE: hm]\n[SEND: hello]", finish())) as server:
        assert await attempt(None, "scripted", server.base_url, None, as_json=False) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"> {LINES[0]}\n(note: hm)\nhello\n  first word ")
    assert "scripted: 5 of 5 replies valid, 5 notes, 5 messages, 0 reactions" in out
    (home / "pixi.toml").write_text("[model]\nfirst_seconds = 1\n")
    nowhere = f"http://127.0.0.1:{unused_tcp_port}/v1"
    with pytest.raises(ConfigError, match="no persona"):
        await attempt(None, "scripted", nowhere, "nobody", as_json=False)


@pytest.mark.parametrize(
    ("reply", "valid"),
    [
        ("[SEND: hi]", True),
        ("[NOTE: hm]\n[REACT: 😺]\n[SEND: hi]\n", True),
        ("<think>what to say</think>[SEND: hi]", True),
        ("", False),
        ("hi there", False),
        ("Sure! [SEND: hi]", False),
        ("[SEND: hi", False),
        ("[SEND: hi] and more", False),
    ],
)
def test_a_valid_reply_is_whole_commands_and_nothing_else(reply: str, *, valid: bool) -> None:
    assert is_valid(reply, {"send": (), "react": (), "note": ()}) is valid
