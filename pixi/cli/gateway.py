"""`pixi-persona gateway`: hears Discord for a bot whose workers answer, until it is stopped."""

import argparse
import logging
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pixi.cli.discord import NO_TOKEN, settings_and_log
from pixi.cli.exits import FINE
from pixi.cli.flags import add_json_logs
from pixi.core.errors import ConfigError

if TYPE_CHECKING:
    from pixi.settings import Settings

HELP = "hear Discord for workers on one PostgreSQL"

EPILOG = """\
For a bot that outgrew one process: a gateway hears and records, and workers (`pixi-persona worker`), as many
as needed and on any machine, think and post. All need DISCORD_TOKEN and the same PostgreSQL server under
[store]. The gateway asks no model and loads no addon.

examples:
  pixi-persona gateway
  pixi-persona gateway --shards 0-3/16
"""

_NO_POSTGRES = """\
A bot in several parts needs a PostgreSQL server, which all of them share: write
url = "postgresql://user:password@host:5432/database" under [store] in pixi.toml."""

_NO_EXTRA = """\
A bot in several parts needs procrastinate and psycopg: pip install 'pixi-persona[cluster]'"""

_log = logging.getLogger("pixi.bot")

Stay = Callable[["Settings", Callable[[], "Settings"], str], Coroutine[None, None, int]]
"""Runs a part by settings, what reads them again, and the bot's token."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--persona", metavar="NAME-or-FILE", help="the persona that answers unless a channel chose another"
    )
    parser.add_argument(
        "--shards", metavar="FIRST-LAST/ALL", help="run these shards only, e.g. 0-3/16 (default: all)"
    )
    add_json_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Stay on Discord until a signal ends it, which is a good end."""

    async def stay(settings: "Settings", read: Callable[[], "Settings"], token: str) -> int:
        return await _stay(settings, read, token, arguments.shards)

    return run_part(arguments, {"persona.default": arguments.persona}, stay)


def run_part(
    arguments: argparse.Namespace, overrides: Mapping[str, object], stay: Stay, *, needs_model: bool = False
) -> int:
    """Run a part of a bot until a signal ends it, which is a good end.

    Args:
        arguments: of the command line.
        overrides: settings that it gives.
        stay: runs the part.
        needs_model: a model must be set.

    Raises:
        ConfigError: something is missing that the part needs.
    """
    from pixi.cli.running import run_logged

    settings, read, as_json = settings_and_log(arguments, overrides, _check, needs_model=needs_model)
    assert settings.discord.token is not None
    return run_logged(stay(settings, read, settings.discord.token.reveal()), _log, as_json=as_json)


def _check(settings: "Settings") -> None:
    from pixi.store.opening import is_postgres

    if settings.discord.token is None:
        raise ConfigError(NO_TOKEN)
    if not is_postgres(settings.store.url):
        raise ConfigError(_NO_POSTGRES)
    if not all(map(find_spec, ("procrastinate", "psycopg", "psycopg_pool"))):
        raise ConfigError(_NO_EXTRA)


async def _stay(settings: "Settings", read: Callable[[], "Settings"], token: str, shards: str | None) -> int:
    from pixi.app.cluster.gateway import ShardClaim, open_gateway
    from pixi.app.metrics import monitoring_port
    from pixi.app.reload import reloading
    from pixi.channels.discord.bot import Bot, Shards
    from pixi.cli.running import until_one_ends

    chosen = Shards.parse(shards) if shards else None
    async with (
        open_gateway(settings, _log.warning) as gateway,
        reloading(gateway, read),
        monitoring_port(gateway.settings.monitoring, gateway.metrics, gateway.unready),
    ):
        claim = ShardClaim(
            settings.store.url,
            sha256(token.encode()).hexdigest()[:16],
            (chosen.ids, chosen.count) if chosen else None,
        )
        try:
            await claim.take()
            bot = Bot(
                gateway,
                token=token,
                api_url=settings.discord.api_url,
                shards=chosen,
                tell=lambda line: _log.info("%s", line),
                statuses=gateway.metrics.discord_statuses,
                rates=gateway.rates,
            )
            async with gateway.heeding(bot):
                await until_one_ends(bot.run(), claim.keep())
        finally:
            await claim.release()
    return FINE
