"""`pixi-persona mcp`: serves databases and personas to MCP clients."""

import argparse
import sys
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE

if TYPE_CHECKING:
    from pixi.app.mcp_server.server import Endpoint
    from pixi.settings import Settings

HELP = "serve databases and personas to other programs (MCP)"

EPILOG = """\
An MCP client starts this program by itself and speaks with it over standard input and output: write into the
client's settings

  {"mcpServers": {"pixi": {"command": "pixi-persona", "args": ["--config", "/path/to/pixi.toml", "mcp"]}}}

It then has, for each database, a tool that searches it (which needs no model) and one that reads entries for
a question; talk_to, by which a persona answers; and each persona as a prompt.

examples:
  pixi-persona mcp
  pixi-persona mcp --http 127.0.0.1:8765      (then the address is http://127.0.0.1:8765/mcp)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=_address,
        help="serve over HTTP at this address, instead of standard input and output",
    )
    parser.add_argument("--user", metavar="NAME", help="your name, for the personas (default: your login)")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the input ends, or until it is stopped."""
    from pixi.app.mcp_server.server import require_sdk
    from pixi.cli.running import run_async
    from pixi.settings import load

    require_sdk()
    endpoint = None
    if arguments.http:
        from pixi.app.mcp_server.server import resolve

        endpoint = resolve(*arguments.http)
    settings = load(arguments.config)
    return run_async(_serve(settings, endpoint, arguments.user), serves=True)


async def _serve(settings: "Settings", endpoint: "Endpoint | None", user: str | None) -> int:
    from functools import partial

    from pixi.app.mcp_server.server import open_server, serve_stdio
    from pixi.cli.chat import login
    from pixi.cli.console import Printer
    from pixi.cli.store_access import recorded_usage

    tell = Printer(settings).complain
    name = user or ("somebody" if endpoint else login())  # over the network nobody knows who asks
    open_usage = partial(recorded_usage, settings)
    async with open_server(settings, open_usage, user=name, alone=endpoint is None, report=tell) as server:
        if endpoint:
            from pixi.app.mcp_server.server import serve_http

            await serve_http(server, endpoint, tell)
        else:
            if sys.stdin.isatty():
                tell("an MCP client starts this by itself: `pixi-persona mcp --help` tells how. Ctrl-C ends.")
            await serve_stdio(server, sys.stdin.fileno())
    return FINE


def _address(word: str) -> tuple[str, int]:
    host, colon, port = word.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon:
        host, port = "127.0.0.1", word
    if not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise argparse.ArgumentTypeError(f"{word!r} is no address; write it as 127.0.0.1:8765")
    return host, int(port)
