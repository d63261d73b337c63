"""Where passages of an entry begin and end, and what is shown of one."""

from hypothesis import given
from hypothesis import strategies as some

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.evidence import SIZE, passages_of
from pixi.text.relevance import LENGTH, Cutter
from pixi.text.terms import Analysis


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


ENGLISH = ("english",)
FILLER = "Nothing of interest is said in this sentence. "


def cut(text: str, *words: str) -> str:
    return Cutter(dict.fromkeys(words, 1.0), Analysis(), ENGLISH).snippet(text)


def test_a_short_text_is_shown_whole() -> None:
    assert cut("One  line\nand\tanother.", "line") == "One line and another."


def test_the_part_that_covers_most_is_shown() -> None:
    text = FILLER * 10 + "Only butter. " + FILLER * 10 + "Melt the butter in a pan. " + FILLER * 10
    shown = cut(text, "butter", "pan")
    assert "Melt the butter in a pan." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= LENGTH


def test_rare_words_weigh_more() -> None:
    text = "The sea and the sky. " + FILLER * 10 + "A narwhal! " + FILLER * 10
    weights = {"sea": 0.5, "sky": 0.5, "narwhal": 4.0}
    assert "narwhal" in Cutter(weights, Analysis(), ENGLISH).snippet(text)


def test_other_forms_count() -> None:
    assert "sailing" in cut(FILLER * 10 + "They went sailing early. " + FILLER * 10, "sail")


def test_it_begins_with_the_sentence() -> None:
    shown = cut(FILLER * 10 + "At dawn the narwhal came. " + FILLER * 10, "narwhal")
    assert shown.startswith("… At dawn the narwhal came.")


def test_chinese_has_no_spaces() -> None:
    text = "这里没有什么。" * 60 + "独角鲸住在北方的海里。" + "这里没有什么。" * 60
    shown = cut(text, "独角", "角鲸", "独", "角", "鲸")
    assert "独角鲸住在北方" in shown
    assert len(shown) <= LENGTH


def test_scripts_and_spellings_count() -> None:
    filler = "Sonst wird in diesem Satze nichts gesagt, was wichtig wäre. "
    for text, word in (
        ("Über ŒUVRES reden.", "œuvres"),
        ("خانه‌های قدیمی.", "قديمي"),
        ("Это ЁЛКА.", "елка"),
        ("यह बिल्ली है।", "बिल्ली"),
        ("m\u0301 cafe\u0301 noir", "café"),
        ("½ pint of snake_case", "snake"),
        ("資料庫", "资料"),
        ("แมวนอน", "แมว"),
    ):
        assert text.split()[0] in cut(filler * 10 + text + " " + filler * 10, word), text


def test_without_a_match_it_is_the_beginning() -> None:
    assert cut("Begin here. " + FILLER * 20, "narwhal").startswith("Begin here.")


def test_control_characters_are_left_out() -> None:
    assert cut("a\x1b[31m narwhal\x07\u2028b" + " word" * 100, "narwhal").isprintable()


@given(some.text(max_size=2_000), some.lists(some.text(min_size=1, max_size=4), max_size=5))
def test_any_text_gives_a_line(text: str, words: list[str]) -> None:
    shown = cut(text, *words, *text.split()[-2:])
    assert len(shown) <= LENGTH
    assert "\n" not in shown
    shown.encode()
