"""Vectors on disk, by what they stand for and the model that made them; used by one thread at a time."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_VERSION = 1
_AT_ONCE = 500

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (model, digest)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS measured (model TEXT NOT NULL, script TEXT NOT NULL, passages INT NOT NULL,
    good INT NOT NULL, PRIMARY KEY (model, script)) WITHOUT ROWID;
"""


class VectorFile:
    """The file, which can be deleted at any time: it is made again, at the price of embedding again.

    Several processes may use it at once. Every method raises `sqlite3.Error` where the disk fails.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path) -> "VectorFile":
        """Open it, made if it is missing, and made anew if it is broken or of another version."""
        try:
            return cls(_opened(path))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk: nothing is wrong with it
                raise
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)
            return cls(_opened(path))

    def get(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that there are, by digest."""
        found: dict[bytes, bytes] = {}
        for at in range(0, len(digests), _AT_ONCE):
            some = digests[at : at + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            found |= self._db.execute(
                f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})", (model, *some)
            )
        return found

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors by digest."""
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO vectors (model, digest, vector) VALUES (?, ?, ?)",
                [(model, digest, vector) for digest, vector in vectors.items()],
            )

    def count(self) -> int:
        """Return how many vectors there are, of all models."""
        return int(self._db.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def keep_only(self, model: str, digests: Iterable[bytes]) -> None:
        """Drop all vectors but these."""
        with self._db:
            self._db.execute("CREATE TEMP TABLE live (digest BLOB PRIMARY KEY) WITHOUT ROWID")
            self._db.executemany("INSERT OR IGNORE INTO live VALUES (?)", ((each,) for each in digests))
            self._db.execute(
                "DELETE FROM vectors WHERE model <> ? OR digest NOT IN (SELECT digest FROM live)", (model,)
            )
            self._db.execute("DROP TABLE live")

    def measured(self, model: str) -> dict[str, tuple[int, bool]]:
        """Return, by script, how many passages there were when the model was tried, and if it is good."""
        rows = self._db.execute("SELECT script, passages, good FROM measured WHERE model = ?", (model,))
        return {script: (passages, bool(good)) for script, passages, good in rows}

    def note_measured(self, model: str, passages: int, good: Mapping[str, bool]) -> None:
        """Keep what came of trying it, in place of what was kept."""
        with self._db:
            self._db.execute("DELETE FROM measured WHERE model = ?", (model,))
            self._db.executemany(
                "INSERT INTO measured (model, script, passages, good) VALUES (?, ?, ?, ?)",
                [(model, script, passages, is_good) for script, is_good in good.items()],
            )

    def close(self) -> None:
        """Close it. Calling it twice does no harm."""
        self._db.close()


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError("the vectors are of another version")
        if not version:  # another process may make the tables at the same moment
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
