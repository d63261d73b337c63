"""Searches of the web are in the books, each way under its own name, and count to the month's dollars."""

import pytest

from pixi.core.events import TurnReport
from pixi.core.llm import Finished, Prices, ToolCall, Usage
from pixi.core.persona import Persona
from pixi.core.spending import (
    Budgets,
    UsageEntry,
    UsageScope,
    day_of,
    of_searches,
    search_prices,
    spent_on,
    summed_up,
    way_of_searching,
)
from pixi.models.model import Traits
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.scene import scene

TODAY = day_of(1767268800.0)  # 2026-01-01, as the scene's clock has it
PRICED = Traits(prices=Prices(prompt=10.0, completion=100.0, cached=1.0))
ASKED = Usage(1_000, 0, 10)
TOKENS = (1_000 * 10 + 10 * 100) / 1_000_000


def says(text: str, searches: int = 0) -> list[str | Finished]:
    return [f"[SEND: {text}]", Finished(usage=Usage(1_000, 0, 10, searches))]


def searching(addon: Addon) -> None:
    @addon.tool(personas=("*",))
    async def look(context: Context) -> str:
        """Look it up."""
        context.count(way_of_searching("duckduckgo"), Usage(searches=1), search_prices(0.0))
        return "Found."


async def by_model(store: Store) -> dict[str, UsageEntry]:
    return {spent.model: spent for spent in await store.usage(TODAY, TODAY, "model")}


async def test_what_the_provider_searched_is_told_apart_from_what_its_model_read(store: Store) -> None:
    model = ScriptedModel(says("a", 2), says("b", 1), traits=PRICED)
    told_of: list[TurnReport] = []
    async with scene(model, store=store, on_turn=told_of.append) as here:
        here.engine.settings.search_price = 0.01
        await here.talk("one", "two")
        bill = await here.engine.bill()
    told = await by_model(store)
    assert told["scripted"].usage == ASKED + ASKED
    assert told["scripted"].cost == pytest.approx(2 * TOKENS)
    native = told["web search (native)"]
    assert (native.usage, native.unpriced) == (Usage(searches=3), 0)
    assert native.cost == pytest.approx(0.03)
    assert (native.messages, native.tokens) == (0, 0)
    assert [way.model for way in bill.searches] == ["web search (native)"]
    assert bill.month.usage.searches == 3
    assert bill.month.cost == pytest.approx(0.03 + 2 * TOKENS)
    assert of_searches(bill.searches) == "This month: 3 × web search (native), $0.03."
    assert [report.cost for report in told_of] == [pytest.approx(0.02 + TOKENS), pytest.approx(0.01 + TOKENS)]
    assert "3 web searches, " in summed_up("Today", bill.today)


async def test_a_search_without_a_price_is_told_to_have_none(store: Store) -> None:
    told_of: list[TurnReport] = []
    model = ScriptedModel(says("a", 2), traits=PRICED)
    async with scene(model, store=store, on_turn=told_of.append) as here:
        await here.talk("one")
        bill = await here.engine.bill()
    assert [report.cost for report in told_of] == [None]
    native = (await by_model(store))["web search (native)"]
    assert (native.cost, native.unpriced) == (0.0, 2)
    assert of_searches(bill.searches) == "This month: 2 × web search (native), ?."


async def test_what_a_tool_searches_counts_to_whoever_asks(store: Store) -> None:
    call: list[ToolCall | Finished] = [ToolCall("1", "look", "{}"), Finished(usage=ASKED)]
    channel = RecordingChannel("discord:1:7:pixi")
    async with scene(
        ScriptedModel(call, says("a"), traits=PRICED), store=store, addons=[searching], channel=channel
    ) as here:
        await here.talk("one")
    told = await by_model(store)
    assert told["web search (duckduckgo)"].usage == Usage(searches=1)
    assert told["web search (duckduckgo)"].cost == 0.0
    people = await store.usage(TODAY, TODAY, "person", "model")
    assert {spent.person for spent in people} == {"author:Mo"}
    exported = await store.export("author:Mo")
    assert sum(row["searches"] for row in exported["usage"]) == 1


async def test_searches_count_to_the_dollars_of_the_month(store: Store) -> None:
    free = Traits(prices=Prices(0.0, 0.0, 0.0))
    persona = Persona("Pixi", "You are Pixi.")
    model = ScriptedModel(says("a", 4), says("b"), traits=free)
    budgets = Budgets(month_dollars=0.05)
    async with scene(model, store=store, budgets=budgets, persona=persona) as here:
        here.engine.settings.search_price = 0.02
        await here.talk("one", "two")
        assert here.channel.sent[0] == "a"
        assert "b" not in here.channel.sent
        assert len(model.requests) == 1


async def test_nothing_is_asked_after_a_tool_whose_search_took_the_last_dollars(store: Store) -> None:
    def dear(addon: Addon) -> None:
        @addon.tool(personas=("*",))
        async def look(context: Context) -> str:
            """Look it up."""
            context.count(way_of_searching("mcp"), Usage(searches=1), search_prices(0.05))
            return "Found."

    call: list[ToolCall | Finished] = [ToolCall("1", "look", "{}"), Finished(usage=ASKED)]
    model = ScriptedModel(call, says("never"), traits=Traits(prices=Prices(0.0, 0.0, 0.0)))
    async with scene(model, store=store, addons=[dear], budgets=Budgets(month_dollars=0.05)) as here:
        await here.talk("one", "two")
        assert len(model.requests) == 1
        assert [text[:26] for text in here.channel.sent] == ["That is all for this month"], "told once"
        (searched,) = (await here.engine.bill()).searches
        assert (searched.usage.searches, searched.cost) == (1, 0.05)


def test_a_search_is_priced_beside_tokens() -> None:
    prices = Prices(1.0, 2.0, 0.5, 0.01)
    assert prices.cost(Usage(1_000_000, 0, 500_000, 3)) == pytest.approx(2.03)
    spent = spent_on(UsageScope(), "m", Usage(10, 0, 5, 2), None)
    assert (spent.unpriced, spent.is_nothing) == (17, False)
    assert (spent - spent).is_nothing
    assert UsageEntry(usage=Usage(searches=1)).is_nothing is False
