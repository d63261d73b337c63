"""The tables on a server: made once, brought to later versions, refused where they are not ours."""

import asyncio
import re
from contextlib import closing

import pytest
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store import layout
from pixi.store.kept import ChannelConfig, Deed, KeyedRequest, Talk
from pixi.store.postgres.session import TABLES
from pixi.store.postgres.store import PostgresStore
from pixi.store.sqlite import schema
from tests.begun import begun
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.nightly

MESSAGE = Message("1", "room", Author("1", "mo"), "hi", 0.0)


@pytest.fixture
def url(postgres: Postgres, name: str) -> str:
    return postgres.url(name)


async def refusal(url: str) -> str:
    with pytest.raises(ConfigError) as caught:
        await PostgresStore.open(url)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def tables_of(postgres: Postgres, name: str) -> list[tuple[str, str, bool]]:
    """Columns of all tables, and whether something must stand there."""
    return [
        (str(table), str(column), bool(needed))
        for table, column, needed in postgres.run(
            "SELECT relname, attname, attnotnull FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
            " WHERE relkind = 'r' AND relnamespace = %s::regnamespace AND attnum > 0",
            name,
        )
    ]


async def test_the_tables_are_those_of_a_file(postgres: Postgres, name: str, url: str) -> None:
    await (await PostgresStore.open(url)).close()
    kept = tables_of(postgres, name)
    with closing(schema.connect(None)) as db:
        tables = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_sequence'"
        ).fetchall()
        in_a_file = {
            (str(table), str(column), bool(needed or key))
            for (table,) in tables
            for _, column, _, needed, _, key in db.execute(f"PRAGMA table_info({table})")
        }
    assert {one for one in kept if one[0] not in ("pixi_version", "writers")} == in_a_file
    assert {table for table, *_ in kept} == TABLES


async def test_the_indexes_are_those_of_a_file(postgres: Postgres, name: str, url: str) -> None:
    await (await PostgresStore.open(url)).close()
    made = postgres.run("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s", name)
    with closing(schema.connect(None)) as db:
        in_a_file = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''"))
    assert {index for index, _ in made if not re.search(r"_(pkey|key)$", index)} == in_a_file.keys()
    partial = {index for index, definition in made if " WHERE " in definition}
    assert partial == {index for index, statement in in_a_file.items() if "WHERE" in statement}


async def test_all_text_is_compared_by_its_bytes(postgres: Postgres, name: str, url: str) -> None:
    await (await PostgresStore.open(url)).close()
    collations = postgres.run(
        "SELECT DISTINCT collation_name FROM information_schema.columns"
        " WHERE table_schema = %s AND data_type = 'text'",
        name,
    )
    assert collations == [("C",)]


async def test_an_upgrade_keeps_everything(
    postgres: Postgres, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await PostgresStore.open(url)
    await store.receive(MESSAGE)
    await store.close()
    later = ("ALTER TABLE messages ADD COLUMN mood TEXT", "UPDATE messages SET mood = 'good'")
    monkeypatch.setattr(layout, "MIGRATIONS", (*layout.MIGRATIONS, later))
    for _ in range(2):
        store = await PostgresStore.open(url)
        assert [waiting.text for waiting in (await store.load("room")).waiting] == ["hi"]
        await store.close()
    assert ("messages", "mood", False) in tables_of(postgres, name)
    monkeypatch.undo()
    known = layout.latest_version()
    told = await refusal(url)
    assert f"written by a later Pixi (version {known + 1} of the tables, this one knows {known})" in told


async def test_an_upgrade_that_is_broken_off_leaves_what_was(
    postgres: Postgres, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await PostgresStore.open(url)).close()
    before = tables_of(postgres, name)
    broken = ("ALTER TABLE messages ADD COLUMN mood TEXT", "CREATE TABLE turns (id BIGINT)")
    monkeypatch.setattr(layout, "MIGRATIONS", (*layout.MIGRATIONS, broken))
    assert 'relation "turns" already exists' in await refusal(url)
    assert tables_of(postgres, name) == before
    monkeypatch.undo()
    store = await PostgresStore.open(url)
    assert await store.receive(MESSAGE)
    await store.close()


async def test_tables_of_another_program_are_left_alone(postgres: Postgres, name: str, url: str) -> None:
    postgres.run_in(name, "CREATE TABLE messages (sender TEXT)")
    told = await refusal(url)
    assert f"the schema {name} holds a table messages of another program; name another schema" in told
    assert tables_of(postgres, name) == [("messages", "sender", False)]


async def test_other_tables_may_stand_beside_ours(postgres: Postgres, name: str, url: str) -> None:
    postgres.run_in(name, "CREATE TABLE recipes (title TEXT)")
    store = await PostgresStore.open(url)
    assert await store.receive(MESSAGE)
    await store.close()


async def test_two_bots_share_a_database_in_schemas_of_their_own(postgres: Postgres) -> None:
    with postgres.schema() as one, postgres.schema() as other:
        stores = [await PostgresStore.open(postgres.url(name)) for name in (one, other)]
        for store in stores:
            recorded = await store.receive(MESSAGE)
            assert recorded is not None
            assert recorded.number == 1
            await store.close()


async def test_to_look_makes_nothing(postgres: Postgres, name: str, url: str) -> None:
    assert await PostgresStore.open_existing(url) is None
    assert postgres.run("SELECT 1 FROM pg_namespace WHERE nspname = %s", name) == []
    await (await PostgresStore.open(url)).close()
    store = await PostgresStore.open_existing(url)
    assert store is not None
    await store.check()
    await store.close()


async def test_a_process_leaves_no_note_of_itself(postgres: Postgres, name: str, url: str) -> None:
    store = await PostgresStore.open(url)
    await store.receive(MESSAGE)
    assert len(postgres.run_in(name, "SELECT batch FROM writers")) == 1
    postgres.run_in(name, "INSERT INTO writers VALUES ('killed long ago', 7, now() - interval '8 days')")
    await store.close()
    await (await PostgresStore.open(url)).close()
    assert postgres.run_in(name, "SELECT name FROM writers") == []


async def test_several_who_open_it_at_once_make_the_tables_once(url: str) -> None:
    stores = await asyncio.gather(*(PostgresStore.open(url) for _ in range(5)))
    numbers = [await store.receive(replace(MESSAGE, id=str(at))) for at, store in enumerate(stores)]
    assert [recorded and recorded.number for recorded in numbers] == [1, 2, 3, 4, 5]
    for store in stores:
        await store.close()


async def test_text_that_this_database_cannot_hold(url: str) -> None:
    """The character NUL is in no text here: its picture stands for it, where it is kept and sought."""
    store = await PostgresStore.open(url)
    odd = Message("1\0", "room\0", Author("1\0", "m\0"), "h\0i", 0.0)
    recorded = await store.receive(odd)
    assert recorded is not None
    assert await store.receive(odd) is None
    assert (await store.load("room\0")).waiting == (recorded,), "its body is kept to the byte"
    lease = await store.lease("room\0")
    begun = await store.begin_turn("room\0", 0, "Pixi", ("1\0",), lease=lease)
    assert begun.taken == ("1\0",)
    kept, _ = await store.remember(Memory(0, "Pixi", "1\0", "", "room\0", "all", "likes\0tea", 1.0))
    (memory,) = await store.memories("1\0", "Pixi")
    assert memory.text == "likes\u2400tea"
    assert await store.forget("1\0") == ("room\u2400",)
    assert (await store.load("room\0")).waiting == ()
    await store.drop_memories([kept.id])
    await store.close()


async def test_nothing_of_a_forgotten_person_is_left_in_any_row(
    postgres: Postgres, name: str, url: str
) -> None:
    def tables_with(text: str) -> list[str]:
        wanted = (f"%{text}%", f"%{text.encode().hex()}%")
        asked = "SELECT 1 FROM {} AS whole WHERE whole::text LIKE %s OR whole::text LIKE %s"
        tables = sorted(TABLES)
        return [table for table in tables if postgres.run(asked.format(f"{name}.{table}"), *wanted)]

    store = await PostgresStore.open(url)
    mo, ann = Author("canary-id", "Mo canary"), Author("2", "ann")
    picture = Image("image/png", b"canary" * 100)
    await store.receive(Message("1", "room", mo, "a canary", 1.0, images=(picture,)))
    turn = await begun(store, "room", 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "a canary!")
    await store.settle(turn, 0, "done", "9")
    await store.audit_begin(Deed("room", "", turn, "pixi", mo.id, "ban", "canary"))
    lines = (UserLine("Mo canary: a canary", (picture,)), AssistantLine("[SEND: a canary!]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage())
    await store.receive(Message("2", "room", ann, "x", 1.0, quoted=(Quoted("1", mo, "a canary"),)))
    await store.remember(Memory(0, "pixi", mo.id, "", "room", "all", "has a canary", 1.0))
    await store.keep_talk(Talk("http:1:pixi", mo.id, "pixi", "one", 1.0, 1.0), KeyedRequest("k", "d", "1"))
    assert tables_with("canary") == [
        *("audit", "effects", "lines", "memories", "messages", "pictures", "quotes", "requests", "talks")
    ]
    await store.forget(mo.id)
    assert tables_with("canary") == []
    left = postgres.run_in(
        name,
        "SELECT relname FROM pg_stat_user_tables WHERE schemaname = current_schema() AND last_vacuum IS NULL",
    )
    assert left == [("pixi_version",)], "the room of rows that went was cleared"
    await store.close()


async def test_room_is_cleared_in_those_tables_alone_that_were_changed(
    postgres: Postgres, name: str, url: str
) -> None:
    def cleared() -> dict[str, int]:
        counts = "SELECT relname, vacuum_count FROM pg_stat_user_tables WHERE schemaname = current_schema()"
        return dict(postgres.run_in(name, counts))

    store = await PostgresStore.open(url)
    kept, _ = await store.remember(Memory(0, "pixi", "1", "", "room", "all", "likes tea", 1.0))
    await store.drop_memories([])
    before = cleared()
    assert {table for table, count in before.items() if not count} == {"pixi_version"}, "at first all of them"
    await store.set_place("room", ChannelConfig(home=True))
    await store.drop_memories([kept.id])
    after = cleared()
    assert {table for table in after if after[table] > before[table]} == {"memories", "places"}
    await store.close()
