"""Whatever becomes of the bytes of a file, Pixi starts: it is opened, or set aside with a line."""

import errno
import os
import random
import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError, StoreError
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Message
from pixi.store import layout
from pixi.store.opening import open_existing
from pixi.store.sqlite import SqliteStore, schema
from pixi.store.sqlite.damage import suspect
from pixi.store.sqlite.salvage import carry_over
from tests.begun import begun
from tests.store.test_damage import MO, PAGE, ROOM, filled

FILES = 120
MOST_STEPS = 2_000_000
"""Of SQLite's machine, in a start: a file of the size of these is carried over in some 100,000."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with a talk of 40 turns."""
    import asyncio

    path = tmp_path_factory.mktemp("whole") / "pixi.db"
    asyncio.run(filled(path, 40))
    return path.read_bytes()


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """What some accident makes of a file."""
    data, pages = bytearray(whole), len(whole) // PAGE
    accident = chance.choice(
        ("bytes", "bits", "header", "schema", "pages", "zeros", "swap", "copy", "cut", "tail")
    )
    few, some = chance.choice((1, 2, 5)), chance.choice((1, 5, 50, 500))
    schema_page = whole.index(b"tableturnsturns") // PAGE
    for _ in range(some if accident in ("bytes", "bits") else few):
        one, other = (page * PAGE for page in (chance.randrange(pages), chance.randrange(pages)))
        match accident:
            case "bytes":
                data[chance.randrange(len(data))] = chance.randrange(256)
            case "bits":
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case "header":
                data[chance.randrange(100)] = chance.randrange(256)
            case "schema":
                data[schema_page * PAGE + chance.randrange(PAGE)] = chance.randrange(256)
            case "pages":
                data[one : one + PAGE] = chance.randbytes(PAGE)
            case "zeros":
                data[one : one + PAGE] = bytes(PAGE)
            case "swap":
                data[one : one + PAGE], data[other : other + PAGE] = (
                    data[other : other + PAGE],
                    data[one : one + PAGE],
                )
            case "copy":
                data[one : one + PAGE] = data[other : other + PAGE]
            case "cut":
                del data[chance.randrange(len(data)) :]
                break
            case _:
                data += chance.randbytes(chance.choice((1, 100, 50_000)))
    return bytes(data)


class Steps:
    """Counts the steps of SQLite's machine on every connection that is opened meanwhile."""

    def __init__(self) -> None:
        self.taken = 0

    def count(self) -> int:
        self.taken += 1_000
        return self.taken > MOST_STEPS  # which interrupts it


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()

    class Connection(sqlite3.Connection):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[arg-type]
            self.set_progress_handler(counted.count, 1_000)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: connect(*given, **{**named, "factory": Connection})
    )
    return counted


async def lives(path: Path) -> str:
    """Start Pixi until it lives on that file as on any other; return what became of the file.

    Damage that nobody looked for at the first start is met at work, and set aside by the second.
    """
    ends: list[str] = []
    complaint = ""
    for _ in range(3):
        told: list[str] = []
        try:
            store = await SqliteStore.open(path, told.append)
        except ConfigError as error:
            return _refused(path.read_bytes(), str(error))
        ends.append("set aside" if told else "opened")
        assert [line for line in told if "was damaged. It is kept as" not in line or "\n" in line] == []
        try:
            await live(store, f"new {len(ends)}")
            return ends[-1]
        except StoreError as error:
            complaint = str(error)
        finally:
            await store.close()
        assert "\n" not in complaint
    raise AssertionError(f"it is damaged again and again: {ends} {complaint}")


async def live(store: SqliteStore, message_id: str) -> None:
    """Do what a store is for."""
    await store.load(ROOM)
    if await store.receive(Message(message_id, ROOM, MO, "and now?", 200.0)):
        turn = await begun(store, ROOM, 0, "pixi", (message_id,))
        await store.end_turn(turn, (UserLine("> x"), AssistantLine("y")), "stop", 1, Usage())
    await store.check()
    await store.forget(MO.id)


def _refused(data: bytes, told: str) -> str:
    """See that a file is left alone only where nothing in it tells that it is ours, or a later Pixi's."""
    later = layout.latest_version() < int.from_bytes(data[60:64]) <= 100 and "a later Pixi" in told
    unknown = b"tableturnsturns" not in data and "move it away, or name another" in told
    assert later or unknown, told
    assert "\n" not in told
    return "refused"


async def outlived(folder: Path, whole: bytes, seed: int, steps: Steps) -> str:
    """Damage a file by this seed, and start on it; return what became of it."""
    chance = random.Random(seed)
    path = folder / f"{seed}.db"
    path.write_bytes(damaged(whole, chance))
    if chance.random() < 0.5:
        suspect(path)
    steps.taken = 0
    try:
        end = await lives(path)
        assert steps.taken < MOST_STEPS
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    for file in folder.iterdir():
        file.unlink()
    return end


def _first_byte(place: int, value: int) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(place)
            file.write(bytes([value]))

    return harm


def _replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))

    return harm


def _statement(statement: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            assert db.execute(statement).rowcount > 0

    return harm


def _named_nowhere(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_master SET name = CAST(X'D0D0' AS TEXT), rootpage = 1 << 20 WHERE name = 'audit'"
        )


def _first_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(PAGE))


def _circle(path: Path) -> None:
    """Have the messages go from their last but one page back to their first, and break off there."""
    with closing(sqlite3.connect(path)) as db:
        ask = "SELECT pageno FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf' ORDER BY path"
        (first,), *_, (before,), (last,) = db.execute(ask).fetchall()
    data = bytearray(path.read_bytes())
    data[(before - 1) * PAGE : before * PAGE] = data[(first - 1) * PAGE : first * PAGE]
    data[(last - 1) * PAGE : last * PAGE] = b"\xff" * PAGE
    path.write_bytes(data)


def _index(path: Path) -> None:
    """Have an index tell of one half of the lines twice, and of the other not at all."""
    with closing(sqlite3.connect(path)) as db:
        ask = "SELECT pageno FROM dbstat WHERE name = 'history' AND pagetype = 'leaf' ORDER BY path"
        (one,), (other,), *_ = db.execute(ask).fetchall()
    data = bytearray(path.read_bytes())
    data[(other - 1) * PAGE : other * PAGE] = data[(one - 1) * PAGE : one * PAGE]
    path.write_bytes(data)


FOUND: dict[str, Callable[[Path], None]] = {
    "a schema whose name is no text": _replaced(b"tableturnsturns", b"table\xd0\xd0\xd0\xd0\xd0turns"),
    "a table that leads nowhere, under a name that is no text": _named_nowhere,
    "a table of another name": _replaced(b"tableturnsturns", b"tableturntturns"),
    "a column of another name": _replaced(b"persona TEXT NOT NULL", b"perrona TEXT NOT NULL"),
    "a table that refers to none, under a name that is no text": _replaced(
        b"message INTEGER NOT NULL REFERENCES messages", b"message INTEGER NOT NULL REFERENCES mes\xcbages"
    ),
    "pages in a circle": _circle,
    "an index that is not of its table": _index,
    "no first page": _first_page,
    "another program's mark": _first_byte(68, 7),
    "a version before this one": _first_byte(63, 4),
    "no version": _first_byte(63, 0),
    "a version that no Pixi has": _first_byte(60, 1),
    "a header that lets nobody write": _first_byte(18, 65),
    "a format of another time": _first_byte(47, 9),
    "a line that is no JSON": _replaced(b'"text":"> words 7 ', b'"text"}"> words 7 '),
    "a message whose body is text": _statement("UPDATE messages SET body = 'x' WHERE turn IS NULL"),
    "a name that is no text": _statement("UPDATE turns SET persona = CAST(X'FF' AS TEXT) WHERE id = 7"),
    "a number that is text": _statement("UPDATE messages SET number = 'x' WHERE id = 'm7'"),
    "a picture that is text": _statement("UPDATE pictures SET data = 'x' WHERE rowid = 1"),
}


HARMLESS: dict[str, Callable[[Path], None]] = {
    "a line that is no text": _replaced(b"> words 7 ", b"> words \xff "),
    "an act that is no text": _statement("UPDATE effects SET payload = X'FF' WHERE turn = 7"),
    "a picture that is missing": _statement("DELETE FROM pictures WHERE rowid = 1"),
}


@pytest.mark.parametrize("harm", FOUND)
async def test_damage_that_was_found(path: Path, whole: bytes, harm: str, steps: Steps) -> None:
    """Each kept a file from being opened ever again, or a talk from being read, or took minutes."""
    path.write_bytes(whole)
    FOUND[harm](path)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        lines = carry_over(path, new).get("lines", 0)
    assert lines > 120 or harm in ("no first page", "a format of another time")
    assert await lives(path) == "set aside"
    assert steps.taken < MOST_STEPS


@pytest.mark.parametrize("harm", HARMLESS)
async def test_damage_that_stands_in_the_way_of_nothing(path: Path, whole: bytes, harm: str) -> None:
    path.write_bytes(whole)
    HARMLESS[harm](path)
    suspect(path)
    assert await lives(path) == "opened"


@pytest.mark.parametrize("seed", range(6))
async def test_some_damage(tmp_path: Path, whole: bytes, seed: int, steps: Steps) -> None:
    await outlived(tmp_path, whole, seed, steps)


def test_rows_of_one_first_key_are_carried_over_in_proportion(path: Path, steps: Steps) -> None:
    schema.connect(path).close()
    taken: list[int] = []
    for first in (0, 500):
        with closing(sqlite3.connect(path)) as db:
            db.executemany(
                "INSERT INTO notices (day, whom) VALUES (1, ?)",
                [(f"person:{number}",) for number in range(first, 4 * first or 500)],
            )
            db.commit()
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
            steps.taken = 0
            assert carry_over(path, new)["notices"] == (2_000 if first else 500)
            taken.append(steps.taken)
    assert taken[1] < 6 * taken[0], taken


@pytest.mark.nightly
async def test_any_damage(tmp_path: Path, whole: bytes, seed: int, steps: Steps) -> None:
    ends = Counter([await outlived(tmp_path, whole, seed + more, steps) for more in range(FILES)])
    assert ends["refused"] < 5, ends
    assert min(ends["opened"], ends["set aside"]) > FILES // 20, ends


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


OTHERS: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.mark.skipif(sys.platform == "win32", reason="kinds of files that POSIX has")
@pytest.mark.parametrize("kind", OTHERS)
async def test_what_is_no_file_is_named_and_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pixi.db"
    OTHERS[kind](path)
    loop = (
        f"The store {path} cannot be opened ({os.strerror(errno.ELOOP)}); mend the path or its permissions."
    )
    told = loop if kind == "loop" else f"The store {path} is a {kind}; name a file in [store] url."
    with pytest.raises(ConfigError) as refused:
        await SqliteStore.open(path)
    assert str(refused.value) == told
    with pytest.raises(ConfigError) as refused:
        await open_existing(f"sqlite:///{path}", print)
    assert str(refused.value) == told
    assert os.listdir(tmp_path) == [path.name]


async def test_a_file_of_nothing_but_a_hole_is_no_database(path: Path, steps: Steps) -> None:
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(ConfigError, match="it is not a database; move it away, or name another file"):
        await SqliteStore.open(path)
    assert path.stat().st_size == 2**40


async def test_a_store_with_a_hole_behind_it_is_opened(path: Path, whole: bytes, steps: Steps) -> None:
    path.write_bytes(whole)
    os.truncate(path, 2**36)
    suspect(path)
    assert await lives(path) == "opened"
    assert steps.taken < MOST_STEPS


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    assert await lives(path) == "opened"
