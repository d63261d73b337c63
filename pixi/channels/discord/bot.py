"""The bot: connects to Discord, stays until it is cancelled, and leaves in good order."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import aiohttp
import discord

from pixi.channels.discord.backend import BotBackend, channel_personas, parse_address, prefix_of
from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.gateway.client import Client, Shards, quiet_logs
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import PORTAL, DiscordServer, find_server
from pixi.channels.discord.incoming.dispatch import Dispatcher
from pixi.channels.discord.incoming.recent import RecentMessage, RecentMessages
from pixi.channels.discord.outgoing.approvals import Approvals, Share
from pixi.channels.discord.outgoing.channel import DiscordChannels
from pixi.channels.discord.places import RestPlaces
from pixi.channels.discord.requests import REQUESTS_PER_SECOND, RequestPacer
from pixi.channels.discord.slash.commands import SlashCommands
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import ConfigError, PixiError, StoreError
from pixi.store.rates import Rates

__all__ = ["Bot", "Shards"]

_log = logging.getLogger("pixi.discord")

_FIRST_WAIT, _LONGEST_WAIT = 2.0, 60.0  # seconds before Discord is tried again
_LOOK_SECONDS = 30.0  # between two looks for what a process left that has ended

# All that leaving takes must stay below ten seconds.
_FOR_QUEUES = 0.5
_FOR_DRAINING = 5.0
_FOR_MARKS = 1.0
_FOR_CLOSING = 1.5


class Bot:
    """One bot on Discord, or on a server that speaks its language.

    Args:
        backend: what it talks for.
        token: the bot's.
        api_url: the address of another server's REST API; empty: Discord.
        shards: those that this process runs; None: as many as Discord wants.
        tell: is told, in one line each, what the operator should know.
        statuses: counts Discord's answers by their statuses of HTTP; None: nobody wants to know.
        share: where the bot is `posting`, tells the process that hears clicks of questions to people; None:
            nobody can be asked.
        rates: counts requests, over all processes of the bot; None: there is no other.

    Attributes:
        approvals: the questions to people, while the bot runs or is posting.
        user_id: of the bot's own user, while it is posting; else 0.
    """

    def __init__(
        self,
        backend: BotBackend,
        *,
        token: str,
        api_url: str = "",
        shards: Shards | None = None,
        tell: Callable[[str], None],
        statuses: Counter[int] | None = None,
        share: Share | None = None,
        rates: Rates | None = None,
    ) -> None:
        self._backend = backend
        self._token = token
        self._api_url = api_url
        self._shards = shards
        self._tell = tell
        self._statuses = statuses
        self._share = share
        usual = 0 if api_url else REQUESTS_PER_SECOND
        self._pacer = RequestPacer(
            rates if rates is not None else Rates(), token, lambda: backend.rules.requests_per_second or usual
        )
        self.approvals: Approvals | None = None
        self._client: Client | None = None
        self.user_id = 0
        self._recent = RecentMessages(lambda: self._backend.rules.overhear)

    @property
    def connected(self) -> bool:
        """Return True if Discord is heard, by one shard at least."""
        client = self._client
        return (
            client is not None
            and client.is_ready()
            and any(not it.is_closed() for it in client.shards.values())
        )

    def forget(self, person: str | None) -> None:
        """Drop the last messages of a person, by the id of the author; None: of everybody."""
        self._recent.forget(person)

    async def run(self) -> None:
        """Connect and stay until cancelled; then finish what people see being written, within ten seconds.

        Raises:
            ConfigError: the token, an intent, the shards or the address of the server are wrong.
            PixiError: Discord does not let the bot in for another reason.
        """
        async with self._logged_in() as (client, server):
            await self._run(client, server)

    @asynccontextmanager
    async def posting(self) -> AsyncGenerator[OpenChannel, None]:
        """Be the bot over REST alone, which hears nothing; gives what opens channels by their addresses.

        Opened again, a channel knows who wrote what waits there by then.

        Raises:
            ConfigError: as `run`.
            PixiError: as `run`.
        """
        async with self._logged_in() as (client, server):
            self.user_id = client.user.id if client.user is not None else 0
            if self._share is not None:
                self.approvals = Approvals(client, self._backend, self._share)
            channels = DiscordChannels(
                client, self._backend, self._recent, self.approvals, elsewhere=server is not None
            )
            places = RestPlaces(client)

            async def open_channel(address: str) -> Channel | None:
                where = parse_address(address).channel
                await places.learn(where)
                for message in await self._backend.store.waiting(address):
                    self._recent.add(where, RecentMessage.recorded(message))
                return await channels.open(address)

            try:
                yield open_channel
            finally:
                if self.approvals is not None:
                    await self.approvals.close()
                await channels.close()

    async def _run(self, client: Client, server: DiscordServer | None) -> None:
        self._client = client
        approvals = self.approvals = Approvals(client, self._backend)
        approvals.install()
        channels = DiscordChannels(
            client, self._backend, self._recent, approvals, elsewhere=server is not None
        )
        slash = SlashCommands(client, self._backend, channels.show_as, on_forget=self.forget)

        async def ready() -> None:
            bot = client.user
            assert bot is not None  # it is connected
            self._tell(_connected(bot, len(client.guilds)))
            dispatcher.beside(self._resume(prefix_of(bot.id), channels))
            dispatcher.beside(slash.sync())
            if self._backend.rules.faces == "profile":
                dispatcher.beside(self._show_as_default(client, bot.id, channels))

        dispatcher = Dispatcher(client, self._backend, channels, self._recent, ready)
        try:
            await dispatcher.listen()
            await _stay(client)
        except discord.ConnectionClosed as error:
            _refused(error.code, client, server)
        except discord.PrivilegedIntentsRequired:
            _refused(4014, client, server)
        finally:
            await self._leave(dispatcher, channels, approvals)

    # Coming.

    @asynccontextmanager
    async def _logged_in(self) -> AsyncGenerator[tuple[Client, DiscordServer | None], None]:
        """Log in, however long it takes until there is a connection; closed at the end."""
        token, wait = _checked(self._token), _FIRST_WAIT
        server = await find_server(self._api_url, token) if self._api_url else None
        shards = self._shards or (Shards(tuple(range(server.shards)), server.shards) if server else None)
        with quiet_logs(), patched(server):
            while True:
                client = Client(shards, self._statuses, self._pacer.wait)
                try:
                    if await self._log_in(client, token, server, wait):
                        yield client, server
                        return
                finally:
                    await _closed(client)
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)

    async def _log_in(self, client: Client, token: str, server: DiscordServer | None, wait: float) -> bool:
        """Log in; False, and a line in the log, where it is to be tried again."""
        try:
            await client.login(token)
            if server is not None:
                client.sessions_at_once = server.sessions_at_once
            else:
                count, _, limits = await client.http.get_bot_gateway()
                client.shard_count = client.shard_count or count
                client.sessions_at_once = limits["max_concurrency"]
        except discord.LoginFailure:
            raise _wrong_token(server) from None
        except (KeyError, TypeError, ValueError) as error:  # an untrusted certificate is a ValueError too
            where = server.rest if server else "discord.com"
            raise PixiError(
                f"{where} does not answer as Discord does ({type(error).__name__}: {error}); "
                "mend discord.api_url, or a proxy between."
            ) from None
        except (aiohttp.ClientError, OSError, discord.GatewayNotFound, discord.HTTPException) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, discord.HTTPException):
                if error.status < 500 and error.status != 429:
                    raise PixiError(f"Discord does not let the bot in: {reason}.") from None
                reason = f"HTTP status {error.status}"  # without the page that came with it
            _log.warning("Discord cannot be reached: %s; trying again in %.0f seconds", reason, wait)
            return False
        flags = client.application_flags
        if server is None and not (flags.gateway_message_content or flags.gateway_message_content_limited):
            self._tell(_no_content(client, server))
        return True

    async def _show_as_default(self, client: Client, bot: int, channels: DiscordChannels) -> None:
        """Show in each server as the persona that answers there by default."""
        for guild in list(client.guilds):
            await channels.show_as(guild, channel_personas(self._backend, bot, (guild.id,))[0])

    async def _resume(self, prefix: str, channels: DiscordChannels) -> None:
        """Go on with what was left half-done: at the start, and for a process that ends beside this one."""
        while True:
            try:
                await self._backend.resume(prefix, channels.open)
            except StoreError as error:
                _log.warning("what was left half-done could not be looked for: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    # Going.

    async def _leave(self, dispatcher: Dispatcher, channels: DiscordChannels, approvals: Approvals) -> None:
        """Stop hearing, let replies end while they can still be posted, note how far we came."""
        await dispatcher.stop(_FOR_QUEUES)
        drain = self._backend.engine.drain(_FOR_DRAINING)
        await _within(_FOR_DRAINING + 1.0, drain, "replies could not be finished")
        await _within(_FOR_MARKS, dispatcher.write_marks(), "the watermarks could not be written")
        await approvals.close()
        await channels.close()


async def _stay(client: Client) -> None:
    """Stay connected, until Discord closes the door or this is cancelled."""
    # A task of its own: a cancellation must not get lost in discord.py, as it does in Python 3.11 where it
    # meets the end of what `asyncio.wait_for` waits for.
    connected = asyncio.create_task(client.connect())
    try:
        await asyncio.wait([connected])
        connected.result()
    finally:
        while not connected.done():
            connected.cancel()
            await asyncio.wait([connected], timeout=0.1)


def _checked(token: str) -> str:
    """Return a token that can be sent.

    Raises:
        ConfigError: there is none, or it cannot be one.
    """
    token = token.strip()
    if not token:
        raise ConfigError(
            f"There is no token for Discord: set DISCORD_TOKEN in the environment or in .env.\n"
            f"A bot's token is shown at {PORTAL}, on its page Bot."
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            "DISCORD_TOKEN holds characters that no token has; copy the token alone, in one line."
        )
    return token


def _connected(bot: discord.ClientUser, servers: int) -> str:
    return f"Connected as {one_line(bot.name)}, in {servers} server{'' if servers == 1 else 's'}."


def _wrong_token(server: DiscordServer | None) -> ConfigError:
    where = f"at {PORTAL}, on the bot's page Bot" if server is None else f"where {server.rest} has its bots"
    return ConfigError(f"Discord does not know the token in DISCORD_TOKEN.\nMake a new one {where}.")


def _no_content(client: Client, server: DiscordServer | None) -> str:
    page = f" at {PORTAL}/{client.application_id or ''}/bot" if server is None else ""
    return f"Discord does not show the bot what people write: switch on Message Content Intent{page}"


def _refused(code: int, client: Client, server: DiscordServer | None) -> NoReturn:
    """Tell why Discord's gateway closed the door for good.

    Raises:
        ConfigError: the operator can mend it.
        PixiError: nobody can.
    """
    match code:
        case 4004:
            raise _wrong_token(server) from None
        case 4014:
            raise ConfigError(
                f"{_no_content(client, server)}\n(Privileged Gateway Intents; then start again.)"
            ) from None
        case 4010 | 4011:
            raise ConfigError(
                "Discord does not take these shards: give --shards as FIRST-LAST/ALL, e.g. 0-3/8,\n"
                "with more of them in all where the bot is in many servers, or leave it out."
            ) from None
        case _:
            raise PixiError(f"Discord closed the connection for good (code {code}).") from None


async def _within(seconds: float, work: Awaitable[None], what: str) -> None:
    """Wait so long for something; whatever hinders it costs one line."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        _log.warning("%s in time", what)
    except PixiError as error:
        _log.error("%s: %s", what, error)


async def _closed(client: Client) -> None:
    """Close a client, even where the other side does not answer any more."""
    try:
        async with asyncio.timeout(_FOR_CLOSING):
            await client.close()
    except (TimeoutError, aiohttp.ClientError, OSError, AttributeError):
        await client.http.close()
    client.stop_beating()
