"""The face of AI SDK's interfaces (`useChat`): its requests, and its UI message stream, version 1.

Clients before July 2026 end a stream at a field or a kind of part that they do not know. So only what the
oldest of them takes is written; what it has no part for is a `data-…` part, which each version passes on.
Newer clients get more where they ask for `ai-sdk-6`: why the turn ended, and questions that they answer.
A reply is one message of an assistant, and each message of the persona a text part of it.
"""

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pixi.channels.http.bodies import Name
from pixi.channels.http.faces.messages import BROKEN, Messages, Piece
from pixi.channels.http.streams import DONE, HEADERS, frame

_PHASES = {"open": "start", "add": "delta", "close": "end"}
_FINISH = {"stop": "stop", "length": "length", "limit": "length", "error": "error"}


class UiRequest(Struct):
    """The request of `DefaultChatTransport`. Fields that are not known here are passed over.

    Attributes:
        id: the name of the talk.
        messages: what the client has of the talk; only the last one counts, the others are known here.
        trigger: why it is sent.
        messageId: of the message that is answered anew, or replaced.
        persona, userId, userName: as in `ChatRequest`; the transport's option `body` adds them.
    """

    id: Name
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=10_000)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = None
    persona: Name | None = None
    userId: Name | None = None
    userName: Name | None = None


def verdicts_of(message: Mapping[str, Any]) -> dict[str, bool]:
    """Return which questions a message of the assistant answers, by id, and how."""
    answers: dict[str, bool] = {}
    for part in _objects(message.get("parts")):
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            answers[str(approval.get("id"))] = approval.get("approved") is True
    return answers


class AiSdkStream:
    """Writes the events of a turn as AI SDK's chunks.

    Args:
        newer: for a client of version 6 or later.
        tools: calls of tools are shown.
        notes: the persona's notes are shown, as reasoning.
    """

    headers: Mapping[str, str] = {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}

    def __init__(self, *, newer: bool = False, tools: bool = False, notes: bool = False) -> None:
        self._newer = newer
        self._tools = tools
        self._messages = {"text": Messages()} | ({"reasoning": Messages("note")} if notes else {})
        self._start: dict[str, Any] = {"type": "start"}
        self._begun = False
        self._closed = False
        self._problem = ""

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the chunks of an event; none where nothing of it is shown."""
        if self._closed:
            return b""
        kind = event["event"]
        if kind == "turn_start" and not self._begun:
            self._start |= {
                "messageId": f"turn-{event['turn']}",
                "messageMetadata": {name: event[name] for name in ("conversation", "persona", "turn")},
            }
        elif kind == "error":
            self._problem = event["text"]
        if kind == "reading":  # passing, and no part of the message, whose id may still change
            data = {name: event[name] for name in ("done", "total", "seconds")}
            return frame({"type": "data-reading", "data": data, "transient": True})
        chunks = self._chunks(event)
        written = self._written(chunks) if chunks else b""
        if kind == "turn_end":
            written += self._end(event["finish"], event["usage"])
        return written

    def close(self, problem: str = "") -> bytes:
        """Return what ends the stream, if the turn did not: it goes on elsewhere, or is waiting."""
        self._problem = problem
        return b"" if self._closed else self._end("error" if problem else "", None)

    def _chunks(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        chunks: list[dict[str, Any]] = []
        for kind, messages in self._messages.items():
            chunks.extend(_of(kind, messages.feed(event)))
        match event["event"]:
            case "react":
                chunks.append(_data("reaction", event, "emoji", "message"))
            case "card":
                chunks.append(_data("card", event, "type", "version", "data", "fallback"))
            case "picture" if address := event.get("address") or event["link"]:
                chunks += [
                    {"type": "file", "url": address, "mediaType": _media_type(address)},
                    _data("picture", event, "text", "link", "service", "pictures"),
                ]
            case "sources":
                chunks += [
                    {
                        "type": "source-url",
                        "sourceId": each["url"],
                        "url": each["url"],
                        "title": each["title"],
                    }
                    for each in event["sources"]
                ]
            case "approval":
                chunks += self._question(event)
            case "approved":
                chunks += self._verdict(event)
            case "tool_call" | "tool_result" | "progress" if self._tools:
                chunks.append(_of_tool(event))
        return chunks

    def _question(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not self._newer:
            return [_data("approval", event, "tool", "does", "arguments", "expires")]
        given = {name: event[name] for name in ("does", "arguments", "expires")}
        call = {"toolCallId": event["id"], "toolName": event["tool"], "input": given, "dynamic": True}
        return [
            {"type": "tool-input-available", **call},
            {"type": "tool-approval-request", "approvalId": event["id"], "toolCallId": event["id"]},
        ]

    def _verdict(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not self._newer:
            return [_data("approved", event, "verdict")]
        if event["verdict"] != "yes":
            return [{"type": "tool-output-denied", "toolCallId": event["id"]}]
        return [{"type": "tool-output-available", "toolCallId": event["id"], "output": {"approved": True}}]

    def _written(self, chunks: Sequence[Mapping[str, Any]]) -> bytes:
        """Return chunks, behind those that begin the message.

        It begins with the first thing shown: a turn of which nothing was seen may begin anew, with a new id.
        """
        begin: list[Mapping[str, Any]] = [] if self._begun else [self._start, {"type": "start-step"}]
        self._begun = True
        return b"".join(frame(chunk) for chunk in (*begin, *chunks))

    def _end(self, finish: str, usage: Mapping[str, Any] | None) -> bytes:
        self._closed = True
        closing: list[dict[str, Any]] = []
        for kind, messages in self._messages.items():
            closing.extend(_of(kind, messages.close()))
        if finish == "error":
            closing.append({"type": "error", "errorText": self._problem or BROKEN})
        last: dict[str, Any] = {"type": "finish"}
        if finish and self._newer:
            last["finishReason"] = _FINISH.get(finish, "other")
        if usage is not None:
            last["messageMetadata"] = {"finish": finish, "usage": usage}
        return self._written([*closing, {"type": "finish-step"}, last]) + DONE


def _of(kind: str, pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    """Return the chunks of pieces of messages; `kind` is that of a part."""
    return [
        {"type": f"{kind}-{_PHASES[what]}", "id": key, **({"delta": text} if what == "add" else {})}
        for what, key, text in pieces
    ]


def _data(name: str, event: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    data = {field: event[field] for field in fields if field in event}
    return {"type": f"data-{name}", "id": event["id"], "data": data}


def _of_tool(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chunk of a tool's event. `providerExecuted`: the client has nothing to run, nor to send."""
    if event["event"] == "progress":
        return {"type": "data-progress", "data": {"text": event["text"]}, "transient": True}
    call = {"toolCallId": event["id"], "dynamic": True, "providerExecuted": True}
    if event["event"] == "tool_call":
        return {
            "type": "tool-input-available",
            **call,
            "toolName": event["name"],
            "input": event["arguments"],
        }
    if event["ok"]:
        return {"type": "tool-output-available", **call, "output": event["result"]}
    return {"type": "tool-output-error", **call, "errorText": str(event["result"])}


def _media_type(link: str) -> str:
    guessed, _ = mimetypes.guess_type(link.partition("?")[0])
    return guessed if guessed and guessed.startswith("image/") else "image/*"


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
