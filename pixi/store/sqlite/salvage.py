"""Carries over what can still be read of a damaged file into a new one, row by row."""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from pixi.core.lines import AssistantLine, Line, ToolLine, UserLine
from pixi.store.sqlite.schema import MIGRATIONS
from pixi.store.statements.rows import digests_in, unpack_line, unpack_message, without_pictures

_FARTHEST = 2**40  # rows that are leapt over at most, where nothing can be read


def carry_over(damaged: Path, new: sqlite3.Connection) -> dict[str, int]:
    """Fill an empty database with the rows that can be read, in one transaction; gives how many, by table.

    The damaged file is only read. Where not even its tables are known any more, nothing is carried over.

    Raises:
        sqlite3.Error: the new one cannot be written. Then it is empty.
    """
    with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as old:
        old.text_factory = bytes  # text that is none any more is no reason to lose the rest
        version = _version(old)
        if not version:
            return {}
        new.execute("BEGIN IMMEDIATE")
        try:
            _make_tables(new, version)
            for table in _tables(new):
                _copy(old, new, table)
            _put_right(new)
            counts = {table: _count(new, table) for table in _tables(new)}
            new.execute("COMMIT")
        finally:
            if new.in_transaction:
                new.execute("ROLLBACK")
    return counts


def _version(old: sqlite3.Connection) -> int:
    """Of the tables; 0 where they cannot be known."""
    try:
        (version,) = old.execute("PRAGMA user_version").fetchone()
        old.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        return 0
    return int(version) if 0 < version <= len(MIGRATIONS) else 0


def _make_tables(new: sqlite3.Connection, version: int) -> None:
    for statements in MIGRATIONS[:version]:
        for statement in statements:
            new.execute(statement)
    new.execute(f"PRAGMA user_version = {version}")


def _tables(new: sqlite3.Connection) -> list[str]:
    found = new.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in found]


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> None:
    columns = new.execute(f"SELECT name, type, pk FROM pragma_table_info('{table}')").fetchall()
    names = ", ".join(name for name, *_ in columns)
    keys = [name for name, _, _ in sorted((c for c in columns if c[2]), key=lambda c: c[2])]
    (made_by,) = new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    found = _keyed_rows(old, table, names, keys) if "WITHOUT ROWID" in made_by else _rows(old, table, names)
    texts = [at for at, (_, kind, _) in enumerate(columns) if kind == "TEXT"]
    for row in found:
        values = _with_texts(row, texts)
        if values is not None:  # what breaks a rule of the table is no row of it
            new.execute(
                f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", values
            )


def _with_texts(row: tuple[Any, ...], texts: Iterable[int]) -> list[Any] | None:
    """The row with its texts as such; None where one is none."""
    values = list(row)
    try:
        for at in texts:
            if values[at] is not None:
                values[at] = values[at].decode()
    except (UnicodeDecodeError, AttributeError):
        return None
    return values


def _rows(old: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """The rows in order. What cannot be read is leapt over, further each time, and read up to from behind."""
    ask = f"SELECT rowid, {names} FROM {table} NOT INDEXED WHERE rowid > ? "
    last, after, leap = 0, 0, 1
    while leap <= _FARTHEST:
        try:
            for place, *row in old.execute(f"{ask} ORDER BY rowid", (after,)):
                if after > last:
                    yield from _until_harm(old, f"{ask} AND rowid < ? ORDER BY rowid DESC", (last, place))
                yield tuple(row)
                last, leap = place, 1
                after = last
        except sqlite3.Error:
            after, leap = last + leap, 2 * leap
        else:
            return


def _until_harm(old: sqlite3.Connection, ask: str, values: tuple[int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Rows up to the first that cannot be read, each without its first column."""
    try:
        for _, *row in old.execute(ask, values):
            yield tuple(row)
    except sqlite3.Error:
        return


def _keyed_rows(
    old: sqlite3.Connection, table: str, names: str, keys: list[str]
) -> Iterator[tuple[Any, ...]]:
    """The rows of a table that is ordered by its keys, from both ends as far as they can be read."""
    for way in ("", " DESC"):
        order = ", ".join(f"{key}{way}" for key in keys)
        yield from _until_harm(old, f"SELECT 0, {names} FROM {table} ORDER BY {order}")


def _count(new: sqlite3.Connection, table: str) -> int:
    (count,) = new.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


# Rows that were whole, and rest on others that are gone.


def _put_right(new: sqlite3.Connection) -> None:
    _drop_harmed_pictures(new)
    _mend_messages(new)
    _mend_lines(new)
    _stand_in_for_turns(new)
    tables = _tables(new)
    new.execute("DELETE FROM effects WHERE turn NOT IN (SELECT id FROM turns)")
    if "quotes" in tables:
        new.execute("DELETE FROM quotes WHERE message NOT IN (SELECT position FROM messages)")


def _drop_harmed_pictures(new: sqlite3.Connection) -> None:
    for place, digest, data in new.execute("SELECT rowid, digest, data FROM pictures").fetchall():
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != digest:
            new.execute("DELETE FROM pictures WHERE rowid = ?", (place,))


def _mend_messages(new: sqlite3.Connection) -> None:
    """What a message said that cannot be read is forgotten; that it came is not."""
    for position, conversation, body in new.execute(
        "SELECT position, conversation, body FROM messages WHERE body IS NOT NULL"
    ).fetchall():
        mended = _mended(new, conversation, body, lambda whole: unpack_message(whole, 0, _no_picture))
        if mended != body:
            new.execute("UPDATE messages SET body = ? WHERE position = ?", (mended, position))


def _mend_lines(new: sqlite3.Connection) -> None:
    """Of a turn whose lines do not follow each other as they were written, none is kept."""
    rows = new.execute("SELECT turn, position, conversation, kind, body FROM lines ORDER BY turn, position")
    for turn, group in groupby(rows.fetchall(), key=lambda row: row[0]):
        lines: list[Line | None] = []
        for _, position, conversation, kind, body in group:
            mended = _mended(new, conversation, body, partial(unpack_line, kind, fetch=_no_picture))
            lines.append(None if mended is None else unpack_line(kind, mended, _no_picture))
            if mended is not None and mended != body:
                new.execute("UPDATE lines SET body = ? WHERE position = ?", (mended, position))
        if not _follows(lines):
            new.execute("DELETE FROM lines WHERE turn = ?", (turn,))


def _mended(
    new: sqlite3.Connection, conversation: str, body: object, read: Callable[[bytes], object]
) -> bytes | None:
    """The body of a row, without pictures that are lost; None where it cannot be read."""
    if not isinstance(body, bytes):
        return None
    try:
        read(body)
        named = digests_in(body)
    except (ValueError, TypeError, AttributeError):
        return None
    kept = new.execute("SELECT digest FROM pictures WHERE conversation = ?", (conversation,)) if named else ()
    lost = set(named) - {digest for (digest,) in kept}
    return without_pictures(body, lost) if lost else body


def _follows(lines: list[Line | None]) -> bool:
    """Whether these are the lines of a turn: a user's first, and to each call its result."""
    if not isinstance(lines[0], UserLine):
        return False
    open_calls: Counter[str] = Counter()
    for line in lines:
        if isinstance(line, ToolLine):
            open_calls[line.call_id] -= 1
        elif line is None or any(open_calls.values()):
            return False
        elif isinstance(line, AssistantLine):
            open_calls = Counter(call.id for call in line.calls)
    return not any(open_calls.values())


def _stand_in_for_turns(new: sqlite3.Connection) -> None:
    """In the place of a turn that is lost one that has ended: what it answered is not answered again."""
    new.execute(
        "INSERT INTO turns (id, conversation, generation, persona, began, ended, finish, steps)"
        " SELECT turn, min(conversation), 0, '', 0, 0, 'cancelled', 0 FROM"
        " (SELECT turn, conversation FROM lines"
        "  UNION SELECT turn, conversation FROM messages WHERE turn IS NOT NULL)"
        " WHERE turn NOT IN (SELECT id FROM turns) GROUP BY turn"
    )


def _no_picture(digest: str) -> bytes:
    return b""
