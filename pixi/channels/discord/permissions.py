"""Looks up members of a guild, and the permissions that they or the bot have there at this moment."""

import logging
import time
from typing import TYPE_CHECKING

import discord
from msgspec import Struct

from pixi.channels.discord.incoming.message import IncomingMessage
from pixi.channels.discord.places import ChannelInfo, channel_ids, guild_id_of, guild_in, own_member, roles_of
from pixi.channels.discord.requests import UNKNOWN_MEMBER, UNKNOWN_USER, DiscordRefused, send_request
from pixi.core.errors import ChannelError
from pixi.core.lru import LRU
from pixi.core.message import Rights
from pixi.settings.rules import Requester, Rules, is_admin, may_talk

if TYPE_CHECKING:
    from discord.abc import GuildChannel, MessageableChannel

_log = logging.getLogger("pixi.discord")

_SECONDS = 5.0  # for one question, while a message waits
MEMBER_SECONDS = 60.0
"""Seconds for which the roles of a member hold that Discord was asked for."""

_REMEMBERED = 500  # members, and channels that were not announced

_NEEDED = {
    "reaction": ("view_channel", "read_message_history", "add_reactions"),
    "webhook": ("view_channel", "manage_webhooks"),
    "box": ("embed_links",),
    "file": ("attach_files",),
}
_TO_POST = ("view_channel", "send_messages")


def requester_of(interaction: discord.Interaction) -> Requester:
    """Tell who used a command, and where."""
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


def requester_as(member: discord.Member, channels: tuple[int, ...]) -> Requester:
    """Tell who a member is for the rules, in a channel that goes by these ids."""
    return Requester(
        user=member.id,
        roles=roles_of(member),
        guild=member.guild.id,
        channels=channels,
        manages=member.guild_permissions.manage_guild,
        is_bot=member.bot,
    )


def missing_permissions(channel: "MessageableChannel | GuildChannel", what: str) -> str:
    """Name the permissions that the bot lacks there for `what`, as Discord's settings show them."""
    guild = getattr(channel, "guild", None)
    if not isinstance(guild, discord.Guild) or isinstance(channel, discord.PartialMessageable):
        return ""
    needed = list(_NEEDED.get(what, _TO_POST))
    if isinstance(channel, discord.Thread):
        needed = ["send_messages_in_threads" if name == "send_messages" else name for name in needed]
        if channel.parent is None:
            return ""
    me = own_member(guild)
    held = dict(channel.permissions_for(me)) if me is not None else {}
    return ", ".join(name.replace("_", " ").title() for name in needed if not held.get(name, True))


def is_timed_out(channel: "MessageableChannel") -> bool:
    """Return whether a moderator has silenced the bot there for a time."""
    guild = guild_in(channel)
    me = own_member(guild) if guild is not None else None
    return me is not None and me.is_timed_out()


class _KnownMember(Struct, frozen=True):
    """A member as Discord told of them; None: no member. It holds until then, on the monotonic clock."""

    member: discord.Member | None
    until: float


class _KnownChannel(Struct, frozen=True):
    """The ids of a channel and of those that it stands in, as Discord told; None: the bot may not know."""

    ids: tuple[int, ...] | None


class Directory:
    """Looks up members, and channels that were not announced. One for a bot.

    Discord is asked about a member, and its answer holds for a minute.
    """

    def __init__(self, client: discord.Client) -> None:
        self._client = client
        self.forget()

    def forget(self) -> None:
        """Ask anew: roles may have changed, and channels that could not be read may be known now."""
        self._members: LRU[tuple[int, int], _KnownMember] = LRU(_REMEMBERED)  # by guild and user
        self._channels: LRU[int, _KnownChannel] = LRU(_REMEMBERED)

    async def member(
        self, guild: discord.Guild, user: int, *, within: float = MEMBER_SECONDS
    ) -> discord.Member | None:
        """Return a member as they are, or were `within` so many seconds, a minute at most; None: no member.

        Raises:
            ChannelError: Discord does not tell.
        """
        if guild._state.member_cache_flags.joined and (cached := guild.get_member(user)):
            return cached  # what is not told of changes must not be believed
        key, now = (guild.id, user), time.monotonic()
        known = self._members.get(key)
        if known is not None and now < known.until - (MEMBER_SECONDS - within):
            return known.member
        member: discord.Member | None
        try:
            member = await send_request(lambda: guild.fetch_member(user), "member", seconds=_SECONDS)
        except DiscordRefused as error:
            if error.code not in (UNKNOWN_MEMBER, UNKNOWN_USER):
                raise
            member = None
        self._members.put(key, _KnownMember(member, now + MEMBER_SECONDS))
        return member

    async def rights(self, channel: "MessageableChannel", person: str, rules: Rules) -> Rights:
        """Return what a person may do in a channel; nothing for whom nobody knows, or who is blocked there.

        Args:
            channel: where they want to do it.
            person: the id of the author.
            rules: as they are now.
        """
        if not person.isdecimal():
            return Rights()
        user, guild = int(person), guild_id_of(channel)
        who = Requester(user=user, guild=guild, channels=channel_ids(channel))
        if guild is not None:
            there = guild_in(channel)
            if there is None:
                return Rights()
            try:
                member = await self.member(there, user)
            except ChannelError as error:
                _log.warning("the roles of user %s could not be read: %s", user, error)
                if rules.blocked_roles or user not in rules.admins:
                    return Rights()
                member = None
            who = who if member is None else requester_as(member, who.channels)
        elif not isinstance(channel, discord.abc.PrivateChannel):
            return Rights()  # it may be a blocked guild's
        operator = user in rules.admins and may_talk(rules, who)
        return Rights(manager=operator or is_admin(rules, who), operator=operator)

    async def requester(
        self, message: IncomingMessage, rules: Rules, *, ask: bool = True
    ) -> Requester | None:
        """Tell who wrote a message, and where; None where the rules block what cannot be found out.

        Args:
            message: as it came, or as it was read from the history, where Discord leaves the roles out.
            rules: tell what needs to be known.
            ask: whether Discord may be asked.
        """
        channel, user, roles = message.channel, int(message.author.id), message.roles
        channels: tuple[int, ...] | None = channel.ids
        there = self._client.get_guild(channel.guild) if channel.guild is not None else None
        if not channel.announced and channel.guild is not None:
            channels = await self._channel_ids(channel, there if ask else None)
            if channels is None and rules.blocked_channels:
                return None
        needs_roles = channel.guild is not None and bool(rules.allowed_roles or rules.blocked_roles)
        if roles is None and needs_roles and not message.webhook:
            roles = await self._roles(there, user, ask=ask)
            if roles is None and rules.blocked_roles:
                return None
        return Requester(
            user=user,
            roles=roles or frozenset(),
            guild=channel.guild,
            channels=channel.ids if channels is None else channels,
            is_bot=message.author.is_bot,
        )

    async def _roles(self, guild: discord.Guild | None, user: int, *, ask: bool) -> frozenset[int] | None:
        """Return somebody's roles; none for whom left the guild; None: they could not be found out."""
        if guild is None:
            return None
        known = self._members.get((guild.id, user))
        if not ask and (known is None or time.monotonic() >= known.until):
            return None
        try:
            member = await self.member(guild, user)
        except ChannelError as error:
            _log.warning("the roles of user %s could not be read: %s", user, error)
            return None
        return roles_of(member) if member is not None else frozenset()

    async def _channel_ids(self, channel: ChannelInfo, guild: discord.Guild | None) -> tuple[int, ...] | None:
        """Return what an unannounced channel belongs to: a thread that was asleep, say."""
        if (known := self._channels.get(channel.id)) is not None:
            return known.ids
        if guild is None:
            return None
        there, ids = guild, None
        try:
            found = await send_request(lambda: there.fetch_channel(channel.id), "channel", seconds=_SECONDS)
            ids = channel_ids(found)
        except ChannelError as error:
            _log.warning("channel %s could not be read: %s", channel.id, error)
            if not isinstance(error, DiscordRefused):
                return None  # another time, maybe
        self._channels.put(channel.id, _KnownChannel(ids))
        return ids
