"""Ids with their time, and times as Discord writes them."""

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
