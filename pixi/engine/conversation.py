"""Conversations: each with its inbox, and the one task that answers what is in it.

A conversation has one owner at a time: the process that holds its lease. It takes the lease when it reads
its window, and a window that was read under an older lease is read again: somebody else may have answered
meanwhile. An owner at rest yields at once. While it answers, others wait, in short pauses that grow,
until it has ended or has answered what they wait for; whoever begins a turn takes its messages in the store,
so that none is answered twice.

Where a turn was left half-done, by a process that ended or because the channel was away, it is finished
before anything else is said: nobody may post behind a message of which it is not known whether it is there.
Newer messages wait for that, too.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.channel import TAKEN_OVER, Channel
from pixi.core.conversation import Conversation
from pixi.core.errors import ChannelLost, LeaseHeld, PixiError, StoreError
from pixi.core.events import Failed, TurnEnded
from pixi.core.life import Fate, Reason
from pixi.core.llm import Line
from pixi.core.message import Message
from pixi.engine.capabilities import NO_ABILITIES
from pixi.engine.context import EngineContext, PersonaSession
from pixi.engine.history import History, HistoryCompaction, Summarizer
from pixi.engine.inbox import Inbox
from pixi.engine.turn_runner import TurnRunner
from pixi.store.kept import SavedConversation
from pixi.store.store import Store
from pixi.toolbox.foreign import give_up

_log = logging.getLogger("pixi.engine")

T = TypeVar("T")

OVERHEARD = 20
"""Overheard messages, the latest ones, that a user line tells of."""

_TOO_MANY = "Too many messages wait for an answer here. Please ask again later."

CLOSE_SECONDS = 4.0
"""Longer than a reply needs to stop."""
_LEASE_PAUSES = (0.2, 2.0)  # seconds: the first pause and the longest, while another process answers
_AWAY_PAUSES = (1.0, 60.0)  # the same, while the channel is away


class _Arrival(Struct):
    """A message that is being recorded, and the latest change of it that came meanwhile.

    Attributes:
        changed: it was changed, and that is not on record yet.
        text: its latest text, of account only while `changed`; None: it was deleted, and until that is on
            record no later change counts.
    """

    changed: bool = False
    text: str | None = None

    def change(self, text: str | None) -> None:
        """Take note of a change."""
        is_deleted = self.changed and self.text is None
        if not is_deleted:
            self.changed, self.text = True, text


class LiveConversation:
    """Gathers the messages of one conversation and answers them, one turn after the other.

    Nothing in it needs to be kept once it is `idle`: what it knows can be read from the store.

    Attributes:
        compaction: keeps its summary.
    """

    def __init__(self, name: str, shared: EngineContext, summarizer: Summarizer | None) -> None:
        self._name = name
        self._shared = shared
        # Waiting.
        self._inbox = Inbox()  # received and not yet part of a turn
        self._refused = Inbox()  # the first message over the limit, whose author gets a word
        self._told_full = False  # one got a word, and there are still too many
        self._arriving: dict[str, _Arrival] = {}  # messages that are being recorded, by their ids
        self._elsewhere = False  # another process has recorded a message that came here, too
        self._channel: Channel | None = None  # the one that the last message came by
        # Known.
        self._history = History(name)
        self._lock = asyncio.Lock()  # a turn, a recovery and a reset are never at work at once
        self.compaction = HistoryCompaction(
            name, shared, summarizer, lock=self._lock, outdated=self._history.forget
        )
        # Under way.
        self._task: asyncio.Task[None] | None = None
        self._runner: TurnRunner | None = None  # of the turn under way
        self._left = False  # a turn is open on record, and to be finished
        self._taken_over = False  # a turn was cut, since somebody else owns the conversation now
        self._stopping = False  # a stop came before there was a turn
        self._closed = False
        self._pauses: list[asyncio.Event] = []  # of those who wait to try again; set to try at once
        self._waiters: list[asyncio.Future[None]] = []  # of those who wait for the turn's end

    @property
    def idle(self) -> bool:
        """True if nothing is being done, and nothing is on its way."""
        return self._task is None and not (self._arriving or self._pauses or self._lock.locked())

    @property
    def talking(self) -> bool:
        """True if a reply is under way, or waits for its turn."""
        return self._task is not None

    @property
    def waiting(self) -> bool:
        """True if it is `talking`, and no turn was begun yet."""
        return self.talking and (self._runner is None or self._runner.turn is None)

    # Incoming.

    async def receive(self, message: Message, channel: Channel) -> None:
        """Record a message, and see that it is answered if it is addressed; a known one is ignored.

        Raises:
            StoreError: it could not be recorded, and will not be answered.
        """
        arrived = time.monotonic()
        arrival = self._arriving.setdefault(message.id, _Arrival())
        try:
            recorded = await self._shared.store.receive(message)
            while recorded is not None and arrival.changed:
                text = arrival.text
                await self._record_change(message.id, text)
                if arrival.text == text:  # else another change came meanwhile
                    arrival.changed = False
                    self._put_right(message.id, text)  # a reader of the store has it as it was
                    recorded = None if text is None else replace(recorded, text=text)
            self._told_full = self._told_full and self._is_full
            if recorded is not None and self._is_too_much(recorded) and await self._is_still_full():
                recorded = await self._turned_away(recorded, channel)
        except asyncio.CancelledError:
            self._history.forget()  # it may be on record: the next turn looks
            raise
        finally:
            self._arriving.pop(message.id, None)
        if recorded is None:
            self._recorded_elsewhere(message)
        if recorded is None or self._resting:  # then it waits in the store
            return
        self._channel = channel
        self._hear(recorded, arrived)

    def _hear(self, recorded: Message, arrived: float) -> None:
        """Take a message that is on record; an addressed one is answered."""
        if self._holds(recorded.id):  # a reader of the store found it there meanwhile
            return
        if recorded.addressed or self._history.is_known:  # else it waits in the store until it is read
            self._inbox.hear(recorded, arrived=arrived)
            self._inbox.pass_over(OVERHEARD)
        if recorded.addressed:
            self._see_to_it()
            if self._runner is not None:
                self._runner.newer(recorded)

    async def look(self) -> None:
        """Take what another process has recorded while a reply is under way: messages, edits, deletions.

        Where none is, or it ends meanwhile, nothing is done: whoever is given the conversation next reads the
        store. A turn that began here then would be cut by that process.

        Raises:
            StoreError: it could not be read or recorded.
        """
        channel = self._channel
        if not self.talking or channel is None:
            return
        arrived = time.monotonic()
        saved = await self._shared.store.load(self._name, 0)
        if self._task is None:
            return
        runner = self._runner
        turn = next((one for one in saved.unfinished if runner and one.id == runner.turn), None)
        known = {message.id: message for message in (*saved.waiting, *(turn.messages if turn else ()))}
        held = [*self._inbox.messages, *self._refused.messages]
        if turn is not None and runner is not None:
            held += runner.inbox.messages
        for message in held:
            now = known.get(message.id)
            if now is None or now.text != message.text:
                self._put_right(message.id, None if now is None else now.text)
        self._told_full = self._told_full and self._is_full
        for message in saved.waiting:
            heard: Message | None = message
            if self._is_too_much(message):
                heard = await self._turned_away(message, channel)
            if heard is not None and not self._resting:
                self._hear(heard, arrived)

    def _recorded_elsewhere(self, message: Message) -> None:
        """Look again in the store after the turn under way, if the message may be there since another process
        has recorded it: that one waits for the end of this turn, and may itself end before.
        """
        if message.addressed and self._task is not None and not self._holds(message.id):
            self._elsewhere = True
            self._history.forget()

    @property
    def _is_full(self) -> bool:
        """True if more messages wait than are answered at all."""
        return len(self._inbox.addressed) >= self._shared.settings.waiting_messages

    def _is_too_much(self, recorded: Message) -> bool:
        full = recorded.addressed and self._is_full
        return full and not self._resting and not self._holds(recorded.id)

    async def _is_still_full(self) -> bool:
        """Return True if too much waits in the store, too: another process may have answered some of it.

        Raises:
            StoreError: it could not be read.
        """
        self._inbox.keep({message.id for message in await self._shared.store.waiting(self._name)})
        return self._is_full

    async def _turned_away(self, recorded: Message, channel: Channel) -> Message | None:
        """Have a message over the limit only overheard. Return None for the first, whose author is told."""
        if not self._told_full:
            self._told_full = True
            self._refused.hear(recorded, arrived=time.monotonic())
            self._channel = channel
            self._see_to_it()
            return None
        await self._shared.store.only_hear(self._name, (recorded.id,))
        return replace(recorded, addressed=False)

    async def change(self, message_id: str, text: str | None) -> None:
        """Take another text of a message; None: it was deleted. See `TurnRunner.changed`.

        Raises:
            StoreError: it could not be recorded.
        """
        self._take_change(message_id, text)  # at once: nobody is to be answered to the old text
        await self._record_change(message_id, text)
        self._take_change(message_id, text)  # it may have been on its way here

    def _take_change(self, message_id: str, text: str | None) -> None:
        arrival = self._arriving.get(message_id)
        if arrival is not None:
            arrival.change(text)
        self._put_right(message_id, text)

    async def _record_change(self, message_id: str, text: str | None) -> None:
        store = self._shared.store
        if text is None:
            await store.withdraw(self._name, message_id)
        else:
            await store.revise(self._name, message_id, text)

    def _put_right(self, message_id: str, text: str | None) -> None:
        """Give a message another text wherever it is held; None: leave the message out."""
        for inbox in (self._inbox, self._refused):
            if text is None:
                inbox.remove(message_id)
            else:
                inbox.revise(message_id, text)
        if self._runner is not None:
            self._runner.changed(message_id, text)

    # Questions to the conversation.

    async def lines_before(self, message: Message) -> tuple[Line, ...]:
        """Return the lines that a model would be shown before the user line of this message."""
        session = self._session(self._channel)
        async with self._lock:
            window = await self._history.glance(session, message)
            return (*session.prefix(message), *window.lines)

    async def settled(self) -> None:
        """Return when everything that came was answered."""
        while self._task is not None or self._pauses:
            if self._task is not None:
                await asyncio.wait([self._task])
            else:
                await asyncio.sleep(_LEASE_PAUSES[0])

    async def cancel(self) -> bool:
        """End the reply that is being written; returns when its turn has ended. False: there was none."""
        if self._task is None or (self._runner is None and self._pauses):
            return False
        if self._runner is None:
            self._stopping = True
        else:
            self._runner.cancel()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
        return True

    async def reset(self) -> None:
        """Forget the history, and the messages that wait for an answer.

        Raises:
            StoreError: it could not be forgotten.
        """
        self._inbox.replace(())
        self._refused.replace(())
        if self._runner is not None:
            self._runner.cancel()
        async with self._lock:  # who asks for it comes before the next turn
            await self.compaction.cancel()
            try:
                await self._shared.store.reset(self._name)
            finally:
                self._forget()  # what came meanwhile may be forgotten or not: the next turn looks
        self._try_again()

    async def rewind(self, turn: int) -> None:
        """Take a turn and all after it out of the history.

        Raises:
            LeaseHeld: another process is answering here.
            StoreError: it could not be recorded.
        """
        async with self._taking_out() as store:
            await store.rewind(self._name, turn)

    async def take_back(self) -> tuple[Message, ...]:
        """Take the last messages to the persona and their answer out of the history; return the messages.

        Raises:
            LeaseHeld: another process is answering here.
            StoreError: it could not be recorded.
        """
        async with self._taking_out() as store:
            turn, messages = await store.last_asked(self._name)
            if turn is not None:
                await store.rewind(self._name, turn)
            else:
                for message in messages:  # nobody has answered them yet
                    await self.change(message.id, None)
            return messages

    async def restore(self, branch: str) -> None:
        """Put turns back that were taken out; see `Store.restore`.

        Raises:
            LeaseHeld: another process is answering here.
            StoreError: nothing is kept under that address, or it could not be recorded.
        """
        async with self._taking_out() as store:
            await store.restore(self._name, branch)

    @asynccontextmanager
    async def _taking_out(self) -> AsyncGenerator[Store, None]:
        """Stop the reply that is being written, and have the history to oneself, to take turns out of it."""
        if self._runner is not None:
            self._runner.cancel()
        async with self._lock:
            await self.compaction.cancel()
            try:
                await self._shared.store.lease(self._name)
                yield self._shared.store
            finally:
                self._forget()

    async def resume(self, channel: Channel | None, since: float, *, take: bool = False) -> None:
        """Finish what was left half-done, and answer what was sent since then and waits.

        Without a channel, what was half-done is laid down as it is. Returns when nothing is left to be done;
        in a conversation that is busy already, when what was half-done is. `take`: see `Store.lease`.

        Raises:
            PixiError: it could not be read or recorded.
        """
        busy = self.talking
        self._channel = self._channel or channel
        try:
            saved = await self._once_free(
                lambda: self._history.recover(self._session(channel), channel, take=take)
            )
        except PixiError:
            await self._let_go()
            raise
        if saved is None:
            return
        wanted = any(message.addressed and message.sent_at >= since for message in saved.waiting)
        if channel is not None and wanted and not self._resting:
            self._read_again(saved.waiting)
            self._see_to_it()
        else:
            self._history.forget()
        if not busy:
            await self.settled()

    async def part_with(self, person: str) -> None:
        """Answer somebody no more, by the id of the author: not now, and not what still waits."""
        for inbox in (self._inbox, self._refused):
            inbox.remove(*(message.id for message in inbox.messages if message.author.id == person))
        runner = self._runner
        if runner is not None and any(message.author.id == person for message in runner.inbox.messages):
            await self.cancel()

    async def outdated(self) -> None:
        """Let everything be read again: the store changed what it holds."""
        self._forget()
        if self._task is None:  # what was only overheard waits in the store, too
            self._inbox.replace(())
        await self.compaction.cancel()  # its input is no longer there

    async def evict(self, overtaken: Container[int]) -> None:
        """Drop words that were taken out of the store; these turns leave nothing: see `Store.forgotten`."""
        if self._runner is not None and self._runner.turn in overtaken:
            await self.cancel()
        await self.outdated()

    def drain(self) -> None:
        """Let people see the end of what they see being written, and no more."""
        if self._runner is not None:
            self._runner.drain()
        self._try_again()

    async def close(self) -> None:
        """End what is being done, for good and within seconds; the next process goes on with it."""
        self._closed = True
        self.drain()
        if self._runner is not None and not self._runner.life.unseen:  # else it is requeued at once
            self._runner.leave()
        await self.compaction.cancel()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.settled()
        except TimeoutError:
            if self._task is not None:  # what it was at is finished or laid down at the next start
                await give_up(self._task, f"a turn of conversation {self._name}")

    # The task.

    @property
    def _resting(self) -> bool:
        """True if messages are only recorded."""
        return self._closed or self._shared.draining

    def _see_to_it(self) -> None:
        """Start the task that answers, unless it runs."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while not self._resting and (self._is_due or await self._waits_elsewhere()):
                self._elsewhere = False  # the window is read again, and with it all that waits
                await self._once_free(self._take_turn)
                if self._taken_over:  # the new owner comes first
                    self._taken_over = False
                    await self._pause(_LEASE_PAUSES[1])
                    await self._still_waits()  # messages answered there do not bring the conversation back
        finally:
            self._task = None
            self._stopping = False
            self._tell_waiters()

    async def _waits_elsewhere(self) -> bool:
        """Hold messages that another process has recorded; return True if one is to be answered."""
        if not self._elsewhere:
            return False
        self._elsewhere = False
        if (saved := await self._saved()) is not None:
            self._read_again(saved.waiting)
        return self._is_due

    @property
    def _is_due(self) -> bool:
        return self._inbox.wants_answer or bool(self._refused.messages) or self._left

    async def _take_turn(self) -> None:
        """Answer the messages that wait. An error is told once, and the conversation lives on.

        Raises:
            LeaseHeld: another process answers here just now.
            ChannelLost: the channel is away, and it is not known how far the turn before came.
        """
        channel = self._channel
        assert channel is not None  # a message came by it
        tried = frozenset((*self._inbox.ids, *self._refused.ids))
        ended: TurnEnded | None = TurnEnded("error", 0)
        try:
            ended = await self._answered(channel)
        except (LeaseHeld, ChannelLost) as error:
            ended = None
            if isinstance(error, ChannelLost) or await self._still_waits():
                raise
        except Exception as error:
            self._give_up(tried)
            text = str(error)
            if not isinstance(error, PixiError):
                _log.exception("a turn of conversation %s broke", self._name)
                text = "Something broke inside; with --debug the log tells what."
            channel.show(Failed(text))
            await self._let_go()
        finally:
            runner, self._runner = self._runner, None
            self._stopping = False
            if ended is not None:
                channel.show(ended)
                if runner is not None and (report := runner.report(ended.finish)) is not None:
                    # Whoever waits for the answer comes before the log.
                    asyncio.get_running_loop().call_soon(runner.told, report)
            self._tell_waiters()

    async def _answered(self, channel: Channel) -> TurnEnded | None:
        """Take one turn, however often it is begun again; None where nothing was left to be answered."""
        session = self._session(channel)
        if self._left:
            saved = await self._history.recover(session, channel)
            self._left = False
            self._read_again(saved.waiting)
        refused = bool(self._refused.messages)
        waiting = self._refused if refused else self._inbox
        runner = self._runner = TurnRunner(session, channel, waiting, refusal=_TOO_MANY if refused else "")
        if self._stopping:
            runner.cancel()
        if self._shared.settings.gather_seconds > 0 and not refused:
            await asyncio.sleep(self._shared.settings.gather_seconds)
        if not waiting.wants_answer or self._resting:
            return None  # a reset was quicker
        window = await self._ready(session, waiting.answered)
        if not waiting.wants_answer:
            return None  # it was withdrawn, or another process has answered it
        ended = await runner.run(window, self._history)
        if runner.is_open:
            self._forget()
            if runner.turn is None:  # it was not begun: all is read again, and then it is
                waiting.add(runner.inbox)
                return None
            if runner.life.reason is Reason.TAKEN:
                self._taken_over = await self._shared.store.owned_elsewhere(self._name)
            self._left = not self._taken_over
            if self._taken_over:
                channel.show(Failed(TAKEN_OVER))
        elif runner.life.fate is Fate.WAITING:
            waiting.add(runner.inbox)
        else:
            waiting.add(Inbox(list(runner.again)))
        if self._history.is_known and not self._resting:
            name, tokens = session.role.persona.name, session.summary_tokens
            self.compaction.consider(name, tokens, window, self._history.generation)
        return ended

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Waiting for the right to answer.

    async def _once_free(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Do work that only the owner may do, when nothing else is done here; None: the process ended first.

        While another process answers here it waits, and while the channel is away.
        """
        lease, away = _LEASE_PAUSES[0], _AWAY_PAUSES[0]
        while not self._resting:
            try:
                async with self._lock:
                    return await work()
            except LeaseHeld:
                pause, lease = lease, min(2 * lease, _LEASE_PAUSES[1])
            except ChannelLost:
                pause, away = away, min(2 * away, _AWAY_PAUSES[1])
            await self._pause(pause)
        return None

    async def _pause(self, seconds: float) -> None:
        if self._resting:
            return  # nobody would end it
        over = asyncio.Event()
        self._pauses.append(over)
        try:
            async with asyncio.timeout(seconds):
                await over.wait()
        except TimeoutError:
            pass  # it was long enough
        finally:
            self._pauses.remove(over)

    def _try_again(self) -> None:
        """End all pauses, so that everybody tries again at once."""
        for over in self._pauses:
            over.set()

    async def _still_waits(self) -> bool:
        """Return False if the owner has meanwhile answered all that came here."""
        saved = await self._saved()
        if saved is None:
            return True  # the next try tells of it, if it lasts
        waiting = {message.id for message in saved.waiting}
        for inbox in (self._inbox, self._refused):
            inbox.keep(waiting)
        return self._is_due

    async def _saved(self) -> SavedConversation | None:
        """Read the conversation from the store; None where it cannot be read now."""
        tokens = self._session(self._channel).role.model.traits.context_tokens
        try:
            return await self._shared.store.load(self._name, tokens)
        except StoreError:
            return None

    # Memory.

    def _session(self, channel: Channel | None) -> PersonaSession:
        return self._shared.session(self._name, NO_ABILITIES if channel is None else channel.abilities)

    async def _ready(self, session: PersonaSession, message: Message) -> Conversation:
        """Return the window; read it where there is none, or another role is played now.

        What waits in the store then takes the place of what waits here.
        """
        window = self._history.window(session, message)
        if window is None:
            window, saved = await self._history.read(session, message, self._channel)
            if saved is not None:
                self._read_again(saved.waiting)
        return window

    def _read_again(self, waiting: Sequence[Message]) -> None:
        """Hold the messages that wait in the store, in place of those here."""
        self._refused.keep({message.id for message in waiting})
        self._inbox.replace(waiting)
        self._inbox.remove(*self._refused.ids)
        self._inbox.pass_over(OVERHEARD)

    def _holds(self, message_id: str) -> bool:
        """Return True if a message is here already, to be answered or being answered."""
        inboxes = (self._inbox, self._refused, *((self._runner.inbox,) if self._runner else ()))
        return any(inbox.find(message_id) for inbox in inboxes)

    def _forget(self, tried: frozenset[str] = frozenset()) -> None:
        """Let the next turn read everything from the store again; drop the messages that were tried."""
        self._history.forget()
        self._inbox.remove(*tried)
        self._inbox.passed = []

    def _give_up(self, tried: frozenset[str]) -> None:
        """Leave the messages that were tried to the next message or process: something is broken."""
        self._forget(tried)
        self._refused.replace(())
        self._left = False

    async def _let_go(self) -> None:
        """Release the lease: else a turn that is open here keeps others from the conversation for good."""
        with suppress(StoreError):
            await self._shared.store.release(self._name)
