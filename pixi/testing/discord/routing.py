"""The frame of the REST interface: path, token, body, limits, hooks, answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
from aiohttp import web

from pixi.testing.discord import bodies
from pixi.testing.discord.calls import (
    ApiCall,
    DropConnection,
    Hooks,
    RateLimits,
    RefusedCall,
    fault,
    invalid,
    no_such_route,
    snowflake,
    unauthorized,
)
from pixi.testing.discord.users import Permission, in_channel, in_guild

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.messages import FakeMessage
    from pixi.testing.discord.world import World


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer with a status of its own; a body of None is none."""

    status: int
    body: object = None


Handler = Callable[["World", ApiCall], object]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """What is at a path. `open`: no bot's token is asked for."""

    method: str
    template: str
    handler: Handler
    open: bool = False


class Rest:
    """Answers requests.

    Attributes:
        calls: every request to the interface, in their order; kept while `keeps`.
        running: how many are being answered now.
    """

    def __init__(self, world: World, routes: list[ApiRoute]) -> None:
        self.calls: list[ApiCall] = []
        self.keeps = True
        self.running = 0
        self.hooks = Hooks()
        self.limits = RateLimits()
        self._world = world
        self._by_shape: dict[tuple[int, str], list[tuple[list[str], ApiRoute]]] = {}
        for route in routes:
            parts = route.template.strip("/").split("/")
            self._by_shape.setdefault((len(parts), parts[0]), []).append((parts, route))

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        parts = [unquote(part) for part in request.rel_url.raw_path.strip("/").split("/")]
        version, parts = (parts[1], parts[2:]) if len(parts) > 1 else ("", [])
        path = "/" + "/".join(parts)
        call = ApiCall(self._world, request.method, path, request.query, request.headers)
        call.pairs = tuple(request.query.items())
        if self.keeps:
            self.calls.append(call)
        self.running += 1
        self._world.changed()
        try:
            return await self._answered(request, call, version, parts)
        except DropConnection:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        finally:
            self.running -= 1
            self._world.changed()

    async def _answered(
        self, request: web.Request, call: ApiCall, version: str, parts: list[str]
    ) -> web.StreamResponse:
        headers: dict[str, str] = {}
        status, body = 204, None
        try:
            if version not in {"v9", "v10"}:
                raise fault(50041)
            route = self._find(call, parts)
            if not route.open and request.headers.get("Authorization") != f"Bot {self._world.token}":
                raise unauthorized()
            await bodies.read(request, call)
            headers = self.limits.pass_(call)
            await self.hooks.run(self.hooks.early, call)
            done = route.handler(self._world, call)
            if isinstance(done, ApiAnswer):
                status, body = done.status, done.body
            elif done is not None:
                status, body = 200, done
            call.status, call.answer = status, body
            self._world.changed()
            await self.hooks.run(self.hooks.late, call)
        except RefusedCall as refused:
            status, body = refused.status, refused.body
            headers |= refused.headers
        call.status, call.answer = status, body
        if body is None:
            return web.Response(status=status, headers=headers)
        data = msgspec.json.encode(body)
        return web.Response(status=status, body=data, headers=headers, content_type="application/json")

    def _find(self, call: ApiCall, parts: list[str]) -> ApiRoute:
        other_method = False
        for template, route in self._by_shape.get((len(parts), parts[0] if parts else ""), ()):
            ids = _match(template, parts)
            if ids is None:
                continue
            if route.method == call.method:
                call.route, call.ids = route.template, ids
                return route
            other_method = True
        if other_method:
            raise RefusedCall(405, 0, "405: Method Not Allowed")
        raise no_such_route()


def _match(template: list[str], parts: list[str]) -> dict[str, str] | None:
    ids: dict[str, str] = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{"):
            ids[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return ids


# What most routes begin with.


def visible(world: World, call: ApiCall) -> FakeChannel:
    """The channel in the path. Raises `RefusedCall`: unknown, or the bot does not see it."""
    channel = world.channels.get(snowflake(call.ids["channel"], "channel_id"))
    if channel is None:
        raise fault(10003)
    if not world.sees(channel):
        raise fault(50001)
    return channel


def need(world: World, channel: FakeChannel, permission: Permission) -> None:
    """Raises `RefusedCall` when the bot lacks a permission in a channel."""
    if permission & ~in_channel(channel, world.bot):
        raise fault(50013)


def need_in_guild(world: World, guild: Guild, permission: Permission) -> None:
    """Raises `RefusedCall` when the bot lacks a permission in a guild."""
    if permission & ~in_guild(guild, world.bot):
        raise fault(50013)


def guild_of(world: World, call: ApiCall) -> Guild:
    """The guild in the path. Raises `RefusedCall`."""
    guild = world.guilds.get(snowflake(call.ids["guild"], "guild_id"))
    if guild is None:
        raise fault(10004)
    if world.bot.id not in guild.members:
        raise fault(50001)
    return guild


def message_in(channel: FakeChannel, call: ApiCall) -> FakeMessage:
    """The message in the path. Raises `RefusedCall`."""
    message = channel.find(snowflake(call.ids["message"], "message_id"))
    if message is None:
        raise fault(10008)
    return message


def number(call: ApiCall, name: str, default: int, low: int, high: int) -> int:
    """A number of the query. Raises `RefusedCall` when it is none, or out of bounds."""
    given = call.query.get(name)
    if given is None:
        return default

    if not given.isdigit():
        raise invalid((name,), "NUMBER_TYPE_COERCE", f'Value "{given}" is not int.')
    if not low <= int(given) <= high:
        kind, word = ("NUMBER_TYPE_MAX", "less") if int(given) > high else ("NUMBER_TYPE_MIN", "greater")
        limit = high if int(given) > high else low
        raise invalid((name,), kind, f"int value should be {word} than or equal to {limit}.")
    return int(given)
