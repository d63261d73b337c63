"""Guilds, and how a test furnishes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord import payloads
from pixi.testing.discord.channels import (
    CATEGORY,
    FORUM,
    NEWS,
    NEWS_THREAD,
    PRIVATE_THREAD,
    PUBLIC_THREAD,
    TEXT,
    VOICE,
    FakeChannel,
)
from pixi.testing.discord.messages import THREAD_CREATED, THREAD_STARTER, FakeMessage
from pixi.testing.discord.users import EVERYONE, NONE, Emoji, FakeRole, Member, Permission, Sticker, User
from pixi.testing.discord.writing import SILENT, MessageDraft, write

if TYPE_CHECKING:
    from pixi.testing.discord.world import World

KINDS = {"text": TEXT, "voice": VOICE, "category": CATEGORY, "news": NEWS, "forum": FORUM}


@dataclass(eq=False)
class Guild:
    """A server that the bot is in. What is added while the bot is connected is told to it."""

    world: World
    id: int
    name: str
    owner: User
    locale: str = "en-US"
    members: dict[int, Member] = field(default_factory=dict)
    roles: dict[int, FakeRole] = field(default_factory=dict)
    channels: dict[int, FakeChannel] = field(default_factory=dict)
    threads: dict[int, FakeChannel] = field(default_factory=dict)
    emojis: dict[int, Emoji] = field(default_factory=dict)
    stickers: dict[int, Sticker] = field(default_factory=dict)
    bot_role: FakeRole = field(init=False)

    def __post_init__(self) -> None:
        self.roles[self.id] = FakeRole(self.id, "@everyone", EVERYONE)

    @property
    def everyone(self) -> FakeRole:
        """The role that all have; it has the guild's id."""
        return self.roles[self.id]

    @property
    def bot_member(self) -> Member:
        """The bot here: its nickname, avatar and roles."""
        return self.members[self.world.bot.id]

    # Roles, people, emojis.

    def role(
        self, name: str, permissions: Permission = NONE, *, mentionable: bool = False, bot: bool = False
    ) -> FakeRole:
        """Add a role."""
        role = FakeRole(
            self.world.ids.next(),
            name,
            Permission(permissions),
            mentionable,
            len(self.roles),
            self.world.bot.id if bot else None,
        )
        self.roles[role.id] = role
        self.world.tell_guild("GUILD_ROLE_CREATE", self, {"role": role.payload()})
        return role

    def change_role(self, role: FakeRole, permissions: Permission) -> None:
        """Give a role other permissions."""
        role.permissions = Permission(permissions)
        self.world.tell_guild("GUILD_ROLE_UPDATE", self, {"role": role.payload()})

    def join(self, person: User, *, roles: Sequence[FakeRole] = (), nick: str | None = None) -> Member:
        """Let a person in, with the roles that they bring; who is here already gets more.

        The bot has no intent to hear of it.
        """
        member = self.members.get(person.id)
        if member is None:
            member = self.members[person.id] = Member(person)
            member.roles += [role for role in self.roles.values() if role.name in person.role_names]
            if person.permissions:
                member.roles.append(self.role(f"{person.name}'s", person.permissions))
        member.roles += [role for role in roles if role not in member.roles]
        member.nick = nick if nick is not None else member.nick
        self.world.changed()
        return member

    def leave(self, person: User) -> None:
        """Let a person go; the bot too can be thrown out."""
        if person is self.world.bot:
            self.world.guilds.pop(self.id, None)
            self.world.tell_bot("GUILD_DELETE", self, {"id": str(self.id)})
            for channel in (*self.channels, *self.threads):
                self.world.channels.pop(channel, None)
            self.members.pop(person.id, None)
            return
        self.members.pop(person.id, None)

    def silence(self, person: User, until: float) -> None:
        """Give somebody a timeout, to a moment in seconds since 1970."""
        self.members[person.id].silenced_until = until

    def emoji(self, name: str) -> Emoji:
        """Add an emoji."""
        emoji = Emoji(self.world.ids.next(), name)
        self.emojis[emoji.id] = emoji
        self.world.emojis[emoji.id] = (self, emoji)
        every = [each.payload() for each in self.emojis.values()]
        self.world.tell_guild("GUILD_EMOJIS_UPDATE", self, {"emojis": every})
        return emoji

    def sticker(
        self,
        name: str,
        description: str = "",
        *,
        tags: str = "wave",
        format: int = 1,  # noqa: A002 - Discord's word
        available: bool = True,
    ) -> Sticker:
        """Add a sticker."""
        sticker = Sticker(self.world.ids.next(), name, description, tags, format, available)
        self.stickers[sticker.id] = sticker
        self._tell_stickers()
        return sticker

    def drop_sticker(self, sticker: Sticker) -> None:
        """Take a sticker away."""
        self.stickers.pop(sticker.id, None)
        self._tell_stickers()

    def _tell_stickers(self) -> None:
        every = [each.payload(self.id) for each in self.stickers.values()]
        self.world.tell_guild("GUILD_STICKERS_UPDATE", self, {"stickers": every})

    # Channels.

    def channel(
        self,
        name: str = "general",
        kind: str = "text",
        *,
        parent: FakeChannel | None = None,
        nsfw: bool = False,
        deny_bot: Permission = NONE,
        deny_everyone: Permission = NONE,
    ) -> FakeChannel:
        """Add a channel: text, voice, category, news or forum."""
        channel = FakeChannel(
            self.world,
            self.world.ids.next(),
            KINDS[kind],
            name,
            self,
            parent,
            nsfw=nsfw,
            position=len(self.channels),
        )
        if deny_bot:
            channel.overwrites[self.world.bot.id] = (NONE, Permission(deny_bot))
        if deny_everyone:
            channel.overwrites[self.id] = (NONE, Permission(deny_everyone))
        self.channels[channel.id] = self.world.channels[channel.id] = channel
        self.world.tell_channel("CHANNEL_CREATE", channel)
        return channel

    def forum(self, name: str = "questions", *, tags: Sequence[str] = ()) -> FakeChannel:
        """Add a forum."""
        forum = self.channel(name, "forum")
        forum.tags = {self.world.ids.next(): tag for tag in tags}
        if tags:
            self.world.tell_channel("CHANNEL_UPDATE", forum)
        return forum

    def thread(
        self,
        parent: FakeChannel,
        name: str = "thread",
        *,
        owner: User | None = None,
        starter: FakeMessage | None = None,
        private: bool = False,
        members: Sequence[User] = (),
    ) -> FakeChannel:
        """Open a thread, at a message of its parent if one is named."""
        owner = owner or (starter.author if starter else self.owner)
        thread = self.open_thread(parent, name, owner=owner, starter=starter, private=private)
        for member in members:
            thread.follow(member)
        return thread

    def open_thread(
        self,
        parent: FakeChannel,
        name: str,
        *,
        owner: User,
        starter: FakeMessage | None = None,
        private: bool = False,
        tags: Sequence[int] = (),
    ) -> FakeChannel:
        """Open a thread as Discord does, with the messages that Discord itself writes about it."""
        kind = PRIVATE_THREAD if private else NEWS_THREAD if parent.type == NEWS else PUBLIC_THREAD
        thread = FakeChannel(
            self.world,
            starter.id if starter else self.world.ids.next(),
            kind,
            name,
            self,
            parent,
            owner=owner,
            applied_tags=list(tags),
        )
        if owner.id in self.members:
            thread.thread_members[owner.id] = time.time()
        self.threads[thread.id] = self.world.channels[thread.id] = thread
        if self.world.sees(thread):
            payload = payloads.channel(thread, self.world) | {"newly_created": True}
            self.world.tell_guild("THREAD_CREATE", self, payload)
        if starter is not None:
            starter.thread = thread
            self.world.tell_message("MESSAGE_UPDATE", starter)
            write(
                self.world, thread, owner, MessageDraft(type=THREAD_STARTER, answers=starter, allowed=SILENT)
            )
        elif not private and not parent.is_forum:
            write(self.world, parent, owner, MessageDraft(content=name, type=THREAD_CREATED))
        self.world.changed()
        return thread

    def vanish(self) -> None:
        """The server breaks down for a while: it is not to be had."""
        self.world.tell_bot("GUILD_DELETE", self, {"id": str(self.id), "unavailable": True})

    def appear(self) -> None:
        """Bring the guild back."""
        self.world.hub.open_guild(self)

    def __repr__(self) -> str:
        return f"<{self.name} {self.id}>"
