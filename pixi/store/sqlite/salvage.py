"""Carries over what can still be read of a damaged file into a new one, row by row."""

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from pixi.core.llm import AssistantLine, ToolLine, UserLine
from pixi.store.layout import FIRST_VERSION, latest_version, names_in
from pixi.store.sqlite.schema import Columns, make_tables, tables_of, tables_of_version
from pixi.store.statements.rows import digests_in, unpack_line, unpack_message, unpack_text, without_pictures

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Errors of reading a damaged file; the second where SQLite's complaint quotes what is damaged."""

_PACKED = {"effects": "payload", "summaries": "summary", "commands": "argument"}
"""Texts that are packed, by their tables."""

_MADE = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) \w+", re.IGNORECASE)
_FARTHEST = 2**40  # rows that are leapt over at most, where nothing can be read

Row = dict[str, Any]


def carry_over(damaged: Path, new: sqlite3.Connection) -> dict[str, int]:
    """Fill an empty database with the rows that can be read, in one transaction; return how many, by table.

    The damaged file is only read. Where not even its tables are known any more, nothing is carried over.

    Raises:
        sqlite3.Error: the new one cannot be written. Then it is empty.
    """
    with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as old:
        old.text_factory = bytes  # text that is none any more is no reason to lose the rest
        old.execute("PRAGMA writable_schema = ON")  # so that a harmed table does not hide the others
        version = _version(old)
        if not version:
            return {}
        new.execute("BEGIN IMMEDIATE")
        try:
            make_tables(new, version)
            tables, pictures = tables_of(new), set[tuple[str, str]]()
            for table in _pictures_first(tables):
                _copy(old, new, table, tables[table], pictures)
            _put_right(new)
            counts = {table: _count(new, table) for table in (*tables, *_copy_of_addons(old, new))}
            new.execute("COMMIT")
        finally:
            if new.in_transaction:
                new.execute("ROLLBACK")
    return counts


def is_readable(db: sqlite3.Connection) -> bool:
    """Return True if no row of a store would be lost or changed by `carry_over`."""
    tables, pictures = tables_of(db), set[tuple[str, str]]()
    if tables != tables_of_version(latest_version()):
        return False
    factory, db.text_factory = db.text_factory, bytes
    try:
        for table in _pictures_first(tables):
            names = ", ".join(name for name, *_ in tables[table])
            for row in db.execute(f"SELECT {names} FROM {table}"):
                read = _fitting(row, tables[table])
                if read is None or _mended(table, read, pictures) != read:
                    return False
    finally:
        db.text_factory = factory
    return not _torn_turns(db)


def _pictures_first(tables: Iterable[str]) -> list[str]:
    """Return the tables in such an order that what shows a picture comes after it."""
    return sorted(tables, key=lambda table: table != "pictures")


def _version(old: sqlite3.Connection) -> int:
    """Return the version of the tables, by the header or, where that tells less, by the tables; 0: none."""
    try:
        (told,) = old.execute("PRAGMA user_version").fetchone()
        found = {name for (name,) in old.execute("SELECT name FROM sqlite_master")}
    except _UNREADABLE:
        return 0
    versions = range(latest_version(), FIRST_VERSION - 1, -1)
    names = {version: {name.encode() for name in names_in(version)} for version in versions}
    if told in versions or not names[latest_version()] & found:
        return told if told in versions else 0
    return next((version for version in versions if names[version] <= found), FIRST_VERSION)


def _copy(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    table: str,
    columns: Columns,
    pictures: set[tuple[str, str]],
) -> None:
    names = ", ".join(name for name, *_ in columns)
    keys = [name for name, _, _ in sorted((c for c in columns if c[2]), key=lambda c: c[2])]
    (made_by,) = new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    found = _keyed_rows(old, table, names, keys) if "WITHOUT ROWID" in made_by else _rows(old, table, names)
    for row in found:
        read = _fitting(row, columns)
        if read is not None and (mended := _mended(table, read, pictures)) is not None:
            marks = ", ".join("?" * len(columns))  # what breaks a rule of the table is no row of it
            new.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", [*mended.values()])


def _copy_of_addons(old: sqlite3.Connection, new: sqlite3.Connection) -> list[str]:
    """Carry over the tables of addons, made as they were; return their names.

    An addon of which no table is left begins anew: it is taken for one that was never there.
    """
    try:
        made = [
            (kind.decode(), name.decode(), statement.decode())
            for kind, name, statement in old.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, rowid"
            )
        ]
    except (*_UNREADABLE, AttributeError):  # AttributeError: what should be text is a number
        made = []
    copied: list[str] = []
    for (addon,) in new.execute("SELECT name FROM addon_tables").fetchall():
        begins, before = f"{addon}_", len(copied)
        for kind, name, statement in made:  # tables come first
            if name.startswith(begins) and _MADE.match(statement) and name in statement[:200]:
                with suppress(sqlite3.Error):  # what is harmed is not made
                    new.execute(statement)
                    if kind == "table":
                        asked = f"SELECT name, type, pk FROM pragma_table_info('{name}')"
                        _copy(old, new, name, new.execute(asked).fetchall(), set())
                        copied.append(name)
        if len(copied) == before:
            new.execute("DELETE FROM addon_tables WHERE name = ?", (addon,))
    return copied


def _fitting(row: Iterable[Any], columns: Columns) -> Row | None:
    """Return the values of a row, its texts decoded; None if one is not of its column's type."""
    values: Row = {}
    for value, (name, kind, _) in zip(row, columns, strict=True):
        if kind == "TEXT" and isinstance(value, bytes):
            try:
                values[name] = value.decode()
            except UnicodeDecodeError:
                return None
        elif value is None or kind == "BLOB" or (kind != "TEXT" and isinstance(value, int | float)):
            values[name] = value
        else:
            return None
    return values


def _mended(table: str, row: Row, pictures: set[tuple[str, str]]) -> Row | None:
    """Return a row without what cannot be read of it; None if nothing is left.

    That a message came stays, and that there was a line: `_torn_turns` finds it.

    Args:
        table: the row's.
        row: the values by their columns.
        pictures: those that are whole, by conversation and digest; filled by the rows of `pictures`.
    """
    if table == "pictures":
        if not isinstance(row["data"], bytes) or hashlib.sha256(row["data"]).hexdigest() != row["digest"]:
            return None
        pictures.add((row["conversation"], row["digest"]))
    elif table in ("messages", "lines"):
        try:
            unpack_text(row["body"])
            (unpack_message if table == "messages" else partial(unpack_line, row["kind"]))(row["body"])
            lost = {each for each in digests_in(row["body"]) if (row["conversation"], each) not in pictures}
            row = {**row, "body": without_pictures(row["body"], lost) if lost else row["body"]}
        except (ValueError, RecursionError):  # the latter: nested deeper than can be read
            row = {**row, "body": None if table == "messages" else b""}
    elif column := _PACKED.get(table):
        words = row[column]
        try:
            unpack_text(words)
        except ValueError:
            words = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
            row = {**row, column: words.encode()}
    return row


def _rows(old: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows in order. What cannot be read is leapt over, further each time, and read up to from
    behind."""
    ask = f"SELECT rowid, {names} FROM {table} NOT INDEXED WHERE rowid > ? "
    last, after, leap = 0, 0, 1
    while leap <= _FARTHEST:
        for place, *row in _until_harm(old, f"{ask} ORDER BY rowid", (after,), keys=1):
            if after > last:
                before = _until_harm(old, f"{ask} AND rowid < ? ORDER BY rowid DESC", (last, place), keys=1)
                yield from (tuple(found) for _, *found in before)
            yield tuple(row)
            last, leap = place, 1
            after = last
        after, leap = last + leap, 2 * leap


def _keyed_rows(
    old: sqlite3.Connection, table: str, names: str, keys: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table that is ordered by its keys, from both ends as far as they can be read."""
    for way in ("", " DESC"):
        order = ", ".join(f"{key}{way}" for key in keys)
        ask = f"SELECT {', '.join(keys)}, {names} FROM {table} ORDER BY {order}"
        yield from (row[len(keys) :] for row in _until_harm(old, ask, keys=len(keys)))


def _until_harm(
    old: sqlite3.Connection, ask: str, values: tuple[int, ...] = (), *, keys: int
) -> Iterator[tuple[Any, ...]]:
    """Yield rows up to the first that cannot be read, or does not follow the one before in order of its keys.

    The last of `values` are the keys from which on rows are asked for.

    A page that leads back to one above it would have SQLite read in a circle, in billions of turns.
    """
    falls = "DESC" in ask
    before: tuple[Any, ...] = values[-keys:]
    try:
        for row in old.execute(ask, values):
            key = row[:keys]
            if before and not (key < before if falls else key > before):
                return
            yield row
            before = key
    except (*_UNREADABLE, TypeError):  # TypeError: a key that is of another type than the one before
        return


def _count(new: sqlite3.Connection, table: str) -> int:
    (count,) = new.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


# Rows that were whole, and rest on others that are gone.


def _put_right(new: sqlite3.Connection) -> None:
    new.executemany("DELETE FROM lines WHERE turn = ?", _torn_turns(new))
    _stand_in_for_turns(new)
    new.execute("DELETE FROM effects WHERE turn NOT IN (SELECT id FROM turns)")
    new.execute("DELETE FROM commands WHERE turn NOT IN (SELECT id FROM turns)")
    new.execute("DELETE FROM quotes WHERE message NOT IN (SELECT position FROM messages)")
    # Nobody has the file open: what was not ended is anybody's.
    new.execute("DELETE FROM owners")
    new.execute("DELETE FROM leases")
    new.execute("UPDATE turns SET lease = 0 WHERE finish IS NULL")


def _torn_turns(db: sqlite3.Connection) -> list[tuple[int]]:
    """Return the turns whose lines do not follow each other as written: none of them is kept."""
    rows = db.execute("SELECT turn, kind, body FROM lines ORDER BY turn, position")
    return [(turn,) for turn, lines in groupby(rows, key=lambda row: row[0]) if not _follows(lines)]


def _follows(rows: Iterable[tuple[int, str, bytes]]) -> bool:
    """Return True if these are the lines of a turn: a user's first, and to each call its result."""
    try:
        first, *lines = (unpack_line(kind, body) for _, kind, body in rows)
    except (ValueError, RecursionError):
        return False
    open_calls: Counter[str] = Counter()
    for line in lines:
        if isinstance(line, ToolLine):
            open_calls[line.call_id] -= 1
        elif any(open_calls.values()):
            return False
        elif isinstance(line, AssistantLine):
            open_calls = Counter(call.id for call in line.calls)
    return isinstance(first, UserLine) and not any(open_calls.values())


def _stand_in_for_turns(new: sqlite3.Connection) -> None:
    """Put a turn that has ended in the place of a lost one: what it answered is not answered again."""
    new.execute(
        "INSERT INTO turns (id, conversation, generation, persona, began, ended, finish, steps)"
        " SELECT turn, min(conversation), 0, '', 0, 0, 'cancelled', 0 FROM"
        " (SELECT turn, conversation FROM lines"
        "  UNION SELECT turn, conversation FROM messages WHERE turn IS NOT NULL"
        "  UNION SELECT again, conversation FROM messages WHERE again > 0)"
        " WHERE turn NOT IN (SELECT id FROM turns) GROUP BY turn"
    )
