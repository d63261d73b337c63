"""The parts under the figures: replies, rounds, the model server, the table."""

import asyncio
import json
from itertools import count

import pytest

from benchmarks.contenders import Floor, delay_of, new_event_loop
from benchmarks.processes import WorkerFailed, model_server, worker
from benchmarks.replies import (
    REPLIES,
    STAMP_HOLE,
    TAIL,
    chunks_of_text,
    cut,
    ending,
    event,
    stamped_chunks,
    starts,
)
from benchmarks.report import Figure, document, in_words
from benchmarks.rounds import Rounds, interleave
from pixi.core.language import CommandEnded, CommandStream
from tests.waiting import within


def test_the_replies_are_as_long_as_is_said() -> None:
    mean = sum(map(len, REPLIES)) / len(REPLIES)
    assert 436 <= mean <= 456
    assert all("".join(cut(reply)) == reply for reply in REPLIES)
    assert {len(chunk) for reply in REPLIES for chunk in cut(reply)[:-1]} == {4}


def test_every_line_of_a_reply_is_one_command() -> None:
    for reply in REPLIES:
        stream = CommandStream()
        ended = [event for event in stream.feed(reply) + stream.close() if isinstance(event, CommandEnded)]
        assert len(ended) == reply.count("]\n")
        assert all(command.complete and command.argument for command in ended)


def test_a_stamp_and_its_bracket_are_one_chunk() -> None:
    chunks = stamped_chunks(300)
    assert all(chunk == STAMP_HOLE + "]" for chunk in chunks if "@" in chunk)
    assert sum("@" in chunk for chunk in chunks) >= 10


@pytest.mark.parametrize("count", [60, 300])
def test_stamped_streams_are_of_one_length_and_unlike(count: int) -> None:
    streams = [stamped_chunks(count, start) for start in range(starts())]
    assert {len(chunks) for chunks in streams} == {count + TAIL}
    places = [tuple(n for n, chunk in enumerate(chunks) if "@" in chunk) for chunks in streams]
    assert len(set(places)) > len(places) / 2
    for chunks in streams:
        stream = CommandStream()
        ended = [event for event in stream.feed("".join(chunks)) if isinstance(event, CommandEnded)]
        assert ended[-1].name == "note"
        assert len(ended) == "".join(chunks).count("]\n") + 1
        assert all(len(chunk) <= 4 or "@" in chunk for chunk in chunks)


def test_events_are_those_of_a_chat_completion() -> None:
    data = event({"content": 'a "b"\n'}).decode()
    assert data.startswith("data: ")
    assert data.endswith("\n\n")
    assert json.loads(data[6:])["choices"][0]["delta"] == {"content": 'a "b"\n'}
    assert ending().endswith(b"\r\n0\r\n\r\n")


def test_a_message_tells_the_delay_of_its_bracket() -> None:
    delay = delay_of("hello " + "1".zfill(20))
    assert delay is not None
    assert delay > 0
    assert delay_of("hello 12") is None
    assert delay_of("") is None


def test_rounds_begin_with_another_one_each_time() -> None:
    order: list[str] = []
    numbers = count(1)

    def measure(name: str) -> float:
        order.append(name)
        return float(next(numbers))

    rounds = interleave({"a": lambda: measure("a"), "b": lambda: measure("b")}, rounds=2)
    assert order == ["a", "b", "b", "a"]
    assert rounds.values == {"a": [1, 4], "b": [2, 3]}


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    rounds = Rounds({"a": [10.0, 40.0, 90.0], "b": [1.0, 2.0, 3.0]})
    assert rounds.ratio("a", "b") == 20
    assert rounds.median("a") == 40


def test_the_table_shows_what_was_measured_and_where() -> None:
    figure = Figure(
        name="Speed",
        command="python -m benchmarks speed",
        goal="≤ 3 ms",
        ours="2 ms",
        peers={"other": "9 ms"},
        ratios={"other / Pixi": "4.5"},
        met=True,
        note="quiet",
    )
    text = document([figure])
    cells = "≤ 3 ms | **2 ms** | other: 9 ms | – | other / Pixi: 4.5 | yes |"
    assert f"| Speed<br>`python -m benchmarks speed` | {cells}" in text
    assert "- Speed: quiet" in text
    assert "cores" in text
    assert "Python 3." in text
    assert "UTC" in text
    assert "other / Pixi: 4.5" in in_words(figure)


async def test_a_paced_stream_tells_the_moment_of_each_bracket() -> None:
    streams, rate = 3, 1_000.0
    with model_server(None) as server:
        floor = Floor(watching=True)
        await floor.open(server.paced(streams, 60, rate))
        replies = [asyncio.create_task(floor.reply(number)) for number in range(streams)]
        await server.writing()
        await asyncio.gather(*replies)
        written = [stamped_chunks(60, start) for start in range(streams)]
        assert len(floor.delays) == sum("@" in chunk for chunks in written for chunk in chunks)
        assert all(0 <= delay < 60e9 for delay in floor.delays)
        report = server.report()
        assert report["writes"] == sum(map(len, written))
        assert 0 <= report["late_p50_ms"] <= report["late_p99_ms"] <= report["late_max_ms"]
        assert 0 < report["cpu_share"] < 1.5


async def test_the_server_lives_on_when_a_client_leaves() -> None:
    with model_server(None) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /paced/1/30/500/v1/chat/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        floor = Floor()
        await floor.open(server.fast(10))
        async with within("a reply to another client"):
            await floor.reply(0)


def test_chunks_go_round_and_round() -> None:
    once = [chunk for reply in REPLIES for chunk in cut(reply)]
    assert chunks_of_text(len(once) + 1) == [*once, once[0]]


def test_a_worker_that_dies_is_told_of_with_its_last_words() -> None:
    import sys

    command = [sys.executable, "-c", "input(); raise SystemExit('the disk is full')"]
    with worker(command) as running, pytest.raises(WorkerFailed, match="the disk is full"):
        running.ask({})


def test_the_loop_has_a_name() -> None:
    loop, name = new_event_loop()
    loop.close()
    assert name in ("uvloop", "asyncio")
