"""The catalogue of a folder's files and entries, in an SQLite file of the cache.

It is the truth that the index follows. A change is written here first, with the ids that the index must
yet be told of (`dirty`); they are struck out when it was told. So a process may be killed anywhere: the
next one tells the index what is left."""

import json
import re
import sqlite3
import unicodedata
import uuid
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from msgspec import Struct

from pixi.core.untrusted import display_line
from pixi.documents.files import Document, Section
from pixi.knowledge.entry import Entry, Fault
from pixi.text.terms import clean

_SHORT = (100_000, 999_999)
_LONG = (100_000_000, 999_999_999)


def candidates(path: str, key: str) -> Iterator[int]:
    """Yield the ids an entry may have, without end: one of six digits, then others of nine.

    They hang on nothing but path and key, so that a folder read anew on another machine has the same ids
    but for the few that met in one number.
    """
    # Computers differ in how they spell an accent in a file's name.
    place = f"{unicodedata.normalize('NFC', path)}\0{key}".encode("utf-8", "surrogatepass")
    salt = 0
    while True:
        low, high = _LONG if salt else _SHORT
        number = int.from_bytes(blake2b(place, digest_size=8, salt=salt.to_bytes(4, "big")).digest(), "big")
        yield low + number % (high - low + 1)
        salt += 1


def new_id(path: str, key: str, taken: Callable[[int], bool]) -> int:
    """Return the first id that is free."""
    return next(number for number in candidates(path, key) if not taken(number))


_HASH = re.compile("[0-9a-f]{24}")
"""The key of a record that is known by its content alone."""


def title_of(path: str, document: Document) -> str:
    """Return the title for people: the document's own, or else the file's name with the record's key."""
    if title := display_line(document.title):
        return title
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    key = "" if _HASH.fullmatch(document.key) else document.key
    return display_line(f"{stem} {key}") or display_line(path)


def _written(sections: Sequence[Section]) -> bytes:
    """Return the sections as JSON; `_unwritten` makes them of it again."""
    rows = [
        [clean(each.text), display_line(each.heading), each.line, each.page, each.on_one_line]
        for each in sections
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


def _unwritten(text: bytes) -> tuple[Section, ...]:
    """Return the sections of what `_written` made."""
    return tuple(Section(*row) for row in json.loads(text))


def digest_of(title: str, text: bytes) -> bytes:
    """Return the hash of a title and of what stands below it."""
    return blake2b(clean(title).encode() + b"\0" + text, digest_size=16).digest()


_VERSION = 1
_AT_ONCE = 1_000

_BROKEN = (
    *(sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT),
    *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
)
"""Error codes of SQLite over a harmed file; the latter where a table's description was, or an index."""

_TABLES = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INT NOT NULL, mtime INT NOT NULL, hash BLOB NOT NULL,
    reason TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX faults ON files (path, reason) WHERE reason <> '';
CREATE TABLE entries (id INTEGER PRIMARY KEY, path TEXT NOT NULL, key TEXT NOT NULL, title TEXT NOT NULL,
    digest TEXT NOT NULL, twin BLOB NOT NULL, shown INT NOT NULL, sections BLOB NOT NULL);
CREATE UNIQUE INDEX records ON entries (path, key);
CREATE INDEX twins ON entries (twin, shown);
CREATE TABLE dirty (id INTEGER PRIMARY KEY);
CREATE TABLE told (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
"""
# entries.twin: the hash of what the document says, without its file's name. Of those that say the same, one
# alone is `shown`: the index holds that one, so that a search does not bring ten copies.


class CatalogueDamaged(Exception):
    """The file is none of ours, of another version, or broken. It can be deleted and made again."""


class ScannedFile(Struct, frozen=True):
    """A file as the walk saw it.

    Attributes:
        path: within the folder, with `/` between the parts.
        size: in bytes.
        mtime: when it was written, in nanoseconds.
    """

    path: str
    size: int
    mtime: int


class Read(Struct, frozen=True):
    """The result of reading a file.

    Attributes:
        hash: of its content; empty where it is to be tried again.
        reason: why it was set aside, or what in it was passed over; else "".
    """

    seen: ScannedFile
    hash: bytes
    documents: Sequence[Document] = ()
    reason: str = ""


class Catalogue:
    """The file, opened. One thread uses it at a time; only the holder of the lock writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path) -> "Catalogue":
        """Open it to write; made if it is missing.

        Raises:
            CatalogueDamaged: see there.
            sqlite3.Error: the disk is full, or it cannot be written.
        """
        catalogue = cls(_connect(path))
        try:
            catalogue._prepare()
        except BaseException as error:
            catalogue.close()
            if is_broken(error):
                raise CatalogueDamaged(str(error)) from error
            raise
        return catalogue

    @classmethod
    def look_into(cls, path: Path) -> "Catalogue | None":
        """Open it to read what another process, or another thread, writes; None: it is not there yet."""
        if not path.is_file():
            return None
        catalogue = cls(_connect(path))
        try:
            if catalogue.version() == _VERSION:
                catalogue._db.execute("PRAGMA query_only = 1")
                return catalogue
        except sqlite3.Error:
            pass  # it is being made, or thrown away
        catalogue.close()
        return None

    def close(self) -> None:
        """Close it. Calling it twice does no harm."""
        self._db.close()

    # Reading.

    def version(self) -> int:
        """Return the version of the tables; 0: there are none."""
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def told(self, name: str) -> str:
        """Return a note by its name; "" where there is none."""
        row = self._db.execute("SELECT value FROM told WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def tell(self, **notes: str | int) -> None:
        """Keep notes by their names."""
        with self._writing():
            self._tell(notes)

    @property
    def token(self) -> str:
        """Names the index that follows this catalogue: another token, another index."""
        return self.told("token")

    def size(self) -> tuple[int, int]:
        """Return how many entries there are, and how many of them the index is to hold."""
        row = self._db.execute("SELECT count(*), total(shown) FROM entries INDEXED BY twins").fetchone()
        return int(row[0]), int(row[1])

    def faults(self) -> list[Fault]:
        """Return the files that were set aside, in order of path."""
        rows = self._db.execute("SELECT path, reason FROM files WHERE reason <> '' ORDER BY path")
        return [Fault(path, reason) for path, reason in rows]

    def entries(self, ids: Iterable[int]) -> Iterator[Entry]:
        """Yield those of them that there are, in the order asked.

        Raises:
            CatalogueDamaged: what is kept of one is not what was written.
        """
        for each in ids:
            if not 0 < each < 2**63:
                continue
            row = self._db.execute(
                "SELECT id, path, key, title, sections, digest FROM entries WHERE id = ?", (each,)
            ).fetchone()
            if row:
                number, path, key, title, sections, digest = row
                yield Entry(number, path, key, title, _sections(title, sections, digest), digest)

    def digests(self) -> dict[int, str]:
        """Return the digest of each entry that the index holds by now, by id."""
        rows = self._db.execute(
            "SELECT id, digest FROM entries WHERE shown AND id NOT IN (SELECT id FROM dirty)"
        )
        return dict(rows)

    # A look at the folder.

    def compare(
        self, files: Iterable[ScannedFile], unseen: Sequence[str] = (), only: Sequence[str] | None = None
    ) -> tuple[list[str], int]:
        """Note what a walk saw; returns the paths that are gone, and how many files are to be looked at.

        Args:
            unseen: is asked when `files` has ended, and only then: folders that could not be looked into.
            only: the files and folders that the walk went to; None: all.
        """
        with self._writing():
            return self._compare(files, unseen, only)

    def _compare(
        self, files: Iterable[ScannedFile], unseen: Sequence[str], only: Sequence[str] | None
    ) -> tuple[list[str], int]:
        self._db.execute("DROP TABLE IF EXISTS temp.seen")
        self._db.execute("CREATE TEMP TABLE seen (path TEXT PRIMARY KEY, size, mtime) WITHOUT ROWID")
        found = iter((each.path, each.size, each.mtime) for each in files)
        while chunk := list(islice(found, _AT_ONCE)):
            self._db.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", chunk)
        missing = "SELECT path FROM files WHERE NOT EXISTS (SELECT 1 FROM seen WHERE seen.path = files.path)"
        if only is None:
            rows = self._db.execute(missing).fetchall()
        else:  # `0` comes behind `/`: all that begins with the path and a stroke
            within = f"{missing} AND (path = ?1 OR (path > ?1 || '/' AND path < ?1 || '0'))"
            rows = [row for path in only for row in self._db.execute(within, (path,))]
        gone = [
            path
            for path in dict.fromkeys(path for (path,) in rows)
            if not any(not folder or path.startswith(f"{folder}/") for folder in unseen)
        ]
        self._db.execute(
            "DELETE FROM seen WHERE EXISTS (SELECT 1 FROM files WHERE files.path = seen.path "
            "AND files.size = seen.size AND files.mtime = seen.mtime AND files.hash <> x'')"
        )
        return gone, int(self._db.execute("SELECT count(*) FROM seen").fetchone()[0])

    def changed(self, after: str, limit: int) -> list[tuple[ScannedFile, bytes]]:
        """Return files to be looked at, in order of path, behind `after`, with the hash each had."""
        rows = self._db.execute(
            "SELECT path, seen.size, seen.mtime, coalesce(files.hash, x'') FROM seen "
            "LEFT JOIN files USING (path) WHERE path > ? ORDER BY path LIMIT ?",
            (after, limit),
        )
        return [(ScannedFile(path, size, mtime), bytes(hash_)) for path, size, mtime, hash_ in rows]

    # Changing.

    def record(self, reads: Sequence[Read], gone: Sequence[str] = (), **notes: str | int) -> dict[int, Entry]:
        """Write what was read, in one transaction, and note of what the index is to be told.

        Returns:
            the entries that were written, so that they need not be unpacked again.
        """
        fresh: dict[int, Entry] = {}
        with self._writing():
            twins: dict[bytes, None] = {}
            for path in gone:
                self._remove(path, (), twins)
                self._db.execute("DELETE FROM files WHERE path = ?", (path,))
            for read in reads:
                self._put(read, fresh, twins)
                seen = read.seen
                self._db.execute(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)",
                    (seen.path, seen.size, seen.mtime, read.hash, read.reason),
                )
            for twin in twins:
                self._show_one(twin)
            if twins:
                self._tell({"entries": self.size()[0]})
            self._tell(notes)
        return fresh

    def touch(self, files: Iterable[ScannedFile]) -> None:
        """Note the new size and time of files that say the same as before."""
        with self._writing():
            self._db.executemany(
                "UPDATE files SET size = ?, mtime = ? WHERE path = ?",
                [(each.size, each.mtime, each.path) for each in files],
            )

    def dirty(self, limit: int) -> tuple[list[int], list[int]]:
        """Return the ids of which the index is to be told: those it shall hold, and those it shall not."""
        rows = self._db.execute(
            "SELECT dirty.id, coalesce(shown, 0) FROM dirty LEFT JOIN entries USING (id) ORDER BY 1 LIMIT ?",
            (limit,),
        ).fetchall()
        return [each for each, shown in rows if shown], [each for each, shown in rows if not shown]

    def mark_told(self, ids: Iterable[int], indexed: int) -> None:
        """Note that the index was told of these ids, and holds so many entries now."""
        with self._writing():
            self._db.executemany("DELETE FROM dirty WHERE id = ?", [(each,) for each in ids])
            self._tell({"generation": int(self.told("generation") or 0) + 1, "indexed": indexed})

    def begin_index(self) -> str:
        """Have another index made, from all that is here; return its token."""
        token = uuid.uuid4().hex[:12]
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO dirty SELECT id FROM entries WHERE shown")
            self._tell({"token": token, "indexed": 0})
        return token

    def trust(self, readers: str) -> None:
        """Have every file read again where other readers read it."""
        if self.told("readers") != readers:
            with self._writing():
                self._db.execute("UPDATE files SET hash = x''")
                self._tell({"readers": readers})

    # What these are made of.

    def _prepare(self) -> None:
        self._db.execute("PRAGMA synchronous = FULL")  # `dirty` must be there before the index is told
        version = self.version()
        if version == _VERSION:
            return
        if version or self._db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise CatalogueDamaged(f"it is of version {version}")
        self._db.execute("PRAGMA journal_mode = WAL")
        # One script is one transaction: no other process sees half of it.
        self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")
        self.begin_index()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _tell(self, notes: "dict[str, str | int]") -> None:
        self._db.executemany("INSERT OR REPLACE INTO told VALUES (?, ?)", list(notes.items()))

    def _put(self, read: Read, fresh: dict[int, Entry], twins: dict[bytes, None]) -> None:
        path = read.seen.path
        rows = self._db.execute("SELECT key, id, digest, twin FROM entries WHERE path = ?", (path,))
        known = {key: (number, digest, twin) for key, number, digest, twin in rows}
        kept: set[str] = set()
        for document in read.documents:
            key = clean(document.key)
            if key in kept:
                continue  # a reader gives each key once, unless a stranger took it over
            kept.add(key)
            title, text = title_of(path, document), _written(document.sections)
            digest = digest_of(title, text).hex()
            number, old, twin = known.get(key, (0, "", b""))
            if old == digest:
                continue
            if number:
                twins[twin] = None
            else:
                number = new_id(path, key, self._is_taken)
            twin = digest_of(document.title, text)
            twins[twin] = None
            self._db.execute(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
                (number, path, key, title, digest, twin, zlib.compress(text, 6)),
            )
            self._db.execute("INSERT OR IGNORE INTO dirty VALUES (?)", (number,))
            fresh[number] = Entry(number, path, key, title, _unwritten(text), digest)
        if known.keys() - kept:
            self._remove(path, kept, twins)

    def _remove(self, path: str, kept: Container[str], twins: dict[bytes, None]) -> None:
        """Remove a file's entries but for those kept."""
        rows = self._db.execute("SELECT id, key, twin FROM entries WHERE path = ?", (path,)).fetchall()
        for number, key, twin in rows:
            if key not in kept:
                twins[twin] = None
                self._db.execute("DELETE FROM entries WHERE id = ?", (number,))
                self._db.execute("INSERT OR IGNORE INTO dirty VALUES (?)", (number,))

    def _show_one(self, twin: bytes) -> None:
        """Let the index hold one of the entries that say the same."""
        row = self._db.execute(
            "SELECT id, shown FROM entries WHERE twin = ? ORDER BY shown DESC, id LIMIT 1", (twin,)
        ).fetchone()
        if row and not row[1]:
            self._db.execute("UPDATE entries SET shown = 1 WHERE id = ?", (row[0],))
            self._db.execute("INSERT OR IGNORE INTO dirty VALUES (?)", (row[0],))

    def _is_taken(self, number: int) -> bool:
        return self._db.execute("SELECT 1 FROM entries WHERE id = ?", (number,)).fetchone() is not None


def _connect(path: Path) -> sqlite3.Connection:
    # Opened by one thread and closed by another; never used by two at once.
    return sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)


def is_broken(error: BaseException | None) -> bool:
    """Return True if an error of SQLite's tells of harm to the file, not of the disk or another process."""
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # not SQLite's own: Python met text that is none
        return str(error).startswith("Could not decode")
    return code & 0xFF in _BROKEN


def _sections(title: str, packed: bytes, digest: str) -> tuple[Section, ...]:
    try:
        text = zlib.decompress(packed)
    except (zlib.error, TypeError) as error:
        raise CatalogueDamaged(str(error)) from error
    if digest_of(title, text).hex() != digest:
        raise CatalogueDamaged("an entry is not as it was written")
    return _unwritten(text)


def discard(path: Path) -> None:
    """Delete a catalogue with what SQLite keeps beside it."""
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        each.unlink(missing_ok=True)
