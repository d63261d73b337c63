"""The goal of the check, on the facts written by hand, and the figures that say how far it is reached."""

import json
from pathlib import Path

import pytest

from benchmarks import grounding, retrieval_tokens
from benchmarks.grounding import GOALLED, LANGUAGES, TRUE, collected, held, written


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_facts_written_by_hand(language: str, split: str) -> None:
    (tally,) = held([written(language, split)]).values()
    assert sum(tally.asked[kind] for kind in TRUE) >= 30
    assert (tally.share(TRUE) or 0) >= 0.85
    assert (tally.share(GOALLED) or 0) <= 0.025


def test_a_collection_is_read_and_its_facts_are_changed_by_rule(tmp_path: Path) -> None:
    rows = json.loads((grounding.WRITTEN / "dev" / "en.json").read_text("utf-8")) * 4
    lines = [
        json.dumps({"_id": str(n), "title": row["title"], "text": row["text"]}) for n, row in enumerate(rows)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    case = collected(tmp_path, "test")
    assert {"verbatim", "foreign", "renumbered", "negated", "replaced"} <= {item.kind for item in case.items}
    (tally,) = held([case]).values()
    assert tally.share(["verbatim"]) == 1
    assert "English" in grounding.table({"en": tally})


@pytest.mark.nightly
def test_the_figures() -> None:
    (figure,) = grounding.run(quick=True)
    assert figure.met
    (figure,) = retrieval_tokens.run(quick=True)
    assert float(figure.ratios["in the prompt / agent"]) > 5
