"""A Discord in this process, by Discord's documents: REST, gateway, files, people, and their moods.

In the order in which they build on each other:

- `calls`: requests to REST, refusals and limits. `users`: ids, people, roles. `commands`, as registered.
- The state, whose parts know each other, for a guild has channels and a channel its guild: `messages`,
  `channels`, `guilds`, `interactions`; `world`, which holds all of them; `gateway`, which tells the bot.
- `routing` takes requests and answers them by `place_routes`, `message_routes` and `webhook_routes`.
- `server` listens, and is the face for tests.
"""

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
