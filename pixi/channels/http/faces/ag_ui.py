"""The face of AG-UI (CopilotKit and others): its requests, and its events.

A run begins with RUN_STARTED and ends with RUN_FINISHED or RUN_ERROR, and everything is closed before: its
clients check that. Each message of the persona is a message there. A question to the person interrupts the
run: it ends, and the turn waits. The next run, which answers, goes on with the same turn.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from pixi.channels.http.bodies import Name
from pixi.channels.http.faces.messages import BROKEN, Messages
from pixi.channels.http.streams import HEADERS, frame

_ANSWER = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}


class Forwarded(Struct):
    """Properties that an application adds to a run, as in `ChatRequest`: `persona`, `userId`, `userName`."""

    persona: Name | None = None
    userId: Name | None = None
    userName: Name | None = None


class RunInput(Struct):
    """A run, as AG-UI's clients ask for it. Fields that are not known here are passed over.

    Attributes:
        threadId: the name of the talk.
        runId: of this run; the same again is the same run.
        messages: the whole talk as the client has it.
        resume: answers to what interrupted the run before.
        forwardedProps: see `Forwarded`.
    """

    threadId: Name
    runId: Name
    messages: Annotated[list[dict[str, Any]], Meta(max_length=10_000)] = []
    resume: list[dict[str, Any]] | None = None
    forwardedProps: Forwarded | None = None


def verdicts_of(resume: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Return which questions are answered, by id, and how: yes only where `approved` is true."""
    answers: dict[str, bool] = {}
    for each in resume:
        payload = each.get("payload")
        approved = payload.get("approved") if isinstance(payload, dict) else payload
        answers[str(each.get("interruptId"))] = each.get("status") == "resolved" and approved is True
    return answers


class AgUiStream:
    """Writes the events of a turn as those of a run.

    Args:
        thread: the client's `threadId`.
        run: its `runId`.
        tools: calls of tools are shown.
        notes: the persona's notes are shown, as reasoning.
    """

    headers: Mapping[str, str] = HEADERS

    def __init__(self, thread: str, run: str, *, tools: bool = False, notes: bool = False) -> None:
        self._run = {"threadId": thread, "runId": run}
        self._tools = tools
        self._messages = [(_of_text, Messages()), *([(_of_note, Messages("note"))] if notes else [])]
        self._begun = False
        self._closed = False
        self._problem = ""
        self._question: dict[str, Any] | None = None  # that nobody has answered

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the events of an event; none where nothing of it is shown."""
        if self._closed:
            return b""
        kind = event["event"]
        if kind == "error":
            self._problem = event["text"]
        elif kind == "approval":
            self._question = _interrupt(event)
        elif kind == "approved":
            self._question = None
        written = self._written(self._events(event))
        if kind == "turn_end":
            written += self._end(event["finish"], event["usage"])
        return written

    def close(self, problem: str = "") -> bytes:
        """Return what ends the run, if the turn did not: it waits for an answer, or goes on elsewhere."""
        self._problem = problem
        return b"" if self._closed else self._end("error" if problem else "cancelled", None)

    def _events(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        for form, messages in self._messages:
            for piece in messages.feed(event):
                events.extend(form(*piece))
        match event["event"]:
            case "react":
                events.append(_custom("reaction", event, "id", "emoji", "message"))
            case "card":
                events.append(_custom("card", event, "id", "type", "version", "data", "fallback"))
            case "picture":
                events.append(
                    _custom("picture", event, "id", "text", "link", "service", "address", "pictures")
                )
            case "sources":
                events.append(_custom("sources", event, "sources"))
            case "reading":
                events.append(_custom("reading", event, "done", "total", "seconds"))
            case "progress" if self._tools:
                events.append(_custom("progress", event, "text"))
            case "tool_call" | "tool_result" if self._tools:
                events += _of_tool(event)
        return events

    def _written(self, events: Sequence[Mapping[str, Any]]) -> bytes:
        begin: list[Mapping[str, Any]] = [] if self._begun else [{"type": "RUN_STARTED", **self._run}]
        self._begun = True
        return b"".join(frame(event) for event in (*begin, *events))

    def _end(self, finish: str, usage: Mapping[str, Any] | None) -> bytes:
        self._closed = True
        closing: list[Mapping[str, Any]] = []
        for form, messages in self._messages:
            for piece in messages.close():
                closing.extend(form(*piece))
        outcome: dict[str, Any] = {"type": "cancelled" if finish == "cancelled" else "success"}
        if self._question:
            outcome = {"type": "interrupt", "interrupts": [self._question]}
        last = {"type": "RUN_FINISHED", **self._run, "outcome": outcome}
        if finish == "error":
            last = {"type": "RUN_ERROR", "message": self._problem or BROKEN, "code": "persona_unavailable"}
        used = {} if usage is None else {"usage": [_usage(usage)]}
        return self._written([*closing, last | used])


def _of_text(what: str, key: str, text: str) -> list[dict[str, Any]]:
    if what == "open":
        return [{"type": "TEXT_MESSAGE_START", "messageId": key, "role": "assistant"}]
    if what == "add":
        return [{"type": "TEXT_MESSAGE_CONTENT", "messageId": key, "delta": text}]
    return [{"type": "TEXT_MESSAGE_END", "messageId": key}]


def _of_note(what: str, key: str, text: str) -> list[dict[str, Any]]:
    if what == "open":
        start = {"type": "REASONING_MESSAGE_START", "messageId": key, "role": "reasoning"}
        return [{"type": "REASONING_START", "messageId": key}, start]
    if what == "add":
        return [{"type": "REASONING_MESSAGE_CONTENT", "messageId": key, "delta": text}]
    return [{"type": "REASONING_MESSAGE_END", "messageId": key}, {"type": "REASONING_END", "messageId": key}]


def _of_tool(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    call = {"toolCallId": event["id"]}
    if event["event"] == "tool_call":
        return [
            {"type": "TOOL_CALL_START", **call, "toolCallName": event["name"]},
            {"type": "TOOL_CALL_ARGS", **call, "delta": json.dumps(event["arguments"])},
            {"type": "TOOL_CALL_END", **call},
        ]
    result = event["result"]
    content = result if isinstance(result, str) else json.dumps(result)
    return [{"type": "TOOL_CALL_RESULT", **call, "messageId": f"{event['id']}.result", "content": content}]


def _custom(name: str, event: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    value = {field: event[field] for field in fields if field in event}
    return {"type": "CUSTOM", "name": name, "value": value}


def _interrupt(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": event["id"],
        "reason": "tool_approval",
        "message": event["does"],
        "responseSchema": _ANSWER,
        "expiresAt": datetime.fromtimestamp(event["expires"], UTC).isoformat(timespec="seconds"),
        "metadata": {"tool": event["tool"], "arguments": event["arguments"]},
    }


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "inputTokens": usage["prompt_tokens"],
        "outputTokens": usage["completion_tokens"],
        "totalTokens": usage["prompt_tokens"] + usage["completion_tokens"],
        "cachedInputTokens": usage["cached_tokens"],
    }
