"""One conversation while it is alive: its mailbox, and the one task that answers what is in it."""

import asyncio
import logging
import time
from collections.abc import Container
from dataclasses import replace

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.errors import PixiError, StoreOutdated
from pixi.core.events import Failed, TurnEnded
from pixi.core.lines import Line
from pixi.core.message import Message
from pixi.engine.answer import Answer
from pixi.engine.capabilities import NO_ABILITIES
from pixi.engine.compaction import HistoryCompaction
from pixi.engine.context import EngineContext, PersonaSession, PersonaSessions
from pixi.engine.heard import Heard
from pixi.engine.history import History
from pixi.engine.timeouts import give_up

_log = logging.getLogger("pixi.engine")

_CLOSE_SECONDS = 4.0  # longer than a reply needs to stop

OVERHEARD = 20
"""How many overheard messages, the latest ones, a user line tells of."""


class LiveConversation:
    """Gathers the messages of one conversation and answers them, one turn after the other.

    Nothing in it needs to be kept once it is `idle`: what it knows can be read from the store.
    """

    __slots__ = (
        "_answer",
        "_arriving",
        "_channel",
        "_closed",
        "_compaction",
        "_history",
        "_lock",
        "_name",
        "_overtaken",
        "_pending",
        "_sessions",
        "_shared",
        "_stopping",
        "_task",
        "_waiters",
    )

    def __init__(self, name: str, shared: EngineContext, sessions: PersonaSessions) -> None:
        self._name = name
        self._shared = shared
        self._sessions = sessions
        self._pending = Heard()  # received and not yet part of a turn
        self._arriving: set[str] = set()  # ids of messages that are being recorded
        self._overtaken: dict[str, str | None] = {}  # what they say by now; None: they were deleted
        self._channel: Channel | None = None
        self._history = History(name)
        self._lock = asyncio.Lock()  # a turn and a reset are never at work at once
        self._compaction = HistoryCompaction(
            name,
            shared.store,
            shared.ledger,
            shared.summarizer,
            lock=self._lock,
            outdated=self._history.forget,
        )
        self._task: asyncio.Task[None] | None = None
        self._answer: Answer | None = None  # of the turn under way
        self._stopping = False  # a stop came before there was one
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []  # of those who wait for the turn's end

    @property
    def idle(self) -> bool:
        """Nothing is being done, and nothing is on its way."""
        return self._task is None and not self._arriving and not self._lock.locked()

    @property
    def compaction(self) -> HistoryCompaction:
        """What keeps its summary."""
        return self._compaction

    @property
    def talking(self) -> bool:
        """Whether a reply is under way."""
        return self._task is not None

    async def receive(self, message: Message, channel: Channel) -> None:
        """Record a message, and see that it is answered if it is addressed; a known one is ignored.

        Raises:
            StoreError: it could not be recorded, and will not be answered.
        """
        arrived = time.monotonic()
        self._arriving.add(message.id)
        try:
            recorded = await self._shared.store.receive(message)
            while recorded is not None and message.id in self._overtaken:
                recorded = await self._brought_up_to_date(recorded, self._overtaken.pop(message.id))
        except asyncio.CancelledError:
            self._history.forget()  # it may be on record: the next turn looks
            raise
        finally:
            self._arriving.discard(message.id)
            self._overtaken.pop(message.id, None)
        if recorded is None or self._resting:  # then it waits in the store
            return
        self._channel = channel
        if self._holds(recorded.id):  # who read the store meanwhile has found it there
            return
        if recorded.addressed or self._history.is_known:  # else it waits in the store until it is read
            self._pending.hear(recorded, arrived=arrived)
            self._pending.pass_over(OVERHEARD)
        if recorded.addressed:
            self._see_to_it()

    async def _brought_up_to_date(self, recorded: Message, text: str | None) -> Message | None:
        """A message that was edited or deleted while it was being recorded; None where it is deleted."""
        if text is None:
            await self._shared.store.withdraw(self._name, recorded.id)
            self._leave_out(recorded.id)  # who read the store meanwhile has it as it was
            return None
        await self._shared.store.revise(self._name, recorded.id, text)
        self._put_right(recorded.id, text)
        return replace(recorded, text=text)

    async def edit(self, message_id: str, text: str) -> None:
        """A message was edited: see `Answer.revise`.

        Raises:
            StoreError: it could not be recorded.
        """
        self._revise(message_id, text)  # at once: nobody is to be answered to the old text
        await self._shared.store.revise(self._name, message_id, text)
        self._revise(message_id, text)  # it may have been on its way here

    async def withdraw(self, message_id: str) -> None:
        """A message was deleted: see `Answer.withdraw`.

        Raises:
            StoreError: it could not be recorded.
        """
        self._remove(message_id)
        await self._shared.store.withdraw(self._name, message_id)
        self._remove(message_id)

    async def lines_before(self, message: Message) -> tuple[Line, ...]:
        """What a model would be shown before the user line of this message."""
        async with self._lock:
            session = self._session(self._channel)
            window = await self._ready(session, message)
            return (*session.prefix(message), *window.lines)

    async def settled(self) -> None:
        """Return when everything that came was answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> bool:
        """End the reply that is being written; returns when its turn has ended. False: there was none."""
        if self._task is None:
            return False
        if self._answer is None:
            self._stopping = True
        else:
            self._answer.stop()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
        return True

    async def reset(self) -> None:
        """Forget what was said, and what still waits for an answer.

        Raises:
            StoreError: it could not be forgotten.
        """
        self._pending.take()
        if self._answer is not None:
            self._answer.stop()
        async with self._lock:  # who asks for it comes before the next turn
            await self._compaction.stop()
            try:
                await self._shared.store.reset(self._name)
            finally:
                self._forget()  # what came meanwhile may be forgotten or not: the next turn looks

    async def resume(self, channel: Channel | None, since: float) -> None:
        """Finish what the last process left half-done, and answer what was sent since then and waits.

        Without a channel, what was half-done is laid down as it is. Returns when nothing is left to be done.

        Raises:
            PixiError: it could not be read or recorded.
        """
        async with self._lock:
            saved = await self._history.recover(self._session(channel), channel)
            self._history.forget()
        wanted = any(message.addressed and message.sent_at >= since for message in saved.waiting)
        if channel is not None and wanted and not self._resting:
            self._channel = self._channel or channel
            self._pending.replace(list(saved.waiting))
            self._see_to_it()
        await self.settled()

    async def part_with(self, person: str) -> None:
        """Answer somebody no more, by the id of the author: not now, and not what still waits."""
        for message in self._pending.messages:
            if message.author.id == person:
                self._pending.remove(message.id)
        answer = self._answer
        if answer is not None and any(message.author.id == person for message in answer.heard.messages):
            await self.stop()

    async def outdated(self) -> None:
        """The store changed what it holds: what is known here is read again."""
        self._forget()
        if self._task is None:  # what was only overheard waits in the store, too
            self._pending.take()
        await self._compaction.stop()  # what it reads is no longer there

    async def let_go(self, overtaken: Container[int]) -> None:
        """Words were taken out of the store, and these turns are to leave nothing: see `Store.forgotten`."""
        if self._answer is not None and self._answer.turn in overtaken:
            await self.stop()
        await self.outdated()

    def wind_down(self) -> None:
        """Let people see the end of what they see being written, and no more."""
        if self._answer is not None:
            self._answer.wind_down()

    async def close(self) -> None:
        """End what is being done, for good and within seconds; messages that wait stay in the store."""
        self._closed = True
        self.wind_down()
        await self._compaction.stop()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._task is not None:
                    await self.stop()
        except TimeoutError:
            if self._task is not None:  # what it was at is finished or laid down at the next start
                await give_up(self._task, f"a turn of conversation {self._name}")

    # The task.

    @property
    def _resting(self) -> bool:
        """Whether messages are only recorded."""
        return self._closed or self._shared.winding_down

    def _see_to_it(self) -> None:
        """An addressed message waits."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._answer is not None:
            self._answer.interrupt()

    async def _run(self) -> None:
        try:
            while self._pending.wants_answer and not self._resting:
                async with self._lock:
                    await self._take_turn()
        finally:
            self._task = None
            self._stopping = False
            self._tell_waiters()

    async def _take_turn(self) -> None:
        """Answer what waits. Whatever goes wrong is told once, and the conversation lives on."""
        channel = self._channel
        assert channel is not None  # a message came by it
        tried = frozenset(self._pending.ids)
        ended: TurnEnded | None = TurnEnded("error", 0)
        try:
            ended = await self._answered(channel)
        except PixiError as error:
            self._forget(tried)
            channel.show(Failed(str(error)))
        except Exception:
            self._forget(tried)
            _log.exception("a turn of conversation %s broke", self._name)
            channel.show(Failed("Something broke inside; with --debug the log tells what."))
        finally:
            answer, self._answer = self._answer, None
            self._stopping = False
            if ended is not None:
                channel.show(ended)
                self._shared.tell(answer.report(ended.finish) if answer else None)
            self._tell_waiters()

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _answered(self, channel: Channel) -> TurnEnded | None:
        """One turn, however often it is begun again; None where there was nothing to answer any more."""
        session = self._session(channel)
        answer = self._answer = Answer(session, self._pending)
        if self._stopping:
            answer.stop()
        if self._shared.settings.gather_seconds > 0:
            await asyncio.sleep(self._shared.settings.gather_seconds)
        if not self._pending.wants_answer or self._resting:
            return None  # a reset was quicker
        window = await self._ready(session, self._pending.answered)
        if not self._pending.wants_answer:
            return None  # it was withdrawn, or another process has answered it
        try:
            ended = await answer.run(window, channel, self._history.generation, self._history.revision)
        except StoreOutdated:  # another process forgot somebody, or took the turn over: all is read again
            self._pending.put_back(answer.heard)
            self._forget()
            return None if answer.turn is None else TurnEnded("cancelled", 0)
        if answer.put_back:
            self._pending.put_back(answer.heard)
        if answer.outdated:
            self._forget()
        elif not self._resting:
            self._compaction.consider(
                session.role.persona.name, session.summary_tokens, window, self._history.generation
            )
        return ended

    # What is kept in memory.

    def _session(self, channel: Channel | None) -> PersonaSession:
        return self._sessions.at(self._name, NO_ABILITIES if channel is None else channel.abilities)

    async def _ready(self, session: PersonaSession, message: Message) -> Conversation:
        """The window; read anew where there is none, or another role is played now.

        What waits in the store then takes the place of what waits here.
        """
        window = self._history.window(session)
        if window is None:
            window, saved = await self._history.read(session, message, self._channel)
            self._pending.replace(list(saved.waiting))
            self._pending.pass_over(OVERHEARD)
        return window

    def _holds(self, message_id: str) -> bool:
        """Whether a message is here already, to be answered or being answered."""
        answer = self._answer
        here = self._pending.find(message_id) or (answer and answer.heard.find(message_id))
        return here is not None

    def _forget(self, tried: frozenset[str] = frozenset()) -> None:
        """Let the next turn read everything from the store again; what was tried comes from there."""
        self._history.forget()
        self._pending.forget(tried)

    def _revise(self, message_id: str, text: str) -> None:
        if message_id in self._arriving and self._overtaken.get(message_id, text) is not None:
            self._overtaken[message_id] = text
        self._put_right(message_id, text)

    def _remove(self, message_id: str) -> None:
        if message_id in self._arriving:
            self._overtaken[message_id] = None
        self._leave_out(message_id)

    def _put_right(self, message_id: str, text: str) -> None:
        self._pending.revise(message_id, text)
        if self._answer is not None:
            self._answer.revise(message_id, text)

    def _leave_out(self, message_id: str) -> None:
        self._pending.remove(message_id)
        if self._answer is not None:
            self._answer.withdraw(message_id)
