"""Records what people do for workers, which answer: the `Intake` of a process that answers nothing itself."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from pixi.app.cluster.queue import ConversationQueue
from pixi.core.channel import Channel
from pixi.core.message import Message
from pixi.store.store import Store

_STOP_SECONDS = 5.0  # in which a turn that was told to stop has ended
_STOP_PAUSE = 0.05


class Recorder:
    """Puts everything on record first, then its conversation on the queue.

    Args:
        store: open; closed by whoever opened it.
        queue: from which workers take conversations.
        recorded: called for each message that was put on record.

    Attributes:
        draining: the program is about to end.
        hearing: makes a context for each message that is to be answered, while it is recorded and queued.
    """

    def __init__(
        self, store: Store, queue: ConversationQueue, recorded: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._queue = queue
        self._recorded = recorded
        self.draining = False
        self.hearing: Callable[[], AbstractContextManager[None]] = nullcontext

    async def receive(self, message: Message, channel: Channel) -> None:
        """Record a message, and have it answered if it is addressed. A known one is not recorded again.

        Raises:
            StoreError: it could not be recorded or queued, and may be given again.
        """
        with self.hearing() if message.addressed else nullcontext():
            if await self._store.receive(message) is not None:
                self._recorded()
            if message.addressed:
                await self._queue.put(message.conversation)

    async def edit(self, conversation: str, message_id: str, text: str) -> None:
        """Record that a message was edited. A reply of which nothing was seen is begun again.

        Raises:
            StoreError: it could not be recorded.
        """
        if await self._store.revise(conversation, message_id, text):
            await self._queue.signal("look", conversation)

    async def withdraw(self, conversation: str, message_id: str) -> None:
        """Record that a message was deleted: a reply to it ends at once, or is never begun.

        Raises:
            StoreError: it could not be recorded.
        """
        if await self._store.withdraw(conversation, message_id):
            await self._queue.signal("look", conversation)

    async def stop(self, conversation: str) -> bool:
        """Stop the reply that is being written, or have none begun. False: there was none.

        Returns when its turn has ended, or after seconds: its worker may have died.

        Raises:
            StoreError: it could not be read or recorded.
        """
        saved = await self._store.load(conversation, 0)
        if not saved.unfinished:
            waiting = [message.id for message in saved.waiting if message.addressed]
            await self._store.only_hear(conversation, waiting)
            await self._queue.signal("stop", conversation)  # to a worker that is about to begin
            return bool(waiting)
        await self._queue.signal("stop", conversation)
        until = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(_STOP_PAUSE)
            if not (await self._store.load(conversation, 0)).unfinished:
                break
        return True

    async def reset(self, conversation: str) -> None:
        """Forget a conversation. What is being written there has no effect any more, and is stopped.

        Raises:
            StoreError: it could not be forgotten.
        """
        await self._store.reset(conversation)
        await self._queue.signal("stop", conversation)

    async def forget(self, person: str) -> int:
        """Forget a person everywhere: the store tells all processes.

        Raises:
            StoreError: it could not be forgotten.
        """
        return len(await self._store.forget(person))

    async def drain(self, seconds: float) -> None:
        """Note that the program ends. All is on record, and workers go on."""
        self.draining = True
