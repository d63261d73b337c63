"""The terminal when nobody sits at it: what is printed, and where."""

import io
import json
import os
from collections.abc import Iterator

import pytest

from pixi.channels.terminal import LinesChannel, seat
from pixi.core.deltas import Usage
from pixi.core.errors import ChannelError
from pixi.core.events import (
    Failed,
    Noted,
    Performed,
    Reacted,
    Sent,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
)

EVERYTHING: tuple[TurnEvent, ...] = (
    Noted("they sound\nsad"),
    Sent("hi"),
    Reacted("🥞"),
    Performed("wave", "wildly"),
    ToolCalled("1", "search", {"query": "x"}),
    ToolAnswered("1", "search", True, ["y"]),
    Failed("The model does not answer."),
    TurnEnded("error", 2, Usage(3, 2, 1)),
)


async def happen(channel: LinesChannel, *events: TurnEvent) -> None:
    """As the engine does it: an act of the channel first, then its event."""
    for event in events:
        if isinstance(event, Sent):
            await channel.send(event.text, nonce="n")
        if isinstance(event, Reacted):
            await channel.react("1", event.emoji, nonce="n")
        channel.show(event)


async def test_text_is_the_replies_alone() -> None:
    out, err = io.StringIO(), io.StringIO()
    channel = LinesChannel(out, err)
    await happen(channel, *EVERYTHING)
    assert out.getvalue() == "hi\n"
    assert err.getvalue() == "pixi-persona: The model does not answer.\n"
    assert channel.failed


async def test_a_reply_that_was_closed_at_a_limit_is_no_failure_and_told() -> None:
    out, err = io.StringIO(), io.StringIO()
    channel = LinesChannel(out, err)
    await happen(channel, Sent("hi"), TurnEnded("limit", 1, Usage()))
    assert (out.getvalue(), err.getvalue()) == (
        "hi\n",
        "pixi-persona: the reply was closed at a limit; see [limits].\n",
    )
    assert not channel.failed


async def test_notes_and_reactions_are_marked_where_they_are_wanted() -> None:
    out = io.StringIO()
    await happen(LinesChannel(out, io.StringIO(), notes=True), *EVERYTHING)
    assert out.getvalue() == "(note: they sound sad)\nhi\n(reaction: 🥞)\n"


async def test_json_is_every_event_with_its_time() -> None:
    out, err = io.StringIO(), io.StringIO()
    channel = LinesChannel(out, err, as_json=True)
    channel.hear()
    await happen(channel, *EVERYTHING)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert all(0 <= line.pop("t") < 5 for line in lines)
    assert lines == [
        {"event": "note", "text": "they sound\nsad"},
        {"event": "send", "text": "hi"},
        {"event": "react", "emoji": "🥞"},
        {"event": "command", "name": "wave", "argument": "wildly"},
        {"event": "tool_call", "id": "1", "name": "search", "arguments": {"query": "x"}},
        {"event": "tool_result", "id": "1", "name": "search", "ok": True, "result": ["y"]},
        {"event": "error", "text": "The model does not answer."},
        {
            "event": "turn_end",
            "finish": "error",
            "steps": 2,
            "usage": {"prompt_tokens": 3, "cached_tokens": 2, "completion_tokens": 1},
        },
    ]
    assert err.getvalue() == ""
    assert channel.failed


async def test_a_turn_that_ended_well_is_no_failure() -> None:
    channel = LinesChannel(io.StringIO(), io.StringIO())
    await happen(channel, Sent("hi"), TurnEnded("length", 1))
    assert not channel.failed


@pytest.mark.parametrize("as_json", [True, False])
async def test_no_control_character_reaches_the_output(as_json: bool) -> None:
    evil = "\x1b]0;x\x07\x9b2J\u2028\ud800 end"
    out, err = io.StringIO(), io.StringIO()
    await happen(LinesChannel(out, err, as_json=as_json, notes=True), Noted(evil), Sent(evil), Failed(evil))
    for text in (out.getvalue(), err.getvalue()):
        assert not any(ord(character) < 32 and character != "\n" for character in text)
        assert not any(127 <= ord(character) < 160 for character in text)
        text.encode()
    if as_json:
        assert [json.loads(line)["text"] for line in out.getvalue().split("\n")[:-1]] == [evil] * 3


@pytest.fixture
def unread() -> Iterator[io.TextIOWrapper]:
    reading, writing = os.pipe()
    os.close(reading)
    out = os.fdopen(writing, "w", encoding="utf-8")
    yield out
    try:
        out.close()
    except BrokenPipeError:
        return  # what was written is still in its buffer


async def test_an_output_that_nobody_reads_is_noticed(unread: io.TextIOWrapper) -> None:
    err = io.StringIO()
    channel = LinesChannel(unread, err)
    with pytest.raises(ChannelError) as refused:
        await channel.send("hi", nonce="n")
    assert channel.broken.is_set()
    assert isinstance(channel.fault, BrokenPipeError)
    channel.show(Failed(str(refused.value)))
    assert err.getvalue() == ""

    as_json = LinesChannel(unread, io.StringIO(), as_json=True)
    as_json.show(Sent("hi"))
    as_json.show(Sent("again"))
    assert as_json.broken.is_set()


def test_a_seat_has_one_address_and_each_message_an_id_of_its_own() -> None:
    place = seat("Madame Souris", "Mo: the 1st")
    first, second = place.message("hi"), place.message("hi")
    assert place.conversation == first.conversation == "terminal:madame-souris:mo-the-1st"
    assert first.id != second.id
    assert first.author.name == "Mo: the 1st"
    assert first.addressed
