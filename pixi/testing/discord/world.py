"""The world: who and what goes by which id; how messages come, change and go; and who is told of it."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

from pixi.testing.discord.calls import Json
from pixi.testing.discord.channels import FakeChannel, Webhook
from pixi.testing.discord.commands import Commands
from pixi.testing.discord.guilds import Guild, in_channel
from pixi.testing.discord.ids import Snowflakes
from pixi.testing.discord.messages import (
    EPHEMERAL,
    REPLY,
    Allowed,
    FakeAttachment,
    FakeMessage,
    MessageDraft,
    Pinged,
    Reaction,
    Reference,
    Upload,
    attach,
    without_content,
)
from pixi.testing.discord.users import Emoji, Permission, User

if TYPE_CHECKING:
    from pixi.testing.discord.gateway import Gateway
    from pixi.testing.discord.interactions import Interaction

LIMIT = 60.0
"""Seconds that a wait takes at most: many times what anything takes on a slow, busy machine."""

_USER = re.compile(r"<@!?(\d{1,20})>")
_ROLE = re.compile(r"<@&(\d{1,20})>")
_EVERYBODY = re.compile(r"@(?:everyone|here)\b")


class World:
    """The state behind the sockets.

    Attributes:
        shows_content: the application's owner switched the Message Content Intent on.
        attachment_limit: the largest file, in bytes.
        nonce_seconds: how long a nonce is remembered.
        shows_nonces: histories tell the nonces of messages. Documents promise them for MESSAGE_CREATE alone.
        lean: it leaves out what other servers than Discord do.
        index_waits: how often a search is told that its index is not there yet.
        origin: where the server listens, `http://127.0.0.1:PORT`.
        gateway: who is told of what happens; whoever makes a world gives it one.
        nonces: messages by author and nonce, the oldest first, with when they came on the monotonic clock.
        interactions: by their tokens.
        changes: how many things have happened.
    """

    gateway: Gateway

    def __init__(self, bot: User, token: str, ids: Snowflakes) -> None:
        self.bot = bot
        self.token = token
        self.ids = ids
        self.application_id = bot.id
        self.origin = ""
        self.shows_content = True
        self.attachment_limit = 10 * 1024 * 1024
        self.nonce_seconds = 300.0
        self.shows_nonces = False
        self.lean = False
        self.index_waits = 0
        self.users: dict[int, User] = {bot.id: bot}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, FakeChannel] = {}
        self.dms: dict[int, FakeChannel] = {}
        self.webhooks: dict[int, Webhook] = {}
        self.emojis: dict[int, tuple[Guild, Emoji]] = {}
        self.files: dict[str, FakeAttachment] = {}
        self.nonces: dict[tuple[int, str | int], tuple[float, FakeMessage]] = {}
        self.interactions: dict[str, Interaction] = {}
        self.commands = Commands(ids)
        self.changes = 0
        self._pulse: asyncio.Future[None] | None = None

    @property
    def flags(self) -> int:
        """The flags of the application: which privileged intents its owner switched on."""
        return 1 << 19 if self.shows_content else 0

    # Waiting for a change.

    def changed(self) -> None:
        """Something happened: whoever waits looks again."""
        self.changes += 1
        pulse = self._pulse
        if pulse is not None and not pulse.done():
            pulse.set_result(None)

    async def next_change(self) -> None:
        """Return after the next change."""
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._pulse)

    # Telling the bot.

    def sees(self, channel: FakeChannel) -> bool:
        """Return whether the bot is told what happens there."""
        return bool(in_channel(channel, self.bot) & Permission.VIEW_CHANNEL)

    def tell_guild(self, event: str, guild: Guild, payload: Json) -> None:
        """Something happened to a guild."""
        self.gateway.dispatch(event, {"guild_id": str(guild.id)} | payload, guild.id)

    def tell_channel(self, event: str, channel: FakeChannel) -> None:
        """Something happened to a channel or thread."""
        if channel.guild is not None and (self.sees(channel) or event.endswith("_DELETE")):
            self.gateway.dispatch(event, channel.payload(), channel.guild.id)

    def tell_message(self, event: str, message: FakeMessage) -> None:
        """A message was written or edited."""
        channel = message.channel
        if not self.sees(channel) or message.ephemeral:
            return
        payload = message.event_payload()
        if event == "MESSAGE_CREATE" and message.nonce is not None:
            payload["nonce"] = message.nonce
        if event == "MESSAGE_UPDATE" and self.lean:
            del payload["author"]["id"]
        self.tell_bot(event, channel.guild, payload)

    def tell_bot(self, event: str, guild: Guild | None, payload: Json) -> None:
        """Something happened to the bot, or in a channel that it sees."""
        self.gateway.dispatch(event, payload, guild.id if guild else None)

    def readable(self, message: FakeMessage) -> Json:
        """Return a message as REST gives it to the bot: whoever may not read content gets none."""
        payload = message.payload()
        if self.shows_nonces and message.nonce is not None:
            payload["nonce"] = message.nonce
        if self.shows_content or message.channel.guild is None:
            return payload
        if message.author is self.bot or self.bot in message.pings.users:
            return payload
        return payload if message.application_id else without_content(payload)

    # Messages.

    def write(
        self,
        channel: FakeChannel,
        author: User,
        draft: MessageDraft,
        *,
        webhook: Webhook | None = None,
        name: str | None = None,
        age: float = 0.0,
        message_id: int | None = None,
        interaction: Json | None = None,
        reply_type: int | None = None,
    ) -> FakeMessage:
        """Put a message into a channel and tell the bot of it."""
        answered = draft.answers
        message = FakeMessage(
            id=message_id or self.ids.next(age),
            channel=channel,
            author=author,
            content=draft.content,
            type=reply_type or draft.type or (REPLY if answered else 0),
            flags=draft.flags,
            nonce=draft.nonce,
            embeds=draft.embeds,
            components=draft.components,
            stickers=draft.stickers,
            answered=answered,
            webhook=webhook,
            name=name,
            interaction=interaction,
        )
        message.pings = self._pinged(message, draft.allowed)
        if webhook is not None:
            message.webhook_id = webhook.id
            message.application_id = webhook.application_id
        elif interaction is not None:
            message.webhook_id = message.application_id = self.application_id
        if answered is not None:
            message.reference = _pointing(answered, 0)
        if draft.forwards is not None:
            message.reference = _pointing(draft.forwards, 1)
            message.snapshots = [{"message": draft.forwards.snapshot()}]
        message.attachments = [self.attach(channel, upload) for upload in draft.files]
        if not message.flags & EPHEMERAL:
            channel.keep(message)
            if channel.is_thread:
                self._note_in_thread(channel, author, webhook)
        self.tell_message("MESSAGE_CREATE", message)
        self.changed()
        return message

    def attach(self, channel: FakeChannel, upload: Upload) -> FakeAttachment:
        """Take in a file of a message, to be had by its address."""
        attachment = attach(upload, channel.id, self.ids.next())
        self.files[attachment.path] = attachment
        return attachment

    def rewrite(self, message: FakeMessage, content: str, allowed: Allowed | None = None) -> None:
        """Give a message another text."""
        message.content = content
        message.pings = self._pinged(message, allowed or Allowed())
        message.edited = time.time()
        self.tell_message("MESSAGE_UPDATE", message)
        self.changed()

    def remove(self, *messages: FakeMessage) -> None:
        """Delete messages of one channel; several at once are told as one event."""
        channel = messages[0].channel
        for message in messages:
            channel.forget(message)
            message.deleted = True
        ids = [str(message.id) for message in messages]
        payload: Json = {"channel_id": str(channel.id)} | ({"id": ids[0]} if len(ids) == 1 else {"ids": ids})
        if channel.guild is not None:
            payload["guild_id"] = str(channel.guild.id)
        event = "MESSAGE_DELETE" if len(ids) == 1 else "MESSAGE_DELETE_BULK"
        if self.sees(channel) and not messages[0].ephemeral:
            self.tell_bot(event, channel.guild, payload)
        self.changed()

    def add_reaction(self, message: FakeMessage, user: User, emoji: Reaction) -> None:
        """React as a person; doing so twice changes nothing. The bot has no intent to hear of it."""
        message.by_emoji.setdefault(str(emoji.id or emoji.name), emoji).users[user.id] = user
        self.changed()

    def remember_nonce(self, message: FakeMessage) -> None:
        """Let the same nonce of the same author give this message back from now on."""
        if message.nonce is None:
            return
        now = time.monotonic()
        while self.nonces:  # the oldest stand first
            key, (at, _) = next(iter(self.nonces.items()))
            if now - at < self.nonce_seconds:
                break
            del self.nonces[key]
        self.nonces[message.author.id, message.nonce] = (now, message)

    def made_before(self, author: User, nonce: str | int) -> FakeMessage | None:
        """Return the message that was made with that nonce some minutes ago."""
        at, message = self.nonces.get((author.id, nonce), (float("-inf"), None))
        return message if time.monotonic() - at < self.nonce_seconds else None

    def _pinged(self, message: FakeMessage, allowed: Allowed) -> Pinged:
        """Return who is alerted by a message."""
        found, text, channel, answered = Pinged(), message.content, message.channel, message.answered
        author = message.author
        may_all = message.webhook is not None or bool(
            in_channel(channel, author) & Permission.MENTION_EVERYONE
        )
        if "<@" in text:
            for user_id in dict.fromkeys(map(int, _USER.findall(text))):
                user = self.users.get(user_id)
                if user is not None and ("users" in allowed.parse or user_id in allowed.users):
                    found.users.append(user)
            roles = channel.guild.roles if channel.guild else {}
            for role_id in dict.fromkeys(map(int, _ROLE.findall(text))):
                role = roles.get(role_id)
                if role is None or not (role.mentionable or may_all):
                    continue
                if "roles" in allowed.parse or role_id in allowed.roles:
                    found.roles.append(role_id)
        if answered is not None and allowed.replied_user and answered.webhook is None:
            replied_to = answered.author
            if replied_to is not author and replied_to not in found.users:
                found.users.append(replied_to)
        found.everyone = "everyone" in allowed.parse and may_all and bool(_EVERYBODY.search(text))
        return found

    def _note_in_thread(self, thread: FakeChannel, author: User, webhook: Webhook | None) -> None:
        thread.message_count += 1
        if thread.archived:
            thread.archived = False
            self.tell_channel("THREAD_UPDATE", thread)
        if webhook is None and author.id not in thread.thread_members:
            thread.follow(author)


def _pointing(there: FakeMessage, kind: int) -> Reference:
    guild = there.channel.guild
    return Reference(there.id, there.channel.id, guild.id if guild else None, kind)
