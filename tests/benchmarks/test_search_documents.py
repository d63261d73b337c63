"""Documents for measuring: real ones first, then as many as are asked for, always the same."""

import json
from pathlib import Path

from benchmarks.search_documents import made, texts_of


def collection(folder: Path) -> Path:
    rows = [
        {"_id": str(n), "title": f"T{n}", "text": f"One thing is {n}. Another thing is more."}
        for n in range(3)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "which thing?"}), encoding="utf-8")
    return folder


def test_those_that_are_there_come_first_and_others_are_made_of_their_sentences(tmp_path: Path) -> None:
    texts = texts_of([collection(tmp_path)])
    documents = list(made(texts, 5))
    assert documents[:3] == list(texts.documents)
    assert len(documents) == 5
    assert 250 < len(documents[4][1].split()) < 350
    assert set(documents[4][1].split()) <= {word for _, text in texts.documents for word in text.split()}
    assert documents == list(made(texts_of([tmp_path]), 5))
    assert len(list(made(texts, 2))) == 2


def test_queries_are_those_of_the_collection(tmp_path: Path) -> None:
    texts = texts_of([collection(tmp_path)])
    assert texts.queries == ["which thing?"]
    assert len(texts.mistaken) == 1


def test_without_a_collection_the_projects_own_pages_do() -> None:
    texts = texts_of([])
    assert any("Pixi" in text for _, text in texts.documents)
    assert len(texts.queries) == len(texts.mistaken) == 500
    assert sum(a != b for a, b in zip(texts.queries, texts.mistaken, strict=True)) > 100
    assert texts_of([]) == texts
