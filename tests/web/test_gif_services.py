"""KLIPY and GIPHY are asked as they document it, and shown by their own pages; their keys are never told."""

import logging
from collections.abc import AsyncIterator

import pytest

from pixi.fetching.web import Web
from pixi.web.gif_sources import GIPHY, KLIPY, RESULTS, FoundGif, GifError, Giphy, Klipy, Rating
from tests.servers.scripted_gifs import KEY, ScriptedGifs, frames, gif_services

BOTH = pytest.mark.parametrize("kind", [Klipy, Giphy])
Door = type[Klipy] | type[Giphy]


@pytest.fixture
async def services() -> AsyncIterator[ScriptedGifs]:
    async with gif_services() as services:
        yield services


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


@BOTH
async def test_a_search_gives_words_and_pages_and_files(kind: Door, services: ScriptedGifs, web: Web) -> None:
    found = await kind(web, KEY, "pg", base=services.base).find("excited cat", "en")
    assert [one.words for one in found] == [f"excited cat {number}" for number in range(8)]
    pages = {Klipy: "https://klipy.com/gifs/cat-0", Giphy: "https://giphy.com/gifs/Abc0"}
    assert found[0].link == pages[kind]
    assert found[0].file.startswith(f"{services.base}/media/0-")
    assert services.words == ["excited cat"]


@pytest.mark.parametrize(
    ("rating", "word"), [("g", "high"), ("pg", "medium"), ("pg-13", "low"), ("r", "off")]
)
async def test_ratings_are_told_in_each_service_s_words(
    rating: Rating, word: str, services: ScriptedGifs, web: Web
) -> None:
    await Klipy(web, KEY, rating, base=services.base).find("cat", "en")
    await Giphy(web, KEY, rating, base=services.base).find("cat", "de-AT")
    klipy, giphy = services.searches
    assert klipy["content_filter"] == word
    assert (giphy["rating"], giphy["lang"]) == (rating, "de")
    assert klipy["per_page"] == giphy["limit"] == str(RESULTS)


async def test_what_is_stronger_than_allowed_is_left_out(services: ScriptedGifs, web: Web) -> None:
    services.rating = "pg-13"
    assert await Giphy(web, KEY, "pg", base=services.base).find("cat", "en") == ()
    assert len(await Giphy(web, KEY, "r", base=services.base).find("cat", "en")) == 8


async def test_advertisements_are_no_pictures(services: ScriptedGifs, web: Web) -> None:
    services.ads = 3
    assert len(await Klipy(web, KEY, "pg", base=services.base).find("cat", "en")) == 8


async def test_nobody_is_told_who_asks(services: ScriptedGifs, web: Web) -> None:
    await Klipy(web, KEY, "pg", base=services.base).find("cat", "en")
    assert services.searches[0]["customer_id"] == "pixi"


async def test_a_long_text_is_cut_and_signs_arrive_as_they_are(services: ScriptedGifs, web: Web) -> None:
    klipy = Klipy(web, KEY, "pg", base=services.base)
    await klipy.find("x" * 300, "en")
    await klipy.find("兴奋的猫 & ?q=dog#", "zh")
    assert services.words == ["x" * 50, "兴奋的猫 & ?q=dog#"]


@BOTH
async def test_a_picture_is_fetched_as_it_is_and_goes_on_moving(
    kind: Door, services: ScriptedGifs, web: Web
) -> None:
    door = kind(web, KEY, "pg", base=services.base)
    picture = await door.fetch((await door.find("cat", "en"))[0])
    assert (picture.media_type, picture.data) == ("image/gif", services.picture)
    assert frames(picture.data) == 2


@BOTH
async def test_the_connection_is_open_when_the_search_begins(
    kind: Door, services: ScriptedGifs, web: Web
) -> None:
    door = kind(web, KEY, "pg", base=services.base)
    await door.warm()
    await door.find("cat", "en")
    assert services.server is not None
    assert services.server.connections == 1
    assert KEY not in services.server.requests[0].path


@BOTH
@pytest.mark.parametrize(
    ("status", "told", "rests"),
    [
        (401, "does not take the key", False),
        (403, "does not take the key", False),
        (429, "was asked too often", True),
        (503, "is out of order (503)", False),
    ],
)
async def test_a_refusal_is_told_in_words_without_the_key(
    kind: Door, status: int, told: str, rests: bool, *, services: ScriptedGifs, web: Web
) -> None:
    services.status, services.body = status, {"message": f"key {KEY} is bad"}
    with pytest.raises(GifError) as caught:
        await kind(web, KEY, "pg", base=services.base).find("cat", "en")
    assert told in str(caught.value)
    assert KEY not in str(caught.value)
    assert (caught.value.rest > 0) is rests


@BOTH
async def test_an_unknown_key_is_known_by_the_answer(kind: Door, services: ScriptedGifs, web: Web) -> None:
    with pytest.raises(GifError, match="does not take the key"):
        await kind(web, "other-key-0002", "pg", base=services.base).find("cat", "en")


@BOTH
@pytest.mark.parametrize(
    "body",
    ["<html>", [], {}, {"data": None}, {"data": {"data": None}}, {"data": {"data": [3]}}, {"data": [3]}],
)
async def test_an_answer_that_is_none_is_told(
    kind: Door, body: object, services: ScriptedGifs, web: Web
) -> None:
    services.body = body
    with pytest.raises(GifError, match="something else than pictures"):
        await kind(web, KEY, "pg", base=services.base).find("cat", "en")


async def test_odd_items_are_passed_over(services: ScriptedGifs, web: Web) -> None:
    services.body = {"data": {"data": [{"slug": "../../x"}, {"slug": ""}, {}, {"slug": "ok", "title": None}]}}
    assert await Klipy(web, KEY, "pg", base=services.base).find("cat", "en") == (
        FoundGif("", "https://klipy.com/gifs/ok", ""),
    )
    services.body = {"data": [{"id": "a/b"}, {"id": 7, "images": {}}, {"id": "x" * 99}]}
    assert await Giphy(web, KEY, "pg", base=services.base).find("cat", "en") == (
        FoundGif("", "https://giphy.com/gifs/7", ""),
    )


@pytest.mark.parametrize("file", ["http://127.0.0.1:9/x.gif", "file:///etc/passwd", "http://10.0.0.1/x", "x"])
async def test_a_service_cannot_send_us_into_the_private_network(
    file: str, services: ScriptedGifs, web: Web
) -> None:
    with pytest.raises(GifError, match="could not be had"):
        await Klipy(web, KEY, "pg", base=services.base).fetch(
            FoundGif("cat", "https://klipy.com/gifs/x", file)
        )


async def test_what_is_no_picture_is_refused(services: ScriptedGifs, web: Web) -> None:
    services.picture = b"<html>"
    door = Klipy(web, KEY, "pg", base=services.base)
    with pytest.raises(GifError, match="is none"):
        await door.fetch((await door.find("cat", "en"))[0])


@BOTH
async def test_the_key_is_in_no_log_and_no_repr(
    kind: Door, services: ScriptedGifs, web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    door = kind(web, KEY, "pg", base=services.base)
    found = await door.find("cat", "en")
    services.status = 500
    with pytest.raises(GifError) as caught:
        await door.find("cat", "en")
    assert KEY not in caplog.text + repr(caught.value) + repr(door) + repr(found)


@BOTH
async def test_where_nobody_answers_it_is_told(kind: Door, web: Web) -> None:
    async with gif_services() as services:
        base = services.base
    door = kind(web, KEY, "pg", base=base)
    await door.warm()
    with pytest.raises(GifError, match="does not answer"):
        await door.find("cat", "en")


def test_they_are_where_they_say_that_they_are() -> None:
    assert (KLIPY, GIPHY) == ("https://api.klipy.com", "https://api.giphy.com")
