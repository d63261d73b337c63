"""The context that all channels of a bot share when they post."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.outgoing.approvals import Approvals
from pixi.channels.discord.outgoing.emoji import EmojiNames
from pixi.channels.discord.outgoing.identities import Webhooks
from pixi.channels.discord.permissions import Directory, is_timed_out, missing_permissions
from pixi.channels.discord.places import channel_label
from pixi.channels.discord.requests import DiscordRefused
from pixi.core.lru import LRU

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

_EXCUSE_SECONDS = 60.0  # between two excuses in a channel
_EXCUSED = 1_000  # channels of which it is remembered when


@dataclass(slots=True)
class PostingContext:
    """The context of posting. One for a bot.

    Attributes:
        approvals: asks people for their yes; None: nobody can be asked.
        elsewhere: the server is another than Discord, and may ignore who must not be pinged.
        no_search: until when guilds are not asked to search, as they cannot, on the monotonic clock.
    """

    client: discord.Client
    backend: BotBackend
    recent: RecentMessages
    directory: Directory
    webhooks: Webhooks
    approvals: Approvals | None = None
    elsewhere: bool = False
    no_search: dict[int, float] = field(default_factory=dict)
    _names: asyncio.Future[EmojiNames] | None = None
    _noted: set[tuple[int, str]] = field(default_factory=set)
    _beside: set[asyncio.Task[None]] = field(default_factory=set)
    _excused: LRU[int, float] = field(default_factory=lambda: LRU(_EXCUSED))

    def prepare(self) -> None:
        """Have the names of emoji read in a thread, before anybody reacts."""
        if self._names is None:
            languages = {persona.language for persona in self.backend.personas.values()}
            self._names = asyncio.get_running_loop().run_in_executor(None, EmojiNames, languages)

    async def emoji_names(self) -> EmojiNames:
        """Return the names of emoji."""
        self.prepare()
        assert self._names is not None
        return await asyncio.shield(self._names)

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something while others go on."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def close(self) -> None:
        """End what is done beside."""
        tasks = [*self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def may_excuse(self, channel_id: int) -> bool:
        """Return whether people there were not told lately that something is broken; they are told now."""
        now = time.monotonic()
        before = self._excused.get(channel_id)
        if before is not None and now - before < _EXCUSE_SECONDS:
            return False
        self._excused.put(channel_id, now)
        return True

    def refused(self, channel: "MessageableChannel", what: str, error: DiscordRefused) -> None:
        """Tell the operator what Discord refuses; of what holds for the whole channel once."""
        level = logging.INFO
        if error.closed:
            level = logging.DEBUG if (channel.id, what) in self._noted else logging.WARNING
            self._noted.add((channel.id, what))
        lacking = missing_permissions(channel, what)
        told = f" It lacks {lacking}." if lacking else " It is timed out." if is_timed_out(channel) else ""
        _log.log(level, "%s: %s%s", channel_label(channel), error, told)

    def accepted(self, channel_id: int, what: str) -> None:
        """Note that it works there: should it be refused again, the operator is told again."""
        self._noted.discard((channel_id, what))
