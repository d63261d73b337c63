"""A server that reads a prompt for long is waited for, told of, and asked to go on where it was."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import Delta, PromptProgress, Request, Text, UserLine
from pixi.models.breaker import BreakerPolicy, Breakers
from pixi.models.connections import is_near
from pixi.models.deadlines import DeadlineExceeded, Deadlines, FirstWait, ReadingSpeed, Watchdog
from pixi.models.fallback import FallbackModel
from pixi.models.faults import Retries
from pixi.models.server_model import ServerModel
from tests.held_clock import HeldClock
from tests.servers.scripted_openai import (
    Later,
    Reply,
    Reset,
    ScriptedOpenAI,
    Seen,
    Stall,
    Step,
    chunk,
    content,
    error,
    event,
    head,
    stream,
)

HI = Request((UserLine("mo: hi"),))
FINE = stream("fine")


def later(seconds: int) -> list[Step]:
    """So many seconds, in steps that no deadline takes for a standstill."""
    return [Later(0.2)] * (seconds * 5)


def sign(done: int, total: int = 1669) -> bytes:
    """What llama.cpp tells while it reads."""
    told = {"total": total, "cache": 0, "processed": done, "time_ms": 5}
    return event(chunk({"role": "assistant", "content": None}, prompt_progress=told))


def read(*steps: Step) -> Reply:
    """A reply whose prompt is read like this before its one word."""
    return Reply((head(), *steps, *FINE.steps[1:]))


@asynccontextmanager
async def chat(
    server: ScriptedOpenAI, deadlines: Deadlines | None = None
) -> AsyncGenerator[ServerModel, None]:
    breakers = Breakers(policy=BreakerPolicy(failures=1, pause=600.0))
    model = ServerModel(
        "m", base_url=server.base_url, retries=Retries(base=0.001), deadlines=deadlines, breakers=breakers
    )
    try:
        yield model
    finally:
        await model.close()


async def heard(model: ServerModel | FallbackModel) -> tuple[str, list[PromptProgress]]:
    deltas: list[Delta] = [delta async for delta in model.stream(HI)]
    text = "".join(delta.text for delta in deltas if isinstance(delta, Text))
    return text, [delta for delta in deltas if isinstance(delta, PromptProgress)]


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(Reply((*later(35), *FINE.steps)), id="without a sign"),
        pytest.param(read(*later(35)), id="without a sign after its headers"),
        pytest.param(read(sign(0), *later(20), sign(1024), *later(20), sign(1669)), id="with signs"),
        pytest.param(
            read(b": keepalive 0/1669\n\n", *later(20), b": keepalive 1669/1669\n\n", *later(20)), id="mlx"
        ),
    ],
)
async def test_reading_for_longer_than_a_public_server_may_is_no_fault(slow: Reply) -> None:
    async with ScriptedOpenAI(slow, FINE) as server, chat(server) as model:
        assert (await heard(model))[0] == "fine"
        assert (await heard(model))[0] == "fine"
        assert len(server.requests) == 2


async def test_signs_tell_how_much_is_left_and_for_how_long() -> None:
    reply = read(sign(69), *later(10), sign(869), *later(10), sign(1669), *later(1))
    async with ScriptedOpenAI(reply, read(sign(1569), *later(1))) as server, chat(server) as model:
        first, second, last = (await heard(model))[1]
        assert (first.done, first.total, first.seconds) == (69, 1669, None)
        assert (second.done, last.done) == (869, 1669)
        assert second.seconds == pytest.approx(10, rel=0.5)
        assert last.seconds == 0
        # The next time it is known from the first sign on.
        (again,) = (await heard(model))[1]
        assert again.seconds == pytest.approx(1.25, rel=0.5)


@pytest.mark.parametrize("same", [b": ping\n\n", sign(12), b": keepalive 12/1669\n\n", event(content(""))])
async def test_what_tells_of_no_progress_is_no_sign(same: bytes) -> None:
    endless = read(*[step for _ in range(100) for step in (same, Later(0.2))])
    async with ScriptedOpenAI(endless) as server, chat(server, Deadlines(first=5)) as model:
        with pytest.raises(ModelError, match="sent no words for 5 s"):
            await heard(model)


@pytest.mark.parametrize("done", [-1, 10**400])
async def test_a_number_of_tokens_that_cannot_be_is_no_sign(done: int) -> None:
    answer = read(sign(0, 10**400), sign(1), Later(0.2), sign(done, 10**400), Later(0.2))
    async with ScriptedOpenAI(answer) as server, chat(server) as model:
        text, told = await heard(model)
        assert text == "fine"
        assert [(each.done, each.total) for each in told] == [(1, 1669)]


async def test_a_prompt_that_was_being_read_is_read_on_after_a_deadline() -> None:
    replies = [read(sign(0), Stall()), read(sign(1024), Stall()), read(sign(1668), *later(4))]
    async with ScriptedOpenAI(*replies) as server, chat(server, Deadlines(first=5)) as model:
        text, told = await heard(model)
        assert text == "fine"
        assert [each.done for each in told] == [0, 1024, 1668]
        assert len({seen.body for seen in server.requests}) == 1


async def test_a_server_that_begins_anew_each_time_is_given_up() -> None:
    async with (
        ScriptedOpenAI(*[read(sign(0), Stall())] * 9) as server,
        chat(server, Deadlines(first=5)) as model,
    ):
        with pytest.raises(ModelError, match="sent no words for 5 s, too slow for this prompt"):
            await heard(model)
        assert len(server.requests) == 2


async def test_what_breaks_while_it_reads_is_asked_again() -> None:
    async with ScriptedOpenAI(read(sign(512), Reset()), FINE) as server, chat(server) as model:
        assert (await heard(model))[0] == "fine"


async def test_one_that_breaks_while_it_reads_is_followed_by_the_next() -> None:
    async with (
        ScriptedOpenAI(*[read(sign(512), *later(10), Reset())] * 3) as server,
        ScriptedOpenAI(FINE) as other,
        chat(server) as first,
        chat(other) as second,
    ):
        model = FallbackModel([first, second], context_tokens=8_192, seconds=9)
        assert (await heard(model))[0] == "fine"


async def test_a_public_server_is_waited_for_as_long_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.models.server_model.is_near", lambda host: False)
    async with ScriptedOpenAI(Reply((Stall(),))) as server, chat(server) as model:
        with pytest.raises(ModelError, match=r"sent no words for 30 s\."):
            await heard(model)
        assert "return_progress" not in server.requests[0].json()


async def test_a_server_that_knows_no_return_progress_is_asked_without() -> None:
    def reply(seen: Seen) -> Reply:
        refused = "return_progress" in seen.json()
        return error(400, "Unrecognized request argument supplied: return_progress") if refused else FINE

    async with ScriptedOpenAI(choose=reply) as server, chat(server) as model:
        assert (await heard(model))[0] == "fine"
        assert (await heard(model))[0] == "fine"
        assert len(server.requests) == 3


def waits(speed: ReadingSpeed, tokens: int) -> FirstWait:
    return FirstWait(Deadlines(), speed, near=True, tokens=tokens)


async def test_a_wait_grows_with_the_prompt_and_with_what_was_seen(clock: HeldClock) -> None:
    speed = ReadingSpeed()
    late = waits(speed, 1_000)
    assert late.seconds == 300
    await asyncio.sleep(200)
    late.answered()
    assert waits(speed, 1_000).seconds == 400
    assert waits(speed, 4_000).seconds == 1_600
    in_vain = waits(speed, 1_000)
    await asyncio.sleep(400)
    assert not in_vain.goes_on()
    assert waits(speed, 1_000).seconds == 800
    # An explicit one does not.
    assert FirstWait(Deadlines(first=20), speed, near=True, tokens=9_999).seconds == 20


async def test_a_short_prompt_that_waits_for_the_model_to_load_tells_little(clock: HeldClock) -> None:
    speed = ReadingSpeed()
    first = waits(speed, 10)
    await asyncio.sleep(60)
    first.answered()
    assert waits(speed, 1_000).seconds == 300
    assert waits(speed, 5_000).seconds == 1_200


async def test_a_server_that_hangs_is_not_waited_for_longer_and_longer(clock: HeldClock) -> None:
    speed = ReadingSpeed()
    for seconds in (300, 600, 600, 600):
        wait = waits(speed, 1_000)
        assert wait.seconds == seconds
        await asyncio.sleep(seconds)
        assert not wait.goes_on()
    wait = waits(speed, 1_000)
    await asyncio.sleep(500)
    wait.answered()  # it was only slow
    assert waits(speed, 1_000).seconds == 1_000


async def test_no_reading_is_waited_for_longer_than_an_hour(clock: HeldClock) -> None:
    exceeded: list[DeadlineExceeded] = []
    began = clock.time()
    wait = waits(ReadingSpeed(), 1_000)
    Watchdog(Deadlines(), wait, exceeded.append)
    done = 0
    while not exceeded:
        await asyncio.sleep(100)
        done += 1
        wait.read_on(done, 1_000_000)
    assert clock.time() - began == 3_600
    assert (exceeded[0].which, exceeded[0].seconds) == ("first", 3_600)
    assert not wait.goes_on()


@pytest.mark.parametrize(
    ("host", "near"),
    [
        *[
            (host, True)
            for host in ("127.0.0.1", "::1", "10.1.2.3", "192.168.0.9", "172.20.0.2", "100.64.0.1")
        ],
        *[(host, True) for host in ("localhost", "ollama", "nas.local", "host.docker.internal", "gpu.LAN")],
        *[(host, False) for host in ("8.8.8.8", "api.openai.com", "2606:4700::1111", "local.example")],
    ],
)
def test_who_is_near(host: str, near: bool) -> None:
    assert is_near(host) is near
