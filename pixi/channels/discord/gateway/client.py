"""discord.py's client, made modest in memory and hard to bring down."""

import asyncio
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import discord
from discord.gateway import KeepAliveHandler
from msgspec import Struct

from pixi.channels.discord.gateway.patches import BROKEN_EVENT, complete_payloads
from pixi.core.errors import ConfigError

_log = logging.getLogger("pixi.discord")

_BETWEEN_SESSIONS = 5.0  # seconds
_LAST_GUILD = 0.5  # seconds without another guild until a shard is ready; later ones are caught up with alone
_FOR_APPLICATION = 5.0  # seconds; one can talk without knowing of it


class Shards(Struct, frozen=True):
    """The shards that this process runs: `ids` out of `count`."""

    ids: tuple[int, ...]
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shards":
        """Read `0-3/8` (four of eight) or `2/8` (one of them).

        Raises:
            ConfigError: it is written otherwise, or there are no such shards.
        """
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*/\s*0*([1-9]\d{0,5})\s*", text, re.ASCII)
        if match is None:
            raise ConfigError(
                f"{text!r} names no shards: write FIRST-LAST/ALL or ONE/ALL, e.g. 0-3/8 or 2/8."
            )
        first, last, count = int(match[1]), int(match[2] or match[1]), int(match[3])
        if not first <= last < count:
            have = f"of {count} shards the first is 0 and the last {count - 1}"
            raise ConfigError(f"There are no shards {text.strip()}: {have}.")
        return cls(tuple(range(first, last + 1)), count)


class Client(discord.AutoShardedClient):
    """Keeps no members, no presences and no messages; an event that cannot be read costs one line.

    Args:
        shards: those that it runs; None: as many as Discord wants.
        statuses: counts the answers of Discord's REST API, those to requests that discord.py makes again too,
            by their statuses of HTTP; None: nobody wants to know.
        clearance: waits until another request of the bot may be made; None: each may at once.

    Attributes:
        sessions_at_once: how many shards may begin a session within five seconds.
    """

    def __init__(
        self,
        shards: Shards | None = None,
        statuses: Counter[int] | None = None,
        clearance: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(
            intents=discord.Intents(
                guilds=True,
                guild_messages=True,
                dm_messages=True,
                message_content=True,
                emojis_and_stickers=True,
            ),
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_messages=None,
            guild_ready_timeout=_LAST_GUILD,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        if statuses is not None or clearance is not None:
            self.http.http_trace = _followed(statuses, clearance)
        if shards is not None:
            self.shard_ids, self.shard_count = list(shards.ids), shards.count
            self._connection.shard_count = shards.count
        self.sessions_at_once = 1
        self._began: dict[int, float] = {}  # when the last session began, by shard modulo `sessions_at_once`
        complete_payloads(self)

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        """Log what a handler of ours raised, in one line; with debugging, from where."""
        _log.error("%s broke", event_method, exc_info=True)

    async def application_info(self) -> discord.AppInfo:
        """Return the application as the server knows it; without applications, the bot's user."""
        try:
            async with asyncio.timeout(_FOR_APPLICATION):
                return await super().application_info()
        except (discord.HTTPException, TimeoutError, *BROKEN_EVENT) as error:
            reason = str(error) or type(error).__name__
            _log.info("the application could not be read: %s", reason)
        user = self.user
        assert user is not None  # logging in begins with it
        owner = {"id": user.id, "username": user.name, "discriminator": user.discriminator, "avatar": None}
        about: Any = {"id": user.id, "name": user.name, "description": "", "icon": None, "owner": owner}
        about |= {"bot_public": False, "bot_require_code_grant": False, "verify_key": ""}
        return discord.AppInfo(self._connection, about)

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Wait until Discord lets another session begin; no longer, when the last one is a while ago."""
        slot = (shard_id or 0) % max(1, self.sessions_at_once)
        now = time.monotonic()
        begins = max(now, self._began.get(slot, -_BETWEEN_SESSIONS) + _BETWEEN_SESSIONS)
        self._began[slot] = begins
        await asyncio.sleep(begins - now)

    def stop_beating(self) -> None:
        """End the heartbeats of connections that were given up before they were complete."""
        for thread in threading.enumerate():
            if isinstance(thread, KeepAliveHandler) and thread.ws._connection is self._connection:
                thread.stop()


def _followed(
    statuses: Counter[int] | None, clearance: Callable[[], Awaitable[None]] | None
) -> aiohttp.TraceConfig:
    """Make what holds requests up until they may be made, and counts answers by their statuses.

    discord.py comes here for each request, those that it makes again too. The limit of a bot is for those
    that carry its token: not for webhooks, answers to interactions, and files.
    """
    config = aiohttp.TraceConfig()
    if clearance is not None:

        async def begins(_: object, __: object, request: aiohttp.TraceRequestStartParams) -> None:
            if "Authorization" in request.headers:
                await clearance()

        config.on_request_start.append(begins)
    if statuses is not None:

        async def answered(_: object, __: object, answer: aiohttp.TraceRequestEndParams) -> None:
            statuses[answer.response.status] += 1

        config.on_request_end.append(answered)
    return config


class _InOneLine(logging.Filter):
    """Lets discord.py tell of an exception by its name and text; where from, only when debugging."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _log.isEnabledFor(logging.DEBUG):
            return True
        line = record.getMessage().partition("\n")[0]
        if record.exc_info and (error := record.exc_info[1]) is not None:
            text = " ".join(str(error).split())
            line = f"{line}: {type(error).__name__}{f': {text}' if text else ''}"
        record.msg, record.args = line, ()
        record.exc_info = record.exc_text = None
        return True


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Let nothing of the bot or of discord.py print a traceback, unless debugging. Holds for the process."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "discord"]
    loggers = [_log, *map(logging.getLogger, names)]
    one_line = _InOneLine()
    for logger in loggers:
        logger.addFilter(one_line)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(one_line)
