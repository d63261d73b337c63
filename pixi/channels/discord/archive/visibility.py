"""Decides what may be told in a channel: all who read along, the bot and the rules must allow it.

All who read along are compared as sets. For each permission that it takes to read another channel, whoever
sees this one must have it there. Discord adds up a member's roles: an overwrite that allows a role something
beats every denial of that member's other roles, while what a role brings by itself, or what everyone is
allowed, is lost to one denial. So the roles fall into three sets (`RoleAccess`), and any of them may come
together in one member. Then everybody who sees this channel may read the other one if, and only if,

- a role that is surely let in here is surely let in there, or usually where nobody is denied;
- a role that is usually let in here is surely let in there, or usually where all who are denied are so here.

Members whom an overwrite names are looked up one by one. What is not known counts as no.
"""

import asyncio
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import discord
from msgspec import Struct

from pixi.channels.discord.archive.requests import HistoryRequests, thread_from
from pixi.channels.discord.permissions import requester_as
from pixi.channels.discord.places import channel_ids, own_member, roles_of
from pixi.core.errors import ChannelError
from pixi.settings.rules import Rules, is_blocked

_log = logging.getLogger("pixi.discord")

NOT_HERE = (
    "There is no such channel or thread that everybody who reads along here may read: give the name of one, "
    "or the link of a message."
)
"""Said of what does not exist and of what may not be read: in the same words, so that neither is told."""

VIEW = discord.Permissions(view_channel=True).value
HISTORY = discord.Permissions(read_message_history=True).value
CONNECT = discord.Permissions(connect=True).value
ADMINISTRATOR = discord.Permissions(administrator=True).value

_LOOKED_UP = 30  # members that overwrites name; of a channel for which more are needed nothing is told

_Channel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.ForumChannel
ChannelOrThread = _Channel | discord.Thread
"""A channel that holds messages, or threads of them."""

_PLACES = (
    discord.TextChannel,
    discord.VoiceChannel,
    discord.StageChannel,
    discord.ForumChannel,
    discord.Thread,
)
_LINK = re.compile(
    r"<?https?://[^\s<>/]{1,200}(?:/[^\s<>/]{1,40})*?/channels/(?P<guild>\d{1,20})/(?P<channel>\d{1,20})"
    r"(?:/(?P<message>\d{1,20}))?/?>?"
)
_ID = re.compile(r"<#(\d{1,20})>|(\d{15,20})")

Overwrites = Mapping[int, tuple[int, int]]
"""The bits that a channel allows and denies, by the id of a role, a member, or the guild for everyone."""


class RoleAccess(Struct, frozen=True):
    """The roles that have one permission in a channel, by their ids; the guild's own id is everyone's.

    Roles of administrators are in none of the sets: nothing keeps them out anywhere.

    Attributes:
        surely: an overwrite allows it to them, whatever else denies it.
        usually: they bring it, or everyone has it, unless another role is denied it.
        denied: an overwrite denies it to them.
    """

    surely: frozenset[int]
    usually: frozenset[int]
    denied: frozenset[int]

    @classmethod
    def of(cls, overwrites: Overwrites, roles: Mapping[int, int], everyone: int, bit: int) -> "RoleAccess":
        """Sort the roles of a guild by what they have in a channel.

        Args:
            overwrites: those of the channel for roles.
            roles: the bits that each role brings; everyone's too, and all that overwrites name.
            everyone: the id of everyone's role.
            bit: of the permission.
        """
        ordinary = {role: bits for role, bits in roles.items() if not bits & ADMINISTRATOR}
        allowed, denied = overwrites.get(everyone, (0, 0))
        named = {role: each for role, each in overwrites.items() if role != everyone and role in ordinary}
        surely = frozenset(role for role, (allows, _) in named.items() if allows & bit)
        kept_out = frozenset(role for role, (_, denies) in named.items() if denies & bit) - surely
        if allowed & bit or (ordinary.get(everyone, 0) & bit and not denied & bit):
            usually = frozenset(ordinary)
        elif denied & bit:
            usually = frozenset[int]()
        else:
            usually = frozenset(role for role, bits in ordinary.items() if bits & bit)
        return cls(surely, usually - kept_out, kept_out)

    def is_within(self, there: "RoleAccess") -> bool:
        """Return whether everybody who has this permission has that one, whatever their roles are."""
        nobody = frozenset[int]()
        return self.surely <= there.surely | (nobody if there.denied else there.usually) and (
            self.usually <= there.surely | (there.usually if there.denied <= self.denied else nobody)
        )


class Visibility:
    """The channels and authors that those who ask in one place may know of. Made anew for each question.

    Args:
        here: where they ask, and where the answer will be read.
        people: those who ask.
        rules: as they are now.
        requests: ask Discord for what is not known.
        bot: the bot's own user.

    Attributes:
        is_whole: all channels that the bot may read were found to be readable, by `channels`.
    """

    def __init__(
        self,
        here: ChannelOrThread,
        people: Sequence[discord.Member],
        rules: Rules,
        requests: HistoryRequests,
        bot: discord.abc.User,
    ) -> None:
        self.here = here
        self.guild = here.guild
        self.requests = requests
        self.bot = bot
        self.is_whole = False
        self._people = people
        self._rules = rules
        self._channel = channel_of(here)
        self._roles = {role.id: role.permissions.value for role in here.guild.roles}
        self._shown: dict[int, bool] = {}  # by channel
        self._looked_up: dict[int, discord.Member | None] = {}

    @property
    def is_adult(self) -> bool:
        """Return whether they ask in an age-restricted channel."""
        return self._channel is not None and _is_adult(self._channel)

    async def channels(self) -> list[ChannelOrThread]:
        """Return the channels that may be read, without threads: first where they ask, then the newest."""
        guild = self.guild
        every: Iterable[_Channel] = (
            *guild.text_channels,
            *guild.voice_channels,
            *guild.stage_channels,
            *guild.forums,
        )
        me = own_member(guild)
        mine = [channel for channel in every if me is not None and may_read(channel, me)]
        found: list[ChannelOrThread] = []
        for channel in mine:
            if await self.shows(channel):
                found.append(channel)
            await asyncio.sleep(0)
        self.is_whole = len(found) == len(mine)
        here = self._channel.id if self._channel is not None else 0
        return sorted(found, key=lambda channel: (channel.id != here, -(channel.last_message_id or 0)))

    async def shows(self, place: ChannelOrThread) -> bool:
        """Return whether what stands in a place may be told."""
        channel = channel_of(place)
        if channel is None or self._channel is None or place.guild.id != self.guild.id or not self._people:
            return False
        ids, listed = channel_ids(place), self._rules.allowed_channels
        if any(is_blocked(self._rules, requester_as(person, ids)) for person in self._people):
            return False
        if listed and not any(each in listed for each in ids):
            return False
        private = isinstance(place, discord.Thread) and place.is_private()
        if private and not await self._is_ours(place, channel):
            return False
        if channel.id not in self._shown:
            self._shown[channel.id] = await self._decide(channel, self._channel)
        return self._shown[channel.id]

    async def may_quote(self, author: int) -> bool:
        """Return whether the rules let the bot hear them; where roles are blocked, theirs must be known."""
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
        """Return the name of a channel of which everybody here may know."""
        found = self.guild.get_channel(channel_id)
        if found is None:
            return None
        everybody = found.permissions_for(self.guild.default_role).view_channel
        return found.name if everybody or self._shown.get(channel_id) else None

    async def _is_ours(self, thread: ChannelOrThread, channel: discord.abc.GuildChannel) -> bool:
        """Return True if they ask in that private thread. Elsewhere others read along, who were not added."""
        if thread.id != self.here.id:
            return False
        try:
            for person in self._people:
                manages = channel.permissions_for(person).manage_threads
                if not manages and not await self.requests.follows(thread.id, person.id):
                    return False
        except ChannelError as error:
            _log.info("who was added to thread %s is not known: %s", thread.id, error)
            return False
        return True

    async def _decide(self, channel: discord.abc.GuildChannel, here: discord.abc.GuildChannel) -> bool:
        me = own_member(self.guild)
        if me is None or not all(may_read(channel, person) for person in (me, *self._people)):
            return False
        if _is_adult(channel) and not _is_adult(here):
            return False
        mine, theirs, needed = _overwrites(here), _overwrites(channel), _needed(channel)
        if not self._all_may(mine[0], theirs[0], needed):
            return False
        named = {member for member, (allowed, _) in mine[1].items() if allowed & VIEW}
        named |= {member for member, (_, denied) in theirs[1].items() if denied & sum(needed)}
        for person in sorted(named - {me.id}):
            if not await self._reads_as_well(person, here, channel):
                return False
        return True

    def _all_may(self, here: Overwrites, there: Overwrites, needed: Sequence[int]) -> bool:
        """Return whether everybody who sees one channel by their roles has these permissions in another."""
        everyone = self.guild.id
        if self._roles.get(everyone, 0) & ADMINISTRATOR:
            return True
        roles = dict.fromkeys((*here, *there), 0) | self._roles
        seeing = RoleAccess.of(here, roles, everyone, VIEW)
        return all(seeing.is_within(RoleAccess.of(there, roles, everyone, bit)) for bit in needed)

    async def _reads_as_well(
        self, person: int, here: discord.abc.GuildChannel, channel: discord.abc.GuildChannel
    ) -> bool:
        """Return True if somebody whom an overwrite names may read the channel, or does not see this one."""
        try:
            member = await self._member(person)
        except ChannelError as error:
            _log.info("what user %s may read is not known: %s", person, error)
            return False
        return member is None or not here.permissions_for(member).view_channel or may_read(channel, member)

    async def _member(self, person: int) -> discord.Member | None:
        """Raises `ChannelError`: nobody can tell, or more are asked about than is good."""
        if person not in self._looked_up:
            if len(self._looked_up) >= _LOOKED_UP:
                raise ChannelError("too many members would have to be looked up.")
            self._looked_up[person] = await self.requests.member(self.guild, person)
        return self._looked_up[person]

    # Which place is meant.

    async def place_meant(self, text: str) -> tuple[ChannelOrThread, int | None]:
        """Return the place that a text means, and the message where it is the link of one.

        Raises:
            ChannelError: there is none that may be read.
        """
        text = text.strip()
        link = _LINK.fullmatch(text)
        message = None
        if link is not None:
            message = int(link["message"]) if link["message"] else None
            here = int(link["guild"]) == self.guild.id
            found = await self.place_by_id(int(link["channel"])) if here else None
        else:
            ids = _ID.fullmatch(text)
            found = await self.place_by_id(int(ids[1] or ids[2])) if ids else None
            found = found or await self._place_by_name(text)
        if found is None:
            raise ChannelError(NOT_HERE)
        return found, message

    async def place_by_id(self, channel_id: int) -> ChannelOrThread | None:
        """Return a channel or thread of the guild that may be read, an archived one too; else None."""
        found: object = self.guild.get_channel_or_thread(channel_id)
        if found is None:
            raw = await self.requests.channel(channel_id)
            found = thread_from(self.guild, raw) if raw is not None else None
        return found if isinstance(found, _PLACES) and await self.shows(found) else None

    async def _place_by_name(self, text: str) -> ChannelOrThread | None:
        """Look for a name alone, or for one as places are told of: `#channel › thread`."""
        above, _, name = text.rpartition("›")
        for alike in (_exactly, _by_letters):
            wanted, parent = alike(name), alike(above)
            for place in _named(self.guild):
                if not wanted or alike(place.name) != wanted:
                    continue
                channel = place.parent if isinstance(place, discord.Thread) else None
                is_there = not parent or (channel is not None and alike(channel.name) == parent)
                if is_there and await self.shows(place):
                    return place
        return None


def may_read(channel: discord.abc.GuildChannel, member: discord.Member) -> bool:
    """Return whether Discord lets somebody read what stands in a channel."""
    needed = sum(_needed(channel))
    return channel.permissions_for(member).value & needed == needed


def channel_of(place: ChannelOrThread) -> discord.abc.GuildChannel | None:
    """Return the channel whose permissions decide about a place; None where it is not known."""
    return place.parent if isinstance(place, discord.Thread) else place


def _overwrites(channel: discord.abc.GuildChannel) -> tuple[Overwrites, Overwrites]:
    """Return those for roles and those for members, also for roles that were not told of."""
    roles, members = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    for each in channel._overwrites:  # not all made objects of: they are many
        (roles if each.is_role() else members)[each.id] = each.allow, each.deny
    return roles, members


def _needed(channel: discord.abc.GuildChannel) -> tuple[int, ...]:
    """Return the permissions that reading takes; the chat of a voice channel is for those who may join it."""
    spoken = isinstance(channel, discord.VoiceChannel | discord.StageChannel)
    return (VIEW, HISTORY, CONNECT) if spoken else (VIEW, HISTORY)


def _is_adult(channel: discord.abc.GuildChannel) -> bool:
    return bool(getattr(channel, "nsfw", False))


def _named(guild: discord.Guild) -> Iterator[ChannelOrThread]:
    yield from guild.text_channels
    yield from guild.forums
    yield from guild.voice_channels
    yield from guild.stage_channels
    yield from guild.threads


def _exactly(name: str) -> str:
    return name.strip().removeprefix("#").casefold()


def _by_letters(name: str) -> str:
    """Return a name without what people decorate it with."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in plain if letter.isalnum())
