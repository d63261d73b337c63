"""People and bots, and what they are in a guild."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pixi.testing.discord.faults import Json
from pixi.testing.discord.ids import moment
from pixi.testing.discord.permissions import NONE, Permission


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
        """What is written to mention them."""
        return f"<@{self.id}>"

    def payload(self) -> Json:
        """As others see them."""
        return {
            "id": str(self.id),
            "username": self.name,
            "discriminator": "0000" if self.bot else "0",
            "global_name": self.display,
            "avatar": self.avatar,
            "bot": self.bot,
            "public_flags": 0,
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
        """What is written to mention it."""
        return f"<@&{self.id}>"

    def payload(self) -> Json:
        """As clients see it."""
        payload: Json = {
            "id": str(self.id),
            "name": self.name,
            "color": 0,
            "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
            "hoist": False,
            "icon": None,
            "unicode_emoji": None,
            "position": self.position,
            "permissions": str(int(self.permissions)),
            "managed": self.bot_id is not None,
            "mentionable": self.mentionable,
            "flags": 0,
        }
        return payload | {"tags": {"bot_id": str(self.bot_id)}} if self.bot_id else payload


@dataclass(eq=False, slots=True)
class Emoji:
    """An emoji of a guild."""

    id: int
    name: str
    animated: bool = False
    available: bool = True

    @property
    def text(self) -> str:
        """What is written in a message to show it."""
        return f"<{'a' if self.animated else ''}:{self.name}:{self.id}>"

    def payload(self) -> Json:
        """As clients see it."""
        return {
            "id": str(self.id),
            "name": self.name,
            "roles": [],
            "require_colons": True,
            "managed": False,
            "animated": self.animated,
            "available": self.available,
        }


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
        """What a message tells of it."""
        return {"id": str(self.id), "name": self.name, "format_type": self.format}

    def payload(self, guild: int) -> Json:
        """As clients see it."""
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
    banner: str | None = None
    bio: str | None = None
    silenced_until: float = 0.0
    joined: float = field(default_factory=time.time)

    def payload(self, *, user: bool = True) -> Json:
        """As clients see it; messages leave the user out."""
        payload: Json = {
            "nick": self.nick,
            "avatar": self.avatar,
            "banner": self.banner,
            "roles": [str(role.id) for role in self.roles],
            "joined_at": moment(self.joined),
            "premium_since": None,
            "deaf": False,
            "mute": False,
            "pending": False,
            "flags": 0,
            "communication_disabled_until": moment(self.silenced_until) if self.silenced_until else None,
        }
        return payload | {"user": self.user.payload()} if user else payload
