"""The settings: `pixi.toml`, the environment, `.env` and flags, typed and checked."""

from pixi.settings.load import load
from pixi.settings.secret import Secret
from pixi.settings.sections import (
    DEFAULT_MODEL,
    DatabaseSettings,
    DiscordSettings,
    EmbeddingSettings,
    GifSettings,
    HttpSettings,
    JwtSettings,
    LimitSettings,
    McpSettings,
    ModelSettings,
    MonitoringSettings,
    PersonaSettings,
    ReplySettings,
    Settings,
    StoreSettings,
    StudioSettings,
    WebPagesSettings,
    WebSearchSettings,
    WikiSettings,
)

__all__ = [
    "DEFAULT_MODEL",
    "DatabaseSettings",
    "DiscordSettings",
    "EmbeddingSettings",
    "GifSettings",
    "HttpSettings",
    "JwtSettings",
    "LimitSettings",
    "McpSettings",
    "ModelSettings",
    "MonitoringSettings",
    "PersonaSettings",
    "ReplySettings",
    "Secret",
    "Settings",
    "StoreSettings",
    "StudioSettings",
    "WebPagesSettings",
    "WebSearchSettings",
    "WikiSettings",
    "load",
]
