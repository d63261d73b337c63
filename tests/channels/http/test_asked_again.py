"""The same request more than once: at the same time, after a restart, and after what was left unanswered."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pixi.channels.http import feed
from pixi.channels.http.access import LOCAL, Principal, Problem
from pixi.channels.http.faces.ai_sdk import AiSdkStream
from pixi.channels.http.replies import TalkReply
from pixi.channels.http.talks import Instead, TalkAddress
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import StoreError
from pixi.core.events import Grew, Opened, Reacted, Sent, ToolCalled, TurnEnded, TurnEvent, TurnStarted
from pixi.core.language import NOTE
from pixi.core.llm import PromptProgress
from pixi.core.message import Message
from pixi.settings.rules import HttpRules
from pixi.store.kept import KeyedRequest
from pixi.store.sqlite import SqliteStore
from tests.channels.http.served import Served, served
from tests.channels.http.test_pages import chunks_of, run, said, ui
from tests.waiting import until, within

KEY = {"Idempotency-Key": "k"}
BODY = {"message": "hi", "conversation": "a"}


async def _streamed(here: Served) -> list[dict[str, Any]]:
    async with within("the stream's end"), here.stream("/api/chat", BODY, **KEY) as events:
        return [event async for event in events]


async def test_two_messages_of_one_key_at_the_same_time_are_not_taken_for_one() -> None:
    async with served("[SEND: one]") as here:
        asked = [here.post("/api/chat", {"message": text}, **KEY) for text in ("hi", "ho")]
        told = await asyncio.gather(*asked)
        assert sorted(status for status, _ in told) == [200, 422]
        assert len(here.model.requests) == 1


class Held:
    """The first that says something waits before the server takes anything."""

    def __init__(self, here: Served, monkeypatch: pytest.MonkeyPatch, refused: Problem | None = None) -> None:
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()
        self._passed, self._refused = here.server._talks._limits.message, refused
        monkeypatch.setattr(here.server._talks._limits, "message", self._message)

    async def _message(self, person: Principal) -> None:
        if not self.reached.is_set():
            self.reached.set()
            await self.goes_on.wait()
            if self._refused is not None:
                raise self._refused
        await self._passed(person)


async def test_a_key_that_another_talk_took_meanwhile_is_refused_before_anything_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        await here.say("tea?", conversation="a")
        _, before = await here.get("/api/chat/a/messages")
        held = Held(here, monkeypatch)
        changed = BODY | {"replaces": before["messages"][0]["id"]}
        first = asyncio.create_task(here.post("/api/chat", changed, **KEY))
        async with within("the first"):
            await held.reached.wait()
        assert (await here.post("/api/chat", {"message": "hi", "conversation": "b"}, **KEY))[0] == 200
        held.goes_on.set()
        status, problem = await first
        assert (status, problem["title"]) == (422, "Used before")
        assert (await here.get("/api/chat/a/messages"))[1] == before


async def test_a_request_that_another_server_answered_meanwhile_gets_that_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    async with served("[SEND: one]", "[SEND: two]", store=store) as one, served(store=store) as other:
        await one.say("tea?", conversation="a")
        _, told = await one.get("/api/chat/a/messages")
        changed = BODY | {"replaces": told["messages"][0]["id"]}
        held = Held(other, monkeypatch)
        second = asyncio.create_task(other.post("/api/chat", changed, **KEY))
        async with within("the second"):
            await held.reached.wait()
        answers = [await one.post("/api/chat", changed, **KEY)]
        held.goes_on.set()
        answers += [await second, await one.post("/api/chat", changed, **KEY)]
        assert [(status, told["text"]) for status, told in answers] == [(200, "two")] * 3
        assert not other.server._talks._talking
    await store.close()


async def test_a_request_for_which_another_server_began_a_talk_of_another_name_is_followed_there() -> None:
    go_on = asyncio.Event()
    async with served(["[SEND: one]", go_on]) as here:
        talks, keyed = here.server._talks, KeyedRequest("k", "digest", "m1")
        places = [TalkAddress(Principal(LOCAL, "you"), "pixi", name) for name in ("a", "b")]
        async with within("the answers"):
            replies = [await talks.begin(place, "hi", "m1", keyed=keyed) for place in places]
            go_on.set()
            for reply in replies:
                told = [form["event"] async for forms in reply.events() for form in forms]
                assert (told.count("send"), told[-1]) == (1, "turn_end")
        assert len(here.model.requests) == 1


async def test_a_request_that_is_refused_leaves_its_key_free(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served("[SEND: one]") as here:
        held = Held(here, monkeypatch, Problem(429, "Too much", "You said too much."))
        held.goes_on.set()
        assert (await here.post("/api/chat", BODY, **KEY))[0] == 429
        assert (await here.post("/api/chat", BODY | {"message": "ho"}, **KEY))[0] == 200


async def test_a_request_of_which_the_key_alone_came_on_record_is_said_when_it_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served("[SEND: one]") as here:

        async def broken(message: Message, channel: Channel) -> None:
            raise StoreError("The disk is full.")

        with monkeypatch.context() as failing:
            failing.setattr(here.backend, "receive", broken)
            assert (await here.post("/api/chat", BODY, **KEY))[0] == 503
        assert (await here.post("/api/chat", BODY | {"message": "ho"}, **KEY))[0] == 422
        for _ in range(2):
            assert (await here.post("/api/chat", BODY, **KEY))[1]["text"] == "one"
        assert len(here.model.requests) == 1


@pytest.mark.parametrize("how", ["/api/chat/a/reset", "/api/me/forget"])
async def test_a_key_of_which_the_words_were_forgotten_is_free_again(how: str) -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        await here.post("/api/chat", BODY, **KEY)
        for text, answer in (("ho", "two"), ("hi", "three")):
            assert (await here.post(how, {"really": True} if "me" in how else {}))[0] == 200
            for _ in range(2):
                status, told = await here.post("/api/chat", BODY | {"message": text}, **KEY)
                assert (status, told["text"]) == (200, answer)
        assert (await here.post("/api/chat", BODY, **KEY, Prefer="respond-async"))[0] == 202


async def test_a_key_is_its_persons_alone() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        app = await here.key("app", "chat", "chat:on-behalf")
        people = [({}, {}), (app, {}), (app, {"userId": "app"})]
        asked = [here.post("/api/chat", BODY | more, **KEY, **headers) for headers, more in people]
        told = [answer["text"] for _, answer in await asyncio.gather(*asked)]
        assert sorted(told) == ["one", "three", "two"]


FILE = {"url": "data:text/plain,eggs"}
V1: dict[str, Any] = {"model": "pixi", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body", "changes"),
    [
        (
            "/api/chat",
            BODY,
            [
                {"message": "ho"},
                {"conversation": "b"},
                {"persona": "edda"},
                {"attachments": [FILE]},
                {"attachments": [{"url": "data:text/plain,ham"}]},
            ],
        ),
        (
            "/api/chat",
            ui("hi"),
            [{"id": "b"}, {"persona": "edda"}, {"trigger": "regenerate-message"}, ui("ho")],
        ),
        ("/api/agui", run("hi"), [{"threadId": "b"}, {"runId": "r9"}, run("ho")]),
        (
            "/v1/chat/completions",
            V1,
            [
                {"model": "edda"},
                {"metadata": {"conversation": "b"}},
                {"messages": [{"role": "system", "content": "be brief"}, *V1["messages"]]},
                {"stop": "x"},
            ],
        ),
    ],
)
async def test_a_key_is_of_one_request(
    path: str, body: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        for _ in range(2):
            assert (await _status(here, path, body, KEY))[0] == 200
        for change in changes:
            status, told = await _status(here, path, body | change, KEY)
            assert (status, "came before with another request" in told) == (422, True), change
        assert len(here.model.requests) == 1
        theirs = await here.key("other", "chat")
        assert (await _status(here, path, body, KEY | theirs))[0] == 200, "of another person"
        assert len(here.model.requests) == 2


@pytest.mark.parametrize("path", ["/api/chat", "/api/agui"])
async def test_another_answer_is_asked_for_once_also_after_a_restart(path: str, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    ask = ui if path == "/api/chat" else run
    again = ui("hi", trigger="regenerate-message") if path == "/api/chat" else run("hi", run_id="r2")
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]", store=store) as here:
        await _status(here, path, ask("hi"))
        told = [await chunks_of(here, path, again, **KEY) for _ in range(2)]
        assert [said(each) for each in told] == ["two", "two"]
        later = again | ({"runId": "r3"} if path == "/api/agui" else {})
        assert said(await chunks_of(here, path, later, **{"Idempotency-Key": "k2"})) == "three"
    async with served(store=store) as here:
        assert said(await chunks_of(here, path, again, **KEY)) == "two", "the turn of that key, set aside"
    await store.close()


@pytest.mark.parametrize(("path", "body"), [("/api/chat", ui("hi")), ("/api/agui", run("hi"))])
async def test_the_same_at_the_same_time_is_one_reply(path: str, body: dict[str, Any]) -> None:
    async with served("[SEND: one]", rules=HttpRules(turns_per_person=1)) as here:
        told = await asyncio.gather(*(chunks_of(here, path, body) for _ in range(4)))
        assert [said(each) for each in told] == ["one"] * 4
        assert len(here.model.requests) == 1


async def test_a_turn_that_is_stopped_before_it_begins_does_not_end_the_reply_that_takes_its_place() -> None:
    async with served(*["[SEND: Hello.]"] * 20) as here:
        talks = here.server._talks
        for steps in range(6):  # of the loop: how far the turn has come
            talk = f"t{steps}"
            place = TalkAddress(Principal(LOCAL, "you"), "pixi", talk)
            turn = (await here.say("hi", conversation=talk))["turn"]
            await talks.begin(place, "tea?", "m1")
            for _ in range(steps):
                await asyncio.sleep(0)
            reply = await talks.begin(place, "rain?", "m2", replaces=partial(_instead_of, turn))
            told = [form["event"] async for forms in reply.events() for form in forms]
            assert "send" in told


async def _instead_of(turn: int) -> Instead:
    return Instead(turn)


async def test_what_an_earlier_process_left_is_answered_where_it_is_asked_for(tmp_path: Path) -> None:
    never = asyncio.Event()
    store = await SqliteStore.open(tmp_path / "pixi.db")
    async with served([never], store=store) as here:
        asking = asyncio.create_task(here.http.post(here.url + "/api/chat", json=BODY, headers=KEY))
        await until(lambda: here.model.streaming)
    async with await asking as answer:  # the server stopped: that is no answer
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    async with served("[SEND: one]", store=store) as here:
        events = await _streamed(here)
        assert [event["text"] for event in events if event["event"] == "send"] == ["one"]
        assert (await here.post("/api/chat", BODY, **KEY))[1]["text"] == "one"
        assert len(here.model.requests) == 1
    await store.close()


async def _with_a_message_left(folder: Path) -> SqliteStore:
    """Return the store of a server that ended before it answered."""
    store = await SqliteStore.open(folder / "pixi.db")
    async with served([asyncio.Event()], store=store) as here:
        asking = asyncio.create_task(here.post("/api/chat", BODY, **KEY))
        await until(lambda: here.model.streaming)
    await asking
    return store


async def test_what_will_not_be_answered_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await _with_a_message_left(tmp_path)
    async with served("[SEND: one]", store=store) as here:

        async def too_old(prefix: str, open_channel: object) -> None:
            pass

        monkeypatch.setattr(here.backend, "resume", too_old)
        for accepted in ("application/json", "text/event-stream"):
            status, problem = await here.post("/api/chat", BODY, **KEY, Accept=accepted)
            assert (status, problem["title"]) == (409, "Not answered")
    await store.close()


async def test_what_another_server_answers_between_two_looks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await _with_a_message_left(tmp_path)
    async with served("[SEND: one]", store=store) as here:
        resume, owned_elsewhere = here.backend.resume, store.owned_elsewhere
        looks = 0

        async def of_another(prefix: str, open_channel: OpenChannel) -> None:
            """Leave the talk to its owner."""

        async def answered_meanwhile(address: str) -> bool:
            nonlocal looks
            looks += 1
            owned = await owned_elsewhere(address)
            await resume(address, here.server._talks.open_channel)
            await here.backend.engine.settled(address)
            return owned

        monkeypatch.setattr(here.backend, "resume", of_another)
        monkeypatch.setattr(store, "owned_elsewhere", answered_meanwhile)
        status, answer = await here.post("/api/chat", BODY, **KEY)
        assert (status, answer["text"], looks) == (200, "one", 1)
    await store.close()


async def test_what_is_put_off_between_two_looks_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await _with_a_message_left(tmp_path)
    async with served("[SEND: one]", store=store) as here:
        resume = here.backend.resume

        async def of_another(prefix: str, open_channel: OpenChannel) -> None:
            monkeypatch.setattr(here.backend, "resume", resume)

        monkeypatch.setattr(here.backend, "resume", of_another)
        status, answer = await here.post("/api/chat", BODY, **KEY)
        assert (status, answer["text"]) == (200, "one")
    await store.close()


async def not_yet() -> None:
    """Read no answer from the record."""


async def test_a_turn_of_which_the_beginning_is_gone_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "RING", 3)
    channel = feed.HttpChannel()
    channel.show(TurnStarted(1, "http:a:pixi", "pixi", ("m",)))
    for n in range(5):
        channel.show(Reacted("🥞", f"1.{n}", "m"))
    events = TalkReply(channel, "m", not_yet, known=True, turn=1).events()
    async with within("the end"):
        told = [form["id"] for form in await anext(events)]
        channel.show(TurnEnded("stop", 1))
        assert [form["event"] async for forms in events for form in forms] == ["turn_end"]
    assert told == ["1.2", "1.3", "1.4"]


async def test_an_answer_that_has_not_begun_misses_nothing_of_what_was_dropped_before() -> None:
    channel = feed.HttpChannel()
    events = TalkReply(channel, "m", not_yet).events()
    async with within("the end"):
        coming = asyncio.ensure_future(anext(events))
        await until(lambda: channel.feed.followers)
        channel.feed.lose()
        channel.show(TurnStarted(1, "http:a:pixi", "pixi", ("m",)))
        channel.show(TurnEnded("stop", 1))
        told = [*await coming, *[form async for forms in events for form in forms]]
    assert [form["event"] for form in told] == ["turn_start", "turn_end"]


def put_off(channel: feed.HttpChannel, *before: TurnEvent) -> None:
    """Show a turn that ends before anything of an answer was seen, and the one that takes its place."""
    for turn, events in (
        (1, (*before, TurnEnded("cancelled", 1))),
        (2, (Sent("hey", "2.0"), TurnEnded("stop", 1))),
    ):
        channel.show(TurnStarted(turn, "http:a:pixi", "pixi", ("m",)))
        for event in events:
            channel.show(event)


@pytest.mark.parametrize(
    "before", [(), (PromptProgress(1, 2, None),), (Opened(NOTE, id="1.0"), Grew(NOTE, "hm", "1.0"))]
)
async def test_a_turn_that_is_put_off_goes_on_in_the_next(before: tuple[TurnEvent, ...]) -> None:
    channel = feed.HttpChannel()
    reply = TalkReply(channel, "m", not_yet)
    put_off(channel, *before)
    async with within("the end"):
        told = [form async for forms in reply.events() for form in forms]
    assert [form["turn"] for form in told if form["event"] == "turn_end"] == [2]
    face = AiSdkStream()
    start, *rest = [
        chunk
        for form in told
        for line in face.feed(form | {"conversation": "a"}).decode().splitlines()
        if line.startswith("data: {") and "transient" not in (chunk := json.loads(line[6:]))
    ]
    assert (start["type"], start["messageId"]) == ("start", "turn-2")
    assert "start" not in [chunk["type"] for chunk in rest]


async def test_a_turn_that_is_put_off_once_something_was_shown_is_to_be_asked_for_again() -> None:
    called = ToolCalled("c1", "look", {})
    channel = feed.HttpChannel()
    reply = TalkReply(channel, "m", not_yet)
    put_off(channel, called)
    with pytest.raises(Problem, match="send the same again"):
        async with within("the end"):
            _ = [form async for forms in reply.events() for form in forms]
    channel = feed.HttpChannel()
    reply = TalkReply(channel, "m", not_yet)
    put_off(channel, called)
    async with within("the end"):  # our own clients know of a beginning anew
        told = [form["event"] async for forms in reply.events(resumes=True) for form in forms]
    assert told == ["turn_start", "tool_call", "turn_start", "send", "turn_end"]


@pytest.mark.parametrize("path", ["/api/chat", "/api/agui"])
async def test_what_is_refused_takes_nothing_out_of_the_talk(path: str) -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        ask = ui if path == "/api/chat" else run
        await chunks_of(here, path, ask("hi"))
        again = ui("hi", trigger="regenerate-message") if path == "/api/chat" else run("hi", run_id="r1")
        file = {"type": "file", "url": f"/api/files/{'a' * 32}", "mediaType": "text/plain"}
        parts = [{"type": "text", "text": "hi"}, file]
        again["messages"][0] |= {"parts": parts, "content": parts}
        status, _ = await _status(here, path, again)
        assert status == 404  # there is no such file
        _, told = await here.get("/api/chat/a/messages")
        assert [each["text"] for each in told["messages"]] == ["hi", "one"]


async def test_what_is_said_amid_a_reply_waits_for_no_other() -> None:
    never = asyncio.Event()
    replies: list[Any] = [["[SEND: one]", never], ["[SEND: two]", never], "[SEND: three]", "[SEND: four]"]
    async with served(*replies, rules=HttpRules(turns_per_person=1)) as here:
        first = asyncio.create_task(chunks_of(here, "/api/chat", ui("hi")))
        await until(lambda: here.model.streaming)
        assert (await _status(here, "/api/chat", ui("hi", talk="other")))[0] == 429
        second = asyncio.create_task(chunks_of(here, "/api/chat", ui("hi", "more")))
        await until(lambda: len(here.model.requests) == 2)
        assert said(await chunks_of(here, "/api/chat", ui("hi", "more", "and more"))) == "three"
        await asyncio.gather(first, second)
        anew = await chunks_of(here, "/api/chat", ui("hi", "more", "and more", trigger="regenerate-message"))
        assert said(anew) == "four"


async def _status(
    here: Served, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
) -> tuple[int, str]:
    async with here.http.post(here.url + path, json=body, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(("path", "body"), [("/api/chat", ui("hi")), ("/api/agui", run("hi"))])
async def test_a_page_is_told_that_a_reply_is_not_whole(path: str, body: dict[str, Any]) -> None:
    never = asyncio.Event()
    async with served(["[SEND: one]", never]) as here:
        answer = await here.http.post(here.url + path, json=body)
        await answer.content.readuntil(b"\n\n")
        reading = asyncio.create_task(answer.text())
        await until(lambda: here.model.streaming)
    rest = await reading
    assert "The server stops" in rest
    assert ('"type":"error"' if path == "/api/chat" else '"type":"RUN_ERROR"') in rest


async def test_at_v1_too_what_is_refused_takes_nothing_out_and_what_is_missing_is_told() -> None:
    never = asyncio.Event()
    async with served("[SEND: one]", "[SEND: two]", ["[SEND: three]", never]) as here:
        more: dict[str, Any] = {"role": "user", "content": "more"}
        body: dict[str, Any] = {"model": "pixi", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"X-OpenWebUI-Chat-Id": "a"}
        await here.post("/v1/chat/completions", body, **headers)
        body["messages"] += [{"role": "assistant", "content": "one"}, more]
        await here.post("/v1/chat/completions", body, **headers)
        file = {"type": "file", "file": {"file_id": "a" * 32}}
        more["content"] = [{"type": "text", "text": "more"}, file]  # the same once more, with a file
        assert (await here.post("/v1/chat/completions", body, **headers))[0] == 404
        _, told = await here.get("/api/chat/a/messages")
        assert [each["text"] for each in told["messages"]] == ["hi", "one", "more", "two"]
        more["content"] = "more"
        asking = asyncio.create_task(here.post("/v1/chat/completions", body, **headers))
        await until(lambda: len(here.model.requests) == 3)
        await until(lambda: here.model.streaming)
    status, problem = await asking
    assert (status, "The server stops" in problem["error"]["message"]) == (503, True)
