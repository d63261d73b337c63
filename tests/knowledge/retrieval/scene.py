"""Documents and helpers for the tests of the retrieval agent."""

import hashlib
import json
from collections.abc import Sequence

from pixi.core.deltas import Request
from pixi.core.lines import UserLine
from pixi.knowledge.entry import Entry, Section
from pixi.models.model import Traits

LARGE = Traits(context_tokens=16_000)

BRIDGE = """The Khaju Bridge stands in Isfahan.
It was built by Shah Abbas II around 1650, on the foundations of an older bridge.

It has 23 arches and is 133 metres long. The bridge does not carry cars."""

TEA = "Longjing is a green tea from Hangzhou. It is not fermented. The best leaves are picked before April."


def entry(number: int, title: str, *sections: Section | str) -> Entry:
    """An entry, digested by its content."""
    whole = tuple(Section(s, line=1) if isinstance(s, str) else s for s in sections)
    digest = hashlib.sha256(repr((title, whole)).encode()).hexdigest()
    return Entry(number, f"{title.lower().replace(' ', '-')}.md", "", title, whole, digest)


BRIDGE_ENTRY = entry(7, "Khaju Bridge", BRIDGE)
TEA_ENTRY = entry(8, "Longjing", Section(TEA, heading="Tea › Green", page=3))


def reply(*facts: str, source: int = 1, confidence: float = 0.9) -> str:
    """The JSON that a helper is asked for."""
    listed = [{"fact": fact, "source": source, "confidence": confidence} for fact in facts]
    return json.dumps({"relevant": listed}, ensure_ascii=False)


def shown(request: Request) -> str:
    """What a helper was shown beside its instruction."""
    last = request.lines[-1]
    assert isinstance(last, UserLine)
    return last.text


def texts(facts: Sequence[object]) -> list[str]:
    return [str(getattr(fact, "text", "")) for fact in facts]
