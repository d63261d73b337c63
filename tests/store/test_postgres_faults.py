"""What keeps a server's database from being opened or written: one line, what to mend, and no password."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from pixi.core.errors import ConfigError, StoreError
from pixi.core.message import Author, Message
from pixi.store.opening import open_existing, open_store
from pixi.store.postgres import session as postgres_session
from pixi.store.postgres.address import read_address, store_error
from pixi.store.postgres.store import PostgresConnection
from tests.servers.postgres import Postgres

T = TypeVar("T")
MESSAGE = Message("1", "room", Author("1", "mo"), "hi", 0.0)


@pytest.fixture
def user(postgres: Postgres, name: str) -> Iterator[str]:
    """A user with a password and no rights; whose name begins with `barred` is let in nowhere."""
    data = Path(postgres.run("SHOW data_directory")[0][0])
    before = (data / "pg_hba.conf").read_text()
    rules = f"local all barred_{name} reject\nlocal all {name} scram-sha-256\n"
    (data / "pg_hba.conf").write_text(rules + before)
    postgres.run_in("public", "SELECT pg_reload_conf()")
    postgres.run_in(name, f"CREATE ROLE {name} LOGIN PASSWORD 'canary'")
    yield name
    (data / "pg_hba.conf").write_text(before)
    postgres.run_in("public", f"SELECT pg_reload_conf(); DROP OWNED BY {name}; DROP ROLE {name}")


async def refusal(url: str) -> str:
    with pytest.raises(ConfigError) as caught:
        await open_store(url)
    assert len(str(caught.value).splitlines()) == 1
    assert "canary" not in str(caught.value)
    return str(caught.value)


@pytest.mark.nightly
async def test_who_is_not_let_in(postgres: Postgres, user: str) -> None:
    url = postgres.url
    wrong = "the server does not accept this user and password; mend them in [store] url."
    assert wrong in await refusal(url(user=f"{user}:not-the-canary"))
    assert wrong in await refusal(url(user=user))
    assert wrong in await refusal(url(user="no_such_user:canary"))
    told = await refusal(url(user=f"barred_{user}:canary"))
    assert "the server lets nobody in from here; mend its pg_hba.conf." in told
    told = await refusal(url(database="no_such_database"))
    assert "there is no such database; make it (`createdb NAME`)" in told


@pytest.mark.nightly
async def test_servers_that_are_not_there(postgres: Postgres) -> None:
    told = await refusal("postgresql://mo:canary@no-such-host.invalid/talks")
    assert told == (
        "The store postgresql://no-such-host.invalid:5432/talks: "
        "no host of that name is known; mend it in [store] url."
    )
    told = await refusal("postgres://mo:canary@127.0.0.1:1/talks?schema=other")
    assert told == (
        "The store postgresql://127.0.0.1:1/talks?schema=other: "
        "no server answers there; start it, or mend the host and port in [store] url."
    )
    url = postgres.url()
    postgres.stop()
    try:
        assert "no server answers there" in await refusal(url)
    finally:
        postgres.start()


@pytest.mark.nightly
async def test_a_server_that_takes_nobody_more(postgres: Postgres, user: str) -> None:
    postgres.run(f"ALTER ROLE {user} CONNECTION LIMIT 0")
    told = await refusal(postgres.url(user, user=f"{user}:canary"))
    assert "the server takes no more connections; close some, or raise its max_connections." in told


@pytest.mark.nightly
async def test_a_user_who_may_make_nothing(postgres: Postgres, user: str) -> None:
    told = await refusal(postgres.url("test_not_there", user=f"{user}:canary"))
    assert "permission denied for database postgres; grant it to the user, or name another" in told
    told = await refusal(postgres.url(user, user=f"{user}:canary"))
    assert "the user may not make tables in that schema; let them, or name another in [store] url." in told
    postgres.run(f"GRANT USAGE ON SCHEMA {user} TO {user}")
    told = await refusal(postgres.url(user, user=f"{user}:canary"))
    assert f"permission denied for schema {user}; grant it to the user, or name another" in told


@pytest.mark.nightly
async def test_a_user_who_may_make_tables_in_a_schema_that_is_there(postgres: Postgres, user: str) -> None:
    postgres.run(f"GRANT USAGE, CREATE ON SCHEMA {user} TO {user}")
    store = await open_store(postgres.url(user, user=f"{user}:canary"))
    assert await store.receive(MESSAGE)
    assert await store.reset("room") == 1
    await store.close()


@pytest.mark.nightly
async def test_a_server_that_may_only_be_read(postgres: Postgres, user: str) -> None:
    postgres.run(f"GRANT ALL ON SCHEMA {user} TO {user}")
    url = postgres.url(user, user=f"{user}:canary")
    store = await open_store(url)
    await store.receive(MESSAGE)
    postgres.run(f"ALTER ROLE {user} SET default_transaction_read_only = on")
    postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^pixi '")
    with pytest.raises(StoreError, match="the server may only be read; name the one that is written to"):
        await store.receive(MESSAGE)
    assert len((await store.load("room")).waiting) == 1, "what can be read still is"
    await store.close()
    told = await refusal(postgres.url("test_not_there", user=f"{user}:canary"))
    assert "the server may only be read" in told


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["BEFORE INSERT ON messages", "AFTER INSERT ON messages INITIALLY DEFERRED"])
async def test_a_disk_that_is_full(postgres: Postgres, name: str, when: str) -> None:
    """The server says so, here because it is told to: when a row is written, or not before the commit."""
    store = await open_store(postgres.url(name))
    trigger = "CONSTRAINT TRIGGER" if "DEFERRED" in when else "TRIGGER"
    postgres.run_in(
        name,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;"
        f" CREATE {trigger} full_disk {when} FOR EACH ROW EXECUTE FUNCTION full_disk()",
    )
    with pytest.raises(StoreError, match="the server's disk is full; nothing is saved until there is room"):
        await store.receive(MESSAGE)
    postgres.run_in(name, "DROP TRIGGER full_disk ON messages")
    assert await store.receive(MESSAGE)
    await store.close()


@pytest.mark.nightly
async def test_a_lock_that_somebody_keeps(
    postgres: Postgres, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "LOCK_SECONDS", 0.1)
    url = postgres.url(name)
    store = await open_store(url)
    with psycopg.connect(url.partition("&schema=")[0]) as other:
        other.execute(postgres_session.lock(read_address(url)).encode())
        calls = [store.receive(MESSAGE) for _ in range(20)]
        transact, waits = PostgresConnection.transact, []

        def counted(
            connection: PostgresConnection, work: Callable[[], T], *, writes: bool, **within: Any
        ) -> T:
            waits.append(writes)
            return transact(connection, work, writes=writes, **within)

        monkeypatch.setattr(PostgresConnection, "transact", counted)
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert waits == [True], "one wait for the lock is enough for all of them"
        assert {type(one) for one in told} == {StoreError}
        assert "another program kept it locked; stop that program" in str(told[0])
        assert (await store.load("room")).waiting == (), "who reads waits for nobody"
        other.rollback()
        assert await store.receive(MESSAGE)
    await store.close()


@pytest.mark.nightly
async def test_a_process_that_stands_still_while_it_writes_makes_room(
    postgres: Postgres, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "IDLE_SECONDS", 0.2)
    address = read_address(postgres.url(name))
    store = await open_store(postgres.url(name))
    stopped = postgres_session.connect(address)
    stopped.execute(f"BEGIN; {postgres_session.lock(address)}".encode())
    assert await store.receive(MESSAGE), "though nobody ended what the other began"
    stopped.close()
    await store.close()


@pytest.mark.nightly
async def test_a_user_who_may_not_look(postgres: Postgres, user: str) -> None:
    await (await open_store(postgres.url(user))).close()
    with pytest.raises(ConfigError, match=f"permission denied for schema {user}; grant it to the user"):
        await open_existing(postgres.url(user, user=f"{user}:canary"), print)


@pytest.mark.nightly
async def test_a_server_that_is_too_old(
    postgres: Postgres, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "OLDEST_SERVER", 990_000)
    assert "Pixi needs PostgreSQL 99 or later." in await refusal(postgres.url(name))


@pytest.mark.nightly
async def test_a_database_of_another_encoding(postgres: Postgres, name: str) -> None:
    postgres.run(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    try:
        told = await refusal(postgres.url(database=name))
        assert "the database is kept in SQL_ASCII; make one with ENCODING 'UTF8'." in told
    finally:
        postgres.run(f"DROP DATABASE {name}")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("url", "name", "schema"),
    [
        ("postgresql://mo:canary@db/talks", "postgresql://db:5432/talks", "pixi"),
        ("postgres://mo:canary@db:9/a?schema=b&sslmode=require", "postgresql://db:9/a?schema=b", "b"),
        ("postgresql://mo:c%40n%2Fry@db/talks?schema=pixi", "postgresql://db:5432/talks", "pixi"),
        ("postgresql://mo@/talks?host=/run/postgresql", "postgresql:///talks?host=/run/postgresql", "pixi"),
        ("postgresql://mo@/a?host=/run&schema=b", "postgresql:///a?host=/run&schema=b", "b"),
        ("postgresql://mo:canary@", "postgresql://localhost:5432/mo", "pixi"),
        ("postgresql://mo:canary@[::1]:7/talks", "postgresql://::1:7/talks", "pixi"),
    ],
)
def test_urls(url: str, name: str, schema: str) -> None:
    address = read_address(url)
    assert (str(address), address.schema) == (name, schema)
    assert "canary" not in f"{address!r} {address}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mo:can@ary@db/talks",
        "postgresql://mo:can/ary@db/talks",
        "postgresql://mo:can/ary@db:1/talks",
        "postgresql://mo:1/canary@db/talks",
        "postgresql://mo:can%ary@db/talks",
        "postgresql://mo:canary@db:port/talks",
        "postgresql://mo:canary@db/talks?canary=1",
    ],
)
async def test_urls_that_cannot_be_read(url: str) -> None:
    told = await refusal(url)
    assert told.startswith("[store] url cannot be read; write postgresql://user:password@host:5432/database")
    assert "ary" not in told


@pytest.mark.parametrize("schema", ["", "Pixi", "pg_pixi", "a-b", "a%22b", "x" * 64, "1"])
async def test_schemas_of_no_fit_name(schema: str) -> None:
    told = await refusal(f"postgresql://mo:canary@db/talks?schema={schema}")
    assert told == "[store] url: schema= must be a name of small letters, digits and _."


def test_a_password_is_told_by_no_error() -> None:
    address = read_address("postgresql://mo:canary@db/talks")
    told = str(store_error(psycopg.OperationalError("strange: canary at\nsecond line"), address))
    assert told == "The store postgresql://db:5432/talks: strange: … at."
    told = str(store_error(psycopg.ProgrammingError("of the driver itself"), address))
    assert told == "The store postgresql://db:5432/talks: of the driver itself."


def test_locks_that_are_waited_for_too_long_are_no_server_that_is_away() -> None:
    silent = psycopg.OperationalError("timeout: the server has stopped answering")
    told = str(store_error(silent, read_address("postgresql://db/talks")))
    assert "other processes keep locked what is needed here" in told


async def test_a_driver_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("pixi.store.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    told = await refusal("postgresql://mo:canary@db/talks")
    assert told.endswith("for which psycopg is missing: pip install 'pixi-persona[postgres]'")


def test_who_keeps_a_file_loads_no_driver_of_servers() -> None:
    asked = "import sys, pixi.store.opening; print('psycopg' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
