"""Files that people sent over HTTP: whose they are. What is in them lies in a folder beside the store."""

from collections.abc import Iterable

from pixi.store.database import Database
from pixi.store.kept import SentFile
from pixi.store.statements.many import select_many

_COLUMNS = "id, person, name, media_type, size, digest, sent_at"


def add(db: Database, file: SentFile, most_bytes: int) -> bool:
    """Keep a file; False if all of its person's would be larger than so many bytes together."""
    if bytes_of(db, file.person) + file.size > most_bytes:
        return False
    db.execute(
        f"INSERT INTO files ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (file.id, file.person, file.name, file.media_type, file.size, file.digest, file.sent_at),
    )
    return True


def of_id(db: Database, file_id: str) -> SentFile | None:
    """The file of that id."""
    found = db.execute(f"SELECT {_COLUMNS} FROM files WHERE id = ?", (file_id,)).fetchone()
    return None if found is None else SentFile(*found)


def files_of(db: Database, person: str) -> tuple[SentFile, ...]:
    """All files of a person, the first sent first."""
    found = db.execute(f"SELECT {_COLUMNS} FROM files WHERE person = ? ORDER BY sent_at, id", (person,))
    return tuple(SentFile(*row) for row in found)


def bytes_of(db: Database, person: str) -> int:
    """How large all files of a person are together."""
    (size,) = db.execute("SELECT coalesce(sum(size), 0) FROM files WHERE person = ?", (person,)).fetchone()
    return int(size)


def among(db: Database, ids: Iterable[str]) -> frozenset[str]:
    """Those of these ids that are there."""
    found = select_many(db, "SELECT id FROM files WHERE id IN ({})", ids)
    return frozenset(file_id for (file_id,) in found)


def drop(db: Database, file_id: str) -> None:
    """Keep a file no longer."""
    db.execute("DELETE FROM files WHERE id = ?", (file_id,))


def forget(db: Database, person: str) -> None:
    """Forget the files of a person."""
    db.execute("DELETE FROM files WHERE person = ?", (person,))


def forget_old(db: Database, before: float, most: int) -> int:
    """Forget at most so many files that were sent before a time; gives how many."""
    found = db.execute(
        "SELECT id FROM files WHERE sent_at < ? ORDER BY sent_at LIMIT ?", (before, most)
    ).fetchall()
    db.executemany("DELETE FROM files WHERE id = ?", found)
    return len(found)
