"""Each fault of a model's server, behind every door: a reply or one clear error, and nothing left over."""

import asyncio
import os
import re
import resource
import socket
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import Finished, Text
from pixi.models.breaker import Breakers
from pixi.models.connections import open_session
from pixi.models.deadlines import Deadlines
from pixi.models.fallback import FallbackModel
from pixi.models.faults import Retries, retry_after
from pixi.models.server_model import ServerModel
from tests.models.doors import ANY_DOOR, DOORS, EVERY_DOOR, HI, KEY, QUICK, Door, heard
from tests.servers import scripted_anthropic as claude
from tests.servers import scripted_gemini as google
from tests.servers.dialects import ANTHROPIC, CHAT, GEMINI, RESPONSES
from tests.servers.model_faults import (
    AFTER_SOME_WORDS,
    BEFORE_ANY_WORD,
    FAULTS,
    HURRIED,
    SAID,
    Fault,
    after_some_words,
    before_any_word,
    closed_port,
    hurried,
    none_to_speak_of,
    served,
    speaking_tls,
    trusting,
)
from tests.servers.scripted_openai import (
    Hang,
    Reply,
    ScriptedOpenAI,
    Wait,
    answer,
    call,
    chunk,
    content,
    error,
    event,
    finish,
    page,
    stream,
)
from tests.servers.scripted_responses import completed, created, delta, failed, incomplete, named, response
from tests.servers.scripted_responses import responses as made
from tests.waiting import until

PATIENT = Deadlines(first=60.0, gap=60.0, turn=120.0)
"""What does not stall takes as long as this machine takes, however busy it is."""

_CUT = named(delta(SAID))
_WHOLE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}
_PINGS = [step for _ in range(40) for step in (chunk({"role": "assistant"}), Wait(0.05))]

OWN = {
    CHAT: (
        *[fault for fault in FAULTS if fault.name not in {each.name for each in before_any_word(CHAT)}],
        Fault("API key not valid", (error(400, "API key not valid. Pass one."),), says="refused the key"),
        Fault("no model, in a word", (answer(404, {"error": 'model "x" not found'}),), says="has no model"),
        Fault("no model, with 400", (error(400, "Invalid model: scripted-8b"),), says="has no model"),
        Fault("no such path", (answer(404, {"detail": "Not Found"}),), says="no chat completions under http"),
        Fault("a page for 404", (page(404),), says="answered with a web page.*check base_url"),
        Fault("quota", (error(429, "Over it", code="insufficient_quota"),), says="has no credit left"),
        Fault(
            "too long a prompt",
            (error(400, "maximum context length is 8192", code="context_length_exceeded"),),
            says="lower context_tokens",
        ),
        Fault("400", (error(400, "seed: only 1"),), says=r"refused the request \(400\). It said: seed: only"),
        Fault(
            "422",
            (answer(422, {"detail": [{"loc": ["body", "seed"], "msg": "not an integer"}]}),),
            says="body.seed: not an integer",
        ),
        Fault("529", (answer(529, "", "text/plain"),), says=r"failed \(529\)", asked=3),
        Fault("only a comment", (stream(b": ping\n\n", done=False),), says="without a reply", asked=3),
        Fault("only a broken event", (stream(b"data: {\n\n", done=False),), says="without a reply", asked=3),
        Fault(
            "only a role",
            (stream(chunk({"role": "assistant"}), done=False, end=False),),
            says="broke the connection off",
            asked=3,
        ),
        Fault(
            "an error's number in a 200",
            (answer(200, {"error": {"message": "boom", "code": 502}}),),
            says=r"\(502\).*boom",
            asked=3,
        ),
        Fault("an error for a reason", (stream(SAID, finish("error")),), "failed in the middle", SAID),
        Fault(
            "a call, and no more",
            (stream(call("look", "{", index=0), *_PINGS),),
            says="stopped in the middle of its reply",
        ),
        Fault("a last event without its end", (stream(event(content(SAID)).rstrip(), done=False),)),
        Fault("the content type of JSON", (stream(SAID, content_type="application/json"),)),
        Fault("more after its end", (stream(b"data: \xef\xbb\xbf\n\n", SAID, event("[DONE]"), "more"),)),
        Fault("a broken event behind it", (stream(SAID, b"data: \xff\n\n", finish()),)),
    ),
    RESPONSES: (
        Fault("the model failed", (made(failed("boom")),), says="It said: boom", asked=3),
        Fault("the model failed in the middle", (made(SAID, failed("boom")),), "It said: boom", SAID),
        Fault(
            "too much was asked",
            (made(failed("Slow down", "rate_limit_exceeded")),),
            says="limits how often it may be asked",
            asked=3,
        ),
        Fault(
            "created, and no more", (made(whole=False, end=False),), says="broke the connection off", asked=3
        ),
        Fault("only that it is asked", (made(*created(), Hang(), whole=False),), says="no words for"),
        Fault(
            "no such path", (answer(404, {"detail": "Not Found"}),), says="has no Responses API under http"
        ),
        Fault("cut at the limit", (made(SAID, incomplete()),)),
        Fault("no words in its events", (made(completed([_WHOLE])),)),
        Fault("events that nobody knows", (made({"type": "response.new"}, SAID, {"type": "keepalive"}),)),
        Fault("not streamed", (answer(200, response("completed", [_WHOLE])),)),
        Fault("no end mark", (made(delta(SAID), whole=False),)),
        Fault("left open after the reason", (made(SAID, completed(), Hang()),)),
        Fault("the content type of a page's text", (stream(_CUT, content_type="text/plain"),)),
    ),
    ANTHROPIC: (
        Fault("529", (claude.error(529, "overloaded_error", "Busy"), ANTHROPIC.says(SAID)), asked=2),
        Fault(
            "no credit",
            (claude.error(400, "invalid_request_error", "Your credit balance is too low"),),
            says="has no credit left",
        ),
        Fault(
            "too long a prompt",
            (claude.error(400, "invalid_request_error", "prompt is too long: 9 > 8"),),
            says="lower context_tokens",
        ),
        Fault(
            "too large",
            (claude.error(413, "request_too_large", "Too large"),),
            says=r"refused the request \(413\)",
        ),
        Fault(
            "a key",
            (claude.error(401, "authentication_error", "invalid x-api-key"),),
            says="check ANTHROPIC_",
        ),
    ),
    GEMINI: (
        Fault("a wait in its body", (google.error(429, "Slow", retry="0.05s"), GEMINI.says(SAID)), asked=2),
        Fault("a long wait in its body", (google.error(429, "Full.", retry="3600s"),), says="to wait 3600 s"),
        Fault("a key", (google.error(400, "API key not valid. Pass one."),), says="key: check GEMINI_"),
        Fault("no model", (google.error(404, "models/x is not found for API v1"),), says="has no model"),
        Fault(
            "too long a prompt",
            (google.error(400, "The input token count (9) exceeds the maximum"),),
            says="lower context_tokens",
        ),
    ),
}


def _faults(door: Door) -> tuple[Fault, ...]:
    """What may go wrong behind a door: what does behind each, and what its own server has."""
    speaks = door.speaks
    alike = (*before_any_word(speaks), *after_some_words(speaks), *none_to_speak_of(speaks))
    own = [fault for fault in OWN[speaks] if fault.name not in {each.name for each in alike}]
    return (*alike, *own)


def _is_flood(fault: Fault) -> bool:
    return "too long to be" in fault.says or "bomb" in fault.name


def _marks(door: Door, fault: Fault) -> tuple[pytest.MarkDecorator, ...]:
    """What is no matter of the dialect is tried with one of them each time, with all of them nightly."""
    particular = (*OWN[door.speaks], *after_some_words(door.speaks))
    alike = fault.name not in {each.name for each in particular}
    at_night = door.speaks is not CHAT and (alike or _is_flood(fault))
    return (pytest.mark.nightly,) if at_night else ()


EACH_FAULT = pytest.mark.parametrize(
    ("door", "fault"),
    [
        pytest.param(door, fault, id=f"{door}: {fault}", marks=_marks(door, fault))
        for door in DOORS
        for fault in _faults(door)
    ],
)


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


@EACH_FAULT
async def test_a_fault_ends_in_a_reply_or_one_clear_error(door: Door, fault: Fault) -> None:
    deadlines = HURRIED if fault.stalls else PATIENT
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        nothing_left(),
        served(hurried(fault)) as faulty,
        door.open(faulty.base_url, api_key=KEY, deadlines=deadlines) as model,
    ):
        said, error = await heard(model)
    assert len(faulty.requests) == fault.asked
    if _is_flood(fault):
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 80_000, "kilobytes"
    if not fault.says:
        assert (said, error) == (SAID, None)
        return
    assert said == fault.heard
    assert error is not None
    assert re.search(fault.says, str(error)), error
    assert "\n" not in str(error)
    assert KEY not in str(error) + repr(error) + repr(model) + repr(vars(model))
    if fault.asked == 3:
        assert not error.permanent, "it may pass"
    elif fault.asked == 1 and not fault.heard and not fault.stalls and "wait" not in fault.says:
        assert error.permanent, "it is asked once, and told at once to all"


CHOSEN = {"connection refused", "401", "500", "a stall before the first byte"}
"""One of each kind: the rest differs in nothing that a second model could see."""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(each, id=str(each), marks=() if each.name in CHOSEN else pytest.mark.nightly)
        for each in BEFORE_ANY_WORD
    ],
)
async def test_with_another_model_behind_it_nobody_meets_the_fault(fault: Fault) -> None:
    async with (
        nothing_left(),
        served(hurried(fault)) as faulty,
        ScriptedOpenAI(stream(SAID, finish())) as other,
    ):
        deadlines = HURRIED if fault.stalls else PATIENT
        first = ServerModel("scripted-8b", base_url=faulty.base_url, deadlines=deadlines, retries=QUICK)
        second = ServerModel("scripted-8b", base_url=other.base_url)
        model = FallbackModel([first, second], context_tokens=8_192, seconds=60)
        deltas = [delta async for delta in model.stream(HI)]
        await model.close()
    assert "".join(delta.text for delta in deltas if isinstance(delta, Text)) == SAID
    assert deltas[-1] == Finished(model="scripted-8b")
    assert len(faulty.requests) == fault.asked
    assert len(other.requests) == 1


@pytest.mark.parametrize("fault", AFTER_SOME_WORDS[:4], ids=str)
async def test_nobody_goes_on_with_what_another_began(fault: Fault) -> None:
    async with nothing_left(), served(hurried(fault)) as faulty, ScriptedOpenAI(stream("no")) as other:
        first = ServerModel("scripted-8b", base_url=faulty.base_url, deadlines=HURRIED, retries=QUICK)
        second = ServerModel("scripted-8b", base_url=other.base_url)
        model = FallbackModel([first, second], context_tokens=8_192, seconds=60)
        said, error = await heard(model)
        await model.close()
    assert said == SAID
    assert re.search(fault.says, str(error))
    assert other.requests == []


# Asking again.


class Pauses:
    """Takes note of how long it is asked to sleep, and lets that pass on a clock of its own."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def clock(self) -> float:
        return sum(self.slept)


@ANY_DOOR
async def test_how_long_is_waited_before_asking_again(door: Door) -> None:
    broken, error = door.speaks.error(500, "Oh no"), door.speaks.error
    cases: list[tuple[list[Reply], list[float]]] = [
        ([broken, broken], [0.5, 1.0]),  # at most: with jitter, at least half of it
        ([error(429, "Slow", retry_after="7")], [7]),
        ([error(503, "Busy", retry_after="7")], [7]),
    ]
    for replies, most in cases:
        pauses = Pauses()
        retries, breakers = Retries(sleep=pauses.sleep), Breakers(pauses.clock)
        async with (
            ScriptedOpenAI(*replies, door.speaks.says("hi")) as server,
            door.open(server.base_url, retries=retries, breakers=breakers) as model,
        ):
            assert await heard(model) == ("hi", None)
        if len(most) == 1:
            assert pauses.slept == most
        else:
            assert all(b / 2 <= slept <= b for slept, b in zip(pauses.slept, most, strict=True))


async def test_a_wait_that_is_longer_than_patience_is_told_at_once() -> None:
    sleep = (pauses := Pauses()).sleep
    for seconds, patience in [(3600, Retries(sleep=sleep)), (3, Retries(sleep=sleep, wait=2.0))]:
        async with ScriptedOpenAI(error(429, "Later", retry_after=str(seconds))) as server:
            model = ServerModel("x", base_url=server.base_url, retries=patience)
            _, fault = await heard(model)
            await model.close()
            assert len(server.requests) == 1
        assert fault is not None
        assert fault.retry_after == seconds
        assert f"asks to wait {seconds} s" in str(fault)
    assert pauses.slept == []


def test_pauses_double_with_jitter_up_to_a_cap() -> None:
    retries = Retries(base=0.5, cap=8.0)
    for attempt, most in ((1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (50, 8.0)):
        pauses = {retries.backoff(attempt) for _ in range(50)}
        assert all(most / 2 <= pause <= most for pause in pauses)
        assert len(pauses) > 1


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


# The way there.


@ANY_DOOR
async def test_a_key_does_not_follow_a_redirect(door: Door) -> None:
    async with ScriptedOpenAI(door.speaks.says(SAID)) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            there = answer(status, "", location=f"{elsewhere.base_url}{door.path}")
            async with ScriptedOpenAI(there) as server, door.open(server.base_url, api_key=KEY) as model:
                _, error = await heard(model)
            assert "set base_url to it" in str(error)
            assert elsewhere.base_url in str(error)
        assert elsewhere.connections == 0


@EVERY_DOOR
async def test_a_server_that_wants_a_key_where_none_was_set(door: Door) -> None:
    async with (
        ScriptedOpenAI(door.speaks.error(401, "Missing bearer")) as server,
        door.open(server.base_url) as model,
    ):
        _, error = await heard(model)
    assert f"wants a key: set {door.key_name}" in str(error)


@ANY_DOOR
async def test_a_key_is_not_shown_in_part_either(door: Door) -> None:
    async with (
        ScriptedOpenAI(door.speaks.error(400, "x" * 290 + KEY)) as server,
        door.open(server.base_url, api_key=KEY) as model,
    ):
        _, error = await heard(model)
    assert KEY[:8] not in str(error)
    assert len(str(error)) < 400


@ANY_DOOR
async def test_a_proxy_that_does_not_answer(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    async with door.open("http://models.example/v1") as model:
        _, error = await heard(model)
    assert "The proxy on the way to models.example:80 failed" in str(error)


async def test_a_host_that_never_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.models.connections._CONNECT_SECONDS", 0.05)
    pauses = Pauses()
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        place = listening.getsockname()
        for _ in range(3):  # as many as wait to be accepted; who comes later is not heard
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(place)
        model = ServerModel(
            "x", base_url=f"http://127.0.0.1:{place[1]}/v1", retries=Retries(sleep=pauses.sleep)
        )
        _, error = await heard(model)
        await model.close()
    assert "No connection to 127.0.0.1:" in str(error)
    assert len(pauses.slept) == 2


async def test_an_expired_certificate_is_told_as_such_to_who_trusts_it() -> None:
    async with (
        ScriptedOpenAI(stream("hi"), tls=speaking_tls("expired")) as server,
        open_session(tls=trusting("expired")) as session,
    ):
        model = ServerModel("x", base_url=server.base_url, session=session, retries=QUICK)
        with pytest.raises(ModelError, match=r"No trusted TLS connection to .*expired") as caught:
            await anext(model.stream(HI))
    assert caught.value.permanent


async def test_a_trusted_certificate_is_no_fault() -> None:
    async with (
        ScriptedOpenAI(stream(SAID), tls=speaking_tls("own")) as server,
        open_session(tls=trusting("own")) as session,
    ):
        model = ServerModel("x", base_url=server.base_url, session=session)
        assert await heard(model) == (SAID, None)
