"""Replies of Anthropic's Messages API, in the format of its documentation, for the scripted server.

    async with ScriptedOpenAI(message(text("Hel", "lo"))) as server:
        model = ServerModel("scripted", Anthropic(), base_url=server.base_url)

A reply is `message(block, block, …)`: each block is a list of events that lack their index, made by `text`,
`thought`, `call`, `search`. Raw steps may stand between them.
"""

import json
from typing import Any

from tests.servers.scripted_openai import Close, Json, Reply, Step, answer, head

Block = list[Json]


def text(*pieces: str, cites: tuple[tuple[str, str], ...] = ()) -> Block:
    """A block of text, and the pages that it cites as (url, title)."""
    citations = [
        {
            "type": "web_search_result_location",
            "url": url,
            "title": title,
            "cited_text": "…",
            "encrypted_index": "Eo8BCioIAhgC",
        }
        for url, title in cites
    ]
    return [
        _start({"type": "text", "text": ""}),
        *(_delta({"type": "citations_delta", "citation": citation}) for citation in citations),
        *(_delta({"type": "text_delta", "text": piece}) for piece in pieces),
    ]


def thought(*pieces: str, signature: str = "EqQBCgIYAhIM") -> Block:
    """A block of thinking, with its signature."""
    return [
        _start({"type": "thinking", "thinking": "", "signature": ""}),
        *(_delta({"type": "thinking_delta", "thinking": piece}) for piece in pieces),
        _delta({"type": "signature_delta", "signature": signature}),
    ]


def call(call_id: str, name: str, *pieces: str) -> Block:
    """A call of a tool of ours, its input in pieces."""
    return [
        _start({"type": "tool_use", "id": call_id, "name": name, "input": {}}),
        _delta({"type": "input_json_delta", "partial_json": ""}),
        *(_delta({"type": "input_json_delta", "partial_json": piece}) for piece in pieces),
    ]


def search(query: str, *found: tuple[str, str], call_id: str = "srvtoolu_1") -> list[Block]:
    """A search of the web by the provider itself, and what it found as (url, title)."""
    results = [
        {
            "type": "web_search_result",
            "url": url,
            "title": title,
            "encrypted_content": "EqgfCioIARgB",
            "page_age": "April 30, 2026",
        }
        for url, title in found
    ]
    asked = [
        _start({"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}),
        _delta({"type": "input_json_delta", "partial_json": json.dumps({"query": query})}),
    ]
    return [
        asked,
        [_start({"type": "web_search_tool_result", "tool_use_id": call_id, "content": results})],
    ]


def message(
    *items: Block | Json | Step,
    stop: str | None = "end_turn",
    details: Json | None = None,
    usage: Json | None = None,
    searches: int = 0,
    end: bool = True,
) -> Reply:
    """A streamed reply, each event one write.

    Args:
        items: blocks; a dict is an event by itself, bytes are written as they are.
        stop: the reason of its end; None: it breaks off before it.
        details: `stop_details`.
        usage: of the prompt; that of the reply is 9 tokens.
        searches: how often the provider searched.
        end: the HTTP body is ended as it should be.
    """
    counts = {"input_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    begun: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "scripted"}
    begun |= {"stop_reason": None, "usage": counts | (usage or {}) | {"output_tokens": 1}}
    steps: list[Step] = [
        head(transfer_encoding="chunked"),
        _framed({"type": "message_start", "message": begun}),
    ]
    steps.append(_framed({"type": "ping"}))
    index = 0
    for item in items:
        if isinstance(item, list):
            steps += [_framed(event | {"index": index}) for event in item]
            steps.append(_framed({"type": "content_block_stop", "index": index}))
            index += 1
        elif isinstance(item, dict):
            steps.append(_framed(item))
        else:
            steps.append(item)
    if stop is not None:
        told: Json = {"output_tokens": 9}
        if searches:
            told["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
        ending = {"stop_reason": stop, "stop_sequence": None, "stop_details": details}
        steps.append(_framed({"type": "message_delta", "delta": ending, "usage": told}))
        steps.append(_framed({"type": "message_stop"}))
    return Reply((*steps, b"0\r\n\r\n" if end else Close()))


def event(fields: Json) -> bytes:
    """A server-sent event, with its name."""
    return f"event: {fields['type']}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def fault(kind: str, words: str) -> Json:
    """What an error looks like, in an event as in an answer."""
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}


def error(status: int, kind: str, words: str, **headers: str) -> Reply:
    """An answer that is an error."""
    return answer(status, fault(kind, words), **headers)


def models(*ids: str) -> Reply:
    """A listing of models."""
    listed = [
        {"type": "model", "id": each, "display_name": each, "created_at": "2026-01-01T00:00:00Z"}
        for each in ids
    ]
    return answer(200, {"data": listed, "has_more": False, "first_id": None, "last_id": None})


def _start(block: dict[str, Any]) -> Json:
    return {"type": "content_block_start", "content_block": block}


def _delta(delta: dict[str, Any]) -> Json:
    return {"type": "content_block_delta", "delta": delta}


def _framed(fields: Json) -> bytes:
    data = event(fields)
    return b"%x\r\n%b\r\n" % (len(data), data)
