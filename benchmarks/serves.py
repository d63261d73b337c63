"""Several servers: how much later a client of one gets an event than a client of the one that answers.

Two `pixi-persona serve` run on one PostgreSQL server. Each reply is followed at both, by clients in processes
of their own. The delay at the server that answers is the floor: the same event, to the same kind of client.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from benchmarks.processes import ServerAddress, Worker, WorkerFailed, model_server
from benchmarks.report import Figure
from benchmarks.serve import RATE, SEND_STAMP, SETTINGS, Served, clients_of_streams, home, pixi
from tests.servers.postgres import Postgres

GOAL_MS = 15.0
CHUNKS = 200

Delays = dict[int, float]
"""Milliseconds from the written `]` to the client, by the moment at which it was written."""


def _followed(
    clients: tuple[Worker, Worker], servers: Sequence[Served], model: ServerAddress, streams: int, name: str
) -> tuple[Delays, Delays]:
    """Have talks answered by the first server, and follow them at both; return the delays there."""
    (own, others), (first, second) = clients, servers
    post = {"do": "open", "port": first.port, "method": "POST", "path": "/api/chat"}
    follow = {"do": "open", "port": second.port, "method": "GET", "path": f"/api/chat/{name}-{{n}}/stream"}
    _opened(own, {**post, "count": streams, "body": f'{{"message": "hi", "conversation": "{name}-{{n}}"}}'})
    while model.report().get("asked", 0) < streams:
        time.sleep(0.01)
    _opened(others, {**follow, "count": streams})
    # The model writes once all are there, and one more.
    _opened(own, {**post, "count": 1, "body": f'{{"message": "hi", "conversation": "{name}-last"}}'})
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_read, others)
        return _read(own), reading.result()


def _opened(clients: Worker, job: dict[str, object]) -> None:
    if refused := clients.ask(job)["refused"]:
        raise WorkerFailed(f"a stream was answered {refused[0]}")


def _read(clients: Worker) -> Delays:
    told = clients.ask({"do": "read", "stamp": SEND_STAMP})
    clients.ask({"do": "close"})
    return {stamp: delay / 1e6 for stamp, delay in zip(told["stamps"], told["delays"], strict=True)}


def _p50_p99(values: list[float]) -> tuple[float, float]:
    ranked = sorted(values)
    return ranked[len(ranked) // 2], ranked[len(ranked) * 99 // 100]


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    streams, rounds = (3, 1) if quick else (8, 8)
    pairs: list[tuple[float, float]] = []
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.close)
        url = postgres.url(stack.enter_context(postgres.schema()))
        model, folder = stack.enter_context(model_server(None)), stack.enter_context(home())
        clients = stack.enter_context(clients_of_streams()), stack.enter_context(clients_of_streams())
        (folder / "pixi.toml").write_text(f'[store]\nurl = "{url}"\n{SETTINGS}', encoding="utf-8")
        base_url = model.paced(streams + 1, CHUNKS, RATE)
        servers = [stack.enter_context(pixi(base_url, folder)) for _ in range(2)]
        _followed(clients, servers, model, streams, "first")  # which wakes what is needed once
        spent, began = [each.seconds for each in servers], time.monotonic()
        for number in range(rounds):
            here, there = _followed(clients, servers, model, streams, f"talk-{number}")
            pairs += [(here[stamp], there[stamp]) for stamp in here.keys() & there.keys()]
        took = time.monotonic() - began
        shares = [(each.seconds - before) / took for each, before in zip(servers, spent, strict=True)]
    floor, reached = _p50_p99([here for here, _ in pairs]), _p50_p99([there for _, there in pairs])
    later = _p50_p99([there - here for here, there in pairs])
    return [
        Figure(
            name=f"Several `serve`: an event at a client of another one, p50 / p99, {streams} replies",
            goal=f"p99 ≤ {GOAL_MS:g} ms later than at a client of its own",
            ours=f"{later[0]:.2f} / {later[1]:.2f} ms",
            floors={"at its own client, from the `]`": f"{floor[0]:.2f} / {floor[1]:.2f} ms"},
            ratios={"at the other's client, from the `]`": f"{reached[0]:.2f} / {reached[1]:.2f} ms"},
            met=later[1] <= GOAL_MS,
            note=f"{len(pairs):,} messages; the server that answers took {shares[0]:.0%} of a core, the "
            f"other {shares[1]:.0%}; what a server passes on leaves it every 5 ms at most",
        )
    ]
