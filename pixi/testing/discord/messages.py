"""Messages, and what hangs on them."""

from __future__ import annotations

import mimetypes
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.calls import Json
from pixi.testing.discord.ids import time_of

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel, Webhook
    from pixi.testing.discord.users import User

EPHEMERAL = 1 << 6
REPLY = 19
THREAD_CREATED = 18
THREAD_STARTER = 21
SLASH_REPLY = 20
CONTEXT_MENU_REPLY = 23
WRITTEN = frozenset({0, REPLY, SLASH_REPLY, CONTEXT_MENU_REPLY})


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


@dataclass(eq=False, slots=True)
class FakeMessage:
    """A message.

    Attributes:
        at: when it came, on the monotonic clock.
        pings: who was alerted by it.
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
    found: dict[str, Reaction] = field(default_factory=dict)
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
        return {reaction.text: list(reaction.users.values()) for reaction in self.found.values()}

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
