"""A file of an older version, made by its own statements, keeps everything and can do what is new."""

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, ToolCall, ToolLine, Usage, UserLine
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store.kept import ChannelConfig, Effect, UnfinishedTurn
from pixi.store.sqlite import SqliteStore, schema

ROOM = "discord:1:7:pixi"
MO, ANN = Author("11", "mo"), Author("12", "ann \ud83d", True)
CAT = Image("image/png", b"cat")
DIGEST = hashlib.sha256(CAT.data).hexdigest()


def body(text: str) -> bytes:
    """A row's body. Version 1 wrote text as UTF-8, with half surrogate pairs in it."""
    return text.encode("utf-8", "surrogatepass")


FIRST = body(
    '{"id": "1", "conversation": "discord:1:7:pixi", "author": {"id": "11", "name": "mo", "is_bot": false},'
    ' "text": "look \u2028 \\u0000 \ud83d \u65e5\u672c", "sent_at": 100.25, "addressed": true,'
    f' "reply_to": null, "images": [["image/png", "{DIGEST}"]], "group": false}}'
)
OVERHEARD = body(
    '{"id": "3", "conversation": "discord:1:7:pixi",'
    ' "author": {"id": "12", "name": "ann \ud83d", "is_bot": true}, "text": "hm", "sent_at": 101.0,'
    ' "addressed": false, "reply_to": "1", "images": [], "group": true}'
)
ELSEWHERE = body(
    '{"id": "2", "conversation": "other", "author": {"id": "11", "name": "mo", "is_bot": false},'
    ' "text": "hi", "sent_at": 5, "addressed": true, "reply_to": null, "images": [], "group": false}'
)
UNANSWERED = ELSEWHERE.replace(b'"2"', b'"4"').replace(b'"other"', b'"discord:1:7:pixi"')


@pytest.fixture(params=[1, 2, 3])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file, written by version 1 and maybe upgraded since.

    Ids of messages were 1, 2 (elsewhere), 3, 4, and 5, which a reset forgot.
    """
    path = tmp_path / "pixi.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in schema.MIGRATIONS[0]:
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO conversations VALUES ('gone', 1)")
        db.execute("INSERT INTO turns VALUES (1, ?, 0, 'pixi', 1000, 1010, 'stop', 2, 10, 5, 2)", (ROOM,))
        db.execute(
            "INSERT INTO turns (id, conversation, generation, persona) VALUES (2, ?, 0, 'pixi')", (ROOM,)
        )
        db.executemany(
            "INSERT INTO messages (conversation, id, body, turn) VALUES (?, ?, ?, ?)",
            [
                (ROOM, "1", FIRST, 1),
                ("other", "2", ELSEWHERE, None),
                (ROOM, "3", OVERHEARD, None),
                (ROOM, "4", UNANSWERED, 2),
                ("gone", "5", None, None),
            ],
        )
        db.executemany(
            "INSERT INTO lines (conversation, turn, kind, body) VALUES (?, 1, ?, ?)",
            [
                (ROOM, "user", body(f'{{"text": "> look", "images": [["image/png", "{DIGEST}"]]}}')),
                (
                    ROOM,
                    "assistant",
                    b'{"text": "[SEND: hello]", "calls": [{"id": "c", "name": "f", "arguments": "{}"}]}',
                ),
                (ROOM, "tool", b'{"call_id": "c", "name": "f", "text": "x"}'),
            ],
        )
        db.execute("INSERT INTO effects VALUES (1, 0, 'send', ?, 'done', '900')", (b"hello",))
        db.execute("INSERT INTO effects VALUES (2, 0, 'send', ?, NULL, NULL)", (b"yes",))
        db.execute("INSERT INTO pictures VALUES (?, ?, ?)", (ROOM, DIGEST, CAT.data))
        for version in range(1, request.param):
            for statement in schema.MIGRATIONS[version]:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
    return path


LINES = (
    UserLine("> look", (CAT,)),
    AssistantLine("[SEND: hello]", (ToolCall("c", "f", "{}"),)),
    ToolLine("c", "f", "x"),
)


async def test_everything_is_still_there(old: Path) -> None:
    store = await SqliteStore.open(old)
    saved = await store.load(ROOM)
    assert saved.lines == LINES
    assert saved.waiting == (Message("3", ROOM, ANN, "hm", 101.0, False, "1", (), True, (), number=2),)
    unanswered = Message("4", ROOM, MO, "hi", 5, number=3)
    assert saved.unfinished == (
        UnfinishedTurn(2, (unanswered,), (Effect(2, 0, "send", "yes"),), answered=unanswered.id),
    )
    assert (await store.load("other")).waiting == (Message("2", "other", MO, "hi", 5, number=1),)
    assert (await store.load("gone")).generation == 1
    await store.check()
    await store.close()


async def test_what_is_new_knows_what_is_old(old: Path) -> None:
    store = await SqliteStore.open(old)
    assert await store.receive(Message("1", ROOM, MO, "again", 300.0)) is None
    quoting = Message("6", ROOM, ANN, "so?", 300.0, quoted=(Quoted("1", MO, "look"), Quoted("900", None, "")))
    recorded = await store.receive(quoting)
    assert recorded is not None
    assert (recorded.number, [one.number for one in recorded.quoted]) == (4, [1, 0])
    after = await store.receive(Message("7", "gone", MO, "hi", 300.0))
    assert after is not None
    assert after.number == 2
    assert [await store.message_id(ROOM, number) for number in (1, 2, 3, 4)] == ["1", "3", "4", "6"]

    assert await store.unanswered("", 0.0) == (ROOM, "gone", "other")
    record = await store.turn_behind("discord:1:", "900")
    assert record is not None
    assert (record.id, record.model, record.began, record.cost) == (1, "", 1000.0, None)
    assert (record.people, record.lines, record.usage) == (("11",), LINES, Usage(10, 5, 2))
    assert (await store.tally("", 999.0)).turns == 2
    assert not await store.end_turn(2, (), "cancelled", 0, Usage()), "nobody owns it"
    assert await store.lease(ROOM) == 1
    await store.settle(2, 0, "refused")
    assert await store.end_turn(2, (), "cancelled", 0, Usage(), lease=1)
    assert await store.revise(ROOM, "4", "hi there")
    assert [message.text for message in (await store.load(ROOM)).waiting] == ["hm", "hi there", "so?"]
    await store.close()


async def test_it_is_upgraded_once(old: Path) -> None:
    for _ in range(2):
        await (await SqliteStore.open(old)).close()
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)


async def test_a_damaged_message_does_not_keep_the_rest_from_being_upgraded(old: Path) -> None:
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("INSERT INTO messages (conversation, id, body) VALUES ('odd', '8', x'7b7b')")
        db.execute("INSERT INTO messages (conversation, id, body) VALUES ('odd', '9', '{}')")
    store = await SqliteStore.open(old)
    assert (await store.load(ROOM)).lines == LINES
    await store.close()


async def test_an_upgrade_that_is_broken_off_leaves_the_old_version(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*schema.MIGRATIONS[-1], "CREATE TABLE turns (id)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:-1], broken))
    with pytest.raises(Exception, match="already exists"):
        await SqliteStore.open(old)
    monkeypatch.undo()
    store = await SqliteStore.open(old)
    assert (await store.load(ROOM)).lines == LINES
    await store.close()


@pytest.mark.parametrize("old", [3], indirect=True)
async def test_what_people_chose_and_were_remembered_by_is_still_there(old: Path) -> None:
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("INSERT INTO places VALUES ('discord:1:7:', '[\"ann\"]', '', 1)")
        db.execute("INSERT INTO watermarks VALUES ('discord:1:7:', 900)")
        memory = (1, "pixi", "11", "g", ROOM, "all", "likes tea", 5.0, 2)
        db.execute(f"INSERT INTO memories VALUES ({', '.join('?' * 9)})", memory)
        deed = (1, 5.0, 1.0, ROOM, "g", 1, "pixi", "11", "ban", "{}", "", "done")
        db.execute(f"INSERT INTO audit VALUES ({', '.join('?' * 12)})", deed)
    store = await SqliteStore.open(old)
    assert await store.places() == {"discord:1:7:": ChannelConfig(("ann",), home=True)}
    assert await store.watermarks("") == {"discord:1:7:": 900}
    assert [memory.text for memory in await store.memories("11", "pixi")] == ["likes tea"]
    assert [record.deed.tool for record in await store.audit(9)] == ["ban"]
    assert ROOM in await store.forget("11")
    assert await store.memories("11", "pixi") == ()
    await store.close()


@pytest.mark.parametrize(
    ("version", "begins"), [(1, "4ebe202e756ffeca"), (2, "aafafb38213d4261"), (3, "6cc11aba38fdd8e6")]
)
def test_the_statements_of_released_versions_are_as_they_were(version: int, begins: str) -> None:
    """Files out there were made by them; what changes goes into a version of its own."""
    digest = hashlib.sha256("\n".join(schema.MIGRATIONS[version - 1]).encode()).hexdigest()
    assert digest.startswith(begins)


async def test_what_was_used_before_searches_were_counted_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for version, statements in enumerate(schema.MIGRATIONS[:4], 1):
            for statement in statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version}")
        db.execute("INSERT INTO usage VALUES (20000, '11', 'c', 'g', 'm', 3, 1, 100, 40, 9, 0, 0.5)")
    store = await SqliteStore.open(path)
    (used,) = await store.usage(20_000, 20_000, "person", "model")
    assert (used.person, used.model, used.messages, used.usage, used.cost) == (
        "11",
        "m",
        3,
        Usage(100, 40, 9),
        0.5,
    )
    await store.spend([replace(used, day=20_000, channel="c", guild="g", usage=Usage(searches=2))])
    (used,) = await store.usage(20_000, 20_000)
    assert used.usage == Usage(100, 40, 9, 2)
    await store.close()


async def test_a_turn_that_began_before_there_were_leases_is_left_over(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        schema.make_tables(db, 5)
        db.execute(
            "INSERT INTO turns (id, conversation, generation, persona, began) VALUES (7, ?, 0, 'pixi', 5.5)",
            (ROOM,),
        )
        db.execute(
            "INSERT INTO messages (conversation, id, body, turn, number, author, addressed, sent_at)"
            " VALUES (?, '4', ?, 7, 1, '11', 1, 5.0)",
            (ROOM, UNANSWERED),
        )
        db.execute("INSERT INTO effects VALUES (7, 1, 'send', ?, NULL, NULL, 0)", (b"yes",))
    store = await SqliteStore.open(path)
    assert await store.lease(ROOM) == 1
    (left,) = (await store.load(ROOM)).unfinished
    unanswered = Message("4", ROOM, MO, "hi", 5, number=1)
    assert left == UnfinishedTurn(
        7, (unanswered,), (Effect(7, 1, "send", "yes"),), lease=0, answered=unanswered.id
    )
    await store.plan(7, [Planned(1, "send", "and that")], lease=1)
    await store.settle(7, 1, "unknown")
    assert await store.end_turn(7, LINES[:1], "cancelled", 0, Usage(), again=("4",), lease=1)
    assert [message.again for message in (await store.load(ROOM)).waiting] == [True]
    await store.check()
    await store.close()
