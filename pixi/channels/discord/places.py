"""Who wants something of the bot, and where, as far as Discord says."""

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

import discord

from pixi.channels.discord.access import Requester
from pixi.channels.discord.requests import UNKNOWN_MEMBER, UNKNOWN_USER, DiscordRefused, send_request
from pixi.channels.discord.rules import Rules
from pixi.core.errors import ChannelError

_log = logging.getLogger("pixi.discord")

_SECONDS = 5.0  # for one question, while the message waits
_REMEMBERED = 500  # answers about roles, and about channels that were not announced

_K = TypeVar("_K")
_V = TypeVar("_V")

if TYPE_CHECKING:
    from discord.abc import GuildChannel, MessageableChannel, PrivateChannel
    from discord.interactions import InteractionChannel

    Place = MessageableChannel | GuildChannel | PrivateChannel | InteractionChannel


def channel_ids(channel: "Place | None") -> tuple[int, ...]:
    """Ids of a guild's channel, and of what it belongs to: a thread's parent, the category. None in a DM."""
    if channel is None or guild_id_of(channel) is None:
        return ()
    if isinstance(channel, discord.Thread):
        parent = channel.parent
        category = parent.category_id if parent is not None else None
        return tuple(each for each in (channel.id, channel.parent_id, category) if each)
    category = getattr(channel, "category_id", None)  # a channel that was not announced tells nothing
    return (channel.id, category) if category else (channel.id,)


def guild_id_of(channel: "Place | None") -> int | None:
    """Id of the guild that a channel is in; None in a DM."""
    if channel is None or isinstance(channel, discord.abc.PrivateChannel):
        return None
    if isinstance(channel, discord.PartialMessageable):
        return channel.guild_id
    return channel.guild.id


def config_ids(channel: "Place") -> tuple[int, ...]:
    """Where people may have chosen what holds in a channel: itself, a thread's parent, the guild."""
    parent = channel.parent_id if isinstance(channel, discord.Thread) else None
    return tuple(each for each in (channel.id, parent, guild_id_of(channel)) if each)


def roles_of(member: discord.Member) -> frozenset[int]:
    """Ids of their roles. They count even where the guild did not tell which roles it has."""
    return frozenset((*member._roles, member.guild.id))


def requester_of(interaction: discord.Interaction) -> Requester:
    """Who used a command, and where."""
    user = interaction.user
    member = user if isinstance(user, discord.Member) else None
    return Requester(
        user=user.id,
        roles=roles_of(member) if member is not None else frozenset(),
        guild=interaction.guild_id,
        channels=channel_ids(interaction.channel),
        manages=interaction.guild_id is not None and interaction.permissions.manage_guild,
        is_bot=user.bot,
    )


class Askers:
    """Finds out who wrote a message. What Discord does not send along is asked for, and remembered."""

    def __init__(self) -> None:
        self._roles: OrderedDict[tuple[int, int], frozenset[int]] = OrderedDict()
        self._channels: OrderedDict[int, tuple[int, ...] | None] = OrderedDict()

    async def of(self, message: discord.Message, rules: Rules, *, ask: bool = True) -> Requester | None:
        """Who wrote a message, and where; None where the rules block what cannot be found out.

        Args:
            message: as it came, or as it was read from the history, where Discord leaves the roles out.
            rules: tell what needs to be known.
            ask: whether Discord may be asked.
        """
        channel, author = message.channel, message.author
        guild = guild_id_of(channel)
        places = channel_ids(channel)
        if isinstance(channel, discord.PartialMessageable) and guild is not None:
            found = await self._places(message, ask=ask)
            if found is None and rules.blocked_channels:
                return None
            places = found or places
        roles = frozenset[int]()
        named = bool(rules.allowed_roles or rules.blocked_roles)
        if isinstance(author, discord.Member):
            roles = roles_of(author)
        elif named and guild is not None and message.webhook_id is None:
            known = await self._member_roles(message, guild, ask=ask)
            if known is None and rules.blocked_roles:
                return None
            roles = known or roles
        return Requester(
            user=author.id,
            roles=roles,
            guild=guild,
            channels=places,
            manages=isinstance(author, discord.Member) and author.guild_permissions.manage_guild,
            is_bot=author.bot or message.webhook_id is not None,
        )

    def forget_roles(self) -> None:
        """Ask anew: roles may have changed, and channels that could not be read may be known now."""
        self._roles.clear()
        self._channels.clear()

    async def _member_roles(
        self, message: discord.Message, guild: int, *, ask: bool
    ) -> frozenset[int] | None:
        key = (guild, message.author.id)
        if key in self._roles:
            return self._roles[key]
        if not ask or message.guild is None:
            return None
        there = message.guild
        try:
            member = await send_request(
                lambda: there.fetch_member(message.author.id), "member", seconds=_SECONDS
            )
            roles = roles_of(member)
        except ChannelError as error:
            if not isinstance(error, DiscordRefused) or error.code not in (UNKNOWN_MEMBER, UNKNOWN_USER):
                _log.warning("the roles of user %s could not be read: %s", message.author.id, error)
                return None
            roles = frozenset()  # they left the guild
        _remember(self._roles, key, roles)
        return roles

    async def _places(self, message: discord.Message, *, ask: bool) -> tuple[int, ...] | None:
        """What an unannounced channel belongs to: a thread that was asleep, say."""
        channel_id = message.channel.id
        if channel_id in self._channels:
            return self._channels[channel_id]
        if not ask or message.guild is None:
            return None
        there = message.guild
        places: tuple[int, ...] | None = None
        try:
            channel = await send_request(lambda: there.fetch_channel(channel_id), "channel", seconds=_SECONDS)
            places = channel_ids(channel)
        except ChannelError as error:
            _log.warning("channel %s could not be read: %s", channel_id, error)
            if not isinstance(error, DiscordRefused):
                return None  # another time, maybe
        _remember(self._channels, channel_id, places)
        return places


def _remember(answers: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    answers[key] = value
    if len(answers) > _REMEMBERED:
        answers.popitem(last=False)
