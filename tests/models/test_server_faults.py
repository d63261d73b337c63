"""Each fault of a model's server: a reply or one clear error, soon, and nothing left over."""

import asyncio
import os
import re
import resource
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from pixi.core.deltas import Finished, Request, Text
from pixi.core.errors import ModelError
from pixi.core.lines import SystemLine, ToolCall, UserLine
from pixi.models.chat.door import OpenAIChat
from pixi.models.deadlines import Deadlines
from pixi.models.fallback import FallbackModel
from pixi.models.faults import Retries
from pixi.models.model import Model
from tests.engine.scene import until
from tests.servers.model_faults import (
    AFTER_SOME_WORDS,
    BEFORE_ANY_WORD,
    FAULTS,
    FIRST_SECONDS,
    GAP_SECONDS,
    SAID,
    Fault,
    Faulty,
    odd_calls,
    served,
    speaking_tls,
    trusting,
)
from tests.servers.scripted_openai import ScriptedOpenAI, answer, finish, stream

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))
KEY = "sk-canary-7f3a"
DEADLINES = Deadlines(first=FIRST_SECONDS, gap=GAP_SECONDS, turn=5.0)
QUICK = Retries(base=0.001)
# What does not stall takes as long as this machine takes, however busy it is.
PATIENT = Deadlines(first=20.0, gap=20.0, turn=60.0)
FLOODS = {fault.name for fault in FAULTS if "too long" in fault.says or "bomb" in fault.name}


def open_sockets() -> set[str]:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("open sockets can only be counted where there is a /proc")
    found = set()
    for each in os.listdir(folder):
        try:
            target = os.readlink(folder / each)
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None, None]:
    """See that what is done within leaves no task and no socket."""
    tasks, sockets = asyncio.all_tasks(), open_sockets()
    yield
    await until(lambda: asyncio.all_tasks() <= tasks)
    await until(lambda: open_sockets() <= sockets)


def deadlines_for(fault: Fault) -> Deadlines:
    return DEADLINES if fault.stalls else PATIENT


def model_at(faulty: Faulty | ScriptedOpenAI, deadlines: Deadlines = DEADLINES) -> OpenAIChat:
    return OpenAIChat(
        "scripted-8b", base_url=faulty.base_url, api_key=KEY, deadlines=deadlines, retries=QUICK
    )


async def heard(model: Model) -> tuple[str, ModelError | None]:
    """What was said, and the error that it ended with."""
    said = ""
    try:
        async for delta in model.stream(HI):
            said += delta.text if isinstance(delta, Text) else ""
    except ModelError as fault:
        return said, fault
    return said, None


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_fault_ends_in_a_reply_or_one_clear_error(fault: Fault) -> None:
    async with nothing_left(), served(fault) as faulty:
        model = model_at(faulty, deadlines_for(fault))
        begin = time.monotonic()
        try:
            said, error = await heard(model)
        finally:
            await model.close()
        assert time.monotonic() - begin < (3 if fault.stalls else 15)
    assert len(faulty.requests) == fault.asked
    if fault.says:
        assert error is not None
        assert re.search(fault.says, str(error)), error
        assert "\n" not in str(error)
        assert KEY not in str(error)
        assert said == fault.heard
    else:
        assert error is None
        assert said == SAID


@pytest.mark.parametrize("fault", BEFORE_ANY_WORD, ids=str)
async def test_with_another_model_behind_it_nobody_meets_the_fault(fault: Fault) -> None:
    async with nothing_left(), served(fault) as faulty, ScriptedOpenAI(stream(SAID, finish())) as other:
        first = model_at(faulty, deadlines_for(fault))
        model = FallbackModel([first, model_at(other)], context_tokens=8_192, seconds=60)
        deltas = [delta async for delta in model.stream(HI)]
        await model.close()
    assert "".join(delta.text for delta in deltas if isinstance(delta, Text)) == SAID
    assert deltas[-1] == Finished(model="scripted-8b")
    assert len(faulty.requests) == fault.asked
    assert len(other.requests) == 1


@pytest.mark.parametrize("fault", AFTER_SOME_WORDS, ids=str)
async def test_nobody_goes_on_with_what_another_began(fault: Fault) -> None:
    async with nothing_left(), served(fault) as faulty, ScriptedOpenAI(stream("no")) as other:
        first = model_at(faulty, deadlines_for(fault))
        model = FallbackModel([first, model_at(other)], context_tokens=8_192, seconds=60)
        said, error = await heard(model)
        await model.close()
    assert said == SAID
    assert re.search(fault.says, str(error))
    assert other.requests == []


async def test_a_host_that_never_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.models.asking._CONNECT_SECONDS", 0.1)
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        place = listening.getsockname()
        for _ in range(3):  # as many as wait to be accepted; who comes later is not heard
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(place)
        model = OpenAIChat("x", base_url=f"http://127.0.0.1:{place[1]}/v1", retries=QUICK)
        begin = time.monotonic()
        _, error = await heard(model)
        await model.close()
    assert "No connection to 127.0.0.1:" in str(error)
    assert 0.25 < time.monotonic() - begin < 3


@pytest.mark.parametrize("fault", [each for each in FAULTS if each.name in FLOODS], ids=str)
async def test_a_flood_fills_no_memory(fault: Fault) -> None:
    async with served(fault) as faulty:
        model = model_at(faulty, PATIENT)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _, error = await heard(model)
        await model.close()
    assert error is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80_000, "kilobytes"
    assert len(faulty.requests) == 1


async def test_an_expired_certificate_is_told_as_such_to_who_trusts_it() -> None:
    async with ScriptedOpenAI(stream("hi"), tls=speaking_tls("expired")) as server:
        connector = aiohttp.TCPConnector(ssl=trusting("expired"))
        async with aiohttp.ClientSession(connector=connector) as session:
            model = OpenAIChat("x", base_url=server.base_url, session=session, retries=QUICK)
            with pytest.raises(ModelError, match=r"No trusted TLS connection to .*expired") as caught:
                await anext(model.stream(HI))
    assert caught.value.permanent


async def test_a_trusted_certificate_is_no_fault() -> None:
    connector = aiohttp.TCPConnector(ssl=trusting("own"))
    async with (
        ScriptedOpenAI(stream(SAID), tls=speaking_tls("own")) as server,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        model = OpenAIChat("x", base_url=server.base_url, session=session)
        assert await heard(model) == (SAID, None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_key_does_not_follow_a_redirect(status: int) -> None:
    async with ScriptedOpenAI(stream(SAID)) as elsewhere:
        there = answer(status, "", location=f"{elsewhere.base_url}/chat/completions")
        async with ScriptedOpenAI(there) as server:
            model = model_at(server)
            _, error = await heard(model)
            await model.close()
    assert "set base_url to it" in str(error)
    assert elsewhere.connections == 0


async def test_calls_whose_pieces_come_out_of_order() -> None:
    async with ScriptedOpenAI(odd_calls("look")) as server:
        model = model_at(server)
        deltas = [delta async for delta in model.stream(HI)]
        await model.close()
    *calls, finished = deltas
    assert calls[:2] == [ToolCall("a", "look", '{"at": "one"}'), ToolCall("b", "look", '{"at": "two"}')]
    assert calls[2:] == [ToolCall("c", "look", '{"at": "three"}')]
    assert finished == Finished("stop")
