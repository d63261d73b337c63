"""People and bots, and what they are in a guild."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.calls import Json
from pixi.testing.discord.ids import moment

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel
    from pixi.testing.discord.guilds import Guild


class Permission(enum.IntFlag):
    """The bits that matter to a chat bot, under their documented names."""

    ADMINISTRATOR = 1 << 3
    MANAGE_GUILD = 1 << 5
    ADD_REACTIONS = 1 << 6
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    USE_EXTERNAL_EMOJIS = 1 << 18
    CONNECT = 1 << 20
    CHANGE_NICKNAME = 1 << 26
    MANAGE_WEBHOOKS = 1 << 29
    USE_APPLICATION_COMMANDS = 1 << 31
    MANAGE_THREADS = 1 << 34
    SEND_MESSAGES_IN_THREADS = 1 << 38


P = Permission
NONE = P(0)
ALL = P(sum(P))
_MANAGING = P.ADMINISTRATOR | P.MANAGE_GUILD | P.MANAGE_MESSAGES | P.MANAGE_WEBHOOKS | P.MANAGE_THREADS
EVERYONE = ALL & ~(_MANAGING | P.MENTION_EVERYONE)
IN_DIRECT_MESSAGES = ALL & ~(_MANAGING | P.CONNECT | P.CHANGE_NICKNAME | P.SEND_MESSAGES_IN_THREADS)
NEEDS_SENDING = P.MENTION_EVERYONE | P.ATTACH_FILES | P.EMBED_LINKS


def in_guild(guild: Guild, user: User) -> Permission:
    """Return what `user` may do in a guild, before any channel has its say. Strangers may nothing."""
    if user is guild.owner:
        return ALL
    member = guild.members.get(user.id)
    if member is None:
        return NONE
    allowed = guild.everyone.permissions
    for role in member.roles:
        allowed |= role.permissions
    return ALL if allowed & P.ADMINISTRATOR else allowed


def in_channel(channel: FakeChannel, user: User) -> Permission:
    """Return what `user` may do in a channel; a thread takes the overwrites of its parent."""
    guild = channel.guild
    if guild is None:
        return IN_DIRECT_MESSAGES if user in channel.recipients else NONE
    allowed = in_guild(guild, user)
    member = guild.members.get(user.id)
    if allowed == ALL or member is None:
        return allowed
    place = channel.parent if channel.is_thread and channel.parent else channel
    overwrites = place.overwrites
    if overwrites:
        if guild.id in overwrites:
            allow, deny = overwrites[guild.id]
            allowed = allowed & ~deny | allow
        allow = deny = NONE
        for role in member.roles:
            if role.id in overwrites:
                allow |= overwrites[role.id][0]
                deny |= overwrites[role.id][1]
        allowed = allowed & ~deny | allow
        if user.id in overwrites:
            allow, deny = overwrites[user.id]
            allowed = allowed & ~deny | allow
    if member.silenced_until > time.time():
        allowed &= P.VIEW_CHANNEL | P.READ_MESSAGE_HISTORY
    return _implied(channel, user, allowed)


def _implied(channel: FakeChannel, user: User, allowed: Permission) -> Permission:
    if not allowed & P.VIEW_CHANNEL:
        return NONE
    if channel.is_thread:
        if channel.private and user.id not in channel.thread_members and not allowed & P.MANAGE_THREADS:
            return NONE
        # In a thread, the right to send in threads stands for the right to send.
        may_send = bool(allowed & P.SEND_MESSAGES_IN_THREADS)
    else:
        may_send = bool(allowed & P.SEND_MESSAGES)
    return allowed if may_send else allowed & ~NEEDS_SENDING


def may_send(channel: FakeChannel, user: User) -> bool:
    """Return whether `user` may write there."""
    needed = P.SEND_MESSAGES_IN_THREADS if channel.is_thread else P.SEND_MESSAGES
    return bool(in_channel(channel, user) & (P.SEND_MESSAGES if channel.guild is None else needed))


@dataclass(eq=False, slots=True)
class User:
    """A person or a bot.

    Attributes:
        display: the name that they chose to be shown; None: the name is shown.
        permissions: what they bring into every guild that they join, by a role of their own.
        role_names: names of roles that they get, where the guild has such.
        accepts_dms: whether a bot may write to them.
    """

    id: int
    name: str
    display: str | None = None
    bot: bool = False
    avatar: str | None = None
    permissions: Permission = NONE
    role_names: tuple[str, ...] = ()
    accepts_dms: bool = True
    locale: str = "en-US"

    @property
    def mention(self) -> str:
        """Return what is written to mention them."""
        return f"<@{self.id}>"

    def payload(self) -> Json:
        """Return others' view."""
        return {
            "id": str(self.id),
            "username": self.name,
            "discriminator": "0000" if self.bot else "0",
            "global_name": self.display,
            "avatar": self.avatar,
            "bot": self.bot,
        }

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(eq=False, slots=True)
class FakeRole:
    """A role of a guild."""

    id: int
    name: str
    permissions: Permission = NONE
    mentionable: bool = False
    position: int = 0
    bot_id: int | None = None

    @property
    def mention(self) -> str:
        """Return what is written to mention it."""
        return f"<@&{self.id}>"

    def payload(self) -> Json:
        """Return the client's view."""
        payload: Json = {
            "id": str(self.id),
            "name": self.name,
            "position": self.position,
            "permissions": str(int(self.permissions)),
            "managed": self.bot_id is not None,
            "mentionable": self.mentionable,
        }
        return payload | {"tags": {"bot_id": str(self.bot_id)}} if self.bot_id else payload


@dataclass(eq=False, slots=True)
class Emoji:
    """An emoji of a guild."""

    id: int
    name: str

    @property
    def text(self) -> str:
        """Return what is written in a message to show it."""
        return f"<:{self.name}:{self.id}>"

    def payload(self) -> Json:
        """Return the client's view."""
        return {"id": str(self.id), "name": self.name, "roles": [], "animated": False, "available": True}


@dataclass(eq=False, slots=True)
class Sticker:
    """A sticker of a guild. `format` is 1 (PNG), 2 (APNG), 3 (Lottie) or 4 (GIF)."""

    id: int
    name: str
    description: str = ""
    tags: str = "wave"
    format: int = 1
    available: bool = True

    @property
    def item(self) -> Json:
        """Return what a message tells of it."""
        return {"id": str(self.id), "name": self.name, "format_type": self.format}

    def payload(self, guild: int) -> Json:
        """Return the client's view."""
        return self.item | {
            "description": self.description,
            "tags": self.tags,
            "type": 2,
            "available": self.available,
            "guild_id": str(guild),
        }


@dataclass(eq=False, slots=True)
class Member:
    """Somebody in a guild. `silenced_until` is the end of a timeout, in seconds since 1970."""

    user: User
    roles: list[FakeRole] = field(default_factory=list)
    nick: str | None = None
    avatar: str | None = None
    silenced_until: float = 0.0
    joined: float = field(default_factory=time.time)

    def payload(self, *, user: bool = True) -> Json:
        """Return the client's view; messages leave the user out."""
        payload: Json = {
            "nick": self.nick,
            "avatar": self.avatar,
            "roles": [str(role.id) for role in self.roles],
            "joined_at": moment(self.joined),
            "flags": 0,
            "communication_disabled_until": moment(self.silenced_until) if self.silenced_until else None,
        }
        return payload | {"user": self.user.payload()} if user else payload
