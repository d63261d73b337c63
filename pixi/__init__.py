"""Pixi: a persona chatbot engine with inline streaming commands."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixi.app.building import open_engine
    from pixi.core.channel import Channel
    from pixi.core.errors import ChannelError, ConfigError, ModelError, PixiError, StoreError, ToolError
    from pixi.core.events import TurnReport
    from pixi.core.language import (
        CommandEnded,
        CommandStarted,
        CommandStream,
        CommandText,
        Event,
        Prose,
        Thought,
        ToolCallEnded,
    )
    from pixi.core.message import Author, Card, Field, Image, Message
    from pixi.core.persona import Persona
    from pixi.core.spending import Limits, Rate
    from pixi.engine.context import Role
    from pixi.engine.engine import Engine
    from pixi.knowledge.database import DirectoryDatabase
    from pixi.knowledge.retrieval import RetrievalAgent
    from pixi.models.model import Model
    from pixi.toolbox.addon import Addon
    from pixi.toolbox.context import Context
    from pixi.toolbox.tools import Toolbox

__all__ = [
    "Addon",
    "Author",
    "Card",
    "Channel",
    "ChannelError",
    "CommandEnded",
    "CommandStarted",
    "CommandStream",
    "CommandText",
    "ConfigError",
    "Context",
    "DirectoryDatabase",
    "Engine",
    "Event",
    "Field",
    "Image",
    "Limits",
    "Message",
    "Model",
    "ModelError",
    "Persona",
    "PixiError",
    "Prose",
    "Rate",
    "RetrievalAgent",
    "Role",
    "StoreError",
    "Thought",
    "ToolCallEnded",
    "ToolError",
    "Toolbox",
    "TurnReport",
    "open_engine",
]

# Where each name lives. They are looked up when first used, so that `import pixi` costs next to nothing.
_HOMES = {
    "pixi.app.building": "open_engine",
    "pixi.core.channel": "Channel",
    "pixi.core.errors": "ChannelError ConfigError ModelError PixiError StoreError ToolError",
    "pixi.core.events": "TurnReport",
    "pixi.core.language": (
        "CommandEnded CommandStarted CommandStream CommandText Event Prose Thought ToolCallEnded"
    ),
    "pixi.core.message": "Author Card Field Image Message",
    "pixi.core.persona": "Persona",
    "pixi.core.spending": "Limits Rate",
    "pixi.engine.context": "Role",
    "pixi.engine.engine": "Engine",
    "pixi.knowledge.database": "DirectoryDatabase",
    "pixi.knowledge.retrieval": "RetrievalAgent",
    "pixi.models.model": "Model",
    "pixi.toolbox.addon": "Addon",
    "pixi.toolbox.context": "Context",
    "pixi.toolbox.tools": "Toolbox",
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            found: object = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module 'pixi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
