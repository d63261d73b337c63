"""A service over real files, a real store and a scripted server, as a bot would stand in it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pixi.app.service import BotService, open_service
from pixi.channels.discord.backend import ConversationAddress
from pixi.core.message import Author, Message
from pixi.settings import Settings, load
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream

BOT, CHANNEL = 1, 77
ABOUT = "You are {0}.\n"


def hello(seen: Seen) -> Reply:
    """A model that says its own name."""
    return stream(f"[SEND: {seen.json()['model']}]", finish())


def persona_file(folder: Path, name: str, text: str = "") -> Path:
    """A persona in the folder's `personas`."""
    path = folder / "personas" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text or f"---\nname: {name.title()}\n---\n\nYou are {name.title()}.\n")
    return path


def settings_file(folder: Path, server: ScriptedOpenAI, more: str = "", *, name: str = "first") -> None:
    """A `pixi.toml` whose model is at the server."""
    (folder / "pixi.toml").write_text(
        f'[model]\nname = "{name}"\nbase_url = "{server.base_url}"\n'
        f'[store]\nurl = "sqlite:///{folder}/pixi.db"\n{more}'
    )


def reading(folder: Path) -> Callable[[], Settings]:
    """Reads the settings as the program does."""
    return lambda: load(environ={}, folder=folder)


@asynccontextmanager
async def service_in(folder: Path) -> AsyncGenerator[BotService, None]:
    """The service that the folder's files describe."""
    async with open_service(reading(folder)()) as service:
        yield service


def address(persona: str = "pixi", channel: int = CHANNEL) -> str:
    """Where a persona talks."""
    return str(ConversationAddress(BOT, channel, persona))


def message(number: int, text: str = "hi", *, persona: str = "pixi", channel: int = CHANNEL) -> Message:
    """Something that somebody wrote."""
    return Message(str(number), address(persona, channel), Author("5", "mo"), text, sent_at=1.7e9 + number)
