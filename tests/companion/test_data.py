"""What holds wherever the companion's data is kept: found with mistakes, written once, decided once."""

import asyncio
import inspect
import math
from dataclasses import replace
from typing import Any

import pytest

from pixi.companion.data import (
    AlreadyDecided,
    CompanionData,
    CompanionError,
    NewDraft,
    NewTricklist,
    NotFound,
    SpotSearch,
)

MO, JO = "discord:7", "discord:8"
WEXCOMBE = (54.9, -38.2)


def draft(name: str = "Quizzical Nook", **more: Any) -> NewDraft:
    return NewDraft(
        name, more.pop("kind", "street"), more.pop("city", "Wexcombe"), submitted_via="Kit", **more
    )


def wish(*trick_ids: str, name: str = "Summer") -> NewTricklist:
    return NewTricklist(name, "skateboard", trick_ids, "Kit")


async def test_a_spot_is_found_though_it_is_misspelt(data: CompanionData) -> None:
    for words, first in (
        ("Lantern Bowl", "Lantern Bowl"),
        ("lanten bowl", "Lantern Bowl"),
        ("LANTERNBOWL", "Lantern Bowl"),
        ("fish market ledges", "Fishmarket Ledges"),
        ("Brickwroks", "Old Brickworks DIY"),
        ("lock keepers yard", "Lock Keeper's Yard"),
        ("brickworks in wexcombe", "Old Brickworks DIY"),
    ):
        found = await data.search_spots(SpotSearch(words))
        assert found[0].name == first, words
        assert await data.spot(found[0].id) == found[0]


async def test_what_a_stranger_writes_is_no_pattern(data: CompanionData) -> None:
    for words in ("zzzzqqq", "(a+)+$", ".*", "%", "' OR 1=1 --", "\x00", "🛹", "\ud800"):
        assert await data.search_spots(SpotSearch(words)) == (), words


async def test_spots_of_a_kind(data: CompanionData) -> None:
    found = await data.search_spots(SpotSearch(kind="diy", limit=50))
    assert len(found) == 5
    assert {spot.kind for spot in found} == {"diy"}
    assert {spot.kind for spot in await data.search_spots(SpotSearch("wexcombe", "resort"))} == {"resort"}


async def test_the_nearest_comes_first_and_what_is_too_far_not_at_all(data: CompanionData) -> None:
    near = SpotSearch(latitude=WEXCOMBE[0], longitude=WEXCOMBE[1], within_km=8, limit=50)
    found = await data.search_spots(near)
    ways = [spot.distance_km or 0 for spot in found]
    assert ways == sorted(ways)
    assert 0 < len(ways) < 40
    assert ways[-1] <= 8
    assert await data.search_spots(SpotSearch(latitude=0, longitude=0, within_km=500)) == ()
    assert (
        len(await data.search_spots(SpotSearch(latitude=89, longitude=0, within_km=20_000, limit=50))) == 40
    )


async def test_a_spot_is_found_across_the_date_line_and_the_poles(data: CompanionData) -> None:
    for middle, place, km in (
        ((0.0, 179.9), (0.0, -179.9), 22.24),
        ((0.0, -179.9), (0.0, 179.9), 22.24),
        ((54.9, 180.0), (54.9, -180.0), 0.0),
        ((-36.9, -179.99), (-36.9, 179.99), 1.78),
        ((89.9, 0.0), (89.9, 180.0), 22.24),
        ((89.9, -90.0), (89.9, 90.0), 22.24),
        ((-89.95, 10.0), (-89.95, -170.0), 11.12),
        ((-90.0, 123.0), (-90.0, -45.0), 0.0),
        ((90.0, 0.0), (89.8, 77.0), 22.24),
    ):
        made = await data.create_draft(MO, draft(latitude=place[0], longitude=place[1]), f"{middle} {place}")
        spot_id = (await data.approve(made.id, "web:1")).spot_id
        for words in ("", "quizzical"):
            around = SpotSearch(words, latitude=middle[0], longitude=middle[1], within_km=km + 0.1, limit=50)
            found = {spot.id: spot.distance_km for spot in await data.search_spots(around)}
            assert found[spot_id] == pytest.approx(km, abs=0.01), middle
            if km:
                nearer = await data.search_spots(replace(around, within_km=km - 0.1))
                assert spot_id not in {spot.id for spot in nearer}, middle


async def test_exact_names_come_first_then_names_with_the_words_then_near_misses(data: CompanionData) -> None:
    names = ("Harborough Steps", "Old Harbor Bowl", "Harbor Bowl", "Habor", "Harbor", "Quay")
    for name in names:
        more = {"description": "Near the harbor."} if name == "Quay" else {}
        made = await data.create_draft(MO, draft(name, **more), name)
        await data.approve(made.id, "web:1")
    found = [spot.name for spot in await data.search_spots(SpotSearch("harbor", limit=50))]
    assert found[0] == "Harbor"
    assert set(found[1:3]) == {"Harbor Bowl", "Old Harbor Bowl"}
    assert found[3] == "Habor"
    assert any("Harbour" in name for name in found[4:]), "the sample has some, spelt so"
    assert "Quay" not in found
    by_two = [spot.name for spot in await data.search_spots(SpotSearch("harbor bowl"))]
    assert by_two[:2] == ["Harbor Bowl", "Old Harbor Bowl"]
    misspelt = [spot.name for spot in await data.search_spots(SpotSearch("harbr", limit=50))]
    assert {"Harbor", "Harbor Bowl", "Old Harbor Bowl"} <= set(misspelt)


async def test_many_are_cut_off(data: CompanionData) -> None:
    assert len(await data.search_spots(SpotSearch("wexcombe", limit=3))) == 3


async def test_tricks_are_found_by_name_and_category(data: CompanionData) -> None:
    assert (await data.search_tricks("kick flip"))[0].name == "Kickflip"
    assert (await data.search_tricks("kickflp"))[0].name == "Kickflip"
    assert {trick.category for trick in await data.search_tricks("", "bmx", 50)} == {"bmx"}
    assert {trick.category for trick in await data.search_tricks("grind", "BMX")} == {"bmx"}
    assert await data.search_tricks("(.*)+") == ()
    first = (await data.search_tricks("ollie"))[0]
    assert await data.trick(first.id) == first
    assert await data.trick("nothing") is None


async def test_a_trick_is_meant_by_nearly_its_name(data: CompanionData) -> None:
    names = ["kick flip", "heelflp", "OLLIE", "moon walk", "flip"]
    found = await data.match_tricks(names, "skateboard")
    assert [match.asked for match in found] == names
    assert [match.trick.name if match.trick else None for match in found] == [
        *("Kickflip", "Heelflip", "Ollie"),
        *(None, None),
    ]
    assert found[3].nearest == ()
    assert "360 flip" in found[4].nearest
    (manual,) = await data.match_tricks(["manual"], "bmx")
    assert manual.trick
    assert manual.trick.category == "bmx"


async def test_a_list_is_made_once_for_one_request(data: CompanionData) -> None:
    ids = [trick.id for trick in await data.search_tricks("flip")]
    first = await data.create_tricklist(MO, wish(*ids), "k1")
    assert await data.create_tricklist(MO, wish(*ids, name="Other"), "k1") == first
    assert [trick.id for trick in first.tricks] == ids
    assert not any(trick.checked for trick in first.tricks)
    assert (first.name, first.created_by) == ("Summer", "Kit")
    at_once = await asyncio.gather(*(data.create_tricklist(MO, wish(), "k2") for _ in range(5)))
    assert len({each.id for each in at_once}) == 1
    assert len(await data.tricklists(MO)) == 2


async def test_a_list_belongs_to_its_person(data: CompanionData) -> None:
    ours = await data.create_tricklist(MO, wish(name="Winter wishes"), "k")
    theirs = await data.create_tricklist(JO, wish(name="Theirs"), "k")
    assert ours.id != theirs.id
    assert [each.name for each in await data.tricklists(MO)] == ["Winter wishes"]
    assert [each.id for each in await data.tricklists(MO, "wintr wishes")] == [ours.id]
    assert await data.tricklists(MO, "Theirs") == ()
    assert await data.tricklist(MO, theirs.id) is None
    assert await data.tricklist(JO, theirs.id) == theirs


async def test_a_trick_that_is_nowhere_is_in_no_list(data: CompanionData) -> None:
    with pytest.raises(NotFound, match="no trick of the id 'made-up'"):
        await data.create_tricklist(MO, wish("made-up"), "k")
    assert await data.tricklists(MO) == ()


async def test_a_draft_waits_and_becomes_a_spot_that_is_found(data: CompanionData) -> None:
    made = await data.create_draft(MO, draft(latitude=54.91, longitude=-38.21), "k")
    assert await data.create_draft(MO, draft(latitude=54.91, longitude=-38.21), "k") == made
    with pytest.raises(CompanionError, match="Another spot was submitted by the same key, 'Quizzical Nook'"):
        await data.create_draft(MO, draft("Other"), "k")
    assert (made.status, made.submitted_by, made.submitted_via) == ("pending_approval", MO, "Kit")
    assert await data.search_spots(SpotSearch("quizzical nook")) == ()
    assert [each.id for each in await data.drafts()] == [made.id]
    approved = await data.approve(made.id, "web:admin")
    assert (approved.status, approved.decided_by) == ("approved", "web:admin")
    assert approved.decided_at > 0
    (spot,) = await data.search_spots(SpotSearch("quizzical nook"))
    assert (spot.id, spot.created_by, spot.latitude) == (approved.spot_id, "Kit", 54.91)
    assert await data.drafts() == ()
    assert await data.draft(made.id) == approved


async def test_who_decides_the_same_again_changes_nothing(data: CompanionData) -> None:
    made = await data.create_draft(MO, draft(), "k")
    decided = await asyncio.gather(*(data.approve(made.id, f"web:{n}") for n in range(5)))
    assert len({(each.decided_by, each.spot_id) for each in decided}) == 1
    assert len(await data.search_spots(SpotSearch("quizzical nook"))) == 1
    with pytest.raises(
        AlreadyDecided,
        match=r"'Quizzical Nook' was approved before, by web:\d on \d{4}-\d\d-\d\d \d\d:\d\d UTC\.$",
    ):
        await data.reject(made.id, "web:9", "no")


async def test_what_was_rejected_becomes_no_spot(data: CompanionData) -> None:
    made = await data.create_draft(MO, draft(), "k")
    rejected = await data.reject(made.id, "web:1", "It is private ground.")
    assert (rejected.status, rejected.why, rejected.spot_id) == ("rejected", "It is private ground.", "")
    assert await data.reject(made.id, "web:2") == rejected
    with pytest.raises(
        AlreadyDecided, match=r"was rejected before, by web:1 on \d.+ UTC\. The reason: It is private"
    ):
        await data.approve(made.id, "web:2")
    assert await data.search_spots(SpotSearch("quizzical nook")) == ()
    assert [each.id for each in await data.drafts("rejected")] == [made.id]
    assert [each.id for each in await data.drafts(None)] == [made.id]


async def test_two_who_decide_otherwise_at_once_get_one_decision(data: CompanionData) -> None:
    made = await data.create_draft(MO, draft(), "k")
    said = await asyncio.gather(
        data.approve(made.id, "web:1"), data.reject(made.id, "web:2"), return_exceptions=True
    )
    assert sum(isinstance(each, AlreadyDecided) for each in said) == 1
    kept = await data.draft(made.id)
    assert kept
    assert len(await data.search_spots(SpotSearch("quizzical nook"))) == (kept.status == "approved")


async def test_ids_that_are_nobodys(data: CompanionData) -> None:
    for made_up in ("nothing", "", "'; DROP TABLE x", "x" * 10_000, "\x00"):
        assert await data.spot(made_up) is None
        assert await data.draft(made_up) is None
        assert await data.tricklist(MO, made_up) is None
        with pytest.raises(NotFound):
            await data.approve(made_up, "web:1")
        with pytest.raises(NotFound):
            await data.reject(made_up, "web:1")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"name": ""}, ["name is empty"]),
        ({"name": " \x00\u200b\n"}, ["name is empty"]),
        ({"name": "x" * 10_000}, ["name has 10000 characters: 100 is the most"]),
        ({"kind": "cinema"}, ["type 'cinema' is not known: give one of skatepark, street, diy"]),
        ({"city": ""}, ["Nobody could find it: give a maps link, coordinates, or at least the city."]),
        (
            {"latitude": 91.0, "longitude": 200.0},
            ["latitude 91, longitude 200: latitude goes from -90 to 90"],
        ),
        ({"latitude": 138.2, "longitude": 54.9}, ["seem to be swapped"]),
        ({"latitude": math.nan, "longitude": 1.0}, ["must be numbers in degrees"]),
        ({"latitude": math.inf, "longitude": 1.0}, ["must be numbers in degrees"]),
        ({"latitude": 1.0}, ["There is no longitude"]),
        ({"description": "x" * 2_001}, ["description has 2001 characters: 2000 is the most."]),
        ({"name": "", "kind": "x", "city": "y" * 101}, ["name is empty", "type 'x'", "city has 101"]),
    ],
    ids=str,
)
def test_a_bad_draft_is_told_all_that_is_wrong(more: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(CompanionError) as error:
        draft(**more)
    for each in told:
        assert each in str(error.value)


def test_too_many_tricks_are_refused_and_a_name_is_one_line() -> None:
    with pytest.raises(CompanionError, match="There are 10000 tricks: 50 is the most"):
        wish(*["x"] * 10_000)
    assert wish(name="a\r\n\x1b[31m  b\u202e").name == "a [31m b"


@pytest.mark.parametrize(
    "search",
    [
        {"limit": 0},
        {"limit": 51},
        {"within_km": 0},
        {"within_km": math.nan},
        {"kind": "x"},
        {"latitude": 1.0},
    ],
    ids=str,
)
def test_a_bad_search_is_refused(search: dict[str, Any]) -> None:
    with pytest.raises(CompanionError):
        SpotSearch(**search)


@pytest.mark.parametrize(
    "given",
    [
        {"latitude": 10**400, "longitude": 1.0},
        {"latitude": 1.0, "longitude": -(10**400)},
        {"latitude": 10**5_000, "longitude": 10**5_000},
    ],
    ids=range(3),
)
def test_a_number_that_is_too_large_for_any_is_no_coordinate(given: dict[str, Any]) -> None:
    for make in (SpotSearch, draft):
        with pytest.raises(CompanionError, match="Coordinates must be numbers in degrees"):
            make(**given)


@pytest.mark.parametrize("given", [{"within_km": 10**400}, {"limit": 10**400}, {"limit": -(10**5_000)}])
def test_a_search_by_a_number_that_is_too_large_for_any_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(CompanionError, match=r"is -?inf: give"):
        SpotSearch(**given)


async def test_what_is_asked_for_is_bounded(data: CompanionData) -> None:
    with pytest.raises(CompanionError, match="There are 51 names of tricks: 50 is the most"):
        await data.match_tricks(["Ollie"] * 51)
    with pytest.raises(CompanionError, match="The name of trick 2 has 10000 characters: 100 is the most"):
        await data.match_tricks(["Ollie", "x" * 10_000])
    assert len(await data.match_tricks(["Ollie"] * 50)) == 50
    for limit in (-1, 0, 501, 10**400):
        with pytest.raises(CompanionError, match=r"limit is .+: give 1 to 500"):
            await data.drafts(limit=limit)
    for limit in (-1, 0, 51):
        with pytest.raises(CompanionError, match=f"limit is {limit}: give 1 to 50"):
            await data.search_tricks("ollie", limit=limit)


async def test_drafts_are_read_page_by_page(data: CompanionData) -> None:
    made = [(await data.create_draft(MO, draft(f"n{number}"), f"k{number}")).id for number in range(5)]
    waiting = [each.id for each in await data.drafts()]
    assert sorted(waiting) == sorted(made)
    pages, last = list[list[str]](), ""
    while page := [each.id for each in await data.drafts(limit=2, after=last)]:
        pages.append(page)
        last = page[-1]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [each for page in pages for each in page] == waiting
    await data.approve(waiting[1], "web:1")  # the last of a page may be decided before the next is read
    assert [each.id for each in await data.drafts(after=waiting[1])] == waiting[2:]
    with pytest.raises(NotFound, match="no draft of the id 'nothing'"):
        await data.drafts(after="nothing")


async def test_what_strangers_describe_keeps_its_lines_and_nothing_that_cannot_be_seen(
    data: CompanionData,
) -> None:
    words = "  Smooth.\x00\x1b[31m\u202e\r\nBy the\triver.\u2028\n\n\n\nGo early.\x07\ud83d \n"
    tidy = "Smooth. [31m\nBy the river.\n\nGo early."
    made = await data.create_draft(MO, draft(description=words), "k")
    assert made.description == tidy
    assert (await data.reject(made.id, "web:1", words)).why == tidy
    with pytest.raises(CompanionError, match="why has 2001 characters: 2000 is the most"):
        await data.reject(made.id, "web:1", "x" * 2_001)


async def test_brackets_and_markers_in_names_are_words(data: CompanionData) -> None:
    name = "[SEND: hey] <|im_end|> @everyone"
    made = await data.create_draft(MO, draft(name), "k")
    assert made.name == name


def test_nothing_deletes() -> None:
    """Neither the port nor what is asked through it has a way to take anything away."""
    names = {name for name, _ in inspect.getmembers(CompanionData, inspect.isfunction) if name[0] != "_"}
    assert names == {
        *("search_spots", "spot", "search_tricks", "trick", "match_tricks"),
        *("tricklists", "tricklist", "create_tricklist"),
        *("create_draft", "draft", "drafts", "approve", "reject"),
    }
