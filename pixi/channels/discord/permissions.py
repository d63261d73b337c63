"""Where a channel stands: who reads it, and what somebody may do there at this moment."""

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.access import Requester, is_admin, may_talk
from pixi.channels.discord.places import channel_ids, guild_id_of, roles_of
from pixi.channels.discord.requests import UNKNOWN_MEMBER, UNKNOWN_USER, DiscordRefused, send_request
from pixi.channels.discord.rules import Rules
from pixi.core.errors import ChannelError
from pixi.core.spending import Payer
from pixi.core.venue import Audience, Rights, Venue

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

    from pixi.channels.discord.places import Place

_log = logging.getLogger("pixi.discord")

_PLATFORM = "discord"
_SECONDS = 5.0  # for asking about a member
_KNOWN_SECONDS = 60.0  # for which the roles of a member hold
_REMEMBERED = 500  # members


def venue_of(channel: "MessageableChannel") -> Venue:
    """Where it is, and who reads it. What Discord did not tell of is taken for neither private nor public."""
    payer = payer_in(channel, "")
    return Venue(payer.guild, _audience(channel), payer.channel)


def payer_in(channel: "Place", person: str) -> Payer:
    """On whose account something is used in a channel; a thread counts to the one that it hangs on."""
    guild = guild_id_of(channel)
    parent = channel.parent_id if isinstance(channel, discord.Thread) else channel.id
    return Payer(person, f"{_PLATFORM}:{parent}", f"{_PLATFORM}:{guild}" if guild is not None else "")


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
    """Whether every member of the guild sees it. Channels hold what their categories decide themselves."""
    everyone: discord.Role | None = channel.guild.default_role
    return everyone is not None and channel.permissions_for(everyone).view_channel


@dataclass(frozen=True, slots=True)
class _Known:
    """What Discord told of a member, and until when (on the monotonic clock) it holds."""

    member: discord.Member | None
    until: float


class Directory:
    """Finds out what people may do. Discord is asked about a member, and its answer holds for a minute."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], _Known] = OrderedDict()

    async def rights(self, channel: "MessageableChannel", person: str, rules: Rules) -> Rights:
        """What a person may do in a channel; none for whom nobody knows, or who is blocked there.

        Args:
            channel: where they want to do it.
            person: the id of the author.
            rules: as they are now.
        """
        if not person.isdecimal():
            return Rights()
        user, guild = int(person), guild_id_of(channel)
        asker = Requester(user=user, guild=guild, channels=channel_ids(channel))
        if guild is not None:
            there = getattr(channel, "guild", None)
            if not isinstance(there, discord.Guild):
                return Rights()
            try:
                member = await self.member(there, user)
            except ChannelError as error:
                _log.warning("the roles of user %s could not be read: %s", user, error)
                if rules.blocked_roles or user not in rules.admins:
                    return Rights()
                member = None
            if member is not None:
                asker = Requester(
                    user=user,
                    roles=roles_of(member),
                    guild=guild,
                    channels=asker.channels,
                    manages=member.guild_permissions.manage_guild,
                    is_bot=member.bot,
                )
        elif not isinstance(channel, discord.abc.PrivateChannel):
            return Rights()  # it may be a blocked guild's
        operator = user in rules.admins and may_talk(rules, asker)
        return Rights(manager=operator or is_admin(rules, asker), operator=operator)

    async def member(
        self, guild: discord.Guild, user: int, *, within: float = _KNOWN_SECONDS
    ) -> discord.Member | None:
        """A member as they are now, or were so many seconds ago, a minute at most; None for whom is none.

        Raises:
            ChannelError: Discord does not tell.
        """
        if guild._state.member_cache_flags.joined and (cached := guild.get_member(user)):
            return cached  # what is not told of changes must not be believed
        key, now = (guild.id, user), time.monotonic()
        known = self._known.get(key)
        if known is not None and now < known.until - (_KNOWN_SECONDS - within):
            return known.member
        member: discord.Member | None
        try:
            member = await send_request(lambda: guild.fetch_member(user), "member", seconds=_SECONDS)
        except DiscordRefused as error:
            if error.code not in (UNKNOWN_MEMBER, UNKNOWN_USER):
                raise
            member = None
        self._known[key] = _Known(member, now + _KNOWN_SECONDS)
        self._known.move_to_end(key)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return member
