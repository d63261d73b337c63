"""Bytes in and out: bodies that are capped while they are read, and streams that outlive a silence."""

import asyncio
import json
import re
import socket
import struct
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol

from aiohttp import web

from pixi.channels.http.access import Problem
from pixi.channels.http.feed import KEEP_ALIVE_SECONDS, SILENCE
from pixi.core.errors import PixiError

Task = Literal[
    "title", "tags", "follow_ups", "queries", "emoji", "autocomplete", "image_prompt", "summary", "other"
]

TASK_HEADERS = ("X-OpenWebUI-Task", "X-Pixi-Task")
"""Sent with what the program is at, e.g. `title_generation`; empty for a message of a person."""

_TITLE_LETTERS = 48
_TEMPLATES: tuple[tuple[Task, tuple[str, ...]], ...] = (
    # Open WebUI. Its template for documents begins with "### Task:" too, and is a person's message.
    ("title", (r"### Task:", r"\btitle\b", r"<chat_history>")),
    ("title", (r"\A\s*### Task:\s*Generate a concise title", r"<content>")),  # of a note
    ("tags", (r"### Task:", r"\btags\b", r"<chat_history>")),
    ("follow_ups", (r"### Task:", r"follow[-_ ]?ups?\b", r"<chat_history>")),
    ("queries", (r"### Task:", r"\bqueries\b", r"<chat_history>")),
    ("image_prompt", (r"### Task:", r"prompt for \w+ image generation", r"<chat_history>")),  # it says "am"
    ("summary", (r"### Task:\s*Summarize the conversation history", r"### Messages Being Compacted:")),
    ("other", (r"\AReview the completed conversation turn", r"Existing memories:", r"\boperations\b")),
    ("autocomplete", (r"### Task:", r"autocompletion", r"<(?:chat_history|text)>")),
    ("emoji", (r"reflect the speaker.s likely facial expression", r"fitting emoji")),
    # LibreChat.
    ("title", (r"5-word-or-less title", r"conversation")),
    ("title", (r"Analyze this conversation and provide", r"detected language", r"title")),
    ("title", (r"concise title for this conversation", r"5 words or less")),
    ("title", (r"generate a concise title", r"conversation that starts with")),
)
_NAMES: tuple[tuple[str, Task], ...] = (
    ("title", "title"),
    ("tag", "tags"),
    ("follow", "follow_ups"),
    ("query", "queries"),
    ("emoji", "emoji"),
    ("autocomplet", "autocomplete"),
    ("image", "image_prompt"),
    ("compact", "summary"),
)
_SEARCHED = 60_000
"""Characters of a message that are looked at: a template's own words stand at its two ends."""

_HISTORY = re.compile(r"<(chat_history|content)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_SPEAKER = re.compile(r"^\s*(?:user|human)\s*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_AFTER_CONVERSATION = re.compile(
    r"\bconversation(?: that starts with)?:?\s*\n+(.+)\Z", re.IGNORECASE | re.DOTALL
)


# Background tasks of chat programs: titles, tags, suggestions. They never reach the persona.
#
# A program asks the model it talks to for them, in a request like any other. They are known by a header
# that the program was told to send, by their templates (which change from version to version, so a few
# words of each are looked for, never one phrase alone), or by `response_format`, which no talk has.


def task_of(headers: Mapping[str, str], last: str, *, as_json: bool) -> Task | None:
    """The task that a request is; None for words of a person.

    Args:
        headers: of the request, by names in any case.
        last: the last message of a person.
        as_json: whether `response_format` asks for JSON.
    """
    for name in TASK_HEADERS:
        named = str(headers.get(name, "")).strip().lower()
        if named and "{{" not in named:  # a program too old for the template sends it as it stands
            return next((task for part, task in _NAMES if part in named), "other")
    text = last if len(last) <= _SEARCHED else last[: _SEARCHED // 2] + last[-_SEARCHED // 2 :]
    own = _HISTORY.sub(r"<\1>", text)  # the talk may be about titles
    for task, signs in _TEMPLATES:
        if all(re.search(sign, own, re.IGNORECASE) for sign in signs):
            return task
    return "other" if as_json and _asks(text) else None


def answer_by_rule(task: Task, last: str, *, as_json: bool = False) -> str:
    """An answer without a model, in the form that the program reads.

    Args:
        task: what is asked for.
        last: the last message of a person, with the talk in it.
        as_json: whether `response_format` asks for JSON.
    """
    match task:
        case "title":
            title = _title(last)
            return json.dumps({"title": title}, ensure_ascii=False) if as_json or '"title"' in last else title
        case "tags" | "follow_ups" | "queries":
            return json.dumps({task: []})
        case "autocomplete":
            return json.dumps({"text": ""})
        case "image_prompt":
            return json.dumps({"prompt": _title(last)}, ensure_ascii=False)
        case "emoji":
            return "💬"
        case "summary":
            return ""  # the program has a rule of its own
        case "other":
            return "{}"


def _asks(text: str) -> bool:
    """Return True if a request for JSON is one about a talk, not a person's own wish."""
    return re.search(r"<chat_history>|\b(?:conversation|chat history)\b", text, re.IGNORECASE) is not None


def _title(text: str) -> str:
    """The first words that the talk in a template began with."""
    history = _HISTORY.search(text)
    inside = history[2] if history else text
    spoken = _SPEAKER.search(inside)
    after = _AFTER_CONVERSATION.search(inside) if not spoken and not history else None
    words = (spoken[1] if spoken else after[1] if after else inside if history else "").split()
    title = ""
    for word in words[:7]:
        if len(title) + len(word) + 1 > _TITLE_LETTERS:
            break
        title = f"{title} {word}".strip()
    return (title or " ".join(words)[:_TITLE_LETTERS]).strip(" \"'#*`") or "Chat"


BODY_SECONDS = 20.0
"""Seconds in which a body must arrive."""

TAKE_SECONDS = 60.0
"""Seconds in which a client must receive what was written to it."""

_COMMENT = b": \n\n"

_TAKEN_AT_ONCE = 8_192
"""Bytes that wait to be sent, up to which a connection takes more without a wait; a loop pauses it later."""


class Face(Protocol):
    """Turns events into the bytes of a protocol."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the answer."""
        ...

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an event; none for an event that is not shown."""
        ...

    def close(self, problem: str = "") -> bytes:
        """Return the bytes that end the stream."""
        ...


async def read_body(request: web.Request) -> bytes:
    """Read the body of a request.

    Raises:
        Problem: 408, the body takes too long; 413, it is too long; 415, it is no JSON.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise Problem(408, "Too slow", f"The body must arrive within {BODY_SECONDS:g} seconds.") from None
    except web.HTTPRequestEntityTooLarge:
        raise Problem(
            413, "Too long", "The body is too long; [http] max_body_bytes sets the limit."
        ) from None
    # A page of another site can send forms and plain text here without asking, but no JSON.
    if body and request.content_type != "application/json":
        raise Problem(415, "No JSON", "Send the body as JSON, with Content-Type: application/json.")
    return body


Events = AsyncGenerator[Sequence[Mapping[str, Any]], None]
"""Events as they come; events that come together are written together."""

Told = Callable[[Any], Mapping[str, Any]]
"""Makes the form of an event that a client is told."""


async def write_stream(
    request: web.Request, face: Face, events: Events, told: Told = lambda event: event
) -> web.StreamResponse:
    """Write events through a face as they come; events that come together are written at once.

    A client that goes away ends the stream, and nothing else.

    Raises:
        Problem: before the first event: the events cannot be had.
    """
    async with aclosing(events):
        first = await anext(events, ())  # a refusal comes before the head, and has a status of its own
        response = web.StreamResponse(headers=face.headers)
        try:
            await response.prepare(request)
            problem = ""
            try:
                await _write(request, response, _piece(face, first, told))
                async for some in events:
                    await _write(request, response, _piece(face, some, told))
            except PixiError as error:  # e.g. the client took the events too slowly
                problem = str(error)
            await _write(request, response, face.close(problem))
            await response.write_eof()
        except ConnectionError:
            pass
        except TimeoutError:
            _reset(request)
        return response


async def kept_alive(objects: AsyncGenerator[Mapping[str, Any], None], closing: asyncio.Event) -> Events:
    """Yield objects as they come, and `SILENCE` first and after long silences, until the server closes."""
    yield (SILENCE,)
    closed = asyncio.ensure_future(closing.wait())
    coming: asyncio.Future[Mapping[str, Any]] | None = None
    try:
        while not closing.is_set():
            coming = coming or asyncio.ensure_future(anext(objects))
            waited: set[asyncio.Future[Any]] = {coming, closed}
            await asyncio.wait(waited, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                given, coming = coming, None
                try:
                    yield (given.result(),)
                except StopAsyncIteration:
                    return
            elif not closing.is_set():
                yield (SILENCE,)
    finally:
        closed.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        await objects.aclose()


def _reset(request: web.Request) -> None:
    """Drop a connection at once. If it were closed, it would be kept until the client took the rest."""
    if (transport := request.transport) is not None:
        at_once = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        transport.abort()


def _piece(face: Face, events: Sequence[Mapping[str, Any]], told: Told) -> bytes:
    return b"".join(_COMMENT if event is SILENCE else face.feed(told(event)) for event in events)


async def _write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    transport = request.transport
    if not data:
        return
    if transport is not None and transport.get_write_buffer_size() + len(data) < _TAKEN_AT_ONCE:
        await response.write(data)  # waits for nobody
        return
    async with asyncio.timeout(TAKE_SECONDS):
        await response.write(data)
