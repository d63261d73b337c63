"""A server that speaks Discord's language and no more of it than it must, unlike Discord where it may be.

Its JSON names a charset, its gateway compresses nothing and leaves out of READY which shard it is, and it has
neither applications nor shards to tell of.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import discord
from aiohttp import web

from tests.channels.discord.rest_discord import (
    BOT,
    DM,
    GENERAL,
    GUILD,
    MO,
    guild,
    member_of,
    message_of,
    user,
)
from tests.servers.staged_web import served

TOKEN = "t0ken"


@dataclass(slots=True)
class PlainServer:
    """One bot, one guild.

    Attributes:
        history: messages by channel.
        refuse: close code for whoever identifies next; 0: none.
        again: events that a resumed session is told of.
        asked: method and path of each request.
        identified: the IDENTIFY payloads that came.
        close_codes: by which connections ended.
        deaf: after the next frame it neither answers nor reads any more; then it is `asleep`.
        silent: it leaves out what it can of READY, and tells nothing with RESUMED.
        hello: what each connection is told first; "": HELLO.
        garbles_resumed: what whoever resumes a session is sent; "": what they should be.
        cuts: how many questions for the bot's user end in a broken connection first.
    """

    history: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    refuse: int = 0
    again: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    identified: list[dict[str, Any]] = field(default_factory=list)
    resumed: int = 0
    close_codes: list[int | None] = field(default_factory=list)
    deaf: bool = False
    asleep: bool = False
    cuts: int = 0
    silent: bool = False
    hello: str = ""
    garbles_resumed: str = ""
    guild: dict[str, Any] = field(default_factory=guild)
    port: int = 0
    _sockets: list[web.WebSocketResponse] = field(default_factory=list)
    _sequence: int = 0
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        """What an operator writes as `discord.api_url`."""
        return f"http://127.0.0.1:{self.port}"

    def message(self, text: str, *, channel: int = GENERAL, seconds_ago: float = 0.0) -> dict[str, Any]:
        """A message of Mo's, which stands in its channel's history from now on."""
        moment = discord.utils.utcnow() - timedelta(seconds=seconds_ago)
        number = discord.utils.time_snowflake(moment) + next(self._ids)
        made = message_of(number, channel, user(MO), text, timestamp=moment.isoformat())
        self.history.setdefault(channel, []).append(made)
        for each in (*self.guild["channels"], *self.guild["threads"]):
            if each["id"] == str(channel):
                each["last_message_id"] = str(number)
        return made

    async def say(self, text: str, *, channel: int = GENERAL) -> dict[str, Any]:
        """Mo writes now."""
        made = self.message(text, channel=channel)
        await self.send("MESSAGE_CREATE", self.event(made))
        return made

    def event(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message as the gateway tells of it."""
        if message["channel_id"] == str(DM):
            return message
        return {**message, "guild_id": str(GUILD), "member": member_of([])}

    async def send(self, event: str, data: dict[str, Any] | None) -> None:
        """Tell the bot of something."""
        self._sequence += 1
        await self._sockets[-1].send_json({"op": 0, "t": event, "d": data, "s": self._sequence})

    async def op(self, code: int, data: object = None) -> None:
        """Send something else."""
        await self._sockets[-1].send_json({"op": code, "d": data})

    async def garble(self, frame: str | bytes) -> None:
        """Send what is no frame."""
        socket = self._sockets[-1]
        await (socket.send_str(frame) if isinstance(frame, str) else socket.send_bytes(frame))

    async def cut(self, code: int = 4000) -> None:
        """Close the connection."""
        await self._sockets[-1].close(code=code)

    async def rest(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        path = request.path.removeprefix("/api/v10")
        if path == request.path:
            return web.Response(text="<html>an app</html>", content_type="text/html")
        self.asked.append((request.method, path))
        if path == "/gateway":
            return web.json_response({"url": f"ws://127.0.0.1:{self.port}/gateway-socket"})
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return web.json_response({"code": 0, "message": "401: Unauthorized"}, status=401)
        match path.strip("/").split("/"):
            case ["users", "@me"] if self.cuts:
                self.cuts -= 1
                assert request.transport is not None
                request.transport.abort()
            case ["users", "@me"]:
                return web.json_response(user(BOT))
            case ["channels", channel] if int(channel) == DM:
                return web.json_response({"id": channel, "type": 1, "recipients": [user(MO)]})
            case ["channels", channel, "messages"]:
                before = int(request.query.get("before", 2**63))
                found = [each for each in self.history.get(int(channel), []) if int(each["id"]) < before]
                return web.json_response(found[-int(request.query.get("limit", 50)) :][::-1])
        return web.json_response({"code": 0, "message": "404: Not Found"}, status=404)

    async def gateway(self, request: web.Request) -> web.WebSocketResponse:
        """Hold a connection."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.append(socket)
        await socket.send_str(self.hello or '{"op": 10, "d": {"heartbeat_interval": 30000}}')
        async for frame in socket:
            payload = json.loads(frame.data)
            match payload["op"]:
                case 1:
                    await socket.send_json({"op": 11})
                case 2 if self.refuse:
                    code, self.refuse = self.refuse, 0
                    await socket.close(code=code)
                case 2:
                    self.identified.append(payload["d"])
                    await self._welcome()
                case 6:
                    self.resumed += 1
                    if self.garbles_resumed:
                        await self.garble(self.garbles_resumed)
                        continue
                    for event, data in self.again:
                        await self.send(event, data)
                    await self.send("RESUMED", None if self.silent else {})
            if self.deaf:
                self.asleep = True
                await asyncio.Event().wait()
        self.close_codes.append(socket.close_code)
        return socket

    async def _welcome(self) -> None:
        ready = {
            "v": 10,
            "user": user(BOT),
            "session_id": "s",
            "guilds": [{"id": str(GUILD), "unavailable": True}],
        }
        if self.silent:
            await self.send("READY", {"user": user(BOT), "session_id": "s"})
            await self.send("GUILD_CREATE", self.guild)
            return
        address = f"ws://127.0.0.1:{self.port}/gateway-socket"
        await self.send(
            "READY", {**ready, "resume_gateway_url": address, "application": {"id": "901", "flags": 0}}
        )
        await self.send("GUILD_CREATE", self.guild)


@asynccontextmanager
async def plain_server() -> AsyncIterator[PlainServer]:
    """A server that listens."""
    server = PlainServer()
    async with served({"/gateway-socket": server.gateway, "/{path:.*}": server.rest}) as server.port:
        yield server
