"""Several processes write to one PostgreSQL: side by side in different conversations, in turn within one."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
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
    monkeypatch.setattr(postgres_session, "IDLE_SECONDS", 300.0)
    monkeypatch.setattr(postgres_session, "LOCK_SECONDS", 300.0)
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
        elsewhere = asyncio.ensure_future(three.receive(said(2, "elsewhere")))
        await until(lambda: second.done() or elsewhere.done() or waiting(postgres) == 2)
        assert not second.done()
        assert not elsewhere.done()
    await asyncio.gather(first, second, elsewhere)
    acts = postgres.run_in(url.partition("schema=")[2], "SELECT payload FROM effects")
    assert acts == [(b"hello" if forgets_first else b"",)], "all that was there was emptied"
