"""Channels of Discord: what one belongs to, who reads it, and on whose account something is used there.

A process that no gateway tells of them learns them over REST (`RestPlaces`).
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import discord
from discord.http import Route

from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.requests import send_request
from pixi.core.errors import ChannelError
from pixi.core.message import Audience, Venue
from pixi.core.spending import UsageScope

if TYPE_CHECKING:
    from discord.abc import GuildChannel, MessageableChannel, PrivateChannel
    from discord.interactions import InteractionChannel

    AnyChannel = MessageableChannel | GuildChannel | PrivateChannel | InteractionChannel

_log = logging.getLogger("pixi.discord")

_PLATFORM = "discord"

MESSAGEABLE = (
    discord.TextChannel,
    discord.VoiceChannel,
    discord.StageChannel,
    discord.Thread,
    discord.DMChannel,
    discord.GroupChannel,
)
"""Channels in which one can write."""


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel, thread or direct message, as far as hearing depends on it.

    Attributes:
        guild: id of its guild; None for a direct message.
        ids: see `channel_ids`.
        config_ids: see `config_ids`.
        announced: Discord told of it; of another one `ids` is incomplete.
        title: of a thread; "" for anything else.
        target: discord.py's channel, for those who post there or read its history. Nothing else looks at it.
        opening: where the first message of a thread stands, which has the thread's id; None: unknown, or in a
            private thread.
    """

    id: int
    guild: int | None
    ids: tuple[int, ...]
    config_ids: tuple[int, ...]
    announced: bool
    title: str
    target: "MessageableChannel" = field(repr=False, compare=False)
    opening: "MessageableChannel | None" = field(default=None, repr=False, compare=False)

    @property
    def label(self) -> str:
        """See `channel_label`."""
        return channel_label(self.target)


def channel_info(channel: "MessageableChannel") -> ChannelInfo:
    """Read what is known of a channel."""
    thread = channel if isinstance(channel, discord.Thread) else None
    parent = thread.parent if thread is not None and not thread.is_private() else None
    return ChannelInfo(
        id=channel.id,
        guild=guild_id_of(channel),
        ids=channel_ids(channel),
        config_ids=config_ids(channel),
        announced=not isinstance(channel, discord.PartialMessageable),
        title=one_line(thread.name) if thread is not None else "",
        target=channel,
        opening=thread if isinstance(parent, discord.ForumChannel) else parent,
    )


def guild_id_of(channel: "AnyChannel | None") -> int | None:
    """Return the id of the guild that a channel is in; None for a direct message."""
    if channel is None or isinstance(channel, discord.abc.PrivateChannel):
        return None
    if isinstance(channel, discord.PartialMessageable):
        return channel.guild_id
    return channel.guild.id


def channel_ids(channel: "AnyChannel | None") -> tuple[int, ...]:
    """Return the ids that lists of channels may name: of it, a thread's parent, the category.

    None of a direct message. A channel that was not announced tells of itself alone.
    """
    if channel is None or guild_id_of(channel) is None:
        return ()
    thread = channel if isinstance(channel, discord.Thread) else None
    category = getattr(channel if thread is None else thread.parent, "category_id", None)
    return tuple(each for each in (channel.id, thread and thread.parent_id, category) if each)


def config_ids(channel: "AnyChannel") -> tuple[int, ...]:
    """Return the ids for which people may have chosen what holds there: it, a thread's parent, the guild."""
    parent = channel.parent_id if isinstance(channel, discord.Thread) else None
    return tuple(each for each in (channel.id, parent, guild_id_of(channel)) if each)


def roles_of(member: discord.Member) -> frozenset[int]:
    """Return the ids of a member's roles, also where the guild did not tell which roles it has."""
    return frozenset((*member._roles, member.guild.id))


def guild_in(channel: "MessageableChannel") -> discord.Guild | None:
    """Return the guild that a channel is in, where it is known."""
    guild = getattr(channel, "guild", None)
    return guild if isinstance(guild, discord.Guild) else None


def own_member(guild: discord.Guild) -> discord.Member | None:
    """Return the bot's own membership; None where the server did not tell (yet) what the bot may do.

    discord.py makes one up, without roles, where a command is used in a guild that told of none.
    """
    me: discord.Member | None = guild.me
    everyone: discord.Role | None = guild.default_role
    return me if me is not None and me.joined_at is not None and everyone is not None else None


def channel_label(channel: "MessageableChannel | GuildChannel") -> str:
    """Name a channel as an operator finds it: its name, its server's name, its id."""
    name = getattr(channel, "name", None)
    guild = getattr(channel, "guild", None)
    if name and guild is not None:
        return f"#{one_line(name)} of {one_line(str(guild))!r} ({channel.id})"
    return f"channel {channel.id}"


def address_of_chat() -> str:
    """Return where people read the chat. Another server's client is taken to be where its API is."""
    api = urlsplit(Route.BASE)
    return "https://discord.com" if api.hostname == "discord.com" else f"{api.scheme}://{api.netloc}"


def runs_all_shards(client: discord.Client) -> bool:
    """Return whether there are no shards but those of this process."""
    shards = _shards_of(client)
    return not shards or len(shards) == client.shard_count


def runs_shard_of(client: discord.Client, guild: int | None) -> bool:
    """Return whether a shard of this process is told of a guild; None: of direct messages."""
    shards = _shards_of(client)
    return not shards or ((guild or 0) >> 22) % (client.shard_count or 1) in shards


def _shards_of(client: discord.Client) -> Sequence[int]:
    """Return the shards of this process; none where it runs all, or only posts."""
    return (client.shard_ids if isinstance(client, discord.AutoShardedClient) else None) or ()


# Who reads it, and who pays.


def venue_of(channel: "MessageableChannel") -> Venue:
    """Tell where a channel is, and who reads it. What is not known is neither private nor public."""
    payer = payer_in(channel, "")
    return Venue(payer.guild, _audience(channel), payer.channel)


def payer_in(channel: "AnyChannel", person: str) -> UsageScope:
    """Tell on whose account something is used in a channel; a thread counts to its parent."""
    guild = guild_id_of(channel)
    parent = channel.parent_id if isinstance(channel, discord.Thread) else channel.id
    return UsageScope(person, f"{_PLATFORM}:{parent}", f"{_PLATFORM}:{guild}" if guild is not None else "")


def _audience(channel: "MessageableChannel") -> Audience:
    match channel:
        case discord.DMChannel():
            return "one"
        case discord.Thread():
            # Its parent decides who reads a thread, except for a private one, which people are invited to.
            parent = channel.parent
            return "all" if parent is not None and not channel.is_private() and _is_open(parent) else "some"
        case discord.TextChannel() | discord.VoiceChannel() | discord.StageChannel():
            return "all" if _is_open(channel) else "some"
        case _:
            return "some"


def _is_open(channel: discord.abc.GuildChannel) -> bool:
    """Return True if every member of the guild sees it. Channels hold what their categories decide."""
    everyone: discord.Role | None = channel.guild.default_role
    return everyone is not None and channel.permissions_for(everyone).view_channel


# For a process that no gateway tells of guilds and channels.

KEPT_SECONDS = 300.0
"""Seconds for which permissions, emoji and topics hold as they were told."""

_KEPT = 500  # guilds and channels; of more, the one that was asked for longest ago goes
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
