"""The loopback Discord's search, pins and lists of members, as its documents have them."""

from typing import Any

import discord

from pixi.testing.discord import LoopbackDiscord, Permission
from tests.servers.clients import connected
from tests.servers.test_loopback import asked, code_of

SILENT = Permission.READ_MESSAGE_HISTORY


def texts(body: dict[str, Any]) -> list[str]:
    return [each["content"] for (each,) in body["messages"]]


async def test_a_search_gives_what_the_bot_may_read_newest_first_in_pages(server: LoopbackDiscord) -> None:
    guild, mo, ana = server.guild(), server.person("Mo"), server.person("Ana")
    general, unread = guild.channel(), guild.channel("unread", deny_bot=SILENT)
    adult = guild.channel("adult", nsfw=True)
    for channel in (general, unread, adult):
        await channel.say(mo, f"Butter in {channel.name}")
    post = await guild.forum().post(ana, "title", "butter in a post")
    private = guild.thread(general, private=True)
    await private.say(ana, "butter in private")
    path = f"/guilds/{guild.id}/messages/search"
    status, body = await asked(server, "GET", f"{path}?content=BUTTER+in")
    assert (status, body["total_results"]) == (200, 2)
    assert texts(body) == ["butter in a post", "Butter in general"]
    assert [each["id"] for each in body["threads"]] == [str(post.id)]
    body = (await asked(server, "GET", f"{path}?content=butter&include_nsfw=true&limit=1&offset=1"))[1]
    assert (texts(body), body["total_results"]) == (["Butter in adult"], 3)
    chosen = f"{path}?channel_id={adult.id}&channel_id={general.id}&author_id={mo.id}"
    assert texts((await asked(server, "GET", chosen))[1]) == ["Butter in general"]
    body = (await asked(server, "GET", f"{path}?content=butter&max_id={general.messages[0].id + 1}"))[1]
    assert texts(body) == ["Butter in general"]
    body = (await asked(server, "GET", f"{path}?content=butter&channel_id={post.parent.id}"))[1]  # type: ignore[union-attr]
    assert texts(body) == ["butter in a post"], "a forum means its posts"


async def test_a_search_is_refused_or_put_off(server: LoopbackDiscord) -> None:
    guild = server.guild()
    path = f"/guilds/{guild.id}/messages/search"
    assert code_of((await asked(server, "GET", f"{path}?limit=26"))[1], "limit") == "NUMBER_TYPE_MAX"
    assert code_of((await asked(server, "GET", f"{path}?content={'a' * 1025}"))[1], "content")
    server.world.index_waits = 1
    status, body = await asked(server, "GET", f"{path}?content=a")
    assert (status, body["code"]) == (202, 110_000)
    assert (await asked(server, "GET", f"{path}?content=a"))[0] == 200
    server.world.shows_content = False
    assert (await asked(server, "GET", f"{path}?content=a"))[0] == 403


async def test_pins_are_read_as_discord_py_does_and_as_of_old(server: LoopbackDiscord) -> None:
    guild, mo = server.guild(), server.person("Mo")
    general = guild.channel()
    for number in range(3):
        general.pin(await general.say(mo, f"pin {number}"))
    async with connected(server) as bot:
        there = bot.get_channel(general.id)
        assert isinstance(there, discord.TextChannel)
        assert [each.content async for each in there.pins()] == ["pin 2", "pin 1", "pin 0"]
    path = f"/channels/{general.id}/messages/pins?limit=2"
    body = (await asked(server, "GET", path))[1]
    assert ([each["message"]["content"] for each in body["items"]], body["has_more"]) == (
        ["pin 2", "pin 1"],
        True,
    )
    old: Any = (await asked(server, "GET", f"/channels/{general.id}/pins"))[1]
    assert [each["pinned"] for each in old] == [True] * 3
    general.overwrite(server.bot, deny=SILENT)
    assert (await asked(server, "GET", path))[1]["items"] == []
