"""Channels, threads and DMs: what is in them, what people do there, and the webhooks that post there."""

from __future__ import annotations

import secrets
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.calls import Json
from pixi.testing.discord.ids import moment, time_of
from pixi.testing.discord.messages import Allowed, FakeMessage, FileGiven, MessageDraft, Reaction, uploads
from pixi.testing.discord.users import NONE, FakeRole, Permission, User

if TYPE_CHECKING:
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.world import World

MOST_WEBHOOKS = 15
"""Webhooks that one channel may have."""

TEXT, DM, VOICE, CATEGORY, NEWS, FORUM = 0, 1, 2, 4, 5, 15
NEWS_THREAD, PUBLIC_THREAD, PRIVATE_THREAD = 10, 11, 12
THREADS = frozenset({NEWS_THREAD, PUBLIC_THREAD, PRIVATE_THREAD})
WRITABLE = frozenset({TEXT, DM, VOICE, NEWS, *THREADS})


@dataclass(eq=False, slots=True)
class Webhook:
    """A webhook of a channel. `owner` made it; `application_id` is set where that is the bot.

    `face` is the author of what comes through it.
    """

    world: World
    id: int
    token: str
    channel: FakeChannel
    name: str
    owner: User | None
    application_id: int | None
    face: User
    avatar: str | None = None

    async def say(self, text: str) -> FakeMessage:
        """Something comes through it."""
        return self.world.write(self.channel, self.face, MessageDraft(text), webhook=self)

    def delete(self) -> None:
        """Take the webhook away."""
        self.world.webhooks.pop(self.id, None)

    def payload(self) -> Json:
        """Return the client's view; the token of another application's is not told."""
        payload: Json = {
            "id": str(self.id),
            "type": 1,
            "guild_id": str(self.channel.guild.id) if self.channel.guild else None,
            "channel_id": str(self.channel.id),
            "name": self.name,
            "avatar": self.avatar,
            "application_id": str(self.application_id) if self.application_id else None,
        }
        if self.owner:
            payload["user"] = self.owner.payload()
        if self.application_id in {None, self.world.application_id}:
            payload["token"] = self.token
        return payload


@dataclass(frozen=True, slots=True)
class Typing:
    """Somebody began to type; `at` is on the monotonic clock."""

    user: User
    at: float


@dataclass(eq=False)
class FakeChannel:
    """A channel of a guild, a thread (its `parent` is a channel or a forum), or a DM.

    Attributes:
        typings: every typing signal that came, in their order.
        deleted: messages that are gone.
        tags: of a forum, by id.
        pins: pinned messages, and when that was, in seconds since 1970.
    """

    world: World
    id: int
    type: int
    name: str = ""
    guild: Guild | None = None
    parent: FakeChannel | None = None
    recipients: tuple[User, ...] = ()
    overwrites: dict[int, tuple[Permission, Permission]] = field(default_factory=dict)
    nsfw: bool = False
    position: int = 0
    tags: dict[int, str] = field(default_factory=dict)
    applied_tags: list[int] = field(default_factory=list)
    owner: User | None = None
    archived: bool = False
    locked: bool = False
    started_by_message: bool = False
    message_count: int = 0
    thread_members: dict[int, float] = field(default_factory=dict)
    typings: list[Typing] = field(default_factory=list)
    deleted: list[FakeMessage] = field(default_factory=list)
    gone: bool = False
    pins: list[tuple[FakeMessage, float]] = field(default_factory=list)
    _messages: dict[int, FakeMessage] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)

    @property
    def is_thread(self) -> bool:
        """Return whether it is a thread, or a post of a forum."""
        return self.type in THREADS

    @property
    def is_forum(self) -> bool:
        """Return whether it holds posts instead of messages."""
        return self.type == FORUM

    @property
    def private(self) -> bool:
        """Return whether only who was added sees the thread."""
        return self.type == PRIVATE_THREAD

    @property
    def mention(self) -> str:
        """Return what is written to mention it."""
        return f"<#{self.id}>"

    @property
    def last_message_id(self) -> int:
        """Id of the newest message; 0: there is none."""
        return self._order[-1] if self._order else 0

    # Looking.

    @property
    def messages(self) -> list[FakeMessage]:
        """Return those that can be read now, oldest first."""
        return [self._messages[each] for each in self._order]

    @property
    def texts(self) -> list[str]:
        """Return what the bot said here, webhooks and all, oldest first."""
        mine = self.world.bot, self.world.application_id
        return [
            each.content for each in self.messages if each.author is mine[0] or each.application_id == mine[1]
        ]

    def find(self, message_id: int) -> FakeMessage | None:
        """Return a message by its id."""
        return self._messages.get(message_id)

    def page(
        self, limit: int, *, before: int | None = None, after: int | None = None, around: int | None = None
    ) -> list[FakeMessage]:
        """Return a stretch of messages, newest first, as Discord cuts it."""
        order = self._order
        if around is not None:
            middle = bisect_left(order, around)
            start = max(0, middle - limit // 2)
            chosen = order[start : start + limit]
        elif after is not None:
            start = bisect_right(order, after)
            chosen = order[start : start + limit]
        else:
            end = len(order) if before is None else bisect_left(order, before)
            chosen = order[max(0, end - limit) : end]
        return [self._messages[each] for each in reversed(chosen)]

    # Keeping.

    def keep(self, message: FakeMessage) -> None:
        """Put a message where its id belongs."""
        self._messages[message.id] = message
        if self._order and message.id < self._order[-1]:
            insort(self._order, message.id)
        else:
            self._order.append(message.id)

    def forget(self, message: FakeMessage) -> None:
        """Take a message out."""
        if self._messages.pop(message.id, None) is None:
            return
        del self._order[bisect_left(self._order, message.id)]
        self.deleted.append(message)

    def follow(self, user: User) -> None:
        """Let a person follow the thread from now on."""
        self.thread_members[user.id] = time.time()
        if self.guild is None or user is not self.world.bot:
            return  # of others the bot has no intent to hear
        if self.private:
            self.world.tell_channel("THREAD_CREATE", self)
        self.world.tell_guild("THREAD_MEMBER_UPDATE", self.guild, self.member_payload(user))

    # People's acts.

    async def say(
        self,
        person: User,
        text: str = "",
        *,
        reply_to: FakeMessage | None = None,
        ping: bool = True,
        attachments: Sequence[FileGiven] = (),
        embeds: Sequence[Mapping[str, object]] = (),
        stickers: Sequence[str] = (),
        age: float = 0.0,
    ) -> FakeMessage:
        """Write as a person. Who is mentioned follows from `<@id>` in the text; `ping`: replies alert too.

        Args:
            attachments: `Upload`s, or (name, content type, bytes).
            stickers: names.
            age: the message is that many seconds old.
        """
        if self.guild is not None and person.id not in self.guild.members:
            self.guild.join(person)
        draft = MessageDraft(
            content=text,
            files=uploads(attachments),
            embeds=[dict(embed) for embed in embeds],
            stickers=[
                {"id": str(self.world.ids.next()), "name": name, "format_type": 1} for name in stickers
            ],
            answers=reply_to,
            allowed=Allowed(replied_user=ping),
        )
        return self.world.write(self, person, draft, age=age)

    async def forward(self, person: User, message: FakeMessage) -> FakeMessage:
        """Forward a message to here, as a person."""
        if self.guild is not None and person.id not in self.guild.members:
            self.guild.join(person)
        return self.world.write(self, person, MessageDraft(forwards=message))

    async def system(self, person: User, kind: int = 7, text: str = "") -> FakeMessage:
        """Discord itself writes about somebody: 7 a join, 6 a pin, 8 a boost."""
        return self.world.write(self, person, MessageDraft(content=text, type=kind))

    async def edit(self, message: FakeMessage, text: str) -> None:
        """Let its author edit a message."""
        self.world.rewrite(message, text)

    async def touch(self, message: FakeMessage, embeds: Sequence[Mapping[str, object]] = ()) -> None:
        """Discord adds the preview of a link: an update that nobody wrote."""
        message.embeds = [dict(embed) for embed in embeds]
        self.world.tell_message("MESSAGE_UPDATE", message)
        self.world.changed()

    async def delete(self, *messages: FakeMessage) -> None:
        """Messages are deleted; several at once as a bulk."""
        self.world.remove(*messages)

    async def react(self, person: User, message: FakeMessage, emoji: str) -> None:
        """React with an emoji, as a person."""
        self.world.add_reaction(message, person, Reaction(emoji))

    async def start_typing(self, person: User) -> None:
        """Begin to type, as a person or the bot."""
        self.typings.append(Typing(person, time.monotonic()))
        self.world.changed()

    # Its owners' acts.

    def webhook(self, name: str = "Captain Hook") -> Webhook:
        """Return a webhook that is not the bot's."""
        return self.new_webhook(name, owner=None)

    @property
    def webhooks(self) -> list[Webhook]:
        """Return the webhooks that post here."""
        return [hook for hook in self.world.webhooks.values() if hook.channel is self]

    def new_webhook(self, name: str, owner: User | None) -> Webhook:
        """Make a webhook, which belongs to the bot's application where the bot makes it."""
        world = self.world
        hook_id = world.ids.next()
        application = world.application_id if owner is world.bot else None
        face = User(hook_id, name, bot=True)
        hook = Webhook(world, hook_id, secrets.token_urlsafe(48), self, name, owner, application, face)
        world.webhooks[hook_id] = hook
        return hook

    def overwrite(
        self, target: User | FakeRole, *, allow: Permission = NONE, deny: Permission = NONE
    ) -> None:
        """Allow and deny somebody something here; nothing of both: take the overwrite away."""
        saw = self.world.sees(self)
        if allow or deny:
            self.overwrites[target.id] = (Permission(allow), Permission(deny))
        else:
            self.overwrites.pop(target.id, None)
        if saw or self.world.sees(self):
            self.world.tell_channel("CHANNEL_UPDATE", self)

    def update(self, *, archived: bool | None = None, locked: bool | None = None, name: str = "") -> None:
        """Rename a channel or thread; archive, lock or open a thread."""
        self.name = name or self.name
        self.archived = self.archived if archived is None else archived
        self.locked = self.locked if locked is None else locked
        self.world.tell_channel("THREAD_UPDATE" if self.is_thread else "CHANNEL_UPDATE", self)
        self.world.changed()

    def pin(self, message: FakeMessage) -> None:
        """Pin a message."""
        self.pins.append((message, time.time()))

    def vanish(self) -> None:
        """Delete the channel with all that is in it."""
        self.gone = True
        self.world.channels.pop(self.id, None)
        if self.guild is not None:
            self.guild.channels.pop(self.id, None)
            self.guild.threads.pop(self.id, None)
            for thread in [each for each in self.guild.threads.values() if each.parent is self]:
                thread.vanish()
        self.world.tell_channel("THREAD_DELETE" if self.is_thread else "CHANNEL_DELETE", self)
        self.world.changed()

    async def post(
        self,
        person: User,
        title: str,
        text: str,
        *,
        tags: Sequence[str] = (),
        attachments: Sequence[FileGiven] = (),
    ) -> FakeChannel:
        """Post in a forum, as a person; the post is a thread, whose first message has its id."""
        if self.guild is None or not self.is_forum:
            raise ValueError(f"{self.name} is no forum.")
        self.guild.join(person)
        thread = self.guild.open_thread(
            self, title, owner=person, tags=[key for key, name in self.tags.items() if name in tags]
        )
        thread.started_by_message = True
        draft = MessageDraft(text, files=uploads(attachments))
        self.world.write(thread, person, draft, message_id=thread.id)
        return thread

    # As clients see it.

    def payload(self) -> Json:
        """Return the client's view of a channel, thread or DM."""
        payload: Json = {
            "id": str(self.id),
            "type": self.type,
            "last_message_id": str(self.last_message_id) if self.last_message_id else None,
            "flags": 0,
        }
        if self.guild is None:
            others = [user.payload() for user in self.recipients if user is not self.world.bot]
            return payload | {"recipients": others}
        payload |= {
            "guild_id": str(self.guild.id),
            "name": self.name,
            "parent_id": str(self.parent.id) if self.parent else None,
        }
        if self.is_thread:
            return payload | self._thread_payload()
        payload |= {
            "position": self.position,
            "permission_overwrites": [
                {
                    "id": str(target),
                    "type": 0 if target in self.guild.roles else 1,
                    "allow": str(int(allow)),
                    "deny": str(int(deny)),
                }
                for target, (allow, deny) in self.overwrites.items()
            ],
            "nsfw": self.nsfw,
        }
        if self.type == VOICE:
            payload |= {"bitrate": 64_000, "user_limit": 0}
        if self.is_forum:
            payload["available_tags"] = [
                {"id": str(tag_id), "name": name, "moderated": False, "emoji_id": None, "emoji_name": None}
                for tag_id, name in self.tags.items()
            ]
        return payload

    def _thread_payload(self) -> Json:
        bot = self.world.bot
        payload: Json = {
            "owner_id": str(self.owner.id if self.owner else bot.id),
            "message_count": max(0, self.message_count - self.started_by_message),
            "member_count": len(self.thread_members),
            "applied_tags": [str(tag) for tag in self.applied_tags],
            "thread_metadata": {
                "archived": self.archived,
                "auto_archive_duration": 1440,
                "archive_timestamp": moment(time_of(self.id)),
                "locked": self.locked,
            },
        }
        if bot.id in self.thread_members:
            payload["member"] = self.member_payload(bot)
        return payload

    def member_payload(self, user: User) -> Json:
        """Tell that somebody follows the thread."""
        return {
            "id": str(self.id),
            "user_id": str(user.id),
            "join_timestamp": moment(self.thread_members.get(user.id, time.time())),
            "flags": 1,
        }

    def __repr__(self) -> str:
        return f"<{'dm' if self.guild is None else '#' + self.name} {self.id}>"
