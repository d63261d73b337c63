"""Our own face: each event as it is, as server-sent events whose ids say where a reader was."""

import json
from collections.abc import Mapping
from typing import Any

from pixi.channels.http.faces.sse import HEADERS

PRIVATE = frozenset({"note"})
"""Events that only the persona and its operator know of."""
OF_TOOLS = frozenset({"tool_call", "tool_result", "progress"})


class NativeStream:
    """Writes events as they are.

    Args:
        tools: events of tools are written, too.
    """

    headers = HEADERS

    def __init__(self, *, tools: bool = False) -> None:
        self._hidden = PRIVATE if tools else PRIVATE | OF_TOOLS

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an event; none for one that is not shown."""
        if event["event"] in self._hidden or (
            event["event"] in ("started", "text") and event["name"] == "note"
        ):
            return b""
        return f"id: {event['turn']}.{event['seq']}\ndata: {json.dumps(event)}\n\n".encode()

    def close(self, problem: str = "") -> bytes:
        """Return what ends the stream; a problem is told as an event without an id: resuming skips it."""
        if not problem:
            return b""
        return f"data: {json.dumps({'event': 'error', 'text': problem})}\n\n".encode()
