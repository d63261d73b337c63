"""Webhooks, by which each persona speaks under its own name and picture: found again, or made."""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.outgoing import rest
from pixi.channels.discord.outgoing.names import (
    is_marked_for,
    name_for_webhook,
    picture_address,
    picture_file,
    webhook_marked,
)
from pixi.channels.discord.requests import (
    FAULTS,
    TOO_MANY_WEBHOOKS,
    UNREADABLE,
    as_channel_error,
    channel_label,
    missing_permissions,
    send_request,
)
from pixi.core.errors import ChannelError

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

_LONGEST_SECONDS = 20.0  # for finding or making one; the persona wants to speak
_EDIT_SECONDS = 5.0  # for giving one another picture; the message waits
_LOOK_AGAIN = 300.0  # seconds until it is looked whether a persona's picture is another one now
_AGAIN_AFTER = 60.0  # seconds until it is tried again where it failed

Parent = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.ForumChannel
"""What can have webhooks."""


@dataclass(frozen=True, slots=True)
class WebhookIdentity:
    """A persona's webhook in a channel or thread, ready to be spoken through."""

    webhook: discord.Webhook
    channel: int
    persona: str
    name: str
    picture: str
    thread: int | None

    async def post(self, content: rest.MessageContent, mentions: discord.AllowedMentions) -> int:
        """Post a message; gives its id, 0 where nobody tells. Webhooks know neither nonces nor replies.

        Raises:
            DiscordException, aiohttp.ClientError, OSError: it was refused, or its fate is not known.
        """
        return await rest.post_by_webhook(
            self.webhook,
            content,
            name=self.name,
            picture=self.picture,
            mentions=mentions,
            thread=self.thread,
        )


class Webhooks:
    """Those of one bot: one for each persona and channel; threads use their parent's."""

    def __init__(self, client: discord.Client, backend: BotBackend) -> None:
        self._client = client
        self._backend = backend
        self._found: dict[tuple[int, str], discord.Webhook] = {}
        self._owners: dict[int, str] = {}  # personas by their webhooks' ids
        self._names: dict[int, str] = {}  # what they are called, by id; it tells which picture they have
        self._looked: dict[int, float] = {}  # when that was seen to last
        self._locks: dict[int, asyncio.Lock] = {}
        self._not_before: dict[int, float] = {}
        self._noted: set[int] = set()

    async def mask(self, channel: "MessageableChannel", persona: str) -> WebhookIdentity | None:
        """How a persona speaks there by a webhook; None where it cannot, of which the log tells once."""
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
            await self._look(webhook, parent, persona)
        name = name_for_webhook(shown.name)
        return WebhookIdentity(webhook, parent.id, persona, name, picture_address(shown), thread)

    def lost(self, mask: WebhookIdentity) -> None:
        """The webhook is gone: the next time another is made."""
        if self._found.get((mask.channel, mask.persona)) is mask.webhook:
            del self._found[mask.channel, mask.persona]

    def failed(self, mask: WebhookIdentity, channel: "MessageableChannel", error: ChannelError) -> None:
        """Speak as the bot there for a while: the webhook posts nothing, of which the log tells once."""
        self.lost(mask)
        self._not_before[mask.channel] = time.monotonic() + _AGAIN_AFTER
        parent = channel.parent if isinstance(channel, discord.Thread) else channel
        if isinstance(parent, Parent):
            self._note(parent, str(error))

    def persona_of(self, webhook: int, application: int, name: str) -> str | None:
        """The persona that spoke by a webhook under a name; None where the webhook is none of ours."""
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
                self._names[webhook.id] = webhook.name or ""
                await self._look(webhook, parent, persona)
                return webhook
        try:
            made = await parent.create_webhook(name=name, avatar=picture)
        except discord.HTTPException as error:
            if error.code == TOO_MANY_WEBHOOKS and ours:  # then another's, with the wrong picture
                return ours[0]
            raise
        self._names[made.id], self._looked[made.id] = name, time.monotonic()
        return made

    async def _look(self, webhook: discord.Webhook, parent: Parent, persona: str) -> None:
        """Give a webhook its persona's picture, where that is another one than it has."""
        self._looked[webhook.id] = time.monotonic()
        had = self._names.get(webhook.id)
        if had is None or not is_marked_for(had, persona):
            return  # it is another persona's
        shown = self._backend.personas[persona]
        picture = await picture_file(shown)
        name = webhook_marked(persona, picture)
        unreadable = picture is None and shown.avatar and not picture_address(shown)
        if name == had or unreadable:
            return
        try:
            await send_request(
                lambda: webhook.edit(name=name, avatar=picture), "picture", seconds=_EDIT_SECONDS
            )
            self._names[webhook.id] = name
        except ChannelError as error:
            _log.info("a webhook in %s keeps its picture: %s", channel_label(parent), error)

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
