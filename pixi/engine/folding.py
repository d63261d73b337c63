"""Folding: what soon falls out of a conversation's window becomes part of its summary, beside the talk."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pixi.core.conversation import Bounds, Conversation
from pixi.core.errors import StoreError
from pixi.core.spending import Payer
from pixi.engine.stage import PersonaSession

_LARGEST_SHARE = 8  # of the model's context: a summary takes at most one part in so many


class HistoryCompaction:
    """Keeps the summary of one conversation: in a task of its own, for which no reply ever waits.

    Args:
        name: the conversation's address.
        lock: held while a turn is answered: a summary comes in between two.
        outdated: called once there is a new summary, and the window is to be read again.
    """

    __slots__ = ("_lock", "_name", "_nothing_before", "_outdated", "_task")

    def __init__(self, name: str, lock: asyncio.Lock, outdated: Callable[[], None]) -> None:
        self._name = name
        self._lock = lock
        self._outdated = outdated
        self._task: asyncio.Task[None] | None = None
        self._nothing_before = 0  # a turn: nothing before it is left to be folded

    @property
    def busy(self) -> bool:
        """Whether a summary is being written."""
        return self._task is not None

    def consider(self, session: PersonaSession, window: Conversation, generation: int) -> None:
        """Begin to fold, if something is to be folded and may be, and nothing is being folded."""
        summarizer, settings = session.shared.summarizer, session.shared.settings
        if self.busy or summarizer is None or summarizer.resting or not settings.summarize:
            return
        if session.role.model.traits.small:  # a long prompt makes it babble
            return
        bounds = window.to_fold()
        if bounds is not None and bounds.first_turn > self._nothing_before:
            self._task = asyncio.create_task(self._run(session, bounds, generation))
            self._task.add_done_callback(self._ended)  # also of one that is stopped before it begins

    async def settled(self) -> None:
        """Return when nothing is being folded."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Give up what is being folded; returns when that has ended."""
        while self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, session: PersonaSession, bounds: Bounds, generation: int) -> None:
        with suppress(StoreError):  # it is tried again, and whoever speaks next is told of it
            await self._fold(session, bounds, generation)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None

    async def _fold(self, session: PersonaSession, bounds: Bounds, generation: int) -> None:
        shared, role = session.shared, session.role
        store, summarizer = shared.store, shared.summarizer
        assert summarizer is not None
        if await shared.ledger.over(Payer(), ()) is not None:
            return  # no more is to be spent this month
        fold = await store.begin_fold(self._name, generation, bounds.first_turn)
        if fold is None:
            self._nothing_before = bounds.first_turn
            return
        tokens = min(shared.settings.summary_tokens, role.model.traits.context_tokens // _LARGEST_SHARE)
        summary = await summarizer.summary(fold, role.persona.name, tokens, shared.ledger.count)
        if not summary:
            return
        async with self._lock:
            if await store.end_fold(self._name, fold, bounds, summary):
                self._outdated()
