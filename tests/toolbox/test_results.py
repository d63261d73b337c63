"""What a tool gave: in words, in pictures, and as cards."""

import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct
from PIL import Image as Pillow
from pydantic import BaseModel

from pixi.core.errors import ToolError
from pixi.core.masking import SecretRedactor
from pixi.core.message import Author, Card, Field, Image
from pixi.toolbox.tools import masked, parts_of, with_pictures_checked, within_bytes


def picture(width: int = 4) -> Image:
    file = io.BytesIO()
    Pillow.new("RGB", (width, 4), "pink").save(file, "PNG")
    return Image("image/png", file.getvalue())


class Mood(Enum):
    FINE = "fine"


class Model(BaseModel):
    day: date
    mood: Mood


class Spot(Struct):
    at: PurePosixPath
    by: Author


SPOT = '{"at": "/a", "by": {"id": "1", "name": "mo", "is_bot": false}}'


@dataclass
class Point:
    x: int
    y: tuple[int, ...]


def endless() -> Iterator[int]:
    while True:
        yield 1


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "Done."),
        (True, "true"),
        (0.5, "0.5"),
        (math.nan, "null"),
        ([], "[]"),
        ({"ä": ["é"]}, '{"ä": ["é"]}'),
        (Model(day=date(2026, 1, 31), mood=Mood.FINE), '{"day": "2026-01-31", "mood": "fine"}'),
        (Point(1, (2, 3)), '{"x": 1, "y": [2, 3]}'),
        (Spot(PurePosixPath("/a"), Author("1", "mo")), SPOT),
        ([Mood.FINE, Decimal("1.50"), timedelta(minutes=5)], '["fine", "1.50", "PT5M"]'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        ({"at": PurePosixPath("/a"), "raw": b"\xff"}, '{"at": "/a", "raw": "_w=="}'),
        (object(), '"<object>"'),
        ({(1, 2): 3}, '{"1,2": 3}'),
    ],
)
def test_any_value_in_words(result: object, told: str) -> None:
    assert parts_of(result) == (told,)


def test_what_cannot_be_written_down_is_told_and_does_not_hang() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for result in (circle, deep):
        with pytest.raises(ToolError, match="cannot be written down"):
            parts_of(result)


def test_pictures_and_cards_keep_their_places_among_the_rest() -> None:
    pink, card = picture(), Card("Cake", "sweet")
    assert parts_of(["look", pink, {"a": 1}, card]) == ("look", pink, '{"a": 1}', card)
    assert parts_of((card, card)) == (card, card)
    assert parts_of({"count": 2, "shown": card, "picture": pink}) == ('{"count": 2}', card, pink)
    assert parts_of(Card("x" * 999)) == (Card("x" * 255 + "…"),)


async def test_pictures_are_decoded_and_what_is_none_becomes_words() -> None:
    broken = Image("image/png", b"GIF89a no")
    shown = await with_pictures_checked(("a", picture(3_000), broken), vision=True)
    assert shown[0] == "a"
    assert isinstance(shown[1], Image)
    assert Pillow.open(io.BytesIO(shown[1].data)).size[0] == 1_024
    assert shown[2] == "(a picture that cannot be shown: it cannot be read)"
    assert await with_pictures_checked((broken,), vision=False) == ("(a picture that you cannot see)",)


async def test_too_many_pictures_are_told_of() -> None:
    shown = await with_pictures_checked([picture()] * 6, vision=True)
    assert [isinstance(each, Image) for each in shown] == [True] * 4 + [False] * 2


async def test_the_picture_of_a_card_is_looked_at_too() -> None:
    (good,) = await with_pictures_checked((Card("x", picture=picture()),), vision=False)
    (bad,) = await with_pictures_checked((Card("x", picture=Image("image/png", b"x")),), vision=True)
    assert isinstance(good, Card)
    assert isinstance(good.picture, Image)
    assert bad == Card("x")


SECRET = "canary-key-0123456789"


@pytest.mark.parametrize("before", [0, 1, 50, 90, 95, 99, 100, 4_180, 4_190, 4_196, 4_200])
@pytest.mark.parametrize("after", [0, 10, 100_000])
def test_a_secret_passes_nowhere_not_even_cut_in_two(before: int, after: int) -> None:
    mask = SecretRedactor()
    mask.learn([SECRET])
    told = within_bytes("x" * before + SECRET + "y" * after, 100, mask)
    assert not any(SECRET[:size] in told for size in range(4, len(SECRET) + 1))
    assert len(told.encode()) <= 100


def test_what_looks_like_a_token_is_hidden_and_the_rest_is_whole() -> None:
    assert within_bytes("key sk-abcdefghijklmnopqrst end", 1_000, SecretRedactor()) == "key *** end"
    mask = SecretRedactor()
    mask.learn([SECRET])
    card = Card(SECRET, f"a {SECRET}", (Field(SECRET, SECRET),), link=f"https://x.org/{SECRET}")
    assert SECRET not in json.dumps(masked(card, mask).plain)
    assert masked(card, mask).link == "", "an address with a hole leads nowhere"
    shown = masked(Card("a", picture=f"https://x.org/?key={SECRET}"), mask)
    assert shown.picture is None
    assert masked(Card("a", picture="https://x.org/a.png"), mask).picture == "https://x.org/a.png"


def test_a_text_that_only_lost_a_secret_is_not_called_cut() -> None:
    mask = SecretRedactor()
    mask.learn(["x" * 90])
    assert within_bytes("x" * 90 + "y" * 20, 100, mask) == "***" + "y" * 20
    assert within_bytes("a" * 5_000, 100, mask).endswith("the whole has 5000 characters]")
