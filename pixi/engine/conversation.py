"""One conversation while it is alive: its mailbox, and the one task that answers what is in it."""

import asyncio
import logging

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation, estimate_all, estimate_tools
from pixi.core.deltas import Usage
from pixi.core.errors import PixiError
from pixi.core.events import Failed, TurnEnded
from pixi.core.lines import Line
from pixi.core.message import Message
from pixi.engine.attempt import Attempt, Heard, begin_attempt
from pixi.engine.recovery import recovered
from pixi.engine.reply import Halt, Reply
from pixi.engine.stage import Stage

_log = logging.getLogger("pixi.engine")

OVERHEARD = 20
"""How many overheard messages, the latest ones, a user line tells of."""


class LiveConversation:
    """Gathers the messages of one conversation and answers them, one turn after the other.

    Nothing in it needs to be kept once it is `idle`: what it knows can be read from the store.
    """

    __slots__ = (
        "_arriving",
        "_channel",
        "_closed",
        "_generation",
        "_lock",
        "_name",
        "_pending",
        "_reply",
        "_stage",
        "_stopping",
        "_task",
        "_waiters",
        "_window",
    )

    def __init__(self, name: str, stage: Stage) -> None:
        self._name = name
        self._stage = stage
        self._pending = Heard()  # received and not yet part of a turn
        self._arriving: set[str] = set()  # ids of messages that are being recorded
        self._channel: Channel | None = None
        self._window: Conversation | None = None  # None until it is read from the store
        self._generation = 0
        self._lock = asyncio.Lock()  # a turn and a reset are never at work at once
        self._task: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self._stopping = False
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []  # of those who wait for the turn's end

    @property
    def idle(self) -> bool:
        """Nothing is being done, and nothing is on its way."""
        return self._task is None and not self._arriving and not self._lock.locked()

    async def receive(self, message: Message, channel: Channel) -> None:
        """Record a message, and see that it is answered if it is addressed; a known one is ignored.

        Raises:
            StoreError: it could not be recorded, and will not be answered.
        """
        # Who reads the waiting messages from the store meanwhile leaves out what is on its way here.
        self._arriving.add(message.id)
        try:
            is_new = await self._stage.store.receive(message)
        except asyncio.CancelledError:
            self._window = None  # it may be on record: the next turn looks
            raise
        finally:
            self._arriving.discard(message.id)
        if not is_new or self._closed:  # then it waits in the store
            return
        self._channel = channel
        if message.addressed or self._window is not None:  # else it waits in the store until it is read
            self._pending.messages.append(message)
            self._pending.pass_over(OVERHEARD)
        if not message.addressed:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._reply is not None:
            self._reply.interrupt()

    async def lines_before(self, message: Message) -> tuple[Line, ...]:
        """What a model would be shown before the user line of this message."""
        async with self._lock:
            if self._window is None:
                self._window = await self._read(message)
            return (*self._stage.prefix(message), *self._window.lines)

    async def settled(self) -> None:
        """Return when everything that came was answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """End the reply that is being written; returns when its turn has ended."""
        if self._task is None:
            return
        if self._reply is None:
            self._stopping = True
        else:
            self._reply.stop()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def reset(self) -> None:
        """Forget what was said, and what still waits for an answer.

        Raises:
            StoreError: it could not be forgotten.
        """
        self._pending = Heard()
        await self.stop()
        async with self._lock:
            await self._stage.store.reset(self._name)
            self._forget(frozenset(self._pending.ids))

    async def close(self) -> None:
        """End what is being done, for good; messages that wait stay in the store."""
        self._closed = True
        while self._task is not None:
            self._pending = Heard()
            await self.stop()

    # The task.

    async def _run(self) -> None:
        try:
            while self._pending.wants_answer:
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
            ended = await self._answer(channel)
        except PixiError as error:
            self._forget(tried)
            channel.show(Failed(str(error)))
        except Exception:
            self._forget(tried)
            _log.exception("a turn of conversation %s broke", self._name)
            channel.show(Failed("Something broke inside; with --debug the log tells what."))
        finally:
            self._reply = None
            self._stopping = False
            if ended is not None:
                channel.show(ended)
            self._tell_waiters()

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _answer(self, channel: Channel) -> TurnEnded | None:
        """One turn; it is begun again where newer messages came before anything was seen of it."""
        limits = self._stage.limits
        if self._stage.gather_seconds > 0:
            await asyncio.sleep(self._stage.gather_seconds)
        if not self._pending.wants_answer:
            return None  # a reset was quicker
        if self._window is None:
            self._window = await self._read(self._pending.answered)
        window, heard = self._window, Heard()
        steps, usage = 0, Usage()
        restarts_left = limits.restarts
        while True:
            heard.add(self._pending)
            self._pending = Heard()
            attempt = await self._begin(window, channel, heard, may_restart=restarts_left > 0)
            await attempt.reply.run()
            self._reply = None
            steps += attempt.turn.steps
            usage += attempt.turn.usage
            if attempt.reply.halted is not Halt.AGAIN:
                return await self._end(attempt, window, steps, usage)
            restarts_left -= 1
            await self._stage.store.end_turn(attempt.id, (), "cancelled", steps, usage)

    async def _begin(
        self, window: Conversation, channel: Channel, heard: Heard, *, may_restart: bool
    ) -> Attempt:
        attempt = await begin_attempt(
            self._stage, window, channel, heard, generation=self._generation, may_restart=may_restart
        )
        self._reply = attempt.reply
        if self._stopping:
            attempt.reply.stop()
        elif self._pending.wants_answer:  # it came while the turn was put on record
            attempt.reply.interrupt()
        return attempt

    async def _end(self, attempt: Attempt, window: Conversation, steps: int, usage: Usage) -> TurnEnded:
        turn, finish = attempt.turn, attempt.reply.finish
        lines = turn.lines
        if await self._stage.store.end_turn(attempt.id, lines, finish, steps, usage):
            window.append(lines)
            if turn.steps == 1 and attempt.reply.last_request is not None:
                window.counted(attempt.reply.last_request, turn.usage.prompt_tokens)
        else:  # another process ended it, or forgot the conversation: the store knows more than we do
            self._forget()
        return TurnEnded(finish, steps, usage)

    # What is kept in memory.

    async def _read(self, message: Message) -> Conversation:
        """The window as the store has it; what waits there takes the place of what waits here.

        `message` is one that is to be answered: what stands before the history depends on its author.
        """
        stage = self._stage
        names = stage.repertoire.names
        saved = await recovered(stage.store, self._name, names=names, stamp=stage.stamp)
        self._generation = saved.generation
        on_the_way = self._arriving.difference(self._pending.ids)
        self._pending = Heard([message for message in saved.waiting if message.id not in on_the_way])
        self._pending.pass_over(OVERHEARD)
        return Conversation(
            saved.lines,
            context_tokens=stage.model.traits.context_tokens,
            prefix_tokens=estimate_all(stage.prefix(message)) + estimate_tools(stage.repertoire.schemas),
        )

    def _forget(self, tried: frozenset[str] = frozenset()) -> None:
        """Let the next turn read everything from the store again; what was tried comes from there."""
        self._window = None
        self._pending.forget(tried)
