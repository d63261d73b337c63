"""Everything that a server can do wrong, over real sockets: how often it is asked, and what is said of it."""

import asyncio
import re
import socket
import time

import pytest

from pixi.core.deltas import Delta, Request, Text
from pixi.core.errors import ModelError
from pixi.core.lines import SystemLine, UserLine
from pixi.models.chat.door import OpenAIChat
from pixi.models.deadlines import Deadlines
from pixi.models.faults import Retries, retry_after
from tests.servers.scripted_openai import (
    Close,
    Hang,
    Json,
    Reply,
    Reset,
    ScriptedOpenAI,
    Step,
    Wait,
    answer,
    call,
    chunk,
    error,
    event,
    head,
    page,
    stream,
)

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))
KEY = "sk-canary-7f3a"
QUICK = Deadlines(first=0.3, gap=0.3, turn=1.0)
PATIENT = Deadlines(first=5.0, gap=5.0, turn=10.0)


async def failure(
    server: ScriptedOpenAI, *, deadlines: Deadlines = PATIENT, api_key: str | None = KEY
) -> tuple[ModelError, list[Delta]]:
    """The error that asking ends with, and the deltas before it."""
    model = OpenAIChat(
        "scripted-8b",
        base_url=server.base_url,
        api_key=api_key,
        deadlines=deadlines,
        retries=Retries(base=0.001),
    )
    deltas: list[Delta] = []

    async def ask() -> None:
        async for delta in model.stream(HI):
            deltas.append(delta)  # noqa: PERF401  # a comprehension would lose those before the error

    try:
        with pytest.raises(ModelError) as caught:
            await ask()
    finally:
        await model.close()
    text = str(caught.value)
    assert "\n" not in text
    assert KEY not in text + repr(caught.value) + repr(model) + repr(vars(model))
    return caught.value, deltas


PERMANENT = [
    pytest.param(
        error(401, f"Incorrect API key provided: {KEY}."), "refused the key: check OPENAI_API_KEY", id="key"
    ),
    pytest.param(
        error(400, "API key not valid. Please pass one."), "refused the key", id="key, said with 400"
    ),
    pytest.param(error(403, f"Not for {KEY}"), "does not let this key use the model 'scripted-8b'", id="403"),
    pytest.param(
        error(404, "The model does not exist", code="model_not_found"),
        "has no model 'scripted-8b'",
        id="model",
    ),
    pytest.param(
        answer(404, {"error": 'model "x" not found'}), "has no model 'scripted-8b'", id="model, plainly"
    ),
    pytest.param(
        error(400, "Invalid model: scripted-8b"), "has no model 'scripted-8b'", id="model, said with 400"
    ),
    pytest.param(answer(404, {"detail": "Not Found"}), "has no chat completions under http://127", id="path"),
    pytest.param(
        page(404), "answered with a web page, not as a model server: check base_url", id="page, 404"
    ),
    pytest.param(
        page(200), "answered with a web page, not as a model server: check base_url", id="page, 200"
    ),
    pytest.param(answer(200, {"hello": 1}), "does not answer as a model server", id="another JSON"),
    pytest.param(answer(200, "hello", "text/plain"), "does not answer as a model server", id="plain text"),
    pytest.param(error(402, "Insufficient Balance"), "has no credit left", id="402"),
    pytest.param(error(429, "Over quota", code="insufficient_quota"), "has no credit left", id="quota"),
    pytest.param(
        error(400, "This model's maximum context length is 8192 tokens", code="context_length_exceeded"),
        "lower context_tokens",
        id="too long",
    ),
    pytest.param(
        error(400, "temperature: only 1"), r"refused the request \(400\). It said: temperature", id="400"
    ),
    pytest.param(
        answer(422, {"detail": [{"loc": ["body", "seed"], "msg": "not an integer"}]}),
        "body.seed: not an integer",
        id="422",
    ),
    pytest.param(
        answer(301, "", location="https://other.example/v1"), "set base_url to it.*other.example", id="301"
    ),
    pytest.param(Reply((b"SSH-2.0-OpenSSH_9.6\r\n\r\n", Close())), "does not speak HTTP", id="not HTTP"),
]


@pytest.mark.parametrize(("reply", "says"), PERMANENT)
async def test_permanent_faults_are_asked_once(reply: Reply, says: str) -> None:
    async with ScriptedOpenAI(reply) as server:
        fault, deltas = await failure(server)
        assert len(server.requests) == 1
    assert re.search(says, str(fault)), fault
    assert server.base_url.removeprefix("http://").removesuffix("/v1") in str(fault)
    assert fault.permanent
    assert deltas == []


async def test_a_key_is_not_shown_in_part_either() -> None:
    async with ScriptedOpenAI(error(400, "x" * 290 + KEY)) as server:
        fault, _ = await failure(server)
    assert KEY[:8] not in str(fault)
    assert len(str(fault)) < 400


async def test_a_proxy_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    model = OpenAIChat("x", base_url="http://models.example/v1", retries=Retries(base=0.001))
    with pytest.raises(ModelError, match=r"The proxy on the way to models\.example:80 failed"):
        await anext(model.stream(HI))
    await model.close()


async def test_a_server_that_wants_a_key_where_none_was_set() -> None:
    async with ScriptedOpenAI(error(401, "Missing bearer")) as server:
        fault, _ = await failure(server, api_key=None)
    assert "wants a key: set OPENAI_API_KEY" in str(fault)


PASSING = [
    pytest.param(error(429, "Slow down"), "limits how often", id="429"),
    pytest.param(error(500, "Oh no"), r"failed \(500\). It said: Oh no", id="500"),
    pytest.param(error(503, "Loading model"), r"failed \(503\)", id="503"),
    pytest.param(page(502), r"failed \(502\)", id="a proxy's page"),
    pytest.param(answer(529, "", "text/plain"), r"failed \(529\)", id="529"),
    pytest.param(Reply((Close(),)), "broke the connection off", id="closed"),
    pytest.param(Reply((Reset(),)), "broke the connection off", id="reset"),
    pytest.param(stream(Reset()), "broke the connection off", id="reset after the head"),
    pytest.param(
        stream(chunk({"role": "assistant"}), done=False, end=False), "broke the connection", id="cut"
    ),
    pytest.param(stream(done=False), "closed the connection without a reply", id="empty body"),
    pytest.param(
        stream(b": ping\n\n", done=False), "closed the connection without a reply", id="only a comment"
    ),
    pytest.param(stream(b"data: {broken\n\n", done=False), "without a reply", id="only a broken event"),
    pytest.param(stream(event({"error": {"message": "boom"}})), "failed. It said: boom", id="an error event"),
    pytest.param(
        answer(200, {"error": {"message": "boom", "code": 502}}), r"\(502\).*boom", id="an error, 200"
    ),
]


@pytest.mark.parametrize(("reply", "says"), PASSING)
async def test_passing_faults_are_asked_three_times(reply: Reply, says: str) -> None:
    async with ScriptedOpenAI(reply) as server:
        fault, deltas = await failure(server)
        assert len(server.requests) == 3
    assert re.search(says, str(fault)), fault
    assert not fault.permanent
    assert deltas == []


@pytest.mark.parametrize(("reply", "says"), PASSING)
async def test_a_fault_that_passes_is_never_seen(reply: Reply, says: str) -> None:
    async with ScriptedOpenAI(reply, reply, stream("hi")) as server:
        model = OpenAIChat("x", base_url=server.base_url, retries=Retries(base=0.001))
        deltas = [delta async for delta in model.stream(HI)]
        await model.close()
        assert len(server.requests) == 3
    assert deltas[0] == Text("hi")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        pytest.param(stream("hi", Reset()), "broke the connection off", id="reset"),
        pytest.param(stream("hi", done=False, end=False), "broke the connection off", id="cut"),
        pytest.param(
            stream("hi", event({"error": {"message": "boom"}})), "It said: boom", id="an error event"
        ),
        pytest.param(stream("hi", chunk({}, finish_reason="error")), "failed in the middle", id="its reason"),
        pytest.param(stream("hi", Hang()), "stopped in the middle of its reply for 0.3 s", id="stall"),
    ],
)
async def test_nothing_is_asked_again_after_something_was_yielded(reply: Reply, says: str) -> None:
    async with ScriptedOpenAI(reply) as server:
        fault, deltas = await failure(server, deadlines=Deadlines(first=5, gap=0.3, turn=5))
        assert len(server.requests) == 1
        assert deltas == [Text("hi")]
    assert says in str(fault)


async def test_nobody_answers() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    model = OpenAIChat("x", base_url=f"http://127.0.0.1:{port}/v1", retries=Retries(base=0.001))
    with pytest.raises(
        ModelError, match=rf"Nothing answers at 127.0.0.1:{port} \(.*\): is the server running"
    ):
        await anext(model.stream(HI))
    await model.close()


async def test_a_host_that_there_is_not() -> None:
    model = OpenAIChat("x", base_url="http://nowhere.invalid/v1", retries=Retries(base=0.001))
    with pytest.raises(ModelError, match=r"no host nowhere\.invalid: "):
        await anext(model.stream(HI))
    await model.close()


PINGS: list[str | Json | Step] = [
    b": ping\n\n",
    chunk({"content": ""}),
    chunk({"role": "assistant"}),
    Wait(0.02),
]
ENDLESS: list[str | Json | Step] = ["hi", Wait(0.05)]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        pytest.param(Reply((Hang(),)), "sent no words for 0.3 s", id="before the head"),
        pytest.param(stream(Hang()), "sent no words for 0.3 s", id="after the head"),
        pytest.param(stream(*PINGS * 100), "sent no words for 0.3 s", id="only pings"),
        pytest.param(Reply((head(503, content_length="9"), Hang())), "sent no words", id="half an error"),
        pytest.param(
            Reply((head(transfer_encoding="chunked"), Wait(0.05), b"zz\r\n")),
            "sent no words",
            id="bad framing",
        ),
        pytest.param(stream("hi", *PINGS * 100), "stopped in the middle of its reply", id="then pings"),
        pytest.param(
            stream(call("look", "{", index=0), *PINGS * 100),
            "stopped in the middle",
            id="a call",
        ),
        pytest.param(stream(*ENDLESS * 100), "still writing after 1 s", id="an endless reply"),
    ],
)
async def test_deadlines_are_on_content(reply: Reply, says: str) -> None:
    async with ScriptedOpenAI(reply) as server:
        begin = time.monotonic()
        fault, _ = await failure(server, deadlines=QUICK)
        assert says in str(fault)
        assert 0.25 < time.monotonic() - begin < 2
        await asyncio.wait_for(server.requests[0].gone.wait(), 1)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "slow",
    [chunk({"reasoning": "hm"}), chunk({"reasoning_content": "hm"}), call(arguments="1", index=0), "hi"],
)
async def test_whatever_is_content_keeps_a_slow_reply_alive(slow: Json | str) -> None:
    async with ScriptedOpenAI(stream(*([slow, Wait(0.06)] * 6))) as server:
        model = OpenAIChat("x", base_url=server.base_url, deadlines=Deadlines(first=0.2, gap=0.2, turn=5))
        deltas = [delta async for delta in model.stream(HI)]
        await model.close()
    assert len(deltas) >= 2


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(status: int) -> None:
    async with ScriptedOpenAI(error(status, "Later", retry_after="0.2"), stream("hi")) as server:
        model = OpenAIChat("x", base_url=server.base_url, retries=Retries(base=0.001))
        assert await anext(model.stream(HI)) == Text("hi")
        await model.close()
        first, second = server.requests
    assert 0.2 <= second.at - first.at < 0.7


DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "200", "retry-after": "60"}, 0.2),
        ({"retry-after": DATE}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT", "date": DATE}, 30),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:07 GMT", "date": DATE}, 0),
    ],
)
def test_the_ways_to_say_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


async def test_a_wait_that_is_longer_than_patience_is_told_at_once() -> None:
    async with ScriptedOpenAI(error(429, "Later", retry_after="3600")) as server:
        begin = time.monotonic()
        fault, _ = await failure(server)
        assert time.monotonic() - begin < 1
        assert len(server.requests) == 1
    assert fault.retry_after == 3600
    assert "asks to wait 3600 s" in str(fault)


async def test_without_retry_after_the_pauses_grow() -> None:
    async with ScriptedOpenAI(error(500, "Oh no"), error(500, "Oh no"), stream("hi")) as server:
        model = OpenAIChat("x", base_url=server.base_url, retries=Retries(base=0.1))
        assert await anext(model.stream(HI)) == Text("hi")
        await model.close()
        first, second, third = (seen.at for seen in server.requests)
    assert 0.05 <= second - first < 0.3
    assert 0.1 <= third - second < 0.5


def test_pauses_double_with_jitter_up_to_a_cap() -> None:
    retries = Retries(base=0.5, cap=8.0)
    for attempt, most in ((1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (50, 8.0)):
        pauses = {retries.backoff(attempt) for _ in range(50)}
        assert all(most / 2 <= pause <= most for pause in pauses)
        assert len(pauses) > 1
