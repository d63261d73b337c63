"""Cards: the same for people, models and programs, and harmless to draw."""

from typing import Any

import pytest

from pixi.core.events import Shown, to_json
from pixi.core.message import Card, Field, Image, card_from_record, card_on_record

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


ENDLESS: dict[str, Any] = {}
ENDLESS["x"] = ENDLESS


@pytest.mark.parametrize(
    "data",
    [{"x": object()}, {"x": float("nan")}, {"x": "\ud800"}, {"x": "é" * 8_001}, ENDLESS, "x", None],
    ids=["object", "nan", "half a pair", "too much", "endless", "text", "none"],
)
def test_data_that_no_program_can_read_makes_it_a_plain_card(data: Any) -> None:
    assert Card("x", type="spot_card", version=2, data=data).fitted() == Card("x")


@pytest.mark.parametrize("type_", ["", "a b", "<script>", "x\n", "é", "x" * 65])
def test_a_type_that_is_no_name_makes_it_a_plain_card(type_: str) -> None:
    assert Card("x", type=type_, data={"a": 1}).fitted() == Card("x")
    assert Card("x", type="spot_card", version=0, data={"a": 1}).fitted() == Card("x")


def test_data_is_a_copy_that_nobody_alters() -> None:
    spots = ["Bowl"]
    card = Card("x", type="spot_card", data={"spots": spots}).fitted()
    spots.append("Ramp")
    assert card == Card("x", type="spot_card", data={"spots": ["Bowl"]})


@pytest.mark.parametrize(
    "card",
    [
        CARD,
        Card("", "only text\nin lines"),
        Card("", picture="https://example.org/p.png"),
        Card('"quoted"', type="spot_card", version=2, data={"a": ["b\nc", 1, None]}),
    ],
)
def test_what_is_on_record_tells_it_again(card: Card) -> None:
    kept = card_on_record(card)
    assert kept.startswith(card.plain), "what is searched for in the record is found"
    assert card_from_record(kept) == card


def test_a_picture_without_an_address_is_not_on_record() -> None:
    assert card_from_record(card_on_record(Card("x", picture=Image("image/png", b"x")))) == Card("x")


@pytest.mark.parametrize(
    "last", ["", "{", "[]", "7", '{"fallback": 1}', '{"fallback": {}}', "[" * 100_000, "a, b: c"]
)
def test_of_older_records_the_words_are_told(last: str) -> None:
    assert card_from_record(f"Title\n{last}") == Card("Title", last).fitted()
    assert card_from_record("") == Card("")
