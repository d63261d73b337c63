"""Looks a bot up over REST, without its coming online: who it is, what it is shown, what it may do where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import aiohttp
import discord
import msgspec

from pixi.channels.discord.gateway.server import DiscordServer, find_server
from pixi.channels.discord.rules import Rules
from pixi.core.errors import ConfigError, PixiError

DISCORD = "https://discord.com/api/v10"
PORTAL = "https://discord.com/developers/applications"

_SECONDS = 10.0  # for one question
_LARGEST_ANSWER = 4_000_000
_PAGE = 200  # guilds in one answer
_PAGES = 10
_CONTENT = 1 << 18 | 1 << 19  # flags of an application: the intent is on, for many or for few servers

_NEEDED = {
    "view_channel": "View Channels",
    "send_messages": "Send Messages",
    "send_messages_in_threads": "Send Messages in Threads",
    "add_reactions": "Add Reactions",
    "read_message_history": "Read Message History",
    "embed_links": "Embed Links",
    "attach_files": "Attach Files",
}
_FOR_FACES = {
    "off": {},
    "profile": {"change_nickname": "Change Nickname"},
    "webhook": {"manage_webhooks": "Manage Webhooks"},
}


@dataclass(frozen=True, slots=True)
class Membership:
    """A guild that the bot is in. `name` is a stranger's word.

    Attributes:
        missing: the permissions that the bot lacks there; None: the server does not tell what it may do.
    """

    name: str
    missing: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class BotInfo:
    """A bot.

    Attributes:
        name: as others see it.
        host: where it is at home.
        portal: the page of its application on Discord, where the operator can change it; "" elsewhere.
        application: id of the application it belongs to; 0: the server does not tell.
        reads: whether it is shown what people write; None: the server does not tell.
        guilds: the first two thousand that it is in.
        invitation: the link that invites it; "" for another server than Discord.
        permissions: the bits of all that it needs.
    """

    name: str
    host: str
    portal: str
    application: int
    reads: bool | None
    guilds: Sequence[Membership]
    invitation: str
    permissions: int


class _User(msgspec.Struct):
    id: str
    username: str


class _Application(msgspec.Struct):
    id: str
    flags: int = 0


class _Guild(msgspec.Struct):
    id: str
    name: str
    permissions: str | int | None = None
    owner: bool = False


def needed(rules: Rules) -> Mapping[str, str]:
    """Return the permissions that a bot needs in a guild: discord.py's names, and those that people read."""
    return {**_NEEDED, **_FOR_FACES[rules.faces]}


def invitation(application: int, permissions: int) -> str:
    """Return the link by which somebody who manages a guild lets the bot in."""
    query = urlencode(
        {"client_id": application, "permissions": permissions, "scope": "bot applications.commands"}
    )
    return f"https://discord.com/oauth2/authorize?{query}"


async def look_up(rules: Rules, token: str, api_url: str = "") -> BotInfo:
    """Ask Discord, or the server at `api_url`, for everything of the bot.

    Raises:
        ConfigError: the token is not known there, or what answers is not Discord.
        PixiError: it cannot be asked now.
    """
    server = await find_server(api_url, token) if api_url else DiscordServer(DISCORD, "")
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    headers = {"Authorization": f"Bot {token}", "User-Agent": "DiscordBot (pixi-persona, 1)"}
    async with aiohttp.ClientSession(
        timeout=timeout, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        asking = _Asking(session, server.rest, portal="" if api_url else PORTAL)
        me = await asking.me()
        application = await asking.application()
        guilds = await asking.guilds()
    wanted = needed(rules)
    bits = discord.Permissions(**dict.fromkeys(wanted, True)).value
    number = int(application.id) if application and application.id.isdecimal() else 0
    return BotInfo(
        name=me.username,
        host=urlsplit(server.rest).hostname or server.rest,
        portal="" if api_url else f"{PORTAL}/{number or ''}",
        application=number,
        reads=bool(application.flags & _CONTENT) if application else None,
        guilds=[Membership(guild.name, _missing(guild, wanted)) for guild in guilds],
        invitation=invitation(number, bits) if number and not api_url else "",
        permissions=bits,
    )


def _missing(guild: _Guild, wanted: Mapping[str, str]) -> tuple[str, ...] | None:
    if guild.owner:
        return ()
    try:
        may = discord.Permissions(int(guild.permissions or ""))
    except ValueError:
        return None  # the server does not tell, or not in Discord's way
    if may.administrator:
        return ()
    return tuple(name for permission, name in wanted.items() if not getattr(may, permission))


class _Asking:
    """The questions."""

    def __init__(self, session: aiohttp.ClientSession, rest: str, *, portal: str) -> None:
        self._session = session
        self._portal = portal
        self._rest = rest
        self._host = urlsplit(rest).hostname or rest

    async def me(self) -> _User:
        """Return the bot's user."""
        status, body = await self._get("/users/@me")
        if status == 401:
            where = f"at {self._portal}, page Bot" if self._portal else "there"
            raise ConfigError(f"{self._host} does not know the token: make a new one {where}.")
        if status != 200:
            raise PixiError(self._refused(status))
        try:
            return msgspec.json.decode(body, type=_User)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ConfigError(
                f"{self._host} does not answer as Discord does; mend discord.api_url, or a proxy between."
            ) from None

    async def application(self) -> _Application | None:
        """Return what the bot belongs to; None where the server has no such thing."""
        for path in ("/applications/@me", "/oauth2/applications/@me"):
            status, body = await self._get(path)
            if status == 200:
                try:
                    return msgspec.json.decode(body, type=_Application)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
        return None

    async def guilds(self) -> list[_Guild]:
        """Return the guilds that it is in, page by page."""
        found: list[_Guild] = []
        for _ in range(_PAGES):
            after = f"&after={found[-1].id}" if found else ""
            status, body = await self._get(f"/users/@me/guilds?limit={_PAGE}{after}")
            if status != 200:
                raise PixiError(f"the servers that it is in are not told: {self._refused(status)}")
            try:
                page = msgspec.json.decode(body, type=list[_Guild])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise PixiError("the servers that it is in are not told as Discord does it.") from None
            found += page
            if len(page) < _PAGE:
                break
        return found

    async def _get(self, path: str) -> tuple[int, bytes]:
        try:
            async with self._session.get(self._rest + path) as response:
                body = b""
                async for piece in response.content.iter_chunked(65_536):
                    body += piece
                    if len(body) > _LARGEST_ANSWER:
                        return response.status, b""
                return response.status, body
        except TimeoutError:
            raise PixiError(f"{self._host} did not answer in {_SECONDS:.0f} seconds; try again.") from None
        except aiohttp.ClientError as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise PixiError(f"{self._host} cannot be reached ({reason}); look at the network.") from None

    def _refused(self, status: int) -> str:
        if status == 429:
            return f"{self._host} wants to be left alone for a while; try again later."
        return f"{self._host} answers with status {status}; try again later."
