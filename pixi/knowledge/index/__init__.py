"""The index of a database: what finds passages by their words. See `Index`."""

from pixi.knowledge.index.evidence import Excerpt
from pixi.knowledge.index.index import Candidates, Index, Passage
from pixi.knowledge.index.query import IndexDamaged, Scored

__all__ = ["Candidates", "Excerpt", "Index", "IndexDamaged", "Passage", "Scored"]
