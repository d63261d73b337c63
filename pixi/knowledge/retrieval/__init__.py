"""The retrieval agent: a cheap model reads whole entries, and names the sentences that answer a question."""

from pixi.knowledge.retrieval.agent import Reader, RetrievalAgent
from pixi.knowledge.retrieval.findings import Fact, Findings

__all__ = ["Fact", "Findings", "Reader", "RetrievalAgent"]
