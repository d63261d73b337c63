"""The bot in a process of its own: its folder with personas, a tool and settings, its start and its end."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from pixi.testing.discord import LoopbackDiscord
from tests.end_to_end.program import environment
from tests.servers.scripted_openai import ScriptedOpenAI
from tests.soak.ledger import SORRY

LOG = "log.txt"
_START_SECONDS = 30.0

PERSONAS = {
    "pixi": f"---\nname: Pixi\nsummon: [pixi]\ntools: [ledger]\npace: off\n"
    f'when_broken: ["{SORRY}"]\n---\n\nYou are Pixi.\n',
    "edda": "---\nname: Edda\nsummon: [edda]\npace: brisk\n---\n\nYou are Edda.\n",
}

LEDGER = '''\
"""A tool."""


def setup(addon):
    @addon.tool
    async def ledger(context, entry: str) -> str:
        """Write an entry into the ledger.

        Args:
            entry: what to write.
        """
        return "written"
'''


def prepare(folder: Path, discord: LoopbackDiscord, server: ScriptedOpenAI) -> None:
    """Write its files."""
    (folder / "personas").mkdir()
    for name, text in PERSONAS.items():
        (folder / "personas" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "ledger.py").write_text(LEDGER, encoding="utf-8")
    (folder / "pixi.toml").write_text(
        f'addons = ["ledger.py"]\n'
        f'[model]\nname = "scripted"\nbase_url = "{server.base_url}"\ncontext_tokens = 8000\n'
        f"first_seconds = 4\ngap_seconds = 2\n"
        f'[discord]\napi_url = "{discord.api_url}"\nfaces = "webhook"\n',
        encoding="utf-8",
    )


@asynccontextmanager
async def bot_in(folder: Path, discord: LoopbackDiscord) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Start it, and wait until it is connected and its commands are registered."""
    with (folder / LOG).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pixi", "discord"),
            cwd=folder,
            env=environment(folder, DISCORD_TOKEN=discord.token),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        await discord.wait_for(lambda: discord.commands, _START_SECONDS)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
