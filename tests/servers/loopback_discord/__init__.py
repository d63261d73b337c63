"""A Discord in this process, by Discord's documents: REST, gateway, files, people, and their moods."""

from tests.servers.loopback_discord.calls import Call, Hook
from tests.servers.loopback_discord.channels import Channel, Typing
from tests.servers.loopback_discord.faults import DropConnection, Fault
from tests.servers.loopback_discord.guilds import Guild
from tests.servers.loopback_discord.intents import PRIVILEGED, Intent
from tests.servers.loopback_discord.interactions import Interaction
from tests.servers.loopback_discord.messages import Attachment, Message, Upload
from tests.servers.loopback_discord.permissions import ALL, EVERYONE, Permission
from tests.servers.loopback_discord.server import BOT_MAY, LoopbackDiscord
from tests.servers.loopback_discord.users import Emoji, Member, Role, Sticker, User
from tests.servers.loopback_discord.webhooks import Webhook

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
