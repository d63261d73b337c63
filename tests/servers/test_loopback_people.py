"""What people and other programs do on the loopback Discord, as discord.py hears it."""

import discord

from tests.servers.clients import connected, heard
from tests.servers.loopback_discord import LoopbackDiscord, Permission


async def test_messages_carry_what_people_put_into_them() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        general, news = guild.channel(), guild.channel("news", "news")
        mo, ada = server.person("Mo", display="Momo"), server.person("Ada")
        async with connected(server) as bot:
            first = await general.say(mo, f"look, {ada.mention}", stickers=["wave"])
            await general.say(ada, "I see", reply_to=first, ping=False)
            await news.forward(ada, first)
            await general.system(mo, 7)
            await general.touch(first, [{"title": "a link", "type": "link"}])
            one, two, three, four = await heard(bot, "message", 4)
            assert (one.author.display_name, one.mentions[0].id) == ("Momo", ada.id)
            assert [each.name for each in one.stickers] == ["wave"]
            assert (two.reference.resolved.id, two.mentions) == (first.id, [])
            assert three.message_snapshots[0].content == first.content
            assert four.type is discord.MessageType.new_member
            await heard(bot, "raw_message_edit")
            assert first.edited is None


async def test_who_speaks_in_a_guild_is_in_it() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        cook = guild.role("cook")
        mo = server.person("Mo", roles=["cook"], permissions=Permission.MANAGE_GUILD)
        async with connected(server) as bot:
            await guild.channel().say(mo, "hi")
            message = (await heard(bot, "message"))[0]
            assert isinstance(message.author, discord.Member)
            assert message.author.get_role(cook.id) is not None
            assert message.author.guild_permissions.manage_guild


async def test_people_are_told_apart_from_webhooks_of_the_bot_and_of_others() -> None:
    async with LoopbackDiscord() as server:
        guild = server.guild()
        general = guild.channel()
        foreign = general.webhook("News")
        async with connected(server) as bot:
            place = bot.get_channel(general.id)
            assert isinstance(place, discord.TextChannel)
            own = await place.create_webhook(name="Faces")
            await own.send("mine", username="Mimi")
            await foreign.say("theirs", thread=guild.thread(general))
            await heard(bot, "message", 3)  # with the one that Discord writes about the thread
            by_text = {message.content: message for message in bot.of("message")}
            assert by_text["mine"].application_id == bot.application_id
            assert by_text["theirs"].application_id is None
            assert general.texts == ["mine"]


async def test_waiting_wakes_with_the_change_and_idling_outlasts_requests() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        server.slow("POST", "/messages$", 0.2)
        async with connected(server) as bot:
            sending = bot.loop.create_task(bot.channel(general.id).send("slowly"))
            await server.wait_for(lambda: server.rest.running)
            await server.idle()
            assert general.texts == ["slowly"]
            await sending
