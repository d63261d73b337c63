"""The composition root: builds the parts from the settings and joins them. Nothing else builds."""

from pixi.app.building import open_engine
from pixi.app.personas import find_persona

__all__ = ["find_persona", "open_engine"]
