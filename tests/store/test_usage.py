"""The books: what was used, added up by day, and who was told that there is no more."""

import json

import pytest
from msgspec.structs import replace

from pixi.core.llm import Usage
from pixi.core.message import Author, Message
from pixi.core.spending import (
    UsageEntry,
    UsageScope,
    day_of,
    first_of_month,
    next_month,
    spent_on,
    way_of_searching,
)
from pixi.store.kept import Deed
from pixi.store.store import Store
from tests.begun import begun

DAY = 20_500
MO = UsageEntry(
    DAY, "11", "discord:7", "discord:1", "gpt-5-mini", messages=1, usage=Usage(1_000, 400, 50), cost=0.01
)
ANN = replace(MO, person="12", writes=2)
WAY = way_of_searching("searxng")
DM = UsageEntry(DAY, "11", "discord:9", "", "gpt-5-mini", messages=1, usage=Usage(10, 0, 5), unpriced=15)


async def test_what_is_entered_is_added_up(store: Store) -> None:
    await store.spend([MO, MO, ANN, DM])
    await store.spend([replace(MO, day=DAY + 1), replace(MO, model="other")])
    (all_of_it,) = await store.usage(DAY, DAY + 1)
    assert (all_of_it.messages, all_of_it.writes, all_of_it.unpriced) == (6, 2, 15)
    assert all_of_it.usage == Usage(5_010, 2_000, 255)
    assert all_of_it.cost == pytest.approx(0.05)
    days = await store.usage(DAY, DAY + 1, "day")
    assert [(row.day, row.messages, row.person, row.model) for row in days] == [
        (DAY, 5, "", ""),
        (DAY + 1, 1, "", ""),
    ]
    people = await store.usage(DAY, DAY, "person", "channel")
    assert [(row.person, row.channel, row.messages) for row in people] == [
        ("11", "discord:7", 3),
        ("11", "discord:9", 1),
        ("12", "discord:7", 1),
    ]


async def test_where_nothing_was_used_the_sum_is_nothing(store: Store) -> None:
    (nothing,) = await store.usage(0, DAY)
    assert nothing == UsageEntry()
    assert await store.usage(0, DAY, "day") == ()
    assert (await store.used(DAY, "person", "11")).is_nothing


async def test_one_of_them_and_one_day(store: Store) -> None:
    await store.spend([MO, ANN, DM, replace(MO, day=DAY - 1)])
    assert (await store.used(DAY, "person", "11")).messages == 2
    assert (await store.used(DAY, "channel", "discord:7")).amount("tokens") == 2_100
    assert (await store.used(DAY, "guild", "discord:1")).amount("writes") == 2
    assert (await store.used(DAY, "guild", "discord:2")).is_nothing


async def test_strangers_words_are_kept_whatever_they_are(store: Store) -> None:
    odd = replace(MO, person="'; DROP TABLE usage; --", channel="\ud800", model="a\x1bb")
    await store.spend([odd, odd])
    assert (await store.used(DAY, "person", odd.person)).messages == 2
    (row,) = await store.usage(DAY, DAY, "channel", "model")
    assert (row.channel, row.model) == ("?", "a\x1bb")


async def test_many_small_sums_stay_exact_enough(store: Store) -> None:
    await store.spend([replace(MO, cost=123_456.75)])
    for _ in range(10):
        await store.spend([replace(MO, cost=0.00001) for _ in range(100)])
    (row,) = await store.usage(DAY, DAY)
    assert row.cost == pytest.approx(123_456.76, abs=1e-6)


async def test_a_notice_is_given_once_a_day(store: Store) -> None:
    assert await store.notice(DAY, "person", "11")
    assert not await store.notice(DAY, "person", "11")
    assert await store.notice(DAY, "channel", "11")
    assert await store.notice(DAY + 1, "person", "11")
    assert not await store.notice(DAY, "person", "11"), "a clock was set back"


async def test_who_is_forgotten_leaves_what_was_used_and_no_name(store: Store) -> None:
    await store.spend([MO, ANN, DM, replace(MO, person=""), replace(DM, channel="discord:10")])
    await store.spend([replace(MO, messages=0, model=WAY, usage=Usage(searches=3), cost=0.03)])
    await store.notice(DAY, "person", "11")
    await store.forget("11")
    rows = await store.usage(DAY, DAY, "person", "channel", "guild")
    assert [(row.person, row.channel, row.guild, row.messages) for row in rows] == [
        ("", "", "", 2),
        ("", "discord:7", "discord:1", 2),
        ("12", "discord:7", "discord:1", 1),
    ]
    assert sum(row.tokens for row in rows) == 3 * 1_050 + 2 * 15
    assert sum(row.usage.searches for row in rows) == 3
    assert await store.notice(DAY, "person", "11")
    await store.forget("11")
    await store.forget("")
    assert await store.usage(DAY, DAY, "person", "channel", "guild") == rows


async def test_a_person_is_told_what_they_used(store: Store) -> None:
    await store.spend([MO, ANN, DM])
    told = (await store.export("11"))["usage"]
    assert json.loads(json.dumps(told))[0] == {
        "day": "2026-02-16",
        "channel": "discord:7",
        "model": "gpt-5-mini",
        "messages": 1,
        "writes": 0,
        "prompt_tokens": 1_000,
        "cached_tokens": 400,
        "completion_tokens": 50,
        "searches": 0,
        "cost": 0.01,
    }
    assert [each["channel"] for each in told] == ["discord:7", "discord:9"]
    await store.spend([replace(MO, model=WAY, usage=Usage(searches=3))])
    told = (await store.export("11"))["usage"]
    assert [(each["model"], each["searches"]) for each in told if each["searches"]] == [(WAY, 3)]


async def test_a_turn_and_what_it_used_are_on_record_together(store: Store) -> None:
    await store.receive(Message("1", "room", Author("11", "mo"), "hi", 1.0))
    turn = await begun(store, "room", 0, "pixi", ("1",))
    deed = Deed("room", "", turn, "pixi", "11", "ban", "{}")
    await store.audit_begin(deed, spent=[replace(MO, messages=0, writes=1, usage=Usage())])
    assert (await store.used(DAY, "person", "11")).writes == 1
    await store.end_turn(turn, (), "cancelled", 1, Usage(), spent=[replace(MO, turn=turn)])
    await store.end_turn(turn, (), "cancelled", 1, Usage(), spent=[replace(DM, turn=turn)])
    assert (await store.used(DAY, "person", "11")).messages == 2, "also of a turn that was ended before"


async def test_what_is_used_after_somebody_was_forgotten_is_nobodys(store: Store) -> None:
    await store.receive(Message("1", "room", Author("11", "mo"), "hi", 1.0))
    turn = await begun(store, "room", 0, "pixi", ("1",))
    await store.forget("11")
    await store.spend([replace(DM, turn=turn)])
    assert not await store.end_turn(turn, (), "stop", 1, Usage(), spent=[replace(MO, turn=turn)])
    rows = await store.usage(DAY, DAY, "person", "channel")
    assert [(row.person, row.channel) for row in rows] == [("", ""), ("", "discord:7")]


async def test_messages_can_be_made_to_be_merely_overheard(store: Store) -> None:
    for name in ("1", "2"):
        await store.receive(Message(name, "room", Author("11", "mo"), "hi", 9.0))
    assert await store.unanswered("room", 0.0) == ("room",)
    await store.only_hear("room", ["1", "9"])
    saved = await store.load("room")
    assert [(message.id, message.addressed, message.text) for message in saved.waiting] == [
        ("1", False, "hi"),
        ("2", True, "hi"),
    ]
    await store.only_hear("room", ["2"])
    assert await store.unanswered("room", 0.0) == ()


@pytest.mark.parametrize(
    ("seconds", "day", "first", "following"),
    [
        (0.0, 0, 0, "1970-02-01"),
        (86_399.9, 0, 0, "1970-02-01"),
        (-1.0, -1, -31, "1970-01-01"),
        (DAY * 86_400.0, DAY, DAY - 15, "2026-03-01"),
        (1_798_675_200.0, 20_818, 20_788, "2027-01-01"),
    ],
)
def test_days_and_months(seconds: float, day: int, first: int, following: str) -> None:
    assert day_of(seconds) == day
    assert first_of_month(day) == first
    assert next_month(day).isoformat() == following


def test_a_call_is_priced_or_is_not() -> None:
    payer = UsageScope("11", "discord:7", "discord:1")
    assert spent_on(payer, "m", Usage(10, 0, 5), None).unpriced == 15
    assert (MO + ANN) - ANN == MO
