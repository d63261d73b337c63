"""What happens right now, as operators hear of it over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from pixi.app.studio import live
from tests.app.studio.desk import DIRECT, MO, ROOM, Desk, desk_in
from tests.channels.http.served import events_in

Form = dict[str, Any]


@asynccontextmanager
async def following(desk: Desk, **asked: str) -> AsyncGenerator[AsyncGenerator[Form, None], None]:
    """Follow the events of a service."""
    url = URL(f"{desk.url}/api/studio/events").with_query(asked)
    async with desk.http.get(url, headers=desk.headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        yield _forms(answer)


async def _forms(answer: aiohttp.ClientResponse) -> AsyncGenerator[Form, None]:
    async for form in events_in(answer):
        if form["kind"] != "now":
            yield form


async def turn_of(events: AsyncGenerator[Form, None]) -> list[Form]:
    """The events until a turn ends."""
    seen: list[Form] = []
    async for form in events:
        seen.append(form)
        if form.get("event") == "turn_end":
            break
    return seen


async def test_a_turn_is_heard_as_it_happens_and_by_who_comes_later(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [live.routes]) as desk:
        async with following(desk, kinds="turn") as events:
            await desk.say("hi")
            at_once = await turn_of(events)
        async with following(desk, conversation=ROOM) as events:
            later = await turn_of(events)
        talks = (await desk.get("/api/studio/live"))["talks"]
    names = {form["event"] for form in at_once}
    assert names == {"turn_start", "asked", "text", "open", "close", "answered", "effect", "turn_end"}
    said = "".join(form["text"] for form in later if form["event"] == "text")
    assert said == "[NOTE: they are kind]\n[SEND: Hello there.]\n[REACT: 🐙]"
    assert [form["kind"] for form in later] == ["turn"] * len(later)
    assert later[0]["answers"] == [{"id": "1", "author": "Mo", "text": "hi"}]
    (talk,) = talks
    assert (talk["conversation"], talk["persona"], talk["active"]) == (ROOM, "Pixi", False)
    assert (talk["private"], talk["hidden"], talk["turns"], talk["finish"]) == (False, False, 1, "stop")


async def test_words_in_private_are_hidden_and_where_a_setting_shows_them_that_is_on_record(
    tmp_path: Path,
) -> None:
    async with desk_in(tmp_path, [live.routes]) as desk:
        for asked in ({}, {"conversation": DIRECT}):
            async with following(desk, **asked) as events:
                await desk.say("my secret", DIRECT, number=len(asked) + 1)
                seen = await turn_of(events)
            assert "secret" not in str(seen)
            assert "Hello" not in str(seen)
            assert {form["event"] for form in seen if form["kind"] == "turn"} == {
                *("turn_start", "answered", "turn_end")
            }
        assert (await desk.get("/api/studio/live"))["talks"][0]["hidden"]
        assert await desk.service.store.audit(9) == ()
    async with desk_in(tmp_path, [live.routes], "[studio]\nprivate = true\n") as desk:
        async with following(desk) as events:
            await desk.say("my secret", DIRECT, number=7)
            assert "secret" not in str(await turn_of(events)), "only where it is opened"
        async with following(desk, conversation=DIRECT) as events:
            assert "my secret" in str(await turn_of(events))
        (record,) = await desk.service.store.audit(9)
        assert (record.deed.tool, record.deed.conversation) == ("studio.open", DIRECT)


async def test_further_kinds_come_over_the_same_stream(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [live.routes]) as desk, following(desk, kinds="queue, health") as events:
        desk.service.hub.publish("log", {"line": "no"})
        desk.service.hub.publish("health", {"lag": 0.5})
        async with aclosing(events):
            assert await anext(events) == {"kind": "health", "lag": 0.5, "sse_id": ""}


async def test_what_is_forgotten_is_gone_from_the_screen_too(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [live.routes]) as desk:
        await desk.say("hi", by=MO)
        await desk.service.engine.forget(MO.id)
        async with following(desk, conversation=ROOM) as events:
            await desk.say("again", number=2)
            assert [form["answers"][0]["text"] for form in await turn_of(events) if "answers" in form] == [
                "again"
            ]
