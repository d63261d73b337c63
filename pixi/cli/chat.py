"""`pixi-persona chat`: talk in the terminal, or with a program that writes lines and reads replies."""

import argparse
import gc
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE
from pixi.cli.flags import add_model_flags, model_overrides
from pixi.core.errors import Reporter

if TYPE_CHECKING:
    from pixi.channels.engine import ChannelEngine
    from pixi.channels.terminal.commands import TalkChange
    from pixi.channels.terminal.lines import TerminalUser
    from pixi.channels.terminal.live import LiveTerminal
    from pixi.core.persona import Persona
    from pixi.settings import Settings

Opened = Callable[[Reporter, Reporter, Reporter], "AbstractAsyncContextManager[ChannelEngine]"]

HELP = "talk in the terminal"

EPILOG = """\
On a terminal, type a message and press Enter; /help lists the keys and commands. Without a terminal, each
line of standard input is a message, and is answered before the next is read. Only the replies go to
standard output. The model is loaded when the first line arrives.

A talk is open in one window at a time. A second window asks whether to take it over. Lines from a pipe wait
30 seconds for a reply in a window, and then end with code 1. If the program ends in the middle of a reply,
the next start finishes it.

examples:
  pixi-persona chat
  pixi-persona chat --persona my-friend.md
  pixi-persona chat --model gpt-5-mini        (with OPENAI_API_KEY set)
  pixi-persona chat --model qwen3:8b          (at Ollama or another server of this machine)
  pixi-persona chat --model qwen3 --base-url http://192.168.0.7:11434/v1
  printf 'hi\\nwho are you?\\n' | pixi-persona chat --json
"""


_NO_MODEL = "no model is set, so the tiny included one answers: `pixi-persona doctor` shows better ones"
_ON_BUNDLED = (
    "As {}, the tiny included model often writes nonsense: choose a larger model, local or with a key "
    "(docs/models.md)."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add_model_flags(parser, "the persona that answers: one of `pixi-persona personas`, or a file")
    parser.add_argument("--user", metavar="NAME", help="your name, for the persona (default: your login)")
    parser.add_argument("--notes", action="store_true", help="show private notes, and reactions")
    parser.add_argument("--json", action="store_true", help="print each event as one JSON object a line")
    parser.add_argument(
        "--deltas", action="store_true", help="with --json: print messages also while they are being written"
    )


def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends or the person leaves."""
    from pixi.cli.choosing_model import at_terminal

    chosen = ChatChoice(model_overrides(arguments))
    if at_terminal() and not arguments.json:
        return _live(arguments, chosen)
    return _piped(arguments, chosen)


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """Choice of persona and model: settings above all others, and a further model's name; "": `[model]`."""

    overrides: Mapping[str, str | None]
    further: str = ""

    def settings(self, arguments: argparse.Namespace, *, asks: bool) -> "Settings":
        """Read the settings. `asks`: where they name no model, a person is asked.

        Raises:
            ConfigError: they cannot hold, or there is no such model.
            KeyboardInterrupt: the person leaves.
        """
        from pixi.cli.choosing_model import chosen_model
        from pixi.settings import load

        settings = load(arguments.config, overrides=self.overrides)
        if self.further:
            return replace(settings, model=settings.models[self.further])
        return load(arguments.config, overrides={**self.overrides, **chosen_model(settings, asks=asks)})

    def changed(self, wants: "TalkChange", settings: "Settings") -> "ChatChoice":
        """Return what a person chose instead, while they talked by these settings.

        Raises:
            ConfigError: there is no model to be chosen.
            KeyboardInterrupt: they choose none.
        """
        from pixi.cli.choosing_model import asked_for_model

        if wants.of == "persona":
            return replace(self, overrides={**self.overrides, "persona.default": wants.name})
        if wants.of == "model" and wants.name in settings.models:
            return replace(self, further=wants.name)
        values = {"model.name": wants.name} if wants.of == "model" else asked_for_model(settings)
        others = {key: value for key, value in self.overrides.items() if not key.startswith("model.")}
        return ChatChoice({**others, **values})


def _live(arguments: argparse.Namespace, chosen: ChatChoice) -> int:
    """Talk at the terminal, until the person leaves for good. What cannot be opened is not gone to."""
    from pixi.cli.console import Printer
    from pixi.cli.running import run_async
    from pixi.core.errors import PixiError

    before: ChatChoice | None = None
    while True:
        try:
            settings = chosen.settings(arguments, asks=True)
            terminal, talk = _at_terminal(arguments, settings)
            code = run_async(talk)
            if terminal.wants is None:
                return code
            before = chosen
            with suppress(KeyboardInterrupt):
                chosen = chosen.changed(terminal.wants, settings)
        except PixiError as error:
            if before is None:
                raise
            Printer().complain(str(error))
            chosen, before = before, None


def _at_terminal(
    arguments: argparse.Namespace, settings: "Settings"
) -> "tuple[LiveTerminal, Coroutine[None, None, int]]":
    """Return a terminal, and the talk there.

    Raises:
        ConfigError: there is no such persona.
    """
    from pixi.app import find_persona
    from pixi.app.retention import state_folder
    from pixi.channels.terminal.commands import Choices, history_in
    from pixi.channels.terminal.lines import seat
    from pixi.channels.terminal.live import LiveTerminal
    from pixi.cli.console import Printer

    persona, printer = find_persona(settings), Printer(settings)
    place = seat(persona.name, arguments.user or login())
    about = f" · {persona.about}" if persona.about else ""
    terminal = LiveTerminal(
        place,
        persona.name,
        f"{persona.name}{about} · on {printer.redact(_model(settings))} · /help",
        history_in(state_folder()),
        notes=arguments.notes,
        first_words=_first_words(settings, persona),
        choices=Choices(cache(lambda: _personas(settings)), (*settings.models,)),
    )

    async def talk() -> int:
        await terminal.run(_opening(arguments, settings, persona, place, live=True))
        return FINE

    return terminal, talk()


def _personas(settings: "Settings") -> dict[str, str]:
    """Return one line about each persona, by the names of their files."""
    from pixi.app.personas import read_personas

    return {name: persona.about for name, persona in sorted(read_personas(settings).personas.items())}


def _opening(
    arguments: argparse.Namespace,
    settings: "Settings",
    persona: "Persona",
    place: "TerminalUser",
    *,
    live: bool,
) -> Opened:
    """Return what opens the engine, once it is known whom to tell how it goes."""
    from pixi.app import open_engine
    from pixi.cli.console import Printer

    printer = Printer(settings)

    @asynccontextmanager
    async def opened(
        progress: Reporter, report: Reporter, remark: Reporter
    ) -> "AsyncGenerator[ChannelEngine, None]":
        if settings.model.name == "local" and persona.name != "Pixi":  # its file is made for that model
            printer.redacted(remark)(_ON_BUNDLED.format(persona.name))
        async with open_engine(
            settings,
            persona,
            addons=[Path(file) for file in arguments.addon],
            warm_for=place.message(""),
            warm_beside=live,  # while the person reads the greeting
            progress=printer.redacted(progress),
            report=printer.redacted(report),
            remark=printer.redacted(remark),
            follow_persona=live,
        ) as engine:
            gc.freeze()  # what was built lives as long as the process: no garbage to be looked for
            yield engine

    return opened


def _piped(arguments: argparse.Namespace, chosen: ChatChoice) -> int:
    """Answer each line of standard input."""
    from pixi.app import find_persona
    from pixi.channels.terminal.lines import seat
    from pixi.cli.console import Printer
    from pixi.cli.running import run_async

    settings = chosen.settings(arguments, asks=False)
    persona = find_persona(settings)
    place = seat(persona.name, arguments.user or login())
    opened = _opening(arguments, settings, persona, place, live=False)
    unset = "" if settings.model_is_set else _NO_MODEL
    return run_async(_lines(arguments, place, opened, Printer(settings).complain, unset))


async def _lines(
    arguments: argparse.Namespace, place: "TerminalUser", opened: Opened, complain: Reporter, unset: str
) -> int:
    from pixi.channels.terminal.lines import LinesChannel, read_lines, say
    from pixi.cli.console import spinner

    async with aclosing(read_lines(sys.stdin.fileno())) as lines, aclosing(_said(lines)) as said:
        first = None
        if not sys.stdin.isatty():
            first = await anext(said, None)
            if first is None:
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
                if first is not None:
                    await say(first, place, answering, channel)
                async for line in said:
                    await say(line, place, answering, channel)
    return FAILED if channel.failed else FINE


async def _said(lines: AsyncIterable[str]) -> AsyncGenerator[str, None]:
    """Yield the lines that are not blank, asked for one by one where a terminal can do no more than that."""
    prompt = "> " if sys.stdin.isatty() else ""
    print(prompt, end="", file=sys.stderr, flush=True)
    async for line in lines:
        if line.strip():
            yield line
        print(prompt, end="", file=sys.stderr, flush=True)


def _first_words(settings: "Settings", persona: "Persona") -> str:
    """Return the persona's apology if the bundled model does not know its language, else ""."""
    from pixi.core.persona import foreign_words, speaks_unknown
    from pixi.models.weights import SMOLLM2

    is_bundled = settings.model.name == "local"
    return foreign_words(persona) if is_bundled and speaks_unknown(persona, SMOLLM2.languages) else ""


def _model(settings: "Settings") -> str:
    """Return the model as a greeting names it; no file's folder and no key is in it."""
    from urllib.parse import urlsplit

    from pixi.settings.model_choice import server_of

    name = settings.model.name
    if name == "local":
        return "the bundled model"
    if name.endswith(".gguf"):
        return Path(name).name
    place = server_of(settings.model.base_url, settings.model.api)
    host = urlsplit(place).netloc.rpartition("@")[2] or place  # with its port, without a password
    return f"{name} at {host}" if name else host


def login() -> str:
    """Return the name of whoever is logged in here."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return "friend"
