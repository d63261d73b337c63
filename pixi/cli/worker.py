"""`pixi-persona worker`: answers for a bot that gateways hear for, until it is stopped."""

import argparse
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pixi.cli.discord import running_service
from pixi.cli.exits import FINE
from pixi.cli.flags import add_json_logs, add_model_flags, model_overrides, number_to
from pixi.cli.gateway import run_part

if TYPE_CHECKING:
    from pixi.settings import Settings

HELP = "answer what gateways heard, as one of several"

EPILOG = """\
A worker takes a conversation, thinks, and posts. Start as many as are needed, on any machine, and stop them
when you like: a worker then finishes what people see being written, and others go on with the rest. All need
the same personas and addons, DISCORD_TOKEN, and the PostgreSQL server of the gateway under [store].

examples:
  pixi-persona worker
  pixi-persona worker --concurrency 64
"""

_CONCURRENCY = 32

_log = logging.getLogger("pixi.bot")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=number_to(1_000),
        default=_CONCURRENCY,
        help=f"how many conversations it answers at a time (default: {_CONCURRENCY})",
    )
    add_model_flags(parser, "the persona that answers unless a channel chose another")
    add_json_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Work until a signal ends it, which is a good end."""

    async def stay(settings: "Settings", read: Callable[[], "Settings"], token: str) -> int:
        from pixi.app.cluster.queue import open_queue
        from pixi.app.cluster.state import ClusterGauges
        from pixi.app.cluster.worker import open_worker

        async with (
            running_service(settings, read, arguments.addon) as service,
            open_queue(settings.store.url) as queue,
            open_worker(service, queue, token=token, tell=_log.info) as worker,
        ):
            service.metrics.shared = ClusterGauges(queue).gauges
            _log.info("answering up to %d conversations at a time", arguments.concurrency)
            await worker.run(concurrency=arguments.concurrency)
        return FINE

    return run_part(arguments, model_overrides(arguments), stay, needs_model=True)
