"""Dispatches the gateway's events: each waits in the queue of its channel, is handled, and is marked so."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial

import discord

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.gateway.client import Client
from pixi.channels.discord.incoming.catch_up import CatchUp, Watermarks
from pixi.channels.discord.incoming.handler import MessageHandler
from pixi.channels.discord.incoming.message import IncomingMessage, MessageTranslator
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.outgoing.channel import DiscordChannels
from pixi.channels.discord.places import MESSAGEABLE, ChannelInfo, channel_info
from pixi.core.errors import PixiError

_log = logging.getLogger("pixi.discord")

_AGAIN_SECONDS = 10.0  # until what could not be dealt with is tried again

_UNGATED = -1  # the group of queues that are never held: shards count from 0

Job = Callable[[], Awaitable[None]]


class ChannelQueues:
    """Work in order where it belongs together, and side by side where it does not.

    There is one task for each channel in which something is to be done, for as long as there is.

    Args:
        broken: is told of what a job raised; the next job of its channel follows all the same.
    """

    def __init__(self, broken: Callable[[BaseException], None]) -> None:
        self._broken = broken
        self._waiting: dict[int, deque[tuple[int, Job]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._gates: dict[int, asyncio.Event] = {}  # of groups that are held
        self._closed = False

    def put(self, channel_id: int, job: Job, *, group: int = 0, first: bool = False) -> None:
        """Have a job done in its turn, or before everything else that waits in that channel."""
        if self._closed:
            return
        queue = self._waiting.setdefault(channel_id, deque())
        if first:
            queue.appendleft((group, job))
        else:
            queue.append((group, job))
        if channel_id not in self._tasks:
            self._begin(channel_id)

    def hold(self, group: int) -> None:
        """Begin no job of a group until `release`."""
        self._gates.setdefault(group, asyncio.Event())

    def release(self, group: int) -> None:
        """Let the jobs of a group go on."""
        if gate := self._gates.pop(group, None):
            gate.set()

    def is_busy(self, channel_id: int) -> bool:
        """Return whether something is being done in a channel."""
        return channel_id in self._tasks

    async def close(self, seconds: float) -> None:
        """Drop what waits, and let what was begun end within this time; then it is cancelled."""
        self._closed = True
        for queue in self._waiting.values():
            queue.clear()
        for group in list(self._gates):
            self.release(group)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _begin(self, channel_id: int) -> None:
        task = asyncio.create_task(self._run(channel_id))
        self._tasks[channel_id] = task
        task.add_done_callback(lambda ended: self._ended(channel_id, ended))

    async def _run(self, channel_id: int) -> None:
        queue = self._waiting[channel_id]
        while queue:
            if gate := self._gates.get(queue[0][0]):
                await gate.wait()  # meanwhile another job may have come first
                continue
            _, job = queue.popleft()
            await job()

    def _ended(self, channel_id: int, task: asyncio.Task[None]) -> None:
        del self._tasks[channel_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)
        if self._waiting[channel_id] and not self._closed:
            self._begin(channel_id)
        else:
            del self._waiting[channel_id]


class Dispatcher:
    """Hears the events of a bot that is logged in.

    Between a new session and the list of what was missed in it, the queues of its shard are held: messages
    are dealt with in the order in which they were written, missed ones first.

    Args:
        client: is logged in, and not connected yet.
        backend: where messages go.
        channels: where personas answer.
        recent: what was said lately.
        ready: what is done once, when the bot is connected for the first time.
    """

    def __init__(
        self,
        client: Client,
        backend: BotBackend,
        channels: DiscordChannels,
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
        self._lost: set[int] = set()  # shards whose connection is lost
        self._starting: set[int] = set()  # shards whose queues are held, as a new session begins
        self._beside: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._since = discord.utils.time_snowflake(discord.utils.utcnow())
        self._reader = MessageTranslator(bot, lambda: backend.rules)
        self._handler = MessageHandler(backend, channels, recent, self._reader, since=self._since)
        self._marks = Watermarks(backend)
        self._queues = ChannelQueues(_report)
        self._catch_up = CatchUp(client, backend, self._marks, channels.directory, self._handle_missed)

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
        self.beside(self._try_again())

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something while messages are heard; what it raises costs one line in the log."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._ended)

    async def stop(self, seconds: float) -> None:
        """Hear no more. What was begun is finished within this time; the rest is for the next start.

        discord.py tells of events until it is closed: they would begin requests that closing cuts off.
        """
        self._stopped = True
        await self._queues.close(seconds)
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
        """Take a message that somebody wrote."""
        incoming = self._reader.read(message)
        self._put(incoming.channel, partial(self._handle, incoming))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Take a message that was edited, or to which Discord added a box."""
        incoming = self._reader.read(payload.message)
        self._put(incoming.channel, partial(self._handler.edited, incoming))

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """Take note that a message was deleted."""
        self._put_deleted((payload.message_id,), payload.channel_id, payload.guild_id)

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Take note that many messages were deleted at once."""
        self._put_deleted(sorted(payload.message_ids), payload.channel_id, payload.guild_id)

    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        """Take note that a channel is gone."""
        self._recent.leave(channel.id)

    async def on_raw_thread_delete(self, payload: discord.RawThreadDeleteEvent) -> None:
        """Take note that a thread is gone."""
        self._recent.leave(payload.thread_id)

    async def _handle(self, message: IncomingMessage) -> None:
        channel_id, dealt_with = message.channel.id, False
        self._marks.meet(channel_id, message.id)
        try:
            await self._handler.handle(message)
            dealt_with = True
        except PixiError as error:
            _log.error("message %s in channel %s was not taken: %s", message.id, channel_id, error)
        finally:
            if dealt_with:
                self._marks.raise_to(channel_id, message.id)
            else:
                self._marks.freeze(channel_id)

    async def _handle_missed(self, message: discord.Message) -> None:
        await self._handle(self._reader.read(message))

    def _put_deleted(self, message_ids: Iterable[int], channel_id: int, guild_id: int | None) -> None:
        known = self._client.get_channel(channel_id)
        unknown = self._client.get_partial_messageable(channel_id, guild_id=guild_id)
        channel = channel_info(known if isinstance(known, MESSAGEABLE) else unknown)
        for message_id in message_ids:
            self._put(channel, partial(self._handler.deleted, channel, message_id))

    def _put(self, channel: ChannelInfo, job: Job) -> None:
        shards = self._client.shard_count or 1
        group = (channel.guild >> 22) % shards if channel.guild else 0
        self._queues.put(channel.id, job, group=group)

    # The connection.

    async def on_shard_connect(self, shard_id: int) -> None:
        """Hold a shard with a new session: what was written before it did not come by itself."""
        self._starting.add(shard_id)
        self._queues.hold(shard_id)
        if shard_id in self._lost:
            self._lost.discard(shard_id)
            _log.info("shard %d is connected again, anew", shard_id)

    async def on_shard_ready(self, shard_id: int) -> None:
        """Handle what was missed in a shard first, now that all its guilds are known."""
        guilds = [guild for guild in self._client.guilds if guild.shard_id == shard_id]
        try:
            await self._put_missed(guilds, direct=shard_id == 0)
        finally:
            self._starting.discard(shard_id)
            self._queues.release(shard_id)

    async def _try_again(self) -> None:
        """Hear again what the store did not take, every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            for each in self._catch_up.refused():
                if not self._queues.is_busy(each.channel.id):
                    self._queues.put(each.channel.id, partial(self._catch_up.read, each), group=_UNGATED)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """Handle what was missed in a guild that Discord had lost for a while."""
        if guild.shard_id not in self._starting:
            await self._put_missed([guild], direct=False)

    async def _put_missed(self, guilds: Iterable[discord.Guild], *, direct: bool) -> None:
        if self._stopped:
            return
        missed = await self._catch_up.missed(guilds, direct=direct)
        for each in reversed(missed):  # each comes before those that were put before it
            self._queues.put(each.channel.id, partial(self._catch_up.read, each), group=_UNGATED, first=True)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        """Tell that a connection is lost; discord.py makes another one."""
        if shard_id not in self._lost:
            self._lost.add(shard_id)
            _log.warning("shard %d lost its connection", shard_id)

    async def on_shard_resumed(self, shard_id: int) -> None:
        """Tell that a connection is back. Discord told of everything in between."""
        self._lost.discard(shard_id)
        _log.info("shard %d is connected again", shard_id)

    async def on_ready(self) -> None:
        """Do once what is to be done when all shards are connected."""
        if not (self._was_ready or self._stopped):
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
