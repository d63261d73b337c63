"""Budgets: who used up what there is, is told so once a day, and the month's dollars end everything."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict, Unpack

import pytest
from msgspec.structs import replace

from pixi.core.errors import ChannelError, ModelError
from pixi.core.llm import Finished, Prices, Request, ToolCall, Usage
from pixi.core.message import Rights, Venue
from pixi.core.persona import Persona
from pixi.core.spending import Allowance, Budgets, QuotaUsage, UsageEntry, UsageScope, day_of
from pixi.engine.usage import QuotaExceeded
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Reply
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.gate import FULL, Gate
from tests.engine.scene import PIXI, Scene, scene
from tests.waiting import until

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TODAY = day_of(NOON.timestamp())
PRICED = Traits(prices=Prices(prompt=10.0, completion=100.0, cached=1.0))
USED = Usage(1_000, 400, 10)  # a cent and a half: 600 × 10 + 400 × 1 + 10 × 100 millionths, less
COST = (600 * 10 + 400 * 1 + 10 * 100) / 1_000_000
HALL = Venue("discord:1", "all", "discord:7")
GENERAL = "That is all for today: this {0} has used up what one {0} has in a day "


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def says(text: str, usage: Usage = USED) -> Reply:
    return [f"[SEND: {text}]", Finished(usage=usage)]


def model(*replies: str, usage: Usage = USED) -> ScriptedModel:
    return ScriptedModel(*(says(reply, usage) for reply in replies), traits=PRICED)


class _Rest(TypedDict, total=False):
    persona: Persona
    addons: list[Callable[[Addon], None]]
    budgets: Budgets


@asynccontextmanager
async def play(
    store: Store,
    script: ScriptedModel,
    *,
    clock: Clock | None = None,
    venue: Venue = HALL,
    **parts: Unpack[_Rest],
) -> AsyncGenerator[Scene, None]:
    channel = RecordingChannel("discord:1:7:pixi", venue=venue)
    async with scene(script, store=store, clock=clock or Clock(), channel=channel, **parts) as here:
        yield here


async def say(here: Scene, text: str, author: str = "Mo") -> None:
    await here.say(text, author=author)
    await here.engine.settled()


async def booked(store: Store, *by: str) -> list[UsageEntry]:
    return list(await store.usage(0, TODAY + 400, *by))  # type: ignore[arg-type]


def person(**allowance: int) -> Budgets:
    return Budgets(person=Allowance(**allowance))


# Books.


async def test_a_turn_is_entered_with_all_that_it_used(store: Store) -> None:
    async with play(store, model("a", "b")) as here:
        await say(here, "one")
        await say(here, "two")
    (row,) = await booked(store, "day", "person", "channel", "guild", "model")
    assert (row.day, row.person, row.channel, row.guild, row.model) == (
        TODAY,
        "author:Mo",
        "discord:7",
        "discord:1",
        "scripted",
    )
    assert (row.messages, row.writes, row.usage, row.unpriced) == (2, 0, USED + USED, 0)
    assert row.cost == pytest.approx(2 * COST)


async def test_where_no_channel_is_told_the_conversation_is_one(store: Store) -> None:
    async with play(store, model("a"), venue=Venue()) as here:
        await say(here, "one")
    (row,) = await booked(store, "channel", "guild")
    assert (row.channel, row.guild) == ("discord:1:7:pixi", "")


async def test_what_is_not_priced_is_counted_as_such(store: Store) -> None:
    async with play(store, ScriptedModel(says("a"))) as here:
        await say(here, "one")
    (row,) = await booked(store)
    assert (row.unpriced, row.cost) == (1_010, 0.0)


async def test_a_server_that_does_not_count_is_estimated(store: Store) -> None:
    async with play(store, ScriptedModel("[SEND: " + "x" * 300 + "]", traits=PRICED)) as here:
        await say(here, "one")
    (row,) = await booked(store)
    assert 50 < row.usage.prompt_tokens < 1_000
    assert 100 <= row.usage.completion_tokens <= 110
    assert row.cost > 0


async def test_attempts_that_were_begun_again_cost_what_they_cost(store: Store) -> None:
    never = asyncio.Event()
    script = ScriptedModel([never], says("both"), traits=PRICED)
    async with play(store, script) as here:
        await here.say("one")
        await until(lambda: here.model.streaming == 1)
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["both"]
    (row,) = await booked(store)
    assert row.messages == 2
    assert row.usage.prompt_tokens > USED.prompt_tokens + 50


async def test_of_a_request_that_was_refused_nothing_was_used(store: Store) -> None:
    async with play(store, ScriptedModel([ModelError("No.", permanent=True)], traits=PRICED)) as here:
        await say(here, "one")
    assert [row for row in await booked(store, "day") if not row.is_nothing] == []


async def test_what_stood_in_for_the_model_is_entered_under_its_own_name_and_prices(store: Store) -> None:
    ended = Finished(usage=USED, model="spare", prices=Prices(1.0, 1.0, 1.0))
    async with play(store, ScriptedModel(["[SEND: a]", ended], traits=PRICED)) as here:
        await say(here, "one")
    rows = {row.model: row for row in await booked(store, "model")}
    assert rows["spare"].usage == USED
    assert rows["spare"].cost == pytest.approx(0.00101)
    assert (rows["scripted"].messages, rows["scripted"].cost) == (1, 0.0)


HANDY = Persona("Pixi", "x", tools=("read", "write"))


def calls(name: str, *ids: str, usage: Usage = USED) -> Reply:
    return [*(ToolCall(each, name, "{}") for each in ids), Finished(usage=usage)]


def with_tools(done: list[str]) -> Callable[[Addon], None]:
    def setup(addon: Addon) -> None:
        @addon.tool
        async def read(context: Context) -> str:
            """read"""
            done.append("read")
            context.count("helper", Usage(100, 0, 10), Prices(1.0, 1.0, 1.0))
            return "x"

        @addon.tool(writes=True)
        async def write(context: Context) -> str:
            """write"""
            done.append("write")
            return "x"

    return setup


async def test_what_a_tool_asks_of_a_helper_counts_to_who_asked(store: Store) -> None:
    script = ScriptedModel(calls("read", "1"), says("a"), traits=PRICED)
    done: list[str] = []
    async with play(store, script, persona=HANDY, addons=[with_tools(done)]) as here:
        await say(here, "one")
    rows = {row.model: row for row in await booked(store, "person", "model")}
    assert rows["helper"].person == "author:Mo"
    assert rows["helper"].usage == Usage(100, 0, 10)
    assert rows["helper"].cost == pytest.approx(0.00011)
    assert rows["scripted"].usage == USED + USED


# Limits of a day.


async def test_whoever_used_up_what_there_is_is_told_once_and_then_nothing(store: Store) -> None:
    async with play(store, model("a", "b"), budgets=person(messages=1)) as here:
        for text in ("one", "two", "three", "four"):
            await say(here, text)
        notice = "That is all for today: you have used up what one person has in a day"
        assert here.channel.sent[0] == "a"
        assert [sent.startswith(notice) for sent in here.channel.sent[1:]] == [True]
        assert "It begins anew at 00:00 UTC." in here.channel.sent[1]
        assert len(here.model.requests) == 1
        await say(here, "hello", author="Ann")
        assert here.channel.sent[2:] == ["b"]
        told = str(here.model.requests[-1].lines[-1])
        assert "three" in told
        assert "four" in told, "what was not answered was overheard"
    assert [row.messages for row in await booked(store, "person")] == [1, 1]


async def test_the_words_are_the_personas_where_it_has_some(store: Store) -> None:
    tired = replace(PIXI, when_tired=("my hands hurt, tomorrow again",))
    async with play(store, model("a", "b"), persona=tired, budgets=person(messages=1)) as here:
        await say(here, "one")
        await say(here, "two")
        await say(here, "hi", author="Ann")
        assert here.channel.sent == ["a", "my hands hurt, tomorrow again", "b"]
        assert here.replies() == ["[SEND: a]", "[SEND: my hands hurt, tomorrow again]"]
        assert [end.finish for end in here.channel.ended] == ["stop", "limit", "stop"]


async def test_a_persona_that_cannot_say_anything_shows_it(store: Store) -> None:
    mute = replace(PIXI, commands=("react",), when_tired=("x",))
    script = ScriptedModel(["[REACT: 🥞]", Finished(usage=USED)])
    async with play(store, script, persona=mute, budgets=person(messages=1)) as here:
        await say(here, "one")
        await say(here, "two")
        assert here.channel.sent == []
        assert here.kinds().count("Failed") == 1


@pytest.mark.parametrize(
    ("budgets", "whose"),
    [
        (Budgets(channel=Allowance(messages=1)), "channel"),
        (Budgets(guild=Allowance(messages=1)), "server"),
        (Budgets(guild=Allowance(messages=1), channel=Allowance(messages=1)), "server"),
    ],
)
async def test_a_channel_and_a_guild_are_told_once_for_all(
    store: Store, budgets: Budgets, whose: str
) -> None:
    async with play(store, model("a"), budgets=budgets) as here:
        for author in ("Mo", "Ann", "Mo", "Eve"):
            await say(here, "hi", author=author)
        assert here.channel.sent == [
            "a",
            f"{GENERAL.format(whose)}(1 messages that are answered). It begins anew at 00:00 UTC.",
        ]


async def test_tokens_are_limited_too(store: Store) -> None:
    async with play(store, model("a", "b"), budgets=person(tokens=2_000)) as here:
        for _ in range(4):
            await say(here, "hi")
        assert [text[:5] for text in here.channel.sent] == ["a", "b", "That "]
        assert "(2,000 tokens)" in here.channel.sent[-1]


async def test_what_is_overheard_costs_nothing_and_is_told_nothing(store: Store) -> None:
    async with play(store, model("a"), budgets=person(messages=1)) as here:
        for _ in range(3):
            await here.say("hm", addressed=False)
        await say(here, "one")
        for _ in range(3):
            await here.say("hm", addressed=False)
        await here.engine.settled()
        assert here.channel.sent == ["a"]


async def test_zero_is_none(store: Store) -> None:
    async with play(store, model(), budgets=person(messages=0)) as here:
        await say(here, "one")
        await say(here, "two")
        assert len(here.channel.sent) == 1
        assert here.model.requests == []


async def test_operators_use_what_they_like_but_for_the_dollars(store: Store) -> None:
    budgets = Budgets(Allowance(0, 0, 0), Allowance(0, 0, 0), Allowance(0, 0, 0), month_dollars=2 * COST)
    async with play(store, model("a", "b", "c"), budgets=budgets) as here:
        here.channel.powers["author:Mo"] = Rights(operator=True)
        for _ in range(4):
            await say(here, "hi")
        assert [text[:2] for text in here.channel.sent] == ["a", "b", "Th"]
        assert here.channel.sent[-1] == (
            "That is all for this month: what may be spent is used up. "
            "It begins anew on 2026-02-01 at 00:00 UTC."
        )


async def test_of_several_who_ask_at_once_those_are_answered_who_may_be(store: Store) -> None:
    hold = asyncio.Event()
    script = ScriptedModel(says("a"), ["[SEND: b]", hold, Finished(usage=USED)], says("c"), traits=PRICED)
    async with play(store, script, budgets=person(messages=1)) as here:
        await say(here, "one", author="Mo")
        await here.say("first", author="Eve")
        await until(lambda: here.channel.sent == ["a", "b"])
        await here.say("mine", author="Mo")  # both wait behind the reply to Eve
        await here.say("hello", author="Ann")
        hold.set()
        await here.engine.settled()
        assert here.channel.sent[2] == "c"
        assert "hello" in str(here.model.requests[-1].lines[-1])
        assert "mine" not in str(here.model.requests[-1].lines)
        assert here.channel.sent[3].startswith("That is all for today: you have")
        assert len(here.channel.sent) == 4


async def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    said: list[list[str]] = []
    for number, replies in enumerate((["a"], [], [])):
        store = await SqliteStore.open(tmp_path / "pixi.db")
        async with play(store, model(*replies), budgets=person(messages=1)) as here:
            message = here.channel.message("one", author="Mo", id=f"m{number}")
            await here.engine.receive(message, here.channel)
            await here.engine.settled()
            said.append([text[:4] for text in here.channel.sent])
        await store.close()
    assert said == [["a"], ["That"], []], "who was told today is not told again"


async def test_two_engines_on_one_store_share_the_books_and_the_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.engine.usage.FRESH_SECONDS", -1.0)
    one, two = [await SqliteStore.open(tmp_path / "pixi.db") for _ in range(2)]
    budgets = person(messages=2)
    async with (
        play(one, model("a"), budgets=budgets) as here,
        play(two, model("b"), budgets=budgets) as there,
    ):
        there.channel.conversation = "discord:1:8:pixi"
        await say(here, "one")
        await say(there, "two")
        for _ in range(2):
            await say(here, "three")
            await say(there, "four")
        assert sorted(text[:4] for text in here.channel.sent + there.channel.sent) == ["That", "a", "b"]
    await one.close()
    await two.close()


async def test_messages_that_are_being_answered_elsewhere_count(store: Store) -> None:
    never = asyncio.Event()
    async with play(store, ScriptedModel([never], says("b")), budgets=person(messages=1)) as here:
        await here.say("one")
        await until(lambda: here.model.streaming == 1)
        other = RecordingChannel("discord:1:8:pixi", venue=HALL)
        await here.engine.receive(other.message("two", author="Mo"), other)
        await here.engine.settled(other.conversation)
        assert [text[:4] for text in other.sent] == ["That"]
        await here.engine.stop(here.channel.conversation)


async def test_to_be_forgotten_frees_no_budget_and_no_second_notice(store: Store) -> None:
    async with play(store, model("a", "b"), budgets=person(messages=1)) as here:
        await say(here, "one")
        await say(here, "two")
        await here.engine.forget("author:Mo")
        assert [(row.person, row.messages, row.usage) for row in await booked(store, "person")] == [
            ("", 1, USED)
        ]
        for _ in range(2):
            await say(here, "three")
        assert len(here.channel.sent) == 2
        assert len(await booked(store, "person")) == 1


async def test_to_be_forgotten_in_the_middle_is_entered_for_nobody(store: Store) -> None:
    never = asyncio.Event()
    async with play(store, ScriptedModel(["[SEND: a]", never], says("b"), traits=PRICED)) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.forget("author:Mo")
    rows = await booked(store, "person")
    assert {row.person for row in rows} == {""}
    assert sum(row.tokens for row in rows) > 0


async def test_a_new_day_is_a_new_day_and_a_clock_that_jumps_does_no_harm_for_long(store: Store) -> None:
    clock = Clock()
    async with play(store, model("a", "b", "c", "d"), clock=clock, budgets=person(messages=1)) as here:
        await say(here, "one")
        await say(here, "two")
        clock.now = NOON + timedelta(days=1)  # it is February
        await say(here, "three")
        clock.now = NOON + timedelta(days=365)
        await say(here, "four")
        clock.now = NOON + timedelta(hours=1)
        await say(here, "five")
        clock.now = NOON - timedelta(days=1)
        await say(here, "six")
        assert [text[:4] for text in here.channel.sent] == ["a", "That", "b", "c", "d"]


# The month's dollars.


async def test_the_month_ends_when_its_dollars_do(store: Store) -> None:
    clock = Clock()
    clock.now = NOON - timedelta(days=3)
    budgets = Budgets(month_dollars=2 * COST)
    async with play(store, model("a", "b", "c"), clock=clock, budgets=budgets) as here:
        await say(here, "one")
        clock.now = NOON
        await say(here, "two")
        for author in ("Mo", "Ann"):
            await say(here, "three", author=author)
        assert [text[:4] for text in here.channel.sent] == ["a", "b", "That"], "once in a channel"
        other = RecordingChannel("discord:1:9:pixi", venue=Venue())
        await here.engine.receive(other.message("x", author="Mo"), other)
        await here.engine.settled()
        assert len(other.sent) == 1, "and once to whoever is alone with it"
        clock.now = NOON + timedelta(days=1)
        await say(here, "four")
        assert here.channel.sent[-1] == "c"


async def test_dollars_that_go_in_the_middle_of_a_turn_end_it(store: Store) -> None:
    done: list[str] = []
    script = ScriptedModel(calls("read", "1"), calls("read", "2"), says("c"), traits=PRICED)
    async with play(
        store, script, persona=HANDY, addons=[with_tools(done)], budgets=Budgets(month_dollars=1.5 * COST)
    ) as here:
        await say(here, "one")
        assert done == ["read"], "the second call was not carried out"
        assert len(script.requests) == 2
        assert [text[:30] for text in here.channel.sent] == ["That is all for this month: wh"]
        assert here.channel.ended[-1].finish == "limit"
        await say(here, "two")
        assert len(here.channel.sent) == 1


async def test_a_turn_of_which_something_was_seen_ends_without_a_notice(store: Store) -> None:
    first: Reply = ["[SEND: one moment]", ToolCall("1", "read", "{}"), Finished(usage=USED)]
    async with play(
        store,
        ScriptedModel(first, traits=PRICED),
        persona=HANDY,
        addons=[with_tools([])],
        budgets=Budgets(month_dollars=COST),
    ) as here:
        await say(here, "one")
        assert here.channel.sent == ["one moment"]
        await say(here, "two")
        assert len(here.channel.sent) == 2


async def test_tokens_that_go_in_the_middle_of_a_turn_leave_a_last_answer_without_tools(store: Store) -> None:
    done: list[str] = []
    script = ScriptedModel(calls("read", "1"), says("b"), traits=PRICED)
    async with play(
        store, script, persona=HANDY, addons=[with_tools(done)], budgets=person(tokens=500)
    ) as here:
        await say(here, "one")
        assert done == ["read"]
        assert [bool(request.tools) for request in script.requests] == [True, False]
        assert here.channel.sent == ["b"]


# Writes.


async def test_writes_are_limited_and_the_model_is_told(store: Store) -> None:
    def answers(request: Request) -> Reply:
        return says("ok")

    done: list[str] = []
    script = ScriptedModel(
        calls("write", "1", "2", "3"), answers, calls("write", "4"), answers, traits=PRICED
    )
    async with play(
        store, script, persona=HANDY, addons=[with_tools(done)], budgets=person(writes=2)
    ) as here:
        await say(here, "one")
        assert done == ["write", "write"]
        told = [line.text for line in script.requests[1].lines if type(line).__name__ == "ToolLine"]
        assert told[:2] == ["x", "x"]
        assert told[2] == (
            "write was not carried out: one person may have 2 changes made in a day, and these were made. "
            "There are more from 00:00 UTC on. Tell them so, and go on without it."
        )
        await say(here, "two")
        assert done == ["write", "write"]
        assert here.channel.sent == ["ok", "ok"]
    assert sum(row.writes for row in await booked(store, "person")) == 2
    assert len(await store.audit(9)) == 2


# The store.


async def test_what_the_store_does_not_take_is_entered_later(store: Store) -> None:
    gates = [Gate(store, method, error=FULL) for method in ("end_turn", "spend")]
    async with play(store, model("a", "b")) as here:
        await say(here, "one")
        for gate in gates:
            gate.error = None
    (row,) = await booked(store)
    assert row.usage == USED


async def test_what_was_not_taken_is_entered_with_the_next_turn(store: Store) -> None:
    sulking: Gate = Gate(store, "spend", error=FULL, when=lambda _: sulking.calls == 1)
    async with play(store, model("a")) as here:
        await here.engine.bill()
        here.engine.count("vectors", Usage(5), None)
        await until(lambda: sulking.calls)
        await say(here, "one")
        await until(lambda: _has_entered(store, "vectors"))


async def test_what_is_used_while_the_store_is_busy_is_entered_after_that(store: Store) -> None:
    spend = Gate(store, "spend")
    async with play(store, model("a")) as here:
        await here.engine.bill()
        here.engine.count("vectors", Usage(5), None)
        await asyncio.sleep(0)
        here.engine.count("helper", Usage(7), None)
        spend.open.set()
        await until(lambda: _has_entered(store, "helper"))


async def _has_entered(store: Store, name: str) -> bool:
    return name in {row.model for row in await booked(store, "model")}


async def test_a_notice_that_could_not_be_recorded_is_given_the_next_time(store: Store) -> None:
    notice = Gate(store, "notice", error=FULL)
    async with play(store, model(), budgets=person(messages=0)) as here:
        await say(here, "one")
        assert here.channel.sent == []
        notice.error = None
        await say(here, "two")
        assert len(here.channel.sent) == 1
        await say(here, "three")
        assert len(here.channel.sent) == 1


async def test_what_nobody_asked_for_is_nobodys(store: Store) -> None:
    async with play(store, model()) as here:
        here.engine.count("vectors", Usage(7), Prices(1.0, 0.0, 1.0))
    (row,) = await booked(store, "person", "model")
    assert (row.person, row.model, row.usage) == ("", "vectors", Usage(7))


async def test_without_any_limit_the_books_are_never_read(store: Store) -> None:
    for method in ("used", "usage"):
        Gate(store, method, error=AssertionError())
    async with play(store, model("a")) as here:
        await say(here, "one")
        assert here.channel.sent == ["a"]


async def test_what_is_left_and_what_it_cost_can_be_asked(store: Store) -> None:
    budgets = Budgets(Allowance(5, writes=3), guild=Allowance(tokens=9_000), month_dollars=7.0)
    payer = UsageScope("author:Mo", "discord:7", "discord:1")
    async with play(store, model("a", "b"), budgets=budgets) as here:
        await say(here, "one")
        await say(here, "two", author="Ann")
        assert await here.engine.shares(payer) == (
            QuotaUsage("person", "messages", 1, 5),
            QuotaUsage("person", "writes", 0, 3),
            QuotaUsage("guild", "tokens", 2_020, 9_000),
        )
        assert await here.engine.shares(replace(payer, guild="")) == (
            QuotaUsage("person", "messages", 1, 5),
            QuotaUsage("person", "writes", 0, 3),
        )
        bill = await here.engine.bill()
        assert (bill.today.messages, bill.month.messages, bill.month_dollars) == (2, 2, 7.0)
        assert bill.month.cost == pytest.approx(2 * COST)


async def test_of_whom_nothing_can_be_found_out_is_no_operator(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(person: str) -> Rights:
        raise ChannelError("Discord does not tell.")

    async with play(store, model(), budgets=person(messages=0)) as here:
        monkeypatch.setattr(here.channel, "rights", unknown)
        await say(here, "one")
        assert here.channel.sent[0].startswith("That is all for today")


def test_what_a_model_is_told_of_the_month() -> None:
    assert QuotaExceeded(None, None, 5.0).for_model("write") == (
        "write was not carried out: what may be spent this month is used up. Tell them so."
    )


async def test_what_goes_on_beside_a_turn_is_counted_after_its_end(store: Store) -> None:
    late: list[Callable[[], None]] = []

    def setup(addon: Addon) -> None:
        @addon.tool
        async def read(context: Context) -> str:
            """read"""
            late.append(lambda: context.count("slow", Usage(3)))
            return "x"

    script = ScriptedModel(calls("read", "1"), says("a"), traits=PRICED)
    async with play(store, script, persona=replace(HANDY, tools=("read",)), addons=[setup]) as here:
        await say(here, "one")
        late[0]()
    rows = {row.model: row for row in await booked(store, "person", "model")}
    assert (rows["slow"].person, rows["slow"].usage, rows["slow"].unpriced) == ("author:Mo", Usage(3), 3)
