"""What Discord answers by HTTP, with faults at the moments that matter; and a bot without a gateway."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import discord
import pytest
from aiohttp import web
from discord.http import Route

from tests.servers.staged_web import served

BOT, GUILD, MO, ANA, ROBOT, HOOK = 900, 100, 11, 12, 13, 14
CATEGORY, GENERAL, FORUM, THREAD, POST, DM = 199, 200, 203, 5_000, 5_001, 300
MODERATOR, BOT_ROLE, APPLICATION = 150, 151, 901
_NAMES = {BOT: "Bot", MO: "Mo", ANA: "Ana", ROBOT: "Robot", HOOK: "Edda"}
EMOJI = {"id": "77", "name": "PixiWave", "available": True, "roles": [], "animated": False}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Fault:
    """Goes wrong once, with the first request whose method and path it fits.

    Attributes:
        path: what the path ends with.
        status: of the answer; 0: the connection is cut.
        after: the request was carried out before it went wrong.
    """

    method: str
    path: str
    status: int = 0
    code: int = 0
    message: str = "no"
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False
    times: int = 1


@dataclass(slots=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    body: dict[str, Any]
    query: dict[str, str]


@dataclass(slots=True)
class RestDiscord:
    """Channels with their messages. What came can be read, what goes wrong can be set.

    Attributes:
        messages: by channel, oldest first.
        roles: of members, by user.
        broken: it refuses everything but to tell who the bot is.
    """

    asked: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    messages: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    roles: dict[int, list[int]] = field(default_factory=dict)
    broken: bool = False
    reactions: list[tuple[int, int, str]] = field(default_factory=list)
    webhooks: dict[int, dict[str, Any]] = field(default_factory=dict)
    pinged: list[set[str]] = field(default_factory=list)
    tells_nonces: bool = True
    tells_tokens: bool = True
    member: dict[str, Any] = field(default_factory=dict)
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(50_000))

    def said(self, channel: int = GENERAL) -> list[str]:
        """What stands in a channel that the bot or its webhooks posted."""
        ours = (each for each in self.messages.get(channel, ()) if each["author"].get("bot"))
        return [each["content"] for each in ours]

    def paths(self) -> list[str]:
        """The paths of all requests, without the version of the API."""
        return [each.path.removeprefix("/api/v10") for each in self.asked]

    def requests(self, method: str, path: str) -> list[Asked]:
        """The requests of a method whose path ends so."""
        return [each for each in self.asked if each.method == method and each.path.endswith(path)]

    def write(self, author: int, text: str, channel: int = GENERAL) -> int:
        """Somebody writes; gives the message's id."""
        return int(self._put(channel, user(author), text)["id"])

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        raw = await request.read()
        body = json.loads(raw) if raw and raw[:1] in b"{[" else {}
        asked = Asked(request.method, request.path, body, dict(request.query))
        self.asked.append(asked)
        fault = next((each for each in self.faults if self._fits(each, asked)), None)
        if fault is not None:
            fault.times -= 1
            if fault.after:
                self._answer(asked)
            if not fault.status:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            told = {"code": fault.code, "message": fault.message, "retry_after": 0.05}
            return _json(told, fault.status, fault.headers)
        status, answer = self._answer(asked)
        return _json(answer, status) if answer is not None else web.Response(status=status)

    def _fits(self, fault: Fault, asked: Asked) -> bool:
        return fault.times > 0 and fault.method == asked.method and asked.path.endswith(fault.path)

    def _answer(self, asked: Asked) -> tuple[int, Any]:
        where = asked.path.removeprefix("/api/v10").strip("/").split("/")
        match (asked.method, where):
            case ("GET", ["users", "@me"]):
                return 200, user(BOT)
            case _ if self.broken:
                return 403, {"code": 50001, "message": "Missing Access"}
            case ("GET", ["oauth2", "applications", "@me"]):
                named = {
                    "id": str(APPLICATION),
                    "name": "Bot",
                    "description": "",
                    "icon": None,
                    "owner": user(ANA),
                }
                return 200, {**named, "bot_public": True, "bot_require_code_grant": False, "verify_key": ""}
            case ("POST", ["channels", channel, "messages"]):
                return self._post(int(channel), asked.body)
            case ("GET", ["channels", channel, "messages"]):
                after, before = int(asked.query.get("after", 0)), int(asked.query.get("before", 2**63))
                limit = int(asked.query["limit"])
                found = [
                    each for each in self.messages.get(int(channel), ()) if after < int(each["id"]) < before
                ]
                return 200, list(reversed(found[:limit] if after else found[-limit:]))
            case ("GET", ["channels", channel, "messages", wanted]):
                found = [each for each in self.messages.get(int(channel), ()) if each["id"] == wanted]
                return (200, found[0]) if found else (404, {"code": 10008, "message": "Unknown Message"})
            case ("GET", ["guilds", _, "members", member]) if int(member) in self.roles:
                return 200, {**member_of(self.roles[int(member)]), "user": user(int(member))}
            case ("PUT", ["channels", channel, "messages", message, "reactions", emoji, "@me"]):
                self.reactions.append((int(channel), int(message), emoji))
                return 204, None
            case ("POST", ["channels", _, "typing"]):
                return 204, None
            case ("GET", ["channels", channel, "webhooks"]):
                return 200, [each for each in self.webhooks.values() if each["channel_id"] == channel]
            case ("POST", ["channels", channel, "webhooks"]):
                return 200, self.webhook(int(channel), asked.body["name"], avatar=asked.body.get("avatar"))
            case ("PATCH", ["webhooks", webhook]):
                self.webhooks[int(webhook)] |= asked.body
                changed = self.webhooks[int(webhook)]
                return 200, changed if self.tells_tokens else changed | {"token": None}
            case ("POST", ["webhooks", webhook, "t0ken"]):
                return self._speak(int(webhook), asked)
            case ("PATCH", ["guilds", _, "members", "@me"]):
                self.member |= asked.body
                return 200, {**member_of([]), "user": user(BOT), "nick": self.member.get("nick")}
            case ("GET", ["channels", channel]) if int(channel) == GENERAL:
                return 200, _place(GENERAL, 0, "general")
            case ("GET", ["channels", channel]) if int(channel) == DM:
                return 200, {"id": channel, "type": 1, "recipients": [user(MO)], "last_message_id": None}
            case _:
                return 404, {"code": 10003, "message": "Unknown Channel"}

    def webhook(self, channel: int, name: str, *, avatar: Any = None, by: int = BOT) -> dict[str, Any]:
        """Make a webhook."""
        made = {
            "id": str(next(self._ids)),
            "type": 1,
            "channel_id": str(channel),
            "name": name,
            "token": "t0ken",
            "avatar": avatar,
            "application_id": str(APPLICATION),
            "user": user(by),
        }
        self.webhooks[int(made["id"])] = made
        return made

    def _post(self, channel: int, body: dict[str, Any]) -> tuple[int, Any]:
        assert len(body["nonce"]) <= 25
        assert body["enforce_nonce"]
        for message in self.messages.get(channel, ()):
            if message.get("_nonce") == body["nonce"]:
                return 200, message
        if not 0 < len(body["content"].encode("utf-16-le")) // 2 <= 2_000:
            return 400, {"code": 50035, "message": "Invalid Form Body"}
        message = self._put(channel, user(BOT), body["content"], body["nonce"])
        reference = body.get("message_reference")
        known = [each["id"] for each in self.messages[channel]]
        if reference is not None and str(reference["message_id"]) in known:
            message["message_reference"] = reference
        self._ping(body)
        return 200, message

    def _speak(self, webhook: int, asked: Asked) -> tuple[int, Any]:
        if webhook not in self.webhooks:
            return 404, {"code": 10015, "message": "Unknown Webhook"}
        channel = int(asked.query.get("thread_id") or self.webhooks[webhook]["channel_id"])
        author = user(webhook) | {"username": asked.body["username"], "bot": True, "discriminator": "0000"}
        message = self._put(channel, author, asked.body["content"])
        message |= {"webhook_id": str(webhook), "application_id": str(APPLICATION)}
        message["_picture"] = asked.body.get("avatar_url")
        self._ping(asked.body)
        return 200, message

    def _put(self, channel: int, author: dict[str, Any], text: str, nonce: str = "") -> dict[str, Any]:
        message = message_of(next(self._ids), channel, author, text, _nonce=nonce or None)
        if nonce and self.tells_nonces:
            message["nonce"] = nonce
        self.messages.setdefault(channel, []).append(message)
        return message

    def _ping(self, body: dict[str, Any]) -> None:
        """Whom a message pings, as the documents of `allowed_mentions` have it."""
        text, allowed = body["content"], body["allowed_mentions"]
        pinged = set()
        for word in ("@everyone", "@here"):
            if word in text and "everyone" in allowed["parse"]:
                pinged.add(word)
        for person in (MO, ANA):
            named = f"<@{person}>" in text
            if named and ("users" in allowed["parse"] or str(person) in map(str, allowed.get("users", ()))):
                pinged.add(str(person))
        if "<@&55>" in text and ("roles" in allowed["parse"] or 55 in allowed.get("roles", ())):
            pinged.add("role")
        if allowed.get("replied_user"):
            pinged.add("replied")
        self.pinged.append(pinged)


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


def _json(answer: Any, status: int, headers: dict[str, str] | None = None) -> web.Response:
    """JSON with the content type that discord.py knows it by."""
    exactly = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=json.dumps(answer).encode(), status=status, headers=exactly)


@asynccontextmanager
async def bot_of(
    rest: RestDiscord, monkeypatch: pytest.MonkeyPatch, *, permissions: int = discord.Permissions.all().value
) -> AsyncIterator[discord.Client]:
    """A bot of discord.py's that talks to it over a socket, and was told of the server."""
    told = guild() | {"emojis": [EMOJI]}
    told["roles"][0]["permissions"] = str(permissions)
    async with served({"/{path:.*}": rest.serve}) as port:
        monkeypatch.setattr(Route, "BASE", f"http://127.0.0.1:{port}/api/v10")
        client = discord.Client(
            intents=discord.Intents(guilds=True, emojis_and_stickers=True),
            application_id=APPLICATION,
            max_messages=None,
            chunk_guilds_at_startup=False,
        )
        async with client:
            await client.login("a-token")
            state: Any = client._connection
            state._add_guild_from_data(told)
            yield client
            await asyncio.sleep(0)
