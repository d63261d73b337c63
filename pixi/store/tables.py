"""Tables that an addon keeps in the store, beside those of the talks and on the same database."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, field

from pixi.core.errors import ConfigError, StoreError
from pixi.store.database import Database
from pixi.store.writer import Writer

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9]{1,30}")
_CHANGE = re.compile(
    r"(?:CREATE (?:UNIQUE )?(?:TABLE|INDEX)|ALTER TABLE|DROP (?:TABLE|INDEX)) (\w+)", re.IGNORECASE
)


def _nothing(db: Database, person: str) -> None: ...


class Schema(Struct, frozen=True):
    """The tables of an addon, and what they hold of people.

    Statements are written in what SQLite and PostgreSQL have in common, with two words that each database
    has in its own way: `{id}` is a number that the database gives, as the primary key, and `{text}` is text
    that is compared by its bytes.

    Attributes:
        name: of the addon, e.g. `books`: lower-case letters and digits. Its tables and indexes begin with
            this name and `_`.
        versions: the statements that lead from each version of the tables to the next, oldest first. Those
            that somebody has used are never changed: what is new stands in a version of its own.
        forget: forgets a person, named as authors are, e.g. `discord:7`.
        told: gives all that is kept of a person, as JSON data.
    """

    name: str
    versions: tuple[tuple[str, ...], ...]
    forget: Callable[[Database, str], None] = field(default=_nothing)
    told: Callable[[Database, str], Any] = field(default=_nothing)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"tables of {self.name!r}: write a name of lower-case letters and digits, e.g. books."
            )
        for statement in (each for version in self.versions for each in version):
            found = _CHANGE.match(statement.strip())
            if found is None or not found[1].startswith(f"{self.name}_"):
                raise ConfigError(
                    f"tables of {self.name!r}: {' '.join(statement.split())[:60]!r} makes or alters no table "
                    f"or index whose name begins with {self.name}_."
                )

    def update(self, db: Database, words: dict[str, str]) -> None:
        """Bring the tables to the present version, in the transaction that is open.

        Args:
            db: the database.
            words: what `id` and `text` are there.

        Raises:
            StoreError: a later version of the addon made them.
        """
        found = db.execute("SELECT version FROM addon_tables WHERE name = ?", (self.name,)).fetchone()
        version = found[0] if found else 0
        if version > len(self.versions):
            raise StoreError(
                f"The tables of {self.name} were made by a later version of the addon ({version}; this one "
                f"knows {len(self.versions)}): update the addon."
            )
        for statement in (each for statements in self.versions[version:] for each in statements):
            db.execute(statement.replace("{id}", words["id"]).replace("{text}", words["text"]))
        if version < len(self.versions):
            db.execute(
                "INSERT INTO addon_tables (name, version) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET version = excluded.version",
                (self.name, len(self.versions)),
            )


class Tables:
    """The tables of an addon. What is asked is carried out in order, off the event loop.

    Args:
        schema: says what they are.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._writer: Writer | None = None

    def bind(self, writer: Writer) -> None:
        """Use the tables of an open store."""
        self._writer = writer

    async def read(self, work: Callable[[Database], T]) -> T:
        """Carry out statements that change nothing, in one transaction.

        Raises:
            StoreError: that could not be done.
        """
        return await self._opened().ask(work, writes=False)

    async def write(self, work: Callable[[Database], T]) -> T:
        """Carry out statements in one transaction: all are kept once this returns, or none.

        Work may be carried out again where nothing of it was kept: it must change nothing else.

        Raises:
            StoreError: that could not be done, and nothing is kept.
        """
        return await self._opened().ask(work)

    def _opened(self) -> Writer:
        if self._writer is None:
            raise StoreError(
                f"The tables of {self.schema.name} are not open: they are once the program has started."
            )
        return self._writer
