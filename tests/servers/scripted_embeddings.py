"""An embeddings server over a real socket: a bag-of-words model that knows which words mean the same."""

import asyncio
import hashlib
import re
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, Until, Wait, answer

DIMENSIONS = 64
_WORD = re.compile(r"[a-z]{3,}")


def meaning(text: str, concepts: Mapping[str, str]) -> list[float]:
    """The sum of a direction for each English word, the same for words of one concept.

    As English models do, it knows other scripts by their look alone: they all point nearly one way.
    """
    vector = [0.0] * DIMENSIONS
    for word, times in Counter(_WORD.findall(text.casefold()) or ["unknown"]).items():
        for place, number in enumerate(_direction(concepts.get(word, word))):
            vector[place] += times * number
    return vector


@lru_cache(maxsize=4096)
def _direction(concept: str) -> Sequence[float]:
    data = b"".join(hashlib.sha256(f"{concept} {turn}".encode()).digest() for turn in range(DIMENSIONS // 8))
    return [number / 2**31 - 1 for number in struct.unpack(f"<{DIMENSIONS}I", data)]


@dataclass
class ScriptedEmbeddings:
    """What the server does, which may be changed at any time.

    Attributes:
        concepts: words that mean something else's meaning, e.g. `{"automobile": "car"}`.
        seconds: how long it takes for an answer.
        until: what it waits for before each answer; None: nothing.
        failing: replies given instead of vectors, one after the other.
        asked: the texts of each request, in order.
    """

    base_url: str = ""
    concepts: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    until: asyncio.Event | None = None
    failing: list[Reply] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """All texts that it was asked for, in order."""
        return [text for texts in self.asked for text in texts]

    def reply(self, seen: Seen) -> Reply:
        """What is answered to a request."""
        body = seen.json()
        self.bodies.append(body)
        self.asked.append(body["input"])
        if self.failing:
            return self.failing.pop(0)
        vectors = [meaning(text, self.concepts) for text in body["input"]]
        whole = answer(200, listed(vectors))
        if self.until is not None:
            return Reply((Until(self.until), *whole.steps))
        return Reply((Wait(self.seconds), *whole.steps)) if self.seconds else whole


def listed(vectors: Iterable[Sequence[float]]) -> dict[str, Any]:
    """The body of an answer. The last comes first: the index tells whose a vector is."""
    items = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": items[::-1], "model": "scripted", "usage": {"prompt_tokens": 1}}


@asynccontextmanager
async def embeddings_server(**script: Any) -> AsyncIterator[ScriptedEmbeddings]:
    """The server, on a free port of 127.0.0.1."""
    scripted = ScriptedEmbeddings(**script)
    async with ScriptedOpenAI(choose=scripted.reply) as server:
        scripted.base_url = server.base_url
        yield scripted
