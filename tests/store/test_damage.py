"""A damaged file is set aside, what can be read is carried over, and nobody loses it in silence."""

import asyncio
import errno
import os
import random
import re
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.errors import ConfigError, StoreError
from pixi.core.llm import AssistantLine, Line, ToolCall, ToolLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Image, Message
from pixi.store import layout
from pixi.store.sqlite import SqliteStore, damage, schema
from pixi.store.sqlite.damage import set_aside_before, suspect
from pixi.store.sqlite.salvage import carry_over
from tests.begun import begun

MO, ROOM = Author("11", "mo"), "discord:1:7:pixi"
PAGE = 4096


def said(number: int) -> Message:
    images = (Image("image/png", b"%d" % number * 300),) if number % 10 == 0 else ()
    return Message(f"m{number}", ROOM, MO, f"words {number} " + "x" * 300, 100.0, True, None, images)


_FILLED: dict[int, tuple[bytes, list[Line]]] = {}
"""Files as they were made once, by their turns, with their lines."""


async def filled(path: Path, turns: int = 120) -> list[Line]:
    """A file with a long talk; gives its lines."""
    if turns in _FILLED:
        path.touch(0o600)
        path.write_bytes(_FILLED[turns][0])
    else:
        every = await _fill(path, turns)
        _FILLED[turns] = path.read_bytes(), every
    return _FILLED[turns][1]


async def _fill(path: Path, turns: int) -> list[Line]:
    store = await SqliteStore.open(path)
    every: list[Line] = []
    for number in range(turns):
        message = said(number)
        await store.receive(message)
        turn = await begun(store, ROOM, 0, "pixi", (message.id,))
        await store.intend(turn, 0, "send", "y" * 200)
        await store.settle(turn, 0, "done", f"p{number}")
        lines: tuple[Line, ...] = (
            UserLine(f"> {message.text}", message.images),
            AssistantLine("", (ToolCall("c", "find", "{}"),)),
            ToolLine("c", "find", f"found {number}"),
            AssistantLine(f"[SEND: {number}]"),
        )
        await store.end_turn(turn, lines, "stop", 2, Usage(10, 5, 2))
        every += lines
    await store.receive(Message("waits", ROOM, MO, "still there?", 100.0))
    await store.remember(Memory(0, "Pixi", MO.id, "", ROOM, "one", "likes tea", 5.0))
    await store.close()
    return every


def harmed(path: Path, pages: list[int]) -> bytes:
    """Overwrite pages, counted from 0; gives what the file holds now."""
    whole = bytearray(path.read_bytes())
    for page in pages:
        whole[page * PAGE : (page + 1) * PAGE] = random.Random(page).randbytes(PAGE)
    path.write_bytes(whole)
    return bytes(whole)


def pages_of(path: Path, table: str) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (table,)
        )
        return [page - 1 for (page,) in found]


async def reopened(path: Path) -> tuple[SqliteStore, list[str]]:
    told: list[str] = []
    store = await SqliteStore.open(path, told.append)
    return store, told


@pytest.mark.parametrize(
    ("table", "row", "harm"),
    [
        ("messages", rb"words (\d+) x", [2, 5, 6, -1]),
        ("messages", rb"words (\d+) x", [0, 3, 4, 5, 7, -3, -2]),
        ("effects", rb"y{200}donep(\d+)", [2, 4]),  # ordered by its keys
    ],
)
async def test_no_row_is_lost_that_can_be_read(path: Path, table: str, row: bytes, harm: list[int]) -> None:
    await filled(path)
    pages = pages_of(path, table)
    whole = path.read_bytes()
    gone = {
        int(number)
        for page in harm
        for number in re.findall(row, whole[pages[page] * PAGE : (pages[page] + 1) * PAGE])
    }
    harmed(path, [pages[page] for page in harm])
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        carry_over(path, new)
        kept = {turn - 1 for (turn,) in new.execute(f"SELECT turn FROM {table} WHERE turn IS NOT NULL")}
    assert 10 < len(gone) < 70
    assert set(range(120)) - kept == gone


async def test_what_can_be_read_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    every = await filled(path)
    root = _root(path, "lines")
    before = harmed(path, [root + 5, root + 6])
    suspect(path)
    store, told = await reopened(path)
    (aside,) = set_aside_before(path)
    assert aside.read_bytes() == before, "it is kept as it was"
    assert stat.S_IMODE(aside.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600
    (line,) = told
    assert line.startswith(f"The store {path} was damaged. It is kept as {aside}; carried over is what could")
    assert "\n" not in line

    saved = await store.load(ROOM)
    kept = [line for line in every if line in saved.lines]
    assert list(saved.lines) == kept, "in the order in which they were written, and nothing else"
    assert len(kept) > len(every) // 2
    assert len(kept) % 4 == 0, "calls and their results stay together"
    assert saved.unfinished == ()
    assert [message.id for message in saved.waiting] in (["waits"], [])
    await store.check()
    await store.close()
    assert {file.name for file in tmp_path.iterdir()} == {path.name, aside.name}

    store, told = await reopened(path)
    assert told == [], "it is told once"
    await store.close()


def _root(path: Path, table: str) -> int:
    """The page, from 0, at which a table begins."""
    with closing(sqlite3.connect(path)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(page) - 1


@pytest.mark.parametrize("seed", range(6))
async def test_wherever_it_is_harmed_the_talk_goes_on_and_nothing_is_answered_twice(
    path: Path, seed: int
) -> None:
    every = await filled(path, 40)
    size = path.stat().st_size // PAGE
    chance = random.Random(seed)
    harmed(path, sorted(chance.sample(range(1, size), chance.choice((1, 2, 5)))))
    suspect(path)
    store, _ = await reopened(path)
    saved = await store.load(ROOM)
    # A picture that is lost is left out of its line.
    blind = [replace(line, images=()) for line in every if isinstance(line, UserLine)]
    assert all(line in every or line in blind for line in saved.lines)
    assert {message.id for message in saved.waiting} <= {"waits"}
    recorded = await store.receive(Message("new", ROOM, MO, "and now?", 200.0))
    assert recorded is not None
    turn = await begun(store, ROOM, 0, "pixi", ("new",))
    assert await store.end_turn(turn, (UserLine("> x"), AssistantLine("y")), "stop", 1, Usage())
    await store.forget(MO.id)
    await store.check()
    await store.close()


async def test_damage_that_is_met_at_work_is_set_aside_at_the_next_start(path: Path) -> None:
    await filled(path)
    root = _root(path, "lines")
    before = harmed(path, list(range(root, root + 3)))
    store, told = await reopened(path)
    assert told == [], "the file was closed as it should be: it is not read through at each start"
    with pytest.raises(
        StoreError, match="it is damaged and was left as it is; stop all that use it and start"
    ):
        await store.load(ROOM)
    await store.close()
    assert path.read_bytes() == before

    store, (line,) = await reopened(path)
    assert "was damaged" in line
    await store.load(ROOM)
    await store.close()
    assert [file.read_bytes() for file in set_aside_before(path)] == [before]


async def test_a_check_has_the_next_start_set_it_aside(path: Path) -> None:
    await filled(path)
    harmed(path, [path.stat().st_size // PAGE // 2])
    store, _ = await reopened(path)
    with pytest.raises(StoreError, match="is damaged: stop all that use it and start again"):
        await store.check()
    await store.close()
    store, told = await reopened(path)
    await store.check()
    await store.close()
    assert len(told) == 1


async def test_what_met_no_damage_after_all_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    every = await filled(path, 3)
    suspect(path)
    store, told = await reopened(path)
    assert told == []
    assert (await store.load(ROOM)).lines == tuple(every)
    await store.close()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


KILLED = """
import asyncio, os, sys
from pathlib import Path
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    for number in range(50):
        await store.receive(Message(f"k{number}", "room", Author("1", "mo"), "z" * 300, 1.0))
    os._exit(9)

asyncio.run(main())
"""


async def test_a_file_that_was_not_closed_is_looked_at(path: Path) -> None:
    await filled(path, 10)
    root = _root(path, "turns")
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(path))
    assert await killed.wait() == 9
    assert path.with_name("pixi.db-wal").stat().st_size, "or it would not be looked at"
    left = {file: file.read_bytes() for file in path.parent.iterdir()}
    store, told = await reopened(path)
    assert told == [], "a crash alone is no damage"
    await store.close()

    for file, data in left.items():
        file.write_bytes(data)
    harmed(path, [root])
    store, told = await reopened(path)
    assert len(told) == 1
    assert (await store.load("room")).waiting
    await store.close()


async def test_a_header_that_only_tells_whose_it_is_is_set_aside_with_nothing_carried_over(
    path: Path,
) -> None:
    await filled(path, 2)
    with path.open("r+b") as file:
        file.write(b"\0" * 60)
    store, (line,) = await reopened(path)
    assert "nothing in it could be read, so that all talks begin anew" in line
    assert (await store.load(ROOM)).lines == ()
    await store.close()
    assert len(set_aside_before(path)) == 1


HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT count(*) FROM conversations").fetchone()
print("open", flush=True)
sys.stdin.read()
"""


async def test_a_file_that_another_process_has_open_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "IN_USE_SECONDS", 0.1)
    await filled(path)
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdin
    assert holder.stdout
    await holder.stdout.readline()
    before = harmed(path, [path.stat().st_size // PAGE // 2])
    suspect(path)
    with pytest.raises(
        ConfigError, match="is damaged, and another process has it open: stop that one"
    ) as told:
        await reopened(path)
    assert "\n" not in str(told.value)
    assert path.read_bytes() == before
    holder.stdin.close()
    await holder.wait()
    store, lines = await reopened(path)
    assert len(lines) == 1
    await store.close()


OPENER = """
import asyncio, sys
from pathlib import Path
from pixi.store.sqlite import SqliteStore

async def main():
    told = []
    sys.stdin.readline()
    store = await SqliteStore.open(Path(sys.argv[1]), told.append)
    await store.check()
    print(len(told), flush=True)
    sys.stdin.readline()
    await store.close()

asyncio.run(main())
"""


async def test_of_several_that_start_at_once_one_sets_it_aside(path: Path) -> None:
    await filled(path, 40)
    harmed(path, [path.stat().st_size // PAGE // 2])
    suspect(path)
    pipe = asyncio.subprocess.PIPE
    openers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", OPENER, str(path), stdin=pipe, stdout=pipe)
        for _ in range(2)
    ]
    for opener in openers:
        assert opener.stdin
        opener.stdin.write(b"\n")
    told = [await opener.stdout.readline() for opener in openers if opener.stdout]
    for opener in openers:
        await opener.communicate(b"\n")
    assert sorted(told) == [b"0\n", b"1\n"]
    assert len(set_aside_before(path)) == 1


async def test_an_earlier_file_that_was_set_aside_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bytes] = []
    for _ in range(2):
        await filled(path, 5)
        kept.append(harmed(path, [path.stat().st_size // PAGE - 1, _root(path, "lines")]))
        suspect(path)
        store, told = await reopened(path)
        await store.close()
        assert len(told) == 1
        path.unlink()
    assert sorted(file.read_bytes() for file in set_aside_before(path)) == sorted(kept)


async def test_where_there_is_no_room_for_a_new_file_everything_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path)
    before = harmed(path, [path.stat().st_size // PAGE // 2])
    suspect(path)

    def cramped(damaged: Path, new: sqlite3.Connection) -> dict[str, int]:
        new.execute("PRAGMA max_page_count = 40")
        return carry_over(damaged, new)

    monkeypatch.setattr(damage, "carry_over", cramped)
    with pytest.raises(ConfigError, match="the disk is full"):
        await reopened(path)
    assert path.read_bytes() == before
    assert set_aside_before(path) == []
    monkeypatch.undo()
    store, told = await reopened(path)
    assert len(told) == 1
    await store.close()


async def test_looking_ends_when_its_time_is_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is too large to be looked through in time counts as whole, until damage is met."""
    timers: list[Callable[[], None]] = []
    ends: list[str] = []

    class Timer(threading.Timer):
        def start(self) -> None:
            assert self.interval == damage.LOOK_SECONDS
            timers.append(self.function)

        def join(self, timeout: float | None = None) -> None:
            pass

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            looks = "quick_check" in statement
            self.set_progress_handler(timers[-1] if looks else None, 10)
            try:
                return super().execute(statement, *values)
            except sqlite3.OperationalError as error:
                ends.append(str(error))
                raise

    await filled(path, 40)
    connect = sqlite3.connect
    left = connect(path)
    left.execute("UPDATE turns SET cost = 1")
    left.commit()  # and so it has a log, as after a crash
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: connect(*given, factory=Connection, **named)
    )
    with closing(damage.open_whole(path, print)) as db:
        assert ends == ["interrupted"]
        assert db.execute("SELECT count(*) FROM turns").fetchone() == (40,)
    left.close()


async def test_a_file_that_is_locked_while_it_is_looked_at_is_told_of(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(connection: sqlite3.Connection) -> bool:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            connection.execute("PRAGMA busy_timeout = 50")
            connection.execute("BEGIN IMMEDIATE")
        return True

    monkeypatch.setattr(damage, "is_whole", refused)
    await filled(path, 5)
    suspect(path)
    with pytest.raises(ConfigError, match="another program kept it locked"):
        await SqliteStore.open(path)
    monkeypatch.undo()
    store, told = await reopened(path)
    assert told == []
    await store.close()


async def test_a_disk_that_knows_no_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    await filled(path, 5)
    _schema(path)
    before = path.read_bytes()
    store, told = await reopened(path)
    assert len(told) == 1
    assert await store.receive(said(99))
    await store.close()
    assert [file.read_bytes() for file in set_aside_before(path)] == [before]


async def test_a_disk_that_harms_whatever_is_written_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchanged(path: Path, new: Path, aside: Path) -> None:
        exchange(path, new, aside)
        path.write_bytes(aside.read_bytes())

    exchange = damage._exchange
    monkeypatch.setattr(damage, "_exchange", exchanged)
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.2)
    await filled(path, 5)
    _schema(path)
    with pytest.raises(ConfigError, match="is damaged again and again; see to its disk"):
        await SqliteStore.open(path)


Harm = Callable[[Path], None]


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _schema(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3_000)


async def test_a_turn_that_lost_a_line_is_found(path: Path) -> None:
    await filled(path, 3)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM lines WHERE turn = 2 AND kind = 'tool'")
        db.commit()
    suspect(path)
    store, told = await reopened(path)
    assert len(told) == 1
    assert len((await store.load(ROOM)).lines) == 8
    await store.close()


async def test_whatever_lies_in_the_place_of_the_new_file_is_not_written_to(path: Path) -> None:
    await filled(path, 3)
    other = path.with_name("other")
    other.write_text("mine")
    path.with_name("pixi.db-mending").symlink_to(other)
    _schema(path)
    store, told = await reopened(path)
    await store.close()
    assert len(told) == 1
    assert other.read_text() == "mine"


@pytest.mark.parametrize("harm", [_truncate, _schema])
async def test_other_harm(tmp_path: Path, harm: Harm) -> None:
    path = tmp_path / "pixi.db"
    await filled(path)
    harm(path)
    before = path.read_bytes()
    suspect(path)
    owner = tmp_path / "pixi.db-owner-7"  # of one that was killed
    owner.touch()
    store, told = await reopened(path)
    assert not owner.exists()
    await store.check()
    await store.close()
    assert len(told) == 1
    assert [file.read_bytes() for file in set_aside_before(path)] == [before]


async def test_an_old_file_is_carried_over_and_then_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        schema.make_tables(db, layout.FIRST_VERSION)
        db.execute("BEGIN")
        for number in range(200):
            db.execute(
                "INSERT INTO watermarks (address, last) VALUES (?, ?)",
                (f"discord:1:{number}" + "a" * 50, number),
            )
        db.execute("COMMIT")
    pages = pages_of(path, "watermarks")
    harmed(path, [pages[len(pages) // 2]])
    suspect(path)
    later = ("ALTER TABLE messages ADD COLUMN mood TEXT",)
    monkeypatch.setattr(layout, "MIGRATIONS", (*layout.MIGRATIONS, later))
    store, told = await reopened(path)
    kept = await store.watermarks("discord:")
    assert 50 < len(kept) < 200, "from both ends, as far as they could be read"
    await store.close()
    assert len(told) == 1
