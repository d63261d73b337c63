"""How the servers of four APIs say the same things: a table for what is to hold behind each of them.

dialect.says("Hel", "lo")
dialect.says(Thought("hm"), ToolCall("c1", "look", "{}"))
dialect.says("Hel", Hang(), stop=None)
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, Protocol

from pixi.core.language import Thought
from pixi.core.llm import ToolCall, Usage
from tests.servers import scripted_anthropic as claude
from tests.servers import scripted_gemini as google
from tests.servers import scripted_openai as openai
from tests.servers import scripted_responses as made
from tests.servers.scripted_openai import Json, Reply, Seen, Step, answer

Part = str | Thought | ToolCall | Step
"""A str is a piece of text; bytes are raw event-stream text."""

Stop = Literal["stop", "length"]

USED = Usage(prompt_tokens=20, cached_tokens=16, completion_tokens=9)
"""What each reply that ends says it has used."""


class Says(Protocol):
    """Make a streamed reply.

    Args:
        parts: what is written, in its order.
        stop: the reason of its end, which comes with what it used; None: it breaks off before.
        end: the HTTP body is ended as it should be.
    """

    def __call__(self, *parts: Part, stop: Stop | None = "stop", end: bool = True) -> Reply: ...


class Refuses(Protocol):
    """Make an error."""

    def __call__(self, status: int, words: str, **headers: str) -> Reply: ...


@dataclass(frozen=True, slots=True)
class Speech:
    """How one API is spoken.

    Attributes:
        name: of the API.
        says: makes a reply.
        error: makes an answer that is an error.
        error_event: the error `boom` in the middle of a stream.
        ping: what a server writes so that the connection lives.
        blank: a piece of text without a character.
        lists: makes a listing of models.
        told: what a request tells of the talk, in its order: a message, or a part of one, each.
    """

    name: str
    says: Says
    error: Refuses
    error_event: bytes
    ping: bytes
    blank: bytes
    lists: Callable[..., Reply]
    told: Callable[[Seen], list[object]]

    def __str__(self) -> str:
        return self.name


def framed(data: bytes) -> bytes:
    """An HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def reframed(reply: Reply) -> Reply:
    """A streamed reply whose chunks were changed, with the sizes that they now have."""
    head, *chunks, last = reply.steps
    data = [chunk.split(b"\r\n", 1)[1].removesuffix(b"\r\n") for chunk in chunks if isinstance(chunk, bytes)]
    return Reply((head, *map(framed, data), last))


def _grouped(parts: Iterable[Part]) -> Iterator[list[str] | Thought | ToolCall | Step]:
    """The parts, pieces of text that follow each other as one list."""
    for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            yield [part for part in group if isinstance(part, str)]
        else:
            yield from (part for part in group if not isinstance(part, str))


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _chat_says(*parts: Part, stop: Stop | None = "stop", end: bool = True) -> Reply:
    items: list[Json | str | Step] = []
    for part in parts:
        match part:
            case Thought(text):
                items.append(openai.chunk({"reasoning_content": text}))
            case ToolCall(call_id, name, arguments):
                first, rest = _halves(arguments)
                index = sum(isinstance(other, ToolCall) for other in parts[: parts.index(part)])
                items.append(openai.call(name, first, index=index, call_id=call_id))
                items.append(openai.call(arguments=rest, index=index))
            case _:
                items.append(part)
    if stop is not None:
        items += [openai.finish(stop), openai.usage(20, 9, prompt_tokens_details={"cached_tokens": 16})]
    return openai.stream(*items, done=stop is not None, end=end)


def _responses_say(*parts: Part, stop: Stop | None = "stop", end: bool = True) -> Reply:
    items: list[made.Events | Json | Step] = [made.created()]
    for index, part in enumerate(_grouped(parts)):
        match part:
            case list():
                items.append(made.message(*part, index=index, item=f"msg_{index}"))
            case Thought(text):
                items.append(made.thought(text, sealed="gAAAA", index=index, item=f"rs_{index}"))
            case ToolCall(call_id, name, arguments):
                pieces = _halves(arguments)
                items.append(made.call(name, *pieces, call_id=call_id, index=index, item=f"fc_{index}"))
            case _:
                items.append(part)
    if stop is not None:
        items.append(made.completed() if stop == "stop" else made.incomplete())
    return made.responses(*items, whole=False, end=end)


def _anthropic_says(*parts: Part, stop: Stop | None = "stop", end: bool = True) -> Reply:
    items: list[claude.Block | Step] = []
    for part in _grouped(parts):
        match part:
            case list():
                items.append(claude.text(*part))
            case Thought(text):
                items.append(claude.thought(text))
            case ToolCall(call_id, name, arguments):
                items.append(claude.call(call_id, name, *_halves(arguments)))
            case _:
                items.append(framed(part) if isinstance(part, bytes) else part)
    called = any(isinstance(part, ToolCall) for part in parts)
    reason = {None: None, "length": "max_tokens", "stop": "tool_use" if called else "end_turn"}[stop]
    # The prompt is all three: what was read from the cache, what was put there, and the rest.
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 16}
    return claude.message(*items, stop=reason, usage=usage, end=end)


def _gemini_says(*parts: Part, stop: Stop | None = "stop", end: bool = True) -> Reply:
    items: list[list[Json] | Json | Step] = []
    for part in _grouped(parts):
        match part:
            case list():
                items.append(google.said(*part))
            case Thought(text):
                items.append(google.thought(text))
            case ToolCall(call_id, name, arguments):
                items.append(
                    google.call(name, json.loads(arguments), call_id=call_id, signature=google.SIGNATURE)
                )
            case _:
                items.append(framed(part) if isinstance(part, bytes) else part)
    reason = {None: None, "length": "MAX_TOKENS", "stop": "STOP"}[stop]
    return google.reply(*items, stop=reason, usage={"cachedContentTokenCount": 16}, end=end)


_ANTHROPIC_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_GEMINI_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def _anthropic_error(status: int, words: str, **headers: str) -> Reply:
    kind = _ANTHROPIC_KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return claude.error(status, kind, words, **headers)


def _gemini_error(status: int, words: str, **headers: str) -> Reply:
    code = _GEMINI_CODES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    return answer(status, google.fault(status, words, code), **headers)


def _openai_error(status: int, words: str, **headers: str) -> Reply:
    return openai.error(status, words, **headers)


def _openai_lists(*ids: str) -> Reply:
    return answer(200, {"object": "list", "data": [{"id": each, "object": "model"} for each in ids]})


def in_camel_case(body: bytes) -> Json:
    """The body of a request to Gemini, its names as the API writes them: it takes snake case as well."""
    text = re.sub(r'"\w+":', lambda key: re.sub(r"_([a-z])", lambda a: a[1].upper(), key[0]), body.decode())
    fields: Json = json.loads(text)
    return fields


def _told_anthropic(seen: Seen) -> list[object]:
    """The blocks; without the marks of what is to be cached, which move on."""
    return [
        (message["role"], {key: value for key, value in block.items() if key != "cache_control"})
        for message in seen.json()["messages"]
        for block in message["content"]
    ]


def _told_gemini(seen: Seen) -> list[object]:
    contents = in_camel_case(seen.body)["contents"]
    return [(content["role"], part) for content in contents for part in content["parts"]]


_PING = b": ping\n\n"

CHAT = Speech(
    "chat",
    _chat_says,
    _openai_error,
    openai.event({"error": {"message": "boom"}}),
    _PING,
    openai.event(openai.content("")),
    _openai_lists,
    lambda seen: list(seen.json()["messages"]),
)
RESPONSES = Speech(
    "responses",
    _responses_say,
    _openai_error,
    made.named({"type": "error", "message": "boom"}),
    _PING,
    made.named(made.delta("")),
    _openai_lists,
    lambda seen: list(seen.json()["input"]),
)
ANTHROPIC = Speech(
    "anthropic",
    _anthropic_says,
    _anthropic_error,
    claude.event(claude.fault("overloaded_error", "boom")),
    b'event: ping\ndata: {"type": "ping"}\n\n',
    claude.event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}),
    claude.models,
    _told_anthropic,
)
GEMINI = Speech(
    "gemini",
    _gemini_says,
    _gemini_error,
    openai.event(google.fault(503, "boom", "UNAVAILABLE")),
    _PING,
    openai.event(google.part({"text": ""})),
    google.models,
    _told_gemini,
)
