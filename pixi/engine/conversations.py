"""The conversations that are alive, and those that were used last."""

import asyncio
from collections import OrderedDict

from pixi.engine.context import EngineContext, PersonaSessions
from pixi.engine.conversation import LiveConversation

_CLOSE_SECONDS = 4.0  # what stopping takes at most, nearly always


class Conversations:
    """All of an engine's. Idle ones, but for the `keep` that were used last, are read again when needed."""

    __slots__ = ("_keep", "_live", "_sessions", "_shared")

    def __init__(self, shared: EngineContext, sessions: PersonaSessions, keep: int) -> None:
        self._shared = shared
        self._sessions = sessions
        self._keep = keep
        self._live: OrderedDict[str, LiveConversation] = OrderedDict()

    @property
    def talking(self) -> int:
        """In how many a reply is under way."""
        return sum(live.talking for live in self._live.values())

    @property
    def winding_down(self) -> bool:
        """Whether messages are only recorded."""
        return self._shared.winding_down

    def at(self, name: str) -> LiveConversation:
        """The one of this address."""
        live = self._live.get(name)
        if live is None:
            self._let_go()
            live = self._live[name] = LiveConversation(name, self._shared, self._sessions)
        self._live.move_to_end(name)
        return live

    def known(self, name: str | None = None) -> list[LiveConversation]:
        """Those in memory: all, or the one of this address."""
        if name is None:
            return list(self._live.values())
        live = self._live.get(name)
        return [] if live is None else [live]

    async def settled(self, name: str | None = None) -> None:
        """Return when nothing is left to be answered."""
        while busy := [live for live in self.known(name) if not live.idle]:
            for live in busy:
                await live.settled()
            await asyncio.sleep(0)

    async def wind_down(self, seconds: float) -> None:
        """Begin nothing more, let what people see being written be finished, then stop it all."""
        self._shared.winding_down = True
        busy = [live for live in self.known() if live.talking]
        for live in busy:
            live.wind_down()
        ends = [asyncio.create_task(live.settled()) for live in busy]
        await asyncio.gather(*(live.compaction.stop() for live in self.known()))
        if ends:
            await asyncio.wait(ends, timeout=max(seconds - _CLOSE_SECONDS, seconds / 2))
        await self.close()
        for end in ends:
            end.cancel()

    async def close(self) -> None:
        """Stop all replies, for good."""
        await asyncio.gather(*(live.close() for live in self.known()))

    def _let_go(self) -> None:
        surplus = len(self._live) + 1 - self._keep
        if surplus > 0:
            idle = [name for name, live in self._live.items() if live.idle and not live.compaction.busy][
                :surplus
            ]
            for name in idle:
                del self._live[name]
