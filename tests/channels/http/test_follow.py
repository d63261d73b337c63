"""Following a whole talk: what other windows say, where one was away, and nothing twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pixi.channels.http import feed
from tests.channels.http.served import Event, Served, served
from tests.waiting import until, within

TALK = "/api/chat/a/stream?follow=talk"
VISIBLE = ("said", "changed", "send", "turn_start", "turn_end")


async def up_to(events: AsyncIterator[Event], name: str, count: int = 1) -> list[Event]:
    """The events up to the one of that name, without pieces of messages."""
    seen: list[Event] = []
    async with within(f"{name} after {seen}"):
        async for event in events:
            seen += [event] if event["event"] in VISIBLE else []
            count -= event["event"] == name
            if not count:
                return seen
    raise AssertionError(f"{name} did not come: {seen}")


def names(events: list[Event]) -> list[str]:
    return [event["event"] for event in events]


async def heard(here: Served, text: str, **more: Any) -> Any:
    """Say something and wait for no answer."""
    body = {"message": text, "conversation": "a", **more}
    status, answer = await here.post("/api/chat", body, Prefer="respond-async")
    assert status == 202, answer
    return answer


async def test_two_windows_see_what_either_says_over_many_turns() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        said = await heard(here, "hi")
        assert said["conversation"] == "a"
        path = f"{TALK}&after={said['place']}"
        async with here.stream(path) as mine, here.stream(path) as other:
            for window in (mine, other):
                events = await up_to(window, "turn_end")
                assert names(events) == ["said", "turn_start", "send", "turn_end"]
                assert (events[0]["id"], events[0]["text"]) == (said["message"], "hi")
                assert events[1]["answers"] == [said["message"]]
            await heard(here, "more")
            first, second = await up_to(mine, "turn_end"), await up_to(other, "turn_end")
            assert first == second
            assert [event["text"] for event in first if event["event"] in ("said", "send")] == ["more", "two"]
            await here.say("in another way", conversation="a")
            assert (await up_to(mine, "turn_end"))[0]["text"] == "in another way"


async def test_who_was_away_goes_on_and_has_nothing_twice() -> None:
    go_on = asyncio.Event()
    async with served(["[SEND: one]", go_on, "[SEND: two]"], "[SEND: three]") as here:
        said = await heard(here, "hi")
        async with here.stream(f"{TALK}&after={said['place']}") as events:
            seen = await up_to(events, "send")
        go_on.set()
        await here.say("more", conversation="a")
        last = {"Last-Event-ID": seen[-1]["sse_id"]}
        async with here.stream(TALK, **last) as events:
            seen += await up_to(events, "turn_end", 2)
        texts = [event["text"] for event in seen if event["event"] in ("said", "send")]
        assert texts == ["hi", "one", "two", "more", "three"]
        assert len({event["sse_id"] for event in seen}) == len(seen)


async def test_who_missed_something_is_told_so_and_goes_on() -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        await here.say("hi", conversation="a")
        last = ""
        for mark in ("00000000-3", "1.4", "nonsense", "00000000-99999999999999999999"):
            async with here.stream(TALK, **{"Last-Event-ID": mark}) as events:
                (event,) = await up_to(events, "changed")
                last = event["sse_id"]
        async with here.stream(TALK, **{"Last-Event-ID": last}) as events:
            await heard(here, "more")
            assert names(await up_to(events, "turn_end")) == ["said", "turn_start", "send", "turn_end"]


async def test_what_is_kept_no_more_was_missed(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "RING", 5)
    async with served("[SEND: one]\n[SEND: two]\n[SEND: three]") as here:
        said = await heard(here, "hi")

        async def over() -> bool:
            return not (await here.get("/api/chat/a/messages"))[1]["waiting"]

        await until(over)
        async with here.stream(f"{TALK}&after={said['place']}") as events:
            assert names(await up_to(events, "changed")) == ["changed"]


async def test_history_and_stream_fit_together_after_a_reload() -> None:
    go_on = asyncio.Event()
    async with served("[SEND: one]", ["[SEND: two]", go_on, "[SEND: three]"]) as here:
        await here.say("hi", conversation="a")
        await heard(here, "more")
        async with here.stream(TALK) as events:
            await up_to(events, "send")
        _, page = await here.get("/api/chat/a/messages")
        async with here.stream(f"{TALK}&after={page['place']}") as events:
            go_on.set()
            later = await up_to(events, "turn_end")
        known = {each["id"]: each["text"] for each in page["messages"]}
        known |= {event["id"]: event["text"] for event in later if event["event"] in ("said", "send")}
        assert list(known.values()) == ["hi", "one", "more", "two", "three"]


async def test_who_follows_learns_that_the_talk_has_changed() -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        said = await heard(here, "hi")
        async with here.stream(f"{TALK}&after={said['place']}") as events:
            await up_to(events, "turn_end")
            await heard(here, "", replaces=said["message"])
            seen = await up_to(events, "turn_end")
            assert names(seen) == ["changed", "said", "turn_start", "send", "turn_end"]
            for path, body in (("branch", {"turn": 1}), ("undo", None), ("reset", None)):
                assert (await here.post(f"/api/chat/a/{path}", body))[0] == 200
                assert names(await up_to(events, "changed")) == ["changed"]


async def test_who_follows_one_turn_is_not_told_of_the_talk() -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        body = {"message": "hi", "conversation": "a"}
        async with here.stream("/api/chat", body) as events:
            assert "said" not in names([event async for event in events])
        _, page = await here.get("/api/chat/a/messages")
        again = {**body, "message": "", "replaces": page["messages"][0]["id"]}
        async with here.stream("/api/chat", again) as events:
            seen = [event async for event in events]
        assert {"said", "changed"}.isdisjoint(names(seen))
        assert all(event["sse_id"] == f"{event['turn']}.{event['seq']}" for event in seen)


async def test_a_talk_that_is_followed_stays_in_memory() -> None:
    channels = feed.Channels(clock=lambda: 10_000.0)
    one = channels.at("a")
    one.feed.used = 0.0
    following = one.feed.follow(0)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    channels.at("b").feed.used = 10_000.0
    channels.at("b")
    assert channels.known("a") is one
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await following.aclose()
    channels.at("b")
    assert channels.known("a") is None
