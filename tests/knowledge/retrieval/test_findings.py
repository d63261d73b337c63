"""The cache of answers."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pixi.knowledge.retrieval import findings
from pixi.knowledge.retrieval.findings import Answer, Answers, SourceSpan
from tests.knowledge.retrieval.scene import BRIDGE_ENTRY
from tests.waiting import LIMIT

ENTRIES = (BRIDGE_ENTRY,)
ANSWER = Answer((SourceSpan(0, 0, 3, 9),), 2, "note")


def test_the_least_lately_used_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_MOST", 20)
    monkeypatch.setattr(findings, "_CLEAR", 5)
    cache = Answers(tmp_path / "answers.db")
    for number in range(20):
        cache.put(f"key {number}", ANSWER)
    assert cache.get("key 0", ENTRIES) == ANSWER
    cache.put("one more", ANSWER)
    kept = {key for key in [*(f"key {n}" for n in range(20)), "one more"] if cache.get(key, ENTRIES)}
    assert kept == {"key 0", "one more", *(f"key {n}" for n in range(7, 20))}
    cache.close()


def test_what_lies_outside_the_entries_is_no_answer(tmp_path: Path) -> None:
    cache = Answers(tmp_path / "answers.db")
    for place in (
        SourceSpan(1, 0, 0, 5),
        SourceSpan(0, 1, 0, 5),
        SourceSpan(0, 0, 5, 5),
        SourceSpan(0, 0, 0, 10_000),
    ):
        cache.put("key", Answer((place,)))
        assert cache.get("key", ENTRIES) is None
    cache.close()


@pytest.mark.parametrize("body", ["", "[]", "[[[1]],0,0]", "nonsense", '[[["a",0,0,1]],0,""]'])
def test_a_row_that_is_damaged_is_no_answer(tmp_path: Path, body: str) -> None:
    cache = Answers(tmp_path / "answers.db")
    cache.put("key", ANSWER)
    cache.close()
    with sqlite3.connect(tmp_path / "answers.db") as connection:
        connection.execute("UPDATE answers SET body = ?", (body,))
    connection.close()
    cache = Answers(tmp_path / "answers.db")
    assert cache.get("key", ENTRIES) is None
    cache.close()


def test_what_comes_after_the_end_is_not_kept(tmp_path: Path) -> None:
    cache = Answers(tmp_path / "answers.db")
    cache.close()
    cache.put("key", ANSWER)
    assert cache.get("key", ENTRIES) is None
    assert not list(tmp_path.iterdir())


def test_any_threads_may_use_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_BUSY_SECONDS", LIMIT)
    cache, other = Answers(tmp_path / "answers.db"), Answers(tmp_path / "answers.db")

    def use(number: int) -> Answer | None:
        each = (cache, other)[number % 2]
        each.put(f"key {number % 7}", ANSWER)
        return each.get(f"key {number % 7}", ENTRIES)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, range(200))) == {ANSWER}
    cache.close()
    other.close()


def test_a_file_that_is_busy_at_first_is_used_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_BUSY_SECONDS", 0.0)
    cache, other = Answers(tmp_path / "answers.db"), sqlite3.connect(tmp_path / "answers.db")
    other.execute("BEGIN EXCLUSIVE")
    cache.put("key", ANSWER)
    assert cache.get("key", ENTRIES) is None
    other.close()
    cache.put("key", ANSWER)
    assert cache.get("key", ENTRIES) == ANSWER
    cache.close()


def test_where_nothing_can_be_written_it_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Answers(tmp_path / "file" / "answers.db")
    cache.put("key", ANSWER)
    assert cache.get("key", ENTRIES) is None
    cache.close()
