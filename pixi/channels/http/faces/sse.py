"""Server-sent events: the headers of a stream, and the frame of one event."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
"""Nothing on the way may keep a stream back: no cache, no compression, no buffer of a proxy."""

DONE = b"data: [DONE]\n\n"
"""Ends a stream of OpenAI's and of AI SDK's."""


def frame(value: Mapping[str, Any], place: str = "") -> bytes:
    """Return one event. A lone surrogate, which UTF-8 cannot hold, becomes a question mark.

    Args:
        value: its data.
        place: its id, by which a reader resumes behind it; "": it has none.
    """
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "replace")
    return b"id: %b\ndata: %b\n\n" % (place.encode(), data) if place else b"data: %b\n\n" % data


class PlainStream:
    """Writes each object as it is, as a server-sent event without an id."""

    headers = HEADERS

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an object."""
        return frame(event)

    def close(self, problem: str = "") -> bytes:
        """Return what ends the stream; a problem is told as an object of its own."""
        return frame({"error": problem}) if problem else b""
