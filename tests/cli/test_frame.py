"""The frame of the command line: help, versions, errors, exit codes."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pixi.cli import frame
from pixi.cli.frame import SUBCOMMANDS, load, run
from pixi.core.errors import ConfigError, ModelError

HEAVY = {
    "aiohttp",
    "asyncio",
    "ddgs",
    "discord",
    "httpx2",
    "mcp",
    "openai",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "trafilatura",
    "uvloop",
    "xllamacpp",
}

UNBUFFERED = pytest.param({"PYTHONUNBUFFERED": "1"}, marks=pytest.mark.nightly)
BUFFERED_OR_NOT = pytest.mark.parametrize("buffering", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=30, check=False)


class Subcommand:
    """A subcommand that does what a test says."""

    HELP = "does what a test says"

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.arguments = argparse.Namespace()

    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--flag", default="none")

    def run(self, arguments: argparse.Namespace) -> int:
        self.arguments = arguments
        if self.error:
            raise self.error
        return 7


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Subcommand:
    subcommand = Subcommand()
    monkeypatch.setattr(frame, "load", lambda name: subcommand)
    return subcommand


def test_help_lists_every_command_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for name in SUBCOMMANDS:
        assert f"  {name} " in out
        assert load(name).HELP in out


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: pixi-persona {name}")
    assert "--debug" in out


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom pixi.cli.frame import run\nassert run(['--help']) == 0\n"
        f"heavy = {HEAVY!r} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr


def test_only_the_chosen_command_is_imported() -> None:
    script = (
        "import sys\nfrom pixi.cli.frame import run\nrun(['parse', '--help'])\n"
        "assert 'pixi.cli.parse' in sys.modules and 'pixi.cli.chat' not in sys.modules"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr


def test_the_prompt_of_a_talk_waits_for_no_store_no_client_and_no_pattern() -> None:
    script = (
        "import sys, pixi.app, pixi.channels.terminal.live, pixi.cli.choosing_model\n"
        "from pixi.core import control_words\n"
        "heavy = {'aiohttp', 'pydantic', 'pixi.engine', 'pixi.store.sql', 'sqlite3'}\n"
        "heavy = (heavy | {'difflib', 'rapidfuzz', 'zipfile'}) & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert not control_words._table_search.cache_info().currsize"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr


def test_without_a_command_the_help_is_shown_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "commands:" in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chta"], "pixi-persona: there is no command 'chta'. Did you mean 'chat'?"),
        (["--nonsense"], "pixi-persona: unrecognized arguments: --nonsense"),
        (["--config"], "pixi-persona: argument --config: expected one argument"),
        (["chat", "--jsno"], "pixi-persona chat: unrecognized arguments: --jsno"),
    ],
)
def test_a_usage_error_is_two_lines(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    first, second = shown.err.splitlines()
    assert first == said
    assert second.endswith("--help` shows how it is used.")


@pytest.mark.parametrize(
    "words",
    [
        ["--config", "x.toml", "--debug", "chat", "--flag", "on"],
        ["chat", "--flag", "on", "--config", "x.toml", "--debug"],
        ["--debug", "chat", "--config=x.toml", "--flag=on"],
    ],
)
def test_common_flags_stand_before_or_after_the_command(chosen: Subcommand, words: list[str]) -> None:
    assert run(words) == 7
    assert (chosen.arguments.config, chosen.arguments.debug, chosen.arguments.flag) == (
        Path("x.toml"),
        True,
        "on",
    )


def test_common_flags_have_defaults(chosen: Subcommand) -> None:
    assert run(["chat"]) == 7
    assert (chosen.arguments.config, chosen.arguments.debug) == (None, False)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("pixi.toml: no."), 2, "pixi-persona: pixi.toml: no.\n"),
        (ModelError("no answer."), 1, "pixi-persona: no answer.\n"),
        (OSError(28, "No space left on device"), 1, "pixi-persona: No space left on device.\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_an_error_is_a_line_and_an_exit_code(
    chosen: Subcommand, error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen.error = error
    assert run(["chat"]) == code
    assert capsys.readouterr().err == said


def test_with_debug_an_error_keeps_its_traceback(chosen: Subcommand) -> None:
    chosen.error = ConfigError("no.")
    with pytest.raises(ConfigError):
        run(["chat", "--debug"])


UNFORESEEN = """
import sys
from pixi import cli
from pixi.cli import frame
class Subcommand:
    HELP = ""
    def configure(self, parser): ...
    def run(self, arguments):
        raise ZeroDivisionError("of course\\n not")
frame.load = lambda name: Subcommand()
sys.argv = ["pixi", "chat", *sys.argv[1:]]
sys.exit(cli.main())
"""


def test_an_error_that_nobody_foresaw_is_one_line() -> None:
    done = python("-c", UNFORESEEN)
    assert done.returncode == 1
    said = "ZeroDivisionError: of course not (--debug shows where)"
    assert done.stderr == f"pixi-persona: this should not have happened: {said}\n"


def test_with_debug_it_is_a_traceback() -> None:
    done = python("-c", UNFORESEEN, "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_the_version_is_shown() -> None:
    done = python("-m", "pixi", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("pixi-persona ")
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is told otherwise there")
@BUFFERED_OR_NOT
def test_a_reader_that_went_away_is_not_worth_a_word(buffering: dict[str, str]) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | buffering
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "pixi", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
        env=environ,
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@BUFFERED_OR_NOT
def test_a_full_disk_is_one_line(buffering: dict[str, str]) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | buffering
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pixi", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
            env=environ,
        )
    assert done.stderr == "pixi-persona: No space left on device.\n"
    assert done.returncode == 1


def test_output_to_a_pipe_is_utf8_wherever_it_runs() -> None:
    script = "from pixi.cli.frame import run\nrun(['--version'])\nprint('🥞 \\ud800')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.stdout.decode().splitlines()[-1] == "🥞 ?", done.stderr
