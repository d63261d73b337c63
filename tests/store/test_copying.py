"""A store is copied to another database: whole, checked, and gone on with where it was cut."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pixi.companion.tables import SCHEMA as COMPANION
from pixi.core.errors import ConfigError, StoreError
from pixi.core.llm import AssistantLine, Usage
from pixi.core.memory import Memory
from pixi.core.message import Author, Image, Message, Quoted
from pixi.core.spending import UsageEntry
from pixi.core.stamps import stamp
from pixi.store import copying, layout
from pixi.store.copying import Copied, StoreCopy, digest_of, parents_first
from pixi.store.kept import ApiKey, ChannelConfig, Deed, SentFile
from pixi.store.opening import open_side, open_store
from pixi.store.postgres.session import without_nul
from pixi.store.sqlite.damage import suspect
from pixi.store.sqlite.store import SqliteConnection
from pixi.store.tables import Schema, Tables
from tests.begun import begun
from tests.servers.postgres import Postgres

Rows = dict[str, list[tuple[Any, ...]]]

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ROOM, DM = "discord:1:7:pixi", "web:9"
MO, ANN = Author("11", "Mo \ud83d"), Author("12", "ann")
CAT = Image("image/png", b"c\0at" * 1_000)
BOOKS = Schema("books", (("CREATE TABLE books_wishes (person {text} NOT NULL, title {text})",),))
ADDONS = {"companion": COMPANION, "books": BOOKS}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/pixi.db"


@pytest.fixture
def other(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/other.db"


@pytest.fixture
def server(postgres: Postgres) -> Iterator[str]:
    with postgres.schema() as name:
        yield postgres.url(name)


def copy(source: str, target: str, schemas: Mapping[str, Schema] = ADDONS) -> Copied:
    with closing(open_side(source, is_target=False)) as side:
        run = StoreCopy(side, schemas, lambda *_: None)
        run.look()
        with closing(open_side(target, is_target=True)) as other:
            return run.fill(other)


def refused(source: str, target: str, schemas: Mapping[str, Schema] = ADDONS) -> str:
    with pytest.raises((ConfigError, StoreError)) as caught:
        copy(source, target, schemas)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def change(url: str, *statements: str) -> None:
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def kept_in(url: str) -> Rows:
    """All rows of all tables of a file, by what the file itself says that it holds."""
    with closing(sqlite3.connect(path_of(url))) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


async def make(url: str, *schemas: Schema) -> None:
    """Make an empty store, with tables of addons."""
    store = await open_store(url)
    for each in schemas:
        await store.open_tables(Tables(each))
    await store.close()


def fill(url: str, rows: int = 3) -> int:
    """Put made-up rows into every table that a file has; gives how many."""
    with closing(open_side(url, is_target=True)) as side:
        for table in parents_first(side.tables()):
            asked = 'SELECT type, "notnull", pk FROM pragma_table_info(?)'
            columns = side.execute(asked, (table.name,)).fetchall()
            for row in range(1, rows + 1 if table.name != "addon_tables" else 1):  # it tells of the others
                values = [made_up(kind, row, needed=bool(needed or key)) for kind, needed, key in columns]
                side.execute(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(values))})", values)
    return sum(len(rows) for name, rows in kept_in(url).items() if name != "sqlite_sequence")


def made_up(kind: str, row: int, *, needed: bool) -> Any:
    """A value that is hard to carry; the same in each table, so that rows refer to rows that are there."""
    if row % 3 == 0 and not needed:
        return None
    match kind:
        case "INTEGER" | "BIGINT":
            return row
        case "REAL" | "DOUBLE PRECISION":
            return row + (0.1 if row % 2 else 0)
        case "BLOB":
            return bytes([0, 255, row]) * 10
        case "TEXT":
            return f"\U0001f600 'é\0\\N {row}"
    raise AssertionError(f"columns of the kind {kind} are carried too, see that they are tried")


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up rows say nothing that could be read as a message."""
    monkeypatch.setattr(SqliteConnection, "check", lambda self: None)


def as_on_a_server(kept: Rows) -> Rows:
    return {
        name: sorted(
            (tuple(without_nul(v) if isinstance(v, str) else v for v in row) for row in rows), key=repr
        )
        for name, rows in kept.items()
    }


@pytest.mark.usefixtures("unread")
async def test_every_table_goes_to_a_server_and_back(file: str, other: str, server: str) -> None:
    await make(file, *ADDONS.values())
    rows, before = fill(file), kept_in(file)
    assert not {name for name, rows in before.items() if not rows}, "each table is tried"
    tables = len(before) - 1  # without that in which SQLite counts

    assert copy(file, server) == Copied(tables, rows, was_there=False)
    assert copy(file, server) == Copied(tables, rows, was_there=True)
    assert copy(server, other) == Copied(tables, rows, was_there=False)
    assert kept_in(file) == before, "the source stays as it is"
    assert kept_in(other) == as_on_a_server(before)


@pytest.mark.usefixtures("unread")
async def test_a_file_goes_to_a_file_to_the_byte(file: str, other: str) -> None:
    await make(file, *ADDONS.values())
    fill(file)
    change(file, "DELETE FROM owners WHERE id > 1")  # no number is given twice, also of those that are gone
    copy(file, other)
    assert kept_in(other) == kept_in(file)
    assert ("owners", 3) in kept_in(other)["sqlite_sequence"]


@pytest.mark.usefixtures("unread")
async def test_a_server_counts_on_from_the_highest_numbers(file: str, server: str, other: str) -> None:
    await make(file, *ADDONS.values())
    fill(file)
    change(file, "DELETE FROM owners WHERE id > 1", "UPDATE memories SET id = 7000000000 WHERE id = 3")
    copy(file, server)
    with closing(open_side(server, is_target=False)) as side:
        tables = side.tables()
        numbers = {name: side.last_number(table) for name, table in tables.items() if table.numbered}
    assert numbers == {
        "turns": 3,
        "messages": 3,
        "lines": 3,
        "audit": 3,
        "owners": 3,
        "memories": 7_000_000_000,
    }
    store = await open_store(server)
    memory, _ = await store.remember(Memory(0, "pixi", "11", "", DM, "one", "likes tea", 5.0))
    await store.close()
    assert memory.id == 7_000_000_001


async def talk(url: str) -> None:
    """Fill a store with what people say and do."""
    store = await open_store(url)
    tables = Tables(BOOKS)
    await store.open_tables(tables)
    for n in range(4):
        quoted = (Quoted("0", MO, "hm"),) if n == 1 else ()
        for author, room in ((MO, ROOM), (ANN, ROOM), (MO, DM)):
            said = Message(
                f"{n}{author.id}",
                room,
                author,
                f"I like ca\0ts {n}",
                100.5 + n,
                True,
                None,
                (CAT,),
                False,
                quoted,
            )
            message = await store.receive(said)
            assert message is not None
            if n == 3:
                continue
            turn = await begun(store, room, 0, "pixi", (message.id,), model="quick")
            await store.intend(turn, 0, "send", f"so {author.name}")
            await store.settle(turn, 0, "done", f"post {turn}")
            await store.audit_begin(Deed(room, "7", turn, "pixi", author.id, "ban", f'{{"whom": "{n}"}}'))
            lines = (
                stamp([message], local_time=NOON, small=False, group=room == ROOM),
                AssistantLine("[SEND: so]"),
            )
            spent = [
                UsageEntry(20_000 + n, author.id, room, "7", "quick", turn, 1, 0, Usage(10, 5, 2), 0, 0.1)
            ]
            await store.end_turn(turn, lines, "stop", 1, Usage(10, 5, 2), cost=0.1, spent=spent)
            await store.remember(Memory(0, "pixi", author.id, "", room, "one", f"fact {n}", 5.25))
    await store.add_file(SentFile("f" * 32, MO.id, "cat.png", "image/png", 3, "ab", 5.0), 100)
    await store.add_key(ApiKey("shop", "digest", ("chat",), created=1.0))
    await store.set_place("discord:1:7", ChannelConfig(("pixi",), "", True))
    await store.mark({"discord:1:7": 2**60 + 1})
    await tables.write(lambda db: db.execute("INSERT INTO books_wishes VALUES ('11', NULL)"))
    await store.close()


async def test_forget_and_export_are_the_same_before_and_after(file: str, server: str, other: str) -> None:
    await talk(file)
    copy(file, server)
    stores = [await open_store(url) for url in (file, server)]
    for person in (MO.id, ANN.id):
        here, there = [await store.export(person) for store in stores]
        assert here["memories"]
        assert there == here
    assert [await store.forget(MO.id) for store in stores] == [(ROOM, DM)] * 2
    here, there = [await store.export(ANN.id) for store in stores]
    assert there == here
    assert [await store.people(MO.id) for store in stores] == [()] * 2
    for store in stores:
        await store.close()
    copy(server, other)
    assert kept_in(other) == kept_in(file), "both have forgotten the same"


class Cut(Exception):
    """The end of a process, as far as a database can tell."""


def cut_copy(source: str, target: str, steps: int) -> bool:
    """Copy, and end before a later transaction of the target is kept than `steps`; False: it ended well."""
    with (
        closing(open_side(source, is_target=False)) as side,
        closing(open_side(target, is_target=True)) as other,
    ):
        run = StoreCopy(side, ADDONS, lambda *_: None)
        run.look()
        transact, left = other.transact, iter(range(steps))

        def cut(work: Callable[[], Any], *, writes: bool, **within: Any) -> Any:
            def work_and_end() -> Any:
                done = work()
                if next(left, None) is None:
                    raise Cut
                return done

            return transact(work_and_end, writes=writes, **within)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(other, "transact", cut)
            try:
                run.fill(other)
            except Cut:
                return True
            return False


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two rows."""
    monkeypatch.setattr(copying, "BATCH_ROWS", 2)


@pytest.mark.usefixtures("unread", "small")
async def test_a_copy_that_is_cut_anywhere_goes_on(file: str, tmp_path: Path) -> None:
    await make(file, *ADDONS.values())
    fill(file)
    steps, was_cut = 1, True
    while was_cut:
        target = f"sqlite:///{tmp_path}/{steps}.db"
        was_cut = cut_copy(file, target, steps)
        if was_cut:
            with pytest.raises(ConfigError, match="is a copy that is not finished"):
                await open_store(target)
            done = dict(kept_in_copying(target))
            assert {name: len(rows) for name, rows in kept_in(target).items() if name in done} == done
        assert copy(file, target).was_there != was_cut
        assert kept_in(target) == kept_in(file)
        steps += 11
    assert steps > 50


def kept_in_copying(url: str) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(path_of(url))) as db:
        return db.execute("SELECT name, done FROM copying").fetchall()


@pytest.mark.usefixtures("unread", "small")
async def test_a_copy_to_a_server_that_is_cut_goes_on(file: str, server: str, other: str) -> None:
    await make(file, *ADDONS.values())
    fill(file)
    assert cut_copy(file, server, 20)
    with pytest.raises(ConfigError, match="is a copy that is not finished"):
        await open_store(server)
    assert "is a copy that is not finished" in refused(server, other)
    assert not copy(file, server).was_there
    copy(server, other)
    assert kept_in(other) == as_on_a_server(kept_in(file))


@pytest.mark.usefixtures("unread")
async def test_a_connection_that_is_lost_is_made_again(
    file: str, server: str, other: str, postgres: Postgres
) -> None:
    await make(file)
    fill(file)
    with closing(open_side(file, is_target=False)) as side, closing(open_side(server, is_target=True)) as to:
        told = []

        def end_connections(doing: str, done: int, total: int) -> None:
            if doing not in told:
                told.append(doing)
                postgres.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^pixi '"
                )

        run = StoreCopy(side, {}, end_connections)
        run.look()
        run.fill(to)
    assert told == ["reading", "copying", "checking"]
    copy(server, other)
    assert kept_in(other) == as_on_a_server(kept_in(file))


@pytest.mark.usefixtures("unread", "small")
async def test_a_source_that_was_written_to_between_two_runs_is_copied_anew(file: str, other: str) -> None:
    await make(file)
    fill(file)
    assert cut_copy(file, other, 30)
    change(file, "DELETE FROM keys WHERE digest LIKE '% 1'", "DELETE FROM notices")
    copy(file, other)
    assert kept_in(other) == kept_in(file)


@pytest.mark.usefixtures("unread", "small")
async def test_a_source_that_was_changed_under_the_copy_is_told_of(file: str, other: str) -> None:
    await make(file)
    fill(file)
    assert cut_copy(file, other, 30)
    change(file, "UPDATE conversations SET generation = 8 WHERE generation = 1")
    told = refused(file, other)
    assert told.endswith(
        "was written to meanwhile (in conversations): stop what uses it, and run this again. The copy then "
        "begins anew."
    )
    copy(file, other)
    assert kept_in(other) == kept_in(file)


async def test_a_source_in_use_is_refused(file: str, other: str) -> None:
    store = await open_store(file)
    await store.lease(ROOM)
    assert refused(file, other).endswith(
        "pixi.db is in use: stop the bot, and every chat and server that uses it, and run this again."
    )
    assert not path_of(other).exists(), "no target is made"
    await store.close()
    copy(file, other)


async def test_a_server_in_use_is_refused(server: str, other: str) -> None:
    store = await open_store(server)
    await store.lease(ROOM)
    assert "is in use" in refused(server, other)
    await store.close()
    copy(server, other)


async def test_a_target_that_holds_something_else_is_left_as_it_is(
    file: str, other: str, server: str
) -> None:
    await talk(file)
    for url in (other, server):
        store = await open_store(url)
        await store.set_place("discord:1:7", ChannelConfig(("pixi",)))
        await store.close()
        assert "holds something else: name an empty one, or delete that one first" in refused(file, url)
    assert "holds something else" in refused(other, file)
    copied = f"{other}.again"
    copy(file, copied)
    # With as many rows.
    change(copied, "UPDATE memories SET text = 'another' WHERE id = (SELECT max(id) FROM memories)")
    assert "holds something else" in refused(file, copied)


async def test_an_empty_store_is_a_target(file: str, other: str) -> None:
    await talk(file)
    await make(other, COMPANION)
    change(
        other, "DELETE FROM addon_tables", "DROP TABLE companion_listed", "DROP TABLE companion_tricklists"
    )
    change(other, "DROP TABLE companion_spots", "DROP TABLE companion_tricks", "DROP TABLE companion_drafts")
    copy(file, other)
    assert kept_in(other) == kept_in(file)


@pytest.mark.usefixtures("small")
async def test_a_part_of_another_copy_is_left_as_it_is(file: str, other: str, tmp_path: Path) -> None:
    await talk(file)
    third = f"sqlite:///{tmp_path}/third.db"
    copy(file, third)
    assert cut_copy(file, other, 10)
    assert f"holds a part of {path_of(file)}: finish that copy, or delete it first" in refused(third, other)
    copy(file, other)


@pytest.mark.usefixtures("small")
async def test_two_copies_to_one_target_do_not_mix(file: str, other: str) -> None:
    await talk(file)
    with closing(open_side(file, is_target=False)) as side, closing(open_side(other, is_target=True)) as to:
        begun: list[str] = []

        def another(doing: str, done: int, total: int) -> None:
            if doing == "copying" and not begun:
                begun.append(doing)
                assert cut_copy(file, other, 40)

        run = StoreCopy(side, ADDONS, another)
        run.look()
        with pytest.raises(StoreError, match="Another process copies into"):
            run.fill(to)
    copy(file, other)
    assert kept_in(other) == kept_in(file)


def test_what_is_no_store_is_refused(file: str, other: str, tmp_path: Path) -> None:
    assert refused(file, other) == f"There is no store {path_of(file)}: name one as sqlite:///pixi.db."
    path_of(file).write_bytes(b"no database at all" * 100)
    assert "it is not a database" in refused(file, other)
    assert "kept nowhere" in refused(":memory:", other) or "in memory" in refused(":memory:", other)
    assert not path_of(other).exists()


def test_a_server_without_tables_is_refused(server: str, other: str) -> None:
    assert "nothing was kept there yet" in refused(server, other)


async def test_the_queue_beside_a_store_is_no_part_of_it(server: str, other: str, postgres: Postgres) -> None:
    await talk(server)
    postgres.run_in(server.rpartition("=")[2], "CREATE TABLE procrastinate_jobs AS SELECT 1 AS id")
    copy(server, other)
    assert "procrastinate_jobs" not in kept_in(other)


async def test_a_damaged_source_is_refused(file: str, other: str) -> None:
    await talk(file)
    suspect(path_of(file))
    assert "may be damaged: run `pixi-persona doctor` with it first" in refused(file, other)
    Path(f"{path_of(file)}-suspect").unlink()
    change(file, "UPDATE lines SET body = 'no line'")
    assert "is damaged: stop all that use it and start again" in refused(file, other)


async def test_a_source_of_an_earlier_version_is_refused(
    file: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(file)
    known, later = layout.latest_version(), ("CREATE TABLE moods (id INTEGER PRIMARY KEY)",)
    monkeypatch.setattr(layout, "MIGRATIONS", (*layout.MIGRATIONS, later))
    assert f"has the tables of an earlier Pixi (version {known}" in refused(file, other)
    await make(file)
    copy(file, other)


async def test_tables_of_addons_need_these(file: str, other: str) -> None:
    await make(file, BOOKS)
    assert "has tables of the addon books: name it in `addons` of pixi.toml" in refused(file, other, {})
    later = Schema("books", (*BOOKS.versions, ("CREATE TABLE books_read (title {text})",)))
    assert "another version of the addon books (1; this one makes 2): start Pixi with it once" in refused(
        file, other, {"books": later}
    )
    change(file, "CREATE TABLE notes (text TEXT)")
    assert "a table notes, which neither Pixi nor an addon makes" in refused(file, other, {"books": BOOKS})


async def test_a_store_is_not_copied_to_itself(file: str, server: str) -> None:
    await make(file)
    assert "cannot be copied to itself" in refused(file, file)
    await make(server)
    assert "cannot be copied to itself" in refused(server, server)


def test_a_digest_is_the_same_for_what_two_databases_write_in_two_ways() -> None:
    alike = [(5, 0.0, "a\0b", True), (5.0, -0.0, "a\u2400b", 1)]
    assert len({digest_of(row, without_nul) for row in alike}) == 1
    others = [
        (1, "a"),
        (1, b"a"),
        (1, None),
        (None, 1),
        ("1", "a"),
        (2**60, "a"),
        (2**60 + 1, "a"),
        (0.1, "a"),
    ]
    assert len({digest_of(row, without_nul) for row in others}) == len(others)
