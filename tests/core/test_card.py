"""Cards: the same for people, models and programs, and harmless to draw."""

import pytest

from pixi.core.card import Card, Field
from pixi.core.events import Shown, to_json
from pixi.core.message import Image

CARD = Card(
    "Pancakes",
    "Flat.",
    fields=(Field("Flour", "200 g"), Field("Milk", "3 dl")),
    picture="https://example.org/p.png",
    link="https://example.org/p",
)


def test_a_card_as_text() -> None:
    assert CARD.plain == "Pancakes\nFlat.\nFlour: 200 g\nMilk: 3 dl\nhttps://example.org/p"
    assert Card("").plain == ""


def test_its_one_json_form() -> None:
    assert to_json(Shown(CARD)) == {
        "event": "card",
        "id": "",
        "type": "card",
        "version": 1,
        "data": {},
        "fallback": {
            "title": "Pancakes",
            "text": "Flat.",
            "fields": [{"name": "Flour", "value": "200 g"}, {"name": "Milk", "value": "3 dl"}],
            "link": "https://example.org/p",
            "picture": "https://example.org/p.png",
        },
    }
    assert to_json(Shown(Card("x", picture=Image("image/png", b"x"))))["fallback"]["picture"] is None


def test_a_card_that_fits_is_left_as_it_is() -> None:
    assert CARD.fitted() == CARD
    picture = Image("image/png", b"x")
    assert Card("x", picture=picture).fitted().picture == picture


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//example.org",
        "https://",
        "https://a b",
    ],
)
def test_what_is_no_web_address_is_left_out(address: str) -> None:
    fitted = Card("x", picture=address, link=address).fitted()
    assert (fitted.picture, fitted.link) == (None, "")
    assert Card("x", picture="http://example.org/p").fitted().picture is None


def test_what_is_too_long_or_too_much_is_cut() -> None:
    fields = tuple(Field(f"n\n{number}" * 200, "v" * 9_999) for number in range(99))
    fitted = Card("a\nb" * 999, "t" * 99_999, fields).fitted()
    assert len(fitted.title) == 256
    assert "\n" not in fitted.title
    assert len(fitted.text) == 4_000
    assert fitted.text.endswith("…")
    assert len(fitted.fields) == 25
    assert all(len(field.name) <= 256 and len(field.value) <= 1_000 for field in fitted.fields)
    assert Card("x", fields=(Field(" ", " "),)).fitted().fields == ()
