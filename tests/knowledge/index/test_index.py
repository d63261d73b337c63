"""The index on disk: changes, reopening, damage, threads, and queries of every kind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry, Source
from pixi.knowledge.index import FORMAT, Index
from pixi.knowledge.query import LONGEST, IndexDamaged
from tests.knowledge.index.building import entry, ids, index_of
from tests.steps import steps_of

TEXTS = {
    1: "Pancakes are thin cakes, fried in butter on a hot pan.",
    2: "Waffles are baked between two irons with a pattern.",
    3: "Crêpes are a Breton kind of pancake, thinner still.",
    4: "A kettle boils water for tea; green tea wants cooler water.",
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = index_of(tmp_path / "index", TEXTS)
    yield index
    index.close()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """For tests that ask, and change nothing."""
    index = index_of(tmp_path_factory.mktemp("asked") / "index", TEXTS)
    yield index
    index.close()


def test_a_new_index_is_empty(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "deep" / "index")
    assert index.entries == 0
    assert index.search("anything", 10).hits == ()
    assert list(index.passages([1])) == []
    index.close()


def test_the_best_comes_first(asked: Index) -> None:
    assert ids(asked.search("thin pancakes in butter", 10))[0] == 1
    assert ids(asked.search("boiling tea", 1)) == [4]
    scores = [hit.score for hit in asked.search("pancake", 10).hits]
    assert scores == sorted(scores, reverse=True)


def test_the_limit_holds(asked: Index) -> None:
    assert len(asked.search("pancakes tea waffles", 2).hits) == 2
    assert asked.search("pancakes", 0).hits == ()
    assert len(asked.search("pancakes", 10**9).hits) == 2


def test_an_entry_is_replaced(index: Index) -> None:
    index.change([entry(4, "A samovar keeps the water hot all day.")], [4])
    assert index.entries == 4
    assert ids(index.search("samovar", 10)) == [4]
    assert 4 not in ids(index.search("kettle", 10))
    index.change([entry(4, "Now of sugar.")], [])  # not named among those to remove
    assert index.entries == 4
    assert ids(index.search("samovar", 10)) == []


def test_entries_are_removed(index: Index) -> None:
    index.change([], [1, 3, 999])
    assert index.entries == 2
    assert ids(index.search("pancakes", 10)) == []
    assert ids(index.search("waffles", 10)) == [2]


def test_the_same_is_found_after_others_came_and_went(index: Index) -> None:
    before = ids(index.search("pancake pan tea", 10))
    index.change([entry(number, f"passing text number {number}") for number in range(100, 140)], [])
    index.change([], range(100, 140))
    assert ids(index.search("pancake pan tea", 10)) == before


def test_an_entry_without_text_is_found_by_its_title(index: Index) -> None:
    index.change([Entry(9, "x/empty.md", "", "Dutch baby", (), "")], [])
    assert index.entries == 5
    (hit,) = index.search("dutch baby", 10).hits
    assert hit.source == Source(9, "Dutch baby", "x/empty.md")


def test_it_opens_again(tmp_path: Path, index: Index) -> None:
    index.close()
    index.close()
    again = Index.open(tmp_path / "index")
    assert again.entries == 4
    assert ids(again.search("thin pancakes", 1)) == [1]
    again.change([entry(5, "Blini are made with buckwheat.")], [2])
    again.close()
    third = Index.open(tmp_path / "index")
    assert ids(third.search("buckwheat", 10)) == [5]
    assert ids(third.search("waffles", 10)) == []
    assert third.search("bukwheat", 10).read_as == (("bukwheat", "buckwheat"),)
    third.close()


def test_one_who_looks_on_sees_whole_changes(tmp_path: Path, index: Index) -> None:
    looking = Index.open(tmp_path / "index")
    index.change([entry(5, "Blini are made with buckwheat.")], [])
    assert ids(Index.open(tmp_path / "index").search("buckwheat", 10)) == [5]
    assert looking.entries == 4


def test_a_change_that_fails_changes_nothing(index: Index) -> None:
    def breaking() -> Iterator[Entry]:
        yield entry(7, "A word like quicksilver.")
        raise KeyError("the catalogue is gone")

    with pytest.raises(KeyError):
        index.change(breaking(), [1])
    index.change([entry(8, "Another.")], [])
    assert index.entries == 5
    assert ids(index.search("quicksilver", 10)) == []
    assert 1 in ids(index.search("butter", 10))
    index.change([entry(7, "A word like quicksilver.")], [])
    assert index.search("quicksilfer", 10).read_as == (("quicksilfer", "quicksilver"),)


def test_passages_have_numbers_that_are_never_used_again(tmp_path: Path, index: Index) -> None:
    first = {passage.number for passage in index.passages([1, 2, 3, 4])}
    assert len(first) == 4
    index.change([], [4])
    index.close()
    again = Index.open(tmp_path / "index")
    again.change([entry(4, "Tea once more.")], [])
    (passage,) = again.passages([4, 77])
    assert passage.number not in first
    assert (passage.entry, passage.text) == (4, "Tea once more.")
    again.close()


def test_candidates_may_be_scored_anew(index: Index) -> None:
    found = index.candidates("pancakes with butter", 10)
    turned = [type(each)(each.passage, each.entry, -each.score) for each in found.passages]
    gone = type(turned[0])(12345, 99, 1000.0)
    assert ids(index.hits(found, [gone, *turned], 10)) == [each.entry for each in reversed(found.passages)]
    assert index.candidates("buttter", 10).reading == "butter"


def test_an_entry_scores_as_its_best_passage(tmp_path: Path) -> None:
    filler = " ".join(f"Sentence {number} says nothing of note." for number in range(200))
    index = Index.open(tmp_path / "index")
    long = Entry(
        1, "a", "", "long", (Section(filler), Section("The password is heliotrope.", "Last", 90)), ""
    )
    index.change([long, entry(2, "short and heliotrope is not a password here but a flower of gardens")], [])
    found = index.search("password heliotrope", 10)
    assert sorted(ids(found)) == [1, 2]
    place = next(hit.source for hit in found.hits if hit.source.entry == 1)
    assert place == Source(1, "long", "a", "Last", 90)
    assert len(list(index.passages([1]))) > 5
    index.close()


def test_a_long_entry_does_not_crowd_out_others(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index")
    sections = tuple(Section(f"heliotrope {'garden ' * 150}{number}") for number in range(300))
    others = [entry(number, f"the heliotrope number {number}, {'other ' * 200}") for number in range(2, 8)]
    index.change([Entry(1, "a", "", "heliotrope", sections, ""), *others], [])
    assert set(ids(index.search("heliotrope", 10))) == set(range(1, 8))
    index.close()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   \n\t",
        "?!…،。",
        "\0",
        "\ud800",
        "\0\0\ud83d tea \udfff",
        'title:"x" AND (NOT *:* OR pan~2 ^9',
        "'; DROP TABLE entries; --",
        "[* TO *] +pan -tea /(a+)+$/",
        "\u202e\u200b\ufeff",
        "🥞",
        "of the and",
    ],
)
def test_any_query_is_answered(asked: Index, query: str) -> None:
    found = asked.search(query, 10)
    assert len(found.hits) <= 4
    if "tea" in query:
        assert 4 in ids(found)


def test_stop_words_alone_find_something(asked: Index) -> None:
    assert asked.search("are a", 10).hits


@pytest.mark.parametrize(
    "query",
    [
        "".join(chr(0x4E00 + number % 20_000) for number in range(100_000)),
        " ".join(f"unknwon{chr(97 + number % 26)}word" for number in range(8_000)),
    ],
    ids=["characters", "unknown words"],
)
def test_of_a_query_of_100_000_characters_the_rest_is_not_read(asked: Index, query: str) -> None:
    asked.search(query, 10)
    most = steps_of(lambda: asked.search(query[:LONGEST], 10), in_lines=True)
    assert steps_of(lambda: asked.search(query, 10), in_lines=True) < 1.2 * most + 100
    assert most < 200 * LONGEST


def test_documents_may_hold_anything(tmp_path: Path) -> None:
    texts = {
        1: "nul \0 and \ud800 surrogate, sturgeon",
        2: "x" * 300_000,
        3: "\x1b[31mred\x07 sturgeon of the Volga " + "word " * 100,
        4: "",
        5: "𝕊𝕥𝕦𝕣𝕘𝕖𝕠𝕟",
    }
    index = index_of(tmp_path / "index", texts)
    assert index.entries == 5
    found = index.search("sturgeon", 10)
    assert set(ids(found)) == {1, 3, 5}
    assert all(hit.snippet.isprintable() for hit in found.hits)
    index.close()


def test_titles_and_places_come_back_as_they_are(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index")
    text = (
        "first\n\n"
        + "filler words here. " * 80
        + "\n\nThe kumquat stands on another line.\n"
        + "more of it. " * 90
    )
    index.change([Entry(1, "döß/ä.md", "k", "Früchte", (Section(text, "Obst › Zitrus", 10, 3),), "")], [])
    (hit,) = index.search("kumquat", 10).hits
    assert (hit.source.title, hit.source.path, hit.source.section) == ("Früchte", "döß/ä.md", "Obst › Zitrus")
    assert hit.source.page == 3
    assert 10 <= hit.source.line <= 14
    assert "kumquat" in hit.snippet
    index.close()


def test_threads_ask_while_one_writes(index: Index) -> None:
    def ask(number: int) -> int:
        found = index.search("thin pancakse of tea"[number % 3 :], 10)
        return len(found.hits)

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ask, number) for number in range(120)]
        for number in range(100, 110):
            index.change([entry(number, f"thin text {number} with tea")], [number - 1])
        assert all(each.result() >= 1 for each in asked)


def _each(folder: Path, pattern: str, spoil: Callable[[Path], object]) -> None:
    for path in folder.glob(pattern):
        spoil(path)


SPOILT: dict[str, Callable[[Path], object]] = {
    "no note": lambda folder: (folder / "format.json").unlink(),
    "a broken note": lambda folder: (folder / "format.json").write_text("{"),
    "another version": lambda folder: (folder / "format.json").write_text(
        json.dumps({"format": FORMAT + 1, "next": 5})
    ),
    "broken metadata": lambda folder: (folder / "passages" / "meta.json").write_text("not what it was"),
    "no terms": lambda folder: _each(folder, "passages/*.term", Path.unlink),
    "half a list": lambda folder: _each(
        folder, "passages/*.idx", lambda path: os.truncate(path, path.stat().st_size // 2)
    ),
    "no words": lambda folder: _each(folder, "vocabulary/*", Path.unlink),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_damaged_folder_is_told(tmp_path: Path, index: Index, what: str) -> None:
    index.close()
    SPOILT[what](tmp_path / "index")
    with pytest.raises(IndexDamaged):
        Index.open(tmp_path / "index").search("pancakes", 10)


def test_a_foreign_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(IndexDamaged, match="no index"):
        Index.open(tmp_path)


_DYING = """
import os, sys
from pathlib import Path
from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.index import Index

def entries():
    for number in range(100, 4000):
        yield Entry(number, "a", "", f"n {number}", (Section(f"dying text number{number} " * 40),), "")
        if number == 3000:
            os._exit(9)

index = Index.open(Path(sys.argv[1]))
index.change(entries(), [1])
"""


def test_who_dies_while_writing_leaves_an_index_that_opens(tmp_path: Path, index: Index) -> None:
    index.close()
    done = subprocess.run([sys.executable, "-c", _DYING, str(tmp_path / "index")], check=False)
    assert done.returncode == 9
    again = Index.open(tmp_path / "index")
    assert again.entries == 4
    assert ids(again.search("thin pancakes", 1)) == [1]
    again.change([entry(100, "text that lives")], [1])
    assert ids(again.search("text that lives", 1)) == [100]
    assert again.entries == 4
    again.close()


def test_one_document_costs_no_more_among_many(tmp_path: Path) -> None:
    def to_add(count: int) -> int:
        index = index_of(
            tmp_path / str(count), {number: f"text {number} of many {number % 7}" for number in range(count)}
        )
        taken = steps_of(lambda: index.change([entry(5_000, "the newest of all")], []), in_lines=True)
        assert ids(index.search("newest", 1)) == [5_000]
        index.close()
        return taken

    assert to_add(800) < 1.5 * to_add(50)


def test_words_that_stand_together_count_more(tmp_path: Path) -> None:
    filler = "and so it goes on and on for a while in this text, "
    texts = {
        1: f"The green stone. {filler}Drink tea. {filler}",
        2: f"The stone. {filler}Drink green tea. {filler}",
        3: f"The tea stone. {filler}Drink at the green. {filler}",
    }
    index = index_of(tmp_path / "index", texts | {number: f"{filler} {number}" for number in range(10, 40)})
    assert ids(index.search("green tea", 3))[0] == 2
    index.close()
