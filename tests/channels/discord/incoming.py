"""Messages as the gateway brings them, and what becomes of them."""

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import discord

from pixi.channels.discord.gateway.client import Client
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import DiscordServer
from pixi.channels.discord.incoming.handler import MessageHandler
from pixi.channels.discord.incoming.message import MessageTranslator
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.outgoing.channel import DiscordChannels
from pixi.channels.discord.permissions import Directory
from pixi.channels.discord.places import channel_info
from pixi.core.message import Message
from pixi.core.persona import Persona
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.rest_discord import (
    ANA,
    APPLICATION,
    BOT,
    BOT_ROLE,
    DM,
    GENERAL,
    GUILD,
    HOOK,
    MO,
    MODERATOR,
    RestDiscord,
    guild,
    member_of,
    message_of,
    user,
)
from tests.servers.staged_web import served

PERSONAS = {
    "pixi": Persona(name="Pixi", prompt="", summon=("pancake fox",)),
    "edda": Persona(name="Edda", prompt=""),
}


@dataclass(slots=True)
class Incoming:
    """The parts under test, and the world that they hear of."""

    client: Client
    backend: RecordingBackend
    rest: RestDiscord
    recent: RecentMessages
    reader: MessageTranslator
    directory: Directory
    handler: MessageHandler
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(10_000))

    @property
    def received(self) -> list[Message]:
        """What the service got, in order."""
        return [message for message, _ in self.backend.received]

    @property
    def addressed(self) -> list[Message]:
        """Of it, what a persona is to answer."""
        return [message for message in self.received if message.addressed]

    def written(self, text: str = "", *, by: int = MO, channel: int = GENERAL, **more: Any) -> dict[str, Any]:
        """A message as Discord sends it; `roles` are its author's, `answers` is another such message."""
        roles, answers, webhook = (
            more.pop("roles", []),
            more.pop("answers", None),
            more.pop("webhook", by == HOOK),
        )
        made = message_of(
            next(self._ids),
            channel,
            user(by),
            text,
            mentions=[user(each) for each in (BOT, MO, ANA) if f"<@{each}>" in text],
            mention_roles=[str(each) for each in (MODERATOR, BOT_ROLE) if f"<@&{each}>" in text],
        )
        if channel != DM:
            made["guild_id"] = str(GUILD)
            if not webhook:
                made["member"] = member_of(roles)
        if webhook:
            made |= {"webhook_id": str(by), "application_id": str(APPLICATION)}
        if answers is not None:
            made["type"] = 19
            made["message_reference"] = {"type": 0, "message_id": answers["id"], "channel_id": str(channel)}
            made["referenced_message"] = {
                key: answers[key]
                for key in answers
                if key not in ("guild_id", "member", "referenced_message")
            }
        return made | more

    def sent(self, text: str, seconds_ago: float, *, channel: int = GENERAL, **more: Any) -> dict[str, Any]:
        """A message in a channel's history that was sent so long ago, which the channel knows of."""
        moment = discord.utils.utcnow() - timedelta(seconds=seconds_ago)
        number = discord.utils.time_snowflake(moment) + next(self._ids)
        payload = self.written(text, channel=channel, **more) | {"id": str(number)}
        self.rest.messages.setdefault(channel, []).append(payload)
        place: Any = self.client.get_channel(channel)
        if place is not None:
            place.last_message_id = number
        return payload

    def message(self, payload: Mapping[str, Any]) -> discord.Message:
        """It, as discord.py gives it."""
        state: Any = self.client._connection
        channel, _ = state._get_guild_channel(payload)
        return discord.Message(state=state, channel=channel, data=dict(payload))  # type: ignore[arg-type]

    async def handle(self, payload: Mapping[str, Any]) -> None:
        """The message comes."""
        await self.handler.handle(self.reader.read(self.message(payload)))

    async def edit(self, payload: Mapping[str, Any]) -> None:
        """The message was edited."""
        await self.handler.edited(self.reader.read(self.message(payload)))

    async def delete(self, payload: Mapping[str, Any]) -> None:
        """The message was deleted."""
        await self.handler.deleted(channel_info(self.message(payload).channel), int(payload["id"]))

    async def hear(self, text: str = "", **more: Any) -> dict[str, Any]:
        """Somebody writes; gives the payload."""
        payload = self.written(text, **more)
        await self.handle(payload)
        return payload


@asynccontextmanager
async def incoming(
    *, since: int = 0, backend: RecordingBackend | None = None, **rules: Any
) -> AsyncIterator[Incoming]:
    """A server that the bot was told of; `since` is the id from which messages are this process's."""
    rest, backend = RestDiscord(), backend or RecordingBackend()
    backend.personas = PERSONAS
    backend.obey(**rules)
    client = Client()
    async with served({"/{path:.*}": rest.serve}) as port:
        with patched(DiscordServer(f"http://127.0.0.1:{port}", "ws://127.0.0.1:9")):
            try:
                await client.login("t0ken")
                rest.asked.clear()
                state: Any = client._connection
                state._add_guild_from_data(guild())
                assert client.user is not None
                client._connection.application_id = APPLICATION
                recent = RecentMessages(lambda: backend.rules.overhear)
                reader = MessageTranslator(client.user, lambda: backend.rules)
                channels = DiscordChannels(client, backend, recent)
                handler = MessageHandler(backend, channels, recent, reader, since=since)
                yield Incoming(client, backend, rest, recent, reader, channels.directory, handler)
                await channels.close()
            finally:
                await client.close()
