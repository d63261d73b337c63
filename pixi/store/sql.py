"""The store, whatever the database: each method is one function of statements, carried out by the thread."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pixi.core.conversation import Bounds
from pixi.core.events import Finish
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.memory import Memory
from pixi.core.message import Message
from pixi.core.spending import Part, Scope, UsageEntry
from pixi.store.database import Connection
from pixi.store.framing import Framing
from pixi.store.kept import (
    Alternative,
    AnsweredMessage,
    ApiKey,
    AuditOutcome,
    AuditRecord,
    Begun,
    ChannelConfig,
    Circle,
    CommandOutcome,
    Deed,
    Fold,
    Forgotten,
    FoundWords,
    Known,
    ListedTalk,
    LookedBack,
    Mark,
    Outcome,
    Quota,
    SavedConversation,
    SentFile,
    Talk,
    TalkFilter,
    Tally,
    TurnRecord,
    TurnSums,
)
from pixi.store.statements import (
    auditing,
    branches,
    chosen,
    files,
    forgotten,
    inbox,
    journal,
    keys,
    leases,
    listing,
    looking_back,
    memories,
    people,
    records,
    retention,
    talks,
    told,
    windows,
)
from pixi.store.statements import usage as usage_rows
from pixi.store.statements.journal import Beginning, CommandEnd, Ending, Intent, Plan, Settlement, record
from pixi.store.tables import Schema, Tables
from pixi.store.writer import Row, Writer


class SqlStore:
    """`Store` over a database. Several processes may use one at once."""

    WORDS: ClassVar[dict[str, str]]
    """What the `id` and the `text` of a `Schema` are in this database."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._schemas: list[Schema] = []
        self._is_owner = False  # from then on a lease needs no transaction of its own

    @property
    def name(self) -> str:
        """What it is called where people are told of it: its file, or its server and database."""
        return self._writer.name

    def receive(self, message: Message) -> Awaitable[Message | None]:
        """See `Store.receive`."""
        return self._writer.ask(Row(inbox.receive, message, 0))

    async def revise(self, conversation: str, message_id: str, text: str) -> bool:
        """See `Store.revise`."""
        return await self._writer.ask(lambda db: inbox.revise(db, conversation, message_id, text))

    async def withdraw(self, conversation: str, message_id: str) -> bool:
        """See `Store.withdraw`."""
        return await self._writer.ask(lambda db: inbox.withdraw(db, conversation, message_id))

    async def only_hear(self, conversation: str, message_ids: Iterable[str]) -> None:
        """See `Store.only_hear`."""
        ids = tuple(message_ids)
        await self._writer.ask(lambda db: inbox.only_hear(db, conversation, ids))

    async def message_id(self, conversation: str, number: int) -> str | None:
        """See `Store.message_id`."""
        return await self._writer.ask(lambda db: inbox.message_id(db, conversation, number), writes=False)

    async def unanswered(self, prefix: str, since: float) -> tuple[str, ...]:
        """See `Store.unanswered`."""
        return await self._writer.ask(lambda db: inbox.unanswered(db, prefix, since), writes=False)

    def load(self, conversation: str, context_tokens: int | None = None) -> Awaitable[SavedConversation]:
        """See `Store.load`."""
        return self._writer.ask(lambda db: journal.load(db, conversation, context_tokens), writes=False)

    def lease(self, conversation: str, *, take: bool = False) -> Awaitable[int]:
        """See `Store.lease`."""

        def lease(db: Connection) -> int:
            return leases.lease(db, conversation, take=take)

        def first(db: Connection) -> int:
            db.become_owner()
            self._is_owner = True
            return db.transact(lambda: lease(db), writes=True)

        return self._writer.ask(lease) if self._is_owner else self._writer.ask(first, alone=True)

    async def release(self, conversation: str) -> None:
        """See `Store.release`."""
        await self._writer.ask(lambda db: leases.release(db, conversation))

    async def owned_elsewhere(self, conversation: str) -> bool:
        """See `Store.owned_elsewhere`."""
        return await self._writer.ask(lambda db: leases.owned_elsewhere(db, conversation), writes=False)

    async def begin_turn(
        self,
        conversation: str,
        generation: int,
        persona: str,
        message_ids: tuple[str, ...],
        *,
        model: str = "",
        revision: int | None = None,
        lease: int,
    ) -> Begun:
        """See `Store.begin_turn`."""
        beginning = Beginning(conversation, generation, persona, tuple(message_ids), lease, model, revision)
        return await self._writer.ask(Row(journal.begin_turns, beginning, 1))

    def plan(self, turn: int, commands: Sequence[Planned]) -> Awaitable[None]:
        """See `Store.plan`."""
        return self._writer.ask(Row(record, Plan(turn, tuple(commands)), 2))

    def command_ended(
        self, turn: int, number: int, outcome: CommandOutcome, *, later: bool = False
    ) -> Awaitable[None]:
        """See `Store.command_ended`."""
        return self._writer.ask(Row(record, CommandEnd(turn, number, outcome), 2), later=later)

    def mark_turn(self, turn: int, mark: Mark) -> Awaitable[None]:
        """See `Store.mark_turn`."""
        return self._writer.ask(lambda db: journal.mark_turn(db, turn, mark))

    def intend(
        self,
        turn: int,
        sequence: int,
        kind: str,
        payload: str,
        *,
        target: int = 0,
        command: int | None = None,
        outcome: Outcome | None = None,
    ) -> Awaitable[None]:
        """See `Store.intend`."""
        intent = Intent(turn, sequence, kind, payload, target, command, outcome)
        return self._writer.ask(Row(record, intent, 2))

    def settle(
        self,
        turn: int,
        sequence: int,
        outcome: Outcome,
        platform_id: str | None = None,
        *,
        later: bool = False,
    ) -> Awaitable[None]:
        """See `Store.settle`."""
        settlement = Settlement(turn, sequence, outcome, platform_id)
        return self._writer.ask(Row(record, settlement, 2), later=later)

    async def end_turn(
        self,
        turn: int,
        lines: tuple[Line, ...],
        finish: Finish,
        steps: int,
        usage: Usage,
        *,
        cost: float | None = None,
        model: str | None = None,
        spent: Sequence[UsageEntry] = (),
        window: Bounds | None = None,
        again: Sequence[str] = (),
        framing: Framing | None = None,
    ) -> bool:
        """See `Store.end_turn`."""
        ending = Ending(
            turn,
            lines,
            finish,
            steps,
            usage,
            cost,
            model,
            tuple(spent),
            window,
            tuple(again),
            framing,
        )
        recorded = await self._writer.ask(Row(journal.end_turns, ending, 3))
        if not recorded:  # acts were recorded after everything was forgotten
            await self._sweep()
        return recorded

    async def begin_fold(self, conversation: str, generation: int, before: int) -> Fold | None:
        """See `Store.begin_fold`."""
        return await self._writer.ask(lambda db: windows.begin_fold(db, conversation, generation, before))

    async def end_fold(self, conversation: str, fold: Fold, bounds: Bounds, summary: str) -> bool:
        """See `Store.end_fold`."""
        return await self._writer.ask(lambda db: windows.end_fold(db, conversation, fold, bounds, summary))

    async def reset(self, conversation: str) -> int:
        """See `Store.reset`."""
        generation = await self._writer.ask(lambda db: journal.reset(db, conversation))
        await self._sweep()
        return generation

    async def rewind(self, conversation: str, turn: int) -> str:
        """See `Store.rewind`."""
        return await self._writer.ask(lambda db: branches.rewind(db, conversation, turn))

    async def branches(self, conversation: str) -> tuple[str, ...]:
        """See `Store.branches`."""
        return await self._writer.ask(lambda db: branches.of(db, conversation), writes=False)

    async def alternatives(self, conversation: str) -> tuple[Alternative, ...]:
        """See `Store.alternatives`."""
        return await self._writer.ask(lambda db: records.alternatives(db, conversation), writes=False)

    async def restore(self, conversation: str, branch: str) -> None:
        """See `Store.restore`."""
        await self._writer.ask(lambda db: branches.restore(db, conversation, branch))

    async def forget(self, person: str) -> tuple[str, ...]:
        """See `Store.forget`."""

        def forget(db: Connection) -> tuple[str, ...]:
            for schema in self._schemas:
                schema.forget(db, person)
            return people.forget(db, person)

        changed = await self._writer.ask(forget)
        await self._sweep()
        return changed

    async def forgotten(self, revision: int) -> Forgotten:
        """See `Store.forgotten`."""
        return await self._writer.ask(lambda db: forgotten.since(db, revision), writes=False)

    async def people(self, name: str) -> tuple[Known, ...]:
        """See `Store.people`."""
        return await self._writer.ask(lambda db: told.known(db, name), writes=False)

    async def forget_old(self, before: float) -> bool:
        """See `Store.forget_old`."""
        more = await self._writer.ask(lambda db: retention.forget_old(db, before))
        if not more:
            await self._sweep()
        return more

    async def export(self, person: str) -> dict[str, Any]:
        """See `Store.export`."""

        def export(db: Connection) -> dict[str, Any]:
            kept = {schema.name: schema.told(db, person) for schema in self._schemas}
            return told.export(db, person) | {name: each for name, each in kept.items() if each}

        return await self._writer.ask(export, writes=False)

    async def turn_behind(self, prefix: str, platform_id: str) -> TurnRecord | None:
        """See `Store.turn_behind`."""
        return await self._writer.ask(lambda db: records.turn_behind(db, prefix, platform_id), writes=False)

    async def turns(self, conversation: str, limit: int, before: int | None = None) -> tuple[TurnRecord, ...]:
        """See `Store.turns`."""
        return await self._writer.ask(lambda db: records.turns(db, conversation, limit, before), writes=False)

    async def look_back(self, turn: int) -> LookedBack | None:
        """See `Store.look_back`."""
        return await self._writer.ask(lambda db: looking_back.look_back(db, turn), writes=False)

    async def answer_to(self, conversation: str, message_id: str) -> AnsweredMessage | None:
        """See `Store.answer_to`."""
        return await self._writer.ask(
            lambda db: records.answer_to(db, conversation, message_id), writes=False
        )

    async def messages_of(
        self, turns: Sequence[int], *, overheard: bool = False, pictures: bool = False
    ) -> dict[int, tuple[Message, ...]]:
        """See `Store.messages_of`."""
        return await self._writer.ask(
            lambda db: records.messages_of(db, turns, overheard=overheard, with_pictures=pictures),
            writes=False,
        )

    async def last_asked(self, conversation: str) -> tuple[int | None, tuple[Message, ...]]:
        """See `Store.last_asked`."""
        return await self._writer.ask(lambda db: records.last_asked(db, conversation), writes=False)

    async def tally(self, prefix: str, since: float) -> Tally:
        """See `Store.tally`."""
        return await self._writer.ask(lambda db: records.tally(db, prefix, since), writes=False)

    async def audit_begin(
        self, deed: Deed, *, spent: Sequence[UsageEntry] = (), quota: Quota | None = None
    ) -> int:
        """See `Store.audit_begin`."""

        def begin(db: Connection) -> int:
            if quota is not None and quota.once:
                again = auditing.known(db, deed, quota.seconds)
                if again is not None:
                    return again
            if quota is not None:
                auditing.check_quota(db, deed.person, quota)
            usage_rows.spend(db, spent)
            return auditing.begin(db, deed)

        return await self._writer.ask(begin)

    async def audit_end(self, number: int, outcome: AuditOutcome, seconds: float) -> None:
        """See `Store.audit_end`."""
        await self._writer.ask(lambda db: auditing.end(db, number, outcome, seconds))

    async def audit(self, limit: int, prefix: str = "") -> tuple[AuditRecord, ...]:
        """See `Store.audit`."""
        return await self._writer.ask(lambda db: auditing.latest(db, limit, prefix), writes=False)

    async def spend(self, spent: Iterable[UsageEntry]) -> None:
        """See `Store.spend`."""
        entries = tuple(spent)
        await self._writer.ask(lambda db: usage_rows.spend(db, entries))

    async def used(self, day: int, scope: Scope, name: str, *, since: int | None = None) -> UsageEntry:
        """See `Store.used`."""
        return await self._writer.ask(lambda db: usage_rows.used(db, day, scope, name, since), writes=False)

    async def usage(self, first: int, last: int, *by: Part) -> tuple[UsageEntry, ...]:
        """See `Store.usage`."""
        return await self._writer.ask(lambda db: usage_rows.usage(db, first, last, by), writes=False)

    async def notice(self, day: int, scope: Scope, name: str) -> bool:
        """See `Store.notice`."""
        return await self._writer.ask(lambda db: usage_rows.notice(db, day, scope, name))

    def keep_talk(self, talk: Talk) -> Awaitable[None]:
        """See `Store.keep_talk`."""
        return self._writer.ask(lambda db: talks.keep(db, talk))

    async def talks(self, person: str, persona: str, limit: int) -> tuple[Talk, ...]:
        """See `Store.talks`."""
        return await self._writer.ask(lambda db: talks.latest(db, person, persona, limit), writes=False)

    async def talk(self, person: str, name: str, persona: str = "") -> Talk | None:
        """See `Store.talk`."""
        return await self._writer.ask(lambda db: talks.named(db, person, name, persona), writes=False)

    async def circles(self, conversations: Iterable[str]) -> dict[str, Circle]:
        """See `Store.circles`."""
        wanted = tuple(conversations)
        return await self._writer.ask(lambda db: talks.circles(db, wanted), writes=False)

    async def list_talks(
        self, wanted: TalkFilter, limit: int, before: tuple[float, str] | None = None
    ) -> tuple[ListedTalk, ...]:
        """See `Store.list_talks`."""
        return await self._writer.ask(lambda db: listing.talks(db, wanted, before, limit), writes=False)

    async def listed_talk(self, conversation: str) -> ListedTalk | None:
        """See `Store.listed_talk`."""
        return await self._writer.ask(lambda db: listing.talk(db, conversation), writes=False)

    async def find_words(
        self, conversation: str, words: Sequence[str], before: int | None = None
    ) -> FoundWords:
        """See `Store.find_words`."""
        return await self._writer.ask(
            lambda db: listing.find_words(db, conversation, words, before), writes=False
        )

    async def list_people(
        self, name: str, limit: int, before: tuple[int, str] | None = None
    ) -> tuple[tuple[int, str], ...]:
        """See `Store.list_people`."""
        return await self._writer.ask(lambda db: listing.people(db, name, before, limit), writes=False)

    async def names_of(self, people: Iterable[str]) -> dict[str, str]:
        """See `Store.names_of`."""
        wanted = tuple(people)
        return await self._writer.ask(lambda db: listing.names_of(db, wanted), writes=False)

    async def list_memories(
        self, person: str, persona: str, words: Sequence[str], before: int | None = None
    ) -> tuple[tuple[Memory, ...], int | None]:
        """See `Store.list_memories`."""
        return await self._writer.ask(
            lambda db: listing.facts(db, person, persona, words, before), writes=False
        )

    async def usage_by_persona(self, since: float, until: float) -> dict[str, TurnSums]:
        """See `Store.usage_by_persona`."""
        return await self._writer.ask(lambda db: listing.by_persona(db, since, until), writes=False)

    async def add_file(self, file: SentFile, most_bytes: int) -> bool:
        """See `Store.add_file`."""
        return await self._writer.ask(lambda db: files.add(db, file, most_bytes))

    async def file(self, file_id: str) -> SentFile | None:
        """See `Store.file`."""
        return await self._writer.ask(lambda db: files.of_id(db, file_id), writes=False)

    async def file_bytes(self, person: str) -> int:
        """See `Store.file_bytes`."""
        return await self._writer.ask(lambda db: files.bytes_of(db, person), writes=False)

    async def drop_file(self, file_id: str) -> None:
        """See `Store.drop_file`."""
        await self._writer.ask(lambda db: files.drop(db, file_id))

    async def files_among(self, ids: Iterable[str]) -> frozenset[str]:
        """See `Store.files_among`."""
        wanted = tuple(ids)
        return await self._writer.ask(lambda db: files.among(db, wanted), writes=False)

    async def add_key(self, key: ApiKey) -> bool:
        """See `Store.add_key`."""
        return await self._writer.ask(lambda db: keys.add(db, key))

    async def keys(self) -> tuple[ApiKey, ...]:
        """See `Store.keys`."""
        return await self._writer.ask(keys.every, writes=False)

    async def key_of(self, digest: str) -> ApiKey | None:
        """See `Store.key_of`."""
        return await self._writer.ask(lambda db: keys.of_digest(db, digest), writes=False)

    async def revoke_key(self, name: str, at: float) -> bool:
        """See `Store.revoke_key`."""
        return await self._writer.ask(lambda db: keys.revoke(db, name, at))

    async def places(self) -> dict[str, ChannelConfig]:
        """See `Store.places`."""
        return await self._writer.ask(chosen.places, writes=False)

    async def set_place(self, address: str, place: ChannelConfig) -> None:
        """See `Store.set_place`."""
        await self._writer.ask(lambda db: chosen.set_place(db, address, place))

    async def watermarks(self, prefix: str) -> dict[str, int]:
        """See `Store.watermarks`."""
        return await self._writer.ask(lambda db: chosen.watermarks(db, prefix), writes=False)

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        """See `Store.mark`."""
        news = dict(watermarks)  # whoever asks may go on counting in it
        await self._writer.ask(lambda db: chosen.mark(db, news))

    async def remember(self, memory: Memory, *, message_id: str = "") -> tuple[Memory, tuple[Memory, ...]]:
        """See `Store.remember`."""
        return await self._writer.ask(lambda db: memories.remember(db, memory, message_id))

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
        await self._sweep()

    async def memories_shown(self, conversation: str, message_id: str, people: Iterable[str]) -> None:
        """See `Store.memories_shown`."""
        persons = tuple(people)
        await self._writer.ask(lambda db: memories.shown(db, conversation, message_id, persons))

    async def open_tables(self, tables: Tables) -> None:
        """Open the tables of an addon, made or brought to their present version.

        From then on this store forgets and exports what they hold of people, too.

        Raises:
            StoreError: a later version of the addon made them, its statements are wrong, or nothing can be
                written.
        """
        await self._writer.ask(lambda db: tables.schema.update(db, self.WORDS))
        self._schemas.append(tables.schema)
        tables.bind(self._writer)

    async def unreached_tables(self) -> tuple[str, ...]:
        """Names of addons whose tables are there, and that nobody opened: `forget` does not reach these."""
        names = await self._writer.ask(
            lambda db: [name for (name,) in db.execute("SELECT name FROM addon_tables ORDER BY name")],
            writes=False,
        )
        opened = {schema.name for schema in self._schemas}
        return tuple(name for name in names if name not in opened)

    async def check(self) -> None:
        """Read through all of it, which takes a while for a large file.

        Raises:
            StoreError: it is damaged.
        """
        await self._writer.ask(lambda db: db.check(), writes=False)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._writer.close()

    async def _sweep(self) -> None:
        """What was deleted is gone from the disk too."""
        await self._writer.ask(lambda db: db.sweep(), alone=True)
