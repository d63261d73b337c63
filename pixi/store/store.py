"""The store: recorded before it is performed; a turn's end is one transaction."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from pixi.core.conversation import Bounds
from pixi.core.events import Finish
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.message import Message
from pixi.core.spending import Part, UsageEntry
from pixi.store.database import Connection, Within
from pixi.store.framing import Framing
from pixi.store.kept import (
    Begun,
    Circle,
    CommandOutcome,
    Deed,
    KeyedRequest,
    Mark,
    Outcome,
    Quota,
    SavedConversation,
    Talk,
)
from pixi.store.statements import audit as audit_rows
from pixi.store.statements import branches as branch_rows
from pixi.store.statements import (
    forgetting,
    history,
    http,
    inbox,
    journal,
    leases,
    listing,
    personal_data,
    windows,
)
from pixi.store.statements import memories as memory_rows
from pixi.store.statements import usage as usage_rows
from pixi.store.statements.journal import Beginning, CommandEnd, Ending, Intent, Plan, Settlement, record
from pixi.store.tables import Schema, Tables
from pixi.store.writer import Row, Writer

T = TypeVar("T")
P = ParamSpec("P")
Operation = Callable[Concatenate[Connection, P], T]
Method = Callable[Concatenate["Store", P], Coroutine[Any, Any, T]]


def _reads(work: Operation[P, T], *, of_first: bool = False, within: Within = None) -> Method[P, T]:
    """Make a method that carries out statements which change nothing.

    Args:
        work: the statements.
        of_first: they go by the conversation alone that is the first argument.
        within: what they go by otherwise, see `Writer.ask`.
    """
    return _method(work, of_first=of_first, within=within, writes=False)


def _writes(work: Operation[P, T], *, of_first: bool = False) -> Method[P, T]:
    """Make a method that carries out statements in one transaction; see `_reads`."""
    return _method(work, of_first=of_first, within=None, writes=True)


def _method(work: Operation[P, T], *, of_first: bool, within: Within, writes: bool) -> Method[P, T]:
    @wraps(work)
    async def method(store: "Store", /, *args: P.args, **named: P.kwargs) -> T:
        touched = (str(args[0]),) if of_first else within
        return await store._writer.ask(lambda db: work(db, *args, **named), writes=writes, within=touched)

    return method


class Store:
    """Keep everything that must outlive the process, in either database. All methods raise `StoreError`
    alone.

    A method returns once the change is committed. Calls are carried out by a thread, in the order they were
    made; those that are no coroutines take their place in it at once, before they are awaited. Several
    processes may use one database at once.
    """

    WORDS: ClassVar[dict[str, str]]
    """The SQL for `{id}` and `{text}` in this database, see `Schema`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._schemas: list[Schema] = []
        self._is_owner = False  # from then on a lease needs no transaction of its own

    @property
    def name(self) -> str:
        """Return the name for people: the file, or the server and the database."""
        return self._writer.name

    def receive(self, message: Message) -> Awaitable[Message | None]:
        """Put a message into the inbox; return None if its (conversation, id) was there already.

        Gives it as it was recorded: with its `number`, and with the numbers of those it quotes that the
        conversation knows.
        """
        return self._writer.ask(Row(inbox.receive, message, 0), within=(message.conversation,))

    revise = _writes(inbox.revise, of_first=True)
    withdraw = _writes(inbox.withdraw, of_first=True)

    async def only_hear(
        self, conversation: str, message_ids: Iterable[str], *, lease: int | None = None
    ) -> None:
        """Mark messages that wait, or whose turn is under way, as overheard: nobody answers them.

        `StoreOutdated`, and nothing is marked, if the conversation is not owned by that lease any more; None:
        whoever asks need not own it.
        """
        ids = tuple(message_ids)

        def hear(db: Connection) -> None:
            if lease is not None:
                leases.check_lease(db, conversation, lease)
            inbox.only_hear(db, conversation, ids)

        await self._writer.ask(hear, within=(conversation,))

    message_id = _reads(inbox.message_id, of_first=True)
    unanswered = _reads(inbox.unanswered, within=())

    def load(self, conversation: str, context_tokens: int | None = None) -> Awaitable[SavedConversation]:
        """Load a conversation; generation 0 and nothing else for a new one.

        Of the history only what a model is shown that holds so many tokens; None: all of it.
        """
        return self._read(lambda db: journal.load(db, conversation, context_tokens), within=(conversation,))

    async def waiting(self, conversation: str) -> tuple[Message, ...]:
        """Return the messages of a conversation that no turn has, oldest first."""
        return await self._read(lambda db: journal.waiting(db, conversation), within=(conversation,))

    def lease(self, conversation: str, *, take: bool = False) -> Awaitable[int]:
        """Own a conversation; return the number of the lease, which grows whenever the owner changes.

        A living store that owns it loses it where it has no turn under way there, or with `take`. From then
        on that one writes nothing of its turns but what became of acts that it had begun, also once it owns
        the conversation again: whatever writes in a turn has the number of a lease, and the conversation's
        lease must have that number still. It is the one that the turn began under, unless `lease` says
        otherwise, as where a turn is finished that somebody left.

        Turns of the conversation that were not ended are then this store's to end, but for those with a
        higher number: they began under an owner that took it over since. So it must not be asked while a
        turn of this store is under way there.

        `LeaseHeld`: a living process has a turn under way there, and `take` is not set.
        """

        def lease(db: Connection) -> int:
            return leases.lease(db, conversation, take=take)

        def first(db: Connection) -> int:
            db.become_owner()
            self._is_owner = True
            return db.transact(lambda: lease(db), writes=True)

        if not self._is_owner:
            return self._writer.ask(first, alone=True)
        return self._writer.ask(lease, within=(conversation,))

    release = _writes(leases.release, of_first=True)
    owned_elsewhere = _reads(leases.owned_elsewhere, of_first=True)

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
        """Record that a turn answers these messages, which wait no longer; return the turn's id.

        Messages that are not waiting are left out: they never came, or a turn has them already.

        `StoreOutdated`, and no turn, if the lease has another number by now; if words were taken out of the
        conversation since it was loaded at this revision; or if there are messages, and none is waiting. What
        the caller holds of it is to be read again.
        """
        beginning = Beginning(conversation, generation, persona, tuple(message_ids), lease, model, revision)
        return await self._writer.ask(Row(journal.begin_turns, beginning, 1), within=(conversation,))

    def plan(self, turn: int, commands: Sequence[Planned], *, lease: int | None = None) -> Awaitable[None]:
        """Record commands that closed, before they are performed or wait. A number is recorded once.

        They are forgotten when the turn ends. `StoreOutdated` as `intend`.
        """
        return self._writer.ask(Row(record, Plan(turn, tuple(commands), lease), 2), within=(turn,))

    def command_ended(
        self,
        turn: int,
        number: int,
        outcome: CommandOutcome,
        *,
        later: bool = False,
        lease: int | None = None,
    ) -> Awaitable[None]:
        """Record the outcome of a planned command; the last one stands. `StoreOutdated` as `intend`.

        With `later` it goes on record with whatever is recorded or read next, within a second.
        """
        end = CommandEnd(turn, number, outcome, lease)
        return self._writer.ask(Row(record, end, 2), later=later, within=(turn,))

    def mark_turn(self, turn: int, mark: Mark, *, lease: int | None = None) -> Awaitable[None]:
        """Note how a turn will end; `stopped` also drops what it planned and did not begin.

        One that was stopped stays so. `StoreOutdated` as `intend`.
        """
        return self._writer.ask(lambda db: journal.mark_turn(db, turn, mark, lease), within=(turn,))

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
        lease: int | None = None,
    ) -> Awaitable[None]:
        """Record an act before it is performed. A key (turn, sequence) is recorded once.

        `outcome` is that of an act which is performed by being on record, see `Channel.acts_by_events`.
        `StoreOutdated`, and it is not to be performed, if the turn was ended, or another store owns the
        conversation by now, or owned it meanwhile.
        """
        intent = Intent(turn, sequence, kind, payload, target, command, outcome, lease)
        return self._writer.ask(Row(record, intent, 2), within=(turn,))

    def settle(
        self,
        turn: int,
        sequence: int,
        outcome: Outcome,
        platform_id: str | None = None,
        *,
        later: bool = False,
    ) -> Awaitable[None]:
        """Record the outcome of an act. The first one stands, whichever store records it.

        `later` as in `command_ended`. Should the process die before, it is with the act as if it had died in
        its midst: whoever finishes the turn looks for it.
        """
        settlement = Settlement(turn, sequence, outcome, platform_id)
        return self._writer.ask(Row(record, settlement, 2), later=later, within=(turn,))

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
        lease: int | None = None,
    ) -> bool:
        """Append the turn's lines, end it, enter what was used, and move the window, in one transaction.

        False, and nothing appended, if `reset` or `forget` overtook the turn, it was ended before, or another
        store owns the conversation by now or owned it meanwhile (then it is not ended). What was used is
        entered all the same.
        `model` is who wrote, where it was another than the one that the turn began with. `framing` is kept
        beside the lines.

        Ending a turn with no lines (it was begun again with newer messages) puts its messages back among the
        waiting, in their old places. It does not, and answers False, where an act of the turn may have been
        seen. `again` are ids of messages that its lines hold and that it left unanswered: they come due
        again, in their old places, if they had not before.
        """
        ending = Ending(
            turn, lines, finish, steps, usage, cost, model, tuple(spent), window, tuple(again), framing, lease
        )
        recorded = await self._writer.ask(Row(journal.end_turns, ending, 3), within=(turn,))
        if not recorded:  # acts were recorded after everything was forgotten
            await self._sweep()
        return recorded

    begin_fold = _writes(windows.begin_fold)
    end_fold = _writes(windows.end_fold)

    async def reset(self, conversation: str) -> int:
        """Forget what was said (lines, messages, acts, pictures), also in turns that `rewind` took out;
        return the new generation.

        Ids of messages are remembered, so that one which arrives again is still the same. A turn under
        way can settle its acts and end, without effect.
        """
        generation = await self._writer.ask(lambda db: journal.reset(db, conversation))
        await self._sweep()
        return generation

    rewind = _writes(branch_rows.rewind)
    branches = _reads(branch_rows.of)
    alternatives = _reads(history.alternatives)
    restore = _writes(branch_rows.restore)

    async def forget(self, person: str) -> tuple[str, ...]:
        """Forget a person, by the id of the author: their words in the inbox, in the lines and in quotes,
        what is remembered of them, their talks and files, and all that was answered to them alone, with its
        acts.

        Of a turn that answered others too, the others' words stay; the persona's stay where the person was
        only overheard or quoted and they neither name nor repeat them. A turn under way in which the person
        has a part ends without effect. Gives the addresses of the conversations that changed: whoever
        holds messages or lines of theirs in memory reads them again. Processes that listen on a server are
        told `forgot` and the id.
        """

        def forget(db: Connection) -> tuple[str, ...]:
            for schema in self._schemas:
                schema.forget(db, person)
            db.signal(f"forgot {person}")
            return forgetting.forget(db, person)

        changed = await self._writer.ask(forget)
        await self._sweep()
        return changed

    forgotten = _reads(leases.forgotten_since, within=())
    people = _reads(personal_data.known)

    async def forget_old(self, before: float) -> bool:
        """Forget what was said before a time (seconds since the epoch), a portion of it at once.

        Words, names, pictures, acts, notes and summaries go, talks in which nothing was said since, files,
        and what tools were given and for whom. That there was a message, and its id, stays; so do memories,
        and sums of what was used. False: nothing is left of that time.
        """
        more = await self._writer.ask(lambda db: forgetting.forget_old(db, before))
        if not more:
            await self._sweep()
        return more

    async def export(self, person: str) -> dict[str, Any]:
        """Return all that is kept of a person, as plain data: messages with the answers to them, talks,
        files, memories, usage."""

        def export(db: Connection) -> dict[str, Any]:
            kept = {schema.name: schema.told(db, person) for schema in self._schemas}
            return personal_data.export(db, person) | {name: each for name, each in kept.items() if each}

        return await self._read(export)

    turn_behind = _reads(history.turn_behind)
    turns = _reads(history.turns)
    ended_after = _reads(history.ended_after)
    look_back = _reads(history.look_back)
    answer_to = _reads(history.answer_to)
    messages_of = _reads(history.messages_of)
    last_asked = _reads(history.last_asked)
    tally = _reads(history.tally)

    async def audit_begin(
        self, deed: Deed, *, spent: Sequence[UsageEntry] = (), quota: Quota | None = None
    ) -> int:
        """Record what a tool is about to do, and enter what that uses; return the number for `audit_end`.

        `OverQuota`, and it is not to be done, if the person had as much done as `quota` says. Of a deed that
        is known, where `quota` wants it once, it gives the number that it has.
        `StoreOutdated`, and it is not to be done, if the turn was ended, or another store owns the
        conversation by now.
        """

        def begin(db: Connection) -> int:
            if quota is not None and quota.once:
                again = audit_rows.known(db, deed, quota.seconds)
                if again is not None:
                    return again
            if quota is not None:
                audit_rows.check_quota(db, deed.person, quota)
            usage_rows.spend(db, spent)
            return audit_rows.begin(db, deed)

        return await self._writer.ask(begin)

    audit_end = _writes(audit_rows.end)
    audit = _reads(audit_rows.latest)

    async def spend(self, spent: Iterable[UsageEntry]) -> None:
        """Record what was used. In a turn that `forget` overtook, it counts for no person."""
        entries = tuple(spent)
        await self._writer.ask(lambda db: usage_rows.spend(db, entries))

    used = _reads(usage_rows.used, within=())

    async def usage(self, first: int, last: int, *by: Part) -> tuple[UsageEntry, ...]:
        """Add up what was used from one day to another, both included, by these parts and in their order.

        Without any part it is one sum.
        """
        return await self._read(lambda db: usage_rows.usage(db, first, last, by), within=())

    notice = _writes(usage_rows.notice)

    def keep_talk(self, talk: Talk, request: KeyedRequest | None = None) -> Awaitable[KeyedRequest | None]:
        """Keep a talk by its address; of one that is kept only `last` is changed, and never lowered.

        With it the request by which something is said there at that time, where it has a key. If one of that
        key is there already, that one is returned; if it has another digest, nothing is kept.
        """
        return self._writer.ask(lambda db: http.keep_talk(db, talk, request), within=(talk.address,))

    request = _reads(http.request, within=())

    talks = _reads(http.talks)
    talk = _reads(http.talk)

    async def circles(self, conversations: Iterable[str]) -> dict[str, Circle]:
        """Return who takes part in each of these conversations, by address."""
        wanted = tuple(conversations)
        return await self._read(lambda db: http.circles(db, wanted))

    list_talks = _reads(listing.talks)
    listed_talk = _reads(listing.talk)
    find_words = _reads(listing.find_words)
    list_people = _reads(listing.people)

    async def names_of(self, people: Iterable[str]) -> dict[str, str]:
        """Return the name under which each of these people wrote last; "" where none is known."""
        wanted = tuple(people)
        return await self._read(lambda db: listing.names_of(db, wanted))

    list_memories = _reads(listing.facts)
    usage_by_persona = _reads(listing.by_persona)
    add_file = _writes(http.add_file)
    file = _reads(http.file_of)
    file_bytes = _reads(http.file_bytes)
    drop_file = _writes(http.drop_file)

    async def files_among(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those of these ids of which there is a file."""
        wanted = tuple(ids)
        return await self._read(lambda db: http.files_among(db, wanted))

    add_key = _writes(http.add_key)
    keys = _reads(http.keys)
    key_of = _reads(http.key_of, within=())
    revoke_key = _writes(http.revoke_key)
    places = _reads(inbox.places, within=())
    set_place = _writes(inbox.set_place)
    watermarks = _reads(inbox.watermarks, within=())

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        """Raise watermarks; a lower one than is kept changes nothing."""
        news = dict(watermarks)  # whoever asks may go on counting in it
        await self._writer.ask(lambda db: inbox.mark(db, news), within=tuple(news))

    remember = _writes(memory_rows.remember)
    memories = _reads(memory_rows.memories, within=())
    memories_of_guild = _reads(memory_rows.memories_of_guild, within=())

    async def count_uses(self, ids: Iterable[int]) -> None:
        """Note that these memories came back."""
        numbers = tuple(ids)
        await self._writer.ask(lambda db: memory_rows.count_uses(db, numbers))

    async def drop_memories(self, ids: Iterable[int]) -> None:
        """Forget these memories."""
        numbers = tuple(ids)
        await self._writer.ask(lambda db: memory_rows.drop(db, numbers))
        await self._sweep()

    async def memories_shown(self, conversation: str, message_id: str, people: Iterable[str]) -> None:
        """Note that the answer to a message tells of memories of people who did not write it.

        When one of them is forgotten, that answer is.
        """
        persons = tuple(people)
        await self._writer.ask(lambda db: memory_rows.shown(db, conversation, message_id, persons))

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
        """Return the names of addons whose tables are there, and were not opened: `forget` does not reach
        them."""
        names = await self._read(
            lambda db: [name for (name,) in db.execute("SELECT name FROM addon_tables ORDER BY name")]
        )
        opened = {schema.name for schema in self._schemas}
        return tuple(name for name in names if name not in opened)

    async def check(self) -> None:
        """Read through all of the store, which takes a while for a large file.

        Raises:
            StoreError: it is damaged.
        """
        await self._read(lambda db: db.check())

    async def close(self) -> None:
        """Finish what was asked and close the file. Calling it twice does no harm."""
        await self._writer.close()

    def _read(self, work: Callable[[Connection], T], within: Within = None) -> Awaitable[T]:
        return self._writer.ask(work, writes=False, within=within)

    async def _sweep(self) -> None:
        """Clear what was deleted from the disk too."""
        await self._writer.ask(lambda db: db.sweep(), alone=True)
