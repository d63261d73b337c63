"""A Discord in this process, by Discord's documents: REST, gateway, files, people, and their moods."""

from pixi.testing.discord.calls import ApiCall, DropConnection, RefusedCall
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.guilds import Guild
from pixi.testing.discord.interactions import Interaction
from pixi.testing.discord.messages import FakeMessage, Upload
from pixi.testing.discord.server import BOT_MAY, LoopbackDiscord
from pixi.testing.discord.users import FakeRole, Permission, User

__all__ = [
    "BOT_MAY",
    "ApiCall",
    "DropConnection",
    "FakeChannel",
    "FakeMessage",
    "FakeRole",
    "Guild",
    "Interaction",
    "LoopbackDiscord",
    "Permission",
    "RefusedCall",
    "Upload",
    "User",
]
