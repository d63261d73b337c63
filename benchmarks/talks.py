"""Conversations in a store, with turns that are kept as the engine keeps them, and a loop that is watched."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pixi.core.conversation import Bounds, Conversation, PastTurn
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.store.store import Store

AT_ONCE = 10
"""Conversations that are talked in side by side, each with the whole history."""

CONTEXT = 8_192
"""Tokens of the model that the talks are for: of a long one it is shown the end."""

SAID = "well i was thinking about pancakes and then it got really foggy so we stayed in"


@dataclass(slots=True)
class Talks:
    """Conversations in a store, each of so many messages; a turn keeps one more question and its answer."""

    store: Store
    history: int
    _count: int = 0
    _leases: dict[str, int] = field(default_factory=dict)
    windows: dict[str, Conversation] = field(
        default_factory=lambda: {
            f"benchmark:{number}": Conversation(Bounds(CONTEXT)) for number in range(AT_ONCE)
        }
    )

    @property
    def names(self) -> list[str]:
        """Of all of them."""
        return list(self.windows)

    @property
    def _first(self) -> str:
        return next(iter(self.windows))

    async def fill(self) -> None:
        """Write the history."""
        self._leases = {name: await self.store.lease(name) for name in self.names}
        await asyncio.gather(*(self._turns(name, self.history // 2) for name in self.names))

    async def turn(self, conversation: str) -> None:
        """All that is kept of a turn: a question comes, one message answers it."""
        self._count += 1
        store, number = self.store, str(self._count)
        message = Message(number, conversation, Author("1", "Mo"), SAID, sent_at=time.time())
        await store.receive(message)
        lease = self._leases[conversation]
        begun = await store.begin_turn(conversation, 0, "Pixi", (number,), model="benchmark", lease=lease)
        turn = begun.turn
        await store.intend(turn, 1, "send", SAID)
        settled = store.settle(turn, 1, "done", number, later=True)
        lines = (UserLine(f"Sunday 1 March 2026, 10:00\n> {SAID}"), AssistantLine(f"[SEND: {SAID}]"))
        window = self.windows[conversation]
        window.append(PastTurn(turn, lines))
        await store.end_turn(turn, lines, "stop", 1, Usage(500, 400, 30), window=window.news())
        await settled

    async def alone(self, turns: int) -> float:
        """Microseconds that a turn takes where nobody else talks: the median."""
        seconds = []
        for _ in range(turns):
            before = time.perf_counter()
            await self.turn(self._first)
            seconds.append(time.perf_counter() - before)
        return statistics.median(seconds) * 1e6

    async def at_once(self, turns: int) -> float:
        """Microseconds of processor time for a turn, of loop and thread, where all talk side by side."""
        before = time.process_time()
        await asyncio.gather(*(self._turns(name, turns) for name in self.names))
        return (time.process_time() - before) / (turns * len(self.names)) * 1e6

    async def stall_of_turns(self, turns: int) -> float:
        """Milliseconds that the loop stands still at most while turns are kept."""
        async with heartbeat() as gaps:
            await self._turns(self._first, turns)
        return max(gaps) * 1e3

    async def stall_of_loading(self) -> float:
        """The same while a conversation is read, as after a restart."""
        async with heartbeat() as gaps:
            await self.store.load(self._first, CONTEXT)
        return max(gaps) * 1e3

    async def _turns(self, conversation: str, count: int) -> None:
        for _ in range(count):
            await self.turn(conversation)


@asynccontextmanager
async def heartbeat() -> AsyncIterator[list[float]]:
    """How many seconds lie between two rounds of the loop, which never sleeps meanwhile."""
    loop, gaps = asyncio.get_running_loop(), [0.0]
    last, beating = time.perf_counter(), True

    def beat() -> None:
        nonlocal last
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
        if beating:
            loop.call_soon(beat)

    loop.call_soon(beat)
    try:
        yield gaps
    finally:
        beating = False
