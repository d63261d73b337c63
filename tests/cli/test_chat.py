"""`chat`: what its flags and its surroundings make of it."""

import io
import sys
from pathlib import Path

import pytest

from pixi.app.state import state_folder
from pixi.cli import chat
from pixi.cli.spinner import spinner
from pixi.settings import load


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
