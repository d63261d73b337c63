"""What pages read of a talk, and how they go back and forth in it, over a real server and a real engine."""

import asyncio
from typing import Any

import pytest

from pixi.core.message import Card
from pixi.core.persona import Example, Persona
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.served import PERSONAS, Served, served
from tests.channels.http.test_attachments import asked, data_url
from tests.channels.http.test_files import picture
from tests.waiting import until


async def told(here: Served, query: str = "", **headers: str) -> Any:
    status, answer = await here.get(f"/api/chat/a/messages{query}", **headers)
    assert status == 200, answer
    return answer


async def texts(here: Served) -> list[str]:
    return [each["text"] for each in (await told(here))["messages"]]


async def id_of(here: Served, text: str) -> str:
    found: str = next(each["id"] for each in (await told(here))["messages"] if each["text"] == text)
    return found


async def again(here: Served, text: str, words: str = "", **headers: str) -> Any:
    """Have the answer to a message anew, or say it in other words."""
    body = {"message": words, "conversation": "a", "replaces": await id_of(here, text)}
    status, answer = await here.post("/api/chat", body, **headers)
    assert status == 200, answer
    return answer


async def test_what_is_being_answered_is_told_before_events_tell_of_it() -> None:
    never = asyncio.Event()
    async with served(["[SEND: one]", never]) as here:
        async with here.stream("/api/chat", {"message": "hi", "conversation": "a"}) as events:
            while (await anext(events))["event"] != "send":
                pass
        here.peers._channels._open.clear()  # as on another server
        assert await texts(here) == ["hi", "one"]


async def test_an_answer_is_had_anew_and_one_goes_back_to_the_first() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: other two]", "[SEND: three]") as here:
        await here.say("hi", conversation="a")
        await here.say("more", conversation="a")
        anew = await again(here, "more")
        assert (anew["text"], anew["turn"]) == ("other two", 3)
        assert "[SEND: two]" not in str(here.model.requests[2].lines)
        page = await told(here)
        assert [each["text"] for each in page["messages"]] == ["hi", "one", "more", "other two"]
        assert [each["siblings"] for each in page["messages"]] == [[], [], [], [2, 3]]
        assert [each["siblings"] for each in page["turns"]] == [[], [2, 3]]
        assert await here.post("/api/chat/a/branch", {"turn": 2}) == (200, {"done": True})
        assert await texts(here) == ["hi", "one", "more", "two"]
        assert (await told(here))["messages"][-1]["siblings"] == [2, 3]
        await here.say("and?", conversation="a")
        assert "[SEND: two]" in str(here.model.requests[3].lines)
        assert (await here.post("/api/chat/a/branch", {"turn": 3}))[0] == 200
        assert await texts(here) == ["hi", "one", "more", "other two"]
        assert (await here.post("/api/chat/a/branch", {"turn": 99}))[0] == 404


async def test_a_message_is_edited_wherever_it_stands() -> None:
    async with served(*(f"[SEND: answer {n}]" for n in range(4))) as here:
        await here.say("hi", conversation="a")
        await here.say("more", conversation="a")
        await again(here, "hi", "hello")
        assert await texts(here) == ["hello", "answer 2"]
        assert "more" not in str(here.model.requests[2].lines)
        await again(here, "hello")  # another answer to the new words
        page = await told(here)
        assert [each["siblings"] for each in page["messages"]] == [[1, 4], [3, 4]]
        await here.post("/api/chat/a/branch", {"turn": 1})
        page = await told(here)
        assert [each["text"] for each in page["messages"]] == ["hi", "answer 0", "more", "answer 1"]
        assert [each["siblings"] for each in page["messages"]] == [[1, 4], [], [], []]


async def test_branches_of_other_clients_are_walked_the_same_way() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        message = {"id": "u0", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
        for trigger in ("submit-message", "regenerate-message"):
            body = {"id": "a", "messages": [message], "trigger": trigger}
            async with here.http.post(here.url + "/api/chat", json=body) as answer:
                await answer.read()
        page = await told(here)
        assert [(each["text"], each["siblings"]) for each in page["messages"]] == [
            ("hi", []),
            ("two", [1, 2]),
        ]
        await here.post("/api/chat/a/branch", {"turn": 1})
        assert await texts(here) == ["hi", "one"]


async def test_the_same_request_twice_replaces_once() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        await here.say("hi", conversation="a")
        for key, (text, words) in {"k": ("hi", "ho"), "l": ("ho", "")}.items():
            body = {"message": words, "conversation": "a", "replaces": await id_of(here, text)}
            first = await here.post("/api/chat", body, **{"Idempotency-Key": key})
            assert await here.post("/api/chat", body, **{"Idempotency-Key": key}) == first
        assert (len(here.model.requests), await texts(here)) == (3, ["ho", "three"])


async def test_only_what_was_said_in_that_talk_is_replaced() -> None:
    async with served("[SEND: one]") as here:
        await here.say("hi", conversation="a")
        body = {"message": "x", "replaces": "nobody"}
        assert (await here.post("/api/chat", {**body, "conversation": "a"}))[0] == 404
        status, problem = await here.post("/api/chat", body)
        assert (status, problem["errors"][0]["pointer"]) == (422, "/conversation")
        assert await texts(here) == ["hi", "one"]


async def test_a_message_is_edited_while_it_is_answered() -> None:
    never = asyncio.Event()
    async with served(["[SEND: one]", never], "[SEND: two]") as here:
        asking = asyncio.create_task(here.say("hi", conversation="a"))
        await until(lambda: here.model.streaming)

        async def seen() -> bool:
            return "one" in await texts(here)

        await until(seen)
        await again(here, "hi", "ho")
        assert (await asking)["finish"] == "cancelled"
        assert await texts(here) == ["ho", "two"]


async def test_the_last_words_are_taken_out() -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        await here.say("hi", conversation="a")
        await here.say("more", conversation="a")
        assert await here.post("/api/chat/a/undo") == (200, {"messages": ["more"]})
        assert await texts(here) == ["hi", "one"]
        _, kept = await here.get("/api/chat/a/branches")
        assert [(each["turn"], each["text"]) for each in kept["branches"]] == [(2, "more")]
        await here.post("/api/chat/a/branch", {"turn": 2})
        assert await texts(here) == ["hi", "one", "more", "two"]
        assert await here.post("/api/chat/a/undo") == (200, {"messages": ["more"]})
        assert await here.post("/api/chat/a/undo") == (200, {"messages": ["hi"]})
        assert await here.post("/api/chat/a/undo") == (200, {"messages": []})


async def test_what_is_under_way_is_told_as_far_as_it_has_come() -> None:
    go_on = asyncio.Event()
    async with served("[SEND: one]", ["[SEND: two]", go_on, "[SEND: three]"]) as here:
        await here.say("hi", conversation="a")
        asking = asyncio.create_task(here.say("more", conversation="a"))

        async def seen() -> bool:
            return "two" in await texts(here)

        await until(seen)
        page = await told(here)
        assert [each["text"] for each in page["messages"]] == ["hi", "one", "more", "two"]
        assert (page["underWay"], page["waiting"]) == (2, True)
        assert [each["finish"] for each in page["turns"]] == ["stop", ""]
        before = await told(here, "?before=2")
        assert [each["text"] for each in before["messages"]] == ["hi", "one"]
        go_on.set()
        await asking
        page = await told(here)
        assert (page["underWay"], page["waiting"], page["more"]) == (0, False, False)
        assert (await texts(here))[-1] == "three"


async def test_what_has_ended_is_waited_for_no_more() -> None:
    """The last event of a turn comes a moment before its conversation rests; nothing comes after it."""
    rests = asyncio.Event()
    async with served("[SEND: one]") as here:
        settled = here.backend.engine.settled

        async def settled_late(conversation: str | None = None) -> None:
            await settled(conversation)
            await rests.wait()

        here.backend.engine.settled = settled_late  # type: ignore[method-assign]
        body = {"message": "hi", "conversation": "a"}
        async with here.stream("/api/chat", body) as events:
            seen = [event async for event in events]
        assert seen[-1]["event"] == "turn_end"
        page = await told(here)
        assert (page["underWay"], page["waiting"]) == (0, False)
        rests.set()


async def test_ids_are_those_of_the_events() -> None:
    async with served("[REACT: 🥞][SEND: one]\n[SEND: two]") as here:
        async with here.stream("/api/chat", {"message": "hi", "conversation": "a"}) as events:
            seen = [event async for event in events]
        page = await told(here)
        sent = [event["id"] for event in seen if event["event"] == "send"]
        assert [each["id"] for each in page["messages"]] == [*seen[0]["answers"], *sent]
        (reaction,) = page["messages"][0]["reactions"]
        assert reaction["id"] == next(event["id"] for event in seen if event["event"] == "react")
        assert all(each["at"] > 1e9 for each in page["messages"])


async def test_a_reaction_to_an_earlier_message_is_told_apart_where_that_is_on_another_page() -> None:
    async with served("[SEND: one]", "[REACT #1: 🥞]") as here:
        await here.say("hi", conversation="a")
        await here.say("more", conversation="a")
        page = await told(here, "?limit=1")
        first = await id_of(here, "hi")
        assert [(each["emoji"], each["message"]) for each in page["reactions"]] == [("🥞", first)]
        page = await told(here)
        assert page["reactions"] == []
        assert [each["emoji"] for each in page["messages"][0]["reactions"]] == ["🥞"]


async def test_cards_come_in_the_form_that_is_asked_for() -> None:
    def setup(addon: Addon) -> None:
        @addon.command
        async def spot(context: Context, name: str) -> None:
            """show a spot"""
            data = {"name": name, "imageUrl": "https://pictures.example/a.png"}
            await context.card(Card(name, type="spot_card", data=data))

    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", commands=("spot",))}
    async with served("[SPOT: Bowl]", addons=[setup], personas=personas) as here:
        await here.say("where?", conversation="a")
        (card,) = (await told(here))["messages"][1]["cards"]
        assert card["type"] == "spot_card"
        assert list((await told(here))["messages"][1]["pictures"]) == ["https://pictures.example/a.png"]
        (card,) = (await told(here, "?cards=adaptive"))["messages"][1]["cards"]
        assert card["type"] == "AdaptiveCard"


async def test_nobody_walks_in_the_talk_of_another() -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        await here.say("hi", conversation="a")
        theirs = await here.key("other", "chat")
        own = await id_of(here, "hi")
        for path in ("branches", "messages", "stream?follow=talk"):
            assert (await here.get(f"/api/chat/a/{path}", **theirs))[0] == 404
        assert (await here.post("/api/chat/a/undo", **theirs))[0] == 404
        assert (await here.post("/api/chat/a/branch", {"turn": 1}, **theirs))[0] == 404
        body = {"message": "mine", "conversation": "a", "replaces": own}
        assert (await here.post("/api/chat", body, **theirs))[0] == 404
        assert await texts(here) == ["hi", "one"]


async def test_who_asks_sees_what_is_left_and_operators_see_all() -> None:
    async with served("[SEND: one]") as here:
        await here.say("hi", conversation="a")
        _, mine = await here.get("/api/usage")
        assert mine["today"]["messages"] == 1
        assert mine["model"] == here.model.name
        _, theirs = await here.get("/api/usage", **await here.key("other", "chat"))
        assert theirs == {"shares": []}


async def test_who_wants_to_is_given_all_and_forgotten() -> None:
    async with served("[SEND: one]") as here:
        await here.say("good evening", conversation="a")
        _, kept = await here.get("/api/me/export")
        assert kept["person"] == "web:local"
        assert "good evening" in str(kept)
        assert (await here.post("/api/me/forget", {"really": False}))[0] == 422
        assert await here.post("/api/me/forget", {"really": True}) == (200, {"done": True})
        assert "good evening" not in str((await here.get("/api/me/export"))[1])
        assert (await here.get("/api/chat/a/messages"))[0] == 404


@pytest.mark.parametrize(
    ("language", "direction"),
    [("fa", "rtl"), ("ar-Latn", "ltr"), ("en", "ltr"), ("pa-Arab", "rtl"), ("he_IL", "rtl")],
)
def test_a_language_has_a_direction(language: str, direction: str) -> None:
    assert Persona("P", "p", language=language).direction == direction


async def test_a_page_learns_whom_one_can_talk_to_and_what_one_can_do() -> None:
    personas = PERSONAS | {
        "edda": Persona("Edda", "p", language="fa", examples=(Example("hi?", "[SEND: x]"),))
    }
    async with served(personas=personas) as here:
        _, answer = await here.get("/api/personas")
        edda = next(each for each in answer["personas"] if each["id"] == "edda")
        assert (edda["direction"], edda["starters"], edda["avatar"]) == ("rtl", ["hi?"], "")
        assert answer["can"] | {"files": True, "approvals": True} == answer["can"]
        visitor = await here.visitor(await here.site("site", "https://site.example"), "https://site.example")
        _, answer = await here.get("/api/personas", **visitor)
        assert (answer["can"]["files"], answer["can"]["approvals"]) == (False, False)


async def test_files_go_along_where_an_answer_is_had_anew() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]", vision=True) as here:
        png = data_url(picture("PNG", 20), "image/png")
        body = {"message": "look", "conversation": "a", "attachments": [{"url": png, "name": "a.png"}]}
        assert (await here.post("/api/chat", body))[0] == 200
        for text, words in (("look", ""), ("look", "see?")):
            await again(here, text, words)
            assert len(asked(here).images) == 1
            assert asked(here).text.endswith('[picture "a.png"]')
        (message, _) = (await told(here))["messages"]
        (file,) = message["attachments"]
        assert (message["text"], file["name"]) == ("see?", "a.png")


async def test_a_picture_is_gone_with_the_talk_that_was_forgotten() -> None:
    async with served("[SEND: one]", vision=True) as here:
        png = data_url(picture("PNG", 20), "image/png")
        body = {"message": "look", "conversation": "a", "attachments": [{"url": png, "name": "a.png"}]}
        assert (await here.post("/api/chat", body))[0] == 200
        (file,) = (await told(here))["messages"][0]["attachments"]
        for status in (200, 404):
            async with here.http.get(here.url + file["url"]) as answer:
                assert answer.status == status
            await here.post("/api/chat/a/reset", {})


async def test_talks_are_listed_and_nobody_elses() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        for name, persona in (("a", "pixi"), ("b", "edda")):
            await here.say(f"hi {name}", conversation=name, persona=persona)
        _, answer = await here.get("/api/talks")
        listed = [(each["conversation"], each["persona"], each["text"]) for each in answer["talks"]]
        assert listed == [("b", "edda", "hi b"), ("a", "pixi", "hi a")]
        _, answer = await here.get("/api/talks?persona=pixi")
        assert [each["conversation"] for each in answer["talks"]] == ["a"]
        assert (await here.get("/api/talks", **await here.key("other", "chat")))[1] == {"talks": []}
