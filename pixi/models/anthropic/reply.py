"""A reply of Anthropic's, asked for in as many requests as it takes: a server that searches may pause."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from msgspec import structs

from pixi.core.deltas import Delta, Finished, Usage
from pixi.core.lines import ToolCall
from pixi.models import faults
from pixi.models.anthropic.body import Kept, continued, tools_in
from pixi.models.anthropic.events import MessageAssembler
from pixi.models.deadlines import Deadlines, FirstWait, Overdue, ReadingSpeed
from pixi.models.faults import Server
from pixi.models.keepsakes import Keepsakes
from pixi.models.packaged.watched import WatchedReply
from pixi.models.render import JsonObject

_MOST_PAUSES = 8  # then what it has come to is the reply


@dataclass(frozen=True, slots=True)
class Part:
    """What came of one request."""

    stream: WatchedReply[list[bytes]]
    assembler: MessageAssembler


Ask = Callable[[JsonObject, FirstWait, Deadlines], Awaitable[Part]]
"""Makes a request with these fields, with that wait for its first content, under these deadlines."""


class MessageReply:
    """A whole reply: where the server pauses, it is asked to go on with what it wrote so far.

    Args:
        ask: makes a request.
        fields: of the first.
        first: what came of it.
        server: whom errors are about.
        deadlines: of the whole; `asked_at` is the loop's time when the model was asked.
        kept: where goes what the server wants back with its calls.
    """

    def __init__(
        self,
        ask: Ask,
        fields: JsonObject,
        first: Part,
        *,
        server: Server,
        deadlines: Deadlines,
        asked_at: float,
        kept: Keepsakes[Kept],
    ) -> None:
        self._ask = ask
        self._fields = fields
        self._part = first
        self._server = server
        self._deadlines = deadlines
        self._turn_ends = asked_at + deadlines.turn
        self._kept = kept
        self._blocks: list[JsonObject] = []
        self._usage = Usage()
        self._pauses = 0

    async def read(self) -> list[Delta]:
        """Wait for the next deltas, at least one; none: the reply is over, and `Finished` was given.

        Raises:
            ModelError: the server failed, refused to go on, broke off, or let a deadline pass.
        """
        while True:
            deltas = await self._part.stream.read()
            if not deltas or not isinstance(finished := deltas[-1], Finished):
                return deltas
            self._usage += finished.usage
            self._blocks += self._part.assembler.blocks()
            if not self._part.assembler.paused or self._pauses == _MOST_PAUSES:
                self._keep(call.id for call in deltas if isinstance(call, ToolCall))
                return [*deltas[:-1], structs.replace(finished, usage=self._usage)]
            self._pauses += 1
            await self._go_on()
            if deltas[:-1]:
                return deltas[:-1]

    async def drain(self) -> None:
        """Read what comes after the end, so that the connection can serve again."""
        await self._part.stream.drain()

    def close(self) -> None:
        """Give it up, unless it was read to its end."""
        self._part.stream.close()

    async def _go_on(self) -> None:
        self._part.stream.close()
        now = asyncio.get_running_loop().time()
        deadlines = replace(self._deadlines, turn=max(0.0, self._turn_ends - now))
        wait = FirstWait(deadlines, ReadingSpeed(), near=self._server.is_near, tokens=0)
        try:
            async with asyncio.timeout(min(wait.seconds, deadlines.turn)):
                self._part = await self._ask(continued(self._fields, self._blocks), wait, deadlines)
        except TimeoutError:
            raise faults.overdue(self._server, Overdue("gap", wait.seconds)) from None

    def _keep(self, call_ids: Iterable[str]) -> None:
        wanted = [block for block in self._blocks if block.get("type") not in ("text", "tool_use")]
        self._kept.keep(call_ids, Kept(wanted, tools_in(self._fields)))
