"""Opening the store that a URL names: a file, memory, or a PostgreSQL server."""

from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.errors import ConfigError, Reporter
from pixi.store.sqlite.store import MEMORY, SqliteSide, SqliteStore
from pixi.store.store import Store

if TYPE_CHECKING:
    from pixi.store.copying import StoreSide
    from pixi.store.postgres.store import PostgresStore


async def open_store(url: str, tell: Reporter = lambda _: None, *, part: str = "") -> Store:
    """Open the store of a URL, made if it is missing.

    Args:
        url: of the settings.
        tell: told in a line what people should know: that a damaged file was set aside.
        part: of the program, as a server is to show its connection, e.g. `worker`.

    Raises:
        ConfigError: there is no such kind of store, or it cannot be opened.
    """
    if is_postgres(url):
        return await _postgres().open(url, part)
    return await SqliteStore.open(file_of(url) or MEMORY, tell)


async def open_existing(url: str, tell: Reporter) -> Store | None:
    """Open the store of a URL to look into it; None where there is nothing yet, which is not made.

    Raises:
        ConfigError: as `open_store`.
    """
    if is_postgres(url):
        return await _postgres().open_existing(url)
    path = file_of(url)
    return await SqliteStore.open(path, tell) if path is not None and _is_there(path) else None


def _is_there(path: Path) -> bool:
    """Return False where there is nothing; what cannot be looked at is there, and opening it says why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a zero byte in the path
        return False
    except OSError:
        return True
    return True


def is_postgres(url: str) -> bool:
    """Return True if a URL names a PostgreSQL server."""
    return url.startswith(("postgresql://", "postgres://"))


def open_side(url: str, *, is_target: bool) -> "StoreSide":
    """Open the source or the target of a copy. It blocks.

    Raises:
        ConfigError: it cannot be opened, or is no store that lasts.
    """
    if is_postgres(url):
        _postgres()  # which says what is missing
        from pixi.store.postgres.store import PostgresSide

        return PostgresSide.open_target(url) if is_target else PostgresSide.open_source(url)
    path = file_of(url)
    if path is None:
        raise ConfigError("A store in memory cannot be copied: name a file, as in sqlite:///pixi.db.")
    return SqliteSide.open_target(path) if is_target else SqliteSide.open_source(path)


def _postgres() -> "type[PostgresStore]":
    try:
        from pixi.store.postgres.store import PostgresStore
    except ImportError:
        raise ConfigError(
            "[store] url names a PostgreSQL server, for which psycopg is missing: "
            "pip install 'pixi-persona[postgres]'"
        ) from None
    return PostgresStore


def file_of(url: str) -> Path | None:
    """Return the file that a URL stands for; None: in memory.

    `sqlite:///pixi.db` is a file in the working directory, `sqlite:////var/pixi.db` one anywhere;
    `sqlite://` and `:memory:` are kept nowhere.

    Raises:
        ConfigError: it stands for none.
    """
    scheme, mark, rest = url.partition("://")
    if url == MEMORY or (scheme == "sqlite" and mark and rest in ("", "/", f"/{MEMORY}")):
        return None
    if scheme == "sqlite" and rest.startswith("/"):
        return Path(rest[1:]).expanduser()
    # Not shown: a URL may hold a password.
    raise ConfigError(
        "[store] url names no store; write sqlite:///pixi.db, sqlite:////folder/pixi.db, "
        "or postgresql://user:password@host:5432/database."
    )
