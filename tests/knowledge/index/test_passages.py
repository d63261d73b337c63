"""Passages: whole texts in pieces that end where the text pauses, each with its place."""

from hypothesis import given
from hypothesis import strategies as some

from pixi.knowledge.entry import Entry, Section
from pixi.knowledge.index.passages import SIZE, passages_of


def of(*sections: Section) -> list[tuple[str, int, str]]:
    entry = Entry(1, "a", "", "t", sections, "")
    return [(each.text, each.source.line, each.source.section) for each in passages_of(entry)]


def test_an_empty_entry_has_one_empty_passage() -> None:
    assert of() == [("", 0, "")]
    assert of(Section(" \n ")) == [("", 0, "")]


def test_short_sections_stand_together() -> None:
    assert of(Section("one", "A", 3), Section("two", "B", 5)) == [("one\n\ntwo", 3, "A")]


def test_long_texts_are_cut_at_the_best_pause() -> None:
    paragraph = "A sentence of some length stands here. " * 20
    text = "\n\n".join([paragraph.strip()] * 4)
    found = of(Section(text, line=1))
    assert [each[0] for each in found] == [paragraph.strip()] * 4
    assert [each[1] for each in found] == [1, 3, 5, 7]


def test_chinese_is_cut_after_a_sentence() -> None:
    found = of(Section("这里没有什么意思。" * 300))
    assert all(text.endswith("。") for text, *_ in found)


@given(some.lists(some.text(alphabet="ab .\n。", max_size=4_000), max_size=4))
def test_nothing_is_lost_and_lines_are_right(texts: list[str]) -> None:
    found = of(*(Section(text, line=1) for text in texts))
    assert "".join("".join(text.split()) for text, *_ in found) == "".join(
        "".join(text.split()) for text in texts
    )
    assert all(len(text) <= SIZE * 1.4 for text, *_ in found)
    if len(texts) == 1:
        lines = texts[0].split("\n")
        for text, line, _ in found:
            if text:
                assert text.split("\n")[0].strip() in lines[line - 1]


def test_a_passage_keeps_the_headings_of_all_that_stands_in_it_each_once() -> None:
    sections = (
        Section("Thin ones.", "Toppings › Sweet", 3),
        Section("Thick ones.", "Toppings › Salty", 7),
        Section("Nothing.", "", 9),
    )
    (passage,) = passages_of(Entry(1, "a", "", "t", sections, ""))
    assert passage.headings == ("Toppings", "Sweet", "Salty")


def test_a_record_that_stands_on_one_line_is_cited_by_it_however_many_its_text_has() -> None:
    row = Section("word " * SIZE + "\n\n" + "name: Ferry\n" * SIZE, line=7, on_one_line=True)
    assert {line for _, line, _ in of(row)} == {7}
