"""The store: recorded before it is performed; a turn's end is one transaction."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from pixi.core.conversation import Bounds
from pixi.core.events import Finish
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.message import Message
from pixi.core.spending import UsageEntry
from pixi.store.database import Connection, Within
from pixi.store.framing import Framing
from pixi.store.kept import (
    Begun,
    CommandOutcome,
    KeyedRequest,
    Mark,
    Outcome,
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

_UNCHANGING = (str, int, float, bytes, tuple)


def _reads(work: Operation[P, T], *, within: Within = None) -> Method[P, T]:
    """Make a method that carries out statements which change nothing; `within` as of `Writer.ask`."""
    return _method(work, writes=False, within=within)


def _writes(work: Operation[P, T], *, sweeps: bool = False) -> Method[P, T]:
    """Make a method that carries out statements in one transaction.

    `sweeps`: they delete words, and are done with that unless they give True.
    """
    return _method(work, writes=True, sweeps=sweeps)


def _method(
    work: Operation[P, T], *, writes: bool, within: Within = None, sweeps: bool = False
) -> Method[P, T]:
    @wraps(work)
    async def method(store: "Store", /, *args: P.args, **named: P.kwargs) -> T:
        asked = store._writer.ask(_called_with(work, args, named), writes=writes, within=within)
        return await (store._swept(asked) if sweeps else asked)

    return method


def _in_conversation(
    work: Callable[Concatenate[Connection, str, P], T], *, writes: bool
) -> Callable[Concatenate["Store", str, P], Coroutine[Any, Any, T]]:
    """Make a method that carries out statements within the conversation that is its first argument."""

    @wraps(work)
    async def method(store: "Store", conversation: str, /, *args: P.args, **named: P.kwargs) -> T:
        call = _called_with(work, (conversation, *args), named)
        return await store._writer.ask(call, writes=writes, within=(conversation,))

    return method


def _called_with(
    work: Callable[..., T], args: tuple[Any, ...], named: Mapping[str, Any]
) -> Callable[[Connection], T]:
    """Return the call of statements with these arguments, as they are now."""
    values = [_as_now(each) for each in args]
    more = {name: _as_now(each) for name, each in named.items()} if named else {}
    return lambda db: work(db, *values, **more)


def _as_now(value: Any) -> Any:
    """Return a list or the like as a tuple: the caller may go on adding to it before the thread reads it."""
    if value is None or isinstance(value, _UNCHANGING):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    return tuple(value) if isinstance(value, Iterable) else value


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
        return self._record(inbox.receive, message, 0, message.conversation)

    revise = _in_conversation(inbox.revise, writes=True)
    withdraw = _in_conversation(inbox.withdraw, writes=True)

    only_hear = _in_conversation(inbox.only_hear, writes=True)
    message_id = _in_conversation(inbox.message_id, writes=False)
    unanswered = _reads(inbox.unanswered, within=())

    def load(self, conversation: str, context_tokens: int | None = None) -> Awaitable[SavedConversation]:
        """Load a conversation; generation 0 and nothing else for a new one.

        Of the history only what a model is shown that holds so many tokens; None: all of it.
        """
        return self._read(lambda db: journal.load(db, conversation, context_tokens), within=(conversation,))

    waiting = _in_conversation(journal.waiting, writes=False)
    unfinished = _in_conversation(journal.unfinished, writes=False)

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

    release = _in_conversation(leases.release, writes=True)
    owned_elsewhere = _in_conversation(leases.owned_elsewhere, writes=False)

    def begin_turn(
        self,
        conversation: str,
        generation: int,
        persona: str,
        message_ids: Iterable[str],
        *,
        lease: int,
        model: str = "",
        revision: int | None = None,
    ) -> Awaitable[Begun]:
        """Record that a turn answers these messages, which wait no longer; return the turn's id.

        Messages that are not waiting are left out: they never came, or a turn has them already.

        `StoreOutdated`, and no turn, if the lease has another number by now; if words were taken out of the
        conversation since it was loaded at this revision; or if there are messages, and none is waiting. What
        the caller holds of it is to be read again.
        """
        beginning = Beginning(conversation, generation, persona, tuple(message_ids), lease, model, revision)
        return self._record(journal.begin_turns, beginning, 1, conversation)

    def plan(self, turn: int, commands: Iterable[Planned], *, lease: int | None = None) -> Awaitable[None]:
        """Record commands that closed, before they are performed or wait. A number is recorded once.

        They are forgotten when the turn ends. `StoreOutdated` as `intend`.
        """
        return self._record(record, Plan(turn, tuple(commands), lease), 2, turn)

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
        return self._record(record, CommandEnd(turn, number, outcome, lease), 2, turn, later=later)

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
        return self._record(record, intent, 2, turn)

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
        return self._record(record, settlement, 2, turn, later=later)

    def end_turn(
        self,
        turn: int,
        lines: Iterable[Line],
        finish: Finish,
        steps: int,
        usage: Usage,
        *,
        cost: float | None = None,
        model: str | None = None,
        spent: Iterable[UsageEntry] = (),
        window: Bounds | None = None,
        again: Iterable[str] = (),
        framing: Framing | None = None,
        lease: int | None = None,
    ) -> Awaitable[bool]:
        """Append the turn's lines, end it, enter what was used, and move the window, in one transaction.

        False, and nothing appended, if `reset` or `forget` overtook the turn, it was ended before, or another
        store owns the conversation by now or owned it meanwhile (then it is not ended). What was used is
        entered all the same.

        Ending a turn with no lines (it was begun again with newer messages) puts its messages back among the
        waiting, in their old places. It does not, and answers False, where an act of the turn may have been
        seen.

        Args:
            turn, lines, finish, steps, usage: of the turn.
            cost: in dollars; None: not known.
            model: who wrote, where it was another than the one that the turn began with.
            spent: what is entered in the books.
            window: where it begins from now on; None: where it did.
            again: ids of messages that the lines hold and that the turn left unanswered: they come due again,
                in their old places, if they had not before.
            framing: kept beside the lines.
            lease: see `lease`.
        """
        ending = Ending(
            turn,
            tuple(lines),
            finish,
            steps,
            usage,
            cost=cost,
            model=model,
            spent=tuple(spent),
            window=window,
            again=tuple(again),
            framing=framing,
            lease=lease,
        )
        return self._swept(self._record(journal.end_turns, ending, 3, turn))

    begin_fold = _writes(windows.begin_fold)
    end_fold = _writes(windows.end_fold)

    reset = _writes(forgetting.reset, sweeps=True)
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

        return await self._swept(self._writer.ask(forget))

    forgotten = _reads(leases.forgotten_since, within=())
    people = _reads(personal_data.known)

    forget_old = _writes(forgetting.forget_old, sweeps=True)

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

    audit_begin = _writes(audit_rows.begin)
    audit_end = _writes(audit_rows.end)
    audit = _reads(audit_rows.latest)

    spend = _writes(usage_rows.spend)
    used = _reads(usage_rows.used, within=())

    usage = _reads(usage_rows.usage, within=())
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

    circles = _reads(http.circles)
    list_talks = _reads(listing.talks)
    listed_talk = _reads(listing.talk)
    find_words = _reads(listing.find_words)
    list_people = _reads(listing.people)

    names_of = _reads(listing.names_of)
    list_memories = _reads(listing.facts)
    usage_by_persona = _reads(listing.by_persona)
    add_file = _writes(http.add_file)
    file = _reads(http.file_of)
    file_bytes = _reads(http.file_bytes)
    drop_file = _writes(http.drop_file)

    files_among = _reads(http.files_among)
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

    count_uses = _writes(memory_rows.count_uses)
    drop_memories = _writes(memory_rows.drop, sweeps=True)
    memories_shown = _writes(memory_rows.shown)

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

    def _record(
        self,
        together: Callable[[Connection, list[Any]], Sequence[T]],
        value: object,
        order: int,
        part: str | int,
        *,
        later: bool = False,
    ) -> Awaitable[T]:
        """Write a row in one go with others, see `Row`, within a conversation, or that of a turn.

        Messages come first in their order, then turns that begin, their acts, and turns that end.
        """
        return self._writer.ask(Row(together, value, order), later=later, within=(part,))

    def _read(self, work: Callable[[Connection], T], within: Within = None) -> Awaitable[T]:
        return self._writer.ask(work, writes=False, within=within)

    async def _swept(self, asked: Awaitable[T]) -> T:
        """Wait for a call that deletes words, and sweep after it unless it gives True."""
        done = await asked
        if done is not True:
            await self._sweep()
        return done

    async def _sweep(self) -> None:
        """Clear what was deleted from the disk too."""
        await self._writer.ask(lambda db: db.sweep(), alone=True)
