"""A bot with slash commands at a Discord of our own, before a service that writes down what it is asked."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import discord

from pixi.channels.discord.backend import ConversationAddress
from pixi.channels.discord.gateway.client import Client
from pixi.channels.discord.slash.commands import SlashCommands
from pixi.core.persona import Persona
from pixi.testing.discord import FakeChannel, Guild, Interaction, LoopbackDiscord, Permission, User
from pixi.testing.discord import interactions as used
from tests.channels.discord.backend import RecordingBackend
from tests.servers.clients import pointed_at
from tests.waiting import until

PERSONAS = {
    "pixi": Persona("Pixi", "You are Pixi.", about="an art student who loves pancakes", summon=("pix",)),
    "edda": Persona("Edda_Storm", "You are Edda.", about="a storm watcher on a cliff"),
    "lao-qin": Persona("老秦", "You are 老秦.", about="runs a tea house in the rain"),
}

JSON = dict[str, Any]


@dataclass
class Stage:
    """A guild with a channel; somebody who has no rights, and somebody who manages the guild."""

    discord: LoopbackDiscord
    client: Client
    slash: SlashCommands
    backend: RecordingBackend
    shown: list[tuple[int, str]]
    forgotten: list[str]
    guild: Guild
    general: FakeChannel
    mo: User
    boss: User

    def address(self, channel: FakeChannel | Guild, persona: str = "") -> str:
        return str(ConversationAddress(self.discord.bot.id, channel.id, persona))

    async def use(
        self, line: str, who: User | None = None, where: FakeChannel | None = None, **options: Any
    ) -> Interaction:
        """Somebody uses a command, and is answered."""
        who, where = who or self.mo, where or self.general
        locale = options.pop("locale", "en-US")
        begun = await self.discord.slash(who, where, line, options, locale=locale)
        await begun.answered()
        return begun

    async def use_unseen(
        self, line: str, who: User, where: FakeChannel | None = None, **options: Any
    ) -> Interaction:
        """The same on a server that lets everybody use every command."""
        where = where or self.general
        name, *path = line.split()
        command = self.discord.world.commands.kept.get((1, name))
        assert command is not None
        given = [{"name": key, "type": 3, "value": value} for key, value in options.items()]
        for step in reversed(path):
            given = [{"name": step, "type": 1, "options": given}]
        data = {"id": str(command.id), "name": name, "type": 1, "options": given}
        begun = used.begin(used.COMMAND, who, where, data, locale="en-US")
        await begun.answered()
        return begun


@asynccontextmanager
async def stage(backend: RecordingBackend | None = None, *, sync: bool = True) -> AsyncIterator[Stage]:
    """A bot that is connected, and whose commands are registered unless told otherwise."""
    backend = backend or RecordingBackend(personas=PERSONAS)
    shown: list[tuple[int, str]] = []

    async def show_as(guild: discord.Guild, persona: str) -> None:
        shown.append((guild.id, persona))

    async with LoopbackDiscord() as server:
        guild = server.guild("Pancake house")
        general = guild.channel("general")
        mo = server.person("Mo")
        boss = server.person("Boss", permissions=Permission.MANAGE_GUILD | Permission.MANAGE_MESSAGES)
        for person in (mo, boss):
            guild.join(person)
        with pointed_at(server):
            async with Client() as client:
                forgotten: list[str] = []
                slash = SlashCommands(client, backend, show_as, on_forget=forgotten.append)
                running = asyncio.create_task(client.start(server.token))
                await server.ready()
                await until(lambda: client.get_guild(guild.id) is not None)
                if sync:
                    await slash.sync()
                yield Stage(server, client, slash, backend, shown, forgotten, guild, general, mo, boss)
                await client.close()
                await asyncio.wait([running], timeout=5)


def embed(interaction: Interaction) -> JSON:
    """The box of an answer."""
    message = interaction.original
    assert message is not None
    (shown,) = message.embeds
    return shown


def fields(interaction: Interaction) -> Mapping[str, str]:
    """The parts of the box, by their headings."""
    return {each["name"]: each["value"] for each in embed(interaction).get("fields", [])}


def shown(interaction: Interaction) -> str:
    """Everything that an answer shows."""
    box = embed(interaction) if interaction.original and interaction.original.embeds else {}
    parts = [interaction.content or "", box.get("title", ""), box.get("description", "")]
    parts += [part for each in box.get("fields", []) for part in (each["name"], each["value"])]
    return "\n".join(parts)
