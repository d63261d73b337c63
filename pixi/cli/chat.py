"""`pixi-persona chat`: talk in the terminal, or with a program that writes lines and reads replies."""

import argparse
import gc
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE

if TYPE_CHECKING:
    from pixi.channels.terminal import Answering, Seat
    from pixi.core.persona import Persona
    from pixi.settings import Settings

Tell = Callable[[str], None]
Opened = Callable[[Tell, Tell, Tell], "AbstractAsyncContextManager[Answering]"]

HELP = "talk in the terminal"

EPILOG = """\
On a terminal: type and press enter; /help shows the keys. Otherwise: one message per line of
standard input, each answered before the next is read; the replies alone go to standard output.
The model is loaded once there is a line.

A talk is in one place at a time. A second window asks whether to take it over; lines wait, 30 seconds at
most, for a reply that a window is writing, and then end with code 1. What a reply lacked when the program
was ended goes on at the next start.

examples:
  pixi-persona chat
  pixi-persona chat --persona my-friend.md
  pixi-persona chat --model gpt-5-mini        (with OPENAI_API_KEY set)
  pixi-persona chat --model qwen3:8b          (at Ollama or another server of this machine)
  pixi-persona chat --model qwen3 --base-url http://192.168.0.7:11434/v1
  printf 'hi\\nwho are you?\\n' | pixi-persona chat --json
"""


_NO_MODEL = (
    "no model is set, so the tiny one that came along answers: `pixi-persona doctor` shows better ones"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "--persona", metavar="NAME-or-FILE", help="who answers: one of `pixi-persona personas`, or a file"
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="`local` (the bundled one), a .gguf file, a model at the base URL or on this machine",
    )
    parser.add_argument("--base-url", metavar="URL", help="the address of an OpenAI-compatible server")
    parser.add_argument("--user", metavar="NAME", help="your name, for the persona (default: your login)")
    parser.add_argument(
        "--addon", metavar="FILE", action="append", default=[], help="a file with more commands and tools"
    )
    parser.add_argument("--notes", action="store_true", help="show private notes, and reactions")
    parser.add_argument("--json", action="store_true", help="print each event as one JSON object a line")
    parser.add_argument(
        "--deltas", action="store_true", help="with --json: print messages also while they are being written"
    )


def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends or the person leaves."""
    from pixi.app import find_persona, open_engine
    from pixi.channels.terminal import seat
    from pixi.cli.choosing_model import at_terminal, chosen_model
    from pixi.cli.printer import Printer
    from pixi.cli.running import run_async
    from pixi.settings import load

    config = Path(arguments.config) if arguments.config else None
    overrides = {
        "model.name": arguments.model,
        "model.base_url": arguments.base_url,
        "persona.default": arguments.persona,
    }
    settings = load(config, overrides=overrides)
    persona = find_persona(settings)
    place = seat(persona.name, arguments.user or login())
    live = at_terminal() and not arguments.json
    settings = load(config, overrides={**overrides, **chosen_model(settings, asks=live)})
    printer = Printer(settings)

    @asynccontextmanager
    async def opened(progress: Tell, report: Tell, remark: Tell) -> "AsyncGenerator[Answering, None]":
        async with open_engine(
            settings,
            persona,
            addons=[Path(file) for file in arguments.addon],
            warm_for=place.message(""),
            warm_beside=live,  # while the person reads the greeting
            progress=printer.redacted(progress),
            report=printer.redacted(report),
            remark=printer.redacted(remark),
        ) as engine:
            gc.freeze()  # what was built lives as long as the process: no garbage to be looked for
            yield engine

    if live:
        model = printer.redact(_model(settings))
        return run_async(
            _live(arguments, model, persona, place, opened, first_words=_first_words(settings, persona))
        )
    unset = "" if settings.model_is_set else _NO_MODEL
    return run_async(_lines(arguments, place, opened, printer.complain, unset))


async def _live(
    arguments: argparse.Namespace,
    model: str,
    persona: "Persona",
    place: "Seat",
    opened: Opened,
    *,
    first_words: str,
) -> int:
    from pixi.app.state import state_folder
    from pixi.channels.terminal_live import LiveTerminal
    from pixi.channels.terminal_own import history_in

    about = f" · {persona.about}" if persona.about else ""
    greeting = f"{persona.name}{about} · on {model} · /help"
    history = history_in(state_folder())
    terminal = LiveTerminal(
        place, persona.name, greeting, history, notes=arguments.notes, first_words=first_words
    )
    await terminal.run(opened)
    return FINE


async def _lines(
    arguments: argparse.Namespace, place: "Seat", opened: Opened, complain: Tell, unset: str
) -> int:
    from pixi.channels.terminal import LinesChannel, talk
    from pixi.channels.terminal_input import read_lines
    from pixi.cli.spinner import spinner

    if sys.stdin is None:
        return FINE
    async with aclosing(read_lines(sys.stdin.fileno())) as lines:
        if sys.stdin.isatty():
            said = _prompted(lines)
        elif (first := await _first_said(lines)) is not None:
            said = _with_first(first, lines)
        else:
            return FINE  # nothing is said: no model is loaded for that
        if unset:
            complain(unset)
        with spinner() as progress:
            channel = LinesChannel(
                sys.stdout,
                sys.stderr,
                as_json=arguments.json,
                notes=arguments.notes,
                growing=arguments.json and arguments.deltas,
                progress=progress,
            )
            async with opened(progress, complain, complain) as answering:
                await talk(said, place, answering, channel)
    return FAILED if channel.failed else FINE


async def _first_said(lines: AsyncIterable[str]) -> str | None:
    """Return the first line that is not blank; None where there is none."""
    async for line in lines:
        if line.strip():
            return line
    return None


async def _with_first(first: str, lines: AsyncIterable[str]) -> AsyncGenerator[str, None]:
    """Yield the line that was read already, and then the others."""
    yield first
    async for line in lines:
        yield line


async def _prompted(lines: AsyncIterable[str]) -> AsyncGenerator[str, None]:
    """The lines, asked for one by one: for a terminal that can do no more than that."""
    print("> ", end="", file=sys.stderr, flush=True)
    async for line in lines:
        yield line
        print("> ", end="", file=sys.stderr, flush=True)


def _first_words(settings: "Settings", persona: "Persona") -> str:
    """What the persona says where its model does not know its language; "" where it does, or nobody knows."""
    from pixi.core.shortcomings import foreign_words, speaks_unknown
    from pixi.models.weights import SMOLLM2

    is_bundled = settings.model.name == "local"
    return foreign_words(persona) if is_bundled and speaks_unknown(persona, SMOLLM2.languages) else ""


def _model(settings: "Settings") -> str:
    """The model as a greeting names it; no file's folder and no key is in it."""
    from urllib.parse import urlsplit

    from pixi.settings.own_keys import server_of

    name = settings.model.name
    if name == "local":
        return "the bundled model"
    if name.endswith(".gguf"):
        return Path(name).name
    place = server_of(settings.model.base_url, settings.model.api)
    host = urlsplit(place).netloc.rpartition("@")[2] or place  # with its port, without a password
    return f"{name} at {host}" if name else host


def login() -> str:
    """The name of whoever is logged in here."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as in some containers
        return "friend"
