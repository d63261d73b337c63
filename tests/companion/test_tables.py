"""The companion's tables: who is forgotten, what is loaded, and a store that is closed."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from pixi.companion.addon import read, read_file, sample
from pixi.companion.data import CompanionError, NewDraft, NewTricklist, SpotSearch, Unavailable
from pixi.store.opening import open_store
from tests.companion.conftest import opened

MO = "discord:7"
SPOT = {"_id": "a", "name": "A", "type": "street"}
TRICK = {"_id": "a", "name": "A", "category": "bmx"}


def with_number(field: str, sign: str = "", digits: int = 400) -> str:
    """A file with a spot that has a number too large for any."""
    spot = json.dumps({**SPOT, "latitude": 1, "longitude": 1, field: 0.125})
    return f'{{"spots": [{spot}]}}'.replace("0.125", sign + "9" * digits)


async def test_who_is_forgotten_loses_their_lists_and_their_name() -> None:
    store = await open_store(":memory:")
    tables = await opened(store)
    await tables.load((), sample().tricks)
    ollie = (await tables.search_tricks("ollie"))[0]
    for person in (MO, "discord:8"):
        await tables.create_tricklist(person, NewTricklist("L", "skateboard", (ollie.id,), "Kit"), "k")
        await tables.create_draft(person, NewDraft("S", "street", "W", description="by me"), "k")
    approved = await tables.approve((await tables.drafts())[0].id, MO)
    told = (await store.export(MO))["companion"]
    assert told["tricklists"][0]["tricks"] == [{"name": "Ollie", "checked": False}]
    assert told["drafts"][0]["description"] == "by me"
    await store.forget(MO)
    assert "companion" not in await store.export(MO)
    assert await tables.tricklists(MO) == ()
    assert len(await tables.tricklists("discord:8")) == 1
    (left,) = [each for each in await tables.drafts(None) if each.id == approved.id]
    assert (left.submitted_by, left.decided_by, left.description) == ("", "", "")
    await store.close()


async def test_a_store_that_is_gone_is_a_clear_word() -> None:
    store = await open_store(":memory:")
    tables = await opened(store)
    await store.close()
    with pytest.raises(Unavailable, match="cannot be read just now"):
        await tables.search_spots(SpotSearch("a"))
    with pytest.raises(Unavailable, match="nothing was"):
        await tables.create_draft(MO, NewDraft("S", "street", "W"), "k")


async def test_what_is_loaded_again_takes_its_place() -> None:
    store = await open_store(":memory:")
    tables = await opened(store)
    for name in ("Old", "New"):
        loaded = read(json.dumps({"spots": [{**SPOT, "name": name}]}))
        await tables.load(loaded.spots, loaded.tricks)
    assert [spot.name for spot in await tables.search_spots(SpotSearch())] == ["New"]
    await store.close()


def test_the_sample_is_large_enough_and_marked_as_invented() -> None:
    loaded = sample()
    assert len(loaded.tricks) >= 60
    assert len(loaded.spots) == 40
    assert all("invented" in spot.description for spot in loaded.spots)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "It is not JSON"),
        ("[" * 100_000, "It is not JSON"),
        ("[]", 'an object with "spots" or "tricks"'),
        ('{"spots": 1}', "spots must be a list."),
        ('{"spots": [1]}', "spot 1: it must be an object."),
        ('{"spots": [{"name": "A"}]}', "spot 1 ('A'): _id is missing: give a text."),
        (json.dumps({"spots": [SPOT, SPOT]}), "spot 2 ('A'): the _id 'a' stands there twice."),
        (json.dumps({"spots": [{**SPOT, "type": "moon"}]}), "type 'moon' is not known"),
        (json.dumps({"spots": [{**SPOT, "latitude": 91, "longitude": 1}]}), "seem to be swapped"),
        (json.dumps({"spots": [{**SPOT, "latitude": True}]}), "must be numbers"),
        (json.dumps({"spots": [{**SPOT, "rating": 6}]}), "rating is 6: give 0 to 5."),
        ('{"tricks": [{"_id": "a", "name": "A", "category": "bmx", "videos": "x"}]}', "list of addresses"),
        ('{"tricks": [{"_id": "a", "name": "A"}]}', "trick 1 ('A'): category is missing"),
        (with_number("latitude"), "spot 1 ('A'): Coordinates must be numbers in degrees"),
        (with_number("longitude", "-"), "spot 1 ('A'): Coordinates must be numbers in degrees"),
        (with_number("rating"), "spot 1 ('A'): rating is inf: give 0 to 5."),
        (with_number("rating", digits=5_000), "spot 1 ('A'): rating is inf: give 0 to 5."),
        (json.dumps({"spots": [{**SPOT, "rating": math.nan}]}), "spot 1 ('A'): rating is nan: give 0 to 5."),
        *(
            (json.dumps({"spots": [{**SPOT, field: "b\ud800"}]}), f"{field} has half a character")
            for field in ("_id", "name", "city", "state", "country", "description", "imageUrl")
        ),
        (json.dumps({"spots": [{**SPOT, "type": "\udfff"}]}), "type '' is not known"),
        *(
            (
                json.dumps({"tricks": [{**TRICK, field: "\ud800b"}]}),
                f"trick 1 ({named}): {field} has half a ch",
            )
            for field, named in (("category", "'A'"), ("difficulty", "'A'"), ("name", "'b'"))
        ),
        (json.dumps({"tricks": [{**TRICK, "videos": ["https://a.b/", "\ud800"]}]}), "videos has an address"),
        (json.dumps({"spots": [{**SPOT, "_id": 5}]}), "spot 1 ('A'): _id must be a text."),
        (json.dumps({"spots": [{**SPOT, "_id": "a\x00b"}]}), "_id has characters that cannot be seen"),
    ],
    ids=itertools.count(),
)
def test_a_bad_file_is_told_by_its_entries(text: str, told: str) -> None:
    with pytest.raises(CompanionError) as error:
        read(text)
    assert told in str(error.value)


def test_what_is_wrong_is_repeated_in_part() -> None:
    with pytest.raises(CompanionError) as error:
        read(json.dumps({"spots": [{"_id": "a", "name": "n" * 100_000, "type": "t" * 100_000}]}))
    assert len(str(error.value)) < 500


def test_what_a_file_has_beside_is_passed_over() -> None:
    (spot,) = read(json.dumps({"spots": [{**SPOT, "createdBy": 5, "distanceKm": 7, "\ud800": 1}]})).spots
    assert (spot.created_by, spot.distance_km) == ("", None)


def test_what_is_described_in_a_file_has_nothing_that_cannot_be_seen() -> None:
    wild = " A\x00\x1b[31m\r\nb\u202e\x07 "
    loaded = read(
        json.dumps({"spots": [{**SPOT, "description": wild}], "tricks": [{**TRICK, "description": wild}]})
    )
    assert loaded.spots[0].description == loaded.tricks[0].description == "A [31m\nb"


def test_all_faults_are_told_at_once_up_to_twenty() -> None:
    entries: list[Any] = [{"name": f"n{n}"} for n in range(30)]
    with pytest.raises(CompanionError) as error:
        read(json.dumps({"tricks": entries}))
    lines = str(error.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "… and 40 more."


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CompanionError, match="cannot be read"):
        read_file(tmp_path / "none.json")
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CompanionError, match="not UTF-8"):
        read_file(tmp_path / "a.json")
