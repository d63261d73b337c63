"""Events that do not decode at once: UTF-8 or a surrogate pair cut in two, two events in one, rubbish."""

import json
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def is_end_mark(payload: bytes) -> bool:
    """Whether it says that the stream is over."""
    return payload.strip() == b"[DONE]"


def read_oddly(payload: bytes, kind: type[_T]) -> list[_T]:
    """What can be read of it. Rubbish is skipped: a broken event is no reason to lose the rest of a reply."""
    try:
        # The standard library lets half a surrogate pair stand, in the hope of the other half.
        return [msgspec.convert(json.loads(payload.decode("utf-8", "replace")), kind)]
    except (ValueError, RecursionError):
        lines = payload.split(b"\n")
        if len(lines) == 1:
            return []
        # A server that forgets the blank line between its events.
        return [event for line in lines for event in read_oddly(line, kind)]
