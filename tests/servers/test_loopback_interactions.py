"""What the loopback Discord refuses of commands. That they work is seen wherever discord.py answers them."""

from typing import Any

import discord
import pytest
from discord import app_commands

from pixi.testing.discord import LoopbackDiscord, Permission
from tests.servers.clients import Bot, connected, rest

Json = dict[str, Any]


def furnish(bot: Bot) -> None:
    """The commands that these tests use."""

    @bot.tree.command(description="Say it back")
    async def echo(interaction: discord.Interaction, text: str) -> None:
        await interaction.response.send_message(f"{interaction.user.display_name}: {text}", ephemeral=True)

    @bot.tree.command(description="For admins")
    @app_commands.default_permissions(manage_guild=True)
    async def reset(interaction: discord.Interaction) -> None:
        await interaction.response.send_message("reset")


async def test_people_use_only_what_their_client_offers(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    mo, boss = server.person("Mo"), server.person("Boss", permissions=Permission.MANAGE_GUILD)
    async with connected(server) as bot:
        furnish(bot)
        await bot.tree.sync()
        with pytest.raises(PermissionError):
            await server.slash(mo, general, "reset")
        assert await (await server.slash(boss, general, "reset")).answered() == "reset"
        with pytest.raises(LookupError, match="echo"):
            await server.slash(mo, general, "nothing")
        used = await server.slash(mo, server.dm(mo), "echo", {"text": "x"})
        assert (await used.answered(), used.ephemeral) == ("Mo: x", True)


async def callback(server: LoopbackDiscord, used: Any, body: Json) -> tuple[int, Json]:
    async with (
        rest(server) as session,
        session.post(f"/api/v10/interactions/{used.id}/{used.token}/callback", json=body) as answer,
    ):
        return answer.status, await answer.json() if answer.content_length else {}


async def test_an_interaction_is_answered_once_and_in_three_seconds(server: LoopbackDiscord) -> None:
    general = server.guild().channel()
    mo = server.person("Mo")
    command = {"name": "ping", "description": "x"}
    home = f"/api/v10/applications/{server.bot.id}/commands"
    async with rest(server) as session:
        async with session.put(home, json=[command]) as answer:
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
