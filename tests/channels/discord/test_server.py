import socket
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import discord
import pytest
import yarl
from aiohttp import web
from discord.asset import Asset
from discord.gateway import DiscordWebSocket
from discord.http import Route

from pixi.channels.discord.gateway import REQUIREMENT, check
from pixi.channels.discord.gateway.client import Client, Shards
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import DiscordServer, find_server
from pixi.core.errors import ConfigError
from tests.pages import ROOT
from tests.servers.staged_web import served

GATEWAY = {"url": "ws://127.0.0.1:9/gate"}
BOT = {"id": "80351110224678912", "username": "pixi", "discriminator": "0", "avatar": None, "bot": True}


@asynccontextmanager
async def serving(pages: Mapping[str, Any]) -> AsyncIterator[tuple[str, list[web.Request]]]:
    """A web server with these pages: a dict is JSON, text is a page, a response is itself."""
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        page = pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="nothing here")
        if isinstance(page, str):
            if page.startswith("/"):
                raise web.HTTPPermanentRedirect(page)
            return web.Response(text=page, content_type="text/html")
        return web.json_response(page)

    async with served({"/{tail:.*}": answer}) as port:
        yield f"http://127.0.0.1:{port}", seen


@pytest.mark.parametrize("base", ["", "/v10", "/api/v10", "/api", "/api/v9", "/some/where/api/v10"])
@pytest.mark.parametrize("given", ["{base}", "{base}/", "{base}/gateway", " {base}// "])
async def test_the_api_is_found_where_it_was_said_to_be(base: str, given: str) -> None:
    async with serving({f"{base}/gateway": GATEWAY}) as (url, _):
        server = await find_server(given.format(base=url + base), "t0ken")

        assert server == DiscordServer(url + base, "ws://127.0.0.1:9/gate")


@pytest.mark.parametrize("ending", ["/v10", "/api/v10", "/api/v9", "/api"])
async def test_the_end_of_the_address_may_be_missing(ending: str) -> None:
    pages = {"/gateway": "<html>a page of an app</html>", f"{ending}/gateway": GATEWAY}
    async with serving(pages) as (url, _):
        assert (await find_server(url, "t0ken")).rest == url + ending


async def test_a_redirect_is_followed_once_and_for_all() -> None:
    async with serving({"/gateway": "/api/v10/gateway", "/api/v10/gateway": GATEWAY}) as (url, _):
        assert (await find_server(url, "t0ken")).rest == f"{url}/api/v10"


async def test_the_gateway_is_asked_for_without_the_token_first() -> None:
    async with serving({"/gateway": GATEWAY}) as (url, seen):
        await find_server(url, "t0ken")

        assert "Authorization" not in seen[0].headers
        assert seen[-1].path == "/gateway/bot"
        assert seen[-1].headers["Authorization"] == "Bot t0ken"


async def test_the_bots_gateway_will_do_and_tells_of_shards() -> None:
    answer = {**GATEWAY, "shards": 3, "session_start_limit": {"max_concurrency": 16}}
    async with serving({"/gateway/bot": answer}) as (url, _):
        assert await find_server(url, "t0ken") == DiscordServer(
            url, GATEWAY["url"], shards=3, sessions_at_once=16
        )


@pytest.mark.parametrize("shards", [0, -1, True, "two", None, 10**9, 1.5])
async def test_odd_numbers_of_shards_are_one(shards: object) -> None:
    async with serving({"/gateway": GATEWAY, "/gateway/bot": {**GATEWAY, "shards": shards}}) as (url, _):
        assert (await find_server(url, "t0ken")).shards == 1


@pytest.mark.parametrize(
    ("told", "shards", "at_once"),
    [
        ({"shards": 3, "session_start_limit": None}, 3, 1),
        ({"shards": None, "session_start_limit": {"max_concurrency": 16}}, 1, 16),
    ],
)
async def test_an_odd_field_costs_no_other(told: Mapping[str, object], shards: int, at_once: int) -> None:
    async with serving({"/gateway": GATEWAY, "/gateway/bot": {**GATEWAY, **told}}) as (url, _):
        found = await find_server(url, "t0ken")
        assert (found.shards, found.sessions_at_once) == (shards, at_once)


@pytest.mark.parametrize(
    "page", ["<html>", {"url": 3}, {}, {"url": "https://example.org"}, [GATEWAY], {"message": "401"}]
)
async def test_what_does_not_answer_like_discord_is_refused_with_the_mend(page: object) -> None:
    async with serving({"/gateway": page}) as (url, _):
        with pytest.raises(ConfigError) as caught:
            await find_server(url, "t0ken")

    assert url in str(caught.value)
    assert "discord.api_url" in str(caught.value)
    assert "t0ken" not in str(caught.value)


async def test_where_nothing_listens_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match="cannot be reached"):
            await find_server(url, "t0ken")


@pytest.mark.parametrize(
    "url", ["chat.example.org", "ftp://a", "http://", "https:///api", "http://a:b", "javascript:1"]
)
async def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(ConfigError, match=r"discord\.api_url"):
        await find_server(url, "t0ken")


async def test_discord_py_talks_to_the_server_and_back_to_discord_afterwards() -> None:
    before = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY, Asset.BASE

    with patched(DiscordServer("http://host:1/api/v10", "ws://host:2")):
        assert Route("GET", "/users/@me").url == "http://host:1/api/v10/users/@me"
        assert yarl.URL("ws://host:2") == DiscordWebSocket.DEFAULT_GATEWAY
        assert Asset.BASE == "http://host:1"
    assert before == (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY, Asset.BASE)

    with patched():
        assert before == (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY, Asset.BASE)


async def test_json_with_a_charset_is_json_to_the_client_and_an_unknown_application_does_no_harm() -> None:
    async with serving({"/users/@me": BOT}) as (url, _):
        with patched(DiscordServer(url, "ws://host:2")):
            client = Client()
            try:
                await client.login("t0ken")
                assert client.user is not None
                assert client.user.id == client.application_id == int(BOT["id"] or 0)
            finally:
                await client.close()


@pytest.mark.parametrize(
    ("text", "ids", "count"),
    [("0-3/8", (0, 1, 2, 3), 8), ("2/8", (2,), 8), ("00-03/08", (0, 1, 2, 3), 8), (" 0 - 0 / 1 ", (0,), 1)],
)
def test_shards_are_read(text: str, ids: tuple[int, ...], count: int) -> None:
    assert Shards.parse(text) == Shards(ids, count)


@pytest.mark.parametrize(
    "text", ["", "8", "0-3", "3-0/8", "0-8/8", "8/8", "0/0", "-1/8", "a/b", "0-3/8/9", "²/8"]
)
def test_what_names_no_shards_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="shards"):
        Shards.parse(text)


def test_the_client_keeps_little_and_asks_for_little() -> None:
    client = Client(Shards((1, 2), 4))

    assert client.intents == discord.Intents(
        guilds=True, guild_messages=True, dm_messages=True, message_content=True, emojis_and_stickers=True
    )
    assert (client.shard_ids, client.shard_count) == ([1, 2], 4)
    assert list(client.cached_messages) == []


def test_a_discord_py_that_lacks_what_is_built_on_is_named_with_the_mend() -> None:
    check()
    lacking = ("discord.http:Route.BASE", "discord.http:Route.SPHERE", "discord.tides:Tide")
    with pytest.raises(ConfigError) as caught:
        check(lacking)
    assert str(caught.value) == (
        f"discord.py {discord.__version__} does not fit: "
        "it has no discord.http.Route.SPHERE, discord.tides.Tide.\n"
        f"Install one that does: pip install '{REQUIREMENT}'"
    )


def test_the_package_asks_for_the_discord_py_that_it_is_built_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert REQUIREMENT in project["dependencies"]
