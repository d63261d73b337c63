"""Rows that are read without an error, and are not what was written: what of them is carried over."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, ToolCall, ToolLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Image, Message
from pixi.store.kept import ApiKey
from pixi.store.sqlite import schema
from pixi.store.sqlite.salvage import carry_over
from pixi.store.sqlite.store import SqliteConnection, SqliteStore
from pixi.store.statements import http, inbox, journal, memories
from pixi.store.tables import Tables
from tests.begun import begun_in
from tests.store.test_tables import BOOKS

ROOM, MO = "discord:1:7:pixi", Author("11", "mo")
DEEP = pytest.param(b'{"more":' + b"[" * 100_000, id="deep")
CAT, DOG = Image("image/png", b"cat"), Image("image/png", b"dog")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three turns, of which the first shows a cat and a dog."""
    path = tmp_path / "pixi.db"
    with closing(SqliteConnection(schema.connect(path), path)) as db:
        db.become_owner()
        for number, images in ((1, (CAT, DOG)), (2, ()), (3, ())):
            inbox.receive(db, [Message(str(number), ROOM, MO, f"words {number}", 1.0, images=images)])
            turn = begun_in(db, ROOM, (str(number),))
            lines = (
                UserLine(f"> words {number}", images),
                AssistantLine("", (ToolCall("c", "find", "{}"),)),
                ToolLine("c", "find", "found"),
                AssistantLine("[SEND: hm]"),
            )
            journal.end_turns(db, [journal.Ending(turn, lines, "stop", 1, Usage())])
    return path


@pytest.fixture
def new() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def harm(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(statement, values).rowcount > 0


def turns_with_lines(new: sqlite3.Connection) -> list[int]:
    return [turn for (turn,) in new.execute("SELECT DISTINCT turn FROM lines ORDER BY turn")]


def test_what_is_whole_is_carried_over_as_it_is(path: Path, new: sqlite3.Connection) -> None:
    counts = carry_over(path, new)
    assert (counts["messages"], counts["lines"], counts["pictures"], counts["turns"]) == (3, 12, 2, 3)
    with closing(sqlite3.connect(path)) as old:
        for table in ("messages", "lines", "pictures"):
            assert list(new.execute(f"SELECT * FROM {table}")) == list(old.execute(f"SELECT * FROM {table}"))


def test_a_picture_that_is_another_one_is_taken_out_of_all_that_shows_it(
    path: Path, new: sqlite3.Connection
) -> None:
    harm(path, "UPDATE pictures SET data = ? WHERE data = ?", b"cow", b"cat")
    carry_over(path, new)
    saved = journal.load(new, ROOM)
    assert saved.lines[0] == UserLine("> words 1", (DOG,))
    ((digest,),) = new.execute("SELECT digest FROM pictures").fetchall()
    assert digest == hashlib.sha256(b"dog").hexdigest()
    harm(path, "UPDATE pictures SET data = ? WHERE data = ?", b"cow", b"dog")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
        carry_over(path, other)
        assert journal.load(other, ROOM).lines[0] == UserLine("> words 1")


@pytest.mark.parametrize("body", [b"{", b'{"text": 5}', b"[]", DEEP, 7])
def test_a_message_that_cannot_be_read_came_all_the_same(
    path: Path, new: sqlite3.Connection, body: object
) -> None:
    harm(path, "UPDATE messages SET body = ? WHERE id = '2'", body)
    assert carry_over(path, new)["messages"] == 3
    told = new.execute("SELECT id, body IS NULL FROM messages ORDER BY id").fetchall()
    assert told == [("1", 0), ("2", 1), ("3", 0)]
    again = Message("2", ROOM, MO, "words 2", 1.0)
    assert inbox.receive(SqliteConnection(new, None), [again]) == [None], "it is not answered twice"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lines SET kind = 'verse' WHERE turn = 2 AND kind = 'tool'",
        "UPDATE lines SET body = 7 WHERE turn = 2 AND kind = 'tool'",
        "UPDATE lines SET body = X'7B' WHERE turn = 2 AND kind = 'assistant'",
        "UPDATE lines SET body = X'7B' WHERE position = (SELECT max(position) FROM lines WHERE turn = 2)",
        "UPDATE lines SET kind = X'FF' WHERE position = (SELECT max(position) FROM lines WHERE turn = 2)",
        "UPDATE lines SET kind = 'assistant', body = CAST('{\"text\":\"\"}' AS BLOB)"
        " WHERE turn = 2 AND kind = 'user'",
        "UPDATE lines SET body = CAST(replace(hex(zeroblob(50000)), '0', '[') AS BLOB)"
        " WHERE turn = 2 AND kind = 'assistant'",
        "DELETE FROM lines WHERE turn = 2 AND kind = 'user'",
        "DELETE FROM lines WHERE turn = 2 AND kind = 'tool'",
        "DELETE FROM lines WHERE position = (SELECT max(position) - 1 FROM lines WHERE turn = 2)",
    ],
)
def test_of_a_turn_of_which_a_line_is_lost_none_is_kept(
    path: Path, new: sqlite3.Connection, statement: str
) -> None:
    harm(path, statement)
    carry_over(path, new)
    assert turns_with_lines(new) == [1, 3]


def test_a_call_whose_result_would_be_the_last_line_is_not_kept_without_it(
    path: Path, new: sqlite3.Connection
) -> None:
    harm(path, "DELETE FROM lines WHERE turn = 3 AND position > (SELECT max(position) - 2 FROM lines)")
    carry_over(path, new)
    assert turns_with_lines(new) == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        "author = CAST(X'FF' AS TEXT)",
        "turn = X'FF'",
        "again = 'x'",
        "number = X'07'",
        "sent_at = 'noon'",
    ],
)
def test_of_a_message_that_is_not_as_written_it_stays_that_it_came(
    path: Path, new: sqlite3.Connection, change: str
) -> None:
    harm(path, f"UPDATE messages SET {change} WHERE id = '2'")
    carry_over(path, new)
    told = new.execute("SELECT id, body IS NULL, author FROM messages ORDER BY id").fetchall()
    assert told == [("1", 0, MO.id), ("2", 1, None), ("3", 0, MO.id)]
    assert journal.load(new, ROOM).waiting == (), "it is not answered twice"


def test_nothing_stands_in_for_a_value_that_is_lost(path: Path, new: sqlite3.Connection) -> None:
    """A key that was revoked does not open again, and a turn that ended is not under way."""
    with closing(SqliteConnection(schema.connect(path), path)) as db:
        for name in "abc":
            http.add_key(db, ApiKey(name, name * 64, ("talk",), created=1.0))
            http.revoke_key(db, name, 2.0)
    harm(path, "UPDATE keys SET revoked = X'FF' WHERE name = 'a'")
    harm(path, "UPDATE keys SET scopes = X'FF' WHERE name = 'b'")
    harm(path, "UPDATE turns SET finish = CAST(X'FF' AS TEXT) WHERE id = 2")
    harm(path, "UPDATE turns SET framing = 'x' WHERE id = 3")
    carry_over(path, new)
    assert [key.name for key in http.keys(new)] == ["c"]
    assert [finish for (finish,) in new.execute("SELECT finish FROM turns ORDER BY id")] == [
        *("stop", "cancelled", "stop")
    ]


def test_a_letter_that_is_damaged_is_replaced_only_in_words(path: Path, new: sqlite3.Connection) -> None:
    with closing(SqliteConnection(schema.connect(path), path)) as db:
        for text in ("likes tea", "likes cake"):
            memories.remember(db, Memory(0, "Pixi", MO.id, "", ROOM, "one", text, 5.0))
    harm(path, "UPDATE memories SET text = CAST(X'74FF61' AS TEXT) WHERE id = 1")
    harm(path, "UPDATE memories SET audience = CAST(X'6FFF65' AS TEXT) WHERE id = 2")
    carry_over(path, new)
    assert [text for (text,) in new.execute("SELECT text FROM memories")] == ["t\ufffda"]


def test_a_number_beyond_all_is_the_last(path: Path, new: sqlite3.Connection) -> None:
    harm(path, "UPDATE turns SET id = ? WHERE id = 3", 2**63 - 1)
    assert carry_over(path, new)["turns"] == 4, "with one that stands in the place of the third"


def test_a_turn_that_is_lost_is_not_begun_again(path: Path, new: sqlite3.Connection) -> None:
    harm(path, "DELETE FROM turns WHERE id = 2")
    carry_over(path, new)
    assert new.execute("SELECT finish FROM turns WHERE id = 2").fetchone() == ("cancelled",)
    assert journal.load(new, ROOM).waiting == ()


def test_what_was_under_way_is_left_over_and_what_comes_due_again_still_does(
    path: Path, new: sqlite3.Connection
) -> None:
    """No lease of a lost row can be given twice, and none names an owner that may come back."""
    with closing(SqliteConnection(schema.connect(path), path)) as db:
        db.become_owner()
        turn = begun_in(db, ROOM, ())
        commands = (Planned(1, "send", "one"), Planned(2, "send", "two"))
        journal.record(db, [journal.Plan(turn, commands)])
    harm(path, "UPDATE messages SET again = 0 WHERE id = '1'")
    harm(path, "UPDATE messages SET again = 9 WHERE id = '2'")
    harm(path, "UPDATE commands SET argument = x'ff' WHERE number = 1")
    carry_over(path, new)
    saved = journal.load(new, ROOM)
    assert [(message.id, message.again) for message in saved.waiting] == [("1", True)]
    (left,) = saved.unfinished
    assert (left.lease, [command.argument for command in left.commands]) == (0, ["\ufffd", "two"])
    assert new.execute("SELECT finish FROM turns WHERE id = 9").fetchone() == ("cancelled",)
    for table in ("owners", "leases"):
        assert new.execute(f"SELECT * FROM {table}").fetchall() == []


def test_where_there_is_no_room_nothing_is_begun(path: Path, new: sqlite3.Connection) -> None:
    new.execute("PRAGMA max_page_count = 20")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        carry_over(path, new)
    assert not new.in_transaction
    assert new.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


async def test_tables_of_addons_are_carried_over_too(tmp_path: Path, new: sqlite3.Connection) -> None:
    file = tmp_path / "pixi.db"
    store = await SqliteStore.open(file)
    tables = Tables(BOOKS)
    await store.open_tables(tables)
    for title in ("Emma", "Persuasion"):
        await tables.write(
            lambda db, title=title: db.execute(  # type: ignore[misc]
                "INSERT INTO books_wishes (person, title) VALUES ('discord:7', ?)", (title,)
            )
        )
    await store.close()
    assert carry_over(file, new)["books_wishes"] == 2
    assert [title for (title,) in new.execute("SELECT title FROM books_wishes")] == ["Emma", "Persuasion"]
    assert new.execute("SELECT name FROM sqlite_master WHERE name = 'books_wishes_of_a_person'").fetchone()
    assert new.execute("SELECT name, version FROM addon_tables").fetchall() == [("books", 2)]


async def test_an_addon_whose_tables_are_gone_begins_anew(tmp_path: Path, new: sqlite3.Connection) -> None:
    file = tmp_path / "pixi.db"
    store = await SqliteStore.open(file)
    await store.open_tables(Tables(BOOKS))
    await store.close()
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE books_wishes")
        db.commit()
    carry_over(file, new)
    assert new.execute("SELECT name FROM addon_tables").fetchall() == []
