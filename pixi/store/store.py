"""The store: recorded before it is performed; a turn's end is one transaction."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pixi.core.conversation import Bounds
from pixi.core.events import Finish
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.memory import Memory
from pixi.core.message import Message
from pixi.core.spending import Part, Scope, UsageEntry
from pixi.store.database import Connection, Within
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
    audit,
    branches,
    forgetting,
    history,
    http,
    inbox,
    journal,
    leases,
    listing,
    memories,
    personal_data,
    windows,
)
from pixi.store.statements import usage as usage_rows
from pixi.store.statements.journal import Beginning, CommandEnd, Ending, Intent, Plan, Settlement, record
from pixi.store.tables import Schema, Tables
from pixi.store.writer import Row, Writer

T = TypeVar("T")


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

    async def revise(self, conversation: str, message_id: str, text: str) -> bool:
        """Change the text of a message that waits or whose turn is under way; False for any other."""
        return await self._writer.ask(
            lambda db: inbox.revise(db, conversation, message_id, text), within=(conversation,)
        )

    async def withdraw(self, conversation: str, message_id: str) -> bool:
        """Forget the text and pictures of a message that waits or whose turn is under way; False for any
        other."""
        return await self._writer.ask(
            lambda db: inbox.withdraw(db, conversation, message_id), within=(conversation,)
        )

    async def only_hear(self, conversation: str, message_ids: Iterable[str]) -> None:
        """Mark messages that wait, or whose turn is under way, as overheard: nobody answers them."""
        ids = tuple(message_ids)
        await self._writer.ask(lambda db: inbox.only_hear(db, conversation, ids), within=(conversation,))

    async def message_id(self, conversation: str, number: int) -> str | None:
        """Return the id of the message of that number."""
        return await self._read(lambda db: inbox.message_id(db, conversation, number), within=(conversation,))

    async def unanswered(self, prefix: str, since: float) -> tuple[str, ...]:
        """Return addresses that begin with `prefix` and have a turn that was not ended, or an addressed
        message that waits and was sent at `since` (seconds since the epoch) or later."""
        return await self._read(lambda db: inbox.unanswered(db, prefix, since), within=())

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
        on that one writes nothing of its turns but what became of acts that it had begun.

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

    async def release(self, conversation: str) -> None:
        """Give a conversation up, though a turn may be open there: the next owner finishes it."""
        await self._writer.ask(lambda db: leases.release(db, conversation), within=(conversation,))

    async def owned_elsewhere(self, conversation: str) -> bool:
        """Return True if another store that lives owns a conversation, be it at work or not."""
        return await self._read(lambda db: leases.owned_elsewhere(db, conversation), within=(conversation,))

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

    def plan(self, turn: int, commands: Sequence[Planned]) -> Awaitable[None]:
        """Record commands that closed, before they are performed or wait. A number is recorded once.

        They are forgotten when the turn ends. `StoreOutdated` as `intend`.
        """
        return self._writer.ask(Row(record, Plan(turn, tuple(commands)), 2), within=(turn,))

    def command_ended(
        self, turn: int, number: int, outcome: CommandOutcome, *, later: bool = False
    ) -> Awaitable[None]:
        """Record the outcome of a planned command; the last one stands. `StoreOutdated` as `intend`.

        With `later` it goes on record with whatever is recorded or read next, within a second.
        """
        end = CommandEnd(turn, number, outcome)
        return self._writer.ask(Row(record, end, 2), later=later, within=(turn,))

    def mark_turn(self, turn: int, mark: Mark) -> Awaitable[None]:
        """Note how a turn will end; `stopped` also drops what it planned and did not begin.

        One that was stopped stays so. `StoreOutdated` as `intend`.
        """
        return self._writer.ask(lambda db: journal.mark_turn(db, turn, mark), within=(turn,))

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
        """Record an act before it is performed. A key (turn, sequence) is recorded once.

        `outcome` is that of an act which is performed by being on record, see `Channel.acts_by_events`.
        `StoreOutdated`, and it is not to be performed, if the turn was ended, or another store owns the
        conversation by now.
        """
        intent = Intent(turn, sequence, kind, payload, target, command, outcome)
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
    ) -> bool:
        """Append the turn's lines, end it, enter what was used, and move the window, in one transaction.

        False, and nothing appended, if `reset` or `forget` overtook the turn, it was ended before, or another
        store owns the conversation by now (then it is not ended). What was used is entered all the same.
        `model` is who wrote, where it was another than the one that the turn began with. `framing` is kept
        beside the lines.

        Ending a turn with no lines (it was begun again with newer messages) puts its messages back among the
        waiting, in their old places. It does not, and answers False, where an act of the turn may have been
        seen. `again` are ids of messages that its lines hold and that it left unanswered: they come due
        again, in their old places, if they had not before.
        """
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
        recorded = await self._writer.ask(Row(journal.end_turns, ending, 3), within=(turn,))
        if not recorded:  # acts were recorded after everything was forgotten
            await self._sweep()
        return recorded

    async def begin_fold(self, conversation: str, generation: int, before: int) -> Fold | None:
        """Return what was said before a turn and is not part of the summary; None if that is nothing.

        Of very much, only the latest.
        """
        return await self._writer.ask(lambda db: windows.begin_fold(db, conversation, generation, before))

    async def end_fold(self, conversation: str, fold: Fold, bounds: Bounds, summary: str) -> bool:
        """Cut the window, and keep a summary of everything before it, in one transaction.

        False, and nothing changed, if `reset`, `forget` or another summary overtook it.
        """
        return await self._writer.ask(lambda db: windows.end_fold(db, conversation, fold, bounds, summary))

    async def reset(self, conversation: str) -> int:
        """Forget what was said (lines, messages, acts, pictures), also in turns that `rewind` took out;
        return the new generation.

        Ids of messages are remembered, so that one which arrives again is still the same. A turn under
        way can settle its acts and end, without effect.
        """
        generation = await self._writer.ask(lambda db: journal.reset(db, conversation))
        await self._sweep()
        return generation

    async def rewind(self, conversation: str, turn: int) -> str:
        """Take a turn and all after it out of a conversation, whose lease is to be held.

        What was said in them is kept beside it; gives the address. Nothing waits there, and `reset`,
        `forget`, `export` and `forget_old` reach it. The ids of its messages are free again. What waits,
        waits on. A turn that was left half-done is not gone on with.
        """
        return await self._writer.ask(lambda db: branches.rewind(db, conversation, turn))

    async def branches(self, conversation: str) -> tuple[str, ...]:
        """Return the addresses of turns that `rewind` took out of a conversation, oldest first.

        `turns` tells of them; of those that were forgotten no words are left.
        """
        return await self._read(lambda db: branches.of(db, conversation))

    async def alternatives(self, conversation: str) -> tuple[Alternative, ...]:
        """Return those of `branches` that can stand in the conversation again, oldest first: some words are
        left."""
        return await self._read(lambda db: history.alternatives(db, conversation))

    async def restore(self, conversation: str, branch: str) -> None:
        """Put turns back that `rewind` took out of a conversation, whose lease is to be held.

        What came since then in their place is taken out, as by `rewind`. What waits, waits on. If the turn
        that they came after was taken out too, it is put back first.

        Raises:
            StoreError: nothing is kept under that address.
        """
        await self._writer.ask(lambda db: branches.restore(db, conversation, branch))

    async def forget(self, person: str) -> tuple[str, ...]:
        """Forget a person, by the id of the author: their words in the inbox, in the lines and in quotes,
        what is remembered of them, their talks and files, and all that was answered to them alone, with its
        acts.

        Of a turn that answered others too, the others' words stay; the persona's stay where the person was
        only overheard or quoted and they neither name nor repeat them. A turn under way in which the person
        has a part ends without effect. Gives the addresses of the conversations that changed: whoever
        holds messages or lines of theirs in memory reads them again.
        """

        def forget(db: Connection) -> tuple[str, ...]:
            for schema in self._schemas:
                schema.forget(db, person)
            return forgetting.forget(db, person)

        changed = await self._writer.ask(forget)
        await self._sweep()
        return changed

    async def forgotten(self, revision: int) -> Forgotten:
        """Return the conversations and turns that lost words after that revision, in whichever process."""
        return await self._read(lambda db: leases.forgotten_since(db, revision), within=())

    async def people(self, name: str) -> tuple[Known, ...]:
        """Return the people who have this id, or wrote under this name, with how much is kept of them."""
        return await self._read(lambda db: personal_data.known(db, name))

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

    async def turn_behind(self, prefix: str, platform_id: str) -> TurnRecord | None:
        """Return the turn that posted this message, in a conversation whose address begins with `prefix`."""
        return await self._read(lambda db: history.turn_behind(db, prefix, platform_id))

    async def turns(self, conversation: str, limit: int, before: int | None = None) -> tuple[TurnRecord, ...]:
        """Return the last turns that ended in a conversation, oldest first, without those that were begun
        again.

        `before`: only those before the turn of this number.
        """
        return await self._read(lambda db: history.turns(db, conversation, limit, before))

    async def look_back(self, turn: int) -> LookedBack | None:
        """Return a turn of this number that has ended, with how it was asked; None if there is none."""
        return await self._read(lambda db: history.look_back(db, turn))

    async def answer_to(self, conversation: str, message_id: str) -> AnsweredMessage | None:
        """Return a message that came, and the turn that answers it, or did; None if it never came."""
        return await self._read(lambda db: history.answer_to(db, conversation, message_id))

    async def messages_of(
        self, turns: Sequence[int], *, overheard: bool = False, pictures: bool = False
    ) -> dict[int, tuple[Message, ...]]:
        """Return the messages that turns answered, oldest first, of each turn that has any.

        `overheard`: also those that were not meant for the persona. Without `pictures` theirs have no bytes.
        """
        return await self._read(
            lambda db: history.messages_of(db, turns, overheard=overheard, with_pictures=pictures)
        )

    async def last_asked(self, conversation: str) -> tuple[int | None, tuple[Message, ...]]:
        """Return the last messages to a persona, oldest first, and the turn that has them.

        None: they wait for one; or there are none.
        """
        return await self._read(lambda db: history.last_asked(db, conversation))

    async def tally(self, prefix: str, since: float) -> Tally:
        """Add up the turns that began at `since` or later, in conversations under `prefix`."""
        return await self._read(lambda db: history.tally(db, prefix, since))

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
                again = audit.known(db, deed, quota.seconds)
                if again is not None:
                    return again
            if quota is not None:
                audit.check_quota(db, deed.person, quota)
            usage_rows.spend(db, spent)
            return audit.begin(db, deed)

        return await self._writer.ask(begin)

    async def audit_end(self, number: int, outcome: AuditOutcome, seconds: float) -> None:
        """Record the outcome of a deed, and how long it took. The first outcome stands."""
        await self._writer.ask(lambda db: audit.end(db, number, outcome, seconds))

    async def audit(self, limit: int, prefix: str = "") -> tuple[AuditRecord, ...]:
        """Return the last deeds in conversations whose address begins with `prefix`, oldest first."""
        return await self._read(lambda db: audit.latest(db, limit, prefix))

    async def spend(self, spent: Iterable[UsageEntry]) -> None:
        """Record what was used. In a turn that `forget` overtook, it counts for no person."""
        entries = tuple(spent)
        await self._writer.ask(lambda db: usage_rows.spend(db, entries))

    async def used(self, day: int, scope: Scope, name: str, *, since: int | None = None) -> UsageEntry:
        """Add up what a person, a channel or a guild used on a day; `since`: and from that day on."""
        return await self._read(lambda db: usage_rows.used(db, day, scope, name, since), within=())

    async def usage(self, first: int, last: int, *by: Part) -> tuple[UsageEntry, ...]:
        """Add up what was used from one day to another, both included, by these parts and in their order.

        Without any part it is one sum.
        """
        return await self._read(lambda db: usage_rows.usage(db, first, last, by), within=())

    async def notice(self, day: int, scope: Scope, name: str) -> bool:
        """Note that a person, a channel or a guild was told on a day that there is no more for them.

        False: they had been told.
        """
        return await self._writer.ask(lambda db: usage_rows.notice(db, day, scope, name))

    def keep_talk(self, talk: Talk) -> Awaitable[None]:
        """Keep a talk by its address; of one that is kept only `last` is changed, and never lowered."""
        return self._writer.ask(lambda db: http.keep_talk(db, talk), within=(talk.address,))

    async def talks(self, person: str, persona: str, limit: int) -> tuple[Talk, ...]:
        """Return the last talks of a person with a persona ("": with any), the latest first."""
        return await self._read(lambda db: http.talks(db, person, persona, limit))

    async def talk(self, person: str, name: str, persona: str = "") -> Talk | None:
        """Return the latest talk of a person under this name, with a persona ("": with any)."""
        return await self._read(lambda db: http.talk(db, person, name, persona))

    async def circles(self, conversations: Iterable[str]) -> dict[str, Circle]:
        """Return who takes part in each of these conversations, by address."""
        wanted = tuple(conversations)
        return await self._read(lambda db: http.circles(db, wanted))

    async def list_talks(
        self, wanted: TalkFilter, limit: int, before: tuple[float, str] | None = None
    ) -> tuple[ListedTalk, ...]:
        """Return the conversations that a filter lets through, the latest first, without branches.

        `before`: only those behind the one that has this `last` and this address.
        """
        return await self._read(lambda db: listing.talks(db, wanted, before, limit))

    async def listed_talk(self, conversation: str) -> ListedTalk | None:
        """Return a conversation, or a branch of one, as it is listed; None if nothing was ever said there."""
        return await self._read(lambda db: listing.talk(db, conversation))

    async def find_words(
        self, conversation: str, words: Sequence[str], before: int | None = None
    ) -> FoundWords:
        """Look for the latest message in which all these words stand (casefolded), in a portion of a talk.

        `before`: only in turns before this one.
        """
        return await self._read(lambda db: listing.find_words(db, conversation, words, before))

    async def list_people(
        self, name: str, limit: int, before: tuple[int, str] | None = None
    ) -> tuple[tuple[int, str], ...]:
        """Return a place and an id of everybody of whom something is kept, the last writer first.

        `name`: only those in whose id or latest name this stands; `before`: only those behind this one.
        """
        return await self._read(lambda db: listing.people(db, name, before, limit))

    async def names_of(self, people: Iterable[str]) -> dict[str, str]:
        """Return the name under which each of these people wrote last; "" where none is known."""
        wanted = tuple(people)
        return await self._read(lambda db: listing.names_of(db, wanted))

    async def list_memories(
        self, person: str, persona: str, words: Sequence[str], before: int | None = None
    ) -> tuple[tuple[Memory, ...], int | None]:
        """Return facts that personas remember, the latest first, out of a portion; and where the next one
        begins.

        Args:
            person: of this one alone; "": of everybody.
            persona: of this one's alone, by name; "": of all.
            words: that all stand in it, casefolded.
            before: only facts with a lower number.
        """
        return await self._read(lambda db: listing.facts(db, person, persona, words, before))

    async def usage_by_persona(self, since: float, until: float) -> dict[str, TurnSums]:
        """Add up the turns of each persona that began in a time, by its name."""
        return await self._read(lambda db: listing.by_persona(db, since, until))

    async def add_file(self, file: SentFile, most_bytes: int) -> bool:
        """Keep a file of a new id; return False, and keep nothing, if all files of its person would be larger
        than `most_bytes` together."""
        return await self._writer.ask(lambda db: http.add_file(db, file, most_bytes))

    async def file(self, file_id: str) -> SentFile | None:
        """Return the file of that id; None if there is none, or it was forgotten."""
        return await self._read(lambda db: http.file_of(db, file_id))

    async def file_bytes(self, person: str) -> int:
        """Return the size of all files of a person together."""
        return await self._read(lambda db: http.file_bytes(db, person))

    async def drop_file(self, file_id: str) -> None:
        """Forget a file."""
        await self._writer.ask(lambda db: http.drop_file(db, file_id))

    async def files_among(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those of these ids of which there is a file."""
        wanted = tuple(ids)
        return await self._read(lambda db: http.files_among(db, wanted))

    async def add_key(self, key: ApiKey) -> bool:
        """Keep a key; return False, and keep nothing, if one of that name is not revoked."""
        return await self._writer.ask(lambda db: http.add_key(db, key))

    async def keys(self) -> tuple[ApiKey, ...]:
        """Return all keys, revoked ones too, by their names and the older first."""
        return await self._read(http.keys)

    async def key_of(self, digest: str) -> ApiKey | None:
        """Return the key of that digest; None if there is none, or it was revoked."""
        return await self._read(lambda db: http.key_of(db, digest), within=())

    async def revoke_key(self, name: str, at: float) -> bool:
        """Revoke a key, at a time in seconds since the epoch; return False if none of that name is in use."""
        return await self._writer.ask(lambda db: http.revoke_key(db, name, at))

    async def places(self) -> dict[str, ChannelConfig]:
        """Return what people chose, by the channel's address."""
        return await self._read(inbox.places, within=())

    async def set_place(self, address: str, place: ChannelConfig) -> None:
        """Keep what people chose for a channel; the default place is not kept."""
        await self._writer.ask(lambda db: inbox.set_place(db, address, place))

    async def watermarks(self, prefix: str) -> dict[str, int]:
        """Return the last message that was taken note of in each channel, by addresses that begin with
        `prefix`."""
        return await self._read(lambda db: inbox.watermarks(db, prefix), within=())

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        """Raise watermarks; a lower one than is kept changes nothing."""
        news = dict(watermarks)  # whoever asks may go on counting in it
        await self._writer.ask(lambda db: inbox.mark(db, news), within=tuple(news))

    async def remember(self, memory: Memory, *, message_id: str = "") -> tuple[Memory, tuple[Memory, ...]]:
        """Keep a fact; return it with its number, and the facts that it replaces.

        `StoreError` where somebody was forgotten in the turn that answers that message of the conversation.

        It takes the place of what says the same and was told to the same circle. Of each person a persona
        keeps `pixi.store.statements.memories.MOST`; then the one goes that came back least often.
        """
        return await self._writer.ask(lambda db: memories.remember(db, memory, message_id))

    async def memories(self, person: str, persona: str) -> tuple[Memory, ...]:
        """Return the facts that a persona remembers of a person, wherever it was told them, oldest first."""
        return await self._read(lambda db: memories.memories(db, person, persona), within=())

    async def memories_of_guild(
        self, guild: str, persona: str, person: str | None = None
    ) -> tuple[Memory, ...]:
        """Return the facts that a persona was told in a guild, by this person or by anybody, oldest first."""
        return await self._read(lambda db: memories.memories_of_guild(db, guild, persona, person), within=())

    async def count_uses(self, ids: Iterable[int]) -> None:
        """Note that these memories came back."""
        numbers = tuple(ids)
        await self._writer.ask(lambda db: memories.count_uses(db, numbers))

    async def drop_memories(self, ids: Iterable[int]) -> None:
        """Forget these memories."""
        numbers = tuple(ids)
        await self._writer.ask(lambda db: memories.drop(db, numbers))
        await self._sweep()

    async def memories_shown(self, conversation: str, message_id: str, people: Iterable[str]) -> None:
        """Note that the answer to a message tells of memories of people who did not write it.

        When one of them is forgotten, that answer is.
        """
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
