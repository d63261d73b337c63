"""`pixi-persona discord` as a process: it comes, talks, changes while it runs, tells of itself, and goes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pixi.testing.discord import FakeChannel, LoopbackDiscord, User
from tests.end_to_end.program import SECONDS, Piped, on_terminal, piped, ran
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage
from tests.waiting import within

SECRET_WORDS = "the treasure is under the linden"


def reply(seen: Seen) -> Reply:
    """Says which model it is, and in which mood its persona."""
    body = seen.json()
    mood = "loud" if "SHOUT" in str(body["messages"][0]["content"]) else "quiet"
    return stream(f"[SEND: {body['model']}, {mood}]", finish(), usage(100, 20))


@dataclass(slots=True)
class Scene:
    """A Discord, a model server, a folder of settings, and somebody who talks."""

    home: Path
    discord: LoopbackDiscord
    model: ScriptedOpenAI
    room: FakeChannel
    mo: User
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, more: str = "", *, model: str = "small") -> None:
        """The settings file."""
        (self.home / "pixi.toml").write_text(
            f'[model]\nname = "{model}"\nbase_url = "{self.model.base_url}"\n'
            f'prices = {{ prompt = 1, completion = 2 }}\n[reply]\npace = "off"\n'
            f'[discord]\napi_url = "{self.discord.api_url}"\n{more}'
        )

    def persona(self, text: str) -> None:
        """The default persona's file."""
        (self.home / "personas").mkdir(exist_ok=True)
        (self.home / "personas" / "pixi.md").write_text(text)

    async def ask(self, text: str = "hi") -> None:
        """Mo mentions the bot."""
        await self.room.say(self.mo, f"{self.discord.bot.mention} {text}")

    async def hears(self, *texts: str) -> None:
        """Wait until exactly these were posted."""
        wanted = list(texts)
        await self.discord.wait_for(lambda: self.room.texts == wanted, SECONDS)


@dataclass(slots=True)
class Running:
    """The program, and what it logged so far."""

    program: Piped
    lines: list[str] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Take lines of its standard error until there are no more."""
        assert self.program.process.stderr
        async for line in self.program.process.stderr:
            self.lines.append(line.decode())
            self._more.set()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The log."""
        return [json.loads(line) for line in self.lines]

    async def logs(self, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for a record of which this holds."""
        async with within("a record"):
            while not (found := [record for record in self.records if holds(record)]):
                self._more.clear()
                await self._more.wait()
        return found[0]

    async def ends(self, number: signal.Signals | None = None) -> int:
        """Send a signal, if one is named; gives the exit code."""
        if number is not None:
            self.program.process.send_signal(number)
        return await asyncio.wait_for(self.program.process.wait(), SECONDS)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene, None]:
    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=reply) as model:
        room = discord.guild("House").channel("general")
        scene = Scene(tmp_path, discord, model, room, discord.person("Mo"), {"DISCORD_TOKEN": discord.token})
        scene.write()
        scene.persona("---\nname: Pixi\n---\n\nYou are Pixi.\n")
        yield scene


@asynccontextmanager
async def running(scene: Scene, *words: str) -> AsyncGenerator[Running, None]:
    """`pixi-persona discord WORDS`, until the block is left."""
    async with piped(scene.home, "discord", *words, environ=scene.environ) as program:
        started = Running(program)
        reading = asyncio.create_task(started.read())
        try:
            yield started
        finally:
            if program.process.returncode is None:
                program.process.kill()
            await reading


def finished(record: dict[str, Any]) -> bool:
    return bool(record["logger"] == "pixi.turns")


async def test_it_talks_tells_of_each_turn_and_ends_well_when_asked(scene: Scene) -> None:
    async with running(scene) as bot:
        await scene.discord.ready(timeout=SECONDS)
        await scene.ask(SECRET_WORDS)
        await scene.hears("small, quiet")
        turn = await bot.logs(finished)
        scene.persona("---\nname: Pixi\n---\n\nYou SHOUT.\n")
        await bot.logs(lambda record: record["message"] == "personas changed: pixi changed")
        scene.write(model="large")
        await bot.logs(lambda record: record["message"] == "settings changed: model.name")
        await scene.ask()
        await scene.hears("small, quiet", "large, loud")
        assert {record["level"] for record in bot.records} == {"info"}
        scene.write("bots = maybe\n")
        wrong = await bot.logs(lambda record: "stays as it was" in record["message"])
        assert "pixi.toml is not valid TOML" in wrong["message"]
        await scene.ask()
        await scene.hears("small, quiet", "large, loud", "large, loud")
        assert await bot.ends(signal.SIGTERM) == 0, "a service manager takes all else for a failure"
    assert (turn["person"], turn["persona"], turn["model"]) == (str(scene.mo.id), "Pixi", "small")
    assert turn["conversation"] == f"discord:{scene.discord.bot.id}:{scene.room.id}:pixi"
    assert turn["effects"] == {"send": 1}
    assert turn["cost"] == pytest.approx((100 * 1 + 20 * 2) / 1_000_000)
    assert 0 < turn["first_visible"] <= turn["seconds"]
    everything = "".join(bot.lines)
    assert SECRET_WORDS not in everything
    assert scene.discord.token not in everything
    assert "Traceback" not in everything


@pytest.mark.nightly
async def test_a_second_signal_ends_it_at_once(scene: Scene) -> None:
    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    hook = scene.discord.before("POST", "/messages$", hang)
    scene.room = scene.discord.guild("Another house", shard=1, of=2).channel("general")
    async with running(scene, "--shards", "1/2") as bot:
        await scene.discord.ready(timeout=SECONDS)
        (session,) = (each.session for each in scene.discord.gateway.connections)
        assert session
        assert (session.shard, session.shards) == (1, 2)
        await scene.ask()
        await scene.discord.wait_for(lambda: hook.hits, SECONDS)
        async with within("the end"):
            while bot.program.process.returncode is None:  # it waits for the message to be posted
                # Not by `send_signal`: it looks whether the process has ended, and takes its exit code then.
                with suppress(ProcessLookupError):
                    os.kill(bot.program.process.pid, signal.SIGINT)
                await asyncio.sleep(0.05)
        assert await bot.ends() == 128 + signal.SIGINT, "no good end, but at once"


@pytest.mark.nightly
async def test_on_a_terminal_the_log_is_for_people(scene: Scene) -> None:
    async with on_terminal(scene.home, "discord", **scene.environ) as terminal:
        await terminal.shows("info     bot  Connected as")
        await scene.ask()
        await terminal.shows("turns  turn 1 stop · Pixi on small")
        terminal.type("\x03")
        assert await terminal.ended() == 0
    assert "{" not in terminal.text
    assert "Traceback" not in terminal.text


async def test_without_a_token_it_says_where_to_get_one(scene: Scene) -> None:
    scene.environ.clear()
    ended = await ran(scene.home, b"", "discord")
    assert ended.code == 2
    first, second = ended.err.splitlines()
    assert first == (
        "pixi-persona: There is no token for Discord: set DISCORD_TOKEN in the environment or in .env."
    )
    assert "https://discord.com/developers/applications" in second


@pytest.mark.nightly
async def test_a_wrong_token_is_one_line(scene: Scene) -> None:
    scene.environ["DISCORD_TOKEN"] = "canary-of-a-token"
    async with running(scene) as bot:
        assert await bot.ends() == 2
    assert "canary" not in "".join(bot.lines)
    (told,) = (record for record in bot.records if record["level"] == "error")
    assert "Discord does not know the token in DISCORD_TOKEN" in told["message"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shards", "4"], "'4' names no shards: write FIRST-LAST/ALL"),
        pytest.param(["--persona", "pixie"], "there is no persona `pixie`", marks=pytest.mark.nightly),
        pytest.param(["--model", "gone.gguf"], "gone.gguf", marks=pytest.mark.nightly),
    ],
)
async def test_a_wrong_flag_is_one_line(scene: Scene, words: list[str], told: str) -> None:
    async with running(scene, *words) as bot:
        assert await bot.ends() == 2
    assert told in bot.records[-1]["message"]
    assert "Traceback" not in "".join(bot.lines)
