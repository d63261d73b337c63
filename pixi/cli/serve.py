"""`pixi-persona serve`: personas over HTTP, and on Discord beside it, until it is stopped."""

import argparse
import logging
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pixi.cli.discord import hears_others, running_service, settings_and_log, stay_on_discord
from pixi.cli.exits import FINE
from pixi.cli.flags import add_json_logs, add_model_flags, model_overrides
from pixi.core.errors import ConfigError

if TYPE_CHECKING:
    from pixi.app.service import BotService
    from pixi.settings import Settings

HELP = "serve personas over HTTP: to apps, and as models to chat programs"

EPILOG = """\
Programs on this machine talk without a key; all others need one, see `pixi-persona keys`. Where DISCORD_TOKEN
is set, the bot on Discord runs beside it, with the same personas and the same store.

examples:
  pixi-persona serve
  pixi-persona serve --port 9000 --only http
  curl -s http://127.0.0.1:8642/api/chat --json '{"message": "hi"}'
"""

_NO_TOKEN = """\
There is no token for Discord: set DISCORD_TOKEN in the environment or in .env, or leave out --only."""

_NO_KEY = """\
At {host} others can reach the server, and there is no key: make one with `pixi-persona keys add NAME`,
or serve this machine alone with --host 127.0.0.1."""

_PAGES = """\

  Talk here:             {url}
  Watch and run it here: {link}
                         (the link works once, within ten minutes)
"""

_DRAIN_SECONDS = 5.0
"""Time to finish replies that people see being written, when the server is told to end."""

_log = logging.getLogger("pixi.http")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("--host", metavar="HOST", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", type=int, help="the port (default: 8642; 0: any free one)")
    parser.add_argument("--only", choices=["http", "discord"], help="leave the other one out")
    add_model_flags(parser, "who answers where nobody is named")
    add_json_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it, which is a good end."""
    from pixi.cli.running import run_logged

    def check(settings: "Settings") -> None:
        if arguments.only == "discord" and settings.discord.token is None:
            raise ConfigError(_NO_TOKEN)
        if arguments.only != "discord":
            _check_port(settings.http.host, settings.http.port)

    overrides = {**model_overrides(arguments), "http.host": arguments.host, "http.port": arguments.port}
    settings, read, as_json = settings_and_log(arguments, overrides, check, asks=True)
    return run_logged(_stay(settings, read, arguments), _log, as_json=as_json)


def _check_port(host: str, port: int) -> None:
    """Check early that nobody listens there: to load a model first takes long.

    Raises:
        ConfigError: another program does.
    """
    import errno
    import socket

    from pixi.settings.rules import cannot_listen

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:  # of others the server itself tells
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise cannot_listen(f"serve --host {host} --port {port}", error) from None


async def _stay(settings: "Settings", read: Callable[[], "Settings"], arguments: argparse.Namespace) -> int:
    import asyncio

    async with (
        AsyncExitStack() as last,
        running_service(settings, read, arguments.addon, "http") as service,
        AsyncExitStack() as stack,
    ):
        if arguments.only != "discord":
            url, link = await serve_http(service, settings, stack, last)
            _log.info("serving at %s until Ctrl-C", url)
            if sys.stderr.isatty():  # the link lets its first user in: it must stand in no log
                print(_PAGES.format(url=url, link=link), file=sys.stderr)
        if arguments.only != "http" and settings.discord.token is not None:
            await stay_on_discord(service)
        else:
            await asyncio.Event().wait()  # until a signal
    return FINE


async def serve_http(
    service: "BotService", settings: "Settings", stack: AsyncExitStack, last: AsyncExitStack
) -> tuple[str, str]:
    """Serve over HTTP until the stack is closed; messages that people see being written are finished then.

    Args:
        service: what answers.
        settings: the operator's.
        stack: is closed before the service.
        last: is closed after the service. Then other servers are told that this one has ended.

    Returns:
        The address of the server, and a link that lets one browser into the studio.

    Raises:
        ConfigError: others could reach it and there is no key, or it cannot listen there.
    """
    import asyncio

    from pixi.app.building import import_beside

    await import_beside("pixi.app.studio", "pixi.channels.http.server")
    from pixi.app.studio import studio_routes
    from pixi.channels.http.files import files_folder
    from pixi.channels.http.jwt import ForwardedUsers, HostTokens
    from pixi.channels.http.server import HttpServer
    from pixi.models.connections import is_loopback

    http = settings.http
    if not is_loopback(http.host) and not any(key.revoked is None for key in await service.store.keys()):
        raise ConfigError(_NO_KEY.format(host=http.host))
    jwt = http.jwt
    tokens = HostTokens(jwt.issuer, jwt.audience, jwt.keys) if jwt.issuer else None
    secret = http.open_webui_secret
    forwarded = ForwardedUsers(secret.reveal()) if secret else None
    files = files_folder(http.files, settings.store.url)
    server = HttpServer(
        service,
        http,
        files=files,
        tokens=tokens,
        user=jwt.user,
        forwarded=forwarded,
        routes=(*service.routes, *studio_routes(service)),
    )
    service.metrics.begin()
    if hears_others(settings):
        from pixi.app.cluster.notify_bus import connected

        bus = await last.enter_async_context(connected(server.peers, settings.store.url))
        service.engine.tools.rates.shared = bus.rates.use
        server.limits.share(bus.rates.use)
        server.peers.suspect = service.breakers.suspect
        service.breakers.opened = server.peers.tell_failing
    url = await stack.enter_async_context(server.serving(http.host, http.port))
    stack.push_async_callback(service.engine.drain, _DRAIN_SECONDS)
    resuming = asyncio.create_task(server.resume())

    async def end_resuming() -> None:
        resuming.cancel()
        await asyncio.wait([resuming])

    stack.push_async_callback(end_resuming)
    return url, url + server.new_link()
