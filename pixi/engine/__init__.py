"""The one loop: a message in, a reply performed."""

from pixi.engine.engine import Engine

__all__ = ["Engine"]
