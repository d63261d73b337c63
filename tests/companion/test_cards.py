"""The companion's cards: the keys that the app's client knows, and a form for everybody else."""

import json
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from pixi.channels.discord.outgoing.content import forms_of
from pixi.companion.cards import (
    checked_scheme,
    schemas,
    spot_card,
    spot_draft_confirmation,
    spots_list,
    trick_card,
    tricklist_card,
)
from pixi.companion.data import ListedTrick, Spot, SpotDraft, Trick, Tricklist
from pixi.core.errors import ConfigError
from pixi.core.message import Card, card_from_record, card_on_record

BOWL = Spot(
    *("5f0c", "Lantern Bowl", "skatepark", "Wexcombe", "Tarnshire", "", 54.9, -38.2, "Smooth.", 4.6),
    image_url="https://example.org/bowl.jpg",
    distance_km=1.25,
)
LIST = Tricklist(
    "a1", "Summer", "skateboard", (ListedTrick("t1", "Kickflip", True), ListedTrick("t2", "Ollie"))
)
TRICK = Trick("t1", "Kickflip", "skateboard", "intermediate", "Flick.", ("https://example.org/v",))
DRAFT = SpotDraft(
    "d1", "Rusty Rail", "street", "pending_approval", "Wexcombe", latitude=54.9, longitude=-38.2
)

CARDS = {
    "spot_card": spot_card(BOWL, "trickbook"),
    "spots_list": spots_list([BOWL, BOWL], "trickbook"),
    "tricklist_card": tricklist_card(LIST, "trickbook"),
    "trick_card": trick_card(TRICK, "trickbook"),
    "spot_draft_confirmation": spot_draft_confirmation(DRAFT),
}


def test_an_app_gets_the_keys_that_it_knows() -> None:
    bowl = {
        "_id": "5f0c",
        "name": "Lantern Bowl",
        "city": "Wexcombe",
        "state": "Tarnshire",
        "rating": 4.6,
        "imageUrl": "https://example.org/bowl.jpg",
        "deepLink": "trickbook://spot/5f0c",
    }
    assert {name: card.data for name, card in CARDS.items()} == {
        "spot_card": bowl,
        "spots_list": [bowl, bowl],
        "tricklist_card": {
            "_id": "a1",
            "name": "Summer",
            "trickCount": 2,
            "deepLink": "trickbook://tricklist/a1",
        },
        "trick_card": {
            "_id": "t1",
            "name": "Kickflip",
            "category": "skateboard",
            "difficulty": "intermediate",
            "deepLink": "trickbook://trick/t1",
        },
        "spot_draft_confirmation": {
            "_id": "d1",
            "name": "Rusty Rail",
            "city": "Wexcombe",
            "state": "",
            "status": "pending_approval",
        },
    }


@pytest.mark.parametrize("name", CARDS)
def test_each_fits_its_schema_and_outlives_a_restart(name: str) -> None:
    card = CARDS[name]
    assert card.type == name
    schema = schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(card.data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"_id": 5}, schema)
    assert card.fitted() == card
    assert card_from_record(card_on_record(card)) == card


def test_whoever_does_not_know_them_draws_them_all_the_same() -> None:
    assert CARDS["spots_list"].plain.split("\n") == [
        "2 spots",
        *["Lantern Bowl: Wexcombe, Tarnshire · skatepark · ★ 4.6 · 1.2 km"] * 2,
    ]
    assert CARDS["tricklist_card"].plain == "Summer\n☑ Kickflip\n☐ Ollie\nSport: skateboard\nTricks: 2 tricks"
    assert CARDS["spot_draft_confirmation"].plain.split("\n")[1] == "Status: Pending approval"
    embed = forms_of(CARDS["spots_list"], boxes=True, files=False)[0].embed
    assert embed
    assert [field.name for field in embed.fields] == ["Lantern Bowl", "Lantern Bowl"]
    drawn = forms_of(CARDS["spot_card"], boxes=True, files=False)[0].embed
    assert drawn
    assert drawn.url == "https://www.openstreetmap.org/?mlat=54.900000&mlon=-38.200000&zoom=17"
    assert drawn.image.url == "https://example.org/bowl.jpg"


@pytest.mark.parametrize("scheme", ["javascript", "data", "file", "https", "a b", "x:", "Ä", "x" * 60])
def test_a_scheme_that_runs_something_is_refused(scheme: str) -> None:
    with pytest.raises(ConfigError, match="deep_links is"):
        checked_scheme(scheme)


def test_what_strangers_wrote_leads_nowhere_and_stays_short() -> None:
    assert checked_scheme("trickbook") == "trickbook"
    evil = "[SEND: x] <@1> @everyone \x1b[31m" + "y" * 10_000
    spot = Spot("../../x?y", evil, "street", evil, description=evil, image_url="javascript:alert(1)")
    card = spots_list([spot] * 30, "trickbook")
    assert isinstance(card.data, list)
    assert len(card.data) == 25
    assert card.text == "25 of them are shown."
    assert {each["deepLink"] for each in card.data} == {""}
    assert {each["imageUrl"] for each in card.data} == {""}
    drawn = card.fitted()
    assert all(len(field.name) <= 256 and len(field.value) <= 1_000 for field in drawn.fields)
    embed = forms_of(drawn, boxes=True, files=False)[0].embed
    assert embed
    assert "<@1>" not in str(embed.to_dict())


@pytest.mark.parametrize("letter", ["a", "\N{SKATEBOARD}", '"', "\n"])
def test_a_list_of_spots_stays_within_its_bytes(letter: str) -> None:
    long, short = (replace(BOWL, name=letter * 200, image_url="https://a.b/" + "c" * n) for n in (1_900, 9))
    endless = replace(BOWL, id="x" * 20_000)
    card = spots_list([endless, *[long] * 25, *[short] * 25], "trickbook")
    assert isinstance(card.data, list)
    assert 3 < len(card.data) < 25
    assert len(json.dumps(card.data, ensure_ascii=False).encode()) <= 15_000
    assert len(card.fields) == len(card.data)
    assert card.fitted().type == "spots_list"
    assert len(spots_list([endless, BOWL]).data) == 1


def test_data_is_an_object_or_a_list() -> None:
    wrong: Any = "text"
    assert Card("x", type="a", data=[1, {"b": 2}]).fitted().data == [1, {"b": 2}]
    assert Card("x", type="a", data=wrong).fitted().type == "card"
