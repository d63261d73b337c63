"""Messages: as they are drafted, as they stand in a channel, and as clients see them."""

from __future__ import annotations

import mimetypes
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.calls import Json, fault
from pixi.testing.discord.ids import moment, time_of
from pixi.testing.discord.users import User

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel, Webhook

EPHEMERAL = 1 << 6
REPLY = 19
THREAD_CREATED = 18
THREAD_STARTER = 21
SLASH_REPLY = 20
CONTEXT_MENU_REPLY = 23
WRITTEN = frozenset({0, REPLY, SLASH_REPLY, CONTEXT_MENU_REPLY})
_ANSWERING = frozenset({REPLY, THREAD_STARTER, CONTEXT_MENU_REPLY})
_FORWARDED = (
    "type", "content", "embeds", "attachments", "timestamp", "edited_timestamp", "flags", "mentions",
    "mention_roles", "sticker_items", "components",
)  # fmt: skip
"""Fields that a message tells of one that it forwards."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody adds to a message.

    Attributes:
        type: its content type; "" leaves it to the name.
        claimed_size: the size that the message tells, where it lies.
        status: what asking for the file answers, other than 200.
    """

    name: str
    type: str = ""
    data: bytes = b""
    description: str | None = None
    claimed_size: int | None = None
    status: int = 200


FileGiven = Upload | tuple[str, str, bytes]


def uploads(files: Iterable[FileGiven]) -> list[Upload]:
    """Return files however a test names them."""
    return [one if isinstance(one, Upload) else Upload(*one) for one in files]


@dataclass(eq=False, slots=True)
class FakeAttachment:
    """A file on a message, to be had under `path`."""

    id: int
    upload: Upload
    type: str
    path: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.upload.name

    @property
    def data(self) -> bytes:
        """Return the bytes."""
        return self.upload.data

    def payload(self, origin: str) -> Json:
        """Return the client's view; the address is signed, as Discord's are."""
        signed = f"{origin}{self.path}?ex=7fffffff&is=60000000&hm={self.id:064x}&"
        payload: Json = {
            "id": str(self.id),
            "filename": self.upload.name,
            "size": len(self.data) if self.upload.claimed_size is None else self.upload.claimed_size,
            "url": signed,
            "proxy_url": signed.replace("/attachments/", "/media/attachments/", 1),
            "content_type": self.type,
        }
        if self.upload.description is not None:
            payload["description"] = self.upload.description
        return payload


def attach(upload: Upload, channel_id: int, attachment_id: int) -> FakeAttachment:
    """Take a file in: its name is made safe for an address."""
    name = re.sub(r"[^\w.\-]", "_", upload.name, flags=re.ASCII).strip(".") or "unknown"
    kind = upload.type or mimetypes.guess_type(upload.name)[0] or "application/octet-stream"
    return FakeAttachment(attachment_id, upload, kind, f"/attachments/{channel_id}/{attachment_id}/{name}")


@dataclass(eq=False, slots=True)
class Reaction:
    """An emoji under a message, and who chose it, in their order."""

    name: str
    id: int | None = None
    users: dict[int, User] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The emoji itself, or `:name:`."""
        return f":{self.name}:" if self.id else self.name

    def payload(self, bot: User) -> Json:
        """Return the client's view."""
        emoji: Json = {"id": str(self.id) if self.id else None, "name": self.name}
        return {"emoji": emoji, "count": len(self.users), "me": bot.id in self.users}


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference to a message: `type` 0 answers it, 1 forwards it."""

    message_id: int
    channel_id: int
    guild_id: int | None
    type: int = 0

    def payload(self) -> Json:
        """Return the client's view."""
        payload: Json = {
            "type": self.type,
            "message_id": str(self.message_id),
            "channel_id": str(self.channel_id),
        }
        return payload | {"guild_id": str(self.guild_id)} if self.guild_id else payload


@dataclass(slots=True)
class Pinged:
    """The people who are alerted."""

    users: list[User] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    everyone: bool = False


@dataclass(frozen=True, slots=True)
class Allowed:
    """The field `allowed_mentions`: kinds that may alert, and single ids."""

    parse: frozenset[str] = frozenset({"users", "roles", "everyone"})
    users: frozenset[int] = frozenset()
    roles: frozenset[int] = frozenset()
    replied_user: bool = True


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


@dataclass(eq=False, slots=True)
class FakeMessage:
    """A message.

    Attributes:
        at: when it came, on the monotonic clock.
        pings: who was alerted by it.
        by_emoji: reactions by the id of a guild's emoji, or by the emoji itself.
        name: what a webhook showed for this one message.
        webhook: who wrote it, where that is a webhook.
        deleted: it is gone.
    """

    id: int
    channel: FakeChannel
    author: User
    content: str
    type: int = 0
    flags: int = 0
    at: float = field(default_factory=time.monotonic)
    edited: float | None = None
    nonce: str | int | None = None
    pings: Pinged = field(default_factory=Pinged)
    attachments: list[FakeAttachment] = field(default_factory=list)
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    stickers: list[Json] = field(default_factory=list)
    by_emoji: dict[str, Reaction] = field(default_factory=dict)
    reference: Reference | None = None
    answered: FakeMessage | None = None
    snapshots: list[Json] = field(default_factory=list)
    webhook: Webhook | None = None
    webhook_id: int | None = None
    name: str | None = None
    application_id: int | None = None
    interaction: Json | None = None
    thread: FakeChannel | None = None
    deleted: bool = False

    @property
    def shown(self) -> str:
        """The name under which it stands."""
        if self.name is not None:
            return self.name
        return self.author.display or self.author.name

    @property
    def created(self) -> float:
        """Return when it was written, in seconds since 1970."""
        return time_of(self.id)

    @property
    def ephemeral(self) -> bool:
        """True if only one person sees it."""
        return bool(self.flags & EPHEMERAL)

    @property
    def pinged(self) -> frozenset[int | str]:
        """Ids of the people and roles that were alerted, and "everyone"."""
        everyone = ("everyone",) if self.pings.everyone else ()
        return frozenset((*(user.id for user in self.pings.users), *self.pings.roles, *everyone))

    @property
    def reactions(self) -> dict[str, list[User]]:
        """Return who reacted with what: the emoji, or `:name:`."""
        return {reaction.text: list(reaction.users.values()) for reaction in self.by_emoji.values()}

    @property
    def buttons(self) -> dict[str, str]:
        """The names by which the buttons that can be pressed go, by their labels."""
        parts = [part for row in self.components for part in row.get("components", ())]
        pressable = (part for part in parts if part.get("type") == 2 and not part.get("disabled"))
        return {part["label"]: part["custom_id"] for part in pressable if "custom_id" in part}

    @property
    def link(self) -> str:
        """Its address in Discord's client."""
        guild = self.channel.guild
        return f"https://discord.com/channels/{guild.id if guild else '@me'}/{self.channel.id}/{self.id}"

    def payload(self, *, nested: bool = False) -> Json:
        """Return the client's view, as REST gives it; `nested` in another message, it tells of no third."""
        world = self.channel.world
        payload: Json = {
            "id": str(self.id),
            "channel_id": str(self.channel.id),
            "type": self.type,
            "content": self.content,
            "author": self._author_payload(),
            "timestamp": moment(self.created),
            "edited_timestamp": moment(self.edited) if self.edited else None,
            "tts": False,
            "mention_everyone": self.pings.everyone,
            "mentions": [self._mentioned(user) for user in self.pings.users],
            "mention_roles": [str(role) for role in self.pings.roles],
            "attachments": [each.payload(world.origin) for each in self.attachments],
            "embeds": self.embeds,
            "components": self.components,
            "pinned": any(self is pinned for pinned, _ in self.channel.pins),
            "flags": self.flags | (1 << 5 if self.thread else 0),
        }
        if self.by_emoji:
            payload["reactions"] = [reaction.payload(world.bot) for reaction in self.by_emoji.values()]
        if self.stickers:
            payload["sticker_items"] = self.stickers
        if self.webhook_id is not None:
            payload["webhook_id"] = str(self.webhook_id)
        if self.application_id is not None:
            payload["application_id"] = str(self.application_id)
        if self.interaction is not None:
            payload["interaction_metadata"] = self.interaction
        if self.reference is not None:
            payload["message_reference"] = self.reference.payload()
        if self.snapshots:
            payload["message_snapshots"] = self.snapshots
        if self.type in _ANSWERING and self.reference is not None and not nested:
            there = self.answered if self.answered and not self.answered.deleted else None
            payload["referenced_message"] = there.payload(nested=True) if there else None
        if self.thread is not None and not nested:
            payload["thread"] = self.thread.payload()
        return _lean(payload) if world.lean else payload

    def event_payload(self) -> Json:
        """Return the message as the gateway gives it: it tells the guild and the author's membership too."""
        payload, guild = self.payload(), self.channel.guild
        if guild is not None:
            payload["guild_id"] = str(guild.id)
            member = guild.members.get(self.author.id)
            if member is not None and self.webhook is None:
                payload["member"] = member.payload(user=False, lean=self.channel.world.lean)
        payload["channel_type"] = self.channel.type
        return payload

    def snapshot(self) -> Json:
        """Return what a message tells that forwards this one."""
        whole = self.payload(nested=True)
        return {name: whole[name] for name in _FORWARDED if name in whole}

    def _author_payload(self) -> Json:
        """Return who wrote it: a webhook is shown as it called itself."""
        if self.webhook is None:
            return self.author.payload()
        name = self.name if self.name is not None else self.webhook.name
        return self.author.payload() | {"username": name, "global_name": None}

    def _mentioned(self, user: User) -> Json:
        guild = self.channel.guild
        member = guild.members.get(user.id) if guild else None
        payload = user.payload()
        return payload | {"member": member.payload(user=False)} if member else payload

    async def edit(self, text: str) -> None:
        """Let its author edit it."""
        await self.channel.edit(self, text)

    async def delete(self) -> None:
        """Delete the message."""
        await self.channel.delete(self)

    async def react(self, person: User, emoji: str) -> None:
        """React to it as a person: with an emoji, or `:name:` of the guild's."""
        await self.channel.react(person, self, emoji)

    def __repr__(self) -> str:
        return f"<{self.shown}: {self.content!r}>"


def _lean(payload: Json) -> Json:
    """Return a message as a server gives it that only speaks like Discord."""
    payload.setdefault("thread", None)
    payload["interaction"] = payload["poll"] = None
    if found := payload.get("reactions"):
        payload["reactions"] = [{"count": each["count"], "emoji": each["emoji"]} for each in found]
    return payload


def without_content(payload: Json) -> Json:
    """Return a message for an application that may not read what people write."""
    nothing: Json = {"content": "", "embeds": [], "attachments": [], "components": []}
    bare = payload | nothing
    bare.pop("message_snapshots", None)
    if answered := payload.get("referenced_message"):
        bare["referenced_message"] = answered | nothing
    return bare
