"""Ids with their time, and the bits of intents."""

import enum
import time
from datetime import UTC, datetime

EPOCH_MS = 1_420_070_400_000
_DAY_MS = 86_400_000


class Snowflakes:
    """Makes ids, none of them twice."""

    def __init__(self) -> None:
        self._last = 0
        self._guild_ms = int(time.time() * 1000) - EPOCH_MS - 400 * _DAY_MS
        self._old = 0

    def next(self, age: float = 0.0) -> int:
        """Return an id of now, greater than any before it; or one of something that is `age` seconds old."""
        now = int(time.time() * 1000) - EPOCH_MS
        if age:
            self._old = (self._old + 1) & 0x3FFFFF
            return (now - int(age * 1000)) << 22 | self._old
        self._last = max(self._last + 1, now << 22)
        return self._last

    def guild(self, shard: int | None = None, of: int = 1) -> int:
        """Return an id for a guild, on a shard if one is named."""
        self._guild_ms += 1
        while shard is not None and self._guild_ms % of != shard:
            self._guild_ms += 1
        return self._guild_ms << 22


def moment(seconds: float) -> str:
    """Return a time since 1970 as Discord writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def time_of(snowflake: int) -> float:
    """Return when it was made, in seconds since 1970."""
    return ((snowflake >> 22) + EPOCH_MS) / 1000


class GatewayIntents(enum.IntFlag):
    """The bits of `intents`, under their documented names."""

    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_MODERATION = 1 << 2
    GUILD_EXPRESSIONS = 1 << 3
    GUILD_INTEGRATIONS = 1 << 4
    GUILD_WEBHOOKS = 1 << 5
    GUILD_INVITES = 1 << 6
    GUILD_VOICE_STATES = 1 << 7
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15
    GUILD_SCHEDULED_EVENTS = 1 << 16
    AUTO_MODERATION_CONFIGURATION = 1 << 20
    AUTO_MODERATION_EXECUTION = 1 << 21
    GUILD_MESSAGE_POLLS = 1 << 24
    DIRECT_MESSAGE_POLLS = 1 << 25


NO_INTENT = GatewayIntents(0)
KNOWN = GatewayIntents(sum(GatewayIntents))
PRIVILEGED = GatewayIntents.GUILD_MEMBERS | GatewayIntents.GUILD_PRESENCES | GatewayIntents.MESSAGE_CONTENT

# In the flags of an application: what its owner switched on.
LIMITED_FLAGS = {
    GatewayIntents.GUILD_PRESENCES: 1 << 13,
    GatewayIntents.GUILD_MEMBERS: 1 << 15,
    GatewayIntents.MESSAGE_CONTENT: 1 << 19,
}
