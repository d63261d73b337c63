"""A whole bot over real sockets: engine, store, models, discord.py, with scripts at the far ends."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pixi.app import open_household
from pixi.app.household import Household
from pixi.channels.discord.bot import Bot
from pixi.settings import Settings, load
from tests.servers.loopback_discord import Channel as Room
from tests.servers.loopback_discord import Guild, LoopbackDiscord, User
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen, Step, finish, stream, usage

Script = str | Sequence[str | Step] | Reply | Callable[[Seen], "str | Sequence[str | Step] | Reply"]

PERSONA = """\
---
name: Pixi
summon: [pixi]
pace: off
when_broken: ["oops, my head"]
---

You are Pixi.
"""


@dataclass(slots=True)
class Scene:
    """A server with a channel and somebody in it, and the bot that talks there.

    Attributes:
        model: the scripted model server; its replies are those of the scene, in order.
        told: the lines that the operator was told.
    """

    folder: Path
    discord: LoopbackDiscord
    model: ScriptedOpenAI
    guild: Guild
    room: Room
    mo: User
    scripts: list[Script] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def settings(self, **overrides: object) -> Settings:
        """The settings of the bot; `discord__dms=False` and the like come on top."""
        given = {key.replace("__", "."): value for key, value in overrides.items()}
        base = {
            "store.url": f"sqlite:///{self.folder / 'pixi.db'}",
            "model.name": "scripted",
            "model.base_url": self.model.base_url,
            "discord.token": self.discord.token,
            "discord.api_url": self.discord.api_url,
        }
        return load(environ={}, folder=self.folder, overrides=base | given)

    @asynccontextmanager
    async def bot(self, **overrides: object) -> AsyncGenerator[Household, None]:
        """Run the bot until the block is left, as the program does."""
        settings = self.settings(**overrides)
        async with open_household(settings, report=self.told.append) as house:
            bot = Bot(house, token=self.discord.token, api_url=self.discord.api_url, tell=self.told.append)
            running = asyncio.create_task(bot.run())
            try:
                ready = asyncio.create_task(self.discord.ready())
                await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
                ready.cancel()
                if running.done():
                    await running
                yield house
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    async def said(self, *texts: str, room: Room | None = None) -> None:
        """Wait until exactly these were posted by the bot, in order."""
        place = room or self.room
        wanted = list(texts)
        await self.discord.wait_for(lambda: self.posts(place) == wanted)

    def posts(self, room: Room | None = None) -> list[str]:
        """What the bot said in a room."""
        here = room or self.room
        return [each.content for each in here.messages if each.author.id == self.discord.bot.id]

    def prompt(self, number: int = -1) -> list[Json]:
        """The lines of one of the requests to the model."""
        asked = [seen for seen in self.model.requests if seen.path.endswith("/chat/completions")]
        lines: list[Json] = asked[number].json()["messages"]
        return lines

    def heard(self, number: int = -1) -> str:
        """The last user line of a request, as text."""
        content = next(line["content"] for line in reversed(self.prompt(number)) if line["role"] == "user")
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


@asynccontextmanager
async def scene(folder: Path, *scripts: Script) -> AsyncGenerator[Scene, None]:
    """Set it up. The last script is given again and again."""
    (folder / "personas").mkdir(exist_ok=True)
    (folder / "personas" / "pixi.md").write_text(PERSONA, encoding="utf-8")
    left: list[Script] = list(scripts)

    def choose(seen: Seen) -> Reply:
        script = left[0] if len(left) == 1 else left.pop(0)
        reply = script(seen) if callable(script) else script
        if isinstance(reply, Reply):
            return reply
        pieces = [reply] if isinstance(reply, str) else list(reply)
        return stream(*pieces, finish(), usage(100, 20))

    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=choose) as model:
        guild = discord.guild("Pancake House")
        room = guild.channel("general")
        yield Scene(folder, discord, model, guild, room, discord.person("Mo"), left)
