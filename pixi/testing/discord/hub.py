"""Sessions: which events each gets, numbered and kept, so that they can be sent again."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from pixi.testing.discord import payloads
from pixi.testing.discord.calls import Json

if TYPE_CHECKING:
    from pixi.testing.discord.gateway import GatewayConnection
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.world import World

_encode = msgspec.json.Encoder().encode


@dataclass(eq=False)
class GatewaySession:
    """A session begun by an IDENTIFY. It outlives its connection, so that it can be resumed.

    Attributes:
        kept: events with their numbers, the oldest dropped first.
        guilds: those that were opened to it.
    """

    id: str
    shard: int
    shards: int
    line: GatewayConnection | None
    kept: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=10_000))
    last: int = 0
    guilds: set[int] = field(default_factory=set)

    def has(self, guild_id: int | None) -> bool:
        """Return whether what happens in a guild, or in DMs, is this shard's."""
        if guild_id is None:
            return self.shard == 0
        return (guild_id >> 22) % self.shards == self.shard

    def push(self, event: str, data: bytes) -> None:
        """Send an event, now or when the session is resumed."""
        self.last += 1
        raw = b'{"t":"%b","s":%d,"op":0,"d":%b}' % (event.encode(), self.last, data)
        self.kept.append((self.last, raw))
        if self.line is not None:
            self.line.send(raw)

    def since(self, number: int) -> list[bytes] | None:
        """Return what came after an event; None: not all of it is kept any more."""
        missed = self.last - number
        if missed > len(self.kept):
            return None
        return [raw for at, raw in self.kept if at > number] if missed else []


class Hub:
    """The sessions: how they begin, go on and end."""

    def __init__(self, world: World) -> None:
        self.sessions: dict[str, GatewaySession] = {}
        self._world = world

    def dispatch(self, event: str, payload: Json, guild_id: int | None) -> None:
        """Tell every session that should know."""
        data = None
        for session in self.sessions.values():
            if session.has(guild_id) and (guild_id is None or guild_id in session.guilds):
                data = data or _encode(payload)
                session.push(event, data)

    def begin(self, shard: int, shards: int, line: GatewayConnection, resume_url: str) -> GatewaySession:
        """Begin a session: READY, and the guilds one after the other."""
        self._forget_stale(shard, shards)
        session = GatewaySession(secrets.token_hex(16), shard, shards, line)
        self.sessions[session.id] = session
        guilds = [guild for guild in self._world.guilds.values() if session.has(guild.id)]
        ready = {
            "v": 10,
            "user": self._world.bot.payload(),
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": resume_url,
            "shard": [shard, shards],
            "application": {"id": str(self._world.application_id), "flags": self._world.flags},
        }
        session.push("READY", _encode(ready))
        for guild in guilds:
            self._open(session, guild)
        self._world.changed()
        return session

    def open_guild(self, guild: Guild) -> None:
        """Show a guild to the sessions that it belongs to: the bot was invited, or it is back."""
        for session in self.sessions.values():
            if session.has(guild.id):
                self._open(session, guild, new=guild.id not in session.guilds)

    def _open(self, session: GatewaySession, guild: Guild, *, new: bool = False) -> None:
        session.guilds.add(guild.id)
        payload = payloads.guild_create(guild, self._world) | ({} if new else {"unavailable": False})
        session.push("GUILD_CREATE", _encode(payload))

    def resume(self, session_id: str, number: int, line: GatewayConnection) -> GatewaySession | None:
        """Go on with a session: what it missed is sent, then RESUMED. None: it cannot be."""
        session = self.sessions.get(session_id)
        missed = session.since(number) if session else None
        if session is None or missed is None:
            self.sessions.pop(session_id, None)
            return None
        if session.line is not None:
            session.line.abort()
        session.line = line
        for raw in missed:
            line.send(raw)
        session.push("RESUMED", b"{}")
        self._world.changed()
        return session

    def chosen(self, shard: int | None) -> list[GatewaySession]:
        """Return sessions of one shard, or all."""
        return [one for one in self.sessions.values() if shard is None or one.shard == shard]

    def live(self) -> list[GatewaySession]:
        """Return the sessions that are connected."""
        return [one for one in self.sessions.values() if one.line is not None]

    def end(self, session: GatewaySession) -> None:
        """End a session for good: nobody can resume it."""
        self.sessions.pop(session.id, None)

    def _forget_stale(self, shard: int, shards: int) -> None:
        """Drop all but the newest of the sessions that nobody came back to; they would only cost time."""
        stale = [one for one in self.sessions.values() if one.line is None]
        for old in [one for one in stale if (one.shard, one.shards) == (shard, shards)][:-1]:
            self.end(old)
