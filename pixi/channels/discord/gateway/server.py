"""Which server is Discord: the one at discord.com, or another that speaks the same language."""

import json
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from discord.http import Route

from pixi.core.errors import ConfigError

_SECONDS = 10.0  # for one question
_LARGEST_ANSWER = 100_000
_ENDINGS = ("", "/v10", "/api/v10", "/v9", "/api/v9", "/api")
"""What may be missing at the end of an address that an operator wrote, the likeliest first."""

_MEND = "Set discord.api_url to the address of its REST API, e.g. https://chat.example.org/api/v10."


@dataclass(frozen=True, slots=True)
class DiscordServer:
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


def address_of_chat() -> str:
    """Return where people read the chat. Another server's client is taken to be where its API is."""
    api = urlsplit(Route.BASE)
    return "https://discord.com" if api.hostname == "discord.com" else f"{api.scheme}://{api.netloc}"


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
            answer = await _answer(response)
            status, final = response.status, str(response.url.with_query(None))
    except aiohttp.ClientConnectorError:
        raise
    except aiohttp.ClientError as error:
        return None, type(error).__name__
    gateway = answer.get("url")
    if status != 200 or not isinstance(gateway, str):
        return None, f"status {status}" if status != 200 else "no gateway in it"
    if not gateway.startswith(("ws://", "wss://")):
        return None, "its gateway is no ws:// or wss:// address"
    return DiscordServer(final.removesuffix(path), gateway), ""


async def _with_shards(session: aiohttp.ClientSession, server: DiscordServer, token: str) -> DiscordServer:
    """Add as many shards as the server recommends; one where it does not say."""
    headers = {"Authorization": f"Bot {token}"}
    try:
        async with session.get(f"{server.rest}/gateway/bot", headers=headers) as response:
            answer = await _answer(response)
    except (aiohttp.ClientError, TimeoutError):
        return server
    limits = answer.get("session_start_limit")
    at_once = limits.get("max_concurrency") if isinstance(limits, dict) else 1
    return DiscordServer(server.rest, server.gateway, _count(answer.get("shards")), _count(at_once))


def _count(told: object) -> int:
    """Return a sensible number of shards; 1 for what is none."""
    return int(told) if isinstance(told, int) and 1 <= told <= 100_000 else 1


async def _answer(response: aiohttp.ClientResponse) -> dict[str, object]:
    """Return the object that an answer holds as JSON, whatever its content type says; else an empty one."""
    body = b""
    async for piece in response.content.iter_chunked(16_384):
        body += piece
        if len(body) > _LARGEST_ANSWER:
            return {}
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
