"""docs/architecture.md says what the code does: its made parts are as the script makes them."""

import asyncio
import re
from importlib import import_module

import pytest

from benchmarks import hops
from pixi.core.life import ENDING, LIVE, NEXT, LifeState
from tests.architecture_page import PAGE, drawn, edited, everywhere, pictures, reasons, way
from tests.pages import ROOT, section

MAKE = "python -m tests.architecture_page makes the page anew"


@pytest.fixture(scope="module")
def ways() -> dict[str, hops.Way]:
    """The way to each station, of a whole bot."""
    return asyncio.run(hops.measure())


@pytest.mark.parametrize(("heading", "count"), [("Eight words", 9), ("Glossary", 30)])
def test_the_words_stand_for_what_there_is(heading: str, count: int) -> None:
    names = re.findall(r"`(pixi\.[\w.]+)\.(\w+)`", section(PAGE.read_text(encoding="utf-8"), heading))

    assert len(names) == count  # a turn is two values: what is said, and how far it is
    assert not [f"{module}.{name}" for module, name in names if not hasattr(import_module(module), name)]


def test_what_one_is_sent_to_is_there() -> None:
    table = section(PAGE.read_text(encoding="utf-8"), "Where to add")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:pixi|tests|examples|personas)/[\w./]*)`", table + contributing)

    assert len(paths) > 20
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_the_pictures_and_the_tables_are_made_from_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert edited(page, drawn()) == page, MAKE


def test_the_engine_stays_small_enough_to_be_read() -> None:
    rows = [row.split(" | ") for row in drawn()["engine"].splitlines()[2:]]

    assert len(rows) <= 17
    assert max(int(floor.removeprefix("| ")) for floor, *_ in rows) <= 9


def test_the_way_of_a_message_is_the_one_that_it_takes(ways: dict[str, hops.Way]) -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert edited(page, {"way": way(ways)}) == page, MAKE


def test_the_pictures_show_every_state_and_leave_it_only_as_the_table_does() -> None:
    drawing = pictures()
    arrows = [line.split(" : ")[0].split(" --> ") for line in drawing.splitlines() if " --> " in line]
    follows = {(state.name, after.name) for (state, _), after in NEXT.items()}

    assert all(state.name in drawing for state in LifeState)
    for begin, end in arrows:
        if begin in LifeState.__members__:
            assert (begin, end) in follows


def test_what_leads_from_a_live_state_elsewhere_is_in_a_picture() -> None:
    drawing = pictures()
    for (state, event), after in NEXT.items():
        if state in LIVE and after is not state and event not in everywhere():
            word = event.name.lower().replace("_", " ")
            assert any(after.name in line and word in line for line in drawing.splitlines()), (state, event)


def test_each_way_out_has_a_reason() -> None:
    assert reasons().keys() >= ENDING


def test_a_page_without_a_place_for_a_part_is_told() -> None:
    with pytest.raises(ValueError, match="'life'"):
        edited("<!-- made: life -->\nand no end", {"life": "text"})


def test_hops_there_and_back_are_counted_from_where_the_ways_part() -> None:
    ways = {hops.POSTED: ("a", "models/connections.py", "c", "d"), hops.ENDED: ("a", "b", "e")}

    assert hops.hops(ways) == (3, 2, 5)


def test_a_task_goes_on_where_it_was_created(ways: dict[str, hops.Way]) -> None:
    heard = ways[hops.RECORDED][:-1]  # but for the store

    assert list(ways) == list(hops.STATIONS)
    assert ways[hops.POSTED][: len(heard)] == heard
