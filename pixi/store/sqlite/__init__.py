"""The store in an SQLite file, which is the default."""

from pixi.store.sqlite.store import MEMORY, SqliteStore

__all__ = ["MEMORY", "SqliteStore"]
