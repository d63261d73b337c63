"""The terminal when nobody sits at it: what is printed, and where."""

import asyncio
import io
import json
import os
from collections.abc import Iterator

import pytest

from pixi.channels.terminal.lines import LinesChannel, seat
from pixi.core.channel import Question
from pixi.core.errors import ChannelError, ChannelForgot
from pixi.core.events import (
    Failed,
    Noted,
    Performed,
    Reacted,
    Sent,
    Shown,
    Sourced,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
)
from pixi.core.llm import Cited, PromptProgress, Usage
from pixi.core.message import Card, Field, Image, Rights, Venue
from tests.held_clock import HeldClock

CARD = Card("Lemon sugar", "Thin and hot.", (Field("Time", "20 minutes"),), None, "https://example.org/lemon")

EVERYTHING: tuple[TurnEvent, ...] = (
    PromptProgress(9, 9),
    Noted("they sound\nsad"),
    Sent("hi"),
    Reacted("🥞"),
    Performed("wave", "wildly"),
    ToolCalled("1", "search", {"query": "x"}),
    ToolAnswered("1", "search", True, ["y"]),
    Sourced((Cited("https://x.example/", "All"),)),
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
        if isinstance(event, Shown):
            await channel.card(event.card, nonce="n")
        channel.show(event)


async def test_how_far_a_long_prompt_is_read_is_told_each_second(clock: HeldClock) -> None:
    told: list[str] = []
    out = io.StringIO()
    channel = LinesChannel(out, io.StringIO(), progress=told.append)
    await happen(channel, PromptProgress(0, 1669))
    await asyncio.sleep(1.5)
    await happen(channel, PromptProgress(669, 1669, 125.0))
    await asyncio.sleep(7)
    await happen(channel, Sent("hi"))
    await asyncio.sleep(5)
    assert told == [
        "",
        "reading 1,669 tokens",
        *["reading 1,000 tokens · 3 min to go"] * 5,
        *["reading 1,000 tokens · 2 min to go", "reading 1,000 tokens · 119 s to go"],
        "",
    ]
    assert out.getvalue() == "hi\n"


async def test_what_an_earlier_process_printed_is_forgotten() -> None:
    channel = LinesChannel(io.StringIO(), io.StringIO())
    await channel.send("hi", nonce="a")
    assert await channel.sent_before("hi", nonce="a", after="") == "a"
    with pytest.raises(ChannelForgot):
        await channel.sent_before("hi", nonce="b", after="")


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
    assert out.getvalue() == (
        "(note: they sound sad)\nhi\n(reaction: 🥞)\n(source: All https://x.example/)\n"
    )


async def test_json_is_every_event_with_its_time() -> None:
    out, err = io.StringIO(), io.StringIO()
    channel = LinesChannel(out, err, as_json=True)
    channel.hear()
    await happen(channel, *EVERYTHING)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert all(0 <= line.pop("t") < 5 for line in lines)
    assert [(line.pop("turn"), line.pop("seq")) for line in lines] == [(0, n) for n in range(len(lines))]
    assert lines == [
        {"event": "reading", "done": 9, "total": 9, "seconds": None},
        {"event": "note", "id": "", "text": "they sound\nsad"},
        {"event": "send", "id": "", "text": "hi"},
        {"event": "react", "id": "", "emoji": "🥞", "message": ""},
        {"event": "command", "id": "", "name": "wave", "argument": "wildly"},
        {"event": "tool_call", "id": "1", "name": "search", "arguments": {"query": "x"}},
        {"event": "tool_result", "id": "1", "name": "search", "ok": True, "result": ["y"]},
        {"event": "sources", "sources": [{"title": "All", "url": "https://x.example/"}]},
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


async def test_a_card_is_lines_among_the_replies() -> None:
    out = io.StringIO()
    await happen(LinesChannel(out, io.StringIO()), Sent("look"), Shown(CARD))
    assert out.getvalue() == (
        "look\nLemon sugar\nThin and hot.\nTime: 20 minutes\nhttps://example.org/lemon\n"
    )


async def test_a_card_is_one_event_as_json() -> None:
    out = io.StringIO()
    await happen(LinesChannel(out, io.StringIO(), as_json=True), Shown(CARD))
    event = json.loads(out.getvalue())
    assert event.pop("t") >= 0
    assert event == {
        "event": "card",
        "turn": 0,
        "seq": 0,
        "id": "",
        "type": "card",
        "version": 1,
        "data": {},
        "fallback": {
            "title": "Lemon sugar",
            "text": "Thin and hot.",
            "fields": [{"name": "Time", "value": "20 minutes"}],
            "link": "https://example.org/lemon",
            "picture": None,
        },
    }


@pytest.mark.parametrize("as_json", [True, False])
async def test_a_stranger_s_card_drives_no_terminal(as_json: bool) -> None:
    evil = "\x1b[2J\x07\x9b2J\u202e\u2066\u2028\ud800"
    out = io.StringIO()
    card = Card(evil, evil, (Field(evil, evil),), Image(evil, b"x"), evil)
    await happen(LinesChannel(out, io.StringIO(), as_json=as_json), Shown(card))
    text = out.getvalue()
    text.encode()
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066"} & set(text)


async def test_whoever_started_the_program_governs_it_and_can_be_asked_nothing() -> None:
    out, err = io.StringIO(), io.StringIO()
    channel, mo = LinesChannel(out, err), seat("Pixi", "Mo").author.id
    assert channel.venue == Venue("", "one")
    assert await channel.rights(mo) == Rights(manager=True, operator=True)
    assert await channel.rights("31") == Rights()
    question = Question(mo, "send\x1b[2J_email", "Sends an email.", "", "1")
    assert await channel.approve(question, seconds=60) == "nobody"
    assert out.getvalue() == ""
    assert err.getvalue() == (
        "pixi-persona: send[2J_email wants somebody's yes, "
        "and can ask only where somebody sits at the terminal.\n"
    )


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

    with pytest.raises(ChannelError):
        await channel.card(CARD, nonce="n")

    as_json = LinesChannel(unread, io.StringIO(), as_json=True)
    as_json.show(Sent("hi"))
    as_json.show(Sent("again"))
    assert as_json.broken.is_set()


def test_a_seat_has_one_address_and_each_message_an_id_of_its_own() -> None:
    place = seat("Madame Souris", "Mo: the ~1st")
    first, second = place.message("hi"), place.message("hi")
    assert place.conversation == first.conversation == "terminal:madame-souris:mo-the-1st"
    assert first.id != second.id
    assert first.author.name == "Mo: the ~1st"
    assert first.addressed
