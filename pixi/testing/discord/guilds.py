"""Guilds: how a test furnishes them, and what somebody may do in them and their channels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.calls import Json
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
from pixi.testing.discord.messages import SILENT, THREAD_CREATED, THREAD_STARTER, FakeMessage, MessageDraft
from pixi.testing.discord.users import (
    ALL,
    EVERYONE,
    IN_DIRECT_MESSAGES,
    NEEDS_SENDING,
    NONE,
    Emoji,
    FakeRole,
    Member,
    P,
    Permission,
    Sticker,
    User,
)

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
            payload = thread.payload() | {"newly_created": True}
            self.world.tell_guild("THREAD_CREATE", self, payload)
        if starter is not None:
            starter.thread = thread
            self.world.tell_message("MESSAGE_UPDATE", starter)
            draft = MessageDraft(type=THREAD_STARTER, answers=starter, allowed=SILENT)
            self.world.write(thread, owner, draft)
        elif not private and not parent.is_forum:
            self.world.write(parent, owner, MessageDraft(content=name, type=THREAD_CREATED))
        self.world.changed()
        return thread

    def vanish(self) -> None:
        """The server breaks down for a while: it is not to be had."""
        self.world.tell_bot("GUILD_DELETE", self, {"id": str(self.id), "unavailable": True})

    def appear(self) -> None:
        """Bring the guild back."""
        self.world.gateway.open_guild(self)

    # As clients see it.

    def payload(self) -> Json:
        """Return the client's view, as REST gives it."""
        return {
            "id": str(self.id),
            "name": self.name,
            "owner_id": str(self.owner.id),
            "roles": [role.payload() for role in self.roles.values()],
            "emojis": [emoji.payload() for emoji in self.emojis.values()],
            "stickers": [sticker.payload(self.id) for sticker in self.stickers.values()],
            "features": ["COMMUNITY"],
            "preferred_locale": self.locale,
        }

    def create_payload(self) -> Json:
        """Return the guild as the gateway opens it; of its members the bot alone."""
        bot = self.world.bot
        threads = [each for each in self.threads.values() if not each.archived and in_channel(each, bot)]
        return self.payload() | {
            "member_count": len(self.members),
            "members": [self.bot_member.payload()],
            "channels": [each.payload() for each in self.channels.values()],
            "threads": [each.payload() for each in threads],
        }

    def partial_payload(self) -> Json:
        """Return the guild as it stands in the list of those that the bot is in."""
        told = {"id": str(self.id), "name": self.name, "owner": self.owner is self.world.bot}
        if self.world.lean:
            return told
        return told | {"permissions": str(int(in_guild(self, self.world.bot)))}

    def __repr__(self) -> str:
        return f"<{self.name} {self.id}>"


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
