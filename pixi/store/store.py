"""The protocol of the store. Recorded before it is performed; a turn's end is one transaction."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pixi.core.conversation import Bounds
from pixi.core.events import Finish
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.memory import Memory
from pixi.core.message import Message
from pixi.core.spending import Part, Scope, UsageEntry
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


class Store(Protocol):
    """Everything that must outlive the process. All methods raise `StoreError` alone.

    A method returns once the change is committed. Calls are carried out in the order they were made; those
    that are no coroutines take their place in it at once, before they are awaited.
    """

    def receive(self, message: Message) -> Awaitable[Message | None]:
        """Put a message into the inbox; None if its (conversation, id) was there already.

        Gives it as it was recorded: with its `number`, and with the numbers of those it quotes that the
        conversation knows.
        """
        ...

    async def revise(self, conversation: str, message_id: str, text: str) -> bool:
        """Change the text of a message that waits or whose turn is under way; False for any other."""
        ...

    async def withdraw(self, conversation: str, message_id: str) -> bool:
        """Forget the text and pictures of such a message, which then waits no longer; False for any other."""
        ...

    async def only_hear(self, conversation: str, message_ids: Iterable[str]) -> None:
        """Let messages that wait, or whose turn is under way, be merely overheard: nobody answers them."""
        ...

    async def message_id(self, conversation: str, number: int) -> str | None:
        """The id of the message of that number."""
        ...

    async def unanswered(self, prefix: str, since: float) -> tuple[str, ...]:
        """Addresses that begin with `prefix` where a turn was not ended, or where an addressed message
        waits that was sent at `since` (seconds since the epoch) or later."""
        ...

    def load(self, conversation: str, context_tokens: int | None = None) -> Awaitable[SavedConversation]:
        """What is known of a conversation; generation 0 and nothing else for a new one.

        Of the history only what a model is shown that holds so many tokens; None: all of it.
        """
        ...

    def lease(self, conversation: str, *, take: bool = False) -> Awaitable[int]:
        """Own a conversation; gives the number of the lease, which grows whenever the owner changes.

        A living store that owns it loses it where it has no turn under way there, or with `take`. From then
        on that one writes nothing of its turns but what became of acts that it had begun.

        Turns of the conversation that were not ended are then this store's to end, but for those with a
        higher number: they began under an owner that took it over since. So it must not be asked while a
        turn of this store is under way there.

        `LeaseHeld`: a living process has a turn under way there, and `take` is not set.
        """
        ...

    async def release(self, conversation: str) -> None:
        """Own a conversation no more, though a turn may be open there: whoever leases it next finishes it."""
        ...

    async def owned_elsewhere(self, conversation: str) -> bool:
        """Whether another store that lives owns a conversation, be it at work or not."""
        ...

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
        """Record that a turn answers these messages, which wait no longer; gives the turn's id.

        Messages that are not waiting are left out: they never came, or a turn has them already.

        `StoreOutdated`, and no turn, if the lease has another number by now; if words were taken out of the
        conversation since it was loaded at this revision; or if there are messages, and none is waiting. What
        the caller holds of it is to be read again.
        """
        ...

    def plan(self, turn: int, commands: Sequence[Planned]) -> Awaitable[None]:
        """Record commands that closed, before they are performed or wait. A number is recorded once.

        They are forgotten when the turn ends. `StoreOutdated` as `intend`.
        """
        ...

    def command_ended(
        self, turn: int, number: int, outcome: CommandOutcome, *, later: bool = False
    ) -> Awaitable[None]:
        """Record what came of a planned command; the last outcome stands. `StoreOutdated` as `intend`.

        With `later` it goes on record with whatever is recorded or read next, within a second.
        """
        ...

    def mark_turn(self, turn: int, mark: Mark) -> Awaitable[None]:
        """Note how a turn will end; `stopped` also drops what it planned and did not begin.

        One that was stopped stays so. `StoreOutdated` as `intend`.
        """
        ...

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
        ...

    def settle(
        self,
        turn: int,
        sequence: int,
        outcome: Outcome,
        platform_id: str | None = None,
        *,
        later: bool = False,
    ) -> Awaitable[None]:
        """Record what became of an act. The first outcome stands, whoever tells it.

        `later` as in `command_ended`. Should the process die before, it is with the act as if it had died in
        its midst: whoever finishes the turn looks for it.
        """
        ...

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
        ...

    async def begin_fold(self, conversation: str, generation: int, before: int) -> Fold | None:
        """What was said before a turn and is not part of the summary; None where that is nothing.

        Of very much, only the latest.
        """
        ...

    async def end_fold(self, conversation: str, fold: Fold, bounds: Bounds, summary: str) -> bool:
        """Cut the window, and let the summary tell of all that was before, in one transaction.

        False, and nothing changed, if `reset`, `forget` or another summary overtook it.
        """
        ...

    async def reset(self, conversation: str) -> int:
        """Forget what was said (lines, messages, acts, pictures), also in turns that `rewind` took out; gives
        the new generation.

        Ids of messages are remembered, so that one which arrives again is still the same. A turn under
        way can settle its acts and end, without effect.
        """
        ...

    async def rewind(self, conversation: str, turn: int) -> str:
        """Take a turn and all after it out of a conversation, whose lease is to be held.

        What was said in them is kept beside it; gives the address. Nothing waits there, and `reset`,
        `forget`, `export` and `forget_old` reach it. The ids of its messages are free again. What waits,
        waits on. A turn that was left half-done is not gone on with.
        """
        ...

    async def branches(self, conversation: str) -> tuple[str, ...]:
        """The addresses where turns are kept that `rewind` took out of a conversation, oldest first.

        `turns` tells of them; of those that were forgotten no words are left.
        """
        ...

    async def alternatives(self, conversation: str) -> tuple[Alternative, ...]:
        """What of `branches` can stand in the conversation again, oldest first: some words of it are left."""
        ...

    async def restore(self, conversation: str, branch: str) -> None:
        """Put turns back that `rewind` took out of a conversation, whose lease is to be held.

        What came since then in their place is taken out, as by `rewind`. What waits, waits on. If the turn
        that they came after was taken out too, it is put back first.

        Raises:
            StoreError: nothing is kept under that address.
        """
        ...

    async def turn_behind(self, prefix: str, platform_id: str) -> TurnRecord | None:
        """The turn that posted this message, in a conversation whose address begins with `prefix`."""
        ...

    async def turns(self, conversation: str, limit: int, before: int | None = None) -> tuple[TurnRecord, ...]:
        """The last turns that were ended in a conversation, oldest first, but for those begun again.

        `before`: only those before the turn of this number.
        """
        ...

    async def look_back(self, turn: int) -> LookedBack | None:
        """A turn of this number that has ended, with how it was asked; None: there is none."""
        ...

    async def answer_to(self, conversation: str, message_id: str) -> AnsweredMessage | None:
        """A message that came, and the turn that answers it, or did; None: it never came."""
        ...

    async def messages_of(
        self, turns: Sequence[int], *, overheard: bool = False, pictures: bool = False
    ) -> dict[int, tuple[Message, ...]]:
        """The messages that turns answered, oldest first, of each turn that has any.

        `overheard`: also those that were not meant for the persona. Without `pictures` theirs have no bytes.
        """
        ...

    async def last_asked(self, conversation: str) -> tuple[int | None, tuple[Message, ...]]:
        """The last messages to a persona, oldest first, and the turn that has them.

        None: they wait for one; or there are none.
        """
        ...

    async def tally(self, prefix: str, since: float) -> Tally:
        """What the turns came to that began at `since` or later, in conversations under `prefix`."""
        ...

    async def audit_begin(
        self, deed: Deed, *, spent: Sequence[UsageEntry] = (), quota: Quota | None = None
    ) -> int:
        """Record what a tool is about to do, and enter what that uses; gives the number for `audit_end`.

        `OverQuota`, and it is not to be done, if the person had as much done as `quota` says. Of a deed that
        is known, where `quota` wants it once, it gives the number that it has.
        `StoreOutdated`, and it is not to be done, if the turn was ended, or another store owns the
        conversation by now.
        """
        ...

    async def audit_end(self, number: int, outcome: AuditOutcome, seconds: float) -> None:
        """Record what came of it, and how long it took. The first outcome stands."""
        ...

    async def audit(self, limit: int, prefix: str = "") -> tuple[AuditRecord, ...]:
        """The last deeds in conversations whose address begins with `prefix`, oldest first."""
        ...

    async def spend(self, spent: Iterable[UsageEntry]) -> None:
        """Record what was used. In a turn that `forget` overtook, it was used by nobody."""
        ...

    async def used(self, day: int, scope: Scope, name: str, *, since: int | None = None) -> UsageEntry:
        """What a person, a channel or a guild used on a day; `since`: and from that day on."""
        ...

    async def usage(self, first: int, last: int, *by: Part) -> tuple[UsageEntry, ...]:
        """What was used from one day to another, both included, added up by these parts and in their order.

        Without any part it is one sum.
        """
        ...

    async def notice(self, day: int, scope: Scope, name: str) -> bool:
        """Note that a person, a channel or a guild was told on a day that there is no more for them.

        False: they had been told.
        """
        ...

    def keep_talk(self, talk: Talk) -> Awaitable[None]:
        """Keep a talk, by its address; of one that is kept only `last` is changed, and never lowered."""
        ...

    async def talks(self, person: str, persona: str, limit: int) -> tuple[Talk, ...]:
        """The last talks of a person with a persona, or with any where that is "", the latest first."""
        ...

    async def talk(self, person: str, name: str, persona: str = "") -> Talk | None:
        """The latest talk of a person under this name, with this persona or, where that is "", with any."""
        ...

    async def circles(self, conversations: Iterable[str]) -> dict[str, Circle]:
        """Who takes part in each of these conversations, by address."""
        ...

    async def list_talks(
        self, wanted: TalkFilter, limit: int, before: tuple[float, str] | None = None
    ) -> tuple[ListedTalk, ...]:
        """The conversations that a filter lets through, the latest first, without branches.

        `before`: only those behind the one that has this `last` and this address.
        """
        ...

    async def listed_talk(self, conversation: str) -> ListedTalk | None:
        """A conversation, or a branch of one, as it is listed; None: nothing was ever said there."""
        ...

    async def find_words(
        self, conversation: str, words: Sequence[str], before: int | None = None
    ) -> FoundWords:
        """Look for the latest message in which all these words stand (casefolded), in a portion of a talk.

        `before`: only in turns before this one.
        """
        ...

    async def list_people(
        self, name: str, limit: int, before: tuple[int, str] | None = None
    ) -> tuple[tuple[int, str], ...]:
        """Everybody of whom something is kept, whoever wrote last first: each by a place and an id.

        `name`: only those in whose id or latest name this stands; `before`: only those behind this one.
        """
        ...

    async def names_of(self, people: Iterable[str]) -> dict[str, str]:
        """The name under which each of these people wrote last; "" where none is known."""
        ...

    async def list_memories(
        self, person: str, persona: str, words: Sequence[str], before: int | None = None
    ) -> tuple[tuple[Memory, ...], int | None]:
        """What personas remember, the latest first, out of a portion; and where the next one begins.

        Args:
            person: of this one alone; "": of everybody.
            persona: of this one's alone, by name; "": of all.
            words: that all stand in it, casefolded.
            before: only facts with a lower number.
        """
        ...

    async def usage_by_persona(self, since: float, until: float) -> dict[str, TurnSums]:
        """What the turns of each persona came to that began in a time, by its name."""
        ...

    async def add_file(self, file: SentFile, most_bytes: int) -> bool:
        """Keep a file of a new id; False, and nothing is kept, if all of its person's would be larger than
        `most_bytes` together."""
        ...

    async def file(self, file_id: str) -> SentFile | None:
        """The file of that id; None: there is none, or it was forgotten."""
        ...

    async def file_bytes(self, person: str) -> int:
        """How large all files of a person are together."""
        ...

    async def drop_file(self, file_id: str) -> None:
        """Keep a file no longer."""
        ...

    async def files_among(self, ids: Iterable[str]) -> frozenset[str]:
        """Those of these ids of which there is a file."""
        ...

    async def add_key(self, key: ApiKey) -> bool:
        """Keep a key; False, and nothing is kept, if one of that name is not revoked."""
        ...

    async def keys(self) -> tuple[ApiKey, ...]:
        """All keys, revoked ones too, by their names and the older first."""
        ...

    async def key_of(self, digest: str) -> ApiKey | None:
        """The key of that digest; None: there is none, or it was revoked."""
        ...

    async def revoke_key(self, name: str, at: float) -> bool:
        """Revoke a key, at a time in seconds since the epoch; False: none of that name is in use."""
        ...

    async def places(self) -> dict[str, ChannelConfig]:
        """What people chose, by the channel's address."""
        ...

    async def set_place(self, address: str, place: ChannelConfig) -> None:
        """Keep what people chose for a channel; the default place is not kept."""
        ...

    async def watermarks(self, prefix: str) -> dict[str, int]:
        """The last message that was taken note of in each channel, by addresses that begin with `prefix`."""
        ...

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        """Raise watermarks; a lower one than is kept changes nothing."""
        ...

    async def remember(self, memory: Memory, *, message_id: str = "") -> tuple[Memory, tuple[Memory, ...]]:
        """Keep a fact; gives it with its number, and those that it took the place of.

        `StoreError` where somebody was forgotten in the turn that answers that message of the conversation.

        It takes the place of what says the same and was told to the same circle. Of each person a persona
        keeps `pixi.store.statements.memories.MOST`; then the one goes that came back least often.
        """
        ...

    async def memories(self, person: str, persona: str) -> tuple[Memory, ...]:
        """What a persona remembers of a person, wherever it was told, oldest first."""
        ...

    async def memories_of_guild(
        self, guild: str, persona: str, person: str | None = None
    ) -> tuple[Memory, ...]:
        """What a persona was told in a guild, by this person or by anybody, oldest first."""
        ...

    async def count_uses(self, ids: Iterable[int]) -> None:
        """Note that these memories came back."""
        ...

    async def drop_memories(self, ids: Iterable[int]) -> None:
        """Forget these memories."""
        ...

    async def memories_shown(self, conversation: str, message_id: str, people: Iterable[str]) -> None:
        """Note that the answer to a message tells of memories of people who did not write it.

        When one of them is forgotten, that answer is.
        """
        ...

    async def forget(self, person: str) -> tuple[str, ...]:
        """Forget a person, by the id of the author: their words in the inbox, in the lines and in quotes,
        what is remembered of them, their talks and files, and all that was answered to them alone, with its
        acts.

        Of a turn that answered others too, the others' words stay; the persona's stay where the person was
        only overheard or quoted and they neither name nor repeat them. A turn under way in which the person
        has a part ends without effect. Gives the addresses of the conversations that changed: whoever
        holds messages or lines of theirs in memory reads them again.
        """
        ...

    async def forgotten(self, revision: int) -> Forgotten:
        """What lost words after that revision, in whichever process: they are not to stay in memory."""
        ...

    async def export(self, person: str) -> dict[str, Any]:
        """All that is kept of a person, as plain data: messages with the answers to them, talks,
        files, memories, usage."""
        ...

    async def people(self, name: str) -> tuple[Known, ...]:
        """Those who have this id, or wrote under this name, with how much is kept of them."""
        ...

    async def forget_old(self, before: float) -> bool:
        """Forget what was said before a time (seconds since the epoch), a portion of it at once.

        Words, names, pictures, acts, notes and summaries go, talks in which nothing was said since, files,
        and what tools were given and for whom. That there was a message, and its id, stays; so do memories,
        and sums of what was used. False: nothing is left of that time.
        """
        ...

    async def close(self) -> None:
        """Finish what was asked and close the file. Calling it twice does no harm."""
        ...
