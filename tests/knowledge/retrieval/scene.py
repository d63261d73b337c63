"""Documents and helpers for the tests of the retrieval agent."""

import hashlib
import json
from collections.abc import Sequence

from pixi.core.llm import Request, UserLine
from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
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


NOTHING = '{"answerable": false, "sentences": []}'


def reply(*numbers: object) -> str:
    """What a helper is asked for: the numbers of the sentences that answer."""
    return json.dumps({"answerable": True, "sentences": numbers}, ensure_ascii=False)


def reply_to(told: str, *wanted: str) -> str:
    """The reply that names every sentence in which one of these stands, by what the helper is shown."""
    lines = [line.partition("] ") for line in told.splitlines() if line.startswith("[")]
    numbers = [int(number[1:]) for number, _, text in lines if any(each in text for each in wanted)]
    return reply(*numbers) if numbers else NOTHING


def shown(request: Request) -> str:
    """What a helper was shown beside its instruction."""
    last = request.lines[-1]
    assert isinstance(last, UserLine)
    return last.text


def texts(facts: Sequence[object]) -> list[str]:
    return [str(getattr(fact, "text", "")) for fact in facts]
