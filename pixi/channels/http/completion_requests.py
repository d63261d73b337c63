"""Requests for chat completions, checked: what a persona is asked, and how the answer is wanted."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pixi.channels.http.access import Problem
from pixi.channels.http.attachments import attachments_in
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.reconciliation import ClientLine
from pixi.channels.http.requests import decoded

_MESSAGES = 2_000
_STOPS = 16
_SYSTEM_LETTERS = 16_000
_MISSING = re.compile(r"missing required field `(\w+)`")


# Read and ignored, as they mean nothing to a persona: `n`, `tools`, `tool_choice`, `parallel_tool_calls`,
# `temperature`, `top_p`, `seed`, `logit_bias`, penalties, and fields that are not known. So is `store`: each
# talk is kept, for the next request finds it by what is kept of it.


class SentMessage(Struct):
    """A message as a program sends it; `content` is a text or a list of parts."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Any] | None = None


class StreamOptions(Struct):
    """How a stream is wanted. `include_usage`: with what was used, at its end."""

    include_usage: bool | None = None


class CompletionMetadata(Struct):
    """What a program adds. `conversation`: the name of the talk."""

    conversation: str | None = None


class CompletionBody(Struct):
    """A request of OpenAI's chat completions. Fields that are not known here are passed over.

    Attributes:
        model: the persona that answers, by the name of its file or its own.
        messages: the talk as the program has it; the last one of a user is answered.
        stream: whether the answer comes as it is written.
        stop: texts before which the answer ends; the first 16 count.
        max_tokens, max_completion_tokens: how long the answer may be; the second counts before the first.
        temperature: counts for nothing.
        response_format: wanted by background tasks alone.
        user: for whom this is sent; needs a key with `chat:on-behalf`.
    """

    model: Annotated[str, Meta(min_length=1)]
    messages: Annotated[list[SentMessage], Meta(min_length=1, max_length=_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    response_format: dict[str, Any] | None = None
    metadata: CompletionMetadata | None = None
    user: str | None = None


def refused(status: int, detail: str, *, param: str = "", code: str = "") -> Problem:
    """Make the problem of a request. `param`: the path to the field in which it is, e.g. `messages/0`."""
    errors = ({"pointer": f"/{param}", "detail": detail},) if param else ()
    return Problem(status, "", detail, errors=errors, code=code)


class ChatCompletionRequest(Struct, frozen=True):
    """The fields of a request that count, checked."""

    model: str
    last: str
    files: tuple[Attachment, ...]
    told: tuple[ClientLine, ...]
    system: str
    stream: bool
    usage: bool
    stop: tuple[str, ...]
    max_tokens: int | None
    json: bool
    talk: str
    user: str


def read_request(data: bytes) -> ChatCompletionRequest:
    """Check the fields of a request.

    Raises:
        Problem: 400, it is no JSON, a field is of a wrong type, or there is nothing to answer.
    """
    try:
        body = _decoded(data)
    except Problem as problem:
        place = problem.errors[0]["pointer"] if problem.errors else ""
        missing = _MISSING.search(problem.detail)
        param = f"{place}/{missing[1]}"[1:] if missing else place[1:]
        raise refused(400, problem.detail, param=param) from None
    last, files, told, system = _said(body.messages)
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return ChatCompletionRequest(
        model=body.model,
        last=last,
        files=files,
        told=told,
        system=system,
        stream=bool(body.stream),
        usage=bool(body.stream_options and body.stream_options.include_usage),
        stop=tuple(filter(None, stops))[:_STOPS],
        max_tokens=body.max_completion_tokens or body.max_tokens,
        json=str((body.response_format or {}).get("type")).startswith("json"),
        talk=(body.metadata and body.metadata.conversation) or "",
        user=body.user or "",
    )


def _decoded(data: bytes) -> CompletionBody:
    """Read a body. Half a surrogate pair, of a program that cut a text, becomes a question mark."""
    if b"\\ud" in data.lower():
        with suppress(ValueError, RecursionError):
            data = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
    return decoded(data, CompletionBody)


def _said(messages: Sequence[SentMessage]) -> tuple[str, tuple[Attachment, ...], tuple[ClientLine, ...], str]:
    """Return the person's last message, its files, the lines before, and the program's instructions."""
    lines: list[ClientLine] = []
    contents: list[Any] = []
    system: list[str] = []
    for message in messages:
        text = visible_text(message.content)
        match message.role:
            case "user" | "assistant" as role:
                lines.append(ClientLine(role, text))
                contents.append(message.content)
            case "system" | "developer":
                system.append(text)
    at = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].role == "user"), -1)
    files = attachments_in(contents[at]) if at >= 0 else ()
    if at < 0 or not (files or lines[at].text.strip()):
        raise refused(400, "messages has no user message with text to answer.", param="messages")
    return lines[at].text, files, tuple(lines[:at]), "\n\n".join(filter(None, system))[:_SYSTEM_LETTERS]


def visible_text(content: Any) -> str:
    """The words of a message's `content`: a text, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))
