"""The face of it all: a Discord that listens on a free port, and what a test does with it and sees of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

import msgspec
from aiohttp import web

from pixi.testing.discord import interactions, message_routes, place_routes, webhook_routes
from pixi.testing.discord.calls import ApiCall, Callback, DropConnection, Hook, Json, Limit, RefusedCall
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.commands import FakeCommand
from pixi.testing.discord.gateway import INVALID_SESSION, RECONNECT, Gateway, GatewayConnection
from pixi.testing.discord.guilds import Guild
from pixi.testing.discord.ids import Snowflakes
from pixi.testing.discord.interactions import Interaction, OptionValue
from pixi.testing.discord.messages import FakeMessage
from pixi.testing.discord.routing import Rest
from pixi.testing.discord.users import EVERYONE, NONE, Member, Permission, User
from pixi.testing.discord.world import LIMIT, World

# ruff: noqa: ASYNC109 — a test says how long it waits, in the call


T = TypeVar("T")
BOT_MAY = EVERYONE | Permission.MENTION_EVERYONE | Permission.MANAGE_WEBHOOKS
_NAPS = 10  # in which `idle` waits
TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.Gloopb.not-a-secret-only-a-loopback-server-takes-it"
ROUTES = [*message_routes.ROUTES, *place_routes.ROUTES, *webhook_routes.ROUTES]


class LoopbackDiscord:
    """A Discord in this process, with one bot.

        async with LoopbackDiscord() as discord:
            guild = discord.guild("Pancake house")
            general = guild.channel("general")
            mo = discord.person("Mo")
            ...  # start the bot with discord.token against discord.api_url
            await discord.ready()
            asked = await general.say(mo, f"{discord.bot.mention} hi")
            await discord.wait_for(lambda: general.texts)

    Attributes:
        bot: the bot.
        gateway: its settings, connections and counts.
        rest: its hooks and limits.

    With `lean` it is as sparing as a server that only speaks like Discord.
    """

    def __init__(self, bot: str = "Pixi", *, lean: bool = False) -> None:
        ids = Snowflakes()
        self.token = TOKEN
        self.bot = User(ids.next(), bot, bot=True)
        self.world = World(self.bot, TOKEN, ids)
        self.world.lean = lean
        self.world.gateway = self.gateway = Gateway(self.world)
        self.rest = Rest(self.world, ROUTES)
        self._landlord: User | None = None
        self._runner: web.AppRunner | None = None

    # Listening.

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/", self.gateway.take)
        app.router.add_get("/resume", self.gateway.take)
        app.router.add_get("/attachments/{channel}/{id}/{name}", self._file)
        app.router.add_get("/media/attachments/{channel}/{id}/{name}", self._file)
        app.router.add_route("*", "/api/{rest:.*}", self.rest.take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, keepalive_timeout=75)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.world.origin = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in tuple(self.gateway.connections):
            connection.close(1001, "Going away.")
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def api_url(self) -> str:
        """Return where REST is, without the version."""
        return f"{self.world.origin}/api"

    @property
    def gateway_url(self) -> str:
        """Return where the gateway is."""
        return self.gateway.url

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/media")
        attachment = self.world.files.get(path)
        if attachment is None:
            return web.Response(status=404, text="This content is no longer available.")
        if attachment.upload.status != 200:
            return web.Response(status=attachment.upload.status)
        return web.Response(body=attachment.data, headers={"Content-Type": attachment.type})

    # Furnishing.

    @property
    def landlord(self) -> User:
        """Return who owns the guilds that name no owner."""
        if self._landlord is None:
            self._landlord = self.person("Landlord")
        return self._landlord

    def guild(
        self,
        name: str = "Guild",
        *,
        bot_may: Permission = BOT_MAY,
        shard: int | None = None,
        of: int = 1,
        owner: User | None = None,
        locale: str = "en-US",
    ) -> Guild:
        """Return a guild that the bot is in, on shard `shard` of `of` if that is named."""
        guild = Guild(self.world, self.world.ids.guild(shard, of), name, owner or self.landlord, locale)
        guild.members[guild.owner.id] = Member(guild.owner)
        guild.members[self.bot.id] = Member(self.bot)
        guild.bot_role = guild.role(self.bot.name, bot_may, bot=True)
        guild.bot_member.roles.append(guild.bot_role)
        self.world.guilds[guild.id] = guild
        self.gateway.open_guild(guild)
        return guild

    def person(
        self,
        name: str,
        *,
        display: str | None = None,
        roles: Sequence[str] = (),
        permissions: Permission = NONE,
        bot: bool = False,
        accepts_dms: bool = True,
        locale: str = "en-US",
    ) -> User:
        """Make a person; roles by their names, and permissions that they bring into every guild."""
        user = User(
            self.world.ids.next(),
            name,
            display,
            bot,
            permissions=Permission(permissions),
            role_names=tuple(roles),
            accepts_dms=accepts_dms,
            locale=locale,
        )
        self.world.users[user.id] = user
        return user

    def dm(self, person: User) -> FakeChannel:
        """Return the DM of the bot and somebody."""
        return place_routes.dm_with(self.world, person)

    # How requests are seen and meddled with.

    @property
    def requests(self) -> list[ApiCall]:
        """Every request to REST, in their order."""
        return self.rest.calls

    def asked(self, method: str, path: str = "") -> list[ApiCall]:
        """Return requests with that method whose path has that pattern in it."""
        pattern = re.compile(path)
        return [call for call in self.rest.calls if call.method == method and pattern.search(call.path)]

    async def wait_for(self, condition: Callable[[], T], timeout: float = LIMIT) -> T:
        """Return what `condition` gives as soon as that is true; it is asked again after each change.

        Raises `TimeoutError`, with what happened last.
        """
        try:
            async with asyncio.timeout(timeout):
                while not (found := condition()):
                    await self.world.next_change()
                return found
        except TimeoutError:
            last = ", ".join(repr(call) for call in self.rest.calls[-8:]) or "none"
            raise TimeoutError(f"It did not become true in {timeout} s. The last requests: {last}.") from None

    async def ready(self, sessions: int = 1, timeout: float = LIMIT) -> None:
        """Return once so many sessions are connected."""
        await self.wait_for(lambda: len(self.gateway.live()) >= sessions, timeout)

    async def idle(self, quiet: float = 0.05, timeout: float = LIMIT) -> None:
        """Return once no request is being answered and nothing has happened for a while.

        The while is made of naps: while the process gets no processor, not more than one of them passes.
        """
        naps, seen = 0, self.world.changes
        async with asyncio.timeout(timeout):
            while naps < _NAPS:
                await asyncio.sleep(quiet / _NAPS)
                still = seen == self.world.changes and not self.rest.running
                naps, seen = naps + 1 if still else 0, self.world.changes

    # At the point of a request.

    def before(self, method: str, path: str, callback: Callback, *, times: int | None = None) -> Hook:
        """Do something before a request takes effect, `times` times or always.

        `path` is a pattern that is searched in the path under /api/v10. What the callback raises is
        answered: `RefusedCall` as an error, `DropConnection` by closing the connection. It may wait.
        """
        return _hooked(self.rest.early, method, path, callback, times)

    def after(self, method: str, path: str, callback: Callback, *, times: int | None = None) -> Hook:
        """Do something when a request took effect and is not answered yet."""
        return _hooked(self.rest.late, method, path, callback, times)

    def fail(
        self,
        method: str,
        path: str,
        status: int = 500,
        code: int = 0,
        message: str = "",
        *,
        times: int | None = None,
        took_effect: bool = False,
    ) -> Hook:
        """Answer requests with an error, before or after they took effect."""

        def refuse(call: ApiCall) -> None:
            raise RefusedCall(status, code, message or f"{status}: refused by a test")

        return (self.after if took_effect else self.before)(method, path, refuse, times=times)

    def hang_up(self, method: str, path: str, *, times: int | None = 1, took_effect: bool = False) -> Hook:
        """Close the connection instead of answering."""

        def drop(call: ApiCall) -> None:
            raise DropConnection

        return (self.after if took_effect else self.before)(method, path, drop, times=times)

    def slow(self, method: str, path: str, seconds: float, *, times: int | None = None) -> Hook:
        """Let requests take a while."""

        async def wait(call: ApiCall) -> None:
            await asyncio.sleep(seconds)

        return self.before(method, path, wait, times=times)

    def limit(self, method: str, path: str, limit: int, seconds: float) -> None:
        """Limit requests, for each channel, guild or webhook by itself; the latest that fits one counts."""
        self.rest.limits.every.insert(0, Limit(method, re.compile(path), limit, seconds))

    def limit_everything(self, limit: int, seconds: float) -> None:
        """Set the global limit."""
        self.rest.limits.whole = Limit("*", re.compile(""), limit, seconds)

    # What troubles the gateway. `shard` names one; None: all.

    def disconnect(self, code: int = 4000, *, shard: int | None = None) -> None:
        """Close connections with a code; sessions can be resumed."""
        for line in self._lines(shard):
            line.close(code)

    def abort(self, *, shard: int | None = None) -> None:
        """Break connections off without a word."""
        for line in self._lines(shard):
            line.abort()

    def lose_events(self, *, shard: int | None = None, disconnect: bool = True) -> None:
        """Forget sessions: RESUME is refused, and what happens until the next IDENTIFY is missed."""
        lines = self._lines(shard)
        for session in self.gateway.chosen(shard):
            self.gateway.end(session)
        if disconnect:
            for line in lines:
                line.close(4000)

    @asynccontextmanager
    async def away(self, *, lose: bool = False) -> AsyncIterator[None]:
        """The gateway is not to be had inside; with `lose`, what happens inside is missed."""
        self.gateway.settings.closed = True
        if lose:
            self.lose_events()
        else:
            self.disconnect()
        try:
            await self.wait_for(lambda: not self.gateway.connections)
            yield
        finally:
            self.gateway.settings.closed = False

    def replay(self, count: int = 1) -> None:
        """Send the last events once more, as they were."""
        for session in self.gateway.sessions.values():
            if session.line is not None:
                for _, raw in list(session.kept)[-count:]:
                    session.line.send(raw)

    def reconnect(self, *, shard: int | None = None) -> None:
        """Ask for a reconnection (opcode 7)."""
        for line in self._lines(shard):
            line.say(RECONNECT)

    def invalidate(self, *, resumable: bool = False, shard: int | None = None) -> None:
        """Tell that sessions are invalid (opcode 9)."""
        for line in self._lines(shard):
            line.say(INVALID_SESSION, resumable)
        if not resumable:
            for session in self.gateway.chosen(shard):
                self.gateway.end(session)

    def dispatch(self, event: str, payload: Json, *, shard: int = 0) -> None:
        """Send any event, of a kind that nobody thought of."""
        for session in self.gateway.chosen(shard):
            session.push(event, msgspec.json.encode(payload))

    def _lines(self, shard: int | None) -> list[GatewayConnection]:
        every = self.gateway.connections
        return [
            one for one in every if shard is None or (one.session is not None and one.session.shard == shard)
        ]

    # What people do with commands.

    @property
    def commands(self) -> list[FakeCommand]:
        """Return those that are registered everywhere."""
        return [*self.world.commands.kept.values()]

    async def slash(
        self,
        person: User,
        channel: FakeChannel,
        line: str,
        options: Mapping[str, OptionValue] | None = None,
        *,
        locale: str | None = None,
    ) -> Interaction:
        """Type a command as a person: `slash(mo, general, "persona", {"name": "Mimi"})`.

        Subcommands follow the name: `"forget me"`. Raises `LookupError` for what Discord's client would
        not offer, and `PermissionError` for what it would not let them use.
        """
        command, data = interactions.typed(person, channel, line, options or {})
        kind = interactions.COMMAND
        return interactions.begin(kind, person, channel, data, locale=locale, command=command)

    async def complete(
        self,
        person: User,
        channel: FakeChannel,
        line: str,
        option: str,
        *,
        typed: str = "",
        options: Mapping[str, OptionValue] | None = None,
        locale: str | None = None,
        timeout: float = LIMIT,
    ) -> list[Json]:
        """Return what autocomplete offers to somebody who typed so much of an option."""
        given = {**(options or {}), option: typed}
        command, data = interactions.typed(person, channel, line, given, focused=option)
        kind = interactions.AUTOCOMPLETE
        begun = interactions.begin(kind, person, channel, data, locale=locale, command=command)
        return (await begun.responded(timeout)).choices

    async def message_menu(self, person: User, message: FakeMessage, name: str) -> Interaction:
        """Choose a command as a person, in the menu of a message."""
        command, data = interactions.on_message(person, message, name)
        kind = interactions.COMMAND
        return interactions.begin(kind, person, message.channel, data, command=command)

    async def press(
        self, person: User, message: FakeMessage, custom_id: str, *, locale: str | None = None
    ) -> Interaction:
        """Press a button as a person.

        It need not be on the message any more: the bot may have taken it away while they pressed.
        """
        data: Json = {"custom_id": custom_id, "component_type": 2}
        kind = interactions.COMPONENT
        return interactions.begin(kind, person, message.channel, data, locale=locale, source=message)


def _hooked(home: list[Hook], method: str, path: str, callback: Callback, times: int | None) -> Hook:
    hook = Hook(method, re.compile(path), callback, times, _home=home)
    home.append(hook)
    return hook
