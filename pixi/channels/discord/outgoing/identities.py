"""The identities of personas on Discord: a webhook with a name and a picture, or the bot's profile."""

import asyncio
import hashlib
import logging
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import discord
from msgspec import Struct

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.formatting import one_line, units
from pixi.channels.discord.permissions import missing_permissions
from pixi.channels.discord.places import channel_label
from pixi.channels.discord.requests import (
    FAULTS,
    TOO_MANY_WEBHOOKS,
    UNREADABLE,
    as_channel_error,
    send_request,
)
from pixi.core.errors import ChannelError
from pixi.core.persona import Persona

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

_LONGEST_NAME = 80
_LONGEST_NICK = 32
_MARK = 6  # hexadecimal digits that tell one picture from another
_MARKED_NAME = _LONGEST_NAME - _MARK - 1  # characters of a name that is followed by them
_LARGEST_PICTURE = 8_000_000  # bytes; Discord takes some more
_FORBIDDEN = {"discord": ("i", "í"), "clyde": ("y", "ý")}
"""Words that no webhook's name may hold, and the letter that is written differently."""

_RESERVED = frozenset(("everyone", "here", "system message"))
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")

_LONGEST_SECONDS = 20.0  # for finding or making one; the persona wants to speak
_EDIT_SECONDS = 5.0  # for giving one another picture; the message waits
_LOOK_AGAIN = 300.0  # seconds until it is looked whether a persona's picture is another one now
_AGAIN_AFTER = 60.0  # seconds until it is tried again where it failed
Parent = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.ForumChannel
"""A channel that can have webhooks."""

_PROFILE_SECONDS = 60.0  # for one change, should Discord make us wait


def name_for_webhook(name: str) -> str:
    """Write a name as a webhook may bear it: 1 to 80 characters, and no word that Discord forbids."""
    name = one_line(name)
    for word, (letter, other) in _FORBIDDEN.items():
        for found in set(re.findall(word, name, flags=re.IGNORECASE)):
            unlike = found.replace(letter, other).replace(letter.upper(), other.upper())
            name = name.replace(found, unlike)
    name = _within(re.sub("```|[@#:]", "", name).strip(), _LONGEST_NAME)
    return f"{name}." if name.casefold() in _RESERVED else name or "Persona"


def webhook_marked(persona: str, picture: bytes | None) -> str:
    """Name a webhook itself: by its persona's file, and by the picture that it was given.

    People see it in a channel's settings only; each message shows the persona's own name.
    """
    name = name_for_webhook(persona)
    if picture is None:
        return name
    return f"{_within(name, _MARKED_NAME)} {hashlib.sha256(picture).hexdigest()[:_MARK]}"


def is_marked_for(name: str, persona: str) -> bool:
    """Return whether a webhook is called for this persona, whichever picture it was given."""
    bare, _, mark = name.rpartition(" ")
    marked = len(mark) == _MARK and set(mark) <= set("0123456789abcdef")
    borne = name_for_webhook(persona)
    return name == borne or (marked and bare == _within(borne, _MARKED_NAME))


def nickname(name: str) -> str:
    """Write a name as a member of a server may bear it: 1 to 32 characters."""
    return _within(one_line(name), _LONGEST_NICK) or "Persona"


def _within(name: str, most: int) -> str:
    while units(name) > most:
        name = name[:-1].rstrip()
    return name


def picture_address(persona: Persona) -> str:
    """Return the address of a persona's picture; "" where it is a file, or where there is none."""
    return persona.avatar if persona.avatar.lower().startswith("https://") else ""


async def picture_file(persona: Persona) -> bytes | None:
    """Read a persona's picture from a file; None, and a line in the log, where there is none for Discord."""
    if not persona.avatar or picture_address(persona):
        return None
    try:
        data = await asyncio.to_thread(_read, Path(persona.avatar))
    except OSError as error:
        _log.warning("the picture of %s cannot be read: %s", one_line(persona.name), error)
        return None
    if len(data) > _LARGEST_PICTURE:
        why = f"it is larger than {_LARGEST_PICTURE // 1_000_000} MB"
    elif not data.startswith(_PICTURES) and not (data[:4] == b"RIFF" and data[8:12] == b"WEBP"):
        why = "it is no PNG, JPEG, GIF or WebP"
    else:
        return data
    _log.warning("the picture of %s is not shown: %s", one_line(persona.name), why)
    return None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_PICTURE + 1)


class WebhookIdentity(Struct, frozen=True):
    """A persona's webhook in a channel or thread, with the name and picture under which it posts."""

    webhook: discord.Webhook
    channel: int
    persona: str
    name: str
    picture: str
    thread: int | None


class Webhooks:
    """The webhooks of one bot: one for each persona and channel; threads use their parent's."""

    def __init__(self, client: discord.Client, backend: BotBackend) -> None:
        self._client = client
        self._backend = backend
        self._found: dict[tuple[int, str], discord.Webhook] = {}  # its name tells which picture it has
        self._owners: dict[int, str] = {}  # personas by their webhooks' ids
        self._looked: dict[int, float] = {}  # when pictures were seen to last, by webhook
        # By the channel that has them, as all below: webhooks are found or made one at a time.
        self._locks: dict[int, asyncio.Lock] = {}
        self._not_before: dict[int, float] = {}  # until when none is tried, as one failed
        self._noted: set[int] = set()  # where the log told that there is none

    async def identity(self, channel: "MessageableChannel", persona: str) -> WebhookIdentity | None:
        """Return the webhook identity of a persona there; None if there is none, which the log tells once."""
        thread = channel.id if isinstance(channel, discord.Thread) else None
        parent = channel.parent if isinstance(channel, discord.Thread) else channel
        shown = self._backend.personas.get(persona)
        if shown is None or not isinstance(parent, Parent):
            return None
        webhook = self._found.get((parent.id, persona))
        if webhook is None:
            async with self._locks.setdefault(parent.id, asyncio.Lock()):
                webhook = self._found.get((parent.id, persona)) or await self._had(parent, persona)
            if webhook is None:
                return None
        elif self._looked.get(webhook.id, 0.0) + _LOOK_AGAIN < time.monotonic():
            before, webhook = webhook, await self._looked_at(webhook, parent, persona)
            if self._found.get((parent.id, persona)) is before:  # it may be lost meanwhile
                self._found[parent.id, persona] = webhook
        name = name_for_webhook(shown.name)
        return WebhookIdentity(webhook, parent.id, persona, name, picture_address(shown), thread)

    def lost(self, identity: WebhookIdentity) -> None:
        """Forget a webhook that is gone: the next time another is made."""
        if self._found.get((identity.channel, identity.persona)) == identity.webhook:
            del self._found[identity.channel, identity.persona]

    def failed(self, identity: WebhookIdentity, channel: "MessageableChannel", error: ChannelError) -> None:
        """Let the bot post there for a while in place of a webhook that fails; the log tells of it once."""
        self.lost(identity)
        self._not_before[identity.channel] = time.monotonic() + _AGAIN_AFTER
        parent = channel.parent if isinstance(channel, discord.Thread) else channel
        if isinstance(parent, Parent):
            self._note(parent, str(error))

    def persona_of(self, webhook: int, application: int, name: str) -> str | None:
        """Return the persona that spoke by a webhook under a name; None where the webhook is none of ours."""
        owner = self._owners.get(webhook)
        if owner is None and (application != self._client.application_id or webhook == application):
            return None  # anybody can make a webhook with a persona's name
        personas = self._backend.personas
        named = [each for each in personas if name_for_webhook(personas[each].name) == name]
        return owner if owner in named or not named else named[0]

    async def _had(self, parent: Parent, persona: str) -> discord.Webhook | None:
        if time.monotonic() < self._not_before.get(parent.id, 0.0):
            return None
        if lacking := missing_permissions(parent, "webhook"):
            self._note(parent, f"the bot lacks {lacking}")
            return None
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                webhook = await self._find_or_make(parent, persona)
        except (*FAULTS, *UNREADABLE) as error:
            self._not_before[parent.id] = time.monotonic() + _AGAIN_AFTER
            self._note(parent, str(as_channel_error(error, "webhook")))
            return None
        self._noted.discard(parent.id)
        self._not_before.pop(parent.id, None)
        self._found[parent.id, persona] = webhook
        self._owners[webhook.id] = persona
        return webhook

    async def _find_or_make(self, parent: Parent, persona: str) -> discord.Webhook:
        picture = await picture_file(self._backend.personas[persona])
        name = webhook_marked(persona, picture)
        ours = [webhook for webhook in await parent.webhooks() if self._is_ours(webhook)]
        for webhook in sorted(ours, key=lambda each: each.name != name):
            if is_marked_for(webhook.name or "", persona):
                return await self._looked_at(webhook, parent, persona)
        try:
            made = await parent.create_webhook(name=name, avatar=picture)
        except discord.HTTPException as error:
            if error.code == TOO_MANY_WEBHOOKS and ours:  # then another's, with the wrong picture
                return ours[0]
            raise
        self._looked[made.id] = time.monotonic()
        return made

    async def _looked_at(self, webhook: discord.Webhook, parent: Parent, persona: str) -> discord.Webhook:
        """Give a webhook its persona's picture, where that is another one than it has."""
        self._looked[webhook.id] = time.monotonic()
        shown, had = self._backend.personas[persona], webhook.name or ""
        picture = await picture_file(shown)
        name = webhook_marked(persona, picture)
        unreadable = picture is None and shown.avatar and not picture_address(shown)
        if name == had or unreadable or not is_marked_for(had, persona):  # it may be another persona's
            return webhook
        try:
            edited = await send_request(
                lambda: webhook.edit(name=name, avatar=picture), "picture", seconds=_EDIT_SECONDS
            )
        except ChannelError as error:
            _log.info("a webhook in %s keeps its picture: %s", channel_label(parent), error)
            return webhook
        return edited if edited.token else webhook  # a server may leave it out

    def _is_ours(self, webhook: discord.Webhook) -> bool:
        me = self._client.user
        by_us = webhook.user is None or (me is not None and webhook.user.id == me.id)
        return by_us and webhook.type is discord.WebhookType.incoming and webhook.token is not None

    def _note(self, parent: Parent, why: str) -> None:
        if parent.id not in self._noted:
            self._noted.add(parent.id)
            _log.warning(
                "no webhook in %s, so personas speak there as the bot: %s", channel_label(parent), why
            )


class Profiles:
    """The persona as which the bot shows in each server. Discord lets it change seldom: never in vain."""

    def __init__(self, client: discord.Client, backend: BotBackend) -> None:
        self._client = client
        self._backend = backend
        self._shown: dict[int, str] = {}  # personas by guild, as far as this process knows

    async def show_as(self, guild: discord.Guild, persona: str) -> None:
        """Take a persona's name and picture in a server. Where that fails, a line in the log says so.

        After a start, whoever has the name is taken to have the picture too, if there is any.
        """
        shown = self._backend.personas.get(persona)
        me: discord.Member | None = guild.me
        if shown is None or me is None or self._shown.get(guild.id) == persona:
            return
        picture = await picture_file(shown)
        name = nickname(shown.name)
        nick = None if name in (me.name, me.global_name) else name
        same_name = me.nick == nick
        has_picture = me.guild_avatar is not None
        if same_name and guild.id not in self._shown and (has_picture or picture is None):
            self._shown[guild.id] = persona
            return
        if picture_address(shown):
            _log.info("%s has no picture there: Discord takes files only", one_line(shown.name))
        change: dict[str, Any] = {} if same_name else {"nick": nick}
        if picture or has_picture:
            change["avatar"] = picture
        try:
            if change:
                await send_request(lambda: me.edit(**change), "profile", seconds=_PROFILE_SECONDS)
        except (ChannelError, ValueError) as error:
            _log.warning("the bot does not show as %s in %s: %s", name, one_line(guild.name), error)
            return
        self._shown[guild.id] = persona
