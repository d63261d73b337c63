"""The face of it all: a Discord that listens on a free port, and what a test does with it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

from pixi.testing.discord import commands, message_routes, place_routes, webhook_routes
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.commands import Commands
from pixi.testing.discord.gateway import Gateway
from pixi.testing.discord.guilds import Guild
from pixi.testing.discord.hub import Hub
from pixi.testing.discord.ids import GatewayIntents, Snowflakes
from pixi.testing.discord.moods import Moods, Using
from pixi.testing.discord.routing import Rest
from pixi.testing.discord.users import EVERYONE, NONE, Member, Permission, User
from pixi.testing.discord.world import World

BOT_MAY = EVERYONE | Permission.MENTION_EVERYONE | Permission.MANAGE_WEBHOOKS
TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.Gloopb.not-a-secret-only-a-loopback-server-takes-it"
ROUTES = [
    # The first that fits answers: `/messages/pins` is no message.
    *message_routes.SEARCH_ROUTES,
    *message_routes.ROUTES,
    *place_routes.ROUTES,
    *place_routes.THREAD_ROUTES,
    *webhook_routes.ROUTES,
    *webhook_routes.ANSWER_ROUTES,
    *commands.ROUTES,
]


class LoopbackDiscord(Using, Moods):
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
        token: the bot's.
        bot: the bot.
        gateway: its settings, connections and counts.
        rest: its hooks and limits.

    With `lean` it is as sparing as a server that only speaks like Discord.
    """

    def __init__(self, bot: str = "Pixi", token: str = TOKEN, *, lean: bool = False) -> None:
        ids = Snowflakes()
        self.token = token
        self.bot = User(ids.next(), bot, bot=True)
        self.world = World(self.bot, token, ids)
        self.world.lean = lean
        self.world.hub = Hub(self.world)
        self.world.commands = Commands(self.world)
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
        """Where REST is, without the version."""
        return f"{self.world.origin}/api"

    @property
    def gateway_url(self) -> str:
        """Where the gateway is."""
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
        """Who owns the guilds that name no owner."""
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
        """A guild that the bot is in, on shard `shard` of `of` if that is named."""
        guild = Guild(self.world, self.world.ids.guild(shard, of), name, owner or self.landlord, locale)
        guild.members[guild.owner.id] = Member(guild.owner)
        guild.members[self.bot.id] = Member(self.bot)
        guild.bot_role = guild.role(self.bot.name, bot_may, bot=True)
        guild.bot_member.roles.append(guild.bot_role)
        self.world.guilds[guild.id] = guild
        self.world.hub.open_guild(guild)
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
        """Somebody; roles by their names, and permissions that they bring into every guild."""
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
        """The DM of the bot and somebody."""
        return place_routes.dm_with(self.world, person)

    def allow_intents(self, intents: GatewayIntents) -> None:
        """Which privileged intents the application's owner switched on; all at first."""
        self.world.privileged = GatewayIntents(intents)
