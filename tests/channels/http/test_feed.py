"""The feed of a talk: what it keeps, where one goes on in it, and what following costs."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from pixi.channels.http import feed as feed_module
from pixi.channels.http.feed import SILENCE, Feed, FollowedTooSlowly, Form
from pixi.core.events import (
    Grew,
    Noted,
    Numbering,
    Opened,
    PersonSaid,
    Reacted,
    Sent,
    TalkChanged,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from tests.channels.http.served import served
from tests.waiting import until, within

PIECES = 40


def message(number: int, pieces: int = PIECES) -> list[TurnEvent]:
    """A message as it grows, and then whole."""
    act, words = f"1.{number}", [f"word{n} " for n in range(pieces)]
    grown = [Grew("send", word, act) for word in words]
    return [Opened("send", "message", act), *grown, Sent("".join(words), act)]


TURN: list[TurnEvent] = [
    TurnStarted(1, "http:a:pixi", "pixi", ("m",)),
    Opened("note", "note", "1.0"),
    Grew("note", "hm", "1.0"),
    Noted("hm", "1.0"),
    *message(1),
    Reacted("🥞", "1.2", "m"),
    *message(3),
    TurnEnded("stop", 1),
]


def pushed(events: list[TurnEvent]) -> Feed:
    """A feed in which this happened."""
    feed = Feed()
    for event in events:
        feed.push(event)
    return feed


async def all_from(feed: Feed, place: int) -> list[Form]:
    """Return what is there from a place on."""
    return [form async for forms in feed.follow(place, lambda: True) for form in forms]


async def all_until_closed(feed: Feed, place: int) -> list[Form]:
    """Return what comes from a place on until the feed is closed."""
    return [form async for forms in feed.follow(place) for form in forms]


async def test_of_a_message_that_came_whole_no_piece_is_kept() -> None:
    feed = pushed(TURN)
    kept = await all_from(feed, 0)
    assert len(kept) == 9
    assert [form["event"] for form in kept if form["event"] == "text"] == []
    assert [len(form["text"].split()) for form in kept if form["event"] == "send"] == [PIECES, PIECES]
    assert feed.count == len(TURN)


async def test_who_waits_has_the_pieces_of_a_message_that_comes_at_once() -> None:
    feed = pushed(TURN[:1])
    told = asyncio.create_task(all_until_closed(feed, 1))
    await until(lambda: feed.followers == 1)
    for event in message(1, 3):
        feed.push(event)
    feed.close()
    assert [form["event"] for form in await told] == ["started", "text", "text", "text", "send"]
    assert [form["event"] for form in await all_from(feed, 1)] == ["started", "send"]


async def test_pieces_of_a_message_that_never_came_whole_are_kept() -> None:
    feed = pushed([*TURN[:-1], Opened("send", "message", "1.4"), Grew("send", "hey", "1.4"), TURN[-1]])
    assert [form["text"] for form in await all_from(feed, 0) if form["event"] == "text"] == ["hey"]


async def test_whoever_goes_on_after_any_event_has_all_the_rest_and_nothing_twice() -> None:
    everything = [Numbering().form(event) for event in TURN]
    for seq, form in enumerate(everything):
        form["turn"], form["seq"] = 1, seq
    feed = pushed(TURN)
    kept = [form["seq"] for form in await all_from(feed, 0)]
    for seq in range(len(TURN)):
        place = feed.place_after(1, seq)
        assert place is not None
        rest = await all_from(feed, place)
        assert [form["seq"] for form in rest] == [each for each in kept if each > seq]
        had = {form["id"] for form in everything[: seq + 1] if form["event"] == "send"}
        assert had | {form["id"] for form in rest if form["event"] == "send"} == {"1.1", "1.3"}


async def test_after_an_event_that_never_was_nobody_goes_on() -> None:
    feed = pushed([*TURN, TurnStarted(2, "http:a:pixi", "pixi", ("n",)), TurnEnded("stop", 1)])
    assert feed.place_after(1, len(TURN)) is None
    assert feed.place_after(2, 2) is None
    assert feed.place_after(3, 0) is None
    assert feed.place_after(2, 1) == feed.count


async def test_who_reads_slowly_gets_the_message_instead_of_its_pieces() -> None:
    feed = pushed(TURN[:8])
    async with aclosing(feed.follow(0)) as slow:
        seen = await anext(slow)
        for event in TURN[8:]:
            feed.push(event)
        feed.close()
        seen += [form async for forms in slow for form in forms]
    numbers = [form["seq"] for form in seen]
    assert numbers == sorted(set(numbers))
    assert [form["id"] for form in seen if form["event"] == "send"] == ["1.1", "1.3"]


async def test_following_takes_no_task_for_an_event() -> None:
    feed, seen, made = Feed(), asyncio.Event(), []
    loop = asyncio.get_running_loop()

    async def follow() -> None:
        async for forms in feed.follow(0):
            seen.set()
            if forms[-1]["event"] == "turn_end":
                return

    def counting(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> "asyncio.Task[Any]":
        made.append(work)
        return asyncio.Task(work, loop=loop, **more)

    following = asyncio.create_task(follow())
    loop.set_task_factory(counting)
    try:
        for event in TURN:
            seen.clear()
            feed.push(event)
            await seen.wait()
    finally:
        loop.set_task_factory(None)
    await following
    assert made == []


async def test_a_silence_is_told_and_the_events_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "KEEP_ALIVE_SECONDS", 0.001)
    feed = Feed()
    async with aclosing(feed.follow(0)) as following:
        assert await anext(following) == [SILENCE]
        assert await anext(following) == [SILENCE]
        feed.push(TURN[0])
        assert [form["event"] for form in await anext(following)] == ["turn_start"]


async def test_a_silent_stream_gets_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "KEEP_ALIVE_SECONDS", 0.01)
    go_on = asyncio.Event()
    async with served([go_on, "[SEND: hey]"]) as here:
        said = {"message": "hi", "conversation": "a"}
        headers = {"Accept": "text/event-stream"}
        async with here.http.post(f"{here.url}/api/chat", json=said, headers=headers) as answer:
            async with within("a comment"):
                while await answer.content.readline() != b": \n":
                    pass
            go_on.set()
            rest = await answer.read()
    assert b'"event":"send"' in rest
    assert b"silence" not in rest


async def test_a_message_that_grows_takes_no_task_for_a_piece() -> None:
    async def tasks(pieces: int) -> int:
        made = 0

        def counting(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> "asyncio.Task[Any]":
            nonlocal made
            made += 1
            return asyncio.Task(work, loop=loop, **more)

        steps = ["[SEND: ", *(f"word{number} " for number in range(pieces)), "]"]
        async with served(steps) as here:
            loop = asyncio.get_running_loop()
            loop.set_task_factory(counting)
            try:
                await here.say("hi")
            finally:
                loop.set_task_factory(None)
        return made

    assert await tasks(400) - await tasks(100) < 30


async def test_a_turn_of_another_server_is_found_by_its_own_numbers() -> None:
    here, there = pushed(TURN), pushed([TalkChanged()])
    numbering = Numbering()
    *forms, last = [numbering.form(event) for event in TURN]
    for form in forms:
        there.take(form)
    assert (there.turn, there.idle) == (1, False)
    there.push(PersonSaid("n", "more", 0.0))  # which has no number in that turn
    there.take(last)
    assert (there.turn, there.idle) == (0, True)
    for seq in range(len(TURN)):
        mine, theirs = here.place_after(1, seq), there.place_after(1, seq)
        assert mine is not None
        assert theirs is not None
        rest = [form for form in await all_from(there, theirs) if form["turn"] == 1]
        assert rest == await all_from(here, mine)


async def test_a_turn_of_another_server_of_which_the_end_comes_late_makes_who_follows_read_anew() -> None:
    feed = Feed()
    feed.take(Numbering().form(TURN[0]))
    feed.push(TurnStarted(2, "http:a:pixi", "pixi", ("n",)))
    assert [form["event"] for form in await all_from(feed, 1)] == ["changed", "turn_start"]
    assert (feed.turn, feed.turn_elsewhere) == (2, 0)


async def test_nobody_goes_on_in_a_feed_that_has_missed_something() -> None:
    feed = Feed()
    feed.take(Numbering().form(TURN[0]))
    mark = feed.mark_of(feed.count)
    following = asyncio.create_task(all_until_closed(feed, feed.count))
    await until(lambda: feed.followers == 1)
    feed.lose()
    with pytest.raises(FollowedTooSlowly):
        await following
    assert feed.place_of_mark(mark) is None
    assert feed.place_after(1, 0) is None
    assert (feed.turn, feed.begin_of_turn()) == (0, feed.count)


async def test_a_turn_that_its_server_left_ends_where_another_has_finished_it() -> None:
    feeds = [Feed(), Feed()]
    finished = TalkChanged(1)
    for feed in feeds:
        feed.take(Numbering().form(TURN[0]))
        feed.take({"event": "approval", "turn": 1, "seq": 1, "id": "q"})
    feeds[0].push(finished)  # here
    feeds[1].take(Numbering().form(finished))  # on a third server
    for feed in feeds:
        assert (feed.idle, feed.ended, list(feed.heard), feed.asked_elsewhere) == (True, 1, [1], set())
    other = Feed()
    other.take(Numbering().form(TURN[0]))
    other.push(TalkChanged(7))
    other.push(TalkChanged())
    assert (other.turn_elsewhere, other.ended) == (1, 7), "that was another turn"


def test_the_end_of_a_turn_is_looked_for_behind_a_place() -> None:
    feed = Feed()
    feed.push(TurnStarted(1, "c", "pixi", ("m",)))
    middle = feed.count
    feed.push(TurnEnded("stop", 1))
    assert feed.ends_after(0)
    assert feed.ends_after(middle)
    feed.push(TalkChanged())
    assert not feed.ends_after(middle + 1), "what is no end ends no reply: nobody is to wait for one there"
