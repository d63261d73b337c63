"""People and bots, and what a guild gives them: permissions, roles, emoji and stickers."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field

from pixi.testing.discord.calls import Json
from pixi.testing.discord.ids import moment


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

    def payload(self, *, user: bool = True, lean: bool = False) -> Json:
        """Return the client's view; messages leave the user out. A `lean` server tells roles whole."""
        payload: Json = {
            "nick": self.nick,
            "avatar": self.avatar,
            "roles": [str(role.id) for role in self.roles],
            "joined_at": moment(self.joined),
            "flags": 0,
            "communication_disabled_until": moment(self.silenced_until) if self.silenced_until else None,
        }
        if lean:
            payload["roles"] = [{"id": str(role.id), "name": "a role"} for role in self.roles]
        return payload | {"user": self.user.payload()} if user else payload
