"""Keeps between runs what a model on this machine has read of a talk, while the store has its words."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pixi.core.errors import StoreError
from pixi.models.saved_slots import SavedSlots

if TYPE_CHECKING:
    from pixi.models.llama import LocalModel
    from pixi.models.model import Model
    from pixi.store.store import Store


def slots_of(store_url: str) -> SavedSlots | None:
    """Return the saved slots of the talks in a store; None for one in memory, of which nothing is kept."""
    from pixi.store.opening import file_of, is_postgres  # late: a start shows its prompt before it needs SQL

    if is_postgres(store_url):
        return SavedSlots(store_url.rpartition("@")[2])  # without user and password
    path = file_of(store_url)
    return None if path is None else SavedSlots(str(path.resolve()))


class SlotSaver:
    """Saves the model's state of the talks in a store. Made by `saved_slot`.

    Args:
        slots: the files; None: nothing is kept.
        store: open. Files of talks are deleted as soon as words were taken out of it.
        model: gives the model that talks.
        talk: whose state the model restores and saves.
    """

    def __init__(
        self, slots: SavedSlots | None, store: "Store", model: "Callable[[], Model]", talk: str
    ) -> None:
        self._slots = slots
        self._store = store
        self._model = model
        self._talk = talk

    async def follow(self, revision: int) -> None:
        """Delete what was saved before the store came to this revision, if it is another than before."""
        if self._slots is not None and revision != self._slots.revision:
            self._slots.revision = revision
            if model := local_model(self._model()):
                model.forget_slot()
            await asyncio.to_thread(self._slots.drop, but=revision)

    async def restore(self) -> None:
        """Restore the talk's state, and delete the files that are older than the store's revision."""
        if self._slots is None:
            return
        self._slots.revision = (await self._store.forgotten(0)).revision
        await asyncio.to_thread(self._slots.drop, but=self._slots.revision)
        if self._talk and (model := local_model(self._model())):
            await model.restore_slot(self._slots, self._talk)

    async def save(self) -> None:
        """Save the talk's state, unless the store lost words of it."""
        if self._slots is None or not self._talk or not (model := local_model(self._model())):
            return
        with suppress(StoreError):  # then nobody can tell whether it may be kept
            await self._check()
            await model.save_slot(self._slots, self._talk)
            await self._check()  # another process may have forgotten it meanwhile
            return
        await asyncio.to_thread(self._slots.drop)

    async def _check(self) -> None:
        """Delete what was saved if the store lost words since.

        Raises:
            StoreError: that could not be found out.
        """
        assert self._slots is not None
        await self.follow((await self._store.forgotten(self._slots.revision)).revision)


@asynccontextmanager
async def saved_slot(
    store_url: str, store: "Store", model: "Callable[[], Model]", talk: str
) -> AsyncGenerator[SlotSaver, None]:
    """Restore the state of a talk, and save it when the block is left; see `SlotSaver`.

    Raises:
        StoreError: it could not be found out what was forgotten.
    """
    saver = SlotSaver(slots_of(store_url), store, model, talk)
    await saver.restore()
    try:
        yield saver
    finally:
        await saver.save()


def local_model(model: "Model") -> "LocalModel | None":
    """Return the model that runs here, if it is the first of those that answer; else None."""
    from pixi.models.fallback import FallbackModel
    from pixi.models.llama import LocalModel

    first = model.first if isinstance(model, FallbackModel) else model
    return first if isinstance(first, LocalModel) else None
