"""The loopback Discord's commands, buttons and forms, as discord.py's command tree answers them."""

from typing import Any

import discord
import pytest
from discord import app_commands

from tests.servers.clients import Bot, connected, rest
from tests.servers.loopback_discord import LoopbackDiscord, Permission

Json = dict[str, Any]


def furnish(bot: Bot) -> None:
    """The commands that these tests use."""

    @bot.tree.command(description="Say it back")
    async def echo(interaction: discord.Interaction, text: str, who: discord.Member | None = None) -> None:
        name = who.display_name if who else interaction.user.display_name
        await interaction.response.send_message(f"{name}: {text} ({interaction.locale})", ephemeral=True)

    @bot.tree.command(description="Think first")
    async def think(interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await interaction.followup.send("done")
        await interaction.followup.send("and more", ephemeral=True)
        await interaction.edit_original_response(content="done, edited")

    @bot.tree.command(description="Choose")
    async def persona(interaction: discord.Interaction, name: str) -> None:
        await interaction.response.send_message(f"now {name}")
        await interaction.edit_original_response(content=f"It is {name} now")

    @persona.autocomplete("name")
    async def offer(interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
        known = ("Pixi", "Mimi", "Pip")
        return [
            app_commands.Choice(name=each, value=each) for each in known if each.lower().startswith(typed)
        ]

    @bot.tree.command(description="For admins")
    @app_commands.default_permissions(manage_guild=True)
    @app_commands.guild_only()
    async def reset(interaction: discord.Interaction) -> None:
        await interaction.response.send_message("reset")

    @bot.tree.context_menu(name="Why")
    async def why(interaction: discord.Interaction, message: discord.Message) -> None:
        await interaction.response.send_message(f"because: {message.content}", ephemeral=True)

    @bot.tree.context_menu(name="Who")
    async def who_is(interaction: discord.Interaction, member: discord.Member) -> None:
        await interaction.response.send_message(member.name)

    forget = app_commands.Group(name="forget", description="Forget")

    @forget.command(description="All of me")
    async def me(interaction: discord.Interaction, sure: bool) -> None:
        await interaction.response.send_message("really?", view=Ask())

    bot.tree.add_command(forget)


class Form(discord.ui.Modal, title="Say why"):
    reason: discord.ui.TextInput["Form"] = discord.ui.TextInput(label="Reason", custom_id="reason")

    async def on_submit(self, interaction: discord.Interaction) -> None:
        await interaction.response.send_message(f"because {self.reason.value}")


class Ask(discord.ui.View):
    @discord.ui.button(label="Yes", custom_id="yes")
    async def yes(self, interaction: discord.Interaction, button: discord.ui.Button["Ask"]) -> None:
        await interaction.response.edit_message(content="gone", view=None)

    @discord.ui.button(label="Explain", custom_id="explain")
    async def explain(self, interaction: discord.Interaction, button: discord.ui.Button["Ask"]) -> None:
        await interaction.response.send_modal(Form())


async def test_commands_are_used_and_answered() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        mo, ada = server.person("Mo", display="Momo"), server.person("Ada")
        await general.say(ada, "I am here")
        async with connected(server) as bot:
            furnish(bot)
            await bot.tree.sync()
            names = {"echo", "think", "persona", "reset", "Why", "Who", "forget"}
            assert {each.name for each in server.commands} == names
            used = await server.slash(mo, general, "echo", {"text": "hi"}, locale="de")
            assert (await used.answered(), used.ephemeral, used.late) == ("Momo: hi (de)", True, False)
            assert [each.content for each in general.messages] == ["I am here"]  # nobody else sees it
            used = await server.slash(mo, general, "echo", {"text": "hi", "who": ada})
            assert await used.answered() == "Ada: hi (en-US)"
            used = await server.slash(mo, general, "persona", {"name": "Mimi"})
            await server.wait_for(lambda: used.content == "It is Mimi now")
            assert not used.ephemeral
            assert general.messages[-1] is used.original
            assert general.texts == ["It is Mimi now"]


async def test_an_answer_can_be_promised_and_more_can_follow() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot:
            furnish(bot)
            await bot.tree.sync()
            used = await server.slash(server.person("Mo"), general, "think")
            assert (await used.responded()).response == 5
            await server.wait_for(lambda: used.content == "done, edited")
            assert used.ephemeral
            assert [each.content for each in used.followups] == ["and more"]
            assert general.messages == []


async def test_options_are_completed_while_they_are_typed() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        async with connected(server) as bot:
            furnish(bot)
            await bot.tree.sync()
            choices = await server.complete(server.person("Mo"), general, "persona", "name", typed="pi")
            assert [each["value"] for each in choices] == ["Pixi", "Pip"]


async def test_menus_of_messages_and_people_have_commands() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        mo = server.person("Mo")
        said = await general.say(mo, "the sky is blue")
        async with connected(server) as bot:
            furnish(bot)
            await bot.tree.sync()
            used = await server.message_menu(mo, said, "Why")
            assert (await used.answered(), used.ephemeral) == ("because: the sky is blue", True)
            assert await (await server.person_menu(mo, general, mo, "Who")).answered() == "Mo"


async def test_buttons_and_forms_work() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        mo = server.person("Mo")
        async with connected(server) as bot:
            furnish(bot)
            await bot.tree.sync()
            used = await server.slash(mo, general, "forget me", {"sure": True})
            assert await used.answered() == "really?"
            assert used.original is not None
            shown = await (await server.press(mo, used.original, "explain")).responded()
            sent = await server.submit(shown, {"reason": "I say so"})
            assert await sent.answered() == "because I say so"
            await (await server.press(mo, used.original, "yes")).responded()
            assert (used.content, used.original.components) == ("gone", [])


async def test_people_use_only_what_their_client_offers() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        mo, boss = server.person("Mo"), server.person("Boss", permissions=Permission.MANAGE_GUILD)
        async with connected(server) as bot:
            furnish(bot)
            await bot.tree.sync()
            with pytest.raises(PermissionError):
                await server.slash(mo, general, "reset")
            assert await (await server.slash(boss, general, "reset")).answered() == "reset"
            with pytest.raises(LookupError, match="DMs"):
                await server.slash(boss, server.dm(boss), "reset")
            with pytest.raises(LookupError, match="echo"):
                await server.slash(mo, general, "nothing")
            with pytest.raises(LookupError, match="needs text"):
                await server.slash(mo, general, "echo")
            assert (
                await (await server.slash(mo, server.dm(mo), "echo", {"text": "x"})).answered()
                == "Mo: x (en-US)"
            )


async def test_commands_of_a_guild_win_and_stay_there() -> None:
    async with LoopbackDiscord() as server:
        guild, other = server.guild(), server.guild("other")
        here, there = guild.channel(), other.channel()
        mo = server.person("Mo")
        async with connected(server) as bot:
            furnish(bot)

            async def status(interaction: discord.Interaction) -> None:
                await interaction.response.send_message("well")

            bot.tree.add_command(
                app_commands.Command(name="status", description="How it goes", callback=status),
                guild=discord.Object(guild.id),
            )
            await bot.tree.sync(guild=discord.Object(guild.id))
            assert await (await server.slash(mo, here, "status")).answered() == "well"
            with pytest.raises(LookupError):
                await server.slash(mo, there, "status")


async def callback(server: LoopbackDiscord, used: Any, body: Json) -> tuple[int, Json]:
    async with (
        rest(server) as session,
        session.post(f"/api/v10/interactions/{used.id}/{used.token}/callback", json=body) as answer,
    ):
        return answer.status, await answer.json() if answer.content_length else {}


async def test_an_interaction_is_answered_once_and_in_three_seconds() -> None:
    async with LoopbackDiscord() as server:
        general = server.guild().channel()
        mo = server.person("Mo")
        command = {"name": "ping", "description": "x"}
        home = f"/api/v10/applications/{server.bot.id}/commands"
        async with rest(server) as session:
            async with session.post(home, json=command) as answer:
                assert answer.status == 201
            async with session.post(home, json=command) as answer:
                assert answer.status == 200
            used = await server.slash(mo, general, "ping")
            async with session.post(
                f"/api/v10/webhooks/{server.bot.id}/{used.token}", json={"content": "x"}
            ) as early:
                assert (await early.json())["code"] == 10015
            message = {"type": 4, "data": {"content": "pong"}}
            assert (await callback(server, used, {"type": 4, "data": {}}))[1]["code"] == 50006
            assert (await callback(server, used, {"type": 8, "data": {"choices": []}}))[1]["code"] == 50035
            assert (await callback(server, used, message))[0] == 204
            assert (await callback(server, used, message))[1]["code"] == 40060
            late = await server.slash(mo, general, "ping")
            late.at -= 3.1
            assert late.late
            assert (await callback(server, late, message))[1]["code"] == 10062
            used.at -= 15 * 60
            url = f"/api/v10/webhooks/{server.bot.id}/{used.token}/messages/@original"
            async with session.get(url) as expired:
                assert (await expired.json())["code"] == 50027


WRONG: list[tuple[Json, tuple[str, ...], str]] = [
    ({"name": "Upper", "description": "x"}, ("0", "name"), "APPLICATION_COMMAND_INVALID_NAME"),
    ({"name": "a b", "description": "x"}, ("0", "name"), "APPLICATION_COMMAND_INVALID_NAME"),
    ({"name": "x" * 33, "description": "x"}, ("0", "name"), "BASE_TYPE_BAD_LENGTH"),
    ({"name": "ok"}, ("0", "description"), "BASE_TYPE_REQUIRED"),
    ({"name": "ok", "description": "x" * 101}, ("0", "description"), "BASE_TYPE_BAD_LENGTH"),
    (
        {"name": "ok", "description": "x", "name_localizations": {"tlh": "ok"}},
        ("0", "name_localizations", "tlh"),
        "BASE_TYPE_CHOICES",
    ),
    (
        {"name": "ok", "description": "x", "description_localizations": {"de": "x" * 101}},
        ("0", "description_localizations", "de"),
        "BASE_TYPE_BAD_LENGTH",
    ),
    (
        {
            "name": "ok",
            "description": "x",
            "options": [
                {"type": 3, "name": "a", "description": "a"},
                {"type": 3, "name": "b", "description": "b", "required": True},
            ],
        },
        ("0", "options", "1"),
        "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID",
    ),
]


@pytest.mark.parametrize(("command", "place", "code"), WRONG)
async def test_commands_are_checked(command: Json, place: tuple[str, ...], code: str) -> None:
    async with LoopbackDiscord() as server, rest(server) as session:
        home = f"/api/v10/applications/{server.bot.id}/commands"
        async with session.put(home, json=[command]) as answer:
            body = await answer.json()
            here = body["errors"]
            for step in place:
                here = here[step]
            assert (answer.status, body["code"], here["_errors"][0]["code"]) == (400, 50035, code)
        assert server.commands == []
        names = [{"name": "größe", "description": "x"}, {"name": "状態", "description": "x"}]
        async with session.put(home, json=names) as answer:
            assert answer.status == 200
        async with session.put(home, json=names[:1]) as answer:
            assert [each.name for each in server.commands] == ["größe"]
