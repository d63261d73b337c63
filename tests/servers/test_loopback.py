"""What the loopback Discord refuses and leaves out, as Discord does.

A fake that is too kind makes other tests pass for nothing. What it does where all is well is not tried here:
without it no test with discord.py would come through.
"""

import asyncio
import time
from typing import Any

import discord
import pytest

from pixi.testing.discord import LoopbackDiscord, Permission
from tests.servers.clients import connected, heard, rest
from tests.waiting import put_forward

Json = dict[str, Any]


async def asked(
    server: LoopbackDiscord, method: str, path: str, body: object = None, **more: Any
) -> tuple[int, Json]:
    """What the server answers to a bare request."""
    async with (
        rest(server) as session,
        session.request(method, f"/api/v10{path}", json=body, **more) as answer,
    ):
        return answer.status, await answer.json() if answer.content_length else {}


def code_of(body: Json, *place: str) -> str:
    """The code of the error at a place of a form."""
    assert body["code"] == 50035
    here = body["errors"]
    for step in place:
        here = here[step]
    return str(here["_errors"][0]["code"])


# Writing.


async def test_contents_have_1_to_2000_characters(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    path = f"/channels/{general.id}/messages"
    status, body = await asked(server, "POST", path, {"content": "x" * 2001})
    assert (status, code_of(body, "content")) == (400, "BASE_TYPE_MAX_LENGTH")
    assert body["message"] == "Invalid Form Body"
    assert body["errors"]["content"]["_errors"][0]["message"] == "Must be 2000 or fewer in length."
    for empty in ({"content": ""}, {"content": " \n "}, {}, None):
        status, body = await asked(server, "POST", path, empty)
        assert (status, body["code"]) == (400, 50006)
    assert (await asked(server, "POST", path, {"content": "x" * 2000}))[0] == 200
    assert (await asked(server, "POST", path, {"content": " padded "}))[1]["content"] == "padded"
    assert len(general.messages) == 2


async def test_the_same_nonce_gives_the_same_message(server: LoopbackDiscord) -> None:
    guild = server.guild()
    general, other = guild.channel(), guild.channel("other")
    async with connected(server) as bot:
        first = await bot.channel(general.id).send("hello", nonce="1:1")
        again = await bot.channel(general.id).send("hello", nonce="1:1")
        assert (first.id, first.nonce) == (again.id, "1:1")
        await bot.channel(other.id).send("elsewhere", nonce="1:1")  # the author's, wherever it was
        await bot.channel(general.id).send("hello", nonce="1:2")
        assert general.texts == ["hello", "hello"]
        assert other.texts == []
        with pytest.raises(discord.HTTPException) as error:
            await bot.channel(general.id).send("hello", nonce="x" * 26)
        assert error.value.code == 50035
    path = f"/channels/{general.id}/messages"
    for _ in range(2):  # without enforce_nonce, it is only handed through
        await asked(server, "POST", path, {"content": "plain", "nonce": "1:1"})
    assert general.texts[2:] == ["plain", "plain"]
    server.world.nonce_seconds = 0.0
    await asked(server, "POST", path, {"content": "later", "nonce": "1:1", "enforce_nonce": True})
    assert general.texts[-1] == "later"


async def test_nonces_are_told_when_a_message_is_made_and_by_no_history(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    async with connected(server) as bot:
        await bot.channel(general.id).send("hello", nonce="1:1")
        history = [each async for each in bot.channel(general.id).history()]
        assert history[0].nonce is None
        server.world.shows_nonces = True
        history = [each async for each in bot.channel(general.id).history()]
        assert history[0].nonce == "1:1"


ALLOWED: list[tuple[Json | None, set[str]]] = [
    (None, {"mo", "cook", "everyone"}),
    ({"parse": []}, set()),
    ({"parse": ["users"]}, {"mo"}),
    ({"parse": ["roles"]}, {"cook"}),
    ({"parse": ["everyone"]}, {"everyone"}),
    ({"users": ["MO"]}, {"mo"}),
    ({"users": []}, set()),
]


@pytest.mark.parametrize(("allowed", "pinged"), ALLOWED)
async def test_who_is_pinged_follows_from_the_text_and_what_is_allowed(
    server: LoopbackDiscord, allowed: Json | None, pinged: set[str]
) -> None:
    guild = server.guild()
    general = guild.channel()
    mo, cook = server.person("Mo"), guild.role("cook", mentionable=True)
    if allowed and allowed.get("users"):
        allowed = {"users": [str(mo.id)]}
    body: Json = {"content": f"{mo.mention} {cook.mention} @everyone"}
    await asked(
        server, "POST", f"/channels/{general.id}/messages",
        body if allowed is None else body | {"allowed_mentions": allowed},
    )  # fmt: skip
    names: dict[int | str, str] = {mo.id: "mo", cook.id: "cook", "everyone": "everyone"}
    assert {names[each] for each in general.messages[0].pinged} == pinged


async def test_everyone_is_pinged_only_by_who_may(server: LoopbackDiscord) -> None:
    guild = server.guild(bot_may=Permission.VIEW_CHANNEL)
    general = guild.channel()
    closed = guild.role("closed")
    mo = server.person("Mo")
    said = await general.say(mo, f"@everyone @here {closed.mention}")
    assert said.pinged == set()
    boss = server.person("Boss", permissions=Permission.ADMINISTRATOR)
    said = await general.say(boss, f"@everyone {closed.mention}")
    assert said.pinged == {"everyone", closed.id}


async def test_a_reply_points_at_its_message_and_pings_if_allowed(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    mo = server.person("Mo")
    asking = await general.say(mo, "why?")
    async with connected(server) as bot:
        reference = discord.MessageReference(message_id=asking.id, channel_id=general.id)
        sent = await bot.channel(general.id).send("because", reference=reference)
        assert isinstance(sent.reference.resolved if sent.reference else None, discord.Message)
        await bot.channel(general.id).send("quietly", reference=reference, mention_author=False)
        assert [each.pinged for each in general.messages[1:]] == [{mo.id}, set()]
        assert general.messages[1].answered is asking
        await asking.delete()
        with pytest.raises(discord.HTTPException) as error:
            await bot.channel(general.id).send("too late", reference=reference)
        assert "Unknown message" in error.value.text
        reference.fail_if_not_exists = False
        sent = await bot.channel(general.id).send("anyway", reference=reference)
        assert sent.reference is None
        history = [each async for each in bot.channel(general.id).history(oldest_first=True)]
        assert isinstance(
            history[0].reference and history[0].reference.resolved, discord.DeletedReferencedMessage
        )
    other = await server.guild().channel().say(mo, "elsewhere")
    body = {
        "content": "x",
        "message_reference": {"message_id": str(other.id), "channel_id": str(other.channel.id)},
    }
    _, answer = await asked(server, "POST", f"/channels/{general.id}/messages", body)
    assert code_of(answer, "message_reference") == "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL"
    join = await general.system(mo)
    body = {"content": "x", "message_reference": {"message_id": str(join.id)}}
    _, answer = await asked(server, "POST", f"/channels/{general.id}/messages", body)
    assert code_of(answer, "message_reference") == "REPLIES_CANNOT_REFERENCE_SYSTEM_MESSAGE"


async def test_what_the_bot_may_not_do_is_refused(server: LoopbackDiscord) -> None:
    guild = server.guild(bot_may=Permission(0))
    mo = server.person("Mo")
    hidden = guild.channel("hidden", deny_everyone=Permission.VIEW_CHANNEL)
    mute = guild.channel("mute", deny_bot=Permission.SEND_MESSAGES)
    bare = guild.channel("bare", deny_bot=Permission.ATTACH_FILES | Permission.READ_MESSAGE_HISTORY)
    dull = guild.channel("dull", deny_bot=Permission.ADD_REACTIONS)
    said = await bare.say(mo, "hi")
    dim = await dull.say(mo, "hi")
    send = {"content": "x"}

    async def code(method: str, path: str, body: object = None) -> tuple[int, int]:
        status, answer = await asked(server, method, path, body)
        return status, answer.get("code", 0)

    assert await code("POST", f"/channels/{hidden.id}/messages", send) == (403, 50001)
    assert await code("POST", f"/channels/{mute.id}/messages", send) == (403, 50013)
    assert await code("POST", f"/channels/{mute.id}/typing") == (403, 50013)
    assert await code("POST", "/channels/123/messages", send) == (404, 10003)
    assert await code("POST", f"/channels/{guild.forum().id}/messages", send) == (400, 50008)
    status, body = await asked(server, "GET", f"/channels/{bare.id}/messages")
    assert (status, len(body)) == (200, 0)
    assert await code("GET", f"/channels/{bare.id}/messages/{said.id}") == (403, 50013)
    reply = {"content": "x", "message_reference": {"message_id": str(said.id)}}
    assert await code("POST", f"/channels/{bare.id}/messages", reply) == (403, 160002)
    assert await code("PUT", f"/channels/{dull.id}/messages/{dim.id}/reactions/👍/@me") == (403, 50013)
    await dim.react(mo, "👍")  # joining in needs no permission of its own
    assert await code("PUT", f"/channels/{dull.id}/messages/{dim.id}/reactions/👍/@me") == (204, 0)
    assert await code("PATCH", f"/channels/{dull.id}/messages/{dim.id}", send) == (403, 50005)
    assert await code("GET", f"/channels/{dull.id}/messages/77") == (404, 10008)
    assert await code("GET", "/channels/what/messages") == (400, 50035)
    assert await code("GET", f"/guilds/{guild.id + 1}") == (404, 10004)
    assert await code("POST", f"/channels/{dull.id}/webhooks", {"name": "x"}) == (403, 50013)
    guild.silence(server.bot, time.time() + 60)
    assert await code("POST", f"/channels/{dull.id}/messages", send) == (403, 50013)


async def test_overwrites_of_members_win_over_roles_and_those_over_everyone(server: LoopbackDiscord) -> None:
    guild = server.guild()
    general = guild.channel(deny_everyone=Permission.SEND_MESSAGES)

    async def status() -> int:
        return (await asked(server, "POST", f"/channels/{general.id}/messages", {"content": "x"}))[0]

    assert await status() == 403
    general.overwrite(guild.bot_role, allow=Permission.SEND_MESSAGES)
    assert await status() == 200
    general.overwrite(server.bot, deny=Permission.SEND_MESSAGES)
    assert await status() == 403
    guild.change_role(guild.bot_role, Permission.ADMINISTRATOR)
    assert await status() == 200


async def test_messages_are_read_in_pages(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    mo = server.person("Mo")
    said = [await general.say(mo, str(number)) for number in range(10)]
    old = await general.say(mo, "long ago", age=3600)

    async def texts(query: str) -> list[str]:
        _, found = await asked(server, "GET", f"/channels/{general.id}/messages{query}")
        assert isinstance(found, list)
        return [each["content"] for each in found]

    assert await texts("?limit=2") == ["9", "8"]
    assert await texts(f"?limit=2&after={said[3].id}") == ["5", "4"]
    assert await texts(f"?limit=2&before={said[3].id}") == ["2", "1"]
    assert await texts(f"?limit=3&around={said[3].id}") == ["4", "3", "2"]
    assert (await texts(""))[-1] == "long ago"
    assert 3590 < said[-1].created - old.created < 3610
    status, body = await asked(server, "GET", f"/channels/{general.id}/messages?limit=101")
    assert (status, code_of(body, "limit")) == (400, "NUMBER_TYPE_MAX")


# Reactions, typing, threads, profile.


async def test_reactions_take_emoji_that_exist(server: LoopbackDiscord) -> None:
    guild = server.guild()
    general = guild.channel()
    mo = server.person("Mo")
    said = await general.say(mo, "look")
    own, foreign = guild.emoji("pancake"), server.guild("other").emoji("waffle")
    async with connected(server) as bot:
        message = await bot.channel(general.id).fetch_message(said.id)
        for good in ("🥞", "❤", "❤️", "#️⃣", own.text, foreign.text):
            await message.add_reaction(good)
        assert set(said.reactions) == {"🥞", "❤", "❤️", "#️⃣", ":pancake:", ":waffle:"}
        for bad in ("pancake", "x", "<:gone:5>"):
            with pytest.raises(discord.HTTPException) as error:
                await message.add_reaction(bad)
            assert (error.value.status, error.value.code) == (400, 10014)
        await said.react(mo, "🥞")
        fetched = await message.fetch()
        assert (fetched.reactions[0].count, fetched.reactions[0].me) == (2, True)
        assert said.reactions["🥞"] == [server.bot, mo]
        for letter in range(14):
            await message.add_reaction(chr(0x1F34A + letter))
        with pytest.raises(discord.Forbidden) as full:
            await message.add_reaction("🎲")
        assert full.value.code == 30010


# Webhooks.


async def test_webhooks_write_under_any_name(server: LoopbackDiscord) -> None:
    guild = server.guild()
    general = guild.channel()
    thread = guild.thread(general, "aside")
    elsewhere = guild.thread(guild.channel("other"), "elsewhere")
    async with connected(server) as bot:
        place = bot.get_channel(general.id)
        assert isinstance(place, discord.TextChannel)
        hook = await place.create_webhook(name="Faces")
        sent = await hook.send("I am Mimi", username="Mimi", avatar_url="https://x.test/a.png", wait=True)
        assert (sent.author.name, sent.webhook_id) == ("Mimi", hook.id)
        said = general.messages[-1]
        assert (said.shown, said.content) == ("Mimi", "I am Mimi")
        await hook.send("aside", thread=discord.Object(thread.id), wait=True)
        assert thread.messages[-1].content == "aside"
        with pytest.raises(discord.NotFound) as wrong:
            await hook.send("x", thread=discord.Object(elsewhere.id), wait=True)
        assert wrong.value.code == 10003
        for name in ("My Discord", "clydebank"):
            with pytest.raises(discord.HTTPException, match="cannot contain"):
                await hook.send("x", username=name, wait=True)
        assert [each.id for each in await place.webhooks()] == [hook.id]
        for each in [*server.world.webhooks.values()]:
            each.delete()
        with pytest.raises(discord.NotFound) as gone:
            await hook.send("x", wait=True)
        assert gone.value.code == 10015
        for number in range(15):
            await place.create_webhook(name=f"hook {number}")
        with pytest.raises(discord.HTTPException) as full:
            await place.create_webhook(name="one more")
        assert full.value.code == 30007


async def test_webhooks_know_no_nonce_and_mind_their_token(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    hook = general.webhook()
    for _ in range(2):
        body = {"content": "twice", "nonce": "1", "enforce_nonce": True}
        assert (await asked(server, "POST", f"/webhooks/{hook.id}/{hook.token}", body))[0] == 204
    assert [each.content for each in general.messages] == ["twice", "twice"]
    status, answer = await asked(server, "POST", f"/webhooks/{hook.id}/wrong", {"content": "x"})
    assert (status, answer["code"]) == (401, 50027)


# What is told.


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
