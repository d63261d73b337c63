"""A Discord in this process, by Discord's documents: REST, gateway, files, people, and their moods."""

from pixi.testing.discord.calls import Call, Hook
from pixi.testing.discord.channels import Channel, Typing
from pixi.testing.discord.faults import DropConnection, Fault
from pixi.testing.discord.guilds import Guild
from pixi.testing.discord.intents import PRIVILEGED, Intent
from pixi.testing.discord.interactions import Interaction
from pixi.testing.discord.messages import Attachment, Message, Upload
from pixi.testing.discord.permissions import ALL, EVERYONE, Permission
from pixi.testing.discord.server import BOT_MAY, LoopbackDiscord
from pixi.testing.discord.users import Emoji, Member, Role, Sticker, User
from pixi.testing.discord.webhooks import Webhook

__all__ = [
    "ALL",
    "BOT_MAY",
    "EVERYONE",
    "PRIVILEGED",
    "Attachment",
    "Call",
    "Channel",
    "DropConnection",
    "Emoji",
    "Fault",
    "Guild",
    "Hook",
    "Intent",
    "Interaction",
    "LoopbackDiscord",
    "Member",
    "Message",
    "Permission",
    "Role",
    "Sticker",
    "Typing",
    "Upload",
    "User",
    "Webhook",
]
