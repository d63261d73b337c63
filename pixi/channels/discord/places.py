"""Channels of Discord: what one belongs to, who reads it, on whose account something is used there."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import discord
from discord.http import Route

from pixi.channels.discord.formatting import one_line
from pixi.core.message import Audience, Venue
from pixi.core.spending import UsageScope

if TYPE_CHECKING:
    from discord.abc import GuildChannel, MessageableChannel, PrivateChannel
    from discord.interactions import InteractionChannel

    AnyChannel = MessageableChannel | GuildChannel | PrivateChannel | InteractionChannel

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
