"""discord.py: how it is connected, and every place in which it is patched or its private parts are read.

A release of discord.py may rename any of them. So releases are bounded, and whether all is there is checked
when this is imported, rather than found out by a bot that goes wrong.
"""

from pkgutil import resolve_name

import discord

from pixi.core.errors import ConfigError

REQUIREMENT = "discord.py>=2.7,<2.8"

_NEEDED = (
    # What is replaced while a bot runs, or wrapped for its client.
    "discord.asset:Asset.BASE",
    "discord.gateway:DiscordWebSocket.DEFAULT_GATEWAY",
    "discord.gateway:DiscordWebSocket.from_client",
    "discord.gateway:DiscordWebSocket.poll_event",
    "discord.gateway:DiscordWebSocket.received_message",
    "discord.http:DiscordClientWebSocketResponse",
    "discord.http:HTTPClient.request",
    "discord.http:Route.BASE",
    "discord.http:json_or_text",
    "discord.shard:ExponentialBackoff",
    "discord.state:AutoShardedConnectionState.parse_ready",
    "discord.utils:_ActiveDecompressionContext",
    "discord.voice_client:VoiceClient.warn_dave",
    "discord.voice_client:VoiceClient.warn_nacl",
    "discord.webhook.async_:json_or_text",
    # What is private, and read or called.
    "discord.app_commands:CommandTree._call",
    "discord.channel:TextChannel._overwrites",
    "discord.gateway:KeepAliveHandler.stop",
    "discord.gateway:ReconnectWebSocket",
    "discord.gateway:WebSocketClosure",
    "discord.guild:Guild._state",
    "discord.http:MultipartParameters",
    "discord.http:handle_message_parameters",
    "discord.member:Member._roles",
    "discord.utils:_ZSTD_SOURCE",
)


def check(needed: tuple[str, ...] = _NEEDED) -> None:
    """See whether discord.py has what is built on.

    Raises:
        ConfigError: it lacks something.
    """
    lacking = []
    for name in needed:
        try:
            resolve_name(name)
        except (ImportError, AttributeError):
            lacking.append(name.replace(":", "."))
    if lacking:
        raise ConfigError(
            f"discord.py {discord.__version__} does not fit: it has no {', '.join(lacking)}.\n"
            f"Install one that does: pip install '{REQUIREMENT}'"
        )


check()
