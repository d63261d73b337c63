"""The settings: `pixi.toml`, the environment, `.env` and flags, typed and checked."""

from pixi.settings.load import load
from pixi.settings.secret import Secret
from pixi.settings.sections import (
    DiscordSettings,
    EmbeddingSettings,
    GifSettings,
    HttpSettings,
    JwtSettings,
    LimitSettings,
    McpSettings,
    ModelSettings,
    MonitoringSettings,
    ReplySettings,
    Settings,
    StoreSettings,
    WebSearchSettings,
    WikiSettings,
)

__all__ = [
    "DiscordSettings",
    "EmbeddingSettings",
    "GifSettings",
    "HttpSettings",
    "JwtSettings",
    "LimitSettings",
    "McpSettings",
    "ModelSettings",
    "MonitoringSettings",
    "ReplySettings",
    "Secret",
    "Settings",
    "StoreSettings",
    "WebSearchSettings",
    "WikiSettings",
    "load",
]
