"""Channels, threads and DMs: what is in them, what people do there, and the webhooks that post there."""

from __future__ import annotations

import secrets
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord import writing
from pixi.testing.discord.calls import Json
from pixi.testing.discord.messages import FakeMessage, FileGiven, Reaction, uploads
from pixi.testing.discord.users import NONE, FakeRole, Permission, User
from pixi.testing.discord.writing import Allowed, MessageDraft

if TYPE_CHECKING:
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.world import World

MOST_PER_CHANNEL = 15
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
        return writing.write(self.world, self.channel, self.face, MessageDraft(text), webhook=self)

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


def new_webhook(world: World, channel: FakeChannel, name: str, owner: User | None) -> Webhook:
    """Make a webhook."""
    hook_id = world.ids.next()
    face = User(hook_id, name, bot=True)
    application = world.application_id if owner is world.bot else None
    hook = Webhook(world, hook_id, secrets.token_urlsafe(48), channel, name, owner, application, face)
    world.webhooks[hook_id] = hook
    return hook


def hooks_of(world: World, channel: FakeChannel) -> list[Webhook]:
    """Return the webhooks of a channel."""
    return [hook for hook in world.webhooks.values() if hook.channel is channel]


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
        writing.joined_thread(self.world, self, user)

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
        return writing.write(self.world, self, person, draft, age=age)

    async def forward(self, person: User, message: FakeMessage) -> FakeMessage:
        """Forward a message to here, as a person."""
        if self.guild is not None and person.id not in self.guild.members:
            self.guild.join(person)
        return writing.write(self.world, self, person, MessageDraft(forwards=message))

    async def system(self, person: User, kind: int = 7, text: str = "") -> FakeMessage:
        """Discord itself writes about somebody: 7 a join, 6 a pin, 8 a boost."""
        return writing.write(self.world, self, person, MessageDraft(content=text, type=kind))

    async def edit(self, message: FakeMessage, text: str) -> None:
        """Let its author edit a message."""
        writing.rewrite(self.world, message, text)

    async def touch(self, message: FakeMessage, embeds: Sequence[Mapping[str, object]] = ()) -> None:
        """Discord adds the preview of a link: an update that nobody wrote."""
        message.embeds = [dict(embed) for embed in embeds]
        self.world.tell_message("MESSAGE_UPDATE", message)
        self.world.changed()

    async def delete(self, *messages: FakeMessage) -> None:
        """Messages are deleted; several at once as a bulk."""
        writing.remove(self.world, *messages)

    async def react(self, person: User, message: FakeMessage, emoji: str) -> None:
        """React with an emoji, as a person."""
        writing.add_reaction(self.world, message, person, Reaction(emoji))

    async def start_typing(self, person: User) -> None:
        """Begin to type, as a person or the bot."""
        self.typings.append(Typing(person, time.monotonic()))
        self.world.changed()

    # Its owners' acts.

    def webhook(self, name: str = "Captain Hook") -> Webhook:
        """Return a webhook that is not the bot's."""
        return new_webhook(self.world, self, name, owner=None)

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
        writing.write(
            self.world, thread, person, MessageDraft(text, files=uploads(attachments)), message_id=thread.id
        )
        return thread

    def __repr__(self) -> str:
        return f"<{'dm' if self.guild is None else '#' + self.name} {self.id}>"
