"""The bot goes and comes: what was open is finished, what was not begun is answered, nothing twice."""

import asyncio
import time
from pathlib import Path

import pytest

from pixi.channels.discord import bot
from pixi.channels.discord.gateway.client import Shards
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore
from tests.end_to_end.bot import Script, leaves, scene
from tests.servers.scripted_openai import Hang, Until
from tests.waiting import until


async def test_leaving_finishes_the_message_that_is_open_and_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    begun: Script = ["[SEND: one]\n[SEND: tw", Until(gate), "o]\n[SEND: three]", Hang()]
    async with scene(tmp_path, begun, "[SEND: hello again]") as here:
        async with here.bot() as service:
            await here.ask()
            await here.said("one")
            await here.discord.wait_for(
                lambda: any(each.at > here.posted("one").at for each in here.room.typings)
            )
            drain, loop = service.engine.drain, asyncio.get_running_loop()

            async def with_the_gate_open(seconds: float) -> None:
                loop.call_soon(gate.set)  # once it is leaving, and not before
                await drain(seconds)

            monkeypatch.setattr(service.engine, "drain", with_the_gate_open)
        assert here.posts() == ["one", "two"]
        await leaves(here.asked[0])

        async with here.bot() as service:
            await here.ask("where were we?")
            await here.said("one", "two", "hello again")
            await service.engine.settled()  # the question may come while it is asked to go on, and be added
            assert here.prompt()[-2]["content"] == "[SEND: one]\n[SEND: two]"


async def test_a_message_that_never_closes_does_not_hinder_leaving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bot, "_FOR_DRAINING", 0.2)
    begun: Script = ["[SEND: one]\n[SEND: tw", Hang()]
    async with scene(tmp_path, begun, "[SEND: hello again]") as here:
        async with here.bot():
            await here.ask()
            await here.said("one")
            await here.discord.wait_for(
                lambda: any(each.at > here.posted("one").at for each in here.room.typings)
            )
        assert here.posts() == ["one"]  # nothing half


async def test_a_reply_of_which_nothing_was_seen_is_written_after_the_next_start(tmp_path: Path) -> None:
    async with scene(tmp_path, ["[NOTE: let me think]", Hang()], "[SEND: here it is]") as here:
        async with here.bot():
            await here.ask("a riddle")
            await until(lambda: here.asked)
        assert here.posts() == []

        async with here.bot() as service:
            await here.said("here it is")
            await here.answered(service, 2)
            assert "a riddle" in here.heard()

        async with here.bot() as service:  # and not once more
            await here.ask("thanks")
            await here.said("here it is", "here it is")
            await here.answered(service, 3)


async def test_what_came_while_it_was_away_is_answered_if_it_is_not_old(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        other, quiet = here.guild.channel("other"), here.guild.channel("quiet")
        letters = here.discord.dm(here.mo)
        async with here.bot():
            await here.ask()
            await other.say(here.mo, "small talk", age=9_000.0)  # heard: what follows was missed
            await letters.say(here.mo, "hi")
            await here.said("hello")
            await here.said("hello", room=letters)

        await other.say(here.mo, f"{here.at} an old question", age=7_200.0)
        await quiet.say(here.mo, "nothing for you")
        await here.ask("a new question")
        await letters.say(here.mo, "a letter")

        async with here.bot() as service:
            await here.said("hello", "hello")
            await here.said("hello", "hello", room=letters)
            await here.answered(service, 4)
            assert here.posts(other) == []
            assert here.posts(quiet) == []


async def test_what_a_process_left_that_ended_beside_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hear a question, and the one that has it on record ends before it answers."""
    monkeypatch.setattr(bot, "_LOOK_SECONDS", 0.05)
    async with scene(tmp_path, "[SEND: hello]", "[SEND: hello again]") as here, here.bot() as service:
        await here.ask()
        await here.said("hello")
        other = await SqliteStore.open(tmp_path / "pixi.db")
        address = f"discord:{here.discord.bot.id}:{here.room.id}:pixi"
        question = Message("1", address, Author("2", "Ana"), "are you still there?", time.time())
        assert await other.receive(question) is not None
        await other.close()
        await here.said("hello", "hello again")
        await here.answered(service, 2)
        assert "are you still there?" in here.heard()


async def test_threads_and_posts_that_were_opened_while_it_was_away_are_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        forum = here.guild.forum("questions")
        async with here.bot():
            await here.ask()
            await here.said("hello")
        thread = here.guild.thread(here.room, "Pans", owner=here.mo)
        await here.ask(room=thread)
        post = await forum.post(here.mo, "Syrup", f"{here.at} maple or not?")

        async with here.bot():
            await here.said("hello", room=thread)
            await here.said("hello", room=post)


async def test_at_the_first_start_old_messages_are_left_alone(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        await here.ask("before there was a bot")
        async with here.bot() as service:
            await here.ask("hi")
            await here.said("hello")
            await here.answered(service, 1)


async def test_several_that_came_while_it_was_away_get_one_reply(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        async with here.bot():
            await here.ask()
            await here.said("hello")
        for number in range(3):
            await here.ask(f"question {number}")

        async with here.bot(reply__gather_seconds=0.1) as service:
            await here.said("hello", "hello")
            await here.answered(service, 2)
            heard = here.heard()
            assert heard.index("question 0") < heard.index("question 1") < heard.index("question 2")


async def test_edits_and_deletions_while_it_was_away_count(tmp_path: Path) -> None:
    async with scene(tmp_path, ["[NOTE: hm]", Hang()], "[SEND: hello]") as here:
        async with here.bot():
            await here.ask()
            await until(lambda: here.asked)
        asked = await here.ask("a mistaek")
        await asked.edit(f"{here.at} a mistake")
        await (await here.ask("a secret")).delete()

        async with here.bot(reply__gather_seconds=0.1) as service:
            await here.said("hello")
            await here.answered(service, 2)
            assert "a mistake" in here.heard()
            assert "secret" not in here.whole()


# Shards.


async def test_two_shards_answer_each_for_its_servers_and_the_first_for_direct_messages(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        rooms = [here.discord.guild(f"Server {shard}", shard=shard, of=2).channel() for shard in (0, 1)]
        letters = here.discord.dm(here.mo)
        async with here.bot(shards=Shards((0, 1), 2), sessions=2):
            assert {session.shard for session in here.discord.gateway.live()} == {0, 1}
            for room in rooms:
                await here.ask(room=room)
                await here.said("hello", room=room)
            await letters.say(here.mo, "hi")
            await here.said("hello", room=letters)


async def test_as_many_shards_as_the_server_wants(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        here.discord.gateway.settings.shards = 2
        room = here.discord.guild("Server", shard=1, of=2).channel()
        async with here.bot(sessions=2):
            await here.ask(room=room)
            await here.said("hello", room=room)


async def test_one_shard_of_two_leaves_the_rest_to_another_process(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here:
        rooms = [here.discord.guild(f"Server {shard}", shard=shard, of=2).channel() for shard in (0, 1)]
        letters = here.discord.dm(here.mo)
        async with here.bot(shards=Shards.parse("1/2")) as service:
            await letters.say(here.mo, "hi")
            for room in rooms:
                await here.ask(room=room)
            await here.said("hello", room=rooms[1])
            await here.answered(service, 1)
        assert here.posts(rooms[0]) == []
        assert here.posts(letters) == []


async def test_what_was_left_in_the_guilds_of_another_process_is_left_to_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left: Script = ["[NOTE: hm]", Hang()]
    async with scene(tmp_path, left, left, left, "[SEND: hello]") as here:
        rooms = [here.discord.guild(f"Server {shard}", shard=shard, of=2).channel() for shard in (0, 1)]
        letters = here.discord.dm(here.mo)
        places = (*rooms, letters)
        async with here.bot(shards=Shards((0, 1), 2), sessions=2):
            for place in places:
                await here.ask(room=place)
            await until(lambda: len(here.model.requests) == 3)

        async with here.bot(shards=Shards.parse("1/2")) as service:
            await here.said("hello", room=rooms[1])
            await here.answered(service, 4)
            assert [here.posts(place) for place in (rooms[0], letters)] == [[], []]
        assert not [record for record in caplog.records if "resumed" in record.getMessage()]
        async with here.bot(shards=Shards.parse("0/2")):
            await here.said("hello", room=rooms[0])
            await here.said("hello", room=letters)
        assert here.posts(rooms[1]) == ["hello"]
