"""A server that goes away in the midst: nothing is lost, and nothing is done twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import psycopg
import pytest

from pixi.core.errors import ConfigError, LeaseHeld, StoreError, StoreOutdated
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.store.kept import Effect
from pixi.store.postgres import session as postgres_session
from pixi.store.postgres import store as postgres_connection
from pixi.store.postgres.address import read_address
from pixi.store.postgres.store import PostgresStore
from tests.begun import begun
from tests.servers.postgres import Postgres
from tests.servers.postgres_wire import Cut, Wire, wire_to
from tests.waiting import until, within

pytestmark = pytest.mark.nightly

LINES = (UserLine("> hi"), AssistantLine("[SEND: hello]"))


@pytest.fixture
async def store(postgres: Postgres) -> AsyncIterator[PostgresStore]:
    with postgres.schema() as schema:
        store = await PostgresStore.open(postgres.url(schema))
        yield store
        await store.close()


def store_schema(store: PostgresStore) -> str:
    """The schema that a store is in."""
    return store.name.partition("schema=")[2]


def through(wire: Wire, schema: str) -> str:
    """The URL that leads through a wire."""
    return f"postgresql://postgres:secret@127.0.0.1:{wire.port}/postgres?sslmode=disable&schema={schema}"


async def whole_turn(store: PostgresStore, room: str) -> None:
    """Everything that a turn asks of the store, one after the other."""
    recorded = await store.receive(Message("1", room, Author("11", "mo"), "hi", 1.0))
    assert recorded is not None
    assert recorded.number == 1
    assert len((await store.load(room)).waiting) == 1
    turn = await begun(store, room, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "hello")
    await store.settle(turn, 0, "done", f"post in {room}")
    assert await store.end_turn(turn, LINES, "stop", 1, Usage(10, 5, 2))


async def assert_done_once(store: PostgresStore, room: str) -> None:
    saved = await store.load(room)
    assert (saved.waiting, saved.unfinished, saved.lines) == ((), (), LINES)
    (record,) = await store.turns(room, 99)
    assert record.effects == (Effect(record.id, 0, "send", "hello", "done", f"post in {room}"),)
    assert (await store.tally(room, 0.0)).turns == 1


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_connection_that_is_cut_at_any_packet(postgres: Postgres, cut: Cut) -> None:
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        store = await PostgresStore.open(through(wire, schema))
        for packet in range(1, 1_000):
            room = f"room {packet:03}"
            wire.cut_at(packet, cut=cut)
            await whole_turn(store, room)
            was_cut = wire.mend()
            await assert_done_once(store, room)
            if not was_cut:
                break
        assert packet > 25, "six calls, each with a beginning, its statements and an end"
        await store.close()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_connection_that_is_cut_again_while_it_is_mended(postgres: Postgres, cut: Cut) -> None:
    """The first cut is at each packet of one call, the second at each that comes after it."""
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        store = await PostgresStore.open(through(wire, schema))
        await store.receive(Message("0", "room", Author("11", "mo"), "hi", 1.0))
        number = 1
        for first in range(1, 5):
            for second in range(1, 12):
                number += 1
                wire.cut_at(first, second, cut=cut)
                recorded = await store.receive(Message(str(number), "room", Author("11", "mo"), "hi", 1.0))
                assert recorded is not None
                assert recorded.number == number
                wire.mend()
        assert len((await store.load("room")).waiting) == number
        await store.close()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_an_owner_that_is_cut_off_while_it_becomes_one_lives(postgres: Postgres, cut: Cut) -> None:
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        witness = await PostgresStore.open(postgres.url(schema))
        for packet in range(1, 1_000):
            store = await PostgresStore.open(through(wire, schema))
            wire.cut_at(packet, cut=cut)
            assert await store.lease(f"room {packet}") == 1
            was_cut = wire.mend()
            assert await witness.owned_elsewhere(f"room {packet}")
            await store.close()
            assert not await witness.owned_elsewhere(f"room {packet}")
            if not was_cut:
                break
        assert packet > 6, "to become an owner, and to own"
        await witness.close()


async def test_an_owner_that_was_cut_off_goes_on_where_nobody_took_over(
    store: PostgresStore, postgres: Postgres
) -> None:
    other = await PostgresStore.open(postgres.url(store_schema(store)))
    turns = [await begun(store, room, 0, "pixi", ()) for room in ("kept", "lost")]
    postgres.run(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name ~ '^pixi '"
        " AND pid <> %s",
        await other._writer.ask(lambda db: db.execute("SELECT pg_backend_pid()").fetchone()[0]),
    )
    assert not await other.owned_elsewhere("lost")
    assert await other.lease("lost") == 2
    await store.intend(turns[0], 1, "send", "hm")
    with pytest.raises(StoreOutdated, match="Another process owns"):
        await store.intend(turns[1], 1, "send", "hm")
    assert await other.owned_elsewhere("kept")
    with pytest.raises(LeaseHeld):
        await other.lease("kept")
    with pytest.raises(LeaseHeld):
        await store.lease("lost")
    await other.close()
    assert await store.lease("lost") == 3


async def test_work_that_is_cut_off_each_time_is_given_up(postgres: Postgres) -> None:
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        store = await PostgresStore.open(through(wire, schema))
        await store.receive(Message("0", "room", Author("1", "mo"), "hi", 1.0))
        postgres.run_in(
            schema,
            "CREATE FUNCTION fatal() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); END $$;"
            " CREATE TRIGGER fatal BEFORE INSERT ON messages EXECUTE FUNCTION fatal()",
        )
        calls = [store.receive(Message(str(at), "room", Author("1", "mo"), "hi", 1.0)) for at in (1, 2)]
        for told in await asyncio.gather(*calls, return_exceptions=True):
            assert "the server ended the connection again and again; its log tells why." in str(told)
        assert len((await store.load("room")).waiting) == 1
        await store.close()


async def turns_while(store: PostgresStore, disturb: Callable[[], None], times: int) -> None:
    """Turns in many rooms at once; each time that some have begun, somebody disturbs. Each was done once."""
    rooms: list[str] = []
    enough = asyncio.Event()

    async def talk(name: str) -> None:
        while not enough.is_set():
            room = f"{name} {len(rooms):03}"
            rooms.append(room)
            await whole_turn(store, room)

    def more_than(count: int) -> bool:
        return len(rooms) > count

    async with asyncio.TaskGroup() as tasks:
        for name in ("a", "b", "c", "d"):
            tasks.create_task(talk(name))
        for _ in range(times):
            # Work under way was done by then: what is ended three times over is given up, and rightly so.
            await until(partial(more_than, len(rooms) + 4))
            await asyncio.to_thread(disturb)
        enough.set()
    assert len(rooms) > 4 * times
    for room in rooms:
        await assert_done_once(store, room)


async def test_connections_that_the_server_ends_again_and_again(
    store: PostgresStore, postgres: Postgres
) -> None:
    def end_them() -> None:
        postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^pixi '"
        )

    await turns_while(store, end_them, 40)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_is_started_again_while_turns_are_under_way(
    store: PostgresStore, postgres: Postgres, mode: str
) -> None:
    def start_again() -> None:
        postgres.stop(mode)
        postgres.start()

    await turns_while(store, start_again, 4)


async def test_a_server_that_stays_away_is_told_and_waited_for_no_longer(
    store: PostgresStore, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "AWAY_SECONDS", 0.3)
    postgres.stop()
    try:
        calls = [store.receive(Message(str(at), "room", Author("1", "mo"), "hi", 1.0)) for at in range(9)]
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(one) for one in told} == {
            f"The store {store.name}: no server answers there; start it, "
            "or mend the host and port in [store] url."
        }
        pauses: list[float] = []
        monkeypatch.setattr("pixi.store.postgres.store.time.sleep", pauses.append)
        with pytest.raises(StoreError, match="no server answers there"):
            await store.load("room")
        assert pauses == [], "it was waited for already"
    finally:
        postgres.start()
    await whole_turn(store, "room")
    await assert_done_once(store, "room")


async def test_a_server_that_stands_still_is_not_waited_for_without_end(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(postgres_connection, "AWAY_SECONDS", 0.1)
    with postgres.schema() as schema:
        store = await PostgresStore.open(f"{postgres.url(schema)}&connect_timeout=2")
        with postgres.frozen():
            async with within("the end of the wait for the server"):
                with pytest.raises(StoreError, match="no server answers there; start it"):
                    await store.receive(Message("1", "room", Author("11", "mo"), "hi", 1.0))
        await whole_turn(store, "room")
        await assert_done_once(store, "room")
        await store.close()


async def test_a_statement_that_takes_long_is_not_taken_for_a_server_that_stands_still(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it takes: where all that is kept is read through, and nowhere else."""
    monkeypatch.setattr(postgres_session, "SILENT_SECONDS", 0.3)
    with postgres_session.connect(read_address(postgres.url())) as session:
        with session.patient():
            session.execute("SELECT pg_sleep(0.6)")
        with pytest.raises(psycopg.OperationalError, match="the server has stopped answering"):
            session.execute("SELECT pg_sleep(5)")
        assert session.closed


async def test_a_write_of_which_nobody_knows_is_not_carried_out_again(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit is cut off, and then the server stays away for longer than it is waited for."""
    monkeypatch.setattr(postgres_connection, "AWAY_SECONDS", 0.1)
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        store = await PostgresStore.open(through(wire, schema))
        await store.receive(Message("0", "room", Author("1", "mo"), "hi", 1.0))
        wire.cut_at(4, cut="after", for_good=True)  # the beginning, two statements, and then the commit
        calls = [store.receive(Message(str(at), "room", Author("1", "mo"), "hi", 1.0)) for at in (0, 1)]
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(one) for one in told} == {
            f"The store {store.name} was cut off while it saved; see that the server is well."
        }
        assert wire.mend()
        assert [one.number for one in (await store.load("room")).waiting] == [1, 2], "it had been kept"
        await store.close()


async def test_a_server_that_starts_is_waited_for(postgres: Postgres) -> None:
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        wire.starts(2)
        store = await PostgresStore.open(through(wire, schema))
        wire.starts(2)
        wire.cut_at(1, cut="before")
        assert await store.receive(Message("1", "room", Author("1", "mo"), "hi", 1.0))
        await store.close()


async def test_a_server_that_starts_for_too_long_is_told(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "STARTING_SECONDS", 0.05)
    with wire_to(postgres.socket) as wire:
        wire.starts(100)
        with pytest.raises(ConfigError, match="the server is starting or stopping; try again in a moment"):
            await PostgresStore.open(through(wire, "pixi"))


@pytest.mark.parametrize("noticed", [True, False])
async def test_a_store_whose_server_is_gone_can_be_closed(
    store: PostgresStore, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    monkeypatch.setattr(postgres_connection, "AWAY_SECONDS", 0.05)
    await whole_turn(store, "room")
    postgres.stop()
    try:
        if noticed:
            with pytest.raises(StoreError, match="no server answers there"):
                await store.load("room")
        await store.close()
    finally:
        postgres.start()


async def test_a_reset_stands_though_the_server_goes_before_it_has_tidied_up(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "AWAY_SECONDS", 0.1)
    with postgres.schema() as schema, wire_to(postgres.socket) as wire:
        store = await PostgresStore.open(through(wire, schema))
        await whole_turn(store, "room")
        for packet in range(1, 100):
            wire.cut_at(packet, cut="before")
            assert await store.reset("room") == packet
            if not wire.mend():
                break
        assert packet > 8
        await store.close()
