"""What servers on one store tell each other, without a database between them; with one: `app/cluster`."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import CORO_CLOSED, getcoroutinestate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import OperationalError

from pixi.app.cluster import notify_bus
from pixi.app.cluster.notify_bus import NotifyBus
from pixi.channels.engine import HttpBackend
from pixi.channels.http import peers
from pixi.channels.http.access import LOCAL, address_of
from pixi.channels.http.faces.native import NativeStream
from pixi.channels.http.feed import CHANGED, Channels
from pixi.channels.http.peers import Peers
from pixi.core.errors import StoreError
from pixi.core.events import TurnStarted
from pixi.core.message import Author, Message
from pixi.engine.conversation import LiveConversation
from pixi.settings.rules import HttpRules
from pixi.store.postgres.address import Address
from pixi.store.sqlite import SqliteStore
from tests.channels.http.served import Served, served
from tests.held_clock import HeldClock
from tests.waiting import until, within

TALK = "http:local:pixi:a"
NOTHING = cast(HttpBackend, object())  # which is not asked


async def _nothing() -> None:
    pass


def connected(
    backend: HttpBackend = NOTHING, resume: Callable[[], Awaitable[None]] = _nothing
) -> tuple[Peers, Channels, list[dict[str, Any]]]:
    """Peers with one talk open, and what they say. Their common clock is at 100 seconds."""
    channels, said = Channels(lambda: 0.0), list[dict[str, Any]]()
    here = Peers(backend, channels, resume)
    here.connect(lambda data: said.append(json.loads(data)), lambda: 100.0)
    channels.at(TALK)
    return here, channels, said


class Elsewhere:
    """A backend whose talks are all another server's."""

    @property
    def store(self) -> "Elsewhere":
        return self

    async def owned_elsewhere(self, conversation: str) -> bool:
        return True

    async def ended_after(self, last: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        return {talk: tuple(turn for turn in self.ended if turn > known) for talk, known in last.items()}

    def __init__(self, *ended: int) -> None:
        self.ended = ended


ELSEWHERE = cast(HttpBackend, Elsewhere())
TURN = b'{"type":"events","talk":"http:local:pixi:a","forms":[{"event":"turn_start","turn":7,"seq":0}]}'


async def test_who_is_known_already_is_told_nothing_again() -> None:
    here, _, said = connected()
    here.receive("b", b'{"type":"here"}')
    here.receive("b", b'{"type":"here"}')
    assert [each["type"] for each in said] == ["follow"]


async def test_what_others_write_to_a_person_is_known_while_they_are_there() -> None:
    here, _, said = connected()
    here.written = lambda: {"mo": [TALK]}
    here.receive("b", b'{"type":"hello"}')
    assert said[0] == {"type": "here", "written": {"mo": [TALK]}}
    here.receive("b", json.dumps(said[0]).encode())
    here.receive("c", b'{"type":"here","written":{"mo":["http:other:pixi"],"ana":[]}}')
    assert here.written_to("mo") == {TALK, "http:other:pixi"}
    here.receive("b", b'{"type":"here"}')
    here.receive("c", b'{"type":"bye"}')
    assert here.written_to("mo") == here.written_to("ana") == set()
    await here.close()


async def test_replies_on_other_servers_count_until_they_have_ended() -> None:
    there = address_of(LOCAL, "pixi", "there")
    told = json.dumps({"type": "here", "written": {LOCAL: [there]}}).encode()
    async with served("[SEND: one]", "[SEND: two]", rules=HttpRules(turns_per_person=1)) as here:
        await here.backend.store.receive(Message("1", there, Author(LOCAL, "Mo"), "hi", 0.0))
        here.peers.receive("b", told)
        status, problem = await here.post("/api/chat", {"message": "hi", "conversation": "here"})
        assert (status, problem["title"]) == (429, "Too many replies")
        assert (await here.say("and?", conversation="there"))["text"] == "one", (
            "that talk has its turn already"
        )
        here.peers.receive("b", told)  # a moment ago
        assert (await here.say("hi", conversation="here"))["text"] == "two"


async def test_a_server_of_models_that_fails_is_told_of_where_others_are() -> None:
    here, _, said = connected()
    failing = list[str]()
    here.suspect = failing.append
    here.tell_failing("a.example")
    assert said == []
    here.receive("b", b'{"type":"here"}')
    here.tell_failing("a.example")
    assert said[-1] == {"type": "fails", "place": "a.example"}
    here.receive("b", json.dumps(said[-1]).encode())
    assert failing == ["a.example"]


async def test_what_did_not_reach_the_others_is_told_anew() -> None:
    here, _, said = connected()
    here.receive("b", b'{"type":"here"}')
    said.clear()
    here.unheard()
    assert said == [{"type": "hello"}, {"type": "follow", "talks": [TALK], "ask": ""}]


@pytest.mark.parametrize(
    "message",
    [
        b'{"type":"events","talk":"http:local:pixi:a","forms":[{"event":"send"}]}',
        b'{"type":"events","talk":"http:local:pixi:a","forms":[{"event":"send","turn":"x"}]}',
        b'{"type":"later","talk":1}',
        b"[" * 100_000,
        b"\xff",
    ],
)
async def test_a_message_that_is_not_understood_does_no_harm(
    message: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    here, _, said = connected()
    here.receive("b", b'{"type":"hello"}')
    here.receive("b", message)
    here.receive("c", b'{"type":"here"}')
    assert set(here.others) == {"b", "c"}
    assert [each["type"] for each in said] == ["here", "follow", "follow"]


async def test_a_connection_that_was_made_again_ends_no_reply() -> None:
    here, channels, said = connected()
    here.receive("b", b'{"type":"hello"}')
    here.receive("b", TURN)
    here.receive("b", json.dumps({"type": "follow", "talks": [TALK]}).encode())
    said.clear()
    here.receive("b", b'{"type":"hello"}')
    assert [each["type"] for each in said] == ["here", "follow"], "it may have missed what is followed here"
    assert (channels.at(TALK).feed.turn, channels.at(TALK).feed.losses) == (7, 0)
    assert here.is_followed(TALK)


def so_far(turn: int, *texts: str) -> bytes:
    """A turn until now, as it is sent to whoever begins to follow."""
    forms: list[Any] = [{"event": "turn_start", "turn": turn, "seq": 0}]
    forms += [{"event": "send", "turn": turn, "seq": 1, "id": text, "text": text} for text in texts]
    return json.dumps({"type": "events", "talk": TALK, "forms": forms, "so_far": True}).encode()


async def test_a_turn_whose_beginning_was_missed_is_followed_though_the_one_before_has_no_end() -> None:
    """The server that wrote turn 7 stands still; another one took the talk, and what it said was missed."""
    here, channels, said = connected()
    here.receive("a", b'{"type":"hello"}')
    here.receive("b", b'{"type":"hello"}')
    here.receive("b", TURN)
    feed = channels.at(TALK).feed
    said.clear()
    here.missed("a")
    assert (feed.turn, feed.losses) == (7, 0)
    assert said == [{"type": "follow", "talks": [TALK], "ask": ""}]
    here.receive("a", so_far(8, "one"))
    assert (feed.turn, feed.losses) == (8, 1), "nobody goes on in turn 7"
    for other, late in [("a", so_far(8, "one")), ("b", so_far(7, "old")), ("b", so_far(8, "old"))]:
        here.receive(other, late)
    assert [form["text"] for form in feed._ring if form and form["event"] == "send"] == ["one"]
    end = {"event": "turn_end", "turn": 8, "seq": 2, "finish": "stop"}
    here.receive("a", json.dumps({"type": "events", "talk": TALK, "forms": [end]}).encode())
    assert (list(feed.heard), feed.idle, feed.losses) == ([8], True, 1)


async def test_a_turn_so_far_is_not_taken_while_one_is_taken_here() -> None:
    here, channels, _ = connected()
    here.receive("b", b'{"type":"hello"}')
    feed = channels.at(TALK).feed
    feed.push(TurnStarted(7, TALK, "pixi", ()))
    here.receive("b", so_far(8, "one"))
    assert (feed.turn, feed.turn_elsewhere, feed.count) == (7, 0, 1)


async def test_a_request_that_comes_too_late_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    here, _, said = connected()  # nothing that is asked of the backend would go well
    here.receive("b", b'{"type":"hello"}')
    said.clear()
    here.receive(
        "b", json.dumps({"type": "stop", "talk": TALK, "turn": None, "ask": "1", "until": 99.9}).encode()
    )
    await until(lambda: "came too late" in caplog.text)
    assert said == []


async def test_a_server_that_is_closed_does_nothing_for_others() -> None:
    here, channels, said = connected(ELSEWHERE)
    await here.close()
    here.receive("b", b'{"type":"hello"}')
    here.receive("b", TURN)
    assert (said, here.others, channels.at(TALK).feed.count) == ([], set(), 0)


async def test_one_that_stands_still_is_waited_for_once(clock: HeldClock) -> None:
    here, _, said = connected(ELSEWHERE)
    here.receive("b", b'{"type":"hello"}')
    said.clear()
    began = clock.time()
    await here.join("http:local:pixi:b")
    assert clock.time() - began == peers.JOIN_SECONDS
    await here.join("http:local:pixi:c")
    assert clock.time() - began == peers.JOIN_SECONDS
    assert [each["talks"] for each in said] == [["http:local:pixi:b"], ["http:local:pixi:c"]]
    assert not await here.stop(TALK)
    assert clock.time() - began == peers.JOIN_SECONDS + peers.ASK_SECONDS
    assert said[-1]["until"] == 100.0 + peers.ASK_SECONDS
    here.receive("b", b'{"type":"here"}')
    await here.join("http:local:pixi:d")
    assert clock.time() - began == 2 * peers.JOIN_SECONDS + peers.ASK_SECONDS


async def test_what_a_server_left_that_says_goodbye_is_taken_up_at_once(clock: HeldClock) -> None:
    async def resume() -> None:
        taken_up.append(clock.time())

    taken_up = list[float]()
    here, channels, _ = connected(resume=resume)
    here.receive("b", b'{"type":"hello"}')
    here.receive("b", TURN)
    began = clock.time()
    here.receive("b", b'{"type":"bye"}')
    await until(lambda: taken_up)
    assert (taken_up, here.others, channels.at(TALK).feed.losses) == ([began], set(), 1)


@asynccontextmanager
async def two(folder: Path, *replies: Any, **more: Any) -> AsyncGenerator[tuple[Served, Served], None]:
    """Two servers on one file that tell each other everything, but for what happens in turns of the first."""
    stores = [await SqliteStore.open(folder / "pixi.db") for _ in range(2)]
    async with served(*replies, store=stores[0], **more) as first, served(store=stores[1]) as second:

        def tell_second(data: bytes) -> None:
            if b'"type":"events"' not in data:
                second.peers.receive("first", data)

        first.peers.connect(tell_second)
        second.peers.connect(lambda data: first.peers.receive("second", data))
        first.peers.hello()
        yield first, second
    for store in stores:
        await store.close()


async def test_an_answer_of_another_server_whose_events_were_missed_is_read_from_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def paused(live: LiveConversation, seconds: float) -> None:
        await tries_again.wait()

    go_on, tries_again = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(LiveConversation, "_pause", paused)  # while another process answers
    monkeypatch.setattr(peers, "_LATE_SECONDS", 0.01)
    async with two(tmp_path, ["[SEND: one]", asyncio.Event()], [go_on, "[SEND: both]"]) as (first, second):
        await first.post("/api/chat", {"message": "hi", "conversation": "a"}, Prefer="respond-async")
        await until(lambda: first.model.streaming)
        saying = asyncio.create_task(second.say("more", conversation="a"))
        address = address_of(LOCAL, "pixi", "a")
        await until(lambda: second.backend.engine.busy)

        async def waits() -> bool:
            return bool((await first.backend.store.load(address, 0)).waiting)

        await until(waits)
        await first.post("/api/chat/a/stop")
        await first.backend.engine.take_over(address)  # what waits in the store is read anew
        await first.post("/api/chat", {"message": "again", "conversation": "a"}, Prefer="respond-async")
        await until(lambda: len(first.model.requests) == 2)
        tries_again.set()
        await until(lambda: not second.backend.engine.busy)
        go_on.set()
        assert (await saying)["text"] == "both"
        assert second.model.requests == []


async def test_who_is_forgotten_elsewhere_is_in_no_memory_here(tmp_path: Path) -> None:
    told = list[tuple[str, tuple[str, ...]]]()
    address = address_of(LOCAL, "pixi", "a")
    async with two(tmp_path, "[SEND: one]", ["[SEND: two]", asyncio.Event()]) as (first, second):
        first.backend.engine.on_forget.append(lambda person, talks: told.append((person, tuple(talks))))
        await first.say("my secret", conversation="a")
        await first.post("/api/chat", {"message": "and?", "conversation": "a"}, Prefer="respond-async")
        await until(lambda: first.model.streaming)
        feed = (await first.peers.join(address)).feed
        place = feed.mark_of(0)
        await second.backend.store.forget(LOCAL)
        first.peers.forgot(LOCAL)
        await until(lambda: told)
        assert told == [(LOCAL, (address,))]
        await until(lambda: not first.backend.engine.busy)
        assert (feed._ring, feed.place_of_mark(place)) == ([], None)


async def test_words_of_a_reply_that_only_came_from_another_server_are_dropped_when_it_ends(
    tmp_path: Path,
) -> None:
    address = address_of(LOCAL, "pixi", "a")
    async with two(tmp_path) as (first, second):
        second.model.add(["[SEND: zebrafinch]", asyncio.Event()])
        feed = (await first.peers.join(address)).feed
        await second.post("/api/chat", {"message": "hi", "conversation": "a"}, Prefer="respond-async")
        await until(lambda: "zebrafinch" in str(feed._ring))
        await first.backend.store.forget(LOCAL)
        await first.backend.engine.forgotten(LOCAL)
        assert feed.turn, "the reply is another server's, which did not hear of it yet"
        await second.backend.engine.forgotten(LOCAL)
        assert (feed.turn, feed._ring) == (0, [])


async def test_a_request_of_an_older_version_holds_for_good() -> None:
    here, _, said = connected()
    here.receive("b", b'{"type":"hello"}')
    here.receive("b", json.dumps({"type": "stop", "talk": TALK, "turn": 7, "ask": "1"}).encode())
    await until(lambda: said[-1] == {"type": "told", "ask": "1", "done": False})


def test_nobody_goes_on_behind_an_event_that_each_server_numbers_for_itself() -> None:
    failed = {"event": "error", "turn": 0, "seq": 3, "text": "hm"}
    assert not NativeStream().feed(failed).startswith(b"id")
    assert NativeStream().feed(failed | {"turn": 7}).startswith(b"id: 7.3\n")


async def test_half_a_surrogate_pair_passes_as_a_replacement() -> None:
    here, _, said = connected()
    here.receive("b", json.dumps({"type": "follow", "talks": [TALK]}).encode())
    here._pass_on(TALK, {"event": "said", "turn": 0, "id": 0, "text": "a\ud83d"})
    assert said[-1]["forms"][0]["text"] == "a\ufffd"


async def test_what_a_server_left_is_taken_up_once_the_database_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "BACK_SECONDS", 0.0)
    tries = 0

    async def resume() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StoreError("away")

    here = Peers(NOTHING, Channels(), resume)
    here.receive("b", b'{"type":"hello"}')
    here.gone("b")
    await until(lambda: tries == 3, "three tries")
    await asyncio.sleep(0)
    await here.close()
    assert tries == 3


async def test_a_server_that_says_something_while_it_is_looked_for_is_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After an outage of the database it connects anew at that moment, and says but once what it follows."""
    here, _, _ = connected()
    bus = NotifyBus(Address("", "", "public", "", "pixi 1 mark"), here)
    looked: list[bool] = []
    go_on = asyncio.Event()
    back = '0a0a0a0a 7 11 {"type":"hello"}\n{"type":"follow","talks":["http:local:pixi:a"]}'

    async def query(*given: object) -> list[tuple[str]]:
        if not looked:  # it was away when the database looked, and then connected
            bus._hear(back)
        else:
            await go_on.wait()
        looked.append(True)
        return []

    monkeypatch.setattr(bus, "_run", query)
    monkeypatch.setattr(here, "beat", lambda: bus._hear(f"{bus._name} {bus._number} 11 "))
    monkeypatch.setattr(notify_bus, "LOOK_SECONDS", 0.01)
    bus._hear('0a0a0a0a 6 11 {"type":"hello"}')
    looking = asyncio.create_task(bus.look())
    await until(lambda: looked)
    assert here.others == {"0a0a0a0a"}
    assert here.is_followed(TALK)
    go_on.set()
    await until(lambda: not here.others)  # the next time it is
    bus._hear(back)
    assert not here.others, "it did not know that this had arrived"
    bus._hear('0a0a0a0a 8 11 {"type":"hello"}')
    assert here.others == {"0a0a0a0a"}
    looking.cancel()
    await here.close()


async def test_a_server_that_stands_still_keeps_nobody_from_looking_for_what_was_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does an older version, which does not say that it is there. Once it is heard, all is in doubt."""
    record = Elsewhere()
    here, channels, _ = connected(cast(HttpBackend, record))
    bus = NotifyBus(Address("", "", "public", "", "pixi 1 mark"), here)
    looked = list[int]()

    async def query(*given: object) -> list[tuple[str]]:
        return [("0a0a0a0a",), ("0b0b0b0b",)]

    def beat() -> None:
        bus._hear(f"{bus._name} {bus._number} 11 ")
        bus._hear(f'0b0b0b0b {bus._looks + 1} 11 {{"type":"here"}}')

    async def find_missed() -> None:
        looked.append(bus._looks)
        await Peers.find_missed(here)

    monkeypatch.setattr(bus, "_run", query)
    monkeypatch.setattr(here, "beat", beat)
    monkeypatch.setattr(here, "find_missed", find_missed)
    monkeypatch.setattr(notify_bus, "LOOK_SECONDS", 0.0)
    bus._hear('0a0a0a0a 1 11 {"type":"hello"}')
    bus._hear('0b0b0b0b 1 11 {"type":"hello"}')
    feed = channels.at(TALK).feed
    looking = asyncio.create_task(bus.look())
    await until(lambda: looked and looked[-1] > notify_bus.STILL_LOOKS + peers._LOOKS_IN_DOUBT)
    assert looked[:2] == [1, notify_bus.STILL_LOOKS], "it may be late"
    assert here.others == {"0a0a0a0a", "0b0b0b0b"}
    record.ended = (7,)
    assert CHANGED not in feed._ring
    bus._hear('0a0a0a0a 2 11 {"type":"here"}')
    await until(lambda: CHANGED in feed._ring)
    looking.cancel()
    await here.close()


async def test_parts_that_are_sent_twice_as_nobody_knew_that_they_arrived_are_taken_once() -> None:
    """The database restarts: who sent them saw no end of it, and who heard them connects anew."""

    def turn(number: int) -> list[str]:
        form = {"event": "turn_start", "turn": number, "seq": 0}
        return [f"{number} 11 {json.dumps({'type': 'events', 'talk': TALK, 'forms': [form]})}"]

    whole = turn(9)[0].removeprefix("9 11 ")
    halves = [f"9 10 {whole[:40]}", f"10 01 {whole[40:]}"]  # the second came only after the restart

    class Restarts:
        """A connection that hears parts, and is lost."""

        def __init__(self) -> None:
            self.again = [[*turn(7), *turn(8), *halves[:1]], [*turn(7), *turn(8), *halves]]

        async def __aenter__(self) -> "Restarts":
            return self

        async def __aexit__(self, *given: object) -> None:
            pass

        async def execute(self, statement: object) -> "Restarts":
            return self

        async def fetchall(self) -> list[tuple[float]]:
            return [(0.0,)]

        async def notifies(self) -> AsyncGenerator[Any, None]:
            for part in self.again.pop(0) if self.again else ():
                yield SimpleNamespace(channel=bus._channel, payload=f"0a0a0a0a {part}")
            if self.again:
                raise OperationalError("it restarts")
            done.set()
            await asyncio.Event().wait()

    here, channels, _ = connected()
    bus, done = NotifyBus(Address("", "", "public", "", "pixi 1 mark"), here), asyncio.Event()
    bus._hear('0a0a0a0a 6 11 {"type":"hello"}')
    session = Restarts()

    async def connect() -> Restarts:
        return session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bus, "_connected", connect)
        patch.setattr(notify_bus, "_AGAIN_SECONDS", 0.0)
        listening = asyncio.create_task(bus.listen(asyncio.Event()))
        async with within("the parts after the restart"):
            await done.wait()
        listening.cancel()
    begun = [form["turn"] for form in channels.at(TALK).feed._ring if form and form["event"] == "turn_start"]
    assert begun == [9], "the streams of what came before have ended, and nothing of it comes again"


async def test_a_message_whose_end_was_missed_is_not_joined_with_another() -> None:
    here, channels, _ = connected()
    bus = NotifyBus(Address("", "", "public", "", "pixi 1 mark"), here)
    bus._hear('0a0a0a0a 1 11 {"type":"hello"}')
    bus._hear(f"0a0a0a0a 2 10 {TURN.decode()}\n")
    bus._hear('0a0a0a0a 4 01 {"type":"hello"}')
    assert channels.at(TALK).feed._ring == [CHANGED]


async def test_servers_that_ended_are_known_for_a_while_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    here, _, _ = connected()
    bus = NotifyBus(Address("", "", "public", "", "pixi 1 mark"), here)
    monkeypatch.setattr(notify_bus, "LOOK_SECONDS", 0.0)
    for number in range(notify_bus._MOST_SENDERS + 1):
        bus._hear(f'{number:08x} 1 11 {{"type":"bye"}}')
    looking = asyncio.create_task(bus.look())
    await until(lambda: not bus._heard)
    assert len(bus._senders) == notify_bus._MOST_SENDERS
    looking.cancel()
    await here.close()


async def test_a_part_that_was_missed_ends_the_streams_of_its_server_alone() -> None:
    here, channels, _ = connected()
    bus = NotifyBus(Address("", "", "public", "", "pixi 1 mark"), here)
    other, idle = (channels.at(f"http:local:pixi:{name}") for name in "bc")
    bus._hear('0a0a0a0a 1 11 {"type":"hello"}')
    bus._hear('0b0b0b0b 1 11 {"type":"hello"}')
    bus._hear(f"0a0a0a0a 2 11 {TURN.decode()}")
    bus._hear(f"0b0b0b0b 2 11 {TURN.decode().replace('pixi:a', 'pixi:b')}")
    bus._hear("0a0a0a0a 4 11 {}")
    assert (channels.at(TALK).feed.losses, channels.at(TALK).feed.turn) == (1, 0)
    assert (other.feed.losses, other.feed.turn) == (0, 7)
    assert idle.feed._ring == [CHANGED], "a whole turn may have gone by there"


async def test_work_that_is_cancelled_before_it_begins_is_closed() -> None:
    here, _, _ = connected()
    work = here._take_up("b")
    here._in_background(work)
    await here.close()
    assert getcoroutinestate(work) == CORO_CLOSED


@pytest.mark.parametrize(
    ("heard", "ended", "changed"),
    [((), (), 0), ((), (7,), 1), ((7,), (7,), 0), ((8,), (7, 8), 1), ((7, 8), (7, 8), 0)],
)
async def test_a_turn_that_ended_while_others_may_not_have_known_who_follows_is_looked_for(
    heard: tuple[int, ...], ended: tuple[int, ...], changed: int
) -> None:
    record = Elsewhere()
    here, channels, _ = connected(cast(HttpBackend, record))
    here.receive("b", b'{"type":"here"}')
    feed = channels.at(TALK).feed
    for turn in heard:
        for event in ("turn_start", "turn_end"):
            form = {"event": event, "turn": turn, "seq": 0}
            here.receive("b", json.dumps({"type": "events", "talk": TALK, "forms": [form]}).encode())
    record.ended = ended
    for _ in range(peers._LOOKS_IN_DOUBT - 1):
        await here.find_missed()
    assert CHANGED not in feed._ring, "what another server says last may still be on its way"
    for _ in range(3):
        await here.find_missed()
    assert feed._ring.count(CHANGED) == changed
    record.ended = (*ended, 9)
    for _ in range(2 * peers._LOOKS_IN_DOUBT):
        await here.find_missed()
    assert feed._ring.count(CHANGED) == changed, "by then they know, and their events come"
    here.gone("b")
    await asyncio.sleep(0)
    for _ in range(peers._LOOKS_IN_DOUBT):
        await here.find_missed()
    assert feed._ring.count(CHANGED) == changed + 1, "what it said last may not have come"
    here.doubt_all()
    for _ in range(peers._LOOKS_IN_DOUBT):
        await here.find_missed()
    assert feed._ring.count(CHANGED) == changed + 1, "that is told once"
    await here.close()


async def test_a_talk_that_is_opened_counts_what_ended_after_that(tmp_path: Path) -> None:
    async with two(tmp_path, "[SEND: one]", "[SEND: two]") as (first, second):
        await first.say("hi", conversation="a")
        feed = (await second.peers.join(address_of(LOCAL, "pixi", "a"))).feed
        for _ in range(peers._LOOKS_IN_DOUBT):
            await second.peers.find_missed()
        assert CHANGED not in feed._ring
        second.peers._follow_all()
        await first.say("again", conversation="a")  # whose events the second is not told
        for _ in range(peers._LOOKS_IN_DOUBT):
            await second.peers.find_missed()
        assert CHANGED in feed._ring
