"""Carries over what can still be read of a damaged file into a new one, row by row."""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
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
    return bool(db.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))


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
    found = _keyed_rows(old, table, names, keys) if "WITHOUT ROWID" in made_by else _rows(old, table, names)
    statement = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    for row in found:
        with suppress(sqlite3.IntegrityError):  # what breaks a rule of the table is no row of it
            new.execute(statement, _mended(table, row, columns))


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


def _mended(table: str, row: Iterable[Any], columns: Columns) -> list[Any]:
    """Return the values of a row, with nothing in place of those that are not of their column's type.

    So it is with a message or a line that cannot be read, and with a picture that is another one. Most
    columns must hold something: then there is no such row. But that a message came stays.
    """
    values = {name: _fitting(value, kind) for value, (name, kind, _) in zip(row, columns, strict=True)}
    if table == "pictures" and values.get("data") is not None:
        if hashlib.sha256(values["data"]).hexdigest() != values.get("digest"):
            values["data"] = None
    elif table in ("messages", "lines") and values.get("body") is not None:
        try:
            if table == "messages":
                unpack_message(values["body"])
            else:
                unpack_line(values.get("kind", ""), values["body"])
        except (ValueError, RecursionError):  # the latter: nested deeper than can be read
            values["body"] = None
    return [*values.values()]


def _fitting(value: Any, kind: str) -> Any:
    if kind == "BLOB":
        return value if isinstance(value, bytes) else None
    if kind in ("INTEGER", "REAL"):
        return value if isinstance(value, int | float) else None
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _rows(old: sqlite3.Connection, table: str, names: str) -> Iterator[Row]:
    """Yield the rows. What cannot be read is leapt over, further each time, and read up to from behind."""
    last, leap = 0, 0
    while leap <= _FARTHEST:
        for place, *row in _walk(old, table, names, ["rowid"], way=">", key=(last + leap,)):
            if leap:
                for between, *other in _walk(old, table, names, ["rowid"], way="<", key=(place,)):
                    if between <= last:
                        break
                    yield other
            yield row
            last, leap = place, 0
        leap = max(1, 2 * leap)


def _keyed_rows(old: sqlite3.Connection, table: str, names: str, keys: list[str]) -> Iterator[Row]:
    """Yield the rows of a table that is ordered by its keys, from both ends as far as they can be read."""
    last: Row = ()
    for row in _walk(old, table, names, keys, way=">"):
        yield row[len(keys) :]
        last = row[: len(keys)]
    for row in _walk(old, table, names, keys, way="<"):
        if row[: len(keys)] == last:
            return
        yield row[len(keys) :]


def _walk(
    old: sqlite3.Connection, table: str, names: str, keys: list[str], *, way: str, key: Row = ()
) -> Iterator[Row]:
    """Yield keys and columns of the rows beyond a key one by one, up to the first that cannot be read.

    Each is asked for by itself, since Python gives up a row for an error in reading the one behind it. A page
    may lead back to one before it: a row that does not follow the one before in order is the end as well.

    Args:
        old: the damaged file.
        table, names, keys: what is read, and the columns by which its rows are ordered.
        way: `>`: in that order; `<`: against it.
        key: beyond which; empty: from the end.
    """
    order = ", ".join(keys if way == ">" else [f"{each} DESC" for each in keys])
    while True:
        marks = ", ".join("CAST(? AS TEXT)" if isinstance(each, bytes) else "?" for each in key)
        beyond = f"WHERE ({', '.join(keys)}) {way} ({marks})" if key else ""
        ask = f"SELECT {', '.join(keys)}, {names} FROM {table} {beyond} ORDER BY {order} LIMIT 1"
        try:
            row = old.execute(ask, key).fetchone()
            follows = row and (not key or (row[: len(keys)] > key if way == ">" else row[: len(keys)] < key))
        except (*_UNREADABLE, TypeError):  # TypeError: a key that is of another type than the one before
            return
        if not follows:
            return
        yield row
        key = row[: len(keys)]


def _put_right(new: sqlite3.Connection) -> None:
    """See to rows that were whole, and rest on others that are gone."""
    lines = new.execute("SELECT turn, kind, body FROM lines ORDER BY turn, position")
    torn = [(turn,) for turn, some in groupby(lines, key=lambda row: row[0]) if _is_torn(some)]
    new.executemany("DELETE FROM lines WHERE turn = ?", torn)
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


def _is_torn(rows: Iterable[tuple[int, str, bytes]]) -> bool:
    """Return True if a line of a turn is lost: its user's, a call, or the result of one."""
    lines = [unpack_line(kind, body) for _, kind, body in rows]
    calls = Counter(call.id for line in lines if isinstance(line, AssistantLine) for call in line.calls)
    results = Counter(line.call_id for line in lines if isinstance(line, ToolLine))
    return not isinstance(lines[0], UserLine) or calls != results
