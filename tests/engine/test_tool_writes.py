"""Tools that write: in their turn, alone, and on record before and after, whatever comes between."""

import asyncio
import json
import re
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from pixi.core.errors import ChannelError, ToolError
from pixi.core.events import Failed, ToolAnswered
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.message import Author, Venue
from pixi.core.persona import Persona
from pixi.core.spending import Limits, Rate
from pixi.store.kept import Deed
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.gate import FULL, Gate
from tests.engine.scene import Scene, scene
from tests.rows import row, seeds
from tests.waiting import until

NAMES = ("look", "write", "fail", "refuse", "stay", "stubborn", "shout")
HANDY = Persona("Pixi", "x", tools=NAMES)


class Bench:
    """Tools that note when they began and ended."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.escaped: list[str] = []

    def setup(self, addon: Addon) -> None:
        @addon.tool
        async def look(context: Context, at: str) -> str:
            """look"""
            self.log.append(f"look {at}")
            await asyncio.sleep(0.01)
            self.log.append(f"looked {at}")
            return at

        @addon.tool(writes=True)
        async def write(context: Context, what: str) -> str:
            """write"""
            self.log.append(f"write {what}")
            await asyncio.sleep(0.005)
            self.log.append(f"wrote {what}")
            return what

        @addon.tool(writes=True)
        async def fail(context: Context) -> None:
            """fail"""
            raise RuntimeError("canary")

        @addon.tool(writes=True)
        async def refuse(context: Context) -> None:
            """refuse"""
            raise ToolError("Not on Sundays.")

        @addon.tool(writes=True)
        async def stay(context: Context) -> None:
            """stay"""
            self.begun.set()
            await self.go_on.wait()

        @addon.tool(writes=True)
        async def stubborn(context: Context) -> str:
            """do not heed that it is to end"""
            self.begun.set()
            while not self.go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await self.go_on.wait()
            try:
                await context.send("too late")
            except Exception as error:
                self.escaped.append(type(error).__name__)
            return "done after all"

        @addon.tool(writes=True)
        async def shout(context: Context, text: str) -> None:
            """shout"""
            await context.send(text)


def call(name: str, call_id: str, **arguments: str) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


async def outcomes(store: SqliteStore) -> list[tuple[str, str | None]]:
    return [(record.deed.tool, record.outcome) for record in await store.audit(99)]


def told(here: Scene) -> list[str]:
    return [line.text for line in here.history() if isinstance(line, ToolLine)]


async def test_a_write_waits_for_the_reads_before_it_and_runs_alone_in_its_turn() -> None:
    bench = Bench()
    calls: list[Step] = [
        call("look", "1", at="a"),
        call("look", "2", at="b"),
        call("write", "3", what="c"),
        call("write", "4", what="d"),
        call("look", "5", at="e"),
        call("look", "6", at="f"),
    ]
    async with scene(ScriptedModel(calls, "[SEND: ok]"), persona=HANDY, addons=[bench.setup]) as here:
        await here.talk("go")
        assert told(here) == list("abcdef")
    assert bench.log == [
        *("look a", "look b", "looked a", "looked b"),
        *("write c", "wrote c", "write d", "wrote d"),
        *("look e", "look f", "looked e", "looked f"),
    ]


async def test_what_is_on_record_of_a_write(store: SqliteStore) -> None:
    bench = Bench()
    channel = RecordingChannel("discord:7", venue=Venue("discord:1", "all"))
    calls: list[Step] = [
        call("write", "1", what="x"),
        call("fail", "2"),
        call("refuse", "3"),
        call("look", "4"),
    ]
    model = ScriptedModel(calls, "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store, channel=channel) as here:
        await here.talk("go")
        assert told(here)[1:3] == ["tool 'fail' failed with RuntimeError.", "Not on Sundays."]
    first, *_ = records = await store.audit(99)
    assert await outcomes(store) == [("write", "done"), ("fail", "failed"), ("refuse", "failed")]
    assert first.deed == Deed(
        "discord:7", "discord:1", first.deed.turn, "Pixi", "author:Mo", "write", '{"what": "x"}', ""
    )
    assert first.seconds is not None
    assert 0 < first.seconds < 5
    assert first.deed.turn == (await store.turns("discord:7", 1))[-1].id
    assert "canary" not in repr(records)


async def test_who_said_yes_is_on_record(store: SqliteStore) -> None:
    def setup(addon: Addon) -> None:
        @addon.tool(writes=True, approval=True)
        async def ban(context: Context, who: str) -> None:
            """ban"""

    channel = RecordingChannel()
    channel.verdicts = ["yes", "no"]
    model = ScriptedModel([call("ban", "1", who="eve"), call("ban", "2", who="mo")], "[SEND: ok]")
    persona = Persona("Pixi", "x", tools=("ban",))
    async with scene(model, persona=persona, addons=[setup], store=store, channel=channel) as here:
        await here.talk("go")
        assert told(here)[0] == "Done."
        assert told(here)[1].startswith('"Mo" was asked and said no')
    records = await store.audit(9)
    assert [(record.outcome, record.deed.approved_by) for record in records] == [
        ("done", "author:Mo"),
        ("denied", ""),
    ]


async def test_stopped_in_the_midst_of_a_write_nobody_knows_and_later_ones_never_begin(
    store: SqliteStore,
) -> None:
    bench = Bench()
    model = ScriptedModel([call("stay", "1"), call("write", "2", what="x")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store) as here:
        message = await here.say("go")
        await bench.begun.wait()
        assert await outcomes(store) == [("stay", None)]
        await here.engine.stop(message.conversation)
        assert await outcomes(store) == [("stay", "unknown")]
        await here.talk("more")
        assert told(here) == ["This was stopped before it was done."] * 2
    assert bench.log == []


async def test_a_write_that_takes_too_long_may_have_happened(store: SqliteStore) -> None:
    bench = Bench()
    limits = Limits(tool_seconds=0.02)
    model = ScriptedModel([call("stay", "1")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store, limits=limits) as here:
        await here.talk("go")
        assert told(here) == [
            "stay took longer than 0.02 seconds and was stopped. "
            "Nobody knows whether it was done: do not do it again unless you are asked to."
        ]
    assert await outcomes(store) == [("stay", "unknown")]


async def test_one_that_swallows_its_end_is_left_to_itself_and_can_do_nothing_more(
    store: SqliteStore,
) -> None:
    bench = Bench()
    limits = Limits(tool_seconds=0.02)
    model = ScriptedModel([call("stubborn", "1"), call("write", "2", what="x")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store, limits=limits) as here:
        await here.talk("go")
        assert told(here)[1] == "x"
        bench.go_on.set()
        await until(lambda: bool(bench.escaped))
        assert bench.escaped == ["NotDone"]
        assert here.channel.sent == ["ok"]
        await asyncio.sleep(0)
    assert await outcomes(store) == [("stubborn", "unknown"), ("write", "done")]


async def test_a_newer_message_lets_the_write_under_way_finish_and_begins_no_other(
    store: SqliteStore,
) -> None:
    bench = Bench()
    model = ScriptedModel(
        ["[SEND: one moment]", call("stay", "1"), call("write", "2", what="x")], "[SEND: yes?]", "[SEND: x]"
    )
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store) as here:
        await here.say("go")
        await bench.begun.wait()
        await here.say("wait!")
        bench.go_on.set()
        await here.engine.settled()
        assert await outcomes(store) == [("stay", "done")]
        assert here.channel.sent == ["one moment", "yes?"]
        assert told(here) == ["Done.", "This was stopped before it was done."]


async def test_what_cannot_be_put_on_record_is_not_done(store: SqliteStore) -> None:
    bench = Bench()
    Gate(store, "audit_begin", error=FULL)
    model = ScriptedModel([call("write", "1", what="x")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store) as here:
        await here.talk("go")
        assert told(here) == ["write could not be put on record, so it was not carried out."]
        assert bench.log == []
        assert here.channel.sent == ["ok"]


async def test_what_is_done_for_one_person_is_counted_over_all_tools_of_a_source_and_restarts(
    store: SqliteStore,
) -> None:
    done: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.tool(writes=True, source="shop", writes_per_person=Rate(2, 3_600))
        async def order(context: Context, what: str) -> str:
            """order"""
            if what == "nothing":
                raise ToolError("Order something.")
            done.append(what)
            return "ordered"

        @addon.tool(writes=True, source="shop", writes_per_person=Rate(2, 3_600))
        async def wish(context: Context, what: str) -> str:
            """wish"""
            done.append(what)
            return "wished"

    shopper, channel = Persona("Pixi", "x", tools=("shop",)), RecordingChannel()
    orders: list[Step] = [call("order", "1", what="nothing"), call("order", "2", what="tea")]
    model = ScriptedModel(orders, "[SEND: ok]")
    async with scene(model, persona=shopper, addons=[setup], store=store, channel=channel) as here:
        await here.talk("go")
    model = ScriptedModel([call("wish", "3", what="milk"), call("order", "4", what="jam")], "[SEND: ok]")
    async with scene(model, persona=shopper, addons=[setup], store=store, channel=channel) as here:
        await here.talk("more")
        assert told(here)[-2] == "wished"
        assert re.fullmatch(
            r"As much was done for Mo as may be: order can be used again in (60 minutes|1 hour)\. "
            r"Tell them so, and go on without it\.",
            told(here)[-1],
        )
        assert here.channel.sent[-1] == "ok"
    assert done == ["tea", "milk"], "what failed does not count"
    assert await outcomes(store) == [("order", "failed"), ("order", "done"), ("wish", "done")]


async def test_what_is_done_for_one_person_is_counted_over_personas_that_share_no_tool(
    store: SqliteStore,
) -> None:
    def setup(addon: Addon) -> None:
        @addon.tool(writes=True, source="shop", writes_per_person=Rate(1, 3_600))
        async def order(context: Context) -> str:
            """order"""
            return "ordered"

        @addon.tool(writes=True, source="shop", writes_per_person=Rate(1, 3_600))
        async def wish(context: Context) -> str:
            """wish"""
            return "wished"

    for tool, answer in (("order", "ordered"), ("wish", "As much was done for Mo as may be")):
        persona = Persona(tool, "x", tools=(tool,))
        model, channel = ScriptedModel([call(tool, "1")], "[SEND: ok]"), RecordingChannel(f"test:{tool}")
        async with scene(model, persona=persona, addons=[setup], store=store, channel=channel) as here:
            await here.talk("go")
            assert told(here)[-1].startswith(answer)


async def test_an_end_that_cannot_be_recorded_leaves_it_open_and_the_talk_goes_on(store: SqliteStore) -> None:
    bench = Bench()
    Gate(store, "audit_end", error=FULL)
    model = ScriptedModel([call("write", "1", what="x")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store) as here:
        await here.talk("go")
        assert told(here) == ["x"]
    assert await outcomes(store) == [("write", None)]


async def test_what_a_tool_says_comes_after_what_was_said_before_and_waiting_is_not_its_time() -> None:
    bench = Bench()
    channel = RecordingChannel()
    channel.hold = asyncio.Event()
    limits = Limits(tool_seconds=0.05)
    model = ScriptedModel(["[SEND: one]\n[SEND: two]", call("shout", "1", text="three")], "[SEND: four]")
    async with scene(model, persona=HANDY, addons=[bench.setup], channel=channel, limits=limits) as here:
        await here.say("go")
        await asyncio.sleep(0.15)
        channel.hold.set()
        await here.engine.settled()
        assert channel.sent == ["one", "two", "three", "four"]
        assert told(here) == ["Done."]


async def test_a_store_that_fails_under_an_act_of_a_tool_is_told_and_nothing_breaks(
    store: SqliteStore,
) -> None:
    bench = Bench()
    Gate(store, "intend", error=FULL, when=lambda *given, **_: given[3] == "loud")
    model = ScriptedModel([call("shout", "1", text="loud")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[bench.setup], store=store) as here:
        await here.talk("go")
        assert told(here) == ["shout could not be carried out."]
        assert await outcomes(store) == [("shout", "failed")]
        assert not [event for event in here.channel.events if isinstance(event, Failed)]


async def test_a_channel_that_refuses_is_told_in_its_own_words() -> None:
    class Closed(RecordingChannel):
        async def send(self, text: str, **how: Any) -> str | None:
            raise ChannelError("I may not write here.")

    bench = Bench()
    model = ScriptedModel([call("shout", "1", text="hey")], "[NOTE: hm]")
    async with scene(model, persona=HANDY, addons=[bench.setup], channel=Closed()) as here:
        await here.talk("go")
        answered = [event for event in here.channel.events if isinstance(event, ToolAnswered)]
        assert [(event.ok, event.result) for event in answered] == [(False, "I may not write here.")]


async def test_those_who_ask_are_those_who_are_answered_and_not_who_was_overheard() -> None:
    askers: list[list[Author]] = []

    def setup(addon: Addon) -> None:
        @addon.tool
        async def who(context: Context) -> str:
            """who asks"""
            askers.append(list(context.askers))
            return context.venue.audience

    model = ScriptedModel([call("who", "1")], "[SEND: ok]", "[SEND: ok]")
    persona = Persona("Pixi", "x", tools=("who",))
    async with scene(model, persona=persona, addons=[setup], gather_seconds=0.05) as here:
        for name in ("Mo", "Ann", "Mo"):
            await here.say("go", author=name)
        await here.say("psst", author="Eve", addressed=False)
        await here.engine.settled()
        assert [author.name for author in askers[0]] == ["Mo", "Ann"]


@pytest.mark.parametrize("some", seeds(5, 120))
async def test_whatever_ends_a_turn_each_write_ran_alone_and_its_record_tells_the_truth(some: range) -> None:
    for seed in some:
        store = await SqliteStore.open(":memory:")
        with row(f"seed={seed}"):
            await _write_till_the_end(Random(seed), store)
        await store.close()


async def _write_till_the_end(chance: Random, store: SqliteStore) -> None:
    running: list[str] = []
    together: list[tuple[str, ...]] = []
    finished: list[str] = []

    def setup(addon: Addon) -> None:
        async def work(name: str, rounds: int) -> None:
            running.append(name)
            together.append(tuple(running))
            try:
                for _ in range(rounds):
                    await asyncio.sleep(0)
                finished.append(name)
            finally:
                running.remove(name)

        @addon.tool(writes=True)
        async def write(context: Context, name: str, rounds: int) -> None:
            """write"""
            await work(name, rounds)
            await context.send(name)

        @addon.tool
        async def look(context: Context, name: str, rounds: int) -> None:
            """look"""
            await work(name, rounds)

    calls: list[Step] = []
    for number in range(chance.randrange(1, 9)):
        name = chance.choice(("write", "write", "look"))
        given = {"name": f"{name} {number}", "rounds": chance.randrange(12)}
        calls.append(ToolCall(str(number), name, json.dumps(given)))
    limits = Limits(messages=chance.choice((2, 10)))
    model = ScriptedModel(calls, *(["[SEND: ok]"] * 3))
    persona = Persona("Pixi", "x", tools=("write", "look"))
    async with scene(model, persona=persona, addons=[setup], store=store, limits=limits) as here:
        message = await here.say("go")
        for _ in range(chance.randrange(60)):
            await asyncio.sleep(0)
        match chance.choice(("stop", "write", "wind down", "nothing")):
            case "stop":
                await here.engine.stop(message.conversation)
            case "write":
                await here.say("more")
            case "wind down":
                await here.engine.drain(5)
        await here.engine.settled()
        records = await store.audit(99)
        done = [json.loads(r.deed.arguments)["name"] for r in records if r.outcome == "done"]
        assert all(record.outcome is not None for record in records)
        assert [name for name in done if name not in finished] == []
        assert [names for names in together if len(names) > 1 and any("write" in n for n in names)] == []
        assert [text for text in here.channel.sent if text.startswith("write") and text not in finished] == []
