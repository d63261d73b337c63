"""Talks over HTTP, with a real server, a real engine and a real store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from pixi.channels.http.access import LOCAL, address_of
from pixi.channels.http.feed import Channels
from pixi.channels.http.requests import server_of
from pixi.core.message import Card, Field
from pixi.core.persona import Persona
from pixi.settings.rules import HttpRules
from pixi.store.sqlite import SqliteStore
from pixi.store.writer import Writer
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.booking import CALLED, booking
from tests.channels.http.served import PERSONAS, Event, Served, served
from tests.waiting import until, within

HELLO = "[NOTE: they came]\n[REACT: 🥞]\n[SEND: hey]\n[SEND: you!]"


async def test_a_message_is_answered_whole() -> None:
    async with served(HELLO) as here:
        answer = await here.say("hi", conversation="kitchen")
        (reaction,) = answer["reactions"]
        assert reaction["emoji"] == "🥞"
        assert answer == {
            "response": "hey\n\nyou!",
            "text": "hey\n\nyou!",
            "richContent": None,
            "messages": [{"id": "1.2", "text": "hey"}, {"id": "1.3", "text": "you!"}],
            "cards": [],
            "pictures": [],
            "sources": [],
            "reactions": [{"id": "1.1", "emoji": "🥞", "message": reaction["message"]}],
            "conversation": "kitchen",
            "turn": 1,
            "finish": "stop",
            "usage": {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0},
        }


async def test_a_stream_shows_what_happens_but_no_note() -> None:
    async with served(HELLO) as here, here.stream("/api/chat", {"message": "hi"}) as events:
        told = [event async for event in events]
    assert told[0]["event"] == "turn_start"
    assert told[0]["persona"] == "pixi"
    assert [event["event"] for event in told if event["event"] not in ("started", "text")] == [
        *("turn_start", "react", "send", "send", "turn_end")
    ]
    assert all(event["sse_id"] == f"{event['turn']}.{event['seq']}" for event in told)
    grown = [event["text"] for event in told if event["event"] == "text" and event["id"] == "1.2"]
    assert "".join(grown).strip() == "hey"
    assert "they came" not in str(told)


async def test_the_talk_goes_on_and_others_have_their_own() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        first = await here.say("hi")
        await here.say("more", conversation=first["conversation"])
        assert "hi" in str(here.model.requests[1].lines)
        await here.say("anew")
        assert "hi" not in str(here.model.requests[2].lines[1:])


async def test_each_persona_answers_for_itself() -> None:
    async with served("[SEND: flour]") as here:
        await here.say("hi", persona="edda")
        assert "You are Edda" in str(here.model.requests[0].lines[0])
        status, problem = await here.post("/api/chat", {"message": "hi", "persona": "nobody"})
        assert (status, problem["title"]) == (404, "No such persona")
        assert "edda" in problem["detail"]


async def test_a_persona_goes_by_its_own_name_too() -> None:
    twins = {**PERSONAS, "moss": Persona("Mo", "You are Moss."), "moth": Persona("mo", "You are Moth.")}
    async with served("[SEND: flour]", "[SEND: salt]", "[SEND: oats]", personas=twins) as here:
        told = await here.say("hi", persona=" EDDA ", conversation="a")
        assert told["text"] == "flour"
        assert "You are Edda" in str(here.model.requests[0].lines[0])
        _, kept = await here.get("/api/chat/a/messages?persona=Edda")
        assert (kept["persona"], len(kept["messages"])) == ("edda", 2)
        _, own = await here.get("/api/talks?persona=Edda")
        assert [each["conversation"] for each in own["talks"]] == ["a"]
        said = [{"role": "user", "content": "hi"}]
        _, answer = await here.post("/v1/chat/completions", {"model": "Edda", "messages": said})
        assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("edda", "salt")
        assert (await here.get("/v1/models/Edda"))[1]["id"] == "edda"
        for name in ("Mo", "x" * 200_000):  # two have that name; nobody has
            said_to = {"model": name, "messages": said}
            assert (await here.post("/v1/chat/completions", said_to))[0] == 404
        assert (await here.post("/api/chat", {"message": "hi", "persona": "Mo"}))[0] == 404
        assert (await here.say("hi", persona="Moss"))["text"] == "oats"
        of_moth = await here.key("app", "chat", personas=("moth",))  # knows one of that name
        assert (await here.get("/v1/models/Mo", **of_moth))[1]["id"] == "moth"


async def test_who_loses_the_connection_goes_on_where_they_were() -> None:
    go_on = asyncio.Event()
    async with served(["[SEND: one]", go_on, "[SEND: two]"]) as here:
        async with here.stream("/api/chat", {"message": "hi", "conversation": "a"}) as events:
            seen = await _up_to(events, "send")
        assert here.model.streaming == 1  # nobody reads, and it is written all the same
        last = seen[-1]["sse_id"]
        async with here.stream("/api/chat/a/stream", **{"Last-Event-ID": last}) as events:
            go_on.set()
            rest = [event async for event in events]
        assert [event["text"] for event in rest if event["event"] == "send"] == ["two"]
        numbers = [event["seq"] for event in [*seen, *rest]]
        assert numbers == sorted(set(numbers))


async def test_who_comes_back_is_answered_before_anything_happens() -> None:
    go_on = asyncio.Event()
    async with served(["[SEND: one]", go_on, "[SEND: two]"]) as here:
        async with here.stream("/api/chat", {"message": "hi", "conversation": "a"}) as events:
            last = (await _up_to(events, "send"))[-1]["sse_id"]
        headers = {"Last-Event-ID": last}
        async with (
            within("the answer to who comes back"),
            here.http.get(f"{here.url}/api/chat/a/stream", headers=headers) as answer,
        ):
            assert await answer.content.readline() == b": \n"
            go_on.set()
            assert b'"text":"two"' in await answer.read()


async def test_who_comes_late_has_the_turn_from_its_beginning() -> None:
    go_on = asyncio.Event()
    async with served(["[SEND: one]", go_on, "[SEND: two]"]) as here:
        asking = asyncio.create_task(here.say("hi", conversation="a"))
        await until(lambda: here.model.streaming)
        async with here.stream("/api/chat/a/stream") as events:
            go_on.set()
            told = [event async for event in events]
        assert told[0]["event"] == "turn_start"
        assert [event["text"] for event in told if event["event"] == "send"] == ["one", "two"]
        assert (await asking)["text"] == "one\n\ntwo"


async def test_where_nothing_is_under_way_there_is_nothing_to_follow() -> None:
    async with served("[SEND: one]") as here:
        await here.say("hi", conversation="a")
        assert await here.get("/api/chat/a/stream") == (204, None)
        status, problem = await here.get("/api/chat/b/stream")
        assert (status, problem["title"]) == (404, "No such conversation")


async def test_a_reply_is_stopped_and_only_the_one_that_is_meant() -> None:
    never = asyncio.Event()
    async with served(["[SEND: one]", never]) as here:
        asking = asyncio.create_task(here.say("hi", conversation="a"))
        async with within("the first message"):
            await until(lambda: here.model.streaming)
        async with here.stream("/api/chat/a/stream") as events:
            await _up_to(events, "send")
        assert await here.post("/api/chat/a/stop", {"turn": 7}) == (200, {"stopped": False})
        assert await here.post("/api/chat/a/stop", {"turn": 1}) == (200, {"stopped": True})
        answer = await asking
        assert (answer["finish"], answer["text"]) == ("cancelled", "one")
        assert await here.post("/api/chat/a/stop") == (200, {"stopped": False})


async def test_the_same_request_again_is_the_same_turn() -> None:
    async with served("[REACT: 🥞][SEND: one]") as here:
        key = {"Idempotency-Key": "k1"}
        first = await here.post("/api/chat", {"message": "hi"}, **key)
        assert await here.post("/api/chat", {"message": "hi"}, **key) == first
        status, problem = await here.post("/api/chat", {"message": "ho"}, **key)
        assert (status, problem["title"]) == (422, "Used before")
        async with here.stream("/api/chat", {"message": "hi"}, **key) as events:
            told = [event async for event in events]
        assert [event["event"] for event in told] == ["turn_start", "react", "send", "turn_end"]
        assert told[2]["id"] == first[1]["messages"][0]["id"]
        assert {event["sse_id"] for event in told} == {""}, "the numbers are others than those that were live"
        file = {"url": "data:text/plain;base64,aGk=", "name": "n.txt"}
        status, problem = await here.post("/api/chat", {"message": "hi", "attachments": [file]}, **key)
        assert (status, problem["title"]) == (422, "Used before")
        assert len(here.model.requests) == 1


async def test_the_same_request_while_it_is_answered() -> None:
    go_on = asyncio.Event()
    async with served([go_on, "[SEND: one]"]) as here:
        key = {"Idempotency-Key": "k1"}
        asking = asyncio.create_task(here.post("/api/chat", {"message": "hi"}, **key))
        await until(lambda: here.model.streaming)
        status, problem = await here.post("/api/chat", {"message": "hi"}, **key)
        assert (status, problem["type"]) == (409, "tag:pixi,2026:still-being-answered")
        assert problem["instance"] == "/api/chat#turn-1"
        _, other = await here.get("/api/nothing")
        assert (other["type"], other["title"], "instance" in other) == ("about:blank", "Not Found", False)
        async with here.stream("/api/chat", {"message": "hi"}, **key) as events:
            go_on.set()
            told = [event async for event in events]
        assert [event["text"] for event in told if event["event"] == "send"] == ["one"]
        assert (await asking)[1]["text"] == "one"


async def test_it_is_the_same_turn_after_a_restart_too(tmp_path: Path) -> None:
    for _ in range(2):
        store = await SqliteStore.open(tmp_path / "pixi.db")
        async with served("[SEND: one]", store=store) as here:
            key = {"Idempotency-Key": "k1"}
            status, answer = await here.post("/api/chat", {"message": "hi"}, **key)
            assert (status, answer["text"], answer["turn"]) == (200, "one", 1)
        await store.close()


async def test_what_was_said_can_be_read() -> None:
    async with served("[REACT: 🥞][SEND: one]", "[SEND: two]") as here:
        await here.say("hi", conversation="a")
        await here.say("more", conversation="a")
        _, told = await here.get("/api/chat/a/messages")
        assert [(each["role"], each["text"]) for each in told["messages"]] == [
            ("user", "hi"),
            ("assistant", "one"),
            ("user", "more"),
            ("assistant", "two"),
        ]
        assert [each["emoji"] for each in told["messages"][0]["reactions"]] == ["🥞"]
        assert told["more"] is False
        _, last = await here.get("/api/chat/a/messages?limit=1")
        assert [each["text"] for each in last["messages"]] == ["more", "two"]
        assert last["more"] is True
        _, first = await here.get(f"/api/chat/a/messages?before={last['messages'][0]['turn']}")
        assert [each["text"] for each in first["messages"]] == ["hi", "one"]
        assert await here.post("/api/chat/a/reset") == (200, {"done": True})
        assert (await here.get("/api/chat/a/messages"))[1]["messages"] == []


@pytest.mark.parametrize("how", ["reset", "forget", "branch"])
async def test_what_is_out_of_a_talk_is_not_told_from_memory(how: str) -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        await here.say("hi", conversation="a")
        place = {"Last-Event-ID": "1.0"}
        async with here.stream("/api/chat/a/stream", **place) as events:
            assert [event["event"] async for event in events] == ["started", "send", "turn_end"]
        if how == "reset":
            await here.post("/api/chat/a/reset")
        elif how == "forget":
            await here.backend.engine.forget("web:local")
        else:
            await here.backend.engine.rewind(here_address(here), 1)
        await here.say("again", conversation="a")
        assert await here.get("/api/chat/a/stream", **place) == (204, None)
        async with here.stream("/api/chat/a/stream", **{"Last-Event-ID": "2.0"}) as events:
            assert [event["event"] async for event in events] == ["started", "send", "turn_end"]


async def test_a_card_comes_with_its_type_and_a_fallback() -> None:
    def setup(addon: Addon) -> None:
        @addon.command
        async def spot(context: Context, name: str) -> None:
            """show a spot"""
            data = {"spots": [{"name": name}]}
            card = Card(f"A spot: {name}", fields=(Field("city", "Venice"),), type="spots_list", data=data)
            await context.card(card)

    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", commands=("spot",))}
    async with served("[SPOT: Bowl]", addons=[setup], personas=personas) as here:
        answer = await here.say("where?")
        (card,) = answer["cards"]
        assert answer["richContent"] == {"type": "spots_list", "data": {"spots": [{"name": "Bowl"}]}}
        assert (card["type"], card["version"]) == ("spots_list", 1)
        assert card["fallback"]["fields"] == [{"name": "city", "value": "Venice"}]
        _, told = await here.get(f"/api/chat/{answer['conversation']}/messages")
        (again,) = told["messages"][1]["cards"]
        assert told["messages"][1]["id"] == card["id"]
        assert again == {name: card[name] for name in again}


async def test_a_person_says_yes_over_http_and_nobody_else_can() -> None:
    setup, personas, done = booking()
    async with served(CALLED, "[SEND: it is booked]", addons=[setup], personas=personas) as here:
        theirs = await here.key("other", "chat", "approve")
        async with here.stream("/api/chat", {"message": "monday please", "conversation": "a"}) as events:
            asked = (await _up_to(events, "approval"))[-1]
            path = f"/api/chat/a/approvals/{asked['id']}"
            assert asked["tool"] == "book"
            assert (await here.post(path, {"approved": True}, **theirs))[0] == 404
            assert done == []
            assert await here.post(path, {"approved": True}) == (200, {"done": True})
            rest = [event async for event in events]
        assert done == ["monday"]
        assert [event["verdict"] for event in rest if event["event"] == "approved"] == ["yes"]
        assert (await here.post(path, {"approved": True}))[0] == 404


async def test_who_has_the_answer_whole_is_told_of_a_question_and_gets_the_rest_later() -> None:
    setup, personas, done = booking()
    body, key, told = (
        {"message": "monday please", "conversation": "a"},
        {"Idempotency-Key": "k"},
        dict[str, Any](),
    )
    async with served(
        ["[SEND: wait]", *CALLED], "[SEND: it is booked]", addons=[setup], personas=personas
    ) as here:
        for _ in range(2):  # also where the first answer was lost
            status, told = await here.post("/api/chat", body, **key)
            assert (status, told["text"], told["finish"]) == (200, "wait", "approval")
            (asked,) = told["approvals"]
            assert (asked["tool"], asked["arguments"]) == ("book", 'day: "monday"')
        assert done == []
        path = f"/api/chat/a/approvals/{told['approvals'][0]['id']}"
        assert (await here.post(path, {"approved": True}))[0] == 200
        await here.backend.engine.settled(address_of(LOCAL, "pixi", "a"))
        _, told = await here.post("/api/chat", body, **key)
        assert (told["text"], told["finish"]) == ("wait\n\nit is booked", "stop")
        assert "approvals" not in told
        assert done == ["monday"]


async def test_a_question_holds_up_no_other_talk_and_a_message_behind_it_is_not_waited_for_twice() -> None:
    setup, personas, _ = booking()
    rules = HttpRules(turns_per_person=1)
    replies = (CALLED, "[SEND: tea]", "[SEND: booked]", "[SEND: and tea]")
    async with served(*replies, addons=[setup], personas=personas, rules=rules) as here:
        asked = await here.say("monday please", conversation="a")
        assert asked["finish"] == "approval"
        assert (await here.say("tea?", conversation="b"))["text"] == "tea"
        body, key = {"message": "and tea", "conversation": "a"}, {"Idempotency-Key": "k"}
        assert (await here.post("/api/chat", body, **key, Prefer="respond-async"))[0] == 202
        async with within("the refusal"):
            status, problem = await here.post("/api/chat", body, **key)
        assert (status, problem["title"]) == (409, "Still being answered")
        await here.post(f"/api/chat/a/approvals/{asked['approvals'][0]['id']}", {"approved": True})
        await here.backend.engine.settled(address_of(LOCAL, "pixi", "a"))
        assert (await here.post("/api/chat", body, **key))[0] == 200
        assert not here.server._talks._talking


async def test_who_has_the_answer_whole_and_may_not_say_yes_is_not_asked() -> None:
    setup, personas, done = booking()
    async with served(CALLED, "[SEND: I cannot]", addons=[setup], personas=personas) as here:
        key = await here.key("shop", "chat")
        status, told = await here.post("/api/chat", {"message": "monday please"}, **key)
        assert (status, told["text"], told["finish"], done) == (200, "I cannot", "stop", [])


async def test_a_parameter_that_there_is_not_is_told_with_the_right_one() -> None:
    async with served("[SEND: hey]") as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        status, problem = await here.get("/api/talks?userid=mo", **key)
        assert (status, problem["title"]) == (400, "A parameter is wrong")
        assert problem["detail"] == "'userid' is no parameter here. Did you mean userId?"
        assert problem["errors"][0]["pointer"] == "/userid"
        for path in ("/api/personas?x=1", "/api/chat?persona=pixi"):
            assert (await here.post(path, {"message": "hi"}) if "chat" in path else await here.get(path))[
                0
            ] == 400
        for path in ("/healthz?x=1", "/v1/models?api-version=1"):
            assert (await here.get(path))[0] == 200, "programs add their own"
        assert here.model.requests == []


async def test_an_application_talks_for_its_users_and_they_see_their_own_alone() -> None:
    async with served("[SEND: to ana]", "[SEND: to bo]") as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        body = {"message": "hi", "conversation": "a"}
        status, answer = await here.post("/api/chat", {**body, "userId": "ana"}, **key)
        assert (status, answer["text"]) == (200, "to ana")
        assert (await here.get("/api/chat/a/messages?userId=bo", **key))[0] == 404
        assert (await here.get("/api/chat/a/messages", **key))[0] == 404
        assert (await here.get("/api/chat/a/messages?userId=ana", **key))[0] == 200
        assert (await here.post("/api/chat", {**body, "userId": "bo"}, **key))[1]["text"] == "to bo"
        assert "to ana" not in str(here.model.requests[1].lines)
        exported = await here.backend.engine.export("web:app:ana")
        assert "hi" in str(exported)
        await here.backend.engine.forget("web:app:ana")
        assert (await here.get("/api/chat/a/messages?userId=ana", **key))[0] == 404


async def test_a_key_knows_its_personas_alone() -> None:
    async with served() as here:
        key = await here.key("bakery", "chat", personas=("edda",))
        _, told = await here.get("/api/personas", **key)
        assert [each["id"] for each in told["personas"]] == ["edda"]
        assert (await here.post("/api/chat", {"message": "hi", "persona": "pixi"}, **key))[0] == 404


async def test_too_many_at_once_are_told_when_to_come_again() -> None:
    never = asyncio.Event()
    rules = HttpRules(requests_per_minute=3, turns_per_person=1)
    async with served([never], rules=rules) as here:
        asking = asyncio.create_task(here.say("hi", conversation="a"))
        await until(lambda: here.model.streaming)
        async with here.http.post(f"{here.url}/api/chat", json={"message": "ho"}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "2")
        await here.get("/api/personas")
        async with here.http.get(f"{here.url}/api/personas") as answer:
            assert answer.status == 429
            assert int(answer.headers["Retry-After"]) > 0
        await here.backend.engine.stop(here_address(here))
        await asking


def here_address(here: Served) -> str:
    (address,) = here.backend.engine._live
    return address


async def test_a_program_s_history_is_known_again_also_where_nothing_was_said() -> None:
    async with served("[REACT: 🥞]", "[NOTE: hm]", "[SEND: two]") as here:
        told: list[dict[str, str]] = []
        for text, answered in (("hi", "🥞"), ("more", "…"), ("and?", "two")):
            told.append({"role": "user", "content": text})
            _, answer = await here.post("/v1/chat/completions", {"model": "pixi", "messages": told})
            told.append(answer["choices"][0]["message"])
            assert told[-1]["content"] == answered
        assert len(await here.backend.store.talks("web:local", "pixi", 10)) == 1


async def test_old_talks_are_dropped_from_memory_but_not_those_that_are_alive() -> None:
    now = 0.0
    channels = Channels(clock=lambda: now)
    for name in "abc":
        channels.at(name).feed.used = 0.0
    channels.at("b").feed.waiting = 1
    channels.at("d").feed.used = 700.0
    now = 700.0
    for _ in range(3):
        channels.at("d")
    assert channels.known("a") is None
    assert channels.known("c") is None
    assert channels.known("b") is not None


async def test_open_streams_end_when_the_server_stops() -> None:
    never = asyncio.Event()
    told: list[Event] = []

    async def follow(here: Served, begun: asyncio.Event) -> None:
        async with here.stream("/api/chat", {"message": "hi"}) as events:
            async for event in events:
                told.append(event)
                begun.set()

    begun = asyncio.Event()
    async with served([never]) as here:
        following = asyncio.create_task(follow(here, begun))
        await begun.wait()
    await following
    assert [event["event"] for event in told] == ["turn_start"]  # it did not end: another process goes on


async def test_a_message_that_a_server_puts_off_as_it_stops_is_not_answered_with_nothing() -> None:
    async with served([asyncio.Event(), "[SEND: one]"]) as here:
        asking = asyncio.create_task(here.post("/api/chat", {"message": "hi", "conversation": "a"}))
        await until(lambda: here.model.streaming)
        await here.backend.engine.drain(0.0)
    status, problem = await asking
    assert (status, problem["title"]) == (503, "Not now"), problem


async def _up_to(events: object, name: str) -> list[Event]:
    seen: list[Event] = []
    async for event in events:  # type: ignore[attr-defined]
        seen.append(event)
        if event["event"] == name:
            return seen
    raise AssertionError(f"{name} did not come: {seen}")


async def test_what_goes_before_the_model_is_asked_of_the_store_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[int] = []
    hand_over = Writer._hand_over

    def counted(writer: Writer) -> None:
        rounds.append(len(writer._noted))
        hand_over(writer)

    async with served(HELLO, HELLO) as here:
        await here.say("hi")
        monkeypatch.setattr(Writer, "_hand_over", counted)
        await here.say("hi")
        monkeypatch.undo()
    # The talk with its message; the lease with the window; the turn.
    assert rounds[:3] == [2, 2, 1]


@pytest.mark.parametrize(
    ("forwarded", "scheme"), [("https, http", "https"), ("HTTPS", "https"), ("http, https", "http")]
)
def test_of_several_proxies_the_one_that_the_client_reached_tells_the_scheme(
    forwarded: str, scheme: str
) -> None:
    request = make_mocked_request("GET", "/", {"Host": "bot.example", "X-Forwarded-Proto": forwarded})
    assert server_of(request) == f"{scheme}://bot.example"
