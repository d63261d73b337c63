"""Who reads along: whether everybody who sees one channel may read another, whatever roles they have."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import discord

VIEW = discord.Permissions(view_channel=True).value
READ = VIEW | discord.Permissions(read_message_history=True).value
CONNECT = discord.Permissions(connect=True).value
ADMINISTRATOR = discord.Permissions(administrator=True).value

Bits = tuple[int, int]
"""What an overwrite allows, and what it denies."""

_NOTHING: Bits = (0, 0)


@dataclass(frozen=True, slots=True)
class Overwrites:
    """What a channel says of everyone, of roles and of members, by their ids."""

    everyone: Bits = _NOTHING
    roles: Mapping[int, Bits] = field(default_factory=dict)
    members: Mapping[int, Bits] = field(default_factory=dict)

    @classmethod
    def of(cls, channel: discord.abc.GuildChannel) -> "Overwrites":
        """Those of a channel, also for roles that were not told of."""
        everyone, roles, members = _NOTHING, dict[int, Bits](), dict[int, Bits]()
        for overwrite in channel._overwrites:  # not all made objects of: they are many
            bits = overwrite.allow, overwrite.deny
            if overwrite.id == channel.guild.id:
                everyone = bits
            elif overwrite.is_role():
                roles[overwrite.id] = bits
            else:
                members[overwrite.id] = bits
        return cls(everyone, roles, members)

    def allowing(self, bit: int) -> frozenset[int]:
        """The roles that it allows something."""
        return frozenset(role for role, (allowed, _) in self.roles.items() if allowed & bit)

    def denying(self, bit: int) -> frozenset[int]:
        """The roles that it denies something, and does not allow it as well: allowing wins."""
        return frozenset(
            role for role, (allowed, denied) in self.roles.items() if denied & bit and not allowed & bit
        )


@dataclass(frozen=True, slots=True)
class Roles:
    """What the roles of a guild allow in all of its channels, by their ids.

    Attributes:
        everyone: what all members may.
        others: what each of the other roles adds.
    """

    everyone: int
    others: Mapping[int, int]

    @classmethod
    def of(cls, guild: discord.Guild) -> "Roles":
        """Those of a guild that told of them."""
        others = {role.id: role.permissions.value for role in guild.roles if role.id != guild.id}
        return cls(guild.default_role.permissions.value, others)

    def knowing(self, *channels: Overwrites) -> "Roles":
        """The same with the roles that only a channel's overwrites name."""
        named = {role: 0 for channel in channels for role in channel.roles}
        return Roles(self.everyone, {**named, **self.others})


def all_may(here: Overwrites, there: Overwrites, roles: Roles, needed: int) -> bool:
    """Whether everybody who sees `here` by their roles has the permissions `needed` in `there`.

    Any roles may come together in somebody. Members whom an overwrite names are another matter: who sees
    `here` or lacks something `there` by one is not thought of.
    """
    if roles.everyone & ADMINISTRATOR:
        return True
    roles = roles.knowing(here, there)
    ordinary = {role for role, bits in roles.others.items() if not bits & ADMINISTRATOR}
    seeing = _Seeing(here, roles, ordinary)
    return not any(_somebody_lacks(bit, seeing, there, roles, ordinary) for bit in _bits(needed))


def _somebody_lacks(
    bit: int, seeing: "_Seeing", there: Overwrites, roles: Roles, ordinary: Collection[int]
) -> bool:
    """Whether some roles together let somebody see `here`, and lack a permission in `there`.

    No role of theirs may allow it `there`. Then they lack it where one of their roles denies it, or where
    nothing gives it to them in the first place. Two roles are always enough to show it: one that lets them
    see `here`, and one that denies.
    """
    without = frozenset(ordinary) - there.allowing(bit)
    if any(seeing.with_role(role, without) for role in there.denying(bit) & without):
        return True
    allowed, denied = there.everyone
    if allowed & bit:
        return False
    if not denied & bit:
        if roles.everyone & bit:
            return False
        without = frozenset(role for role in without if not roles.others[role] & bit)
    return seeing.anybody_of(without)


class _Seeing:
    """Who sees a channel: by a role that it allows that, or by what roles bring where none denies it."""

    def __init__(self, channel: Overwrites, roles: Roles, ordinary: Collection[int]) -> None:
        allowed, denied = channel.everyone
        self._allowed = channel.allowing(VIEW)
        self._denied = channel.denying(VIEW)
        self._open = bool(allowed & VIEW or (roles.everyone & VIEW and not denied & VIEW))
        self._bring = (
            frozenset() if denied & VIEW else {role for role in ordinary if roles.others[role] & VIEW}
        ) - self._denied

    def anybody_of(self, roles: Collection[int]) -> bool:
        """Whether somebody sees it who has no other roles than some of these."""
        return self._open or any(role in self._allowed or role in self._bring for role in roles)

    def with_role(self, role: int, others: Collection[int]) -> bool:
        """Whether somebody sees it who has this role, and no other roles than some of these."""
        if role in self._denied:
            return any(each in self._allowed for each in others)
        return self.anybody_of((role, *others))


def _bits(needed: int) -> Iterator[int]:
    while needed:
        bit = needed & -needed
        yield bit
        needed ^= bit
