"""Documents and queries of any number, of real text: of collections on disk, or of the project's pages."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ROOT

WORDS = 300
"""Of a document that is put together of sentences, about."""

_SENTENCE = re.compile(r"[^.!?。！？؟\n]+[.!?。！？؟]*")
_WORD = re.compile(r"[^\W\d_]{3,}")
_SEED = 20_261_122


@dataclass(frozen=True, slots=True)
class Texts:
    """What documents are made of.

    Attributes:
        documents: title and text of each that is there.
        queries: as they were asked, or as they are made of words of a document where none were.
        mistaken: the same with typing mistakes.
    """

    documents: Sequence[tuple[str, str]]
    queries: Sequence[str]
    mistaken: Sequence[str]


def texts_of(collections: Sequence[Path]) -> Texts:
    """The text of collections in the BEIR layout; of none: of the project's own pages."""
    documents: list[tuple[str, str]] = []
    asked: list[str] = []
    mistaken: list[str] = []
    for folder in collections:
        documents += [(row.get("title", ""), row["text"]) for row in _rows(folder / "corpus.jsonl")]
        asked += [row["text"] for row in _rows(folder / "queries.jsonl")]
        mistaken += [row["text"] for row in _rows(folder / "queries_typo.jsonl")]
    if not documents:
        pages = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("databases/*/*.md"))]
        documents = [(path.stem, path.read_text(encoding="utf-8")) for path in pages]
    chance = random.Random(_SEED)
    asked = asked or _asked_of(documents, chance)
    chance.shuffle(asked)
    return Texts(documents, asked, mistaken or [_mistyped(query, chance) for query in asked])


def made(texts: Texts, count: int) -> Iterator[tuple[str, str]]:
    """So many documents: those that are there, then others put together of sentences of theirs.

    They are the same for the same texts. Their words are real, and no more of them come with more documents.
    """
    yield from texts.documents[:count]
    chance = random.Random(_SEED)
    sentences = [
        sentence.strip()
        for _, text in texts.documents
        for sentence in _SENTENCE.findall(text)
        if len(sentence.split()) > 3 or len(sentence) > 20
    ]
    for _ in range(count - len(texts.documents)):
        words, chosen = 0, [chance.choice(sentences)]
        while words < WORDS:
            chosen.append(chance.choice(sentences))
            words += len(chosen[-1].split()) + len(chosen[-1]) // 20
        yield " ".join(chosen[0].split()[:12]), " ".join(chosen)


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _asked_of(documents: Sequence[tuple[str, str]], chance: random.Random) -> list[str]:
    queries = []
    for _ in range(500):
        words = _WORD.findall(chance.choice(documents)[1])
        start = chance.randrange(max(1, len(words) - 6))
        queries.append(" ".join(words[start : start + chance.randint(3, 6)]))
    return queries


def _mistyped(query: str, chance: random.Random) -> str:
    """One edit in three words of ten."""
    words = query.split()
    for place, word in enumerate(words):
        if len(word) > 3 and chance.random() < 0.3:
            at = chance.randrange(1, len(word) - 1)
            left, right = word[:at], word[at:]
            swapped = right[1] + right[0] + right[2:]
            words[place] = left + chance.choice((right[1:], "e" + right, "e" + right[1:], swapped))
    return " ".join(words)
