"""The writer's thread: nobody is left waiting, whatever an operation raises."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable

import pytest

from pixi.core.errors import StoreError
from pixi.store.database import Database
from pixi.store.sqlite.store import SqliteConnection
from pixi.store.writer import MOST_ROUNDS, QUIET_ROUNDS, Row, Writer


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """The exceptions that ended threads; they are expected here."""
    raised: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: raised.append(arguments.exc_type))
    return raised


def memory() -> SqliteConnection:
    return SqliteConnection(sqlite3.connect(":memory:", isolation_level=None), None)


def raising(error: Exception) -> Callable[[Database], None]:
    def operation(db: Database) -> None:
        raise error

    return operation


async def test_a_fault_in_an_operation_ends_the_store_and_tells_all_who_wait(
    ends: list[type[BaseException]],
) -> None:
    writer = Writer("test", memory)
    await writer.open()
    calls = [writer.ask(lambda db: db.execute("SELECT 1").fetchone()) for _ in range(5)]
    results = await asyncio.gather(writer.ask(raising(KeyError())), *calls, return_exceptions=True)
    assert all(isinstance(result, StoreError) and "stopped working" in str(result) for result in results)
    with pytest.raises(StoreError, match="is closed"):
        await writer.ask(lambda db: None)
    await writer.close()
    assert ends == [KeyError]


async def test_whoever_came_after_the_fault_is_told_too(ends: list[type[BaseException]]) -> None:
    may_fail = threading.Event()

    def failing(db: Database) -> None:
        may_fail.wait(5)
        raise KeyError

    writer = Writer("test", memory)
    await writer.open()
    calls: list[asyncio.Task[None]] = []
    for operation in (failing, lambda db: None, lambda db: None):
        calls.append(asyncio.ensure_future(writer.ask(operation)))
        await asyncio.sleep(0.02)  # the thread has begun with the first
    may_fail.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert ["stopped working" in str(result) for result in results] == [True] * 3
    await writer.close()
    assert ends == [KeyError]


async def test_rows_are_written_together_in_a_transaction_and_alone_without_one() -> None:
    written: list[list[int]] = []

    def write(db: Database, values: list[int]) -> list[int]:
        written.append(values)
        return [-value for value in values]

    writer = Writer("test", memory)
    await writer.open()
    answers = await asyncio.gather(*(writer.ask(Row(write, number, 0)) for number in range(3)))
    assert await writer.ask(Row(write, 3, 0), alone=True) == -3
    await writer.close()
    assert written == [[0, 1, 2], [3]]
    assert answers == [0, -1, -2]


async def test_rows_of_several_kinds_are_written_in_the_order_of_their_kinds_between_other_calls() -> None:
    written: list[tuple[str, list[str]]] = []

    def early(db: Database, values: list[str]) -> list[str]:
        written.append(("early", values))
        return values

    def late(db: Database, values: list[str]) -> list[str]:
        written.append(("late", values))
        return values

    writer = Writer("test", memory)
    await writer.open()
    asked = [
        writer.ask(Row(late, "a", 1)),
        writer.ask(Row(early, "b", 0)),
        writer.ask(Row(late, "c", 1)),
        writer.ask(lambda db: "between"),
        writer.ask(Row(early, "d", 0)),
    ]
    assert await asyncio.gather(*asked) == ["a", "b", "c", "between", "d"]
    await writer.close()
    assert written == [("early", ["b"]), ("late", ["a", "c"]), ("early", ["d"])]


async def test_a_fault_while_opening_is_told(ends: list[type[BaseException]]) -> None:
    def broken() -> SqliteConnection:
        raise KeyError

    writer = Writer("test", broken)
    with pytest.raises(StoreError, match="stopped working"):
        await writer.open()
    await writer.close()
    assert ends == [KeyError]


async def test_an_opening_that_is_cancelled_leaves_no_thread() -> None:
    held = threading.Event()

    def slow() -> SqliteConnection:
        held.wait(5)
        return memory()

    writer = Writer("test", slow)
    opening = asyncio.create_task(writer.open())
    await asyncio.sleep(0.01)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    held.set()
    await writer.close()
    assert "store test" not in {thread.name for thread in threading.enumerate()}


async def test_calls_made_together_are_one_transaction() -> None:
    statements: list[str] = []

    def traced() -> SqliteConnection:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.execute("CREATE TABLE t (n)")
        connection.set_trace_callback(statements.append)
        return SqliteConnection(connection, None)

    writer = Writer("test", traced)
    await writer.open()
    begun, first_may_end = threading.Event(), threading.Event()

    def hold(db: Database) -> bool:
        begun.set()
        return first_may_end.wait(5)

    first = asyncio.ensure_future(writer.ask(hold))
    await asyncio.to_thread(begun.wait, 5)
    rest = []
    for _ in range(9):
        rest.append(
            asyncio.ensure_future(writer.ask(lambda db: db.execute("INSERT INTO t VALUES (1)").rowcount))
        )
        await asyncio.sleep(0)  # a round of the loop for each: they wait in several portions
    for _ in range(QUIET_ROUNDS + 1):  # the last is handed over, too
        await asyncio.sleep(0)
    first_may_end.set()
    await asyncio.gather(first, *rest)
    await writer.close()
    assert [word for word in statements if not word.startswith("INSERT")] == ["BEGIN IMMEDIATE", "COMMIT"] * 2
    assert len(statements) == 13


@pytest.mark.parametrize(
    ("rounds", "pause", "portions"),
    [(4, 1, 1), (4, QUIET_ROUNDS, 1), (4, QUIET_ROUNDS + 2, 4), (4 * MOST_ROUNDS, 1, 4)],
)
async def test_calls_wait_for_others_while_the_loop_makes_more_but_not_for_ever(
    rounds: int, pause: int, portions: int
) -> None:
    writer = Writer("test", memory)
    await writer.open()
    begun, may_end = threading.Event(), threading.Event()

    def hold(db: Database) -> None:
        begun.set()
        may_end.wait(5)

    calls = [writer.ask(hold)]
    await asyncio.to_thread(begun.wait, 5)
    for _ in range(rounds):
        calls.append(writer.ask(lambda db: None))
        for _ in range(pause):
            await asyncio.sleep(0)
    for _ in range(QUIET_ROUNDS + 1):
        await asyncio.sleep(0)
    assert writer._calls.qsize() == portions
    may_end.set()
    await asyncio.gather(*calls)
    await writer.close()


async def test_what_is_asked_alone_stands_in_no_transaction_and_in_its_place() -> None:
    seen: list[tuple[str, bool]] = []

    raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def noting(name: str) -> Callable[[Database], str]:
        def operation(db: Database) -> str:
            seen.append((name, raw.in_transaction))
            return name

        return operation

    writer = Writer("test", lambda: SqliteConnection(raw, None))
    await writer.open()
    calls = [writer.ask(noting(name), alone=name in "bcf") for name in "abcdef"]
    failing = writer.ask(raising(ValueError("odd")), alone=True)
    *names, failed = await asyncio.gather(*calls, failing, return_exceptions=True)
    assert names == [*"abcdef"]
    assert isinstance(failed, StoreError)
    assert [*dict.fromkeys(seen)] == [
        ("a", True), ("b", False), ("c", False), ("d", True), ("e", True), ("f", False)
    ]  # fmt: skip
    await writer.close()


async def test_a_call_takes_its_place_before_it_is_awaited() -> None:
    writer = Writer("test", memory)
    await writer.open()
    done: list[int] = []
    first = writer.ask(lambda _: done.append(1))
    await writer.ask(lambda _: done.append(2))
    assert done == [1, 2]
    assert first.done()
    await writer.close()


async def test_a_call_that_may_come_later_goes_with_the_next_or_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried_out: list[list[int]] = []

    def write(db: Database, values: list[int]) -> list[int]:
        carried_out.append(values)
        return values

    writer = Writer("test", memory)
    await writer.open()
    later = writer.ask(Row(write, 0, 0), later=True)
    await writer.ask(Row(write, 1, 0))
    assert later.done()
    monkeypatch.setattr("pixi.store.writer.LATER_SECONDS", 0.01)
    await writer.ask(Row(write, 2, 0), later=True)
    monkeypatch.undo()
    last = writer.ask(Row(write, 3, 0), later=True)
    await writer.close()
    assert last.done()
    assert carried_out == [[0, 1], [2], [3]]
