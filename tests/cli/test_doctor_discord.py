"""What `doctor` tells of Discord: each thing that can be wrong has its line, and no line shows the token."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from pixi.app.doctor import servers
from pixi.channels.discord.gateway import preflight
from pixi.settings import Settings, load
from pixi.settings.rules import Faces, Rules
from pixi.testing.discord import Guild, LoopbackDiscord, Permission, RefusedCall
from tests.servers.staged_web import served

P = Permission
ENOUGH = (
    P.VIEW_CHANNEL
    | P.SEND_MESSAGES
    | P.SEND_MESSAGES_IN_THREADS
    | P.ADD_REACTIONS
    | P.READ_MESSAGE_HISTORY
    | P.EMBED_LINKS
    | P.ATTACH_FILES
)


def settings(folder: Path, api_url: str, token: str, **more: object) -> Settings:
    overrides = {"discord.api_url": api_url, **{key.replace("__", "."): value for key, value in more.items()}}
    return load(environ={"DISCORD_TOKEN": token}, folder=folder, overrides=overrides)


async def told(settings: Settings) -> list[str]:
    lines = [str(finding) async for finding in servers.check_discord(settings)]
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    assert settings.discord.token is None or settings.discord.token.reveal() not in "\n".join(lines)
    return lines


def allowed(guild: Guild, permissions: Permission) -> None:
    """Let the bot do this in a guild and no more."""
    guild.everyone.permissions = P(0)
    guild.bot_role.permissions = permissions


@pytest.fixture
async def discord() -> AsyncIterator[LoopbackDiscord]:
    async with LoopbackDiscord() as made:
        yield made


async def test_without_a_token_it_is_not_set_up_and_that_is_no_fault(tmp_path: Path) -> None:
    (line,) = await told(load(environ={}, folder=tmp_path))
    assert line == (
        "ok   discord — not set up; `pixi-persona discord` needs DISCORD_TOKEN in the environment or in .env"
    )


async def test_a_bot_to_which_nothing_is_missing(discord: LoopbackDiscord, tmp_path: Path) -> None:
    allowed(discord.guild("Pancake house"), ENOUGH)
    lines = await told(settings(tmp_path, discord.api_url, discord.token))
    assert lines[:3] == [
        "ok   discord — Pixi at 127.0.0.1, by the token set by DISCORD_TOKEN",
        "ok   discord — it is shown what people write (Message Content Intent)",
        "ok   discord — in 1 server, with all permissions that it needs",
    ]
    assert f"client id {discord.world.application_id}, permissions {int(ENOUGH)}" in lines[3]
    assert len(lines) == 4


async def test_a_bot_in_no_server(discord: LoopbackDiscord, tmp_path: Path) -> None:
    lines = await told(settings(tmp_path, discord.api_url, discord.token))
    assert "ok   discord — it is in no server yet" in lines


async def test_a_token_that_nobody_knows(discord: LoopbackDiscord, tmp_path: Path) -> None:
    (line,) = await told(settings(tmp_path, discord.api_url, "canary-of-a-token"))
    assert line.startswith("fail discord — the token set by DISCORD_TOKEN: 127.0.0.1 does not know the token")
    assert "discord.com" not in line


async def test_the_intent_is_missing(discord: LoopbackDiscord, tmp_path: Path) -> None:
    discord.world.shows_content = False
    lines = await told(settings(tmp_path, discord.api_url, discord.token))
    assert "fail discord — it is not shown what people write: switch on Message Content Intent" in lines


async def test_on_a_server_that_tells_no_permissions_none_is_missing(tmp_path: Path) -> None:
    async with LoopbackDiscord(lean=True) as discord:
        discord.guild("Pancake house")
        lines = await told(settings(tmp_path, discord.api_url, discord.token))
    assert "ok   discord — in 1 server; of 1 it is not told what it may do there" in lines
    assert not any(line.startswith("fail") or "discord.com" in line for line in lines)


@pytest.mark.parametrize(
    ("faces", "more"), [("off", ""), ("profile", "Change Nickname"), ("webhook", "Manage Webhooks")]
)
async def test_permissions_that_are_missing_are_named_in_each_server(
    discord: LoopbackDiscord, tmp_path: Path, faces: Faces, more: str
) -> None:
    allowed(discord.guild("Fine"), ENOUGH | P.CHANGE_NICKNAME | P.MANAGE_WEBHOOKS)
    allowed(discord.guild("Ruled"), P.ADMINISTRATOR)
    allowed(discord.guild("\x1b[31mBad\nok   discord — all is well"), ENOUGH & ~P.ADD_REACTIONS)
    lines = await told(settings(tmp_path, discord.api_url, discord.token, discord__faces=faces))
    failed = [line for line in lines if line.startswith("fail")]
    missing = ", ".join(["Add Reactions", more] if more else ["Add Reactions"])
    assert len(failed) == 1
    assert failed[0].startswith("fail discord — in \\x1b[31mBad ok discord — all is well it may not: ")
    assert f"it may not: {missing}; give its role these permissions" in failed[0]


async def test_many_servers_are_read_page_by_page_and_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "_PAGE", 10)
    async with LoopbackDiscord() as discord:
        for number in range(25):
            allowed(discord.guild(f"Guild {number}"), P(0))
        lines = await told(settings(tmp_path, discord.api_url, discord.token))
        assert len(discord.asked("GET", "/users/@me/guilds")) == 3
    assert sum(line.startswith("fail discord — in Guild") for line in lines) == 20
    assert "fail discord — … and in 5 more servers something is missing" in lines


@asynccontextmanager
async def answering(body: str, status: int = 200, kind: str = "text/html") -> AsyncGenerator[str, None]:
    """A web server that answers everything so."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body, content_type=kind)

    async with served({"/{rest:.*}": answer}) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_server_that_is_not_discord(tmp_path: Path) -> None:
    async with answering("<h1>Welcome</h1>") as url:
        (line,) = await told(settings(tmp_path, url, "canary-of-a-token"))
    assert line.startswith("fail discord — the token set by DISCORD_TOKEN: Nothing at http://127.0.0.1:")
    assert "answers as Discord's API" in line


async def test_a_server_that_only_looks_like_discord(tmp_path: Path) -> None:
    async with answering('{"url": "wss://gateway.example"}', kind="application/json") as url:
        (line,) = await told(settings(tmp_path, url, "canary-of-a-token"))
    assert "127.0.0.1 does not answer as Discord does; mend discord.api_url" in line


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    (line,) = await told(settings(tmp_path, "http://127.0.0.1:9/api", "canary-of-a-token"))
    assert "cannot be reached" in line


async def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_SECONDS", 0.2)

    async def hang(_: object) -> None:
        await asyncio.sleep(30)

    async with LoopbackDiscord() as discord:
        discord.before("GET", "/users/@me$", hang)
        (line,) = await told(settings(tmp_path, discord.api_url, discord.token))
    assert "did not answer in" in line


async def test_a_server_without_applications_or_guild_lists(discord: LoopbackDiscord, tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise RefusedCall(404, 0, "404: Not Found")

    discord.before("GET", "/applications/@me$", refuse)
    lines = await told(settings(tmp_path, discord.api_url, discord.token))
    assert "ok   discord — the server tells nothing of intents" in lines
    assert any("to invite it: client id its own id" in line for line in lines)
    discord.before("GET", "/users/@me/guilds$", refuse)
    (line,) = await told(settings(tmp_path, discord.api_url, discord.token))
    assert line.startswith("fail discord — the token set by DISCORD_TOKEN: the servers that it is in are not")


async def test_discord_itself_is_asked_where_no_other_server_is_set(
    discord: LoopbackDiscord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert preflight.DISCORD == "https://discord.com/api/v10"
    allowed(discord.guild("Pancake house"), ENOUGH)
    monkeypatch.setattr(preflight, "DISCORD", f"{discord.api_url}/v10")
    monkeypatch.setattr(preflight, "find_server", None)
    lines = await told(settings(tmp_path, "", discord.token))
    (wrong,) = await told(settings(tmp_path, "", "canary-of-a-token"))
    discord.world.shows_content = False
    unread = await told(settings(tmp_path, "", discord.token))
    assert "make a new one at https://discord.com/developers/applications, page Bot." in wrong
    page = f"https://discord.com/developers/applications/{discord.world.application_id}/bot"
    assert any(line.endswith(f"switch on Message Content Intent at {page}") for line in unread)
    (link,) = (line.split()[-1] for line in lines if "invite it with" in line)
    query = parse_qs(urlsplit(link).query)
    assert link.startswith("https://discord.com/oauth2/authorize?")
    assert query == {
        "client_id": [str(discord.world.application_id)],
        "permissions": [str(int(ENOUGH))],
        "scope": ["bot applications.commands"],
    }


async def test_a_discord_py_that_does_not_fit_is_told_with_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("discord.http.json_or_text")
    for name in [each for each in sys.modules if each.startswith("pixi.channels.discord.gateway")]:
        monkeypatch.delitem(sys.modules, name)  # it is imported anew
    (line,) = await told(settings(tmp_path, "", "t0ken"))
    assert line.startswith("fail discord — discord.py ")
    assert line.endswith(
        "it has no discord.http.json_or_text. Install one that does: pip install 'discord.py>=2.7,<2.8'"
    )


def test_what_is_needed_follows_from_the_faces() -> None:
    usual = set(preflight.needed(Rules()))
    assert set(preflight.needed(Rules(faces="webhook"))) - usual == {"manage_webhooks"}
    assert set(preflight.needed(Rules(faces="profile"))) - usual == {"change_nickname"}
