"""The loopback Discord's REST, as discord.py and bare requests find it."""

import asyncio
import base64
import io
import time
from typing import Any

import aiohttp
import discord
import pytest
from PIL import Image

from tests.servers.clients import connected, rest
from tests.servers.loopback_discord import Channel, Guild, Intent, LoopbackDiscord, Permission, Upload

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


# The frame.


async def test_a_wrong_token_and_unknown_paths_are_told_in_discords_words() -> None:
    async with LoopbackDiscord() as server:
        async with rest(server, "wrong") as session, session.get("/api/v10/users/@me") as answer:
            assert (answer.status, await answer.json()) == (401, {"message": "401: Unauthorized", "code": 0})
            assert answer.headers["Content-Type"] == "application/json"
        assert await asked(server, "GET", "/nowhere") == (404, {"message": "404: Not Found", "code": 0})
        status, body = await asked(server, "PUT", "/users/@me")
        assert (status, body["message"]) == (405, "405: Method Not Allowed")
        async with rest(server) as session, session.get("/api/v3/users/@me") as answer:
            assert (await answer.json())["code"] == 50041


async def test_bodies_that_are_not_json_are_refused() -> None:
    async with LoopbackDiscord() as server:
        path = f"/channels/{server.guild().channel().id}/messages"
        status, body = await asked(
            server, "POST", path, data=b"content=hi", headers={"Content-Type": "text/plain"}
        )
        assert (status, code_of(body)) == (400, "CONTENT_TYPE_INVALID")
        status, body = await asked(
            server, "POST", path, data=b"{", headers={"Content-Type": "application/json"}
        )
        assert (status, body["code"]) == (400, 50109)


async def test_the_bot_learns_of_itself_and_its_guilds() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild("one", bot_may=Permission.VIEW_CHANNEL)
        async with connected(server) as bot:
            info = await bot.application_info()
            assert info.flags.gateway_message_content_limited
            assert info.id == server.bot.id
        listed = (await asked(server, "GET", "/users/@me/guilds"))[1]
        assert isinstance(listed, list)
        assert listed[0]["id"] == str(guild.id)
        assert int(listed[0]["permissions"]) & Permission.VIEW_CHANNEL
        server.allow_intents(Intent.GUILD_MEMBERS)
        flags = (await asked(server, "GET", "/applications/@me"))[1]["flags"]
        assert discord.ApplicationFlags._from_value(flags).gateway_guild_members_limited
        assert not discord.ApplicationFlags._from_value(flags).gateway_message_content_limited
        assert (await asked(server, "GET", "/gateway/bot"))[1]["url"] == server.gateway_url


# Writing.


async def test_contents_have_1_to_2000_characters() -> None:
    async with LoopbackDiscord() as server:
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


async def test_the_same_nonce_gives_the_same_message() -> None:
    async with LoopbackDiscord() as server:
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


async def test_nonces_are_told_when_a_message_is_made_and_by_no_history() -> None:
    async with LoopbackDiscord() as server:
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
    allowed: Json | None, pinged: set[str]
) -> None:
    async with LoopbackDiscord() as server:
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


async def test_everyone_is_pinged_only_by_who_may() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild(bot_may=Permission.VIEW_CHANNEL)
        general = guild.channel()
        closed = guild.role("closed")
        mo = server.person("Mo")
        said = await general.say(mo, f"@everyone @here {closed.mention}")
        assert said.pinged == set()
        boss = server.person("Boss", permissions=Permission.ADMINISTRATOR)
        said = await general.say(boss, f"@everyone {closed.mention}")
        assert said.pinged == {"everyone", closed.id}


async def test_a_reply_points_at_its_message_and_pings_if_allowed() -> None:
    async with LoopbackDiscord() as server:
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


async def test_what_the_bot_may_not_do_is_refused() -> None:
    async with LoopbackDiscord() as server:
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
        assert await code("DELETE", f"/channels/{dull.id}/messages/{dim.id}") == (403, 50013)
        assert await code("PATCH", f"/channels/{dull.id}/messages/{dim.id}", send) == (403, 50005)
        assert await code("GET", f"/channels/{dull.id}/messages/77") == (404, 10008)
        assert await code("GET", "/channels/what/messages") == (400, 50035)
        assert await code("GET", f"/guilds/{guild.id + 1}") == (404, 10004)
        assert await code("POST", f"/channels/{dull.id}/webhooks", {"name": "x"}) == (403, 50013)
        dull.overwrite(server.bot, allow=Permission.MANAGE_MESSAGES)
        assert await code("DELETE", f"/channels/{dull.id}/messages/{dim.id}") == (204, 0)
        guild.silence(server.bot, time.time() + 60)
        assert await code("POST", f"/channels/{dull.id}/messages", send) == (403, 50013)


async def test_overwrites_of_members_win_over_roles_and_those_over_everyone() -> None:
    async with LoopbackDiscord() as server:
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


async def test_messages_are_read_in_pages() -> None:
    async with LoopbackDiscord() as server:
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
        assert 3590 < time.time() - old.created < 3610
        status, body = await asked(server, "GET", f"/channels/{general.id}/messages?limit=101")
        assert (status, code_of(body, "limit")) == (400, "NUMBER_TYPE_MAX")


async def test_own_messages_are_edited_and_deleted() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot:
            sent = await bot.channel(general.id).send("helo", file=discord.File(io.BytesIO(b"1"), "a.txt"))
            edited = await sent.edit(content="hello")
            assert edited.edited_at is not None
            assert (general.texts, general.messages[0].edits) == (["hello"], ["helo"])
            assert len(general.messages[0].attachments) == 1
            with pytest.raises(discord.HTTPException) as error:
                await sent.edit(content="", attachments=[])
            assert error.value.code == 50006
            await sent.delete()
            assert general.messages == []
            with pytest.raises(discord.NotFound) as gone:
                await sent.delete()
            assert gone.value.code == 10008


# Files.


async def test_files_go_both_ways() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        picture = io.BytesIO()
        Image.new("RGB", (8, 6)).save(picture, "PNG")
        said = await general.say(
            server.person("Mo"),
            attachments=[("my pic.png", "image/png", picture.getvalue()), ("a.txt", "text/plain", b"words")],
        )
        async with connected(server) as bot:
            message = await bot.channel(general.id).fetch_message(said.id)
            first, second = message.attachments
            assert (first.filename, first.width, first.height) == ("my pic.png", 8, 6)
            assert await first.read() == picture.getvalue()
            assert await second.read(use_cached=True) == b"words"
            files = [
                discord.File(io.BytesIO(b"data"), "b.txt", description="bytes"),
                discord.File(picture, "c.png"),
            ]
            await bot.channel(general.id).send("here", files=files)
            kept = general.messages[1].attachments
            assert [(each.name, each.data[:4], each.type) for each in kept] == [
                ("b.txt", b"data", "text/plain"), ("c.png", b"", "image/png"),
            ]  # fmt: skip
            assert kept[0].upload.description == "bytes"


async def test_files_can_lie_and_be_gone() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        lies = [
            Upload("a.bin", data=b"x" * 100, claimed_size=1),
            Upload("b.png", data=b"not a picture"),
            Upload("c.txt", status=404),
        ]
        said = await general.say(server.person("Mo"), attachments=lies)
        async with connected(server) as bot:
            message = await bot.channel(general.id).fetch_message(said.id)
            assert message.attachments[0].size == 1
            assert len(await message.attachments[0].read()) == 100
            assert message.attachments[1].width is None
            with pytest.raises(discord.NotFound):
                await message.attachments[2].read()


async def test_files_that_are_too_large_are_refused() -> None:
    async with LoopbackDiscord() as server:
        server.world.attachment_limit = 1000
        general = server.guild().channel()
        async with connected(server) as bot:
            with pytest.raises(discord.HTTPException) as error:
                await bot.channel(general.id).send("x", file=discord.File(io.BytesIO(b"x" * 1001), "a"))
            assert (error.value.status, error.value.code) == (413, 40005)


# Reactions, typing, threads, profile.


async def test_reactions_take_emoji_that_exist() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        general = guild.channel()
        mo = server.person("Mo")
        said = await general.say(mo, "look")
        own, foreign = guild.emoji("pancake"), server.guild("other").emoji("waffle")
        gone = guild.emoji("gone")
        guild.drop_emoji(gone)
        async with connected(server) as bot:
            message = await bot.channel(general.id).fetch_message(said.id)
            for good in ("🥞", "❤", "❤️", "#️⃣", own.text, foreign.text):
                await message.add_reaction(good)
            assert set(said.reactions) == {"🥞", "❤", "❤️", "#️⃣", ":pancake:", ":waffle:"}
            for bad in ("pancake", "x", gone.text):
                with pytest.raises(discord.HTTPException) as error:
                    await message.add_reaction(bad)
                assert (error.value.status, error.value.code) == (400, 10014)
            await said.react(mo, "🥞")
            fetched = await message.fetch()
            assert (fetched.reactions[0].count, fetched.reactions[0].me) == (2, True)
            users = {each.id async for each in fetched.reactions[0].users()}
            assert users == {mo.id, server.bot.id}
            await message.remove_reaction("🥞", bot.user or discord.Object(0))
            assert said.reactions["🥞"] == [mo]
            for letter in range(14):
                await message.add_reaction(chr(0x1F34A + letter))
            with pytest.raises(discord.Forbidden) as full:
                await message.add_reaction("🎲")
            assert full.value.code == 30010


async def test_typing_is_seen() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot, bot.channel(general.id).typing():
            assert [each.user for each in general.typings] == [server.bot]


async def test_threads_and_posts_are_opened_and_written_in() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        general, forum = guild.channel(), guild.forum(tags=["sweet"])
        mo = server.person("Mo")
        said = await general.say(mo, "let us talk")
        post = await forum.post(mo, "How?", "With milk?", tags=["sweet"])
        async with connected(server) as bot:
            place = bot.get_channel(general.id)
            assert isinstance(place, discord.TextChannel)
            message = await place.fetch_message(said.id)
            thread = await message.create_thread(name="talk")
            await thread.send("in here")
            assert guild.threads[thread.id].texts == [
                "",
                "in here",
            ]  # a thread begins with a pointer to its message
            assert guild.threads[thread.id].messages[0].answered is said
            with pytest.raises(discord.HTTPException) as twice:
                await message.create_thread(name="again")
            assert twice.value.code == 160004
            seen = bot.get_channel(post.id)
            assert isinstance(seen, discord.Thread)
            assert [tag.name for tag in seen.applied_tags] == ["sweet"]
            starter = await seen.fetch_message(post.id)
            assert starter.content == "With milk?"
            board = bot.get_channel(forum.id)
            assert isinstance(board, discord.ForumChannel)
            made = await board.create_thread(name="Mine", content="first")
            assert guild.threads[made.thread.id].texts == ["first"]
            post.update(archived=True)
            await seen.send("opens it again")
            assert not post.archived
            post.update(archived=True, locked=True)
            with pytest.raises(discord.HTTPException) as locked:
                await seen.send("no more")
            assert locked.value.code == 50083


async def test_the_bot_has_a_profile_in_each_guild() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        data = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
        path = f"/guilds/{guild.id}/members/@me"
        assert (await asked(server, "PATCH", path, {"nick": "Mimi", "avatar": data}))[1]["nick"] == "Mimi"
        assert (guild.bot_member.nick, bool(guild.bot_member.avatar)) == ("Mimi", True)
        assert (
            code_of((await asked(server, "PATCH", path, {"avatar": "nonsense"}))[1], "avatar")
            == "IMAGE_INVALID"
        )
        assert (
            code_of((await asked(server, "PATCH", path, {"nick": "x" * 33}))[1], "nick")
            == "BASE_TYPE_MAX_LENGTH"
        )
        guild.change_role(guild.everyone, Permission.VIEW_CHANNEL)
        guild.change_role(guild.bot_role, Permission.VIEW_CHANNEL)
        assert (await asked(server, "PATCH", path, {"nick": "Pi"}))[1]["code"] == 50013


async def test_direct_messages_reach_who_takes_them() -> None:
    async with LoopbackDiscord() as server:
        mo, shy = server.person("Mo"), server.person("Shy", accepts_dms=False)
        async with connected(server) as bot:
            user = await bot.fetch_user(mo.id)
            await user.send("hello")
            await user.send("again")
            assert server.dm(mo).texts == ["hello", "again"]
            with pytest.raises(discord.Forbidden) as error:
                await (await bot.fetch_user(shy.id)).send("hello")
            assert error.value.code == 50007


# Webhooks.


async def test_webhooks_write_under_any_name() -> None:
    async with LoopbackDiscord() as server:
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
            assert (said.shown, said.avatar_url, said.content) == (
                "Mimi",
                "https://x.test/a.png",
                "I am Mimi",
            )
            await sent.edit(content="I was Mimi")
            assert said.content == "I was Mimi"
            await hook.send("aside", thread=discord.Object(thread.id), wait=True)
            assert thread.messages[-1].content == "aside"
            with pytest.raises(discord.NotFound) as wrong:
                await hook.send("x", thread=discord.Object(elsewhere.id), wait=True)
            assert wrong.value.code == 10003
            for name, code in [
                ("My Discord", "USERNAME_INVALID_CONTAINS"),
                ("clydebank", "USERNAME_INVALID_CONTAINS"),
            ]:
                with pytest.raises(discord.HTTPException) as error:
                    await hook.send("x", username=name, wait=True)
                assert error.value.code == 50035
                assert "cannot contain" in error.value.text, code
            assert [each.id for each in await place.webhooks()] == [hook.id]
            await sent.delete()
            assert said.deleted
            await hook.delete()
            with pytest.raises(discord.NotFound) as gone:
                await hook.send("x", wait=True)
            assert gone.value.code == 10015
            for number in range(15):
                await place.create_webhook(name=f"hook {number}")
            with pytest.raises(discord.HTTPException) as full:
                await place.create_webhook(name="one more")
            assert full.value.code == 30007


async def test_webhooks_know_no_nonce_and_mind_their_token() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        hook = general.webhook()
        for _ in range(2):
            body = {"content": "twice", "nonce": "1", "enforce_nonce": True}
            assert (await asked(server, "POST", f"/webhooks/{hook.id}/{hook.token}", body))[0] == 204
        assert [each.content for each in general.messages] == ["twice", "twice"]
        status, answer = await asked(server, "POST", f"/webhooks/{hook.id}/wrong", {"content": "x"})
        assert (status, answer["code"]) == (401, 50027)


async def test_foreign_webhooks_and_bots_are_heard() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot:
            await general.webhook("News").say("beep", name="Reporter")
            await general.say(server.person("Robo", bot=True), "boop")
            await server.wait_for(lambda: len(general.messages) == 2)
            while len(bot.of("message")) < 2:
                await bot.next_event()
            first, second = bot.of("message")
            assert (first.webhook_id is not None, first.author.name) == (True, "Reporter")
            assert second.author.bot


# Limits, hooks.


async def test_a_route_can_be_limited_with_discords_headers() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        general, other = guild.channel(), guild.channel("other")
        server.limit("POST", r"/messages$", 2, 60.0)
        async with rest(server) as session:

            async def post(channel: Channel) -> tuple[int, Any, Json]:
                path = f"/api/v10/channels/{channel.id}/messages"
                async with session.post(path, json={"content": "x"}) as answer:
                    return answer.status, answer.headers, await answer.json()

            _, headers, _ = await post(general)
            assert (headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"]) == ("2", "1")
            await post(general)
            status, headers, body = await post(general)
            assert (status, body["global"], headers["X-RateLimit-Scope"]) == (429, False, "user")
            assert 55 < body["retry_after"] <= 60 <= int(headers["Retry-After"])
            assert (await post(other))[0] == 200  # each channel by itself
            assert len(general.messages) == 2
            server.limit_everything(1, 60.0)
            assert (await post(other))[0] == 200
            status, headers, body = await post(other)
            assert (status, body["global"], headers["X-RateLimit-Global"]) == (429, True, "true")


async def test_discord_py_waits_a_limit_out() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        server.limit("POST", r"/messages$", 2, 0.2)
        async with connected(server) as bot:
            begun = time.monotonic()
            await asyncio.gather(*(bot.channel(general.id).send(str(number)) for number in range(5)))
            assert time.monotonic() - begun >= 0.35
            assert len(general.texts) == 5


async def test_a_request_can_fail_before_and_after_it_took_effect() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        path = f"/channels/{general.id}/messages"
        server.fail("POST", r"/messages$", 503, times=1)
        assert (await asked(server, "POST", path, {"content": "lost"}))[0] == 503
        server.fail("POST", r"/messages$", 500, times=1, took_effect=True)
        assert (await asked(server, "POST", path, {"content": "kept"}))[0] == 500
        assert general.texts == ["kept"]
        server.hang_up("POST", r"/messages$")
        with pytest.raises(aiohttp.ClientError):
            await asked(server, "POST", path, {"content": "dropped"})
        server.hang_up("POST", r"/messages$", took_effect=True)
        with pytest.raises(aiohttp.ClientError):
            await asked(server, "POST", path, {"content": "arrived"})
        assert general.texts == ["kept", "arrived"]
        assert (await asked(server, "POST", path, {"content": "well"}))[0] == 200


async def test_a_request_can_be_held_at_its_point() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        reached, go = asyncio.Event(), asyncio.Event()

        async def hold(call: object) -> None:
            reached.set()
            await go.wait()

        hook = server.after("POST", r"/messages$", hold)
        request = asyncio.create_task(
            asked(server, "POST", f"/channels/{general.id}/messages", {"content": "x"})
        )
        await reached.wait()
        assert general.texts == ["x"]
        assert not request.done()
        go.set()
        assert (await request)[0] == 200
        hook.remove()
        assert [call.body for call in server.asked("POST", "/messages")] == [{"content": "x"}]
        assert len(hook.hits) == 1


async def test_waiting_tells_what_happened_last() -> None:
    async with LoopbackDiscord() as server:
        await asked(server, "GET", "/gateway")
        with pytest.raises(TimeoutError, match="GET /gateway"):
            await server.wait_for(lambda: False, timeout=0.01)


async def test_many_messages_are_taken_and_told_quickly() -> None:
    """Two thousand messages over a hundred channels, each of them heard."""
    async with LoopbackDiscord() as server:
        guild: Guild = server.guild()
        channels = [guild.channel(f"channel-{number}") for number in range(100)]
        mo = server.person("Mo")
        async with connected(
            server, discord.Intents(guilds=True, messages=True, message_content=True)
        ) as bot:
            begun = time.process_time()
            for number in range(2000):
                await channels[number % 100].say(mo, f"message {number}")
            saying = time.process_time() - begun
            while len(bot.of("message")) < 2000:
                await bot.next_event()
            assert bot.texts() == [f"message {number}" for number in range(2000)]
            assert saying < 2.0  # a tenth of that is usual
