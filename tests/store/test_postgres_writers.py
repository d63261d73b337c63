"""Several processes write to one PostgreSQL: side by side in different conversations, in turn within one."""

import asyncio
import random
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from pixi.core.errors import LeaseHeld, OverQuota, StoreOutdated
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.core.spending import UsageEntry
from pixi.store.kept import Begun, Deed, Quota
from pixi.store.postgres import session as postgres_session
from pixi.store.postgres.address import read_address
from pixi.store.postgres.store import PostgresConnection, PostgresStore
from pixi.store.statements.usage import spend
from pixi.store.store import Store
from tests.begun import begun
from tests.servers.postgres import Postgres
from tests.waiting import until, within

LINES = (UserLine("> hi"), AssistantLine("hello"))
EXECUTE = PostgresConnection.execute


@pytest.fixture
def url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where nothing is kept yet, and a transaction may stand still for long."""
    for name in ("IDLE_SECONDS", "LOCK_SECONDS", "SILENT_SECONDS"):
        monkeypatch.setattr(postgres_session, name, 300.0)
    with postgres.schema() as schema:
        yield postgres.url(schema)


@pytest.fixture
async def stores(url: str) -> AsyncIterator[list[PostgresStore]]:
    """Some stores of one schema, each with a connection of its own."""
    stores = [await PostgresStore.open(url) for _ in range(3)]
    yield stores
    for store in stores:
        await store.close()


def said(number: int, room: str) -> Message:
    return Message(str(number), room, Author(f"{number % 3}", "mo"), "hi", 1.0)


async def whole_turn(store: Store, room: str) -> None:
    async with within(f"a turn in {room}"):
        assert await store.receive(said(1, room))
        turn = await begun(store, room, 0, "pixi", ("1",))
        await store.intend(turn, 0, "send", "hello", outcome="done")
        assert await store.end_turn(turn, LINES, "stop", 1, Usage(), spent=[UsageEntry(1, messages=1)])
        await store.release(room)


class Held:
    """Lets the first transaction that carries out a statement stand still after it."""

    def __init__(self, statement: str) -> None:
        self._statement = statement
        self._reached, self._go = threading.Event(), threading.Event()

    def execute(self, connection: PostgresConnection, statement: str, values: Any) -> Any:
        done = EXECUTE(connection, statement, values)
        if statement.startswith(self._statement) and not self._reached.is_set():
            self._reached.set()
            self._go.wait()
        return done

    async def reached(self) -> None:
        await until(self._reached.is_set, f"the statement {self._statement}")

    def go(self) -> None:
        self._go.set()


@contextmanager
def held(statement: str) -> Iterator[Held]:
    """Hold the first transaction that carries out a statement which begins so."""
    hold = Held(statement)

    def execute(connection: PostgresConnection, statement: str, values: Any = ()) -> Any:
        return hold.execute(connection, statement, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresConnection, "execute", execute)
        try:
            yield hold
        finally:
            hold.go()


def waiting(postgres: Postgres) -> int:
    """How many transactions wait for a lock."""
    ((count,),) = postgres.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return int(count)


@dataclass(frozen=True)
class Place:
    """A conversation that the first of two stores owns, maybe with a turn under way."""

    room: str
    one: Store
    two: Store
    lease: int
    turn: int


Work = Callable[[Place], Awaitable[Any]]


def hear(number: int, *, first: bool) -> Work:
    return lambda at: (at.one if first else at.two).receive(said(number, at.room))


def own(at: Place) -> Awaitable[int]:
    return at.two.lease(at.room)


def own_again(at: Place) -> Awaitable[int]:
    return at.one.lease(at.room)


def take(at: Place) -> Awaitable[int]:
    return at.two.lease(at.room, take=True)


def begin(at: Place) -> Awaitable[Any]:
    return at.one.begin_turn(at.room, 0, "pixi", ("1",), lease=at.lease)


def withdraw(at: Place) -> Awaitable[bool]:
    return at.two.withdraw(at.room, "1")


def act(at: Place) -> Awaitable[None]:
    return at.one.intend(at.turn, 0, "send", "hello")


def end(at: Place) -> Awaitable[bool]:
    return at.one.end_turn(at.turn, LINES, "stop", 1, Usage())


async def found(at: Place) -> tuple[int, int, int]:
    """How many messages wait, how many acts of turns under way are on record, and how many lines."""
    saved = await at.two.load(at.room)
    return len(saved.waiting), sum(len(turn.effects) for turn in saved.unfinished), len(saved.lines)


@dataclass(frozen=True)
class Order:
    """Two calls in one conversation.

    Attributes:
        name: what happens first.
        under_way: whether a turn is.
        first, second: the calls.
        statement: where the first stands still.
        came: what comes of them, see `told`.
        left: see `found`.
    """

    name: str
    under_way: bool
    first: Work
    statement: str
    second: Work
    came: list[object]
    left: tuple[int, int, int]


NUMBERED, OWNED = "INSERT INTO messages", "UPDATE leases"
CHECKED, LOOKED_UP = "SELECT turns.id, finish", "SELECT turns.id, turns.conversation, finish"
ORDERS = (
    Order(
        "one message, another", False, hear(2, first=True), NUMBERED, hear(3, first=False), [2, 3], (3, 0, 0)
    ),
    Order(
        "a message, the same",
        False,
        hear(2, first=True),
        NUMBERED,
        hear(2, first=False),
        [2, None],
        (2, 0, 0),
    ),
    Order("a lease, another", False, own, "SELECT owner, number", own_again, [2, 3], (1, 0, 0)),
    Order("a turn, a lease", False, begin, "INSERT INTO turns", own, ["begun", LeaseHeld], (0, 0, 0)),
    Order("a turn, a withdrawal", False, begin, "INSERT INTO turns", withdraw, ["begun", True], (0, 0, 0)),
    Order(
        "a withdrawal, a turn", False, withdraw, "SELECT position, body", begin, [True, "begun"], (0, 0, 0)
    ),
    Order("a lease, a turn", False, own, OWNED, begin, [2, StoreOutdated], (1, 0, 0)),
    Order("an act, a lease", True, act, CHECKED, take, [None, 2], (0, 1, 0)),
    Order("a lease, an act", True, take, OWNED, act, [2, StoreOutdated], (0, 0, 0)),
    Order("an end, a lease", True, end, LOOKED_UP, take, [True, 2], (0, 0, 2)),
    Order("a lease, an end", True, take, OWNED, end, [2, False], (0, 0, 0)),
)


def told(came: object) -> object:
    match came:
        case Message():
            return came.number
        case Begun():
            return "begun"
        case BaseException():
            return type(came)
        case _:
            return came


async def test_calls_in_one_conversation_wait_for_each_other_and_others_do_not(
    stores: list[PostgresStore], postgres: Postgres
) -> None:
    one, two, three = stores
    for store in stores:  # to become an owner takes the whole store
        await store.lease("another")
    for order in ORDERS:
        room = order.name
        await one.receive(said(1, room))
        lease = await one.lease(room)
        turn = await begun(one, room, 0, "pixi", ("1",)) if order.under_way else 0
        at = Place(room, one, two, lease, turn)
        with held(order.statement) as hold:
            first = asyncio.ensure_future(order.first(at))
            await hold.reached()
            second = asyncio.ensure_future(order.second(at))
            await until(lambda: second.done() or waiting(postgres), f"{room}: a call that waits")  # noqa: B023
            assert not second.done(), room
            await whole_turn(three, f"beside {room}")
        came = await asyncio.gather(first, second, return_exceptions=True)
        assert [told(each) for each in came] == order.came, room
        assert await found(at) == order.left, room


@pytest.mark.parametrize("forgets_first", [True, False])
async def test_nobody_writes_while_a_person_is_forgotten(
    stores: list[PostgresStore], postgres: Postgres, url: str, forgets_first: bool
) -> None:
    one, two, three = stores
    await one.receive(said(1, "room"))
    turn = await begun(one, "room", 0, "pixi", ("1",))
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: two.forget("1"),
        lambda: one.intend(turn, 0, "send", "hello"),
    ]
    with held("DELETE FROM memories" if forgets_first else CHECKED) as hold:
        first = asyncio.ensure_future(calls[not forgets_first]())
        await hold.reached()
        second = asyncio.ensure_future(calls[forgets_first]())
        await until(lambda: second.done() or waiting(postgres), "a call that waits")
        elsewhere = asyncio.ensure_future(three.receive(said(2, "elsewhere")))
        await until(lambda: second.done() or elsewhere.done() or waiting(postgres) == 2, "another that waits")
        assert not second.done()
        assert not elsewhere.done()
    await asyncio.gather(first, second, elsewhere)
    acts = postgres.run_in(url.partition("schema=")[2], "SELECT payload FROM effects")
    assert acts == [(b"hello" if forgets_first else b"",)], "all that was there was emptied"


@pytest.mark.nightly
async def test_processes_that_wait_for_each_other_go_on(stores: list[PostgresStore], url: str) -> None:
    """What is used is entered in one order within a call, but not within a transaction of several."""
    rows = [UsageEntry(1, channel=name, messages=1) for name in "ab"]
    both = threading.Barrier(2)
    times = Counter[int]()

    def work(connection: PostgresConnection, number: int) -> None:
        times[number] += 1
        spend(connection, [rows[number]])
        if times[number] == 1:
            both.wait()
        spend(connection, [rows[1 - number]])

    def write(number: int) -> None:
        connection = PostgresConnection.open(read_address(url))
        connection.transact(lambda: work(connection, number), writes=True, within=[()])
        connection.close()

    await asyncio.gather(*(asyncio.to_thread(write, number) for number in (0, 1)))
    assert sorted(times.values()) == [1, 2], "one gave way, and waited then until the other had ended"
    assert [(each.channel, each.messages) for each in await stores[0].usage(1, 1, "channel")] == [
        ("a", 2),
        ("b", 2),
    ]


ROOMS = [f"room {number}" for number in range(6)]
MESSAGES = 30  # to each room
QUOTA = Quota(5, 1_000_000.0, ("buy",))


class Crowd:
    """Stores that hear, answer, and take conversations from each other, all at once.

    Attributes:
        heard: how many messages were news, in each room.
        answered: how many messages were, by turns that this says ended well.
        entered: for how many messages usage was entered.
        bought: how often a tool was allowed to buy.
        leases: who had each.
        seen: what a turn had done when its conversation was taken from whoever was at work in it.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.heard = Counter[str]()
        self.answered = self.entered = self.bought = 0
        self.leases: defaultdict[tuple[str, int], set[Store]] = defaultdict(set)
        self.seen: dict[int, list[int]] = {}

    async def hear(self, store: Store) -> None:
        """Receive all messages, a few at once, as each gateway would."""
        for number in range(MESSAGES):
            came = await asyncio.gather(*(store.receive(said(number, room)) for room in ROOMS))
            self.heard.update(room for room, news in zip(ROOMS, came, strict=True) if news is not None)

    async def answer(self, store: Store) -> None:
        """Answer in any room until all is answered, sometimes in one where another store is at work."""
        while self.answered < len(ROOMS) * MESSAGES:
            room = self._chance.choice(ROOMS)
            leasing = store.lease(room, take=self._chance.random() < 0.2)
            loading = store.load(room)  # in the same transaction
            lease, saved = await asyncio.gather(leasing, loading, return_exceptions=True)
            try:
                if isinstance(lease, BaseException) or isinstance(saved, BaseException):
                    continue
                self.leases[room, lease].add(store)
                for turn in saved.unfinished:
                    self.seen[turn.id] = [effect.sequence for effect in turn.effects]
                    await self._end(store, turn.id, [message.id for message in turn.messages], lease)
                ids = tuple(message.id for message in saved.waiting)[: self._chance.randint(1, 3)]
                if ids:
                    begun = await store.begin_turn(room, 0, "pixi", ids, lease=lease)
                    for sequence in range(3):
                        await store.intend(begun.turn, sequence, "send", "hello")
                    await self._buy(store, room, begun.turn)
                    await self._end(store, begun.turn, begun.taken, lease)
            except StoreOutdated:
                pass

    async def _buy(self, store: Store, room: str, turn: int) -> None:
        with suppress(OverQuota):
            await store.audit_begin(Deed(room, "", turn, "pixi", "7", "buy", "{}", ""), quota=QUOTA)
            self.bought += 1

    async def _end(self, store: Store, turn: int, ids: Sequence[str], lease: int) -> None:
        spent = [UsageEntry(1, person=str(int(name) % 3), messages=1) for name in ids]
        ended = await store.end_turn(turn, LINES, "stop", 1, Usage(), spent=spent, lease=lease)
        self.entered += len(ids)
        self.answered += ended * len(ids)


@pytest.mark.nightly
async def test_nothing_is_lost_or_done_twice_where_all_write_at_once(
    stores: list[PostgresStore], postgres: Postgres, url: str
) -> None:
    gateways = [await PostgresStore.open(url) for _ in range(2)]
    crowd = Crowd(18)
    async with within("all answers"):
        await asyncio.gather(*map(crowd.hear, gateways), *map(crowd.answer, stores))
    assert crowd.heard == dict.fromkeys(ROOMS, MESSAGES), "each message is news once"
    for room in ROOMS:
        turns = await gateways[0].turns(room, 1_000)
        messages = await gateways[0].messages_of([turn.id for turn in turns])
        numbers = [message.number for turn in turns for message in messages[turn.id]]
        assert numbers == [*range(1, MESSAGES + 1)], "in the order of arrival, and each once"
        acts = {turn.id: [effect.sequence for effect in turn.effects] for turn in turns}
        lost = {turn: acts[turn] for turn in crowd.seen if turn in acts}
        assert lost == {turn: crowd.seen[turn] for turn in lost}, (
            "a store that lost a conversation acts no more"
        )
    assert crowd.seen, "some were taken in the midst"
    assert max(map(len, crowd.leases.values())) == 1, "each lease is one store's"
    assert sum(each.messages for each in await gateways[0].usage(1, 1)) == crowd.entered
    assert crowd.bought == QUOTA.writes
    for store in gateways:
        await store.close()
