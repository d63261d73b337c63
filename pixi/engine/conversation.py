"""One conversation while it is alive: its mailbox, and the one task that answers what is in it."""

import asyncio
import logging
from collections.abc import Set
from dataclasses import dataclass

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation, estimate_all, estimate_tools
from pixi.core.deltas import Usage
from pixi.core.errors import PixiError
from pixi.core.events import Failed, TurnEnded
from pixi.core.message import Message
from pixi.core.turn import Turn
from pixi.engine.acts import Acts
from pixi.engine.recovery import recovered
from pixi.engine.reply import Halt, Reply
from pixi.engine.stage import Stage

_log = logging.getLogger("pixi.engine")

OVERHEARD = 20
"""How many overheard messages, the latest ones, a user line tells of."""


@dataclass(slots=True)
class _Attempt:
    """A turn on record, and what writes it."""

    id: int
    turn: Turn
    reply: Reply


class LiveConversation:
    """Gathers the messages of one conversation and answers them, one turn after the other.

    Nothing in it needs to be kept once it is `idle`: what it knows can be read from the store.
    """

    __slots__ = (
        "_arriving",
        "_channel",
        "_generation",
        "_lock",
        "_name",
        "_passed",
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
        self._pending: list[Message] = []  # received and not yet part of a turn, oldest first
        self._passed: list[str] = []  # ids of overheard messages that there were too many of
        self._arriving: set[str] = set()  # ids of messages that are being recorded
        self._channel: Channel | None = None
        self._window: Conversation | None = None  # None until it is read from the store
        self._generation = 0
        self._lock = asyncio.Lock()  # a turn and a reset are never at work at once
        self._task: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self._stopping = False
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
        finally:
            self._arriving.discard(message.id)
        if not is_new:
            return
        self._channel = channel
        if message.addressed or self._window is not None:  # else it waits in the store until it is read
            self._pending.append(message)
            self._pass_over()
        if not message.addressed:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._reply is not None:
            self._reply.interrupt()

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
        self._pending.clear()
        await self.stop()
        async with self._lock:
            await self._stage.store.reset(self._name)
            self._forget({message.id for message in self._pending})

    async def close(self) -> None:
        """End what is being done; messages that wait stay in the store."""
        while self._task is not None:
            self._pending.clear()
            await self.stop()

    # The task.

    async def _run(self) -> None:
        try:
            while any(message.addressed for message in self._pending):
                async with self._lock:
                    await self._take_turn()
        finally:
            self._task = None
            self._tell_waiters()

    async def _take_turn(self) -> None:
        """Answer what waits. Whatever goes wrong is told once, and the conversation lives on."""
        channel = self._channel
        assert channel is not None  # a message came by it
        tried = {message.id for message in self._pending}
        ended: TurnEnded | None = TurnEnded("error", 0)
        try:
            ended = await self._answer(channel)
        except PixiError as error:
            self._forget(tried)
            channel.show(Failed(str(error)))
        except Exception:
            self._forget(tried)
            _log.exception("a turn of conversation %s broke", self._name)
            channel.show(Failed("Something broke inside; the log tells what."))
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
        if self._window is None:
            self._window = await self._read()
        messages: list[Message] = []
        steps, usage = 0, Usage()
        restarts_left = limits.restarts
        while True:
            messages += self._pending
            self._pending.clear()
            if not any(message.addressed for message in messages):
                self._pending = messages
                return None  # a reset was quicker
            attempt = await self._begin(messages, channel, self._window, may_restart=restarts_left > 0)
            await attempt.reply.run()
            steps += attempt.turn.steps
            usage += attempt.turn.usage
            if attempt.reply.halted is not Halt.AGAIN:
                return await self._end(attempt, self._window, steps, usage)
            restarts_left -= 1
            await self._stage.store.end_turn(attempt.id, (), "cancelled", steps, usage)

    async def _begin(
        self, messages: list[Message], channel: Channel, window: Conversation, *, may_restart: bool
    ) -> _Attempt:
        stage, repertoire = self._stage, self._stage.repertoire
        answered = [message for message in messages if message.addressed][-1]
        ids = (*self._passed, *(message.id for message in messages))
        number = await stage.store.begin_turn(self._name, self._generation, stage.persona.name, ids)
        self._passed.clear()
        said = window.fit(stage.stamp(messages))  # before the history is taken: it may cut it
        turn = Turn(
            prefix=stage.prefix(answered),
            history=window.lines,
            said=said,
            names=repertoire.names,
            people=[message.author.name for message in messages],
            tools=repertoire.schemas,
            limits=stage.limits,
            prose=stage.prose,
            grammar=repertoire.grammar,
            key=f"{number:x}",
        )
        sorry = stage.persona.when_broken
        self._reply = reply = Reply(
            turn=turn,
            model=stage.model,
            acts=Acts(
                turn=number,
                message=answered,
                persona=stage.persona,
                channel=channel,
                store=stage.store,
                limits=stage.limits,
            ),
            commands=stage.commands,
            tools=repertoire.tools,
            limits=stage.limits,
            spare_tokens=window.spare_tokens,
            may_restart=may_restart,
            when_broken=sorry[number % len(sorry)] if sorry else "",
        )
        if self._stopping:
            reply.stop()
        elif any(message.addressed for message in self._pending):  # it came while the turn was recorded
            reply.interrupt()
        return _Attempt(number, turn, reply)

    async def _end(self, attempt: _Attempt, window: Conversation, steps: int, usage: Usage) -> TurnEnded:
        turn, finish = attempt.turn, attempt.reply.finish
        self._reply = None
        lines = turn.lines
        if await self._stage.store.end_turn(attempt.id, lines, finish, steps, usage):
            window.append(lines)
            if turn.steps == 1 and attempt.reply.last_request is not None:
                window.counted(attempt.reply.last_request, turn.usage.prompt_tokens)
        return TurnEnded(finish, steps, usage)

    # What is kept in memory.

    async def _read(self) -> Conversation:
        """The window as the store has it; what waits there takes the place of what waits here."""
        stage = self._stage
        names = stage.repertoire.names
        saved = await recovered(stage.store, self._name, names=names, stamp=stage.stamp)
        self._generation = saved.generation
        self._passed.clear()
        self._pending = [message for message in saved.waiting if message.id not in self._arriving]
        self._pass_over()
        latest = self._pending[-1] if self._pending else None
        before = estimate_all(stage.prefix(latest)) if latest else 0
        return Conversation(
            saved.lines,
            context_tokens=stage.model.traits.context_tokens,
            prefix_tokens=before + estimate_tools(stage.repertoire.schemas),
        )

    def _forget(self, tried: Set[str]) -> None:
        """Let the next turn read everything from the store again; those that were tried come from there."""
        self._window = None
        self._passed.clear()
        self._pending = [message for message in self._pending if message.id not in tried]

    def _pass_over(self) -> None:
        """Keep the latest overheard messages alone, and of the others that they were heard."""
        overheard = [message for message in self._pending if not message.addressed]
        for message in overheard[:-OVERHEARD]:
            self._pending.remove(message)
            self._passed.append(message.id)
