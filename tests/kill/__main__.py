"""`python -m tests.kill --rounds 1000`: end the bot again and again; exit code 1 if anything was lost.

With `--processes 3` so many bots share one store and one token. With `--workers 2` it is a gateway and so
many workers, which are paused too; they need a server. With `--gateways 2` each gateway has a shard of its
own. With `--serves 2` people talk to so many servers over HTTP, too. With `--at-once 3` so many things happen
at the same time. With `--crashes` the database crashes too.

With `--rolling 20` workers are replaced one by one while 20 people a second ask; it tells how much longer
they wait than without that.

`--store postgres` starts a server of its own; the URL of a server makes a schema there, and removes it in the
end.
"""

import argparse
import asyncio
import math
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.kill.ground import ROOMS, Ground, Stuck, open_ground
from tests.kill.parts import CRASH, OF_SERVES, WAYS, Parts
from tests.kill.questions import SORRY, Report
from tests.kill.rolling import ROOMS as ROLLING_ROOMS
from tests.kill.rolling import Rolling
from tests.kill.rounds import POINTS, SIGNALS, Rounds
from tests.kill.together import Together

if TYPE_CHECKING:
    from tests.servers.postgres import Postgres

_CALM_SECONDS = 10.0
_DEPLOYS = 2


async def run(folder: Path, options: argparse.Namespace, store: str, server: "Postgres | None") -> Report:
    """Kill so often, or for so long, whichever ends first."""
    async with open_ground(
        folder,
        options.seed,
        store,
        shards=options.gateways,
        rooms=ROLLING_ROOMS if options.rolling else ROOMS,
        serves=options.serves,
    ) as ground:
        with suppress(Stuck):  # the report says so
            if options.rolling:
                await replaced(ground, options)
            elif options.workers:
                await in_parts(ground, options, server)
            else:
                await (together if options.processes > 1 else alone)(ground, options)
        if not ground.report.clean:
            (folder / "rooms.txt").write_text(ground.told(), encoding="utf-8")
            if options.keep:
                shutil.copytree(folder, options.keep, dirs_exist_ok=True)
        return ground.report


async def alone(ground: Ground, options: argparse.Namespace) -> None:
    """End one process; each point and signal is met as often as the others."""
    rounds = Rounds(ground, await ground.start())
    every = [(point, signal) for point in POINTS for signal in SIGNALS]
    left: list[tuple[str, str]] = []
    try:
        for _ in numbers(options):
            left = left or ground.chance.sample(every, len(every))
            await rounds.round(*left.pop())
    finally:
        await rounds.end()


async def together(ground: Ground, options: argparse.Namespace) -> None:
    """End several processes at random."""
    rounds = Together(ground, [await ground.start() for _ in range(options.processes)])
    try:
        for _ in numbers(options):
            await rounds.round()
    finally:
        await rounds.end()


async def in_parts(ground: Ground, options: argparse.Namespace, server: "Postgres | None") -> None:
    """Let each way of failing happen as often as the others."""
    server = server if options.crashes else None
    parts = await Parts.begin(ground, workers=options.workers, gateways=options.gateways, server=server)
    every = [*WAYS, *(OF_SERVES if options.serves else ()), *([CRASH] if server else ())]
    left: list[str] = []
    try:
        for _ in numbers(options):
            if len(left) < options.at_once:
                left = ground.chance.sample(every, len(every)) + left
            await parts.round([left.pop() for _ in range(options.at_once)])
    finally:
        await parts.end()


async def replaced(ground: Ground, options: argparse.Namespace) -> None:
    """Replace all workers, one by one, while people ask, and tell how long they wait."""
    rolling = await Rolling.begin(ground, workers=options.workers or 2, rate=options.rolling)
    try:
        calm, amid = await rolling.measure(_CALM_SECONDS, _DEPLOYS)
        more = amid.seconds[-1] - calm.seconds[-1]
        print(f"{calm}\n{amid}\nThe one who waited longest waited {more:.2f} s longer than without a deploy.")
        print(f"Conversations that waited until their worker was taken for dead: {ground.taken_for_dead}.")
    finally:
        await rolling.end()


def numbers(options: argparse.Namespace) -> Generator[int, None, None]:
    """Count the rounds, until there were so many or the time is over; a terminal shows the count."""
    over = time.monotonic() + options.minutes * 60
    for number in range(1, options.rounds + 1):
        if time.monotonic() > over:
            break
        yield number
        if sys.stderr.isatty():
            print(f"\r{number} rounds", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)


@contextmanager
def store_of(wanted: str) -> "Generator[tuple[str, Postgres | None], None, None]":
    """The URL of a store that nobody has used, "" for a file; and its server, if that was started for it."""
    if wanted == "sqlite":
        yield "", None
    elif wanted == "postgres":
        from tests.servers.postgres import Postgres

        server = Postgres()
        try:
            yield server.url("kills"), server
        finally:
            server.close()
    else:
        import psycopg

        from pixi.store.postgres.address import read_address

        schema = f"kills_{uuid4().hex}"
        yield f"{wanted}{'&' if '?' in wanted else '?'}schema={schema}", None
        with psycopg.connect(read_address(wanted).conninfo, autocommit=True) as session:
            session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def main() -> int:
    """Read the flags, kill, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="the longest it may go on")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed, the same kills")
    parser.add_argument("--processes", type=int, default=1, help="how many share the store")
    parser.add_argument("--workers", type=int, default=0, help="how many answer for gateways")
    parser.add_argument("--gateways", type=int, default=1, help="how many hear for workers")
    parser.add_argument("--serves", type=int, default=0, help="how many answer over HTTP beside them")
    parser.add_argument(
        "--rolling",
        type=float,
        default=0.0,
        metavar="RATE",
        help="replace workers while so many ask a second",
    )
    parser.add_argument("--at-once", type=int, default=1, help="how many things happen to parts in a round")
    parser.add_argument(
        "--crashes", action="store_true", help="crash the database too; with --store postgres"
    )
    parser.add_argument("--store", default="sqlite", help="sqlite, postgres, or the URL of a server")
    parser.add_argument("--keep", type=Path, help="if something was wrong, leave log, store and talks there")
    options = parser.parse_args()
    if options.crashes and options.store != "postgres":
        parser.error("--crashes needs a server of its own: --store postgres")
    with tempfile.TemporaryDirectory() as folder, store_of(options.store) as (store, server):
        report = asyncio.run(run(Path(folder), options, store, server))
        print(f"seed {options.seed}: {report}")
        if report.clean:
            return 0
        tell(report, Path(folder))
        return 1


def tell(report: Report, folder: Path) -> None:
    """Print what was wrong, what was said of it in the rooms and asked of the model, and the log."""
    found = [
        (what, each)
        for what in ("lost", "half", "twice", "untrue", "unheard", "unknown")
        for each in getattr(report, what)
    ]
    for what, each in found[:20]:
        print(f"  {what}: {each}")
    names = set(re.findall(r"\bq\d+\b", " ".join(each for _, each in found[:20])))
    for line in (folder / "rooms.txt").read_text(encoding="utf-8").splitlines():
        if SORRY in line or not names.isdisjoint(re.findall(r"\bq\d+\b", line)):
            print(line[:600])
    log = (folder / "log.txt").read_text(encoding="utf-8")
    bad = [line[:600] for line in log.splitlines() if not re.search('"level": "(info|debug)"', line)]
    print("Warnings and errors of the log:", *bad[-40:], f"Its end:\n{log[-4_000:]}", sep="\n")


if __name__ == "__main__":
    sys.exit(main())
