"""The writer's thread: nobody is left waiting, whatever an operation raises."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable

import pytest

from pixi.core.errors import StoreError
from pixi.store.writer import Writer


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """The exceptions that ended threads; they are expected here."""
    raised: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: raised.append(arguments.exc_type))
    return raised


def memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def raising(error: Exception) -> Callable[[sqlite3.Connection], None]:
    def operation(connection: sqlite3.Connection) -> None:
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


async def test_a_fault_while_opening_is_told(ends: list[type[BaseException]]) -> None:
    def broken() -> sqlite3.Connection:
        raise KeyError

    writer = Writer("test", broken)
    with pytest.raises(StoreError, match="stopped working"):
        await writer.open()
    await writer.close()
    assert ends == [KeyError]


async def test_an_opening_that_is_cancelled_leaves_no_thread() -> None:
    held = threading.Event()

    def slow() -> sqlite3.Connection:
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

    def traced() -> sqlite3.Connection:
        connection = memory()
        connection.execute("CREATE TABLE t (n)")
        connection.set_trace_callback(statements.append)
        return connection

    writer = Writer("test", traced)
    await writer.open()
    first_may_end = threading.Event()
    first = asyncio.create_task(writer.ask(lambda db: first_may_end.wait(5)))
    await asyncio.sleep(0.02)
    rest = [
        asyncio.create_task(writer.ask(lambda db: db.execute("INSERT INTO t VALUES (1)").rowcount))
        for _ in range(9)
    ]
    await asyncio.sleep(0)
    first_may_end.set()
    await asyncio.gather(first, *rest)
    await writer.close()
    assert [word for word in statements if not word.startswith("INSERT")] == ["BEGIN IMMEDIATE", "COMMIT"] * 2
    assert len(statements) == 13


async def test_what_is_asked_alone_stands_in_no_transaction_and_in_its_place() -> None:
    seen: list[tuple[str, bool]] = []

    def noting(name: str) -> Callable[[sqlite3.Connection], str]:
        def operation(connection: sqlite3.Connection) -> str:
            seen.append((name, connection.in_transaction))
            return name

        return operation

    writer = Writer("test", memory)
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
