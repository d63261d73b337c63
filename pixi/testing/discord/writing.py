"""Making of a message: who it mentions, what it holds, and what is wrong with it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord import payloads
from pixi.testing.discord.calls import Json, fault
from pixi.testing.discord.messages import (
    EPHEMERAL,
    REPLY,
    FakeAttachment,
    FakeMessage,
    Pinged,
    Reaction,
    Reference,
    Upload,
    attach,
)
from pixi.testing.discord.users import Permission, in_channel

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel, Webhook
    from pixi.testing.discord.users import User
    from pixi.testing.discord.world import World

_USER = re.compile(r"<@!?(\d{1,20})>")
_ROLE = re.compile(r"<@&(\d{1,20})>")
_EVERYBODY = re.compile(r"@(?:everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The field `allowed_mentions`: kinds that may alert, and single ids."""

    parse: frozenset[str] = frozenset({"users", "roles", "everyone"})
    users: frozenset[int] = frozenset()
    roles: frozenset[int] = frozenset()
    replied_user: bool = True


def pinged(world: World, message: FakeMessage, allowed: Allowed) -> Pinged:
    """Return who is alerted by a message."""
    found, text, channel, answered = Pinged(), message.content, message.channel, message.answered
    author = message.author
    may_all = message.webhook is not None or bool(in_channel(channel, author) & Permission.MENTION_EVERYONE)
    if "<@" in text:
        for user_id in dict.fromkeys(map(int, _USER.findall(text))):
            user = world.users.get(user_id)
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
        one = answered.author
        found.users += [one] if one is not author and one not in found.users else []
    found.everyone = "everyone" in allowed.parse and may_all and bool(_EVERYBODY.search(text))
    return found


SILENT = Allowed(frozenset(), replied_user=False)


@dataclass(slots=True)
class MessageDraft:
    """A message to write. `answers` is the message that it points at as a reply."""

    content: str = ""
    files: list[Upload] = field(default_factory=list)
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    stickers: list[Json] = field(default_factory=list)
    allowed: Allowed = field(default_factory=Allowed)
    answers: FakeMessage | None = None
    forwards: FakeMessage | None = None
    nonce: str | int | None = None
    enforce_nonce: bool = False
    flags: int = 0
    type: int = 0

    def check(self) -> None:
        """Raises `RefusedCall`: there is nothing to be sent."""
        if not (self.content or self.files or self.embeds or self.components or self.stickers):
            raise fault(50006)


def write(
    world: World,
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
        id=message_id or world.ids.next(age),
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
    message.pings = pinged(world, message, draft.allowed)
    if webhook is not None:
        message.webhook_id = webhook.id
        message.application_id = webhook.application_id
    elif interaction is not None:
        message.webhook_id = message.application_id = world.application_id
    if answered is not None:
        message.reference = _pointing(answered, 0)
    if draft.forwards is not None:
        message.reference = _pointing(draft.forwards, 1)
        message.snapshots = [{"message": _snapshot(draft.forwards, world)}]
    message.attachments = [_kept(world, channel, upload) for upload in draft.files]
    if not message.flags & EPHEMERAL:
        channel.keep(message)
        if channel.is_thread:
            _in_thread(world, channel, author, webhook)
    world.tell_message("MESSAGE_CREATE", message)
    world.changed()
    return message


def _pointing(there: FakeMessage, kind: int) -> Reference:
    guild = there.channel.guild
    return Reference(there.id, there.channel.id, guild.id if guild else None, kind)


def _snapshot(one: FakeMessage, world: World) -> Json:
    whole = payloads.message(one, world, nested=True)
    fields = (
        "type", "content", "embeds", "attachments", "timestamp", "edited_timestamp", "flags", "mentions",
        "mention_roles", "sticker_items", "components",
    )  # fmt: skip
    return {name: whole[name] for name in fields if name in whole}


def _kept(world: World, channel: FakeChannel, upload: Upload) -> FakeAttachment:
    attachment = attach(upload, channel.id, world.ids.next())
    world.files[attachment.path] = attachment
    return attachment


def _in_thread(world: World, thread: FakeChannel, author: User, webhook: Webhook | None) -> None:
    thread.message_count += 1
    if thread.archived:
        thread.archived = False
        world.tell_channel("THREAD_UPDATE", thread)
    if webhook is None and author.id not in thread.thread_members:
        thread.follow(author)


def rewrite(world: World, message: FakeMessage, content: str, allowed: Allowed | None = None) -> None:
    """Give a message another text."""
    message.content = content
    message.pings = pinged(world, message, allowed or Allowed())
    message.edited = time.time()
    world.tell_message("MESSAGE_UPDATE", message)
    world.changed()


def remove(world: World, *messages: FakeMessage) -> None:
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
    if world.sees(channel) and not messages[0].ephemeral:
        world.tell_bot(event, channel.guild, payload)
    world.changed()


def add_reaction(world: World, message: FakeMessage, user: User, emoji: Reaction) -> None:
    """React as a person; doing so twice changes nothing. The bot has no intent to hear of it."""
    message.found.setdefault(str(emoji.id or emoji.name), emoji).users[user.id] = user
    world.changed()


def remember_nonce(world: World, message: FakeMessage) -> None:
    """Let the same nonce of the same author give this message back from now on."""
    if message.nonce is None:
        return
    now = time.monotonic()
    while world.nonces:  # the oldest stand first
        key, (at, _) = next(iter(world.nonces.items()))
        if now - at < world.nonce_seconds:
            break
        del world.nonces[key]
    world.nonces[message.author.id, message.nonce] = (now, message)


def made_before(world: World, author: User, nonce: str | int) -> FakeMessage | None:
    """Return the message that was made with that nonce some minutes ago."""
    at, message = world.nonces.get((author.id, nonce), (float("-inf"), None))
    return message if time.monotonic() - at < world.nonce_seconds else None


def joined_thread(world: World, thread: FakeChannel, user: User) -> None:
    """Tell that the bot follows a thread now; of others it has no intent to hear."""
    if thread.guild is None or user is not world.bot:
        return
    if thread.private:
        world.tell_channel("THREAD_CREATE", thread)
    world.tell_guild("THREAD_MEMBER_UPDATE", thread.guild, payloads.thread_member(thread, user))
