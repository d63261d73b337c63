"""The gateway's moods: connections that break, sessions that are lost, events that come twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from pixi.testing.discord.faults import Json
from pixi.testing.discord.gateway import INVALID_SESSION, RECONNECT, Gateway, GatewayConnection
from pixi.testing.discord.watching import Watching


class Moods(Watching):
    """The part of the face that troubles the gateway. `shard` names one; None: all."""

    gateway: Gateway

    def disconnect(self, code: int = 4000, *, shard: int | None = None) -> None:
        """Close connections with a code; sessions can be resumed."""
        for line in self._lines(shard):
            line.close(code)

    def abort(self, *, shard: int | None = None) -> None:
        """Break connections off without a word."""
        for line in self._lines(shard):
            line.abort()

    def lose_events(self, *, shard: int | None = None, disconnect: bool = True) -> None:
        """Forget sessions: RESUME is refused, and what happens until the next IDENTIFY is missed."""
        lines = self._lines(shard)
        for session in self.world.hub.chosen(shard):
            self.world.hub.end(session)
        if disconnect:
            for line in lines:
                line.close(4000)

    @asynccontextmanager
    async def away(self, *, lose: bool = False) -> AsyncIterator[None]:
        """The gateway is not to be had inside; with `lose`, what happens inside is missed."""
        self.gateway.settings.closed = True
        if lose:
            self.lose_events()
        else:
            self.disconnect()
        try:
            await self.wait_for(lambda: not self.gateway.connections)
            yield
        finally:
            self.gateway.settings.closed = False

    def replay(self, count: int = 1, *, shard: int | None = None) -> None:
        """Send the last events once more, as they were."""
        self.world.hub.replay(count, shard)

    def reconnect(self, *, shard: int | None = None) -> None:
        """Ask for a reconnection (opcode 7)."""
        for line in self._lines(shard):
            line.say(RECONNECT)

    def invalidate(self, *, resumable: bool = False, shard: int | None = None) -> None:
        """Tell that sessions are invalid (opcode 9)."""
        for line in self._lines(shard):
            line.say(INVALID_SESSION, resumable)
        if not resumable:
            for session in self.world.hub.chosen(shard):
                self.world.hub.end(session)

    def stop_acks(self) -> None:
        """Answer heartbeats no more: connections are zombies."""
        self.gateway.settings.acks = False

    def resume_acks(self) -> None:
        """Answer heartbeats again."""
        self.gateway.settings.acks = True

    def dispatch(self, event: str, payload: Json, *, shard: int = 0) -> None:
        """Send any event, of a kind that nobody thought of."""
        for session in self.world.hub.chosen(shard):
            session.push(event, msgspec.json.encode(payload))

    def _lines(self, shard: int | None) -> list[GatewayConnection]:
        every = self.gateway.connections
        return [
            one for one in every if shard is None or (one.session is not None and one.session.shard == shard)
        ]
