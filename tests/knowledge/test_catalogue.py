"""What is known of files and entries: what of a change the index is told, and what stays as it is."""

import os
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.documents.files import Document, Section
from pixi.knowledge.catalogue import Catalogue, CatalogueDamaged, Read, ScannedFile, candidates, new_id
from pixi.knowledge.entry import Fault


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    with closing(Catalogue.open(tmp_path / "catalogue.db")) as opened:
        yield opened


def document(text: str, key: str = "", title: str = "") -> Document:
    return Document(key, title, (Section(text, "Top › Below", 3), Section("end", page=2)))


def read(path: str, *documents: Document, hash_: bytes = b"h", mtime: int = 1, reason: str = "") -> Read:
    return Read(ScannedFile(path, 1, mtime), hash_, documents, reason)


def told(catalogue: Catalogue) -> tuple[set[int], set[int]]:
    """What the index is told now: ids to hold, ids not to hold."""
    add, remove = catalogue.dirty(1_000)
    catalogue.mark_told([*add, *remove], len(add))
    return set(add), set(remove)


def ids(catalogue: Catalogue, *reads: Read, gone: tuple[str, ...] = ()) -> list[int]:
    return list(catalogue.record(reads, gone))


def test_an_entry_comes_back_as_it_was_read(catalogue: Catalogue) -> None:
    sections = (
        Section("پنکیک\n煎饼 \U0001f95e", "a › b", 3),
        Section("x", page=7),
        Section("r", line=9, on_one_line=True),
    )
    (number,) = ids(catalogue, read("sub/a.md", Document("k", "Title", sections)))
    (entry,) = catalogue.entries([number])
    assert (entry.path, entry.key, entry.title, entry.sections) == ("sub/a.md", "k", "Title", sections)
    assert (number, number) == (entry.id, next(iter(catalogue.dirty(9)[0])))


@pytest.mark.parametrize(
    ("given_title", "key", "shown"),
    [
        ("", "", "good pancakes"),
        ("", "row 7", "good pancakes row 7"),
        ("", "6b2bcef2e96557764216d213", "good pancakes"),
        (" a\x1b[31m\nb ", "", "a\N{REPLACEMENT CHARACTER}[31m b"),
        ("x\ud800", "", "x\N{REPLACEMENT CHARACTER}"),
        ("\u202egpj.exe", "", "gpj.exe"),
    ],
)
def test_a_title_is_never_empty_and_fit_for_a_line(
    catalogue: Catalogue, given_title: str, key: str, shown: str
) -> None:
    (number,) = ids(catalogue, read("sub/good pancakes.md", document("text", key, given_title)))
    assert next(catalogue.entries([number])).title == shown


def test_halves_of_characters_are_no_fault(catalogue: Catalogue) -> None:
    (number,) = ids(catalogue, read("a.json", document("a\ud800b", key="\udfff", title="\ud800")))
    assert next(catalogue.entries([number])).sections[0].text == "a\ufffdb"


def test_ids_that_are_none_of_ours_are_left_out_and_the_order_stays(catalogue: Catalogue) -> None:
    first, second = ids(catalogue, read("a.md", document("a")), read("b.md", document("b")))
    asked = [second, -1, 0, 5, first, 2**80, second]
    assert [entry.id for entry in catalogue.entries(asked)] == [second, first, second]


def test_only_what_changed_in_a_file_is_told(catalogue: Catalogue) -> None:
    one, two, three = ids(catalogue, read("t.csv", *(document(text, key=text) for text in "abc")))
    assert told(catalogue) == ({one, two, three}, set())
    changed = Document("b", "", (Section("B"),))
    assert ids(catalogue, read("t.csv", document("a", "a"), changed, document("d", "d"))) != []
    add, remove = told(catalogue)
    assert two in add
    assert one not in add
    assert remove == {three}
    assert len(add) == 2


def test_the_order_of_records_is_no_change(catalogue: Catalogue) -> None:
    ids(catalogue, read("t.csv", document("a", "a"), document("b", "b")))
    told(catalogue)
    assert ids(catalogue, read("t.csv", document("b", "b"), document("a", "a"))) == []
    assert told(catalogue) == (set(), set())


def test_a_key_that_a_file_has_twice_is_believed_once(catalogue: Catalogue) -> None:
    reads = read("t.csv", document("a", "k"), document("b", "k"), document("d", ""))
    assert [entry.key for entry in catalogue.entries(ids(catalogue, reads))] == ["k", ""]


def test_what_is_gone_goes(catalogue: Catalogue) -> None:
    one, two = ids(catalogue, read("a.md", document("a")), read("b.md", document("b")))
    told(catalogue)
    catalogue.record((), ["a.md", "never.md"])
    assert told(catalogue) == (set(), {one})
    assert [entry.id for entry in catalogue.entries([one, two])] == [two]
    assert catalogue.size() == (1, 1)


def test_a_file_that_comes_back_has_its_id_again(catalogue: Catalogue) -> None:
    (one,) = ids(catalogue, read("a.md", document("a")))
    catalogue.record((), ["a.md"])
    assert ids(catalogue, read("a.md", document("another"))) == [one]
    assert told(catalogue) == ({one}, set())


def test_a_file_set_aside_loses_its_entries_and_is_a_fault(catalogue: Catalogue) -> None:
    (one,) = ids(catalogue, read("a.md", document("a")))
    told(catalogue)
    catalogue.record([read("a.md", reason="it is broken")])
    assert catalogue.faults() == [Fault("a.md", "it is broken")]
    assert told(catalogue) == (set(), {one})


class TestTwins:
    def test_one_of_those_that_say_the_same_is_found(self, catalogue: Catalogue) -> None:
        numbers = ids(catalogue, *(read(f"{name}.md", document("same")) for name in "abc"))
        add, remove = told(catalogue)
        assert (len(add), len(remove)) == (1, 2)
        assert catalogue.size() == (3, 1)
        assert len(list(catalogue.entries(numbers))) == 3

    def test_another_title_makes_another(self, catalogue: Catalogue) -> None:
        ids(catalogue, read("a.md", document("same", title="A")), read("b.md", document("same", title="B")))
        assert catalogue.size() == (2, 2)

    def test_when_it_goes_another_takes_its_place(self, catalogue: Catalogue) -> None:
        for name in "abc":
            ids(catalogue, read(f"{name}.md", document("same")))
        ((first,), _) = told(catalogue)
        (entry,) = catalogue.entries([first])
        catalogue.record((), [entry.path])
        add, remove = told(catalogue)
        assert remove == {first}
        assert len(add) == 1
        assert catalogue.size() == (2, 1)

    def test_when_it_is_edited_another_takes_its_place_and_gives_it_back_to_nobody(
        self, catalogue: Catalogue
    ) -> None:
        first, second = ids(catalogue, read("a.md", document("same")), read("b.md", document("same")))
        held = told(catalogue)[0]
        path = next(catalogue.entries(held)).path
        ids(catalogue, read(path, document("other")))
        assert told(catalogue)[0] == {first, second}
        ids(catalogue, read(path, document("same")))
        assert catalogue.size() == (2, 1)


NAMES = st.sampled_from(["a.md", "b.md", "c.md"])
TEXTS = st.lists(st.tuples(st.sampled_from("klm"), st.sampled_from("xyz")), unique_by=lambda each: each[0])
STEPS = st.lists(st.tuples(NAMES, TEXTS | st.none()), max_size=12)


@given(STEPS)
def test_an_index_that_is_told_everything_agrees(
    steps: list[tuple[str, list[tuple[str, str]] | None]],
) -> None:
    with closing(Catalogue.open(Path(":memory:"))) as catalogue:
        truth: dict[str, list[tuple[str, str]]] = {}
        index: dict[int, str] = {}
        for path, records in steps:
            if records is None:
                catalogue.record((), [path])
                truth.pop(path, None)
            else:
                catalogue.record([read(path, *(document(text, key) for key, text in records))])
                truth[path] = records
            add, remove = catalogue.dirty(100)
            for number in [*add, *remove]:
                index.pop(number, None)
            for entry in catalogue.entries(add):
                index[entry.id] = entry.sections[0].text
            catalogue.mark_told([*add, *remove], len(add))
            said = {text for records in truth.values() for _, text in records}
            assert sorted(index.values()) == sorted(said)
            assert catalogue.size() == (sum(map(len, truth.values())), len(said))


class TestComparing:
    def look(
        self, catalogue: Catalogue, *files: ScannedFile, unseen: tuple[str, ...] = ()
    ) -> tuple[list[str], list[str]]:
        gone, total = catalogue.compare(files, unseen)
        changed = catalogue.changed("", 100)
        assert len(changed) == total
        return gone, [seen.path for seen, _ in changed]

    def test_new_changed_gone_and_the_same(self, catalogue: Catalogue) -> None:
        catalogue.record([read(f"{name}.md", document(name)) for name in "abcd"])
        files = [
            ScannedFile("a.md", 1, 1),
            ScannedFile("b.md", 2, 1),
            ScannedFile("c.md", 1, 2),
            ScannedFile("e.md", 1, 1),
        ]
        assert self.look(catalogue, *files) == (["d.md"], ["b.md", "c.md", "e.md"])
        assert catalogue.changed("b.md", 1) == [(ScannedFile("c.md", 1, 2), b"h")]
        assert catalogue.changed("c.md", 5) == [(ScannedFile("e.md", 1, 1), b"")]

    def test_what_was_only_touched_is_the_same_from_then_on(self, catalogue: Catalogue) -> None:
        catalogue.record([read("a.md", document("a"))])
        catalogue.touch([ScannedFile("a.md", 1, 5)])
        assert self.look(catalogue, ScannedFile("a.md", 1, 5)) == ([], [])

    def test_what_could_not_be_opened_is_looked_at_each_time(self, catalogue: Catalogue) -> None:
        catalogue.record([read("a.md", hash_=b"", reason="locked")])
        assert self.look(catalogue, ScannedFile("a.md", 1, 1)) == ([], ["a.md"])

    def test_what_lies_in_a_folder_that_cannot_be_seen_is_not_gone(self, catalogue: Catalogue) -> None:
        catalogue.record([read(path, document(path)) for path in ("x/a.md", "x/y/b.md", "xz.md", "x.md")])
        assert self.look(catalogue, unseen=("x",)) == (["x.md", "xz.md"], [])

    def test_only_what_was_gone_to_can_be_gone(self, catalogue: Catalogue) -> None:
        catalogue.record(
            [read(path, document(path)) for path in ("x/a.md", "x/y/b.md", "xz.md", "x.md", "c.md")]
        )
        gone, total = catalogue.compare(
            [ScannedFile("x/a.md", 1, 1), ScannedFile("n.md", 1, 1)], (), ["x", "n.md", "c.md"]
        )
        assert (sorted(gone), total) == (["c.md", "x/y/b.md"], 1)

    def test_with_other_readers_everything_is_read_again(self, catalogue: Catalogue) -> None:
        catalogue.record([read("a.md", document("a"))])
        catalogue.trust("others")
        assert self.look(catalogue, ScannedFile("a.md", 1, 1)) == ([], ["a.md"])


def test_another_index_is_told_everything_that_is_found(catalogue: Catalogue) -> None:
    numbers = ids(
        catalogue, *(read(f"{name}.md", document(name)) for name in "ab"), read("c.md", document("a"))
    )
    told(catalogue)
    before = catalogue.token
    assert catalogue.begin_index() != before
    add, remove = told(catalogue)
    assert add < set(numbers)
    assert (len(add), len(remove)) == (2, 0)


@pytest.mark.parametrize("content", [b"no database" * 1_000, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_what_is_no_catalogue_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "catalogue.db"
    path.write_bytes(content)
    with pytest.raises(CatalogueDamaged):
        Catalogue.open(path)
    assert Catalogue.look_into(path) is None


def test_one_of_another_version_is_told(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(CatalogueDamaged):
        Catalogue.open(path)
    assert Catalogue.look_into(path) is None
    assert Catalogue.look_into(tmp_path / "none.db") is None
    assert not os.path.exists(tmp_path / "none.db")


def test_who_looks_on_sees_what_was_committed_and_writes_nothing(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    other = Catalogue.look_into(tmp_path / "catalogue.db")
    assert other
    with closing(other):
        (number,) = ids(catalogue, read("a.md", document("a")))
        assert [entry.id for entry in other.entries([number])] == [number]
        with pytest.raises(sqlite3.OperationalError):
            other.record((), ["a.md"])


PINNED = [698330, 767016846, 944236051]


def test_the_numbers_of_today_are_the_numbers_of_tomorrow() -> None:
    # Written down: these are what people and models have seen, and what files remember.
    assert list(islice(candidates("pancakes.md", ""), 3)) == PINNED
    assert new_id("pancakes.md", "", lambda number: False) == PINNED[0]


@given(st.text(), st.text())
def test_six_digits_at_first_then_nine(path: str, key: str) -> None:
    first, *others = islice(candidates(path, key), 4)
    assert 100_000 <= first <= 999_999
    assert all(100_000_000 <= number <= 999_999_999 for number in others)


def test_a_number_that_is_taken_is_not_given_again() -> None:
    first, second, third = islice(candidates("a.md", "1"), 3)
    assert new_id("a.md", "1", {first}.__contains__) == second
    assert new_id("a.md", "1", {first, second}.__contains__) == third


def test_path_and_key_do_not_run_into_each_other() -> None:
    assert next(candidates("a", "bc")) != next(candidates("ab", "c"))


def test_an_accent_may_be_spelt_in_two_ways() -> None:
    for form in ("NFC", "NFD"):
        assert next(candidates(unicodedata.normalize(form, "crêpe.md"), "")) == next(
            candidates("crêpe.md", "")
        )
