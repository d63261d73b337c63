"""The end of a process: what people see being written is finished, the rest waits for the next one."""

import asyncio
from typing import Any

import pytest

from pixi.core.errors import ChannelLost
from pixi.core.llm import AssistantLine, ToolLine
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Scripted
from tests.begun import begun
from tests.engine.scene import GAMBLER, ROLL, Dice, Scene, scene
from tests.held_clock import HeldClock
from tests.waiting import until

CONVERSATION = "test:channel"


async def waiting(store: SqliteStore) -> list[str]:
    saved = await store.load(CONVERSATION)
    assert saved.unfinished == ()
    return [message.text for message in saved.waiting]


async def drained(here: Scene, seconds: float = 8.0, *, clock: HeldClock | None = None) -> None:
    """Wind down; by the clock, if there is one, at once."""
    began = clock.time() if clock else 0.0
    await here.engine.drain(seconds)
    assert clock is None or clock.time() == began
    assert here.engine.talking == 0
    assert here.model.streaming == 0


async def test_the_open_message_is_finished_and_what_comes_after_is_dropped(store: SqliteStore) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel(["[SEND: a]\n[SEND: b", go_on, "b]\n[SEND: c]"])
    async with scene(model, store=store) as here:
        await here.say("hello")
        await until(lambda: here.channel.sent == ["a"] and here.channel.typed == 2)
        ending = asyncio.create_task(drained(here))
        await asyncio.sleep(0.02)
        assert not ending.done()
        go_on.set()
        await ending
        assert here.channel.sent == ["a", "bb"]
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
        saved = await store.load(CONVERSATION)
        assert [(each.text, each.again) for each in saved.waiting] == [
            ("hello", True)
        ]  # the reply is to go on
        assert saved.lines[-1] == AssistantLine("[SEND: a]\n[SEND: bb]")


async def test_a_reply_that_is_cut_a_second_time_is_told_of(store: SqliteStore) -> None:
    channel = RecordingChannel()

    never = asyncio.Event()
    model = ScriptedModel(["[SEND: a]\n", never])
    async with scene(model, store=store, channel=channel) as here:
        await here.say("hello")
        await until(lambda: channel.sent == ["a"])
        await drained(here)
    model = ScriptedModel(["[SEND: b]\n", never])
    async with scene(model, store=store, channel=channel) as here:
        going_on = asyncio.create_task(here.resume())
        await until(lambda: channel.sent == ["a", "b"])
        await drained(here)
        await going_on
    async with scene(ScriptedModel(), store=store, channel=channel) as here:
        await here.resume()
        assert await waiting(store) == []
    assert channel.sent == ["a", "b", "brb, ink spilled"]


async def test_a_first_message_that_people_see_being_written_is_finished_too(store: SqliteStore) -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a", go_on, "]\n[SEND: b]"]), store=store) as here:
        await here.say("hello")
        await until(lambda: here.channel.typed == 1)
        ending = asyncio.create_task(drained(here))
        await asyncio.sleep(0.01)
        go_on.set()
        await ending
        assert here.channel.sent == ["a"]


async def test_a_message_that_keeps_its_pace_is_posted_at_once(
    store: SqliteStore, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.engine.turn_actions.typing_seconds", lambda *_: 1_000.0)
    channel = RecordingChannel(paced=True)
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]"), store=store, channel=channel) as here:
        await here.say("hello")
        await until(lambda: here.model.streaming == 0 and channel.typed > 0)
        await drained(here, clock=clock)
        assert channel.sent == ["a", "b"]  # both closed before
        assert await waiting(store) == []  # and nothing of the reply is missing


@pytest.mark.parametrize("written", ["", "[NOTE: hm", "[NOTE: hm]\nSure! "])
async def test_a_reply_of_which_nothing_was_seen_is_requeued(
    store: SqliteStore, clock: HeldClock, written: str
) -> None:
    async with scene(ScriptedModel([written, asyncio.Event()]), store=store) as here:
        await here.say("hello")
        await until(lambda: here.model.streaming == 1)
        await asyncio.sleep(0.01)
        await drained(here, clock=clock)
        assert here.channel.sent == []
        assert await waiting(store) == ["hello"]

    async with scene(ScriptedModel("[SEND: hi]"), store=store) as again:
        await again.resume(here.channel)
        assert here.channel.sent == ["hi"]
    assert await waiting(store) == []


async def test_what_is_not_done_in_time_is_stopped_and_half_a_message_is_not_said(store: SqliteStore) -> None:
    never = asyncio.Event()
    model = ScriptedModel(["[SEND: a]\n[SEND: half", never], ["[SEND: half", never])
    async with scene(model, store=store) as here:
        other = RecordingChannel("test:other")
        await here.say("hello")
        await until(lambda: here.channel.typed == 2)
        await here.engine.receive(other.message("hello"), other)
        await until(lambda: other.typed == 1)
        await drained(here, 0.2)
        assert here.channel.sent == ["a"]
        assert other.sent == []
        (left,) = (await store.load(CONVERSATION)).unfinished  # the next process ends it
        assert [(effect.payload, effect.outcome) for effect in left.effects] == [("a", "done")]
        assert [message.text for message in (await store.load("test:other")).waiting] == ["hello"]


async def test_later_messages_are_only_recorded(store: SqliteStore) -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a", go_on, "]"]), store=store) as here:
        await here.say("one")
        await until(lambda: here.channel.typed == 1)
        ending = asyncio.create_task(drained(here))
        await asyncio.sleep(0)
        await here.say("two")
        go_on.set()
        await ending
        await here.say("three")
        await asyncio.sleep(0.01)
        assert here.channel.sent == ["a"]
        assert len(here.model.requests) == 1
        assert await waiting(store) == ["one", "two", "three"]


async def test_a_message_that_is_still_gathered_waits(store: SqliteStore) -> None:
    async with scene(ScriptedModel(), store=store, gather_seconds=0.05) as here:
        await here.say("one")
        await drained(here)
        assert await waiting(store) == ["one"]


async def test_a_tool_is_not_waited_for(store: SqliteStore, clock: HeldClock) -> None:
    dice = Dice(held=True)
    for said, left in (("", ["one"]), ("[SEND: wait]", ["one", "two"])):
        rolls = dice.rolls
        async with scene(
            ScriptedModel([said, ROLL]), persona=GAMBLER, addons=[dice.setup], store=store
        ) as here:
            message = here.channel.message("two" if said else "one", id=said or "-")
            await here.engine.receive(message, here.channel)
            await until(lambda: dice.rolls > rolls)  # noqa: B023
            await until(lambda: len(here.channel.sent) == bool(said))  # noqa: B023
            await drained(here, clock=clock)
        assert await waiting(store) == left


async def test_where_nothing_is_under_way_it_ends_at_once(store: SqliteStore, clock: HeldClock) -> None:
    async with scene(ScriptedModel("[SEND: a]"), store=store) as here:
        await here.talk("one")
        await drained(here, clock=clock)


@pytest.mark.parametrize("typed", [False, True])
async def test_closing_without_draining_loses_nothing_either(store: SqliteStore, typed: bool) -> None:
    async with scene(ScriptedModel(["[SEND: a" if typed else "", asyncio.Event()]), store=store) as here:
        await here.say("hello")
        await until(lambda: here.model.streaming == 1 and here.channel.typed == typed)
    assert here.channel.sent == []
    assert await waiting(store) == ["hello"]


async def test_a_hundred_conversations_drain_together(store: SqliteStore, clock: HeldClock) -> None:
    replies: list[Scripted] = [["[SEND: a]", asyncio.Event()], [asyncio.Event()]]
    model = ScriptedModel(*replies * 50, piece=0)
    async with scene(model, store=store) as here:
        channels = [RecordingChannel(f"test:{number}") for number in range(100)]
        for channel in channels:
            await here.engine.receive(channel.message("hello"), channel)
        await until(lambda: sum(len(channel.sent) for channel in channels) == 50)
        await drained(here, clock=clock)
        for channel in channels:  # each reply was cut, and goes on; or it is begun anew
            (message,) = (await store.load(channel.conversation)).waiting
            assert message.again == bool(channel.sent)


async def test_a_post_that_does_not_end_in_time_is_looked_into_by_the_next_process(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.engine.command_executor._STOP_SECONDS", 0.02)

    class Slow(RecordingChannel):
        arrives = True

        async def send(self, text: str, **how: Any) -> str | None:
            if self.arrives:
                await super().send(text, **how)
            self.typed = -1
            await asyncio.Event().wait()
            return None

    for arrives in (True, False):
        slow = Slow()
        slow.arrives = arrives
        async with scene(ScriptedModel("[SEND: a]\n[SEND: b]"), store=store, channel=slow) as here:
            await here.engine.receive(slow.message("hello", id=f"m{arrives}"), slow)
            await until(lambda: slow.typed == -1)  # noqa: B023
            await drained(here, 0.1)
            (unfinished,) = (await store.load(CONVERSATION)).unfinished
            assert [effect.outcome for effect in unfinished.effects] == [None]
        next_one = RecordingChannel()
        next_one.posts, next_one.nonces = slow.posts, slow.nonces
        async with scene(ScriptedModel(), store=store) as again:
            await again.resume(next_one)
        assert next_one.sent == ["a", "b"]  # both had closed
        assert await waiting(store) == []
        assert (await store.load(CONVERSATION)).lines[-1] == AssistantLine("[SEND: a]\n[SEND: b]")


async def test_what_a_tool_changed_is_not_changed_again_by_the_next_process(store: SqliteStore) -> None:
    dice = Dice(writes=True)
    async with scene(
        ScriptedModel([ROLL], [30.0]), persona=GAMBLER, addons=[dice.setup], store=store
    ) as here:
        await here.say("roll")
        await until(lambda: len(here.model.requests) == 2)
        await drained(here)
    assert await waiting(store) == ["roll"]
    async with scene(
        ScriptedModel("[SEND: yes]"), persona=GAMBLER, addons=[dice.setup], store=store, channel=here.channel
    ) as here:
        await here.talk("did you?")
        assert [line.text for line in here.history() if isinstance(line, ToolLine)] == ["six"]
    assert dice.rolls == 1


async def test_who_ordered_something_and_was_told_nothing_is_told_so_by_the_next_process(
    store: SqliteStore,
) -> None:
    dice = Dice(writes=True)
    async with scene(
        ScriptedModel([ROLL], [30.0]), persona=GAMBLER, addons=[dice.setup], store=store
    ) as here:
        await here.say("roll")
        await until(lambda: len(here.model.requests) == 2)
        await drained(here)
        assert here.channel.sent == []
    channel = here.channel

    model = ScriptedModel("[SEND: It is a six!]")
    async with scene(model, persona=GAMBLER, addons=[dice.setup], store=store, channel=channel) as here:
        await here.resume()
        assert channel.sent == ["It is a six!"]
        assert await waiting(store) == []
        (told,) = [line.text for line in here.history() if isinstance(line, ToolLine)]
        assert told == "six"  # what came of it stands in the history, and the persona goes on from there
    assert dice.rolls == 1


async def test_a_place_that_turns_out_to_be_away_while_the_program_ends_is_not_waited_for(
    store: SqliteStore, clock: HeldClock
) -> None:
    class Away(RecordingChannel):
        asked, tell = asyncio.Event(), asyncio.Event()

        async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
            self.asked.set()
            await self.tell.wait()
            raise ChannelLost("The place is away.")

    channel = Away()
    await store.receive(channel.message("hello", id="m1"))
    turn = await begun(store, CONVERSATION, 0, "Pixi", ("m1",))
    await store.intend(turn, 1, "send", "a")
    async with scene(ScriptedModel(), store=store, channel=channel) as here:
        await here.say("more")
        await channel.asked.wait()
        ending = asyncio.create_task(drained(here, clock=clock))
        await asyncio.sleep(0)
        channel.tell.set()
        await ending
