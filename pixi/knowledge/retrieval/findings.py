"""What the retrieval agent brings back: sentences quoted from documents, with their places; kept on disk."""

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pixi.knowledge.entry import Entry, Source

NOT_THERE = "not in these documents"
"""Said only where a helper model has read all of them."""
NOT_IN_WHAT_WAS_READ = "not in what was read"
"""The same, where it has read a part of them."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A quotation from a document: one sentence, or several that follow each other."""

    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class Findings:
    """What documents say to a question.

    Attributes:
        relevant: the most telling first.
        dropped: how many of the helper's numbers and quotations no sentence of the documents has.
        note: what else a reader should know, e.g. that the answer is not there.
    """

    relevant: tuple[Fact, ...]
    dropped: int = 0
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object. What is not known of a source, and what is empty, is left out."""
        told: dict[str, Any] = {
            "relevant": [{"fact": fact.text, "source": _told(fact.source)} for fact in self.relevant]
        }
        if self.dropped:
            told["dropped"] = self.dropped
        if self.note:
            told["note"] = self.note
        return told


def _told(source: Source) -> dict[str, Any]:
    told: dict[str, Any] = {"id": source.entry, "title": source.title}
    if source.section:
        told["section"] = source.section
    if source.page:
        told["page"] = source.page
    elif source.line:
        told["line"] = source.line
    return told


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A stretch of an entry: the entry and its section by their numbers from 0, and the characters in it."""

    entry: int
    section: int
    start: int
    end: int

    def overlaps(self, other: "SourceSpan") -> bool:
        """Return True if they have characters in common."""
        same = (self.entry, self.section) == (other.entry, other.section)
        return same and self.start < other.end and other.start < self.end


def quoted_from(entries: Sequence[Entry], place: SourceSpan) -> Fact:
    """Return what stands at a place."""
    entry = entries[place.entry]
    section = entry.sections[place.section]
    source = Source(
        entry.id, entry.title, entry.path, section.heading, section.line_at(place.start), section.page
    )
    return Fact(section.text[place.start : place.end], source)


_MOST = 10_000  # answers; one takes some hundred bytes
_BUSY_SECONDS = 1.0  # to wait for another program that writes
_CLEAR = 500  # answers that are thrown away at once when there are too many
_TABLE = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, body TEXT NOT NULL, used INTEGER NOT NULL)"
)
_USED = "(SELECT coalesce(max(used), 0) + 1 FROM answers)"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question came to: places among its entries, most telling first; see `Findings` for the rest."""

    found: tuple[SourceSpan, ...]
    dropped: int = 0
    note: str = ""


class Answers:
    """Answers in an SQLite file; the least lately used go when there are too many. For any threads at once.

    It is a cache: a file that is damaged is begun anew, and one that cannot be used is done without.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, key: str, entries: Sequence[Entry]) -> Answer | None:
        """Return the answer that was kept, if there is one and its places are in these entries."""
        row = self._do(lambda db: _take(db, key))
        return _read(row, entries) if isinstance(row, str) else None

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer."""
        places = [[place.entry, place.section, place.start, place.end] for place in answer.found]
        body = json.dumps([places, answer.dropped, answer.note])
        self._do(lambda db: _keep(db, key, body))

    def close(self) -> None:
        """Close the file. Calling it twice does no harm; it is opened again when it is needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _do(self, operation: Callable[[sqlite3.Connection], str | None]) -> str | None:
        with self._lock:
            for attempt in (1, 2):
                try:
                    with self._open() as connection:
                        return operation(connection)
                except sqlite3.OperationalError:
                    return None  # busy, or the disk is full
                except (sqlite3.DatabaseError, OSError):
                    if attempt == 2:
                        return None
                    self._begin_anew()
        return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, check_same_thread=False)
            try:
                # No WAL: of two that turn it on in a new file, SQLite refuses one at once, without waiting.
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(_TABLE)
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin_anew(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for ending in ("", "-journal", "-wal", "-shm"):  # those of WAL: an earlier version turned it on
            with suppress(OSError):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)


def _take(db: sqlite3.Connection, key: str) -> str | None:
    row = db.execute("SELECT body FROM answers WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    db.execute(f"UPDATE answers SET used = {_USED} WHERE key = ?", (key,))
    return str(row[0])


def _keep(db: sqlite3.Connection, key: str, body: str) -> None:
    db.execute(f"INSERT OR REPLACE INTO answers VALUES (?, ?, {_USED})", (key, body))
    (count,) = db.execute("SELECT count(*) FROM answers").fetchone()
    if count > _MOST:
        oldest = "SELECT key FROM answers ORDER BY used LIMIT ?"
        db.execute(f"DELETE FROM answers WHERE key IN ({oldest})", (count - _MOST + _CLEAR,))


def _read(body: str, entries: Sequence[Entry]) -> Answer | None:
    """Return an answer as it was written; None where it is none, or not of these entries."""
    try:
        places, dropped, note = json.loads(body)
        found = tuple(SourceSpan(*map(int, place)) for place in places)
        answer = Answer(found, int(dropped), str(note))
    except (ValueError, TypeError, IndexError):
        return None
    for place in answer.found:
        if not 0 <= place.entry < len(entries) or not 0 <= place.section < len(entries[place.entry].sections):
            return None
        if not 0 <= place.start < place.end <= len(entries[place.entry].sections[place.section].text):
            return None
    return answer
