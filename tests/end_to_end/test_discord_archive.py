"""A persona on Discord looks up what was written in the server, and answers with a link that leads there."""

import json
from pathlib import Path

from pixi.testing.discord import Permission
from tests.end_to_end.bot import Scene, scene
from tests.end_to_end.test_discord_tools import answer_of_tool, calls
from tests.servers.scripted_openai import Reply, Seen, finish, stream, usage

TOOLS = {"search_messages", "search_forum", "read_pins", "read_messages"}


def offered(here: Scene, number: int = -1) -> set[str]:
    """The tools of the server's history that the model was told of."""
    tools = here.asked[number].json().get("tools") or []
    return TOOLS & {tool["function"]["name"] for tool in tools}


def with_link(seen: Seen) -> Reply:
    """Answers with the link of the first message that the tool gave."""
    result = json.loads(seen.json()["messages"][-1]["content"])
    link = result["messages"][0]["link"]
    return stream(f"[SEND: Ana wrote it: {link}]", finish(), usage(10, 5))


async def test_it_answers_with_the_link_of_what_it_found(tmp_path: Path) -> None:
    search = calls("search_messages", words="griddle temperature")
    async with scene(tmp_path, search, with_link) as here:
        kitchen, ana = here.guild.channel("kitchen"), here.discord.person("Ana")
        wanted = await kitchen.say(
            ana, f"{here.mo.mention} @everyone the griddle needs a temperature of 190 °C"
        )
        async with here.bot(discord__read_history=True) as service:
            await here.ask("how hot?")
            origin = here.discord.world.origin
            link = f"{origin}/channels/{here.guild.id}/{kitchen.id}/{wanted.id}"
            await here.said(f"Ana wrote it: {link}")
            await here.answered(service, 2)
        assert offered(here, 0) == TOOLS
        (message,) = json.loads(answer_of_tool(here))["messages"]
        assert message["text"] == "@Mo @\u200beveryone the griddle needs a temperature of 190 °C"
        assert (message["author"], message["where"], message["link"]) == ("Ana", "#kitchen", link)


async def test_a_secret_of_a_closed_channel_stays_there_whatever_the_model_asks_for(tmp_path: Path) -> None:
    words, read = calls("search_messages", words="secret"), calls("read_messages", where="vault")
    async with scene(tmp_path, words, read, "[SEND: nothing]", words, "[SEND: found]") as here:
        here.guild.join(here.mo)
        vault = here.guild.channel("vault")
        vault.overwrite(
            here.discord.bot,
            allow=Permission.VIEW_CHANNEL | Permission.READ_MESSAGE_HISTORY | Permission.SEND_MESSAGES,
        )
        vault.overwrite(here.mo, allow=Permission.VIEW_CHANNEL | Permission.READ_MESSAGE_HISTORY)
        vault.overwrite(here.guild.everyone, deny=Permission.VIEW_CHANNEL)
        await vault.say(here.mo, "the secret is sesame")
        async with here.bot(discord__read_history=True) as service:
            await here.ask("what is it?")
            await here.said("nothing")
            await here.answered(service, 3)
            assert "sesame" not in here.whole()
            assert "There is no such channel" in answer_of_tool(here)
            await here.ask("what is it?", room=vault)
            await here.said("found", room=vault)
            await here.answered(service, 5)
            assert "the secret is sesame" in answer_of_tool(here)


async def test_it_is_offered_where_it_can_be_used_and_while_the_settings_say_so(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hi]") as here:
        path = tmp_path / "pixi.toml"
        async with here.bot(discord__read_history=True) as service:
            await here.ask("hi")
            await here.said("hi")
            dm = here.discord.dm(here.mo)
            await dm.say(here.mo, "hi")
            await here.said("hi", room=dm)
            await here.answered(service, 2)
            assert (offered(here, 0), offered(here, 1)) == (TOOLS, set())
            assert {tool.name for tool in service.engine.tools} >= TOOLS
            off = here.settings(discord__read_history=False)
            await service.extend(off)
            await service.change(off, service.persona_set)
            await here.ask("again")
            await here.answered(service, 3)
            assert offered(here) == set()
        assert not path.exists()


async def test_posts_pins_and_what_stands_round_a_hit(tmp_path: Path) -> None:
    async with scene(
        tmp_path,
        calls("search_forum", words="pancake sticks"),
        calls("read_pins"),
        calls("read_messages", where="general", limit=2),
        calls("read_messages", where="#nowhere"),
        "[SEND: ok]",
    ) as here:
        forum = here.guild.forum("questions", tags=["solved"])
        ana = here.discord.person("Ana")
        post = await forum.post(here.mo, "My pancake sticks", "Why?", tags=["solved"])
        await post.say(ana, "Let the butter foam first.")
        here.room.pin(await here.room.say(ana, "Rule one: flip once."))
        async with here.bot(discord__read_history=True) as service:
            await here.ask("well?")
            await here.answered(service, 5)
        results = [line["content"] for line in here.prompt() if line["role"] == "tool"]
        (found,) = json.loads(results[0])["posts"]
        assert (found["title"], found["solved"]) == ("My pancake sticks", True)
        assert found["best_answers"][0]["text"] == "Let the butter foam first."
        assert [each["text"] for each in json.loads(results[1])["messages"]] == ["Rule one: flip once."]
        assert "Rule one: flip once." in results[2]
        assert "There is no such channel" in results[3]
