"""Where a memory may be told again, as a table of all combinations; and which facts are one."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.memory import LONGEST_FACT, Memory, is_same_fact, may_be_told, one_fact
from pixi.core.message import Venue

PLACES = {
    "DM": (Venue(), "dm:mo"),
    "DM of another": (Venue(), "dm:ann"),
    "group DM": (Venue("", "some"), "group"),
    "group DM 2": (Venue("", "some"), "group 2"),
    "guild": (Venue("g", "all"), "general"),
    "guild, another channel": (Venue("g", "all"), "games"),
    "private channel": (Venue("g", "some"), "mods"),
    "private channel 2": (Venue("g", "some"), "mods 2"),
    "private channel that was opened": (Venue("g", "all"), "mods"),
    "channel that was closed": (Venue("g", "some"), "general"),
    "other guild": (Venue("h", "all"), "lobby"),
    "other guild, private": (Venue("h", "some"), "staff"),
}
ALSO_IN_THE_DM = {"DM"}
IN_GUILD = {name for name, (venue, _) in PLACES.items() if venue.guild == "g"}
HEARD = {
    "DM": ALSO_IN_THE_DM,
    "group DM": ALSO_IN_THE_DM | {"group DM"},
    "guild": ALSO_IN_THE_DM | IN_GUILD,
    "private channel": ALSO_IN_THE_DM | {"private channel"},
    "other guild": ALSO_IN_THE_DM | {"other guild", "other guild, private"},
    "other guild, private": ALSO_IN_THE_DM | {"other guild, private"},
}
PRESENT = {"DM": {"mo"}, "DM of another": {"ann"}}


def told_in(place: str, text: str = "likes tea", person: str = "mo") -> Memory:
    venue, conversation = PLACES[place]
    return Memory(1, "Pixi", person, venue.guild, conversation, venue.audience, text, 0.0)


def test_what_was_told_here_is_heard_there() -> None:
    for told, asked in product(HEARD, PLACES):
        venue, conversation = PLACES[asked]
        heard = may_be_told(told_in(told), venue, conversation, PRESENT.get(asked, {"mo", "ann"}))
        assert heard == (asked in HEARD[told]), (told, asked)


def test_a_private_talk_hears_nothing_while_anybody_else_is_in_it() -> None:
    for told in HEARD:
        assert not may_be_told(told_in(told), Venue(), "dm:mo", {"mo", "ann"}), told
        assert not may_be_told(told_in(told), Venue(), "dm:mo", set()), told


def test_what_all_could_read_who_belong_to_no_guild_stays_where_it_was_told() -> None:
    memory = Memory(1, "Pixi", "mo", "", "plaza", "all", "likes tea", 0.0)
    assert may_be_told(memory, Venue("", "all"), "plaza", {"mo"})
    assert not may_be_told(memory, Venue("", "all"), "market", {"mo"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("likes tea", "Likes tea!"),
        ("is allergic to peanuts", "is alergic to peanuts"),
        ("lives in Lisbon", "lives in Lisbon now"),
        ("does not like tea at all", "like tea does not"),
        ("喜欢喝茶", "不喜欢喝茶"),
        ("has a sister called Marguerite", "has a sister, called Margarite"),
    ],
)
def test_these_say_the_same(one: str, other: str) -> None:
    assert is_same_fact(one, other)
    assert is_same_fact(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("likes tea", "likes rum"),
        ("has a cat called Mimi", "has a cat called Momo"),
        ("was born in 1990", "was born in 1991"),
        ("door code 12345678", "door code 12345679"),
        ("lives in Lisbon", "lives in Lisbon with two cats and a parrot"),
        ("tea", "tea merchant"),
        ("has cats, dogs and fish in Porto", "has rats, hens and mice in Lagos"),
        ("喜欢喝茶", "喜欢喝酒"),
    ],
)
def test_these_do_not(one: str, other: str) -> None:
    assert not is_same_fact(one, other)
    assert not is_same_fact(other, one)


@given(st.text(max_size=600))
def test_a_fact_is_one_line_of_what_can_be_seen(text: str) -> None:
    fact = one_fact(text)
    assert len(fact) <= LONGEST_FACT
    assert len(fact.splitlines()) <= 1
    assert fact == fact.strip()
    fact.encode()
    assert one_fact(fact) == fact


@given(st.text(max_size=80), st.text(max_size=80))
def test_saying_the_same_is_mutual(one: str, other: str) -> None:
    assert is_same_fact(one, other) == is_same_fact(other, one)
