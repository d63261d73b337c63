"""`make cluster`: the bot in parts on this machine, with all that it needs, and who does what.

It starts a PostgreSQL server, a Discord inside this program, a gateway, two workers and a `serve`. Then
people write, and it prints what each process says and what stands in the rooms. The model is a script, unless
`--base-url` and `--model` name another.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pixi.testing.discord import FakeChannel, LoopbackDiscord, User
from tests.pages import ROOT
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, Wait, finish, stream, usage
from tests.waiting import until

_SAID = ("hello", "what is for breakfast?", "who is there?", "tell me something", "do you like rain?")
_REPLIES = (
    ("[NOTE: be short]\n", "[REACT: 🥞]\n[SEND: pan", "cakes!]\n", "[SEND: with syrup]"),
    ("[NOTE: somebody new]\n[SEND: hi ", "there]"),
    ("[REACT: 🌧]\n", "[SEND: I like ", "puddles]\n", "[SEND: and boots]"),
)
_PEOPLE = ("Ann", "Bo", "Cleo")
_ROOMS = ("kitchen", "porch", "garden")
_PARTS = (
    ("gateway", "Connected as", "gateway"),
    ("worker 1", "starting", "worker"),
    ("worker 2", "starting", "worker"),
    ("serve", "http://", "serve", "--only", "http"),
)
"""The processes: a name, what each says once it is ready, and the command with its flags."""


class Part:
    """One process of the bot, whose lines are printed under its name."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, names: Mapping[str, str]) -> None:
        self.name = name
        self.lines: list[str] = []
        self._names = names
        self._process = process
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, name: str, folder: Path, token: str, names: Mapping[str, str], *command: str
    ) -> "Part":
        """Start it in the folder with the settings; `names` of the ids that it may print."""
        kept = {each: os.environ[each] for each in ("PATH", "SYSTEMROOT", "LANG") if each in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pixi",
            *command,
            cwd=folder,
            env={**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT), "DISCORD_TOKEN": token},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        show(name, f"pixi-persona {' '.join(command)} (process {process.pid})")
        return cls(name, process, names)

    async def says(self, words: str) -> None:
        """Wait until it has said something that holds these words."""
        await until(lambda: any(words in line for line in self.lines), f"{words!r} from the {self.name}")

    async def end(self) -> None:
        """End it politely."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip()
            with suppress(ValueError):
                text = json.loads(text)["message"]
            self.lines.append(text)
            show(self.name, readable(text, self._names))


def show(who: str, text: str) -> None:
    """Print a line with the name of whoever said it."""
    print(f"{who:>9} │ {text}", flush=True)


def readable(text: str, names: Mapping[str, str]) -> str:
    """Put names in the place of ids."""
    for number, name in names.items():
        text = text.replace(number, name)
    return text


def answer(_: Seen) -> Reply:
    """Write what the scripted model writes, a piece every tenth of a second."""
    pieces = random.choice(_REPLIES)
    return stream(*(each for piece in pieces for each in (Wait(0.1), piece)), finish(), usage(50, 20))


async def run(seconds: float, model: str, base_url: str) -> None:
    """Run all parts for so many seconds, or until it is interrupted."""
    with tempfile.TemporaryDirectory(prefix="pixi-cluster-") as place:
        folder, server = Path(place), Postgres()
        try:
            async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=answer) as script:
                named: dict[str, str | int] = {
                    "name": model or "scripted",
                    "base_url": base_url or script.base_url,
                }
                settings: dict[str, dict[str, str | int]] = {
                    "model": named,
                    "store": {"url": server.url("cluster")},
                    "discord": {"api_url": discord.api_url},
                    "http": {"port": 0},
                }
                (folder / "pixi.toml").write_text(
                    "\n".join(
                        f"[{part}]\n"
                        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                        for part, keys in settings.items()
                    ),
                    encoding="utf-8",
                )
                await talk(discord, folder, seconds)
        finally:
            server.close()


async def talk(discord: LoopbackDiscord, folder: Path, seconds: float) -> None:
    """Start the parts one after the other, and let people write in the rooms."""
    guild = discord.guild("Pancake House")
    rooms = [guild.channel(name) for name in _ROOMS]
    people = [discord.person(name) for name in _PEOPLE]
    bot = discord.bot
    names = {f"<@{bot.id}>": "@Pixi", str(bot.id): "bot", str(guild.id): guild.name}
    names |= {str(room.id): f"#{room.name}" for room in rooms} | {str(each.id): each.name for each in people}
    parts: list[Part] = []
    try:
        for name, ready, *command in _PARTS:
            parts.append(await Part.start(name, folder, discord.token, names, *command))
            await parts[-1].says(ready)
        following = asyncio.create_task(follow(rooms, names))
        try:
            async with asyncio.timeout(seconds or None):
                await write(discord, rooms, people)
        except TimeoutError:
            pass
        finally:
            following.cancel()
    finally:
        await asyncio.gather(*(part.end() for part in reversed(parts)))


async def write(discord: LoopbackDiscord, rooms: Sequence[FakeChannel], people: Sequence[User]) -> None:
    """Let somebody write somewhere, over and over."""
    while True:
        await random.choice(rooms).say(random.choice(people), f"{discord.bot.mention} {random.choice(_SAID)}")
        await asyncio.sleep(random.uniform(0.2, 1.0))


async def follow(rooms: Sequence[FakeChannel], names: Mapping[str, str]) -> None:
    """Print what is written in the rooms."""
    shown = {room.id: 0 for room in rooms}
    while True:
        for room in rooms:
            for message in list(room.messages)[shown[room.id] :]:
                show(f"#{room.name}", readable(f"{message.author.name}: {message.content}", names))
            shown[room.id] = len(room.messages)
        await asyncio.sleep(0.05)


def main() -> None:
    """Read the flags and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long; without it until Ctrl-C")
    parser.add_argument("--model", default="", help="a model in place of the script")
    parser.add_argument("--base-url", default="", help="of the server that has it")
    options = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(run(options.seconds, options.model, options.base_url))


if __name__ == "__main__":
    main()
