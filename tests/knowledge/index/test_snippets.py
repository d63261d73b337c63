"""Snippets: the stretch that answers, short, on one line, harmless."""

from hypothesis import given
from hypothesis import strategies as some

from pixi.knowledge.index.passages import LENGTH, Cutter
from pixi.knowledge.index.terms import Analysis

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
