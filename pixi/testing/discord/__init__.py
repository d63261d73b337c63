"""A Discord in this process, by Discord's documents: REST, gateway, files, people, and their moods."""

from pixi.testing.discord.calls import ApiCall, DropConnection, Hook, RefusedCall
from pixi.testing.discord.channels import FakeChannel, Typing
from pixi.testing.discord.guilds import Guild
from pixi.testing.discord.ids import PRIVILEGED, GatewayIntents
from pixi.testing.discord.interactions import Interaction
from pixi.testing.discord.messages import FakeAttachment, FakeMessage, Upload
from pixi.testing.discord.server import BOT_MAY, LoopbackDiscord
from pixi.testing.discord.users import ALL, EVERYONE, Emoji, FakeRole, Member, Permission, Sticker, User
from pixi.testing.discord.webhooks import Webhook

__all__ = [
    "ALL",
    "BOT_MAY",
    "EVERYONE",
    "PRIVILEGED",
    "ApiCall",
    "DropConnection",
    "Emoji",
    "FakeAttachment",
    "FakeChannel",
    "FakeMessage",
    "FakeRole",
    "GatewayIntents",
    "Guild",
    "Hook",
    "Interaction",
    "LoopbackDiscord",
    "Member",
    "Permission",
    "RefusedCall",
    "Sticker",
    "Typing",
    "Upload",
    "User",
    "Webhook",
]
