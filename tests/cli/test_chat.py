"""`chat`: what its flags and its surroundings make of it."""

import argparse
import io
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest

from pixi.app.retention import state_folder
from pixi.channels.engine import ChannelEngine
from pixi.channels.terminal.commands import TalkChange
from pixi.channels.terminal.lines import seat
from pixi.cli import chat, choosing_model
from pixi.cli.console import spinner
from pixi.core.errors import ConfigError, silent
from pixi.core.persona import Persona
from pixi.settings import Settings, load
from tests.waiting import within


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({}, "the bundled model"),
        ({"model.name": "/home/mo/secret/tiny.gguf"}, "tiny.gguf"),
        ({"model.name": "gpt-5-mini"}, "gpt-5-mini at api.openai.com"),
        ({"model.name": "claude-sonnet-5", "model.api": "anthropic"}, "claude-sonnet-5 at anthropic"),
        ({"model.name": "x", "model.base_url": "http://mo:pass@here:1/v1"}, "x at here:1"),
        ({"model.base_url": "http://[::1]:8080/v1"}, "[::1]:8080"),
    ],
)
def test_the_greeting_names_the_model_and_nothing_private(
    tmp_path: Path, overrides: dict[str, str], named: str
) -> None:
    assert chat._model(load(environ={}, folder=tmp_path, overrides=overrides)) == named


def test_the_history_lies_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/home/mo")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_folder() == Path("/state/pixi-persona")
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    assert state_folder() == Path("/home/mo/.local/state/pixi-persona")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert state_folder() == Path("/home/mo/Library/Application Support/pixi-persona")


def test_a_nameless_account_is_a_friend(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert chat.login() == "friend"


async def test_at_a_plain_terminal_faults_are_told_before_anything_is_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def opened(*_: object) -> AsyncGenerator[ChannelEngine, None]:
        raise ConfigError("no such model")
        yield

    reading, typing = os.pipe()
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: True, fileno=lambda: reading))
    arguments = argparse.Namespace(json=False, notes=False, deltas=False)
    async with within("the fault"):
        with pytest.raises(ConfigError, match="no such model"):
            await chat._lines(arguments, seat("Wren", "mo"), opened, silent, "")
    os.close(typing)
    os.close(reading)


def test_what_is_chosen_in_a_talk_goes_before_what_was_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    at = "http://127.0.0.1:9/v1"
    (tmp_path / "pixi.toml").write_text(
        f'[model]\nname = "m"\nbase_url = "{at}"\n[models.fast]\nname = "quick"\n'
    )
    parser = argparse.ArgumentParser()
    chat.configure(parser)
    parser.add_argument("--config")
    arguments = parser.parse_args(["--persona", "edda"])
    first = chat.ChatChoice({"model.base_url": f"{at}/x", "persona.default": "edda"})
    settings = first.settings(arguments, asks=False)
    fast = first.changed(TalkChange("model", "fast"), settings)
    assert fast.settings(arguments, asks=False).model.name == "quick"
    pixi = fast.changed(TalkChange("persona", "pixi"), settings).settings(arguments, asks=False)
    assert (pixi.persona.default, pixi.model.name, pixi.model.base_url) == ("pixi", "quick", f"{at}/x")
    other = fast.changed(TalkChange("model", "other"), settings).settings(arguments, asks=False)
    assert (other.persona.default, other.model.name, other.model.base_url) == ("edda", "other", at)
    monkeypatch.setattr(choosing_model, "asked_for_model", lambda _: {"model.name": "local"})
    assert fast.changed(TalkChange("brain"), settings).settings(arguments, asks=False).model.name == "local"


def test_who_cannot_be_talked_to_is_told_and_the_talk_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    leaves = [TalkChange("model", "nonsuch.gguf"), None]

    class Terminal:
        wants: TalkChange | None = None

    def at_terminal(_: object, settings: Settings) -> tuple[Terminal, object]:
        seen.append(settings.model.name)
        terminal = Terminal()

        async def talk() -> int:
            if settings.model.name == "nonsuch.gguf":
                raise ConfigError("there is no such file")
            terminal.wants = leaves.pop(0)
            return 0

        return terminal, talk()

    monkeypatch.setattr(chat, "_at_terminal", at_terminal)
    arguments = argparse.Namespace(config=None)
    assert chat._live(arguments, chat.ChatChoice({"model.name": "local"})) == 0
    assert seen == ["local", "nonsuch.gguf", "local"]
    assert capsys.readouterr().err == "pixi-persona: there is no such file\n"


def test_the_spinner_shows_what_takes_long_and_goes_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with spinner() as show:
        show("loading [the] weights")
        show("")
        show("once more")
    assert "loading [the] weights" in screen.getvalue()
    assert "once more" in screen.getvalue()


def test_without_a_terminal_there_is_no_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    with spinner() as show:
        show("loading")
    assert err.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "model", "told"), [("Mathilde", "local", 1), ("Pixi", "local", 0), ("Mathilde", "m", 0)]
)
async def test_of_a_persona_that_is_too_much_for_the_bundled_model_is_told_before_the_talk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, model: str, told: int
) -> None:
    @asynccontextmanager
    async def open_engine(*_: object, **__: object) -> AsyncGenerator[None, None]:
        yield

    monkeypatch.setattr("pixi.app.open_engine", open_engine)
    settings = load(environ={}, folder=tmp_path, overrides={"model.name": model})
    arguments, said = argparse.Namespace(addon=[]), list[str]()
    opened = chat._opening(arguments, settings, Persona(name, "x"), seat("it", "mo"), live=True)
    async with opened(silent, silent, said.append):
        assert [line.startswith("As Mathilde, the tiny included model") for line in said] == [True] * told
