"""The store in an SQLite file, which is the default."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pixi.core.deltas import Usage
from pixi.core.errors import ConfigError
from pixi.core.events import Finish
from pixi.core.lines import Line
from pixi.core.memory import Memory
from pixi.core.message import Message
from pixi.store import auditing, chosen, inbox, journal, memories, people, records
from pixi.store.journal import Intent, Settlement, record
from pixi.store.schema import connect, empty_wal
from pixi.store.store import (
    AuditOutcome,
    AuditRecord,
    Deed,
    Outcome,
    Place,
    SavedConversation,
    Tally,
    TurnRecord,
)
from pixi.store.writer import Row, Writer

MEMORY = ":memory:"


class SqliteStore:
    """`Store` over one file, or in memory. Several processes may use a file at once."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @classmethod
    async def open(cls, path: Path | str) -> "SqliteStore":
        """Open the file, made if it is missing; `":memory:"` is kept nowhere.

        Raises:
            ConfigError: it cannot be opened, or is not ours. It is left as it is.
        """
        writer = Writer(str(path), partial(connect, None if path == MEMORY else Path(path)))
        await writer.open()
        return cls(writer)

    async def receive(self, message: Message) -> Message | None:
        """See `Store.receive`."""
        return await self._writer.ask(lambda db: inbox.receive(db, message))

    async def revise(self, conversation: str, message_id: str, text: str) -> bool:
        """See `Store.revise`."""
        return await self._writer.ask(lambda db: inbox.revise(db, conversation, message_id, text))

    async def withdraw(self, conversation: str, message_id: str) -> bool:
        """See `Store.withdraw`."""
        return await self._writer.ask(lambda db: inbox.withdraw(db, conversation, message_id))

    async def message_id(self, conversation: str, number: int) -> str | None:
        """See `Store.message_id`."""
        return await self._writer.ask(lambda db: inbox.message_id(db, conversation, number), writes=False)

    async def unanswered(self, prefix: str, since: float) -> tuple[str, ...]:
        """See `Store.unanswered`."""
        return await self._writer.ask(lambda db: inbox.unanswered(db, prefix, since), writes=False)

    async def load(self, conversation: str) -> SavedConversation:
        """See `Store.load`."""
        return await self._writer.ask(lambda db: journal.load(db, conversation), writes=False)

    async def begin_turn(
        self,
        conversation: str,
        generation: int,
        persona: str,
        message_ids: tuple[str, ...],
        *,
        model: str = "",
    ) -> int:
        """See `Store.begin_turn`."""
        return await self._writer.ask(
            lambda db: journal.begin_turn(db, conversation, generation, persona, message_ids, model=model)
        )

    async def intend(self, turn: int, sequence: int, kind: str, payload: str, *, target: int = 0) -> None:
        """See `Store.intend`."""
        await self._writer.ask(Row(record, Intent(turn, sequence, kind, payload, target)))

    async def settle(
        self, turn: int, sequence: int, outcome: Outcome, platform_id: str | None = None
    ) -> None:
        """See `Store.settle`."""
        await self._writer.ask(Row(record, Settlement(turn, sequence, outcome, platform_id)))

    async def end_turn(
        self,
        turn: int,
        lines: tuple[Line, ...],
        finish: Finish,
        steps: int,
        usage: Usage,
        *,
        cost: float | None = None,
    ) -> bool:
        """See `Store.end_turn`."""
        return await self._writer.ask(
            lambda db: journal.end_turn(db, turn, lines, finish=finish, steps=steps, usage=usage, cost=cost)
        )

    async def reset(self, conversation: str) -> int:
        """See `Store.reset`."""
        generation = await self._writer.ask(lambda db: journal.reset(db, conversation))
        await self._writer.ask(empty_wal, alone=True)
        return generation

    async def forget(self, person: str) -> tuple[str, ...]:
        """See `Store.forget`."""
        changed = await self._writer.ask(lambda db: people.forget(db, person))
        await self._writer.ask(empty_wal, alone=True)
        return changed

    async def export(self, person: str) -> dict[str, Any]:
        """See `Store.export`."""
        return await self._writer.ask(lambda db: people.export(db, person), writes=False)

    async def turn_behind(self, prefix: str, platform_id: str) -> TurnRecord | None:
        """See `Store.turn_behind`."""
        return await self._writer.ask(lambda db: records.turn_behind(db, prefix, platform_id), writes=False)

    async def turns(self, conversation: str, limit: int) -> tuple[TurnRecord, ...]:
        """See `Store.turns`."""
        return await self._writer.ask(lambda db: records.turns(db, conversation, limit), writes=False)

    async def tally(self, prefix: str, since: float) -> Tally:
        """See `Store.tally`."""
        return await self._writer.ask(lambda db: records.tally(db, prefix, since), writes=False)

    async def audit_begin(self, deed: Deed) -> int:
        """See `Store.audit_begin`."""
        return await self._writer.ask(lambda db: auditing.begin(db, deed))

    async def audit_end(self, number: int, outcome: AuditOutcome, seconds: float) -> None:
        """See `Store.audit_end`."""
        await self._writer.ask(lambda db: auditing.end(db, number, outcome, seconds))

    async def audit(self, limit: int, prefix: str = "") -> tuple[AuditRecord, ...]:
        """See `Store.audit`."""
        return await self._writer.ask(lambda db: auditing.latest(db, limit, prefix), writes=False)

    async def places(self) -> dict[str, Place]:
        """See `Store.places`."""
        return await self._writer.ask(chosen.places, writes=False)

    async def set_place(self, address: str, place: Place) -> None:
        """See `Store.set_place`."""
        await self._writer.ask(lambda db: chosen.set_place(db, address, place))

    async def watermarks(self, prefix: str) -> dict[str, int]:
        """See `Store.watermarks`."""
        return await self._writer.ask(lambda db: chosen.watermarks(db, prefix), writes=False)

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        """See `Store.mark`."""
        news = dict(watermarks)  # whoever asks may go on counting in it
        await self._writer.ask(lambda db: chosen.mark(db, news))

    async def remember(self, memory: Memory) -> tuple[Memory, tuple[Memory, ...]]:
        """See `Store.remember`."""
        return await self._writer.ask(lambda db: memories.remember(db, memory))

    async def memories(self, person: str, persona: str) -> tuple[Memory, ...]:
        """See `Store.memories`."""
        return await self._writer.ask(lambda db: memories.memories(db, person, persona), writes=False)

    async def memories_of_guild(
        self, guild: str, persona: str, person: str | None = None
    ) -> tuple[Memory, ...]:
        """See `Store.memories_of_guild`."""
        return await self._writer.ask(
            lambda db: memories.memories_of_guild(db, guild, persona, person), writes=False
        )

    async def count_uses(self, ids: Iterable[int]) -> None:
        """See `Store.count_uses`."""
        numbers = tuple(ids)
        await self._writer.ask(lambda db: memories.count_uses(db, numbers))

    async def drop_memories(self, ids: Iterable[int]) -> None:
        """See `Store.drop_memories`."""
        numbers = tuple(ids)
        await self._writer.ask(lambda db: memories.drop(db, numbers))
        await self._writer.ask(empty_wal, alone=True)

    async def memories_shown(self, conversation: str, message_id: str, people: Iterable[str]) -> None:
        """See `Store.memories_shown`."""
        persons = tuple(people)
        await self._writer.ask(lambda db: memories.shown(db, conversation, message_id, persons))

    async def check(self) -> None:
        """Read through the whole file, which takes a while for a large one.

        Raises:
            StoreError: it is damaged.
        """
        await self._writer.ask(journal.check, writes=False)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._writer.close()


async def open_store(url: str) -> SqliteStore:
    """Open the store of a URL.

    Raises:
        ConfigError: as `file_of`, or it cannot be opened.
    """
    path = file_of(url)
    return await SqliteStore.open(MEMORY if path is None else path)


def file_of(url: str) -> Path | None:
    """The file that a URL stands for; None: in memory.

    `sqlite:///pixi.db` is a file in the working directory, `sqlite:////var/pixi.db` one anywhere;
    `sqlite://` and `:memory:` are kept nowhere.

    Raises:
        ConfigError: there is no such kind of store.
    """
    scheme, mark, rest = url.partition("://")
    if url == MEMORY or (scheme == "sqlite" and mark and rest in ("", "/", f"/{MEMORY}")):
        return None
    if scheme == "sqlite" and rest.startswith("/"):
        return Path(rest[1:]).expanduser()
    if scheme.startswith("postgres"):
        raise ConfigError("[store] url: PostgreSQL comes in a later version; use sqlite:///pixi.db.")
    # Not shown: a URL may hold a password.
    raise ConfigError("[store] url names no store; write sqlite:///pixi.db, or sqlite:////folder/pixi.db.")
