"""Whom the loopback Discord's gateway refuses, and what it does not tell, as Discord does."""

import asyncio

import discord
import pytest

from pixi.testing.discord import GatewayIntents, LoopbackDiscord, Permission
from tests.servers.clients import Bot, connected, heard, pointed_at, socket
from tests.waiting import put_forward


async def test_a_wrong_token_is_refused_by_rest_and_gateway(server: LoopbackDiscord) -> None:
    with pointed_at(server):
        async with Bot() as bot:
            with pytest.raises(discord.LoginFailure):
                await bot.start("wrong")
    async with socket(server) as line:
        await line.take(op=10)
        await line.identify("wrong")
        assert await line.close_code() == 4004


@pytest.mark.parametrize(
    ("intents", "more", "code"),
    [
        (1 << 15, {}, 4014),
        (1 << 40, {}, 4013),
        (1, {"shard": [2, 2]}, 4010),
        (1, {"shard": [0, 1]}, 4011),
    ],
)
async def test_an_identify_that_is_wrong_closes_with_its_code(
    server: LoopbackDiscord, intents: int, more: dict[str, object], code: int
) -> None:
    server.guild()
    server.allow_intents(GatewayIntents(0))
    server.gateway.settings.guilds_per_shard = 0 if code == 4011 else 10
    async with socket(server) as line:
        await line.identify(server.token, intents, **more)
        assert await line.close_code() == code


async def test_events_go_to_the_shard_and_the_intents_that_get_them(server: LoopbackDiscord) -> None:
    first, second = server.guild("first", shard=0, of=2), server.guild("second", shard=1, of=2)
    here, there = first.channel(), second.channel()
    mo = server.person("Mo")
    async with connected(server, shards=2) as bot:
        assert {guild.name: guild.shard_id for guild in bot.guilds} == {"first": 0, "second": 1}
        assert sorted(session.shard for session in server.world.hub.live()) == [0, 1]
        for place in (here, there, server.dm(mo)):
            await place.say(mo, "hi")
        await heard(bot, "message", 3)
        kept = {session.shard: [raw for _, raw in session.kept] for session in server.world.hub.live()}
        assert sum(b"MESSAGE_CREATE" in raw for raw in kept[0]) == 2  # its guild, and the DM
        assert sum(b"MESSAGE_CREATE" in raw for raw in kept[1]) == 1
    async with connected(server, discord.Intents(guilds=True, dm_messages=True)) as bot:
        await here.say(mo, "not heard")
        await server.dm(mo).say(mo, "heard")
        await heard(bot, "message")
        assert bot.texts() == ["heard"]


async def test_content_is_kept_from_who_did_not_ask_for_it(server: LoopbackDiscord) -> None:
    intents = discord.Intents(guilds=True, messages=True)
    general = server.guild().channel()
    mo, ada = server.person("Mo"), server.person("Ada")
    async with connected(server, intents) as bot:
        secret = await general.say(mo, "a secret", attachments=[("a.txt", "text/plain", b"a")])
        await general.say(mo, f"{ada.mention} still a secret", reply_to=secret)
        await general.say(mo, f"{server.bot.mention} for you")
        await server.dm(mo).say(mo, "between us")
        await bot.channel(general.id).send("my own")
        messages = await heard(bot, "message", 5)
        assert [each.content for each in messages] == [
            "",
            "",
            f"<@{server.bot.id}> for you",
            "between us",
            "my own",
        ]
        assert messages[0].attachments == []
        assert messages[1].reference.resolved.content == ""
    server.allow_intents(GatewayIntents(0))
    async with connected(server, intents) as bot:  # then REST hides it too
        history = [each.content async for each in bot.channel(general.id).history(oldest_first=True)]
        assert history == ["", "", f"<@{server.bot.id}> for you", "my own"]


async def test_a_session_that_is_gone_begins_anew_and_what_happened_is_missed(
    server: LoopbackDiscord,
) -> None:
    general = server.guild().channel()
    mo = server.person("Mo")
    async with connected(server) as bot:
        await general.say(mo, "one")
        await heard(bot, "message")
        async with server.away(lose=True):
            await general.say(mo, "missed")
        await heard(bot, "ready", 2)
        await general.say(mo, "three")
        await heard(bot, "message", 2)
        assert bot.texts() == ["one", "three"]
        assert (server.gateway.identifies, server.gateway.resumes) == (2, 1)


async def test_an_event_can_come_twice(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    async with connected(server) as bot:
        await general.say(server.person("Mo"), "hi")
        server.replay()
        first, second = await heard(bot, "message", 2)
        assert first.id == second.id


async def test_what_the_bot_cannot_see_is_not_told(server: LoopbackDiscord) -> None:
    guild = server.guild()
    hidden = guild.channel("hidden", deny_everyone=Permission.VIEW_CHANNEL)
    closed = guild.thread(guild.channel(), "closed", private=True)
    mo = server.person("Mo")
    async with connected(server) as bot:
        await hidden.say(mo, "psst")
        await closed.say(mo, "psst")
        hidden.overwrite(server.bot, allow=Permission.VIEW_CHANNEL)
        closed.follow(server.bot)
        await hidden.say(mo, "hello")
        await closed.say(mo, "hello")
        await heard(bot, "message", 2)
        assert bot.texts() == ["hello", "hello"]


async def test_it_is_idle_after_so_many_turns_of_the_loop_however_long_one_takes(
    server: LoopbackDiscord,
) -> None:
    waiting = asyncio.create_task(server.idle(quiet=100.0, timeout=1e6))
    await asyncio.sleep(0)
    naps = 0
    while not waiting.done():
        put_forward(100.0)  # as if the process had got no processor for so long
        naps += 1
        for _ in range(5):
            await asyncio.sleep(0)
    assert naps == 10
