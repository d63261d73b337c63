"""`pixi-persona discord`: a bot that stays on Discord until it is stopped."""

import argparse
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE
from pixi.cli.flags import add_json_logs, add_model_flags, model_overrides
from pixi.core.errors import ConfigError, Reporter

if TYPE_CHECKING:
    from pixi.app.service import BotService
    from pixi.channels.discord.gateway.client import Shards
    from pixi.core.masking import SecretRedactor
    from pixi.settings import Settings

HELP = "bring the personas to Discord"

EPILOG = """\
The token of the bot comes from DISCORD_TOKEN, in the environment or in .env. `pixi-persona doctor` says what
is missing, and prints the link that invites the bot. The bot reads settings and personas again when they
change.

examples:
  pixi-persona discord
  pixi-persona discord --persona edda --model qwen3 --base-url http://localhost:11434/v1
  pixi-persona discord --shards 0-3/8
  pixi-persona discord --rehearse             (no token, no Discord: try it first)
"""

NO_TOKEN = """\
There is no token for Discord: set DISCORD_TOKEN in the environment or in .env.
A bot's token is shown at https://discord.com/developers/applications, on its page Bot."""

NO_MODEL = """\
No model is set: name one under [model] in pixi.toml, or by --model; `pixi-persona doctor` shows some.
The tiny included model is too small for many people: it answers only if you set name = "local"."""

_log = logging.getLogger("pixi.bot")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add_model_flags(parser, "the persona that answers unless a channel chose another")
    parser.add_argument(
        "--shards", metavar="FIRST-LAST/ALL", help="run these shards only, e.g. 0-3/8 (default: all)"
    )
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="try the bot without a token, on a Discord in this program; you type what people write",
    )
    add_json_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Stay on Discord until a signal ends it, which is a good end."""
    from pixi.cli.choosing_model import at_terminal
    from pixi.cli.running import run_async, run_logged

    def check(settings: "Settings") -> None:
        if settings.discord.token is None and not arguments.rehearse:
            there = at_terminal() or settings.model_is_set
            raise ConfigError(NO_TOKEN, *([] if there else [NO_MODEL]))

    settings, read, as_json = settings_and_log(arguments, model_overrides(arguments), check, asks=True)
    if arguments.rehearse:
        from pixi.cli.chat import login
        from pixi.cli.rehearsing import rehearse

        for name in ("", "pixi"):
            logging.getLogger(name).setLevel(logging.WARNING)  # what happens is seen in the chat
        return run_async(rehearse(settings, [Path(file) for file in arguments.addon], login()))
    return run_logged(_stay(settings, read, arguments), _log, as_json=as_json)


async def _stay(settings: "Settings", read: Callable[[], "Settings"], arguments: argparse.Namespace) -> int:
    from pixi.channels.discord.gateway.client import Shards

    shards = Shards.parse(arguments.shards) if arguments.shards else None
    async with running_service(settings, read, arguments.addon, "discord") as service:
        await stay_on_discord(service, shards)
    return FINE


@asynccontextmanager
async def running_service(
    settings: "Settings", read: Callable[[], "Settings"], addons: Sequence[str], part: str
) -> AsyncGenerator["BotService", None]:
    """Open the bot for a subcommand that serves: it goes by changed files, and is watched from outside.

    `part` is the name by which others see the process, see `read_processes`.
    """
    from pixi.app.building import import_beside

    await import_beside("pixi.app.service")
    from pixi.app.metrics import monitoring_port
    from pixi.app.reload import reloading
    from pixi.app.service import open_service
    from pixi.cli.logs import vitals_on_signal

    paths = [Path(file) for file in addons]
    async with (
        open_service(settings, part=part, addons=paths, progress=log_once(), report=_log.warning) as service,
        reloading(service, read),
        monitoring_port(service.settings.monitoring, service.metrics, service.unready),
    ):
        with vitals_on_signal(service):
            yield service


async def stay_on_discord(service: "BotService", shards: "Shards | None" = None) -> None:
    """Run the bot until it is cancelled. `shards` None: all."""
    from pixi.app.building import import_beside

    await import_beside("pixi.channels.discord.bot")
    from pixi.channels.discord.bot import Bot

    settings, rates = service.settings, service.engine.tools.rates
    discord = settings.discord
    assert discord.token is not None
    bot = Bot(
        service,
        token=discord.token.reveal(),
        api_url=discord.api_url,
        shards=shards,
        tell=lambda line: _log.info("%s", line),
        statuses=service.metrics.discord_statuses if service.metrics.begun else None,
        rates=rates,
    )
    service.engine.on_forget.append(lambda person, _: bot.forget(person) if person else None)
    async with AsyncExitStack() as stack:
        if rates.shared is None and hears_others(settings):
            from pixi.app.cluster.shared_rates import sharing

            await stack.enter_async_context(sharing(rates, settings.store.url))
        await bot.run()


def hears_others(settings: "Settings") -> bool:
    """Return True if the processes on the store can know of each other.

    On Windows the driver of PostgreSQL cannot wait on the loop that a server runs on.
    """
    from pixi.store.opening import is_postgres

    return is_postgres(settings.store.url) and sys.platform != "win32"


def settings_and_log(
    arguments: argparse.Namespace,
    overrides: Mapping[str, object],
    check: Callable[["Settings"], None],
    *,
    asks: bool = False,
    needs_model: bool = True,
) -> tuple["Settings", Callable[[], "Settings"], bool]:
    """Read the settings of a program that serves, and begin its log.

    Return the settings, a function that reads them again, and whether the log is JSON.

    Args:
        arguments: of the command line.
        overrides: settings that it gives; a model that a person chose is added.
        check: raises `ConfigError` for settings that are not fit, before a person is asked.
        asks: a person at the terminal is asked for a model where none is set.
        needs_model: a model must be set.

    Raises:
        ConfigError: the settings cannot hold, or are not fit.
        KeyboardInterrupt: the person who was asked leaves.
    """
    from pixi.cli.choosing_model import at_terminal, chosen_model
    from pixi.cli.logs import set_up
    from pixi.settings import load
    from pixi.settings.secret import secrets_in

    mask: SecretRedactor | None = None

    def read() -> "Settings":
        settings = load(arguments.config, overrides=overrides)
        if mask is not None:
            mask.learn(secrets_in(settings))
        if needs_model and not settings.model_is_set:
            raise ConfigError(NO_MODEL)
        return settings

    settings = load(arguments.config, overrides=overrides) if asks else read()
    check(settings)
    if asks:
        overrides = {**overrides, **chosen_model(settings, asks=at_terminal())}
        settings = read()
    as_json = arguments.json_logs or not sys.stderr.isatty()
    mask = set_up(sys.stderr, as_json=as_json, debug=arguments.debug)
    mask.learn(secrets_in(settings))
    return settings, read, as_json


def log_once() -> Reporter:
    """Return what logs what takes long, each thing once however often its seconds are counted."""
    told: set[str] = set()

    def progress(doing: str) -> None:
        what = doing.partition(" …")[0]
        if what and what not in told:
            told.add(what)
            _log.info("%s", what)

    return progress
