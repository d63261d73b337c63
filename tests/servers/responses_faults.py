"""The faults of `model_faults` at a server of the Responses API: the same table, in its events."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from tests.servers.model_faults import FAULTS, SAID, Fault
from tests.servers.scripted_openai import (
    Close,
    Flood,
    Hang,
    Json,
    Reply,
    Step,
    Wait,
    answer,
    head,
)
from tests.servers.scripted_responses import (
    call,
    completed,
    created,
    delta,
    failed,
    incomplete,
    message,
    named,
    response,
    responses,
)

_FRAMED = re.compile(rb"[0-9a-f]+\r\n(?:data: )(\{.*?\}|\[DONE\])\n\n\r\n", re.DOTALL)
_FINE = responses(message(SAID))
_CUT = named(delta(SAID))
_EMOJI = _CUT.index("🥞".encode()) + 2
_WHOLE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}

_OWN = {
    "pieces of one byte": (_FINE.bytewise(),),
    "UTF-8 cut in two": (responses(_CUT[:_EMOJI], Wait(0.02), _CUT[_EMOJI:], completed()),),
    "not streamed": (answer(200, response("completed", [_WHOLE])),),
    "left open after the reason": (responses(SAID, completed(), Hang()),),
    "more than its content length": (
        Reply((head(content_length=str(len(_CUT))), _CUT, b"HTTP/1.1 500 Oh no\r\n\r\n")),
    ),
    "a content length that lies": (Reply((head(content_length="5000"), *map(named, created()), Close())),),
}
"""Those whose bytes are cut where the events of another API are not."""

_MORE = (
    Fault("the model failed", (responses(failed("boom")),), says="It said: boom", asked=3),
    Fault("the model failed in the middle", (responses(SAID, failed("boom")),), "It said: boom", SAID),
    Fault(
        "too much was asked",
        (responses(failed("Slow down", "rate_limit_exceeded")),),
        says="limits how often it may be asked",
        asked=3,
    ),
    Fault(
        "an error event", (responses({"type": "error", "message": "boom"}),), says="It said: boom", asked=3
    ),
    Fault(
        "created, and no more", (responses(whole=False, end=False),), says="broke the connection off", asked=3
    ),
    Fault("only that it is being asked", (responses(*created(), Hang(), whole=False),), says="no words for"),
    Fault("cut at the limit", (responses(SAID, incomplete()),)),
    Fault("no words in its events", (responses(completed([_WHOLE])),)),
    Fault("events that nobody knows", (responses({"type": "response.new"}, SAID, {"type": "keepalive"}),)),
)


def _in_its_events(reply: Reply) -> Reply:
    """A reply of chat completions as the Responses API would have written it."""
    return Reply(tuple(step for each in reply.steps for step in _translated(each)))


def _translated(step: Step) -> Iterator[Step]:
    if isinstance(step, Flood):
        *_, piece = _translated(step.piece)  # what begins it is not written again and again
        assert isinstance(piece, bytes)
        yield Flood(piece, step.times)
    elif isinstance(step, bytes) and (found := _FRAMED.fullmatch(step)):
        for event in () if found[1] == b"[DONE]" else _events(json.loads(found[1])):
            data = named(event) if "type" in event else f"data: {json.dumps(event)}\n\n".encode()
            yield b"%x\r\n%b\r\n" % (len(data), data)
    else:
        yield step


def _events(chunk: Json) -> list[Json]:
    if not chunk.get("choices"):
        return [chunk]  # an error
    choice = chunk["choices"][0]
    if choice["finish_reason"]:
        return [completed()]
    if calls := choice["delta"].get("tool_calls"):
        function = calls[0]["function"]
        return call(function.get("name", ""), function.get("arguments", ""), done=False)
    return [delta(choice["delta"].get("content", ""))]


RESPONSES_FAULTS = (
    tuple(
        replace(fault, replies=_OWN.get(fault.name) or tuple(map(_in_its_events, fault.replies)))
        for fault in FAULTS
        if fault.where == "a server"
    )
    + _MORE
)
