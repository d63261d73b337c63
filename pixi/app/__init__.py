"""The composition root: builds the parts from the settings and joins them. Nothing else builds."""

from pixi.app.building import find_persona, open_engine
from pixi.app.models import runs_here

__all__ = ["find_persona", "open_engine", "runs_here"]
