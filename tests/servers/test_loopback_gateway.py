"""The loopback Discord's gateway, as discord.py and bare sockets find it."""

import asyncio
import shutil
import subprocess

import aiohttp
import discord
import pytest

from tests.servers.clients import Bot, connected, heard, pointed_at, socket
from tests.servers.loopback_discord import Intent, LoopbackDiscord, Permission
from tests.servers.loopback_discord.wire import ZstdStream


async def test_a_bot_logs_in_and_sees_its_guilds() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild("Pancake house")
        general, forum = guild.channel("general", topic="batter"), guild.forum("recipes", tags=["sweet"])
        role, emoji = guild.role("cook", mentionable=True), guild.emoji("pancake")
        thread = guild.thread(general, "syrup")
        mo = server.person("Mo")
        guild.join(mo, roles=[role], nick="Momo")
        async with connected(server) as bot:
            seen = bot.guilds[0]
            assert (seen.id, seen.name) == (guild.id, "Pancake house")
            assert {each.name for each in seen.channels} == {"general", "recipes"}
            assert [tag.name for tag in seen.forums[0].available_tags] == ["sweet"]
            assert seen.forums[0].id == forum.id
            assert [each.id for each in seen.threads] == [thread.id]
            assert [each.id for each in seen.emojis] == [emoji.id]
            assert seen.get_role(role.id) is not None
            member = seen.get_member(mo.id)
            assert member is not None
            assert member.nick == "Momo"
            assert seen.me.guild_permissions.manage_webhooks


async def test_a_wrong_token_is_refused_by_rest_and_gateway() -> None:
    async with LoopbackDiscord() as server:
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
    intents: int, more: dict[str, object], code: int
) -> None:
    async with LoopbackDiscord() as server:
        server.guild()
        server.allow_intents(Intent(0))
        server.gateway.settings.guilds_per_shard = 0 if code == 4011 else 10
        async with socket(server) as line:
            await line.identify(server.token, intents, **more)
            assert await line.close_code() == code


async def test_discord_py_tells_of_an_intent_that_is_not_switched_on() -> None:
    async with LoopbackDiscord() as server:
        server.allow_intents(Intent.GUILD_MEMBERS)
        with pytest.raises(discord.PrivilegedIntentsRequired):
            async with connected(server):
                pass


async def test_what_is_sent_wrongly_closes_with_its_code() -> None:
    async with LoopbackDiscord() as server:
        for data, code in [("{", 4002), ("x" * 5000, 4002), ('{"op":99}', 4001), ('{"op":3,"d":{}}', 4003)]:
            async with socket(server) as line:
                await line.ws.send_str(data)
                assert await line.close_code() == code
        async with socket(server) as line:
            await line.identify(server.token)
            await line.identify(server.token)
            assert await line.close_code() == 4005
        async with socket(server, "?v=3") as line:
            assert await line.close_code() == 4012
        async with socket(server) as line:
            for _ in range(121):
                await line.say(1, None)
            assert await line.close_code() == 4008


async def test_every_compression_carries_the_same_events() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild("x" * 50)
        for number in range(100):
            guild.channel(f"channel-{number}")
        for query, binary in [("", set()), ("&compress=zlib-stream", {"READY", "GUILD_CREATE", None})]:
            async with socket(server, f"?v=10&encoding=json{query}") as line:
                assert (await line.take(op=10))["d"]["heartbeat_interval"] == 41250
                await line.identify(server.token)
                await line.take(event="READY")
                assert len((await line.take(event="GUILD_CREATE"))["d"]["channels"]) == 100
                kinds = {frame.type for frame in line.frames}
                assert kinds == ({aiohttp.WSMsgType.BINARY} if binary else {aiohttp.WSMsgType.TEXT})
        async with socket(server) as line:  # single long payloads are compressed where that was asked for
            await line.identify(server.token, compress=True)
            await line.take(event="READY")
            frame = await line.ws.receive(timeout=5)
            assert frame.type is aiohttp.WSMsgType.BINARY


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd program to read it")
def test_the_zstd_stream_is_one_that_zstd_reads() -> None:
    stream = ZstdStream()
    payloads = [b'{"op":10}', b"x" * 300_000, "größer".encode()]
    data = b"".join(stream.pack(each) for each in payloads) + b"\x01\x00\x00"  # an empty last block ends it
    read = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True)
    assert read.stdout == b"".join(payloads)


async def test_events_go_to_the_shard_and_the_intents_that_get_them() -> None:
    async with LoopbackDiscord() as server:
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


async def test_content_is_kept_from_who_did_not_ask_for_it() -> None:
    intents = discord.Intents(guilds=True, messages=True)
    async with LoopbackDiscord() as server:
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
        server.allow_intents(Intent(0))
        async with connected(server, intents) as bot:  # then REST hides it too
            history = [each.content async for each in bot.channel(general.id).history(oldest_first=True)]
            assert history == ["", "", f"<@{server.bot.id}> for you", "my own"]


async def test_a_lost_connection_is_resumed_and_missed_events_come() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        mo = server.person("Mo")
        async with connected(server) as bot:
            await general.say(mo, "one")
            await heard(bot, "message")
            async with server.away():
                await general.say(mo, "two")
                await general.say(mo, "three")
            await heard(bot, "message", 3)
            assert bot.texts() == ["one", "two", "three"]
            assert (server.gateway.identifies, server.gateway.resumes) == (1, 1)
            assert len(bot.of("resumed")) == 1


async def test_a_connection_that_breaks_without_a_word_is_resumed() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot:
            server.abort()
            await general.say(server.person("Mo"), "still there?")
            await heard(bot, "message")
            assert server.gateway.resumes == 1


async def test_a_session_that_is_gone_begins_anew_and_what_happened_is_missed() -> None:
    async with LoopbackDiscord() as server:
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


async def test_the_gateway_can_ask_for_a_reconnection_and_declare_sessions_invalid() -> None:
    async with LoopbackDiscord() as server:
        server.guild()
        async with connected(server) as bot:
            server.reconnect()
            await heard(bot, "resumed")
            server.invalidate()
            await heard(bot, "ready", 2)
            assert server.gateway.identifies == 2


async def test_an_event_can_come_twice() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot:
            await general.say(server.person("Mo"), "hi")
            server.replay()
            first, second = await heard(bot, "message", 2)
            assert first.id == second.id


async def test_a_resume_with_a_sequence_from_the_future_is_refused() -> None:
    async with LoopbackDiscord() as server:
        async with socket(server) as line:
            await line.identify(server.token)
            session = (await line.take(event="READY"))["d"]["session_id"]
            await line.ws.close(code=4000)
        async with socket(server) as line:
            await line.say(6, {"token": server.token, "session_id": session, "seq": 99})
            assert await line.close_code() == 4007


async def test_a_session_closed_with_1000_cannot_be_resumed() -> None:
    async with LoopbackDiscord() as server:
        async with socket(server) as line:
            await line.identify(server.token)
            ready = await line.take(event="READY")
            await line.ws.close(code=1000)
        await server.wait_for(lambda: not server.gateway.connections)
        async with socket(server) as line:
            resume = {"token": server.token, "session_id": ready["d"]["session_id"], "seq": ready["s"]}
            await line.say(6, resume)
            assert (await line.take(op=9))["d"] is False
            await line.identify(server.token)
            await line.take(event="READY")


async def test_events_that_are_no_longer_kept_cannot_be_resumed() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        server.world.hub.keeps = 2
        async with socket(server) as line:
            await line.identify(server.token)
            ready = await line.take(event="READY")
            await line.ws.close(code=4000)
        await server.wait_for(lambda: not server.gateway.connections)
        for number in range(3):
            await general.say(server.person("Mo"), str(number))
        async with socket(server) as line:
            resume = {"token": server.token, "session_id": ready["d"]["session_id"], "seq": ready["s"]}
            await line.say(6, resume)
            assert (await line.take(op=9))["d"] is False


async def test_heartbeats_are_answered_unless_the_connection_is_a_zombie() -> None:
    async with LoopbackDiscord() as server, socket(server) as line:
        await line.say(1, None)
        await line.take(op=11)
        server.stop_acks()
        await line.say(1, None)
        await line.identify(server.token)
        assert (await line.take(event="READY"))["op"] == 0
        assert not any(b'"op":11' in frame.data.encode() for frame in line.frames[2:])


async def test_who_sends_no_heartbeat_is_closed() -> None:
    async with LoopbackDiscord() as server:
        server.gateway.settings.heartbeat = 0.05
        async with socket(server) as line:
            assert await line.close_code() == 4009


async def test_identifying_too_often_is_answered_by_an_invalid_session() -> None:
    async with LoopbackDiscord() as server:
        server.gateway.settings.identify_every = 60.0
        async with socket(server) as line:
            await line.identify(server.token)
            await line.take(event="READY")
        async with socket(server) as line:
            await line.identify(server.token)
            assert (await line.take(op=9))["d"] is False


async def test_what_changes_is_told() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        general = guild.channel()
        mo = server.person("Mo")
        async with connected(server) as bot:
            guild.join(mo)
            message = await general.say(mo, "helo")
            await message.edit("hello")
            await message.react(mo, "👋")
            await general.unreact(mo, message, "👋")
            await general.start_typing(mo)
            thread = guild.thread(general, "aside", starter=message)
            thread.update(archived=True)
            other = guild.channel("other")
            other.vanish()
            extra = await general.say(mo, "1"), await general.say(mo, "2")
            await general.delete(*extra)
            await message.delete()
            guild.emoji("wave")
            guild.change_role(guild.bot_role, Permission.VIEW_CHANNEL | Permission.SEND_MESSAGES)
            guild.leave(mo)
            server.guild("another")
            guild.leave(server.bot)
            for event in (
                "member_join", "message_edit", "reaction_add", "reaction_remove", "typing", "thread_create",
                "thread_update", "guild_channel_create", "guild_channel_delete", "bulk_message_delete",
                "message_delete", "guild_emojis_update", "guild_role_update", "member_remove", "guild_join",
                "guild_remove",
            ):  # fmt: skip
                try:
                    await heard(bot, event)
                except TimeoutError:
                    pytest.fail(f"{event} was not told")
            assert not [args for event, args in bot.heard if event == "error"]


async def test_what_the_bot_cannot_see_is_not_told() -> None:
    async with LoopbackDiscord() as server:
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


async def test_members_can_be_asked_for() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        people = [server.person(f"person-{number}") for number in range(5)]
        for person in people:
            guild.join(person)
        intents = discord.Intents(guilds=True, members=True)
        async with connected(server, intents) as bot:
            assert len(bot.guilds[0].members) == 7  # with the bot and the landlord
            assert [each.id for each in await bot.guilds[0].query_members("person-3")] == [people[3].id]


async def test_a_guild_can_go_and_come_back() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        async with connected(server) as bot:
            guild.vanish()
            await heard(bot, "guild_unavailable")
            guild.appear()
            await heard(bot, "guild_available", 2)


async def test_it_serves_a_bot_in_another_thread() -> None:
    """The bot has a loop of its own, and discord.py never notices."""
    async with LoopbackDiscord() as server:
        general = server.guild().channel()

        async def elsewhere() -> None:
            async with connected(server) as bot:
                asked = (await heard(bot, "message"))[0]
                await asked.channel.send("from afar", reference=asked)

        with pointed_at(server):
            running = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
            await server.ready()
            await general.say(server.person("Mo"), "who is there?")
            await server.wait_for(lambda: "from afar" in general.texts)
            await running
