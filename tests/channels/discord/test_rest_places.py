"""What a bot without a gateway knows of guilds and channels, and how often it asks."""

import asyncio
from collections.abc import AsyncIterator

import discord
import pytest

from pixi.channels.discord import places as module
from pixi.channels.discord.gateway.client import Client
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import find_server
from pixi.channels.discord.places import RestPlaces
from pixi.testing.discord import LoopbackDiscord, Permission


@pytest.fixture
async def server() -> AsyncIterator[LoopbackDiscord]:
    async with LoopbackDiscord() as server:
        yield server


@pytest.fixture
async def client(server: LoopbackDiscord) -> AsyncIterator[Client]:
    with patched(await find_server(server.api_url, server.token)):
        client = Client()
        await client.login(server.token)
        yield client
        await client.close()


async def test_conversations_that_begin_at_once_ask_about_their_guild_once(
    server: LoopbackDiscord, client: Client
) -> None:
    guild = server.guild("Pancake house")
    rooms = [guild.channel(f"room-{number}") for number in range(5)]
    places = RestPlaces(client)
    await asyncio.gather(*(places.learn(room.id) for room in rooms))
    assert all(client.get_channel(room.id) for room in rooms)
    assert len(server.asked("GET", f"/guilds/{guild.id}/channels$")) == 1


async def test_a_channel_that_was_closed_meanwhile_is_known_as_closed(
    server: LoopbackDiscord, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    guild = server.guild("Pancake house")
    room = guild.channel("kitchen")
    places = RestPlaces(client)

    async def is_open() -> bool:
        await places.learn(room.id)
        there = client.get_channel(room.id)
        assert isinstance(there, discord.TextChannel)
        return there.permissions_for(there.guild.default_role).view_channel

    assert await is_open()
    room.overwrites[guild.id] = (Permission(0), Permission.VIEW_CHANNEL)
    assert not await is_open()
