"""What may be read at this moment: by all who ask, by all who read along, by the bot, and by the rules."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

import discord

from pixi.channels.discord.access import Requester, is_blocked
from pixi.channels.discord.archive.audience import CONNECT, READ, VIEW, Overwrites, Roles, all_may
from pixi.channels.discord.places import channel_ids, roles_of
from pixi.channels.discord.requests import own_member
from pixi.channels.discord.rules import Rules
from pixi.core.errors import ChannelError

_log = logging.getLogger("pixi.discord")

_LOOKED_UP = 30  # members that overwrites name; of a channel for which more are needed nothing is told

_Room = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.ForumChannel
Place = _Room | discord.Thread
"""Where messages are, or threads of them."""

Members = Callable[[discord.Guild, int], Awaitable[discord.Member | None]]
"""Gives a member as Discord has them; None for whom is none. Raises `ChannelError`: nobody can tell."""

Follows = Callable[[discord.Thread, int], Awaitable[bool]]
"""Whether somebody was added to a private thread. Raises `ChannelError`: nobody can tell."""


class Visibility:
    """The view of those who ask in one place, at one moment. Made anew for each question.

    Args:
        here: where they ask, and where the answer will be read.
        people: those who ask.
        rules: as they are now.
        members: looks up whom overwrites name.
        follows: looks up who was added to a private thread.

    Attributes:
        is_whole: all channels that the bot may read were found to be readable, by `rooms`.
    """

    def __init__(
        self,
        here: Place,
        people: Sequence[discord.Member],
        rules: Rules,
        members: Members,
        follows: Follows,
    ) -> None:
        self.here = here
        self.guild = here.guild
        self._people = people
        self._rules = rules
        self._members = members
        self._follows = follows
        self._roles = Roles.of(here.guild)
        self._room = room_of(here)
        self.is_whole = False
        self._known: dict[int, bool] = {}
        self._looked_up: dict[int, discord.Member | None] = {}

    @property
    def is_adult(self) -> bool:
        """Whether they ask in an age-restricted channel."""
        return self._room is not None and _is_adult(self._room)

    async def rooms(self) -> list[Place]:
        """The channels that may be read, without threads: first the one where they ask, then the newest."""
        guild = self.guild
        every: Iterable[_Room] = (
            *guild.text_channels,
            *guild.voice_channels,
            *guild.stage_channels,
            *guild.forums,
        )
        me = own_member(guild)
        mine = [room for room in every if me is not None and may_read(room, me)]
        found: list[Place] = []
        for room in mine:
            if await self.shows(room):
                found.append(room)
            await asyncio.sleep(0)
        self.is_whole = len(found) == len(mine)
        here = self._room.id if self._room is not None else 0
        return sorted(found, key=lambda room: (room.id != here, -(room.last_message_id or 0)))

    async def shows(self, place: Place) -> bool:
        """Whether what stands in a place may be told."""
        room = room_of(place)
        if room is None or self._room is None or place.guild.id != self.guild.id or not self._people:
            return False
        if any(is_blocked(self._rules, _in(person, place)) for person in self._people):
            return False
        listed = self._rules.allowed_channels
        if listed and not any(each in listed for each in channel_ids(place)):
            return False
        if isinstance(place, discord.Thread) and place.is_private() and not await self._is_ours(place, room):
            return False
        if room.id not in self._known:
            self._known[room.id] = await self._decide(room, self._room)
        return self._known[room.id]

    async def hears(self, author: int) -> bool:
        """Whether the rules let the bot hear somebody, whose roles must be known where some are blocked."""
        rules = self._rules
        if author in rules.blocked_users:
            return False
        if not rules.blocked_roles:
            return True
        try:
            member = await self._member(author)
        except ChannelError as error:
            _log.info("the roles of user %s could not be read: %s", author, error)
            return False
        return member is None or roles_of(member).isdisjoint(rules.blocked_roles)

    def name_of(self, channel_id: int) -> str | None:
        """The name of a channel, for which everybody here may know that it exists."""
        found = self.guild.get_channel(channel_id)
        if found is None:
            return None
        everybody = found.permissions_for(self.guild.default_role).view_channel
        return found.name if everybody or self._known.get(channel_id) else None

    async def _is_ours(self, thread: discord.Thread, room: discord.abc.GuildChannel) -> bool:
        """Whether they ask in that private thread; elsewhere somebody reads along who was not added to it."""
        if thread.id != self.here.id:
            return False
        try:
            for person in self._people:
                manages = room.permissions_for(person).manage_threads
                if not manages and not await self._follows(thread, person.id):
                    return False
        except ChannelError as error:
            _log.info("who was added to thread %s is not known: %s", thread.id, error)
            return False
        return True

    async def _decide(self, room: discord.abc.GuildChannel, here: discord.abc.GuildChannel) -> bool:
        me = own_member(self.guild)
        if me is None or not all(may_read(room, person) for person in (me, *self._people)):
            return False
        if _is_adult(room) and not _is_adult(here):
            return False
        mine, theirs = Overwrites.of(here), Overwrites.of(room)
        needed = _needed(room)
        if not all_may(mine, theirs, self._roles, needed):
            return False
        named = {each for each, (allowed, _) in mine.members.items() if allowed & VIEW}
        named |= {each for each, (_, denied) in theirs.members.items() if denied & needed}
        for person in sorted(named - {me.id}):
            if not await self._reads_as_well(person, here, room):
                return False
        return True

    async def _reads_as_well(
        self, person: int, here: discord.abc.GuildChannel, room: discord.abc.GuildChannel
    ) -> bool:
        """Whether somebody whom an overwrite names may read the room, or does not see what is said here."""
        try:
            member = await self._member(person)
        except ChannelError as error:
            _log.info("what user %s may read is not known: %s", person, error)
            return False
        return member is None or not here.permissions_for(member).view_channel or may_read(room, member)

    async def _member(self, person: int) -> discord.Member | None:
        """Raises `ChannelError`: nobody can tell, or more are asked about than is good."""
        if person not in self._looked_up:
            if len(self._looked_up) >= _LOOKED_UP:
                raise ChannelError("too many members would have to be looked up.")
            self._looked_up[person] = await self._members(self.guild, person)
        return self._looked_up[person]


def may_read(room: discord.abc.GuildChannel, member: discord.Member) -> bool:
    """Whether Discord lets somebody read what stands in a channel."""
    needed = _needed(room)
    return room.permissions_for(member).value & needed == needed


def room_of(place: Place) -> discord.abc.GuildChannel | None:
    """The channel whose permissions decide about a place; None where it is not known."""
    return place.parent if isinstance(place, discord.Thread) else place


def _needed(room: discord.abc.GuildChannel) -> int:
    """What it takes to read a channel; the chat of a voice channel is for those who may join it."""
    return READ | CONNECT if isinstance(room, discord.VoiceChannel | discord.StageChannel) else READ


def _is_adult(room: discord.abc.GuildChannel) -> bool:
    return bool(getattr(room, "nsfw", False))


def _in(person: discord.Member, place: Place) -> Requester:
    return Requester(
        user=person.id,
        roles=roles_of(person),
        guild=place.guild.id,
        channels=channel_ids(place),
        manages=person.guild_permissions.manage_guild,
        is_bot=person.bot,
    )
