"""The benchmarks of retrieval: what comes back from helpers of several manners, and for how many tokens."""

import asyncio
import json
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import retrieval, retrieval_tokens


@pytest.mark.parametrize("language", retrieval.LANGUAGES)
def test_what_a_helper_names_comes_back_and_what_it_falsifies_never_does(language: str) -> None:
    tallies = asyncio.run(retrieval.measure(islice(retrieval.written(language, "test"), 10)))
    for manner in ("names the number", "names it twice, as text, and one beyond the end", "quotes it"):
        assert tallies[manner].found == tallies[manner].asked > 0
        assert tallies[manner].beside == 0
    assert tallies["falsifies it"].beside == 0
    assert tallies["names the number"].tokens < tallies["quotes it"].tokens


def test_a_collection_is_read(tmp_path: Path) -> None:
    texts = [f"Room {n} is blue. In room {n} stands a bed for {n + 2} people." for n in range(9)]
    lines = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    cases = list(retrieval.collected(tmp_path))
    assert [len(case.entries) for case in cases] == [8] * 8 + [1]
    assert "names the number" in retrieval.table(asyncio.run(retrieval.measure(cases[:1])))


@pytest.mark.nightly
def test_the_figures() -> None:
    (figure,) = retrieval.run(quick=True)
    assert figure.met
    (figure,) = retrieval_tokens.run(quick=True)
    assert float(figure.ratios["in the prompt / agent"]) > 5
