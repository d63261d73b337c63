"""The index of a database: what finds passages by their words. See `Index`."""

from pixi.knowledge.index.damage import IndexDamaged
from pixi.knowledge.index.index import Candidates, Index, Passage
from pixi.knowledge.index.ranking import Scored
from pixi.knowledge.index.sureness import Excerpt

__all__ = ["Candidates", "Excerpt", "Index", "IndexDamaged", "Passage", "Scored"]
