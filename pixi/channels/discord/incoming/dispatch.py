"""What the gateway tells: each event goes to its lane, is heard, and is marked as dealt with."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.gateway.client import Client
from pixi.channels.discord.incoming.catch_up import CatchUp
from pixi.channels.discord.incoming.handing import Speaking
from pixi.channels.discord.incoming.handler import MessageHandler
from pixi.channels.discord.incoming.queues import ChannelQueues
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.incoming.watermarks import Watermarks
from pixi.channels.discord.places import Askers, guild_id_of
from pixi.core.errors import PixiError

if TYPE_CHECKING:
    from pixi.channels.discord.places import Place

_log = logging.getLogger("pixi.discord")

_UNGATED = -1  # the group of lanes that never stand still: shards count from 0


class Dispatcher:
    """The ears of a bot that is logged in.

    Between a new session and the list of what was missed in it, the lanes of its shard stand still:
    messages are dealt with in the order in which they were written, missed ones first.

    Args:
        client: is logged in, and not connected yet.
        house: where messages go.
        speaking: gives the channels to answer in.
        recent: what was said lately.
        ready: what is done once, when the bot is connected for the first time.
    """

    def __init__(
        self,
        client: Client,
        backend: BotBackend,
        speaking: Speaking,
        recent: RecentMessages,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        bot = client.user
        assert bot is not None  # it is logged in
        self._client = client
        self._bot = bot
        self._recent = recent
        self._ready = ready
        self._was_ready = False
        self._lost: set[int] = set()  # shards
        self._starting: set[int] = set()
        self._beside: set[asyncio.Task[None]] = set()
        askers = Askers()
        self._since = discord.utils.time_snowflake(discord.utils.utcnow())
        self._hearing = MessageHandler(backend, speaking, recent, askers, bot=bot, since=self._since)
        self._marks = Watermarks(backend)
        self._lanes = ChannelQueues(_report)
        self._catching_up = CatchUp(client, backend, self._marks, askers, self._hear)

    async def listen(self) -> None:
        """Read up to where everything was dealt with, and take events from now on."""
        await self._marks.load(self._bot.id, self._since)
        for handler in (
            self.on_message,
            self.on_raw_message_edit,
            self.on_raw_message_delete,
            self.on_raw_bulk_message_delete,
            self.on_guild_channel_delete,
            self.on_raw_thread_delete,
            self.on_guild_available,
            self.on_shard_connect,
            self.on_shard_ready,
            self.on_shard_disconnect,
            self.on_shard_resumed,
            self.on_ready,
        ):
            self._client.event(handler)
        self.beside(self._marks.keep_written())

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something while messages are heard; what it raises costs one line in the log."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._ended)

    async def stop(self, seconds: float) -> None:
        """Hear no more. What was begun is finished within this time; the rest is for the next start."""
        await self._lanes.close(seconds)
        beside = [*self._beside]
        for task in beside:
            task.cancel()
        if beside:
            await asyncio.wait(beside)

    async def write_marks(self) -> None:
        """Write down up to where everything was dealt with."""
        await self._marks.write()

    # Messages.

    async def on_message(self, message: discord.Message) -> None:
        """Somebody wrote."""
        self._put(message.channel, partial(self._hear, message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """A message was edited, or Discord added a box to it."""
        self._put(payload.message.channel, partial(self._hearing.edited, payload.message))

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """A message was deleted."""
        self._put_deleted((payload.message_id,), payload.channel_id, payload.guild_id)

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Many were deleted at once."""
        self._put_deleted(sorted(payload.message_ids), payload.channel_id, payload.guild_id)

    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        """A channel is gone."""
        self._recent.leave(channel.id)

    async def on_raw_thread_delete(self, payload: discord.RawThreadDeleteEvent) -> None:
        """A thread is gone."""
        self._recent.leave(payload.thread_id)

    async def _hear(self, message: discord.Message) -> None:
        channel_id = message.channel.id
        dealt_with = False
        self._marks.meet(channel_id, message.id)
        try:
            await self._hearing.hear(message)
            dealt_with = True
        except PixiError as error:
            _log.error("message %s in channel %s was not taken: %s", message.id, channel_id, error)
        finally:
            if dealt_with:
                self._marks.raise_to(channel_id, message.id)
            else:
                self._marks.freeze(channel_id)

    def _put_deleted(self, message_ids: Iterable[int], channel_id: int, guild_id: int | None) -> None:
        channel: Place = self._client.get_channel(channel_id) or self._client.get_partial_messageable(
            channel_id, guild_id=guild_id
        )
        for message_id in message_ids:
            self._put(channel, partial(self._hearing.deleted, channel, message_id))

    def _put(self, channel: "Place", job: Callable[[], Awaitable[None]]) -> None:
        guild_id = guild_id_of(channel)
        shards = self._client.shard_count or 1
        self._lanes.put(channel.id, job, group=(guild_id >> 22) % shards if guild_id else 0)

    # The connection.

    async def on_shard_connect(self, shard_id: int) -> None:
        """A new session: what was written before it did not come by itself."""
        self._starting.add(shard_id)
        self._lanes.hold(shard_id)
        if shard_id in self._lost:
            self._lost.discard(shard_id)
            _log.info("shard %d is connected again, anew", shard_id)

    async def on_shard_ready(self, shard_id: int) -> None:
        """All its guilds are known: what was missed is heard first."""
        guilds = [guild for guild in self._client.guilds if guild.shard_id == shard_id]
        try:
            await self._catch_up(guilds, direct=shard_id == 0)
        finally:
            self._starting.discard(shard_id)
            self._lanes.release(shard_id)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """A guild is back that Discord had lost for a while."""
        if guild.shard_id not in self._starting:
            await self._catch_up([guild], direct=False)

    async def _catch_up(self, guilds: Iterable[discord.Guild], *, direct: bool) -> None:
        missed = await self._catching_up.missed(guilds, direct=direct)
        for each in reversed(missed):  # each comes before those that were put before it
            job = partial(self._catching_up.read, each)
            self._lanes.put(each.channel.id, job, group=_UNGATED, first=True)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        """The connection is lost; discord.py makes another one."""
        if shard_id not in self._lost:
            self._lost.add(shard_id)
            _log.warning("shard %d lost its connection", shard_id)

    async def on_shard_resumed(self, shard_id: int) -> None:
        """The connection is back, and Discord told of everything in between."""
        self._lost.discard(shard_id)
        _log.info("shard %d is connected again", shard_id)

    async def on_ready(self) -> None:
        """All shards are connected."""
        if not self._was_ready:
            self._was_ready = True
            await self._ready()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _report(error)


def _report(error: BaseException) -> None:
    if isinstance(error, PixiError):
        _log.error("%s", error)
    else:
        _log.error("something broke while hearing", exc_info=error)
