"""The retrieval agent: a cheap model reads whole entries, and what it brings back is quoted from them."""

from pixi.knowledge.retrieval.agent import RetrievalAgent
from pixi.knowledge.retrieval.findings import Fact, Findings

__all__ = ["Fact", "Findings", "RetrievalAgent"]
