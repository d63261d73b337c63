"""The search figures: collections in the BEIR layout, their measures, and the command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import search_quality
from benchmarks.search_quality import Unreadable, load, ndcg, recall

SCRIPT = Path(search_quality.__file__)


def collection(folder: Path, *, header: bool = True, typo: bool = True) -> Path:
    folder.mkdir()
    documents = {
        "d1": "Pancakes are fried in butter on a hot pan.",
        "d2": "Waffles are baked between two irons.",
        "d3": "A kettle boils water for tea.",
    }
    queries = {"q1": "frying pancakes", "q2": "baked waffles", "q3": "never judged"}
    mistaken = {"q1": "frying pancaeks", "q2": "baekd waffels", "q3": "nvere"}
    _write(folder / "corpus.jsonl", documents, title="")
    _write(folder / "queries.jsonl", queries)
    if typo:
        _write(folder / "queries_typo.jsonl", mistaken)
    lines = ["query-id\tcorpus-id\tscore"] if header else []
    lines += ["q1\td1\t1", "q2\td2\t1", "q1\td3\t0"]
    (folder / "qrels.tsv").write_text("\n".join(lines) + "\n")
    return folder


def _write(path: Path, texts: dict[str, str], **more: str) -> None:
    path.write_text(
        "".join(json.dumps({"_id": key, "text": text} | more) + "\n" for key, text in texts.items())
    )


def test_ndcg() -> None:
    assert ndcg(["a", "b"], {"a": 1}) == 1.0
    assert ndcg(["b", "a"], {"a": 1}) == pytest.approx(0.6309, abs=1e-4)
    assert ndcg(["x"] * 10 + ["a"], {"a": 1}) == 0.0
    assert ndcg(["a", "b"], {"a": 1, "b": 2}) == pytest.approx(
        (1 + 2 / 1.58496) / (2 + 1 / 1.58496), abs=1e-4
    )
    assert ndcg(["a"], {}) == 0.0


def test_recall() -> None:
    assert recall(["a", "x"], {"a": 1, "b": 1}) == 0.5
    assert recall(["x"] * 10 + ["a"], {"a": 1}) == 0.0


@pytest.mark.parametrize("header", [True, False])
def test_layouts(tmp_path: Path, header: bool) -> None:
    found = load(collection(tmp_path / "c", header=header, typo=False))
    assert found.relevant == {"q1": {"d1": 1.0}, "q2": {"d2": 1.0}}
    assert found.mistaken == {}
    (tmp_path / "c" / "qrels.tsv").write_text("q1 0 d1 2\nq2\t0\td2\t1\n")
    assert load(tmp_path / "c").relevant == {"q1": {"d1": 2.0}, "q2": {"d2": 1.0}}


def test_what_is_no_collection_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"corpus\.jsonl"):
        load(tmp_path)
    folder = collection(tmp_path / "c")
    (folder / "qrels.tsv").write_text("q1\td1\t1\nq1\tnonsense\n")
    with pytest.raises(Unreadable, match="line 2"):
        load(folder)
    (folder / "qrels.tsv").unlink()
    with pytest.raises(Unreadable, match=r"qrels\.tsv"):
        load(folder)


@pytest.mark.nightly
def test_the_command_run_by_path(tmp_path: Path) -> None:
    folders = [collection(tmp_path / "first"), collection(tmp_path / "second", typo=False)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, folders), "--json"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert (first["name"], first["documents"], first["queries"]) == ("first", 3, 2)
    assert first["clean"]["ndcg"] == first["typo"]["ndcg"] == 1.0
    assert first["clean"]["recall"] == 1.0
    assert first["loss"] == 0.0
    assert 0 < first["clean"]["p50_ms"] <= first["clean"]["p95_ms"]
    assert second["typo"] is None
    assert second["loss"] is None
    assert "first: reading" in done.stderr


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search_quality.main([str(collection(tmp_path / "c"))]) == 0
    shown = capsys.readouterr().out
    assert "nDCG@10" in shown
    assert "1.000" in shown
    assert search_quality.main([str(tmp_path / "none")]) == 2
    assert "no such file" in capsys.readouterr().err
