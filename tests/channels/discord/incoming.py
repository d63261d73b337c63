"""Messages as the gateway brings them, and what becomes of them."""

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import discord
from aiohttp import web

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
from tests.servers.staged_web import served

BOT, GUILD, MO, ANA, ROBOT, HOOK = 900, 100, 11, 12, 13, 14
CATEGORY, GENERAL, FORUM, THREAD, POST, DM = 199, 200, 203, 5_000, 5_001, 300
MODERATOR, BOT_ROLE, APPLICATION = 150, 151, 901

PERSONAS = {
    "pixi": Persona(name="Pixi", prompt="", summon=("pancake fox",)),
    "edda": Persona(name="Edda", prompt=""),
}
_NAMES = {BOT: "Bot", MO: "Mo", ANA: "Ana", ROBOT: "Robot", HOOK: "Edda"}


@dataclass(slots=True)
class Rest:
    """What the REST API answers: messages by channel, members' roles by user."""

    history: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    roles: dict[int, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: bool = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path == "/users/@me":
            return web.json_response(user(BOT))
        if self.broken:
            return web.json_response({"code": 50001, "message": "Missing Access"}, status=403)
        match request.path.strip("/").split("/"):
            case ["channels", channel, "messages"]:
                before = int(request.query.get("before", 2**63))
                found = [each for each in self.history.get(int(channel), []) if int(each["id"]) < before]
                return web.json_response(found[-int(request.query["limit"]) :][::-1])
            case ["channels", channel, "messages", wanted]:
                found = [each for each in self.history.get(int(channel), []) if each["id"] == wanted]
                if found:
                    return web.json_response(found[0])
            case ["channels", channel] if int(channel) == DM:
                return web.json_response({"id": channel, "type": 1, "recipients": [user(MO)]})
            case ["guilds", _, "members", member] if int(member) in self.roles:
                return web.json_response({**member_of(self.roles[int(member)]), "user": user(int(member))})
        return web.json_response({"code": 10008, "message": "Unknown"}, status=404)


@dataclass(slots=True)
class Incoming:
    """The parts under test, and the world that they hear of."""

    client: Client
    backend: RecordingBackend
    rest: Rest
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
        self.rest.history.setdefault(channel, []).append(payload)
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


def message_of(number: int, channel: int, author: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    """A message as Discord sends it."""
    made: dict[str, Any] = {
        "id": str(number),
        "channel_id": str(channel),
        "author": author,
        "content": text,
        "timestamp": "2026-01-01T00:00:00+00:00",
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "pinned": False,
        "type": 0,
    }
    return made | more


def user(number: int) -> dict[str, Any]:
    named = _NAMES.get(number, f"user{number}")
    robot = number in (BOT, ROBOT, HOOK)
    return {"id": str(number), "username": named, "discriminator": "0", "avatar": None, "bot": robot}


def member_of(roles: list[int], **more: Any) -> dict[str, Any]:
    joined = "2026-01-01T00:00:00+00:00"
    return {
        "roles": [str(each) for each in roles],
        "joined_at": joined,
        "deaf": False,
        "mute": False,
        "flags": 0,
    } | more


def _role(number: int, name: str, **more: Any) -> dict[str, Any]:
    base = {"id": str(number), "name": name, "permissions": "0", "position": 0, "color": 0}
    return base | {"hoist": False, "managed": False, "mentionable": True, "flags": 0} | more


def _place(number: int, kind: int, name: str, **more: Any) -> dict[str, Any]:
    base = {"id": str(number), "type": kind, "name": name, "position": 0}
    return base | {"permission_overwrites": [], "nsfw": False, "parent_id": str(CATEGORY)} | more


def _thread(number: int, name: str, parent: int) -> dict[str, Any]:
    times = {"archived": False, "auto_archive_duration": 60, "archive_timestamp": "2026-01-01T00:00:00+00:00"}
    about = {"guild_id": str(GUILD), "owner_id": str(MO), "member_count": 1, "message_count": 1}
    base = {"id": str(number), "type": 11, "name": name, "parent_id": str(parent)}
    return base | about | {"thread_metadata": {**times, "locked": False}}


def guild() -> dict[str, Any]:
    """A server as the gateway announces it."""
    numbers = (
        "verification_level", "default_message_notifications", "explicit_content_filter", "mfa_level",
        "nsfw_level", "premium_tier", "system_channel_flags", "afk_timeout",
    )  # fmt: skip
    lists = ("emojis", "voice_states", "presences", "stickers", "stage_instances", "guild_scheduled_events")
    return {
        "id": str(GUILD),
        "name": "The Island",
        "owner_id": "1",
        "member_count": 3,
        "roles": [
            _role(GUILD, "@everyone", permissions=str(discord.Permissions.all().value)),
            _role(MODERATOR, "moderators"),
            _role(BOT_ROLE, "Bot", managed=True, tags={"bot_id": str(BOT)}),
        ],
        "channels": [
            _place(CATEGORY, 4, "rooms", parent_id=None),
            _place(GENERAL, 0, "general"),
            _place(FORUM, 15, "questions", available_tags=[]),
        ],
        "threads": [_thread(THREAD, "About syrup", GENERAL), _thread(POST, "Which pan?", FORUM)],
        "members": [{**member_of([BOT_ROLE]), "user": user(BOT)}],
        "features": [],
        "soundboard_sounds": [],
        "preferred_locale": "en-US",
        **dict.fromkeys(numbers, 0),
        **{name: [] for name in lists},
    }


@asynccontextmanager
async def incoming(
    *, since: int = 0, backend: RecordingBackend | None = None, **rules: Any
) -> AsyncIterator[Incoming]:
    """A server that the bot was told of; `since` is the id from which messages are this process's."""
    rest, backend = Rest(), backend or RecordingBackend()
    backend.personas = PERSONAS
    backend.obey(**rules)
    client = Client()
    async with served({"/{path:.*}": rest.answer}) as port:
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
