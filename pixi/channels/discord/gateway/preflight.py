"""Asks over REST before a bot is connected: which server is Discord, who the bot is, what it may do where."""

from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
import discord
import msgspec

from pixi.core.errors import ConfigError, PixiError
from pixi.settings.rules import Rules

T = TypeVar("T")

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

_LARGEST_GATEWAY = 100_000
_ENDINGS = ("", "/v10", "/api/v10", "/v9", "/api/v9", "/api")
"""Endings that an operator's address may lack, the likeliest first."""

_MEND = "Set discord.api_url to the address of its REST API, e.g. https://chat.example.org/api/v10."


class Membership(msgspec.Struct, frozen=True):
    """A guild that the bot is in. `name` is a stranger's word.

    Attributes:
        missing: the permissions that the bot lacks there; None: the server does not tell what it may do.
    """

    name: str
    missing: tuple[str, ...] | None


class BotInfo(msgspec.Struct, frozen=True):
    """A bot as the server knows it.

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


class _Gateway(msgspec.Struct):
    url: str


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
    """Asks one server about one bot."""

    def __init__(self, session: aiohttp.ClientSession, rest: str, *, portal: str) -> None:
        self._session = session
        self._portal = portal
        self._rest = rest
        self._host = urlsplit(rest).hostname or rest

    async def me(self) -> _User:
        """Return the bot's user."""
        status, user = await self._get("/users/@me", _User)
        if status == 401:
            where = f"at {self._portal}, page Bot" if self._portal else "there"
            raise ConfigError(f"{self._host} does not know the token: make a new one {where}.")
        if status != 200:
            raise PixiError(self._refused(status))
        if user is None:
            raise ConfigError(
                f"{self._host} does not answer as Discord does; mend discord.api_url, or a proxy between."
            )
        return user

    async def application(self) -> _Application | None:
        """Return what the bot belongs to; None where the server has no such thing."""
        for path in ("/applications/@me", "/oauth2/applications/@me"):
            status, found = await self._get(path, _Application)
            if status == 200 and found is not None:
                return found
        return None

    async def guilds(self) -> list[_Guild]:
        """Return the guilds that it is in, page by page."""
        found: list[_Guild] = []
        for _ in range(_PAGES):
            after = f"&after={found[-1].id}" if found else ""
            status, page = await self._get(f"/users/@me/guilds?limit={_PAGE}{after}", list[_Guild])
            if status != 200:
                raise PixiError(f"the servers that it is in are not told: {self._refused(status)}")
            if page is None:
                raise PixiError("the servers that it is in are not told as Discord does it.")
            found += page
            if len(page) < _PAGE:
                break
        return found

    async def _get(self, path: str, kind: type[T]) -> tuple[int, T | None]:
        """Return the status of an answer, and the answer; None: it is of another kind."""
        try:
            async with self._session.get(self._rest + path) as response:
                return response.status, await _answer(response, kind, _LARGEST_ANSWER)
        except TimeoutError:
            raise PixiError(f"{self._host} did not answer in {_SECONDS:.0f} seconds; try again.") from None
        except aiohttp.ClientError as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise PixiError(f"{self._host} cannot be reached ({reason}); look at the network.") from None

    def _refused(self, status: int) -> str:
        if status == 429:
            return f"{self._host} wants to be left alone for a while; try again later."
        return f"{self._host} answers with status {status}; try again later."


class DiscordServer(msgspec.Struct, frozen=True):
    """A server that speaks Discord's language.

    Attributes:
        rest: what all addresses of its REST API begin with.
        gateway: where its gateway is, `ws://…` or `wss://…`.
        shards: how many shards it wants.
        sessions_at_once: how many of them may begin a session within five seconds.
    """

    rest: str
    gateway: str
    shards: int = 1
    sessions_at_once: int = 1


async def find_server(api_url: str, token: str) -> DiscordServer:
    """Find REST API and gateway of a server from what an operator wrote, by asking for its gateway.

    Raises:
        ConfigError: nothing there answers as Discord does.
    """
    given = _checked(api_url)
    bases = list(dict.fromkeys(given + ending for ending in _ENDINGS))
    tried: list[str] = []
    why_not = ""
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        for base in bases:
            for path, headers in (("/gateway", {}), ("/gateway/bot", {"Authorization": f"Bot {token}"})):
                try:
                    found, why_not = await _ask(session, base, path, headers)
                except (aiohttp.ClientConnectorError, TimeoutError) as error:
                    what = str(error) or f"no answer in {_SECONDS:.0f} seconds"
                    raise ConfigError(
                        f"Discord's API cannot be reached at {given}: {what}.\n{_MEND}"
                    ) from None
                if found is not None:
                    return await _with_shards(session, found, token)
            tried.append(f"{base}/gateway ({why_not})")
    raise ConfigError(f"Nothing at {given} answers as Discord's API: tried {', '.join(tried[:3])}.\n{_MEND}")


def _checked(api_url: str) -> str:
    given = api_url.strip().rstrip("/").removesuffix("/gateway").rstrip("/")
    try:
        parts = urlsplit(given)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(
            f"discord.api_url is {api_url!r}, which is no http:// or https:// address.\n{_MEND}"
        )
    return given


async def _ask(
    session: aiohttp.ClientSession, base: str, path: str, headers: dict[str, str]
) -> tuple[DiscordServer | None, str]:
    """Return the server, if the answer is one of Discord's; else why it is none, in a few words."""
    try:
        async with session.get(base + path, headers=headers) as response:
            answer = await _answer(response, _Gateway, _LARGEST_GATEWAY)
            status, final = response.status, str(response.url.with_query(None))
    except aiohttp.ClientConnectorError:
        raise
    except aiohttp.ClientError as error:
        return None, type(error).__name__
    if status != 200 or answer is None:
        return None, f"status {status}" if status != 200 else "no gateway in it"
    if not answer.url.startswith(("ws://", "wss://")):
        return None, "its gateway is no ws:// or wss:// address"
    return DiscordServer(final.removesuffix(path), answer.url), ""


async def _with_shards(session: aiohttp.ClientSession, server: DiscordServer, token: str) -> DiscordServer:
    """Add as many shards as the server recommends; one where it does not say."""
    headers = {"Authorization": f"Bot {token}"}
    try:
        async with session.get(f"{server.rest}/gateway/bot", headers=headers) as response:
            answer = await _answer(response, dict[str, object], _LARGEST_GATEWAY) or {}
    except (aiohttp.ClientError, TimeoutError):
        return server
    limits = answer.get("session_start_limit")
    at_once = limits.get("max_concurrency") if isinstance(limits, dict) else 1
    return DiscordServer(server.rest, server.gateway, _count(answer.get("shards")), _count(at_once))


def _count(told: object) -> int:
    """Return a sensible number of shards; 1 for what is none."""
    return int(told) if isinstance(told, int) and 1 <= told <= 100_000 else 1


async def _answer(response: aiohttp.ClientResponse, kind: type[T], most: int) -> T | None:
    """Return the JSON of an answer, whatever its type is called; None: it is another thing, or too long."""
    body = b""
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > most:
            return None
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
