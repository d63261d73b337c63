"""What a server of the Responses API writes: the events of its streams, in the documented form.

    async with ScriptedOpenAI(stream(*message("Hel", "lo"), completed())) as server:
        model = ServerModel("scripted", Responses(), base_url=server.base_url)
        ...

The server itself, its faults and its steps are those of `scripted_openai`. A `Reply` is made by `responses`:

    responses(searched("pancakes"), message("They are flat.", cited=[("https://x.example/", "X")]))
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from tests.servers.scripted_openai import Json, Reply, Step, event, stream

Events = list[Json]

_USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 16, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 29,
}


def response(status: str, output: Sequence[Json] = (), **fields: Any) -> Json:
    """The whole of it, as it stands in the events at both ends and in an answer that is not streamed."""
    head = {"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "model": "scripted"}
    rest = {"error": None, "incomplete_details": None, "instructions": None, "usage": None, "store": False}
    asked = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, "status": status, "output": list(output), **rest, **asked, **fields}


def created() -> Events:
    """How each stream begins."""
    return [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
    ]


def delta(text: str, *, index: int = 0, item: str = "msg_1") -> Json:
    """A piece of the reply."""
    where = {"item_id": item, "output_index": index, "content_index": 0}
    return {
        "type": "response.output_text.delta",
        **where,
        "delta": text,
        "logprobs": [],
        "obfuscation": "xyz",
    }


def annotation(url: str, title: str, number: int = 0, *, index: int = 0, item: str = "msg_1") -> Json:
    """A mark that tells where a stretch of the text comes from."""
    where = {"item_id": item, "output_index": index, "content_index": 0, "annotation_index": number}
    return {"type": "response.output_text.annotation.added", **where, "annotation": citation(url, title)}


def citation(url: str, title: str) -> Json:
    """The same as it stands in the whole message."""
    return {"type": "url_citation", "start_index": 0, "end_index": 1, "url": url, "title": title}


def message(
    *pieces: str, cited: Iterable[tuple[str, str]] = (), index: int = 0, item: str = "msg_1"
) -> Events:
    """A message, in pieces."""
    cites = list(cited)
    text = "".join(pieces)
    part = {"type": "output_text", "text": text, "annotations": [citation(*each) for each in cites]}
    where = {"item_id": item, "output_index": index, "content_index": 0}
    whole = {"id": item, "type": "message", "role": "assistant"}
    empty = {"type": "output_text", "text": "", "annotations": []}
    return [
        _added({**whole, "status": "in_progress", "content": []}, index),
        {"type": "response.content_part.added", **where, "part": empty},
        *(delta(piece, index=index, item=item) for piece in pieces),
        *(annotation(*each, n, index=index, item=item) for n, each in enumerate(cites)),
        {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part},
        _done({**whole, "status": "completed", "content": [part]}, index),
    ]


def thought(*pieces: str, sealed: str | None = None, index: int = 0, item: str = "rs_1") -> Events:
    """A stretch of reasoning, with its summary in pieces."""
    where = {"item_id": item, "output_index": index, "summary_index": 0}
    part = {"type": "summary_text", "text": "".join(pieces)}
    told = [{"type": "response.reasoning_summary_text.delta", **where, "delta": piece} for piece in pieces]
    summary = [part] if pieces else []
    return [
        _added({"id": item, "type": "reasoning", "summary": [], "encrypted_content": ""}, index),
        *told,
        _done({"id": item, "type": "reasoning", "summary": summary, "encrypted_content": sealed}, index),
    ]


def call(
    name: str, *pieces: str, call_id: str = "call_1", index: int = 0, item: str = "fc_1", done: bool = True
) -> Events:
    """A call, its arguments in pieces."""
    where = {"item_id": item, "output_index": index}
    whole = {"id": item, "type": "function_call", "call_id": call_id, "name": name}
    arguments = "".join(pieces)
    begun: Events = [
        _added({**whole, "arguments": "", "status": "in_progress"}, index),
        *({"type": "response.function_call_arguments.delta", **where, "delta": piece} for piece in pieces),
    ]
    if not done:
        return begun
    return [
        *begun,
        {"type": "response.function_call_arguments.done", **where, "arguments": arguments},
        _done({**whole, "arguments": arguments, "status": "completed"}, index),
    ]


def searched(
    query: str, *, action: str = "search", index: int = 0, item: str = "ws_1", status: str = "completed"
) -> Events:
    """A search of the web by the server itself, or another look; then `query` is the page's address."""
    where = {"item_id": item, "output_index": index}
    about = {"query": query} if action == "search" else {"url": query}
    whole = {"id": item, "type": "web_search_call", "action": {"type": action, **about}}
    return [
        _added({**whole, "status": "in_progress"}, index),
        {"type": "response.web_search_call.in_progress", **where},
        {"type": "response.web_search_call.searching", **where},
        {"type": "response.web_search_call.completed", **where},
        _done({**whole, "status": status}, index),
    ]


def completed(output: Sequence[Json] = (), **usage: Any) -> Json:
    """How a stream ends."""
    return {"type": "response.completed", "response": response("completed", output, usage=_USAGE | usage)}


def incomplete(reason: str = "max_output_tokens") -> Json:
    """How one ends that was cut."""
    whole = response("incomplete", usage=_USAGE, incomplete_details={"reason": reason})
    return {"type": "response.incomplete", "response": whole}


def failed(message: str, code: str = "server_error") -> Json:
    """How one ends in which the model failed."""
    return {
        "type": "response.failed",
        "response": response("failed", error={"code": code, "message": message}),
    }


def numbered(events: Iterable[Json]) -> Events:
    """The events with their numbers."""
    numbers = count()
    return [{**each, "sequence_number": next(numbers)} for each in events]


def named(payload: Json) -> bytes:
    """An event as it is written: with its name before the data."""
    return f"event: {payload['type']}\n".encode() + event(payload)


def responses(*parts: Json | Events | Step | str, end: bool = True, whole: bool = True) -> Reply:
    """A streamed reply.

    Args:
        parts: events, or lists of them; bytes and other steps as they are; a str is a message of its own.
        end: the body is ended as it should be; if not, the connection is closed in its middle.
        whole: it begins as each does, and ends with `completed` unless something else ends it.
    """
    items: list[Json | Step] = list(created()) if whole else []
    for part in parts:
        if isinstance(part, str):
            items += message(part)
        elif isinstance(part, list):
            items += part
        else:
            items.append(part)
    last = items[-1] if items else None
    ended = isinstance(last, dict) and last.get("type") in (
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
    )
    if whole and isinstance(last, dict) and not ended:
        items.append(completed())
    events = iter(numbered(item for item in items if isinstance(item, dict)))
    steps = [named(next(events)) if isinstance(item, dict) else item for item in items]
    return stream(*steps, done=False, end=end)


def _added(item: Json, index: int) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _done(item: Json, index: int) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}
