"""Catching up: watermarks say up to where each channel was dealt with; what came after is handled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

import discord
from msgspec import Struct

from pixi.channels.discord.backend import (
    ALL_ADDRESSES,
    BotBackend,
    ConversationAddress,
    channel_personas,
    parse_address,
)
from pixi.channels.discord.permissions import Directory
from pixi.channels.discord.places import channel_label, config_ids, own_member
from pixi.channels.discord.requests import DiscordRefused, send_request
from pixi.core.errors import ChannelError, PixiError, StoreError

_log = logging.getLogger("pixi.discord")

_CHANNELS = 200  # that are read after one start
_UNANNOUNCED = 50  # of them channels that Discord does not list by itself, i.e. direct messages
_AT_ONCE = 4
_PATIENCE = 1.0  # seconds in which a history is asked for again
_SECONDS = 8.0  # for reading one channel, whose people wait
_WRITE_SECONDS = 3.0  # between two writes of watermarks
_NOWHERE = 0  # the id of no channel: its watermark says since when the bot is here
_DIRECT_SECONDS = 8.0  # for finding direct messages, for which all channels of a shard wait

InGuild = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread
Readable = InGuild | discord.DMChannel


class Watermarks:
    """The watermarks of all channels: raised in memory at once, written every few seconds and at the end."""

    def __init__(self, backend: BotBackend) -> None:
        self._backend = backend
        self._bot = 0  # its id, from `load` on
        self._marks: dict[int, int] = {}  # ids of messages by channel
        self._unwritten: dict[int, int] = {}  # those that were raised since the last write
        self._frozen: set[int] = set()
        self._failing = False  # the last write failed, and the log told so
        self._new = asyncio.Event()  # a channel has its first watermark, to be written at once

    async def load(self, bot: int, now: int) -> None:
        """Read what the last process wrote. `now` is an id of a message that would be written now: a bot
        that comes for the first time has missed nothing until then."""
        self._bot = bot
        try:
            written = await self._backend.store.watermarks(ALL_ADDRESSES)
        except StoreError as error:
            _log.error("the watermarks could not be read, so nothing is caught up with: %s", error)
            return
        for text, message_id in written.items():
            try:
                address = parse_address(text)
            except PixiError:  # nothing that Pixi wrote
                continue
            if address.bot == bot:
                self._marks[address.channel] = message_id
        if not self._marks:
            self._begin(_NOWHERE, now)

    @property
    def marks(self) -> Mapping[int, int]:
        """The watermarks, by channel."""
        return self._marks

    def meet(self, channel_id: int, message_id: int) -> None:
        """A message is about to be dealt with. In a channel that has no watermark, one is set below it and
        written soon: should the process end now, the message is found by it."""
        if channel_id not in self._marks:
            self._begin(channel_id, message_id - 1)

    def raise_to(self, channel_id: int, message_id: int) -> None:
        """Note that everything in a channel up to this message was dealt with."""
        if channel_id in self._frozen or message_id <= self._marks.get(channel_id, 0):
            return
        self._marks[channel_id] = self._unwritten[channel_id] = message_id

    def freeze(self, channel_id: int) -> None:
        """Keep the watermark below a message that could not be dealt with, until it was caught up with."""
        self._frozen.add(channel_id)

    @property
    def frozen(self) -> Sequence[int]:
        """The channels where something could not be dealt with."""
        return tuple(self._frozen)

    def thaw(self, channel_id: int) -> None:
        """Let the watermark of a channel rise again, which is being caught up with."""
        self._frozen.discard(channel_id)

    async def keep_written(self) -> None:
        """Write every few seconds, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_SECONDS):
                    await self._new.wait()
            self._new.clear()
            await self.write()

    async def write(self) -> None:
        """Write what was raised since; where that fails it is tried again with the next."""
        if not self._unwritten:
            return
        raised, self._unwritten = self._unwritten, {}
        try:
            await self._backend.store.mark(
                {str(ConversationAddress(self._bot, each)): mark for each, mark in raised.items()}
            )
        except StoreError as error:
            self._unwritten = {**raised, **self._unwritten}
            if not self._failing:
                _log.error("the watermarks could not be written: %s", error)
            self._failing = True
        else:
            self._failing = False

    def _begin(self, channel_id: int, message_id: int) -> None:
        self.raise_to(channel_id, message_id)
        self._new.set()


class MissedChannel(Struct, frozen=True):
    """A channel where something was written after the message `after`; `last` is the newest, 0: unknown."""

    channel: Readable
    after: int
    last: int = 0


class CatchUp:
    """Finds the channels where something was missed, and reads them.

    Args:
        client: is connected.
        backend: has the rules, and knows where there were conversations.
        marks: up to where everything was dealt with.
        directory: forgets the roles that it knows, which may have changed meanwhile.
        hear: deals with one message, and raises the watermark.
    """

    def __init__(
        self,
        client: discord.Client,
        backend: BotBackend,
        marks: Watermarks,
        directory: Directory,
        hear: Callable[[discord.Message], Awaitable[None]],
    ) -> None:
        self._client = client
        self._backend = backend
        self._marks = marks
        self._directory = directory
        self._hear = hear
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def missed(self, guilds: Iterable[discord.Guild], *, direct: bool) -> list[MissedChannel]:
        """Return the channels of these guilds, and with `direct` the direct messages, that should be read.

        Those with a conversation come first, and of the others the newest. Without any watermark nothing
        is known of what was missed.
        """
        marks = dict(self._marks.marks)
        if not marks or not self._is_wanted:
            return []
        self._directory.forget()
        oldest = self._oldest
        alive = self._alive(marks)
        found: list[MissedChannel] = []
        for guild in guilds:
            for channel in _channels_of(guild):
                after, last = max(marks.get(channel.id, alive), oldest), channel.last_message_id or 0
                if last > after and _may_read(channel):
                    found.append(MissedChannel(channel, after, last))
            await asyncio.sleep(0)
        found.sort(key=lambda each: -each.last)
        if direct:
            found = [*await self._direct(marks, oldest), *found]
        return found if len(found) <= _CHANNELS else await self._first_those_with_conversations(found)

    def refused(self) -> list[MissedChannel]:
        """Return the known channels where something could not be dealt with, which may be tried again."""
        if not self._is_wanted:
            return []
        marks, oldest = self._marks.marks, self._oldest
        known = [(each, self._client.get_channel(each)) for each in self._marks.frozen]
        return [
            MissedChannel(channel, max(marks.get(each, oldest), oldest))
            for each, channel in known
            if isinstance(channel, Readable)
        ]

    @property
    def _is_wanted(self) -> bool:
        rules = self._backend.rules
        return rules.catch_up_messages > 0 and rules.catch_up_minutes > 0

    @property
    def _oldest(self) -> int:
        """The id of a message that is just young enough to be caught up with."""
        minutes = self._backend.rules.catch_up_minutes
        return discord.utils.time_snowflake(discord.utils.utcnow() - timedelta(minutes=minutes))

    def _alive(self, marks: Mapping[int, int]) -> int:
        """Return until when nothing was written where no watermark is.

        What another process of the same bot heard, in the guilds of its own shards, does not count.
        """
        here = [mark for each, mark in marks.items() if self._client.get_channel(each) is not None]
        since = [marks[_NOWHERE]] if _NOWHERE in marks else marks.values()
        return max(here or since)

    async def read(self, missed: MissedChannel) -> None:
        """Hear the newest messages that were missed in a channel, in their order."""
        channel, rules = missed.channel, self._backend.rules
        limit = rules.catch_up_messages

        async def history() -> list[discord.Message]:
            return [each async for each in channel.history(limit=limit)]

        self._marks.thaw(channel.id)
        try:
            async with self._at_once:
                newest = await send_request(history, "history", seconds=_SECONDS, patience=_PATIENCE)
        except ChannelError as error:
            _log.warning("what was missed in %s could not be read: %s", channel_label(channel), error)
            if isinstance(error, DiscordRefused):
                self._marks.raise_to(channel.id, missed.last)
            else:
                self._marks.freeze(channel.id)
            return
        waiting = [message for message in reversed(newest) if message.id > missed.after]
        for message in waiting:
            await self._hear(message)
        if newest:
            self._marks.raise_to(channel.id, newest[0].id)
        if waiting:
            _log.info("%d messages that were missed in %s were heard", len(waiting), channel_label(channel))

    async def _direct(self, marks: Mapping[int, int], oldest: int) -> list[MissedChannel]:
        get_channel = self._client.get_channel
        unannounced = [each for each in marks if each != _NOWHERE and get_channel(each) is None]
        unannounced.sort(key=lambda each: -marks[each])
        found: dict[int, MissedChannel] = {}

        async def find(channel_id: int) -> None:
            async with self._at_once:
                channel = await self._fetched(channel_id)
            if channel is not None:
                found[channel_id] = MissedChannel(channel, max(marks[channel_id], oldest))

        wanted = unannounced[:_UNANNOUNCED]
        try:
            async with asyncio.timeout(_DIRECT_SECONDS):
                await asyncio.gather(*map(find, wanted))
        except TimeoutError:
            _log.warning("direct messages could not all be looked for in time")
        return [found[each] for each in wanted if each in found]

    async def _fetched(self, channel_id: int) -> Readable | None:
        try:
            channel = await send_request(
                lambda: self._client.fetch_channel(channel_id), "channel", seconds=_DIRECT_SECONDS
            )
        except ChannelError:
            return None  # it is gone, or the bot is
        if isinstance(channel, discord.Thread) and channel.guild.get_channel(channel.parent_id) is None:
            return None  # it belongs to another process
        return channel if isinstance(channel, (discord.DMChannel, discord.Thread)) else None

    async def _first_those_with_conversations(self, found: list[MissedChannel]) -> list[MissedChannel]:
        known = [each for each in found if await self._conversed(each.channel)]
        others = [each for each in found if each not in known]
        left = len(found) - _CHANNELS
        _log.warning("more channels have new messages than are read after a start: %d are left out", left)
        return [*known, *others][:_CHANNELS]

    async def _conversed(self, channel: Readable) -> bool:
        bot = self._client.user
        assert bot is not None  # it is connected
        for name in channel_personas(self._backend, bot.id, config_ids(channel)):
            try:
                if await self._backend.store.turns(str(ConversationAddress(bot.id, channel.id, name)), 1):
                    return True
            except StoreError:
                return False
        return False


def _channels_of(guild: discord.Guild) -> Iterator[InGuild]:
    yield from guild.text_channels
    yield from guild.voice_channels
    yield from guild.stage_channels
    yield from guild.threads


def _may_read(channel: InGuild) -> bool:
    """Return whether it is worth asking for the history."""
    me = own_member(channel.guild)
    if me is None or (isinstance(channel, discord.Thread) and channel.parent is None):
        return True
    allowed = channel.permissions_for(me)
    return allowed.view_channel and allowed.read_message_history
