"""Reads a reply in given pieces, and brings its events to forms that can be compared."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pixi.core.language import (
    CommandEnded,
    CommandStarted,
    CommandStream,
    CommandText,
    Event,
    Prose,
    Thought,
    ToolCallEnded,
)

EVENT_TYPES = (Prose, CommandStarted, CommandText, CommandEnded, Thought, ToolCallEnded)

Outcome = tuple[str | bool | int, ...]
"""One row of a table: ("prose", text), ("command", name, argument, complete), …; a target stands last."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a reply.

    Attributes:
        events: in order.
        ended: the stream said so before its text was over.
        cut_short: it said so once it was closed: before, it may not have caught up with what it took back.
    """

    events: tuple[Event, ...]
    ended: bool
    cut_short: bool


def read(
    pieces: Iterable[str],
    names: Mapping[str, Iterable[str]] | Iterable[str] | None = None,
    people: Iterable[str] = (),
) -> Reading:
    """Feed the pieces to a new stream and close it."""
    stream = CommandStream(names, people=people)
    events: list[Event] = []
    for piece in pieces:
        over = stream.ended
        answer = stream.feed(piece)
        assert not (over and answer), f"events after the reply had ended: {answer}"
        events += answer
    ended = stream.ended
    events += stream.close()
    cut_short = stream.ended
    assert stream.close() == [], "a second close gave events"
    assert stream.feed("late") == stream.feed("[SEND: late]") == [], "a closed stream gave events"
    return Reading(tuple(events), ended, cut_short)


def pieces_at(reply: str, cuts: Iterable[int]) -> list[str]:
    """The reply, cut at these places; a place may come twice, which gives an empty piece."""
    places = [0, *sorted(cuts), len(reply)]
    return [reply[start:end] for start, end in itertools.pairwise(places)]


def merged(events: Iterable[Event]) -> list[Event]:
    """The same events with neighbouring pieces of one text joined: what no cut may change."""
    whole: list[Event] = []
    for event in events:
        last = whole[-1] if whole else None
        match last, event:
            case (_, (Prose("") | Thought("") | CommandText(""))):
                pass
            case (Prose(before), Prose(text)):
                whole[-1] = Prose(before + text)
            case (Thought(before), Thought(text)):
                whole[-1] = Thought(before + text)
            case (CommandText(before), CommandText(text)):
                whole[-1] = CommandText(before + text)
            case _:
                whole.append(event)
    return whole


def outcomes(events: Iterable[Event], *, with_prose: bool = True) -> list[Outcome]:
    """What the events come to, in the form of the table; blank prose and thoughts are nothing."""
    rows = (_row(event) for event in merged(events))
    return [row for row in comparable(row for row in rows if row) if with_prose or row[0] != "prose"]


def comparable(rows: Iterable[Outcome]) -> Iterator[Outcome]:
    """Rows without what the language leaves open: the edges of prose, of thoughts and of payloads.

    A mark that stood round a command (`**`, `- `, a fence) may or may not be left over as prose, and so
    may the backslash of an escaped bracket in prose.
    """
    for kind, *rest in rows:
        text = str(rest[-1])
        match kind:
            case "prose":
                text = text.replace("\\[", "[").replace("\\]", "]").strip(" \t\r\n*_~`>#-")
                if text:
                    yield kind, text
            case "thought":
                if text.strip():
                    yield kind, text.strip()
            case "tool_call":
                yield kind, *rest[:-1], text.strip()
            case _:
                yield kind, *rest


def _row(event: Event) -> Outcome | None:
    match event:
        case Prose(text):
            return "prose", text
        case Thought(text):
            return "thought", text
        case CommandEnded(name, argument, complete, target):
            return ("command", name, argument, complete) + ((target,) if target else ())
        case ToolCallEnded(name, payload):
            return "tool_call", name, payload
        case CommandStarted() | CommandText():
            return None
        case _:
            assert_never(event)


def check_shape(events: Sequence[Event]) -> None:
    """What holds for the events of every reply, whatever it says."""
    started: CommandStarted | None = None
    pieces: list[str] = []
    for event in events:
        assert type(event) in EVENT_TYPES, f"not an event: {event!r}"
        _check_frozen(event)
        match event:
            case CommandStarted():
                assert started is None, f"{event} inside {started}"
                started, pieces = event, []
            case CommandText(text):
                assert started is not None, f"{event} outside a command"
                pieces.append(text)
            case CommandEnded(name, argument, _, target):
                assert started == CommandStarted(name, target), f"{event} ended {started}"
                assert 0 <= target <= 999_999_999, f"{event} names no message"
                joined = "".join(pieces)
                assert joined.strip() == argument, f"{event}, but its pieces are {joined!r}"
                started = None
            case Prose() | Thought() | ToolCallEnded():
                assert started is None, f"{event} inside {started}"
            case _:
                assert_never(event)
    assert started is None, f"{started} never ended"


def _check_frozen(event: Event) -> None:
    field = event.__struct_fields__[0]
    try:
        setattr(event, field, getattr(event, field))
    except AttributeError:
        return
    raise AssertionError(f"{event!r} can be changed")
