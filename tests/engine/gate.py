"""A method of a store that waits, or fails, where a test wants it to; the rest of the store is as it is."""

import asyncio
from collections.abc import Callable
from typing import Any

from pixi.core.errors import StoreError
from pixi.store.store import Store

FULL = StoreError("The disk is full.")


class Gate:
    """Stands in front of a method, or behind it.

    Args:
        store: of whom the method is.
        method: its name.
        after: calls wait when all is done, before they come back.
        error: raised in place of the call, until it is set to None; None: calls wait until the gate is open.
        when: given what a call was given: whether the gate is there for it.

    Attributes:
        reached: set once a call was held or failed.
        open: set for calls that wait to go on.
        error: see above.
        calls: how many there were, those that the gate was not there for included.
    """

    def __init__(
        self,
        store: Store,
        method: str,
        *,
        after: bool = False,
        error: Exception | None = None,
        when: Callable[..., bool] = lambda *_, **__: True,
    ) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.error = error
        if error is not None:
            self.open.set()
        self.calls = 0
        self._after, self._when = after, when
        self._method = getattr(store, method)
        setattr(store, method, self._call)

    async def _call(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        if not self._when(*given, **named):
            return await self._method(*given, **named)
        came = await self._method(*given, **named) if self._after else None
        self.reached.set()
        if self.error is not None:
            raise self.error
        await self.open.wait()
        return came if self._after else await self._method(*given, **named)
