"""Several servers on one PostgreSQL database: whichever a client reaches, it sees and ends the same talk."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pixi.app.cluster import notify_bus, shared_rates
from pixi.app.cluster.notify_bus import NotifyBus, connected
from pixi.app.cluster.queue import Signal, open_queue
from pixi.app.cluster.shared_rates import TABLE
from pixi.app.service import BotService
from pixi.channels.http import peers
from pixi.channels.http.access import LOCAL, address_of
from pixi.cli.serve import serve_http
from pixi.engine.conversation import LiveConversation
from pixi.models.breaker import Breakers
from pixi.store.opening import open_store
from tests.app.scene import service_in, settings_file
from tests.channels.http.booking import CALLED, booking
from tests.channels.http.served import Event, Served, events_in, served
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream
from tests.waiting import LIMIT, until, within

pytestmark = pytest.mark.nightly

TALK = "/api/chat/a"
ALL = f"{TALK}/stream?follow=talk"
ADDRESS = address_of(LOCAL, "pixi", "a")
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '% serve %'"
VISIBLE = ("said", "changed", "send", "turn_start", "turn_end", "approval", "approved", "error")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is given up on a slow machine."""
    monkeypatch.setattr(peers, "ASK_SECONDS", LIMIT)
    monkeypatch.setattr(shared_rates, "_ANSWER_SECONDS", LIMIT)


@asynccontextmanager
async def serving(url: str, *replies: Any, **more: Any) -> AsyncGenerator[Served, None]:
    """A server with a store of its own, as another process has it."""
    store = await open_store(url)
    async with served(*replies, store=store, **more) as here, connected(here.peers, url):
        yield here
    await store.close()


@asynccontextmanager
async def two(
    url: str, *replies: Any, there: tuple[Any, ...] = (), **more: Any
) -> AsyncGenerator[tuple[Served, Served], None]:
    """Two servers that know of each other; the first answers with these replies."""
    async with serving(url, *replies, **more) as first, serving(url, *there, **more) as second:
        await until(lambda: first.peers.others and second.peers.others)
        yield first, second


async def heard(here: Served, text: str, **more: Any) -> Any:
    """Say something and wait for no answer."""
    body = {"message": text, "conversation": "a", **more}
    status, answer = await here.post("/api/chat", body, Prefer="respond-async")
    assert status == 202, answer
    return answer


async def up_to(events: AsyncIterator[Event], name: str) -> list[Event]:
    """The events up to the one of that name, without pieces of messages."""
    seen: list[Event] = []
    async with within(f"{name} after {seen}"):
        async for event in events:
            seen += [event] if event["event"] in VISIBLE else []
            if event["event"] == name:
                return seen
    raise AssertionError(f"{name} did not come: {seen}")


async def text_of(here: Served, body: object, headers: dict[str, str]) -> str:
    """What the server answers with to a message, whole."""
    post = here.http.post(f"{here.url}/api/chat", json=body, headers=headers)
    async with within("the end of the answer"), post as answer:
        return await answer.text()


def names(events: list[Event]) -> list[str]:
    return [event["event"] for event in events]


async def test_a_turn_is_seen_from_its_beginning_wherever_it_is_followed(url: str) -> None:
    long = "ö💬" * 1_900  # 11 kB, and a notice holds 8
    async with two(url, "[SEND: zero]", ["[SEND: one]\n[SEND: ", long, "]"]) as (first, second):
        await first.say("before", conversation="a")
        async with second.stream(ALL) as there, first.stream(ALL) as here:
            said = await heard(first, "hi")
            mine, theirs = await up_to(here, "turn_end"), await up_to(there, "turn_end")
        assert names(theirs) == ["said", "turn_start", "send", "send", "turn_end"]
        assert theirs[0]["id"] == said["message"]
        assert theirs[3]["text"] == long
        # Places are each server's own, and the rest is the same.
        for event in (*mine, *theirs):
            del event["place"], event["sse_id"]
        assert theirs == mine


async def test_nobody_sees_more_than_on_the_server_that_answers(url: str) -> None:
    async with two(url, "[NOTE: private]\n[SEND: one]") as (first, second):
        theirs = await second.key("other", "chat")
        await second.peers.join(ADDRESS)
        await first.say("hi", conversation="a")
        assert (await second.get(f"{TALK}/messages", **theirs))[0] == 404
        assert (await second.get(ALL, **theirs))[0] == 404
        channel = await second.peers.join(ADDRESS)
        await until(lambda: channel.feed.ended)
        async with second.stream(f"{TALK}/stream", **{"Last-Event-ID": "1.0"}) as events:
            seen = [event async for event in events]
        assert names(seen)[-2:] == ["send", "turn_end"]
        assert "private" not in str(seen)


async def test_who_comes_amid_a_turn_sees_it_whole_and_resumes_where_they_were(url: str) -> None:
    go_on = asyncio.Event()
    async with two(url, ["[SEND: one]\n[SEND: t", go_on, "wo]"]) as (first, second):
        body = {"message": "hi", "conversation": "a"}
        async with first.stream("/api/chat", body) as events:
            seen = await up_to(events, "send")
        _, page = await second.get(f"{TALK}/messages")
        assert page["underWay"] == seen[0]["turn"]
        assert [each["text"] for each in page["messages"]] == ["hi", "one"]
        async with (
            second.stream(f"{TALK}/stream") as whole,
            second.stream(f"{TALK}/stream", **{"Last-Event-ID": seen[-1]["sse_id"]}) as rest,
        ):
            assert names(await up_to(whole, "send")) == ["turn_start", "send"]
            go_on.set()
            assert names(await up_to(whole, "turn_end")) == ["send", "turn_end"]
            later = await up_to(rest, "turn_end")
        assert [event["text"] for event in seen + later if event["event"] == "send"] == ["one", "two"]


async def test_a_place_of_another_server_is_told_to_be_unknown(url: str) -> None:
    go_on = asyncio.Event()
    async with two(url, ["[SEND: one]", go_on, "[SEND: two]"]) as (first, second):
        said = await heard(first, "hi")
        async with first.stream(f"{ALL}&after={said['place']}") as events:
            await up_to(events, "send")
        async with second.stream(f"{ALL}&after={said['place']}") as events:
            assert names(await up_to(events, "changed")) == ["changed"]
            _, page = await second.get(f"{TALK}/messages")
        async with second.stream(f"{ALL}&after={page['place']}") as events:
            go_on.set()
            later = await up_to(events, "turn_end")
        known = {each["id"]: each["text"] for each in page["messages"]}
        known |= {event["id"]: event["text"] for event in later if event["event"] == "send"}
        assert list(known.values()) == ["hi", "one", "two"]


async def test_a_reply_is_stopped_from_another_server(url: str) -> None:
    never = asyncio.Event()
    async with two(url, ["[SEND: one]", never]) as (first, second):
        await heard(first, "hi")
        async with second.stream(ALL) as events:
            turn = (await up_to(events, "send"))[-1]["turn"]
            assert (await second.post(f"{TALK}/stop", {"turn": turn + 1}))[1] == {"stopped": False}
            assert (await second.post(f"{TALK}/stop", {"turn": turn}))[1] == {"stopped": True}
            (end,) = await up_to(events, "turn_end")
        assert end["finish"] == "cancelled"
        assert (await second.post(f"{TALK}/stop"))[1] == {"stopped": False}


async def test_a_question_is_answered_on_another_server_by_whom_it_is_for(url: str) -> None:
    setup, personas, done = booking()
    more = {"addons": [setup], "personas": personas}
    async with two(url, CALLED, "[SEND: it is booked]", **more) as (first, second):
        theirs = await second.key("other", "chat", "approve")
        async with first.stream("/api/chat", {"message": "monday", "conversation": "a"}) as events:
            asked = (await up_to(events, "approval"))[-1]
            path = f"{TALK}/approvals/{asked['id']}"
            assert (await second.post(path, {"approved": True}, **theirs))[0] == 404
            assert (await second.post(f"{path}0", {"approved": True}))[0] == 404
            assert done == []
            assert await second.post(path, {"approved": True}) == (200, {"done": True})
            rest = await up_to(events, "turn_end")
        assert (done, names(rest)) == (["monday"], ["approved", "send", "turn_end"])
        assert (await second.post(path, {"approved": True}))[0] == 404


async def test_a_page_of_ai_sdk_answers_a_question_on_another_server(url: str) -> None:
    setup, personas, done = booking()
    more = {"addons": [setup], "personas": personas}
    async with two(url, CALLED, "[SEND: it is booked]", **more) as (first, second):
        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "monday"}]}
        body = {"id": "a", "messages": [message], "trigger": "submit-message"}
        newer = {"X-Pixi-Protocol": "ai-sdk-6"}
        text = await text_of(first, body, newer)
        async with second.http.get(f"{second.url}{TALK}/stream", headers=newer) as answer, within("its end"):
            assert "tool-approval-request" in await answer.text()
        question = text.partition('"approvalId":"')[2].partition('"')[0]
        approval = {"id": question, "approved": True}
        part = {"type": "dynamic-tool", "state": "approval-responded", "approval": approval}
        body["messages"] = [message, {"id": "1", "role": "assistant", "parts": [part]}]
        rest = await text_of(second, body, newer)
        assert '"tool-output-available"' in rest
        assert '"finish":"stop"' in rest
        assert done == ["monday"]


async def test_what_is_taken_back_elsewhere_stops_the_reply_and_is_told(url: str) -> None:
    never = asyncio.Event()
    replies = [["[SEND: one]", never] for _ in range(3)]
    async with two(url, *replies, there=("[SEND: other]",)) as (first, second):
        await heard(first, "hi")
        async with first.stream(ALL) as events:
            await up_to(events, "send")
            assert (await second.post(f"{TALK}/undo"))[1] == {"messages": ["hi"]}
            assert names(await up_to(events, "changed")) == ["turn_end", "changed"]
            said = await heard(first, "again")
            await up_to(events, "send")
            await heard(second, "anew", replaces=said["message"])
            seen = await up_to(events, "send")
            assert names(seen) == ["turn_end", "changed", "said", "turn_start", "send"]
            assert (seen[2]["text"], seen[4]["text"]) == ("anew", "other")
            await up_to(events, "turn_end")
            await heard(first, "more")
            await up_to(events, "send")
            assert (await second.post(f"{TALK}/reset"))[0] == 200
            assert names(await up_to(events, "changed")) == ["turn_end", "changed"]
        assert (await first.get(f"{TALK}/messages"))[1]["messages"] == []
        first.model.add("[SEND: new]")
        await first.say("hello", conversation="a")
        assert "more" not in str(first.model.requests[-1].lines), "nothing of it is held in memory"


async def test_what_is_said_on_another_server_is_answered_next_and_seen_on_both(url: str) -> None:
    go_on = asyncio.Event()
    async with two(url, ["[SEND: one]", go_on], there=("[SEND: two]",)) as (first, second):
        await heard(first, "hi")
        async with first.stream(ALL) as here, second.stream(ALL) as there:
            await up_to(here, "send"), await up_to(there, "send")
            saying = asyncio.create_task(second.say("more", conversation="a"))
            assert (await up_to(here, "said"))[-1]["text"] == "more"
            go_on.set()
            assert (await saying)["text"] == "two"
            assert names(await up_to(here, "turn_end")) == ["turn_end"]
            assert names(await up_to(here, "turn_end")) == ["turn_start", "send", "turn_end"]
            while (await up_to(there, "send"))[-1]["text"] != "two":
                pass


async def test_what_another_server_has_answered_too_is_the_answer_here(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def paused(live: LiveConversation, seconds: float) -> None:
        await tries_again.wait()

    never, go_on, tries_again = asyncio.Event(), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(LiveConversation, "_pause", paused)  # while another process answers
    async with two(url, ["[SEND: one]", never], [go_on, "[SEND: both]"]) as (first, second):
        await heard(first, "hi")
        await until(lambda: first.model.streaming)
        saying = asyncio.create_task(second.say("more", conversation="a"))
        async with first.stream(ALL) as events:
            await up_to(events, "said")
            await first.post(f"{TALK}/stop")
            await first.backend.engine.take_over(ADDRESS)  # what waits in the store is read anew
            await heard(first, "and more")
            await until(lambda: len(first.model.requests) == 2)
            tries_again.set()
            await until(lambda: not second.backend.engine.busy)
            go_on.set()
            assert (await saying)["text"] == "both"
        assert second.model.requests == []


async def test_the_same_request_elsewhere_follows_the_turn_under_way(url: str) -> None:
    go_on = asyncio.Event()
    async with two(url, ["[SEND: one]", go_on, "[SEND: two]"]) as (first, second):
        body, key = {"message": "hi", "conversation": "a"}, {"Idempotency-Key": "k"}
        async with first.stream("/api/chat", body, **key) as events:
            await up_to(events, "send")
            async with second.stream("/api/chat", body, **key) as again:
                assert names(await up_to(again, "send")) == ["turn_start", "send"]
                go_on.set()
                assert names(await up_to(again, "turn_end")) == ["send", "turn_end"]
        assert second.model.requests == []


async def test_the_program_connects_its_server_with_the_others(
    url: str, tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_word(seen: Seen) -> Reply:
        return stream("[SEND: hey]", finish())

    services: list[BotService] = []
    told = asyncio.Event()
    monkeypatch.setattr(Breakers, "suspect", lambda breakers, place: told.set())

    @asynccontextmanager
    async def program() -> AsyncGenerator[str, None]:
        async with AsyncExitStack() as last, service_in(tmp_path) as service, AsyncExitStack() as stack:
            address, _ = await serve_http(service, service.settings, stack, last)
            services.append(service)
            yield address

    async with ScriptedOpenAI(choose=one_word) as model:
        settings_file(tmp_path, model, "[http]\nport = 0\n")
        settings = tmp_path / "pixi.toml"
        settings.write_text(settings.read_text().replace(f"sqlite:///{tmp_path}/pixi.db", url))
        async with program() as first, program() as second, aiohttp.ClientSession() as http:
            said = {"message": "hi", "conversation": "a"}
            async with http.post(f"{first}/api/chat", json=said) as answer:
                assert (await answer.json())["text"] == "hey"
            async with http.get(f"{second}{ALL}") as answer:
                following = asyncio.create_task(up_to(events_in(answer), "turn_end"))

                async def is_seen() -> bool:  # as soon as they know of each other
                    async with http.post(f"{first}/api/chat", json=said):
                        return following.done()

                await until(is_seen)
            services[0].breakers.opened("a.example")
            await until(told.is_set)
    assert "send" in names(await following)
    counted = postgres.run_in(url.partition("schema=")[2], f"SELECT cardinality(uses) FROM {TABLE}")
    assert counted, "requests are counted over both"


async def test_a_server_that_ends_amid_a_turn_is_missed_and_another_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify_bus, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(peers, "BACK_SECONDS", 0.02)
    never = asyncio.Event()
    async with serving(url, "[SEND: two]") as second:
        async with AsyncExitStack() as stack:
            store = await open_store(url)
            first = await stack.enter_async_context(served(["[SEND: one]\n[SEND: t", never], store=store))
            bus = await stack.enter_async_context(AsyncExitStack())
            await bus.enter_async_context(connected(first.peers, url))
            await until(lambda: first.peers.others and second.peers.others)
            await heard(first, "hi")
            async with second.stream(ALL) as events:
                seen = await up_to(events, "send")
                monkeypatch.setattr(first.peers, "bye", lambda: None)
                await bus.aclose()  # before its own end can be told
                await store.close()
                assert names(await up_to(events, "error")) == ["error"]
        async with second.stream(ALL, **{"Last-Event-ID": seen[-1]["sse_id"]}) as events:
            await up_to(events, "changed")

            async def told() -> bool:
                _, page = await second.get(f"{TALK}/messages")
                return [each["text"] for each in page["messages"]] == ["hi", "one", "two"]

            await until(told)


async def test_what_a_server_leaves_that_is_told_to_end_is_taken_up_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify_bus, "LOOK_SECONDS", 10 * LIMIT)
    monkeypatch.setattr(peers, "BACK_SECONDS", 10 * LIMIT)
    async with serving(url, "[SEND: two]") as second, AsyncExitStack() as last:
        store = await open_store(url)
        async with served(["[SEND: one]\n[SEND: t", asyncio.Event()], store=store) as first:
            await last.enter_async_context(connected(first.peers, url))
            await until(lambda: first.peers.others and second.peers.others)
            await heard(first, "hi")
            async with second.stream(ALL) as events:
                await up_to(events, "send")
        await store.close()
        assert second.model.requests == []
        await last.aclose()
        await until(lambda: second.model.requests)


async def test_who_is_forgotten_by_any_process_is_in_no_memory_of_the_others(url: str) -> None:
    """As on the command line: by a process that knows of no other."""

    async def heed(signal: Signal, text: str) -> None:
        signals.append((signal, text))

    signals: list[tuple[str, str]] = []
    replies = "[SEND: your secret]", ["[SEND: your secret]", asyncio.Event()]
    async with two(url, *replies) as servers, open_queue(url) as queue, queue.hearing(heed):
        talks = ADDRESS, address_of("web:other", "pixi", "a")
        feeds = [(await here.peers.join(talk)).feed for here in servers for talk in talks]
        theirs = await servers[0].key("other", "chat")
        await servers[0].post("/api/chat", {"message": "hi", "conversation": "a"}, **theirs)
        await heard(servers[0], "hi")  # which is not answered whole
        await until(lambda: all("your secret" in str(feed._ring) for feed in feeds))
        other = await open_store(url)
        await other.forget("web:other")
        for here in servers:
            await here.backend.engine.evict()  # as it does each second
        await other.forget(LOCAL)
        await until(lambda: not any("secret" in str(feed._ring) for feed in feeds))
        await other.forget("x" * 8_000)
        await other.close()
        await until(lambda: len(signals) == 3)
        assert signals == [("forgot", "web:other"), ("forgot", LOCAL), ("look", "")]


async def test_a_talk_of_a_server_that_lives_is_left_to_it(url: str) -> None:
    go_on = asyncio.Event()
    async with two(url, ["[SEND: one]", go_on]) as (first, second):
        await heard(first, "hi")
        async with second.stream(ALL) as events:
            await up_to(events, "send")
            async with within("what may be left"):
                await second.peers._resume()
            go_on.set()
            await up_to(events, "turn_end")


async def test_a_message_between_servers_that_is_lost_is_noticed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear_all_but_one(bus: NotifyBus, payload: str) -> None:
        if '"event":"send"' in payload and bus not in lost:
            lost.append(bus)
        else:
            hear(bus, payload)

    lost: list[NotifyBus] = []
    hear = NotifyBus._hear
    monkeypatch.setattr(NotifyBus, "_hear", hear_all_but_one)
    go_on, end = asyncio.Event(), asyncio.Event()
    async with two(url, ["[SEND: one]", go_on, "[SEND: two]", end, "[SEND: three]"]) as (first, second):
        await second.peers.join(ADDRESS)
        await heard(first, "hi")
        async with second.stream(ALL) as events:
            await until(lambda: len(lost) == 2)
            go_on.set()
            async with within("word of it"):
                # Which it is depends on whether the turn's beginning went along with what was lost.
                while (await anext(events))["event"] not in ("error", "changed"):
                    pass

        await until(lambda: second.peers._channels.at(ADDRESS).feed.turn)
        async with second.stream(ALL) as events:
            end.set()
            seen = await up_to(events, "turn_end")
        assert [event["text"] for event in seen if event["event"] == "send"] == ["one", "two", "three"]


async def test_who_missed_what_another_server_told_reads_anew_and_goes_on(
    url: str, postgres: Postgres
) -> None:
    go_on = asyncio.Event()
    async with two(url, ["[SEND: one]", go_on, "[SEND: two]"]) as (first, second):
        await heard(first, "hi")
        async with second.stream(ALL) as events:
            await up_to(events, "send")
            postgres.run(CUT)
            assert names(await up_to(events, "error")) == ["error"]

        await until(lambda: second.peers._channels.at(ADDRESS).feed.turn)
        _, page = await second.get(f"{TALK}/messages")
        async with second.stream(f"{ALL}&after={page['place']}") as events:
            go_on.set()
            seen = await up_to(events, "turn_end")
        assert [event["text"] for event in seen if event["event"] == "send"] == ["one", "two"]
