"""Guilds and channels for a process that no gateway tells of them: asked for over REST, and kept."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

import discord

from pixi.channels.discord.requests import send_request
from pixi.core.errors import ChannelError

_log = logging.getLogger("pixi.discord")

KEPT_SECONDS = 300.0
"""Seconds for which permissions, emoji and topics hold as they were told."""

_KEPT = 500  # guilds and channels; of those above, the one that was asked for longest ago goes
_ASK_SECONDS = 10.0


class RestPlaces:
    """Has discord.py know the places where a bot posts, as if its gateway had announced them.

    What cannot be learned is left out: one can post all the same, with less known of who reads there.

    Args:
        client: logged in, and never connected.
    """

    def __init__(self, client: discord.Client) -> None:
        self._client = client
        self._until: OrderedDict[int, float] = OrderedDict()  # by guild or channel, on the monotonic clock
        # By guild: conversations that begin at once in one guild ask about it once.
        self._asking: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def learn(self, channel_id: int) -> None:
        """See that a channel is known, with the guild around it."""
        known = self._client.get_channel(channel_id)
        guild = getattr(known, "guild", None)
        if known is not None and self._is_fresh(guild.id if guild is not None else channel_id):
            return
        try:
            await self._learn(channel_id)
        except ChannelError as error:
            _log.info("channel %s is not told about: %s", channel_id, error)

    async def _learn(self, channel_id: int) -> None:
        client, http = self._client, self._client.http
        guild = getattr(client.get_channel(channel_id), "guild", None)
        if guild is not None:
            guild_id = guild.id
        else:
            guild_id = int((await _ask(lambda: http.get_channel(channel_id))).get("guild_id") or 0)
        if guild_id:
            asking = self._asking.setdefault(guild_id, asyncio.Lock())
            async with asking:
                if not self._is_fresh(guild_id):
                    await self._learn_guild(guild_id)
                    self._keep(guild_id)
        else:
            self._keep(channel_id)
        if client.get_channel(channel_id) is None:  # a thread, or a direct message
            channel = await _ask(lambda: client.fetch_channel(channel_id))
            if isinstance(channel, discord.Thread):
                channel.guild._add_thread(channel)
            elif isinstance(channel, discord.DMChannel | discord.GroupChannel):
                client._connection._add_private_channel(channel)

    async def _learn_guild(self, guild_id: int) -> None:
        client, http = self._client, self._client.http
        bot = client.user
        assert bot is not None  # it is logged in
        guild, channels, member = await asyncio.gather(
            _ask(lambda: http.get_guild(guild_id, with_counts=False)),
            _ask(lambda: http.get_all_guild_channels(guild_id)),
            _ask(lambda: http.get_member(guild_id, bot.id)),
        )
        # As the gateway would announce it.
        announced: Any = {**guild, "channels": channels, "members": [member], "threads": []}
        client._connection._add_guild_from_data(announced)

    def _is_fresh(self, place: int) -> bool:
        return self._until.get(place, 0.0) > time.monotonic()

    def _keep(self, place: int) -> None:
        self._until[place] = time.monotonic() + KEPT_SECONDS
        self._until.move_to_end(place)
        if len(self._until) > _KEPT:
            oldest, _ = self._until.popitem(last=False)
            if (guild := self._client.get_guild(oldest)) is not None:
                self._client._connection._remove_guild(guild)


async def _ask(request: Callable[[], Awaitable[Any]]) -> Any:
    return await send_request(request, "channel", seconds=_ASK_SECONDS)
