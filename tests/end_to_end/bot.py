"""A whole bot over real sockets: engine, store, models, discord.py, with scripts at the far ends."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from pixi.app.service import BotService, open_service
from pixi.channels.discord.backend import ConversationAddress
from pixi.channels.discord.bot import Bot
from pixi.channels.discord.gateway import client, patches
from pixi.channels.discord.gateway.client import Shards
from pixi.settings import Settings, load
from pixi.testing.discord import BOT_MAY, FakeChannel, FakeMessage, Guild, LoopbackDiscord, Permission, User
from tests.faults.ground import Ground
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen, Step, finish, stream, usage
from tests.waiting import until, within

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

EDDA = """\
---
name: Edda
summon: [edda]
pace: off
---

You are Edda.
"""


@dataclass(slots=True)
class Scene:
    """A server with a channel and somebody in it, and the bot that talks there.

    Attributes:
        model: the scripted model server; its replies are those of the scene, in order.
        scripts: the replies that are left.
        told: the lines that the operator was told.
        bots: how many run.
    """

    folder: Path
    discord: LoopbackDiscord
    model: ScriptedOpenAI
    guild: Guild
    room: FakeChannel
    mo: User
    scripts: list[Script] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    bots: int = 0
    _ground: Ground | None = None

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
    async def bot(
        self, *, token: str = "", shards: Shards | None = None, sessions: int = 1, **overrides: object
    ) -> AsyncGenerator[BotService, None]:
        """Run the bot until the block is left, as the program does; then nothing may be left of it."""
        if self.bots == 0:
            self._ground = Ground.now()
        self.bots += 1
        async with self._running(token, shards, sessions, overrides) as service:
            yield service
        self.bots -= 1
        if self.bots == 0 and self._ground is not None:
            await self._ground.is_left_as_it_was()

    @asynccontextmanager
    async def _running(
        self, token: str, shards: Shards | None, sessions: int, overrides: Mapping[str, object]
    ) -> AsyncGenerator[BotService, None]:
        settings = self.settings(**overrides)
        async with open_service(settings, report=self.told.append) as service:
            bot = Bot(
                service,
                token=token or self.discord.token,
                api_url=self.discord.api_url,
                shards=shards,
                tell=self.told.append,
            )
            # All guilds of a test come at once, and its Discord lets sessions and connections begin at once.
            with (
                mock.patch.multiple(client, _LAST_GUILD=0.02, _BETWEEN_SESSIONS=0.0),
                mock.patch.object(patches, "_AT_ONCE", 0.0),
            ):
                running = asyncio.create_task(bot.run())
                try:
                    ready = asyncio.create_task(self.discord.ready(sessions))
                    await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
                    if running.done():
                        ready.cancel()
                        await running
                    await ready
                    yield service
                finally:
                    running.cancel()
                    with suppress(asyncio.CancelledError):
                        await running

    # What people do.

    @property
    def at(self) -> str:
        """What is written to mention the bot."""
        return self.discord.bot.mention

    async def ask(
        self, text: str = "hi", *, by: User | None = None, room: FakeChannel | None = None
    ) -> FakeMessage:
        """Somebody mentions the bot."""
        return await (room or self.room).say(by or self.mo, f"{self.at} {text}")

    # What the bot does.

    async def said(self, *texts: str, room: FakeChannel | None = None) -> None:
        """Wait until exactly these were posted by the bot, in order."""
        place = room or self.room
        wanted = list(texts)
        try:
            await self.discord.wait_for(lambda: self.posts(place) == wanted)
        except TimeoutError as error:
            raise AssertionError(f"It said {self.posts(place)}, not {wanted}. {error}") from None

    def posts(self, room: FakeChannel | None = None) -> list[str]:
        """What the bot said in a room, by its webhooks too."""
        return (room or self.room).texts

    def posted(self, text: str, room: FakeChannel | None = None) -> FakeMessage:
        """The message of the bot that says this."""
        return next(each for each in (room or self.room).messages if each.content == text)

    def address(self, room: FakeChannel | None = None, persona: str = "pixi") -> str:
        """By which the service knows a conversation."""
        return str(ConversationAddress(self.discord.bot.id, (room or self.room).id, persona))

    async def answered(self, service: BotService, count: int) -> None:
        """Wait until the model was asked so often, and nothing is left to be answered."""
        await until(lambda: len(self.asked) >= count)
        await service.engine.settled()
        assert len(self.asked) == count, [self.heard(number) for number in range(len(self.asked))]

    # What the model was told.

    @property
    def asked(self) -> list[Seen]:
        """The requests for a reply."""
        return [seen for seen in self.model.requests if seen.path.endswith("/chat/completions")]

    def prompt(self, number: int = -1) -> list[Json]:
        """The lines of one of the requests to the model."""
        lines: list[Json] = self.asked[number].json()["messages"]
        return lines

    def heard(self, number: int = -1) -> str:
        """The last user line of a request, as text."""
        content = next(line["content"] for line in reversed(self.prompt(number)) if line["role"] == "user")
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)

    def whole(self, number: int = -1) -> str:
        """All lines of a request, as text."""
        return json.dumps(self.prompt(number), ensure_ascii=False)


async def leaves(request: Seen) -> None:
    """Wait until the bot has closed the connection of a request to the model."""
    async with within("the bot leaves the model"):
        await request.gone.wait()


@asynccontextmanager
async def scene(
    folder: Path,
    *scripts: Script,
    personas: Mapping[str, str] | None = None,
    bot_may: Permission = BOT_MAY,
    lean: bool = False,
) -> AsyncGenerator[Scene, None]:
    """Set it up. The last script is given again and again. `lean`: the server only speaks like Discord."""
    (folder / "personas").mkdir(exist_ok=True)
    for name, text in (personas or {"pixi": PERSONA}).items():
        (folder / "personas" / f"{name}.md").write_text(text, encoding="utf-8")
    left: list[Script] = list(scripts)

    def choose(seen: Seen) -> Reply:
        script = left[0] if len(left) == 1 else left.pop(0)
        reply = script(seen) if callable(script) else script
        if isinstance(reply, Reply):
            return reply
        pieces = [reply] if isinstance(reply, str) else list(reply)
        return stream(*pieces, finish(), usage(100, 20))

    async with LoopbackDiscord(lean=lean) as discord, ScriptedOpenAI(choose=choose) as model:
        guild = discord.guild("Pancake House", bot_may=bot_may)
        room = guild.channel("general")
        yield Scene(folder, discord, model, guild, room, discord.person("Mo"), left)
