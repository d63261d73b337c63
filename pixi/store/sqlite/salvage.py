"""Carries over what can still be read of a damaged file into a new one, row by row."""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from pixi.core.llm import AssistantLine, ToolLine, UserLine
from pixi.store.layout import latest_version
from pixi.store.sqlite.schema import Columns, make_tables, tables_of, tables_of_version
from pixi.store.statements.rows import unpack_line, unpack_message

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Errors of reading a damaged file; the second where SQLite's complaint quotes what is damaged."""

_FARTHEST = 2**40  # rows that are leapt over at most, where nothing can be read

_SHOWN = {"memories": "text", "files": "name"}
"""Texts that are only shown, by their tables: a damaged letter in them is replaced."""

_LOST: dict[str, dict[str, Any]] = {
    "messages": {"body": None, "author": None, "addressed": 0, "sent_at": 0.0},
    "lines": {"kind": "", "body": b""},
}
"""What is left of rows that cannot be read, by their tables: that a message came, and that there was a line,
by which `_is_torn` knows its turn. Of other tables such a row is left out."""

Row = Sequence[Any]


def carry_over(damaged: Path, new: sqlite3.Connection) -> dict[str, int]:
    """Fill an empty database with the rows that can be read, in one transaction; return how many, by table.

    The damaged file is only read. The new one has the tables of the present version.

    Raises:
        sqlite3.Error: the new one cannot be written. Then it is empty.
    """
    with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as old:
        old.text_factory = bytes  # text that is none any more is no reason to lose the rest
        old.execute("PRAGMA writable_schema = ON")  # so that a harmed table does not hide the others
        new.execute("BEGIN IMMEDIATE")
        try:
            make_tables(new, latest_version())
            tables = tables_of(new)
            for table, columns in tables.items():
                _copy(old, new, table, columns)
            _put_right(new)
            tables |= _copy_addons(old, new)
            counts = {
                table: int(new.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in tables
            }
            new.execute("COMMIT")
        finally:
            if new.in_transaction:
                new.execute("ROLLBACK")
    return counts


def is_whole(db: sqlite3.Connection) -> bool:
    """Return True if SQLite finds a file in order, and `carry_over` would keep each row as it is.

    Raises:
        sqlite3.Error, UnicodeDecodeError: it cannot be read, which most often says that it is not.
    """
    tables = tables_of(db)
    if tables != tables_of_version(latest_version()):
        return False
    for table, columns in tables.items():
        # What a table refers to is looked up where it is written to, and only there.
        db.execute(f"EXPLAIN INSERT INTO {table} SELECT * FROM {table}")
        names = ", ".join(name for name, *_ in columns)
        if any(_mended(table, row, columns) != [*row] for row in db.execute(f"SELECT {names} FROM {table}")):
            return False
    return not _torn_turns(db) and bool(db.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str, columns: Columns) -> None:
    """Copy the rows of a table, as far as it has these columns."""
    there: set[bytes] = set()
    with suppress(*_UNREADABLE):
        there = {name for (name,) in old.execute(f"SELECT name FROM pragma_table_info('{table}')")}
    columns = [column for column in columns if column[0].encode() in there]
    if not columns:
        return
    names = ", ".join(name for name, *_ in columns)
    keys = [name for name, _, place in sorted(columns, key=lambda column: column[2]) if place]
    (made_by,) = new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    found = _rows(old, table, names, keys if "WITHOUT ROWID" in made_by else ["rowid"])
    statement = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    for row in found:
        if (mended := _mended(table, row, columns)) is not None:
            with suppress(sqlite3.IntegrityError):  # what breaks a rule of the table is no row of it
                new.execute(statement, mended)


def _copy_addons(old: sqlite3.Connection, new: sqlite3.Connection) -> dict[str, Columns]:
    """Carry over the tables of addons, made as they were; return them.

    An addon of which no table is left begins anew: it is taken for one that was never there.
    """
    asked = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, rowid"
    try:
        made = [[str(part, "utf-8") for part in row] for row in old.execute(asked)]  # tables come first
    except (*_UNREADABLE, TypeError):  # TypeError: what should be text is a number
        made = []
    copied: dict[str, Columns] = {}
    for (addon,) in new.execute("SELECT name FROM addon_tables").fetchall():
        ours: dict[str, Columns] = {}
        for kind, name, statement in made:
            if name.startswith(f"{addon}_"):
                with suppress(sqlite3.Error):  # what is harmed is not made
                    new.execute(statement)
                    columns = new.execute(
                        f"SELECT name, type, pk FROM pragma_table_info('{name}')"
                    ).fetchall()
                    if kind == "table" and columns:
                        _copy(old, new, name, columns)
                        ours[name] = columns
        if not ours:
            new.execute("DELETE FROM addon_tables WHERE name = ?", (addon,))
        copied |= ours
    return copied


def _mended(table: str, row: Row, columns: Columns) -> list[Any] | None:
    """Return the values of a row, or `_LOST` in its place; None: it is left out.

    A value that is not of its column's type costs the whole row, as nothing in its place would have a
    meaning: that a message has no turn, that a key is not revoked.
    """
    shown = _SHOWN.get(table)
    values = {
        name: _fitting(value, kind, "replace" if name == shown else "strict")
        for value, (name, kind, _) in zip(row, columns, strict=True)
    }
    fits = all(new is not None or old is None for new, old in zip(values.values(), row, strict=True))
    if fits and _can_be_read(table, values):
        return [*values.values()]
    left = _LOST.get(table)
    return None if left is None else [left.get(name, value) for name, value in values.items()]


def _fitting(value: Any, kind: str, errors: str) -> Any:
    """Return a value as its column has it, its text decoded; None: it is not of the column's type."""
    if kind == "BLOB":
        return value if value is None or isinstance(value, bytes) else str(value).encode()
    if kind in ("INTEGER", "REAL"):
        return value if isinstance(value, int | float) else None
    if isinstance(value, bytes):
        try:
            return value.decode(errors=errors)
        except UnicodeDecodeError:
            return None
    return None if kind == "TEXT" and not isinstance(value, str) else value


def _can_be_read(table: str, values: dict[str, Any]) -> bool:
    """Return True unless this is a message or a line that says nothing, or another picture than it was."""
    try:
        if table == "pictures":
            return bool(hashlib.sha256(values["data"]).hexdigest() == values["digest"])
        if table == "lines":
            unpack_line(values["kind"], values["body"])
        elif table == "messages" and values["body"] is not None:
            unpack_message(values["body"])
    except (KeyError, ValueError, RecursionError):  # of a column that is gone; nested deeper than can be read
        return False
    return True


def _rows(old: sqlite3.Connection, table: str, names: str, keys: list[str]) -> Iterator[Row]:
    """Yield the rows. What cannot be read is leapt over, further each time, and read up to from behind.

    Where the first key is no number, nothing is leapt over: the rows are read from both ends.
    """
    walk = partial(_walk, old, table, names, keys)
    last: Row = ()  # the keys of the last row, from the front
    leap = 0
    while leap <= _FARTHEST:
        first = last[0] if last else 0
        if leap and not isinstance(first, int):
            break
        for row in walk(way=">", key=(first + leap,) if leap else last):
            if leap:
                yield from (between[len(keys) :] for between in walk(way="<", key=row[: len(keys)], end=last))
            yield row[len(keys) :]
            last, leap = row[: len(keys)], 0
        leap += 1 + leap // 8  # so little that it seldom leaps over a whole page
    yield from (row[len(keys) :] for row in walk(way="<", end=last))


def _walk(
    old: sqlite3.Connection,
    table: str,
    names: str,
    keys: list[str],
    *,
    way: str,
    key: Row = (),
    end: Row = (),
) -> Iterator[Row]:
    """Yield keys and columns of the rows beyond a key, up to the first that cannot be read.

    All are asked for at once. As Python gives up a row for an error in reading the one behind it, that one is
    then asked for by itself. A page may lead back to one before it: a row that does not follow the one before
    in order is the end as well.

    Args:
        old: the damaged file.
        table, names, keys: what is read, and the columns by which its rows are ordered.
        way: `>`: in that order; `<`: against it.
        key: beyond which, or the first of it; empty: from the end.
        end: of which on the rows are left out, where they are read against the order.
    """
    order = ", ".join(keys if way == ">" else [f"{each} DESC" for each in keys])
    for limit in ("", "LIMIT 1"):
        marks = ", ".join("CAST(? AS TEXT)" if isinstance(each, bytes) else "?" for each in key)
        beyond = f"WHERE ({', '.join(keys[: len(key)])}) {way} ({marks})" if key else ""
        ask = f"SELECT {', '.join(keys)}, {names} FROM {table} {beyond} ORDER BY {order} {limit}"
        try:
            for row in old.execute(ask, key):
                found = row[: len(keys)]
                if not found > end or (key and not (found > key if way == ">" else found < key)):
                    return
                yield row
                key = found
        except (*_UNREADABLE, TypeError, OverflowError):  # a key of another type than the one before
            continue
        return


def _put_right(new: sqlite3.Connection) -> None:
    """See to rows that were whole, and rest on others that are gone."""
    new.executemany("DELETE FROM lines WHERE turn = ?", _torn_turns(new))
    # A turn that has ended stands in the place of a lost one: what it answered is not answered again.
    new.execute(
        "INSERT INTO turns (id, conversation, generation, persona, began, ended, finish, steps)"
        " SELECT turn, min(conversation), 0, '', 0, 0, 'cancelled', 0 FROM"
        " (SELECT turn, conversation FROM lines"
        "  UNION SELECT turn, conversation FROM messages WHERE turn IS NOT NULL"
        "  UNION SELECT again, conversation FROM messages WHERE again > 0)"
        " WHERE turn NOT IN (SELECT id FROM turns) GROUP BY turn"
    )
    for table in ("effects", "commands"):
        new.execute(f"DELETE FROM {table} WHERE turn NOT IN (SELECT id FROM turns)")
    new.execute("DELETE FROM quotes WHERE message NOT IN (SELECT position FROM messages)")
    # Nobody has the file open: what was not ended is anybody's.
    new.execute("DELETE FROM owners")
    new.execute("DELETE FROM leases")
    new.execute("UPDATE turns SET lease = 0 WHERE finish IS NULL")


def _torn_turns(db: sqlite3.Connection) -> list[tuple[int]]:
    """Return the turns whose lines do not follow each other as written: none of them is kept."""
    lines = db.execute("SELECT turn, kind, body FROM lines ORDER BY turn, position")
    return [(turn,) for turn, some in groupby(lines, key=lambda row: row[0]) if _is_torn(some)]


def _is_torn(rows: Iterable[tuple[int, str, bytes]]) -> bool:
    """Return True unless these are the lines of a turn: a user's first, and to each call its result."""
    try:
        first, *lines = (unpack_line(kind, body) for _, kind, body in rows)
    except (ValueError, RecursionError):
        return True
    open_calls: Counter[str] = Counter()
    for line in lines:
        if isinstance(line, ToolLine):
            open_calls[line.call_id] -= 1
        elif any(open_calls.values()):
            return True
        elif isinstance(line, AssistantLine):
            open_calls = Counter(call.id for call in line.calls)
    return not isinstance(first, UserLine) or any(open_calls.values())
