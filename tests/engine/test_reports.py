"""What a turn came to is told to whoever wants to know, and kept."""

import asyncio

import pytest

from pixi.core.errors import ModelError
from pixi.core.events import TurnEnded, TurnEvent, TurnReport
from pixi.core.llm import Finished, Prices, Usage
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import scene
from tests.waiting import until

PRICED = Traits(prices=Prices(prompt=10.0, completion=30.0, cached=1.0))
USED = Usage(1_000, 400, 200)
COST = (600 * 10 + 400 * 1 + 200 * 30) / 1_000_000


async def test_a_turn_is_told_of_once_with_all_that_it_came_to(store: SqliteStore) -> None:
    reports: list[TurnReport] = []
    model = ScriptedModel(
        [1.5, "[NOTE: hm]\n[SEND: abcdef]", 0.5, "\n[REACT: 🥞]", Finished(usage=USED)], traits=PRICED
    )
    channel = RecordingChannel(part_length=3)
    async with scene(model, on_turn=reports.append, store=store, channel=channel) as here:
        message = await here.say("hello", author="Ana")
        await here.engine.settled()
        (report,) = reports
        assert (report.conversation, report.person) == (message.conversation, message.author.id)
        assert (report.persona, report.model) == ("Pixi", "scripted")
        assert (report.finish, report.steps, report.usage) == ("stop", 1, USED)
        assert report.cost == pytest.approx(COST)
        assert report.effects == {"send": 2, "react": 1}
        assert (report.first_visible, report.seconds) == (1.5, 2.0)
        (record,) = await store.turns(message.conversation, 9)
        assert (record.id, record.model) == (report.turn, "scripted")
        assert record.cost == pytest.approx(COST)


async def test_of_a_model_without_prices_the_cost_is_not_known_and_of_silence_nothing_was_seen() -> None:
    reports: list[TurnReport] = []
    async with scene(ScriptedModel("[SEND]"), on_turn=reports.append) as here:
        await here.talk("hello")
        (report,) = reports
        assert (report.cost, report.first_visible, report.effects) == (None, None, {})


async def test_the_time_that_a_message_waited_behind_another_counts() -> None:
    reports: list[TurnReport] = []
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", go_on], "[SEND: b]"), on_turn=reports.append) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        here.channel.hold = asyncio.Event()
        await here.say("two")
        await asyncio.sleep(0.5)
        here.channel.hold.set()
        await here.engine.settled()
        assert [report.effects for report in reports] == [{"send": 1}, {"send": 1}]
        assert reports[1].first_visible == 0.5


async def test_attempts_that_were_begun_again_are_counted_in_and_not_told_of(store: SqliteStore) -> None:
    reports: list[TurnReport] = []
    model = ScriptedModel([asyncio.Event()], ["[SEND: both]", Finished(usage=USED)], traits=PRICED)
    async with scene(model, on_turn=reports.append, store=store) as here:
        await here.say("one")
        await until(lambda: here.model.streaming == 1)
        await here.say("two")
        await here.engine.settled()
        (report,) = reports
        assert (report.finish, report.steps, report.usage) == ("stop", 2, USED)
        tally = await store.tally("test:", 0)
        assert (tally.turns, tally.usage) == (1, USED)
        assert tally.cost == pytest.approx(COST)


async def test_a_turn_that_failed_is_told_of_too() -> None:
    reports: list[TurnReport] = []
    async with scene(ScriptedModel([ModelError("It broke.")]), on_turn=reports.append) as here:
        await here.talk("one")
        (report,) = reports
        assert (report.finish, report.effects) == ("error", {"send": 1})


async def test_whoever_is_told_cannot_break_the_talk(caplog: pytest.LogCaptureFixture) -> None:
    def broken(report: TurnReport) -> None:
        raise ValueError("sk-123")

    async with scene(ScriptedModel("[SEND: a]", "[SEND: b]"), on_turn=broken) as here:
        await here.talk("one", "two")
        assert here.channel.sent == ["a", "b"]
        assert "Failed" not in here.kinds()
        assert "what is told of turns raised ValueError" in caplog.text
        assert "sk-123" not in caplog.text


async def test_whoever_waits_for_the_answer_has_it_before_the_report_is_told() -> None:
    class Awaited(RecordingChannel):
        over = asyncio.Event()

        def show(self, event: TurnEvent) -> None:
            super().show(event)
            if isinstance(event, TurnEnded):
                self.over.set()

    order: list[str] = []
    channel = Awaited()
    async with scene(
        ScriptedModel("[SEND: a]"), channel=channel, on_turn=lambda _: order.append("told")
    ) as here:
        await here.say("one")
        await channel.over.wait()
        order.append("answered")
        await here.engine.settled()
        assert order == ["answered", "told"]


async def test_how_many_talk_and_whether_there_was_something_to_stop() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel([never], [never])) as here:
        other = RecordingChannel("test:other")
        assert here.engine.talking == 0
        assert not await here.engine.stop(other.conversation)
        await here.say("hello")
        await here.engine.receive(other.message("hello"), other)
        await until(lambda: here.model.streaming == 2)
        assert here.engine.talking == 2
        assert await here.engine.stop(other.conversation)
        assert here.engine.talking == 1
        assert not await here.engine.stop(other.conversation)
        assert await here.engine.stop(here.channel.conversation)
        assert here.engine.talking == 0
