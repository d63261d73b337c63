"""One form for what people take for the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pixi.text.terms import clean, normalise


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("PANCAKE", "pancake"),
        ("Straße", "STRASSE"),
        ("ﬁne", "fine"),
        ("ＡＢＣ１２３", "abc123"),
        ("كتاب", "کتاب"),
        ("علي", "علی"),
        ("أحمد", "احمد"),
        ("مُحَمَّد", "محمد"),
        ("مدرسة", "مدرسه"),
        ("كـــتاب", "كتاب"),
        ("بازی‌های", "بازی های"),
        ("۱۴۰۴ ١٤٠٤", "1404 1404"),
        ("१२३", "123"),
        ("๑๒๓", "123"),
        ("漢語資料庫", "汉语资料库"),
        ("ёлка", "ЕЛКА"),
        ("Iaşi Ţara", "Iași Țara"),
        ("İstanbul", "istanbul"),
        ("λόγος", "ΛΌΓΟΣ"),
        ("cafe\u0301", "café"),
        ("soft\u00adhyphen", "softhyphen"),
        ("l’été", "l'été"),
    ],
)
def test_alike(written: str, other: str) -> None:
    assert normalise(written) == normalise(other)


@pytest.mark.parametrize(
    ("written", "other"), [("má", "mà"), ("đường", "duong"), ("कि", "की"), ("şah", "sah")]
)
def test_not_alike(written: str, other: str) -> None:
    assert normalise(written) != normalise(other)


@given(some.text(some.characters(exclude_categories=[])))
def test_any_text_becomes_one_that_can_be_kept(text: str) -> None:
    normal = normalise(text)
    normal.encode()
    assert "\0" not in normal
    clean(text).encode()
