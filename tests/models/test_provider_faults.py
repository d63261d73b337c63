"""Each fault of a provider's server, behind the doors that are made of the providers' own packages."""

import logging
import os
import re
import time
from dataclasses import dataclass
from typing import Any

import pytest

from pixi.core.errors import ModelError
from pixi.models.anthropic.door import AnthropicMessages
from pixi.models.deadlines import Deadlines
from pixi.models.faults import Retries
from pixi.models.gemini.door import Gemini
from pixi.models.packaged.model import PackagedModel
from tests.models.test_server_faults import DEADLINES, KEY, PATIENT, QUICK, heard, nothing_left
from tests.servers import scripted_anthropic as claude
from tests.servers import scripted_gemini as google
from tests.servers.model_faults import BEFORE_ANY_WORD, SAID, Fault, served
from tests.servers.scripted_openai import (
    Close,
    Flood,
    Hang,
    Reply,
    Reset,
    ScriptedOpenAI,
    Wait,
    answer,
    error,
    page,
)

pytest.importorskip("anthropic")
pytest.importorskip("google.genai")

AnyDoor = PackagedModel[Any, Any]

# What these send is no content here: only the deadline ends it.
_OTHERS = {"an endless tool call"}
SHARED = [fault for fault in BEFORE_ANY_WORD if fault.name not in _OTHERS]


@dataclass(frozen=True, slots=True)
class Speaks:
    """How a provider's server speaks.

    Attributes:
        door: to it.
        fine: a reply of `SAID`.
        begun: the same, broken off before its end by the steps that follow.
        error_event: an error in the middle of a stream.
    """

    door: type[AnyDoor]
    fine: Reply
    error_event: bytes

    def begun(self, *steps: Any) -> Reply:
        if self.door is Gemini:
            return google.reply(google.said(SAID), *steps, stop=None, end=False)
        return claude.message(claude.text(SAID), *steps, stop=None, end=False)


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_OVERLOADED = claude.event(claude.fault("overloaded_error", "Overloaded"))
ANTHROPIC = Speaks(AnthropicMessages, claude.message(claude.text(SAID)), _framed(_OVERLOADED))
GEMINI = Speaks(
    Gemini,
    google.reply(google.said(SAID)),
    google.framed(google.fault(503, "Overloaded", "UNAVAILABLE")),
)
BOTH = pytest.mark.parametrize("speaks", [ANTHROPIC, GEMINI], ids=["anthropic", "gemini"])


async def met(speaks: Speaks, fault: Fault, deadlines: Deadlines) -> tuple[str, ModelError | None]:
    """What is heard from a server with that fault; nothing of it is left over."""
    async with nothing_left(), served(fault) as faulty:
        model = speaks.door(
            "scripted-8b", base_url=faulty.base_url, api_key=KEY, deadlines=deadlines, retries=QUICK
        )
        begin = time.monotonic()
        try:
            said, error = await heard(model)
        finally:
            await model.close()
        assert time.monotonic() - begin < (4 if fault.stalls else 20)
    assert len(faulty.requests) == fault.asked
    if error is not None:
        assert "\n" not in str(error)
        assert KEY not in str(error) + repr(error) + repr(model)
    return said, error


@BOTH
@pytest.mark.parametrize("fault", SHARED, ids=str)
async def test_before_any_word(speaks: Speaks, fault: Fault) -> None:
    said, error = await met(speaks, fault, DEADLINES if fault.stalls else PATIENT)
    assert said == ""
    assert re.search(fault.says.replace("OPENAI", r"\w+"), str(error)), error


@BOTH
async def test_after_some_words_what_was_said_stands(speaks: Speaks) -> None:
    flood = Flood(_framed(b"x" * 1_000_000), 40)
    faults = [
        Fault("reset", (speaks.begun(Wait(0.02), Reset()),), "broke the connection off", SAID),
        Fault("cut", (speaks.begun(),), "broke the connection off", SAID),
        Fault("an error event", (speaks.begun(speaks.error_event),), "It said: Overloaded", SAID),
        Fault("a stall", (speaks.begun(Hang()),), "stopped in the middle of its reply", SAID),
        Fault("a flood", (speaks.begun(b"6\r\ndata: \r\n", flood),), "too long to be a reply", SAID),
    ]
    for fault in faults:
        said, error = await met(speaks, fault, DEADLINES if fault.stalls else PATIENT)
        assert said == SAID, fault
        assert re.search(fault.says, str(error)), (fault, error)


@BOTH
async def test_pings_are_no_content(speaks: Speaks) -> None:
    pings = [
        step for _ in range(40) for step in (_framed(b'event: ping\ndata: {"type": "ping"}\n\n'), Wait(0.05))
    ]
    fault = Fault("pings", (speaks.begun(*pings),), "stopped in the middle", SAID)
    said, error = await met(speaks, fault, DEADLINES)
    assert said == SAID
    assert re.search(fault.says, str(error)), error


@BOTH
async def test_none_to_speak_of(speaks: Speaks) -> None:
    """Whoever talks meets no fault."""
    broken = Reply((speaks.fine.steps[0], _framed(b"data: {broken\n\n"), *speaks.fine.steps[1:]))
    faults = [
        Fault("500", (error(500, "Oh no"), speaks.fine), asked=2),
        Fault("502 and 503", (page(502), error(503, "Loading"), speaks.fine), asked=3),
        Fault("529", (claude.error(529, "overloaded_error", "Overloaded"), speaks.fine), asked=2),
        Fault("429", (error(429, "Slow", retry_after="0.05"), speaks.fine), asked=2),
        Fault("RetryInfo", (google.error(429, "Slow", retry="0.05s"), speaks.fine), asked=2),
        Fault("reset", (Reply((Reset(),)), speaks.fine), asked=2),
        Fault(
            "an error event",
            (Reply((speaks.fine.steps[0], speaks.error_event, Close())), speaks.fine),
            asked=2,
        ),
        Fault("pieces of one byte", (speaks.fine.bytewise(),)),
        Fault("a broken event", (broken,)),
        Fault("left open after its end", (Reply((*speaks.fine.steps[:-1], Hang())),)),
        Fault("reset after its end", (Reply((*speaks.fine.steps[:-1], Reset())),)),
    ]
    for fault in faults:
        assert await met(speaks, fault, PATIENT) == (SAID, None), fault


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (claude.error(401, "authentication_error", "invalid x-api-key"), "refused the key: check ANTHROPIC_"),
        (claude.error(404, "not_found_error", "model: claude-0"), "has no model 'scripted-8b'"),
        (claude.error(400, "invalid_request_error", "Your credit balance is too low"), "has no credit left"),
        (claude.error(400, "invalid_request_error", "prompt is too long: 9 > 8"), "lower context_tokens"),
        (claude.error(413, "request_too_large", "Too large"), r"refused the request \(413\)"),
    ],
)
async def test_what_anthropic_refuses_is_asked_once(refusal: Reply, says: str) -> None:
    _, error = await met(ANTHROPIC, Fault("refusal", (refusal,)), PATIENT)
    assert re.search(says, str(error)), error


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (
            google.error(400, "API key not valid. Please pass a valid API key."),
            "refused the key: check GEMINI_",
        ),
        (google.error(404, "models/x is not found for API version v1"), "has no model 'scripted-8b'"),
        (google.error(403, "Not for you", "PERMISSION_DENIED"), "does not let this key use the model"),
        (google.error(400, "The input token count (9) exceeds the maximum"), "lower context_tokens"),
        (google.error(429, "Quota exceeded.", retry="3600s"), "It asks to wait 3600 s"),
    ],
)
async def test_what_gemini_refuses_is_asked_once(refusal: Reply, says: str) -> None:
    _, error = await met(GEMINI, Fault("refusal", (refusal,)), PATIENT)
    assert re.search(says, str(error)), error


@BOTH
async def test_what_is_no_unicode_is_no_end(speaks: Speaks) -> None:
    half = (
        speaks.fine.steps[0],
        *(
            step.replace("🥞".encode(), b"\\ud83e") if isinstance(step, bytes) else step
            for step in speaks.fine.steps[1:]
        ),
    )
    said, error = await met(speaks, Fault("half a pair", (reframed(Reply(half)),)), PATIENT)
    assert (said, error) == (SAID.replace("🥞", "\ufffd"), None)


def reframed(reply: Reply) -> Reply:
    """The reply with HTTP chunks of the size that they have."""
    head, *chunks = reply.steps
    steps = [chunk.split(b"\r\n", 1)[1][:-2] for chunk in chunks[:-1] if isinstance(chunk, bytes)]
    return Reply((head, *map(_framed, steps), chunks[-1]))


@BOTH
async def test_a_proxy_of_the_environment_is_used(speaks: Speaks, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedOpenAI(speaks.fine) as proxy:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        model = speaks.door("x", base_url="http://models.example")
        assert await heard(model) == (SAID, None)
        await model.close()
    assert proxy.requests[0].path.startswith("http://models.example/v1/m")


@BOTH
async def test_what_the_environment_holds_for_others_goes_nowhere(
    speaks: Speaks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {
        "ANTHROPIC_API_KEY": "other-word",
        "ANTHROPIC_AUTH_TOKEN": "other-word",
        "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer other-word\nX-Team: other-word",
        "ANTHROPIC_BASE_URL": "http://other-word.example",
        "GOOGLE_API_KEY": "other-word",
        "GEMINI_API_KEY": "another-word",
        "GOOGLE_GEMINI_BASE_URL": "http://other-word.example",
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "other-word",
    }.items():
        monkeypatch.setenv(name, value)
    async with ScriptedOpenAI(speaks.fine) as server:
        model = speaks.door("scripted", base_url=server.base_url, api_key=KEY)
        assert await heard(model) == (SAID, None)
        await model.close()
    (seen,) = server.requests
    assert "other-word" not in f"{seen.path} {seen.headers} {seen.body.decode()}"
    assert any(KEY in value for value in seen.headers.values())
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [], "whose key is used is not the package's to say"


@BOTH
async def test_listing_what_is_no_model_server(speaks: Speaks) -> None:
    for script, says in [
        (page(200), "web page"),
        (answer(200, "hello", "text/plain"), "cannot read|does not answer as a model server"),
        (error(401, "No"), "refused the key|wants a key"),
        (Reply((Close(),)), "broke the connection off"),
    ]:
        async with ScriptedOpenAI(script) as server:
            model = speaks.door("x", base_url=server.base_url, retries=Retries(base=0.001))
            with pytest.raises(ModelError, match=says):
                await model.models()
            await model.close()
