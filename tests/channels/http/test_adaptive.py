"""Cards as Adaptive Cards: what a renderer takes, words that stay words, and where they are asked for."""

from typing import Any

import jsonschema
import pytest

from pixi.channels.http.faces.messages import adaptive
from pixi.companion.cards import spot_card, spot_draft_confirmation, spots_list, trick_card, tricklist_card
from pixi.companion.data import ListedTrick, Spot, SpotDraft, Trick, Tricklist
from pixi.core.message import Card, Field, card_json
from pixi.core.persona import Persona
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.served import PERSONAS, served


def _element(kind: str, required: str, **properties: Any) -> dict[str, Any]:
    own = {"type": {"const": kind}, "spacing": {"enum": ["None", "Small"]}, "separator": {"type": "boolean"}}
    return {"properties": own | properties, "required": ["type", required], "additionalProperties": False}


_TEXT = {"type": "string", "minLength": 1}
_ADDRESS = {"type": "string", "pattern": "^https?://"}
_ITEMS = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/element"}}
_RUN = _element(
    "TextRun",
    "text",
    text=_TEXT,
    size={"const": "Large"},
    weight={"const": "Bolder"},
    isSubtle={"type": "boolean"},
)
_COLUMN = _element("Column", "items", items=_ITEMS, width={"enum": ["auto", "stretch"]})
_LINK = _element("Action.OpenUrl", "url", url=_ADDRESS, title=_TEXT)
_IMAGE = _element(
    "Image", "url", url=_ADDRESS, altText={"type": "string"}, size={"enum": ["Stretch", "Medium"]}
)
SCHEMA = {
    "$defs": {
        "element": {
            "oneOf": [
                _element("RichTextBlock", "inlines", inlines={"type": "array", "minItems": 1, "items": _RUN}),
                _element("ColumnSet", "columns", columns={"type": "array", "minItems": 1, "items": _COLUMN}),
                _IMAGE,
            ]
        }
    },
    "type": "object",
    "properties": {
        "$schema": {"const": "http://adaptivecards.io/schemas/adaptive-card.json"},
        "type": {"const": "AdaptiveCard"},
        "version": {"const": "1.5"},
        "body": {"type": "array", "items": {"$ref": "#/$defs/element"}},
        "actions": {"type": "array", "minItems": 1, "items": _LINK},
    },
    "required": ["type", "version", "body"],
    "additionalProperties": False,
}
"""What of Adaptive Cards 1.5 is used here, as its documentation has it."""

BOWL = Spot("5f0c", "Lantern Bowl", "skatepark", "Wexcombe", "Tarnshire", rating=4.6)
PICTURED = Spot("5f0d", "Rail", "street", "Wexcombe", image_url="https://example.org/rail.jpg")
CARDS = {
    "spot_card": spot_card(PICTURED, "trickbook"),
    "spots_list": spots_list([BOWL, PICTURED], "trickbook"),
    "tricklist_card": tricklist_card(Tricklist("a", "Summer", "bmx", (ListedTrick("t", "Ollie"),))),
    "trick_card": trick_card(Trick("t", "Ollie", "bmx", "easy", "Jump.", ("https://example.org/v",))),
    "spot_draft_confirmation": spot_draft_confirmation(
        SpotDraft("d", "Ledge", "street", "pending_approval", "Wexcombe")
    ),
    "nothing": Card(""),
    "no name": Card("Menu", fields=(Field("", "soup"), Field("price", ""))),
    "link": Card("Menu", "Two\nlines.", link="https://example.org/menu", picture="https://example.org/m.png"),
}


def drawn(card: Card) -> Any:
    """The Adaptive Card of a card, which must be one."""
    data = adaptive(card_json(card.fitted()))["data"]
    jsonschema.validate(data, SCHEMA)
    return data


def words_in(part: Any) -> list[str]:
    """All texts that a renderer draws."""
    if isinstance(part, list):
        return [text for each in part for text in words_in(each)]
    if not isinstance(part, dict):
        return []
    return [part["text"]] if part["type"] == "TextRun" else words_in(list(part.values()))


@pytest.mark.parametrize("name", CARDS)
def test_each_is_an_adaptive_card_and_loses_no_word(name: str) -> None:
    card = CARDS[name].fitted()
    said = "".join(words_in(drawn(card)))
    assert all(text in said for field in card.fields for text in (field.name, field.value))
    assert card.title in said
    assert card.text in said


def test_a_list_is_drawn_by_entries_with_their_pictures() -> None:
    title, bowl, rail = drawn(CARDS["spots_list"])["body"]
    assert words_in(title) == ["2 spots"]
    assert words_in(bowl) == ["Lantern Bowl", "Wexcombe, Tarnshire · skatepark · ★ 4.6"]
    assert [column["width"] for column in bowl["columns"]] == ["stretch"]
    (image,) = rail["columns"][0]["items"]
    assert (image["url"], image["altText"]) == ("https://example.org/rail.jpg", "Rail")
    assert words_in(drawn(CARDS["spot_draft_confirmation"])["body"][1]) == ["Status: ", "Pending approval"]


def test_the_title_leads_to_the_link() -> None:
    card = drawn(CARDS["link"])
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Open", "url": "https://example.org/menu"}]
    assert card["body"][1]["url"] == "https://example.org/m.png"


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "http://example.org/a.png", "data:image/png;base64,", 5, None, {}]
)
def test_a_picture_in_data_is_an_https_address_or_none(address: object) -> None:
    card = Card("x", fields=(Field("a", "b"),), type="some", data=[{"imageUrl": address}])
    assert len(drawn(card)["body"][1]["columns"]) == 1


def test_words_of_strangers_stay_words() -> None:
    evil = "[free](https://evil.example) **x**"
    card = drawn(Card(evil, evil, (Field(evil, evil),), link="javascript:alert(1)"))
    assert words_in(card) == [evil, evil, f"{evil}: ", evil]
    assert "actions" not in card


def _showing(addon: Addon) -> None:
    @addon.command
    async def spots(context: Context, name: str) -> None:
        """show spots"""
        await context.card(spots_list([BOWL, PICTURED]))


async def test_the_server_gives_them_to_who_asks_for_them() -> None:
    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", commands=("spots",))}
    replies = ["[SPOTS: all]"] * 4
    async with served(*replies, addons=[_showing], personas=personas) as here:
        status, whole = await here.post("/api/chat?cards=adaptive", {"message": "where?"})
        (card,) = whole["cards"]
        assert status == 200
        jsonschema.validate(card["data"], SCHEMA)
        assert whole["richContent"] == {"type": "AdaptiveCard", "data": card["data"]}
        assert card["fallback"]["title"] == "2 spots"

        body = {"message": "again?", "conversation": "kitchen"}
        async with here.stream("/api/chat?cards=adaptive", body) as events:
            (told,) = [event async for event in events if event["event"] == "card"]
        assert (told["type"], told["data"]) == ("AdaptiveCard", card["data"])
        where = {"Last-Event-ID": "2.0"}
        async with here.stream("/api/chat/kitchen/stream?cards=adaptive", **where) as events:
            (followed,) = [event async for event in events if event["event"] == "card"]
        assert followed == told

        said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "and here?"}]}
        page = {"id": "page", "messages": [said]}
        async with here.http.post(f"{here.url}/api/chat?cards=adaptive", json=page) as answer:
            assert '"type":"AdaptiveCard"' in await answer.text()

        assert (await here.say("and plain?"))["richContent"]["type"] == "spots_list"


async def test_a_form_that_there_is_not_is_refused_before_anybody_answers() -> None:
    async with served() as here:
        said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
        for body in ({"message": "hi"}, {"id": "page", "messages": [said]}):
            async with here.http.post(f"{here.url}/api/chat?cards=html", json=body) as answer:
                assert answer.status == 400
                assert "cards" in await answer.text()
        assert here.model.requests == []
