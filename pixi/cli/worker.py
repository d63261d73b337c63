"""`pixi-persona worker`: answers for a bot that gateways hear for, until it is stopped."""

import argparse
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pixi.cli.discord import running_service
from pixi.cli.exits import FINE
from pixi.cli.flags import add_json_logs, add_model_flags, model_overrides, number_to
from pixi.cli.gateway import run_part
from pixi.core.errors import ConfigError

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
  pixi-persona worker --queues sage
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
    parser.add_argument(
        "--queues",
        metavar="NAME,NAME",
        default="",
        help="take conversations from these queues only (default: all): personas that `queues` of [discord] "
        "names, and main for all others",
    )
    add_model_flags(parser, "the persona that answers unless a channel chose another")
    add_json_logs(parser)


def _queues(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the queues that a worker takes from; none: all.

    Raises:
        ConfigError: there is no such queue.
    """
    chosen = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in chosen:
        if name not in names:
            raise ConfigError(
                f"--queues: there is no queue {name!r}, but {', '.join(names)}.\n"
                "To give a persona a queue of its own, name it in queues under [discord] in pixi.toml, for "
                "all gateways and workers."
            )
    return chosen


def run(arguments: argparse.Namespace) -> int:
    """Work until a signal ends it, which is a good end."""

    async def stay(settings: "Settings", read: Callable[[], "Settings"], token: str) -> int:
        from pixi.app.cluster.queue import MAIN, open_queue
        from pixi.app.cluster.state import ClusterGauges
        from pixi.app.cluster.worker import open_worker

        own = settings.discord.queues
        queues = _queues(arguments.queues, (MAIN, *own))
        async with (
            running_service(settings, read, arguments.addon, "worker") as service,
            open_queue(settings.store.url, own) as queue,
            open_worker(service, queue, token=token, tell=_log.info) as worker,
        ):
            service.metrics.shared = ClusterGauges(queue).gauges
            _log.info("answering up to %d conversations at a time", arguments.concurrency)
            await worker.run(concurrency=arguments.concurrency, queues=queues)
        return FINE

    return run_part(arguments, model_overrides(arguments), stay, needs_model=True)
