"""The world: who and what goes by which id, who is told of a change, and who waits for one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pixi.testing.discord import gateway, payloads
from pixi.testing.discord.calls import Json
from pixi.testing.discord.ids import Snowflakes
from pixi.testing.discord.users import Permission, in_channel

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel, Webhook
    from pixi.testing.discord.commands import Commands
    from pixi.testing.discord.gateway import Gateway
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.hub import Hub
    from pixi.testing.discord.interactions import Interaction
    from pixi.testing.discord.messages import FakeAttachment, FakeMessage
    from pixi.testing.discord.users import Emoji, User

LIMIT = 60.0
"""Seconds that a wait takes at most: many times what anything takes on a slow, busy machine."""


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
        changes: how many things have happened.
    """

    hub: Hub
    gateway: Gateway
    commands: Commands

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
        self.hub.dispatch(event, {"guild_id": str(guild.id)} | payload, guild.id)

    def tell_channel(self, event: str, channel: FakeChannel) -> None:
        """Something happened to a channel or thread."""
        if channel.guild is not None and (self.sees(channel) or event.endswith("_DELETE")):
            self.hub.dispatch(event, payloads.channel(channel, self), channel.guild.id)

    def tell_message(self, event: str, message: FakeMessage) -> None:
        """A message was written or edited."""
        channel = message.channel
        if not self.sees(channel) or message.ephemeral:
            return
        payload = payloads.message_event(message, self, nonce=event == "MESSAGE_CREATE")
        if self.lean and event == "MESSAGE_UPDATE":
            payload = gateway.updated(payload)
        self.tell_bot(event, channel.guild, payload)

    def tell_bot(self, event: str, guild: Guild | None, payload: Json) -> None:
        """Something happened to the bot, or in a channel that it sees."""
        self.hub.dispatch(event, payload, guild.id if guild else None)

    def readable(self, message: FakeMessage, payload: Json) -> Json:
        """Return a message as REST gives it to the bot: whoever may not read content gets none."""
        if self.shows_nonces and message.nonce is not None:
            payload["nonce"] = message.nonce
        if self.shows_content or message.channel.guild is None:
            return payload
        if message.author is self.bot or self.bot in message.pings.users:
            return payload
        return payload if message.application_id else payloads.without_content(payload)
