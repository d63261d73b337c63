"""The task that keeps a database's vectors up with its documents, and asks again for what it did not get."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pixi.core.errors import ConfigError
from pixi.knowledge.catalogue import CatalogueDamaged
from pixi.knowledge.index import Index, IndexDamaged
from pixi.knowledge.keeping import Keeping, Kept
from pixi.knowledge.vectors import Vectors

_AGAIN = 5.0
_AGAIN_AT_MOST = 600.0
"""Seconds before what could not be embedded is tried again: doubling."""


class Embedding:
    """Follows one database.

    Args:
        vectors: that are kept up.
        keeping: what they follow.
        ask: runs a function in a thread that waits for no writing.
        in_use: counts who reads an index, which is not closed meanwhile.
    """

    def __init__(
        self,
        vectors: Vectors,
        keeping: Keeping,
        ask: Callable[[Callable[[], dict[int, str]]], Awaitable[dict[int, str]]],
        in_use: Counter[Index],
    ) -> None:
        self.vectors = vectors
        self._keeping = keeping
        self._ask = ask
        self._in_use = in_use
        self._changed = asyncio.Event()
        self._caught_up = asyncio.Event()

    def look(self) -> None:
        """The documents may have changed."""
        self._caught_up.clear()
        self._changed.set()

    async def caught_up(self) -> None:
        """Return when all that changed has its vectors, or could not have them now."""
        await self._caught_up.wait()

    async def run(self) -> None:
        """Follow, without end."""
        seen: Kept | None = None
        whole, pause = True, _AGAIN
        while True:
            self._changed.clear()
            kept = self._keeping.kept
            if kept.index is not None and (kept is not seen or not whole):
                whole = await self._follow(kept.index)
                seen = kept
                pause = _AGAIN if whole else min(2 * pause, _AGAIN_AT_MOST)
            if not self._changed.is_set():
                self._caught_up.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), None if whole else pause)

    async def _follow(self, index: Index) -> bool:
        self._in_use[index] += 1
        try:
            contents = await self._ask(self._keeping.digests)
            return await self.vectors.follow(index, contents, embed=lambda: self._keeping.writes)
        except (
            IndexDamaged,
            CatalogueDamaged,
            ConfigError,
        ):  # all are told of, and mended, by those who read the documents
            return False
        finally:
            self._in_use[index] -= 1
