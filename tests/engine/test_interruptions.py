"""A message while a reply is written, a stop, a reset: what was delivered stands, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from pixi.core.llm import AssistantLine, ToolLine, UserLine
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.gate import Gate
from tests.engine.scene import GAMBLER, ROLL, Dice, Scene, scene
from tests.waiting import until, within


async def test_before_anything_is_seen_the_reply_is_begun_again_with_both() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[NOTE: hm]\n[SEN", never], "[SEND: both!]", "[SEND: x]")) as here:
        await here.say("one")
        await until(lambda: here.channel.notes == ["hm"])
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["both!"]
        assert "one" in here.history()[-1].text
        assert "two" in here.history()[-1].text
        (ended,) = here.channel.ended
        assert (ended.finish, ended.steps) == ("stop", 2)
        await here.talk("more")
        assert [type(line) for line in here.history()] == [UserLine, AssistantLine, UserLine]


async def test_a_message_while_the_turn_is_put_on_record_is_answered_with_it(store: SqliteStore) -> None:
    slow = Gate(store, "begin_turn")
    async with scene(ScriptedModel("[SEND: both!]", "[SEND: again]"), store=store) as here:
        await here.say("one")
        await slow.reached.wait()
        await here.say("two")
        slow.open.set()
        await here.engine.settled()
        assert here.channel.sent == ["both!"]
        assert "one" in here.history()[-1].text
        assert "two" in here.history()[-1].text


def _asked(here: Scene, times: int) -> bool:
    return len(here.model.requests) >= times


async def test_a_reply_is_not_begun_again_forever() -> None:
    go_on = asyncio.Event()
    replies: list[list[Step]] = [[go_on, f"[SEND: reply {number}]"] for number in range(6)]
    async with scene(ScriptedModel(*replies), limits=Limits(restarts=2)) as here:
        for number in range(5):
            await here.say(f"message {number}")
            await until(partial(_asked, here, min(number + 1, 3)))
            await asyncio.sleep(0.01)
        assert len(here.model.requests) == 3
        go_on.set()
        await here.engine.settled()
        assert len(here.model.requests) == 4
        assert here.channel.sent == ["reply 2", "reply 3"]
        first, second = (line.text for line in here.history() if isinstance(line, UserLine))
        assert "message 2" in first
        assert "message 3" not in first
        assert "message 3" in second
        assert "message 4" in second


async def test_what_was_overheard_before_a_restart_is_told_once(store: SqliteStore) -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel("[SEND: hi]", [never], "[SEND: both!]"), store=store) as here:
        await here.talk("hello")
        for number in range(30):
            await here.say(f"chatter {number}.", author="Ana", addressed=False)
        await here.say("one")
        await until(lambda: here.model.streaming == 1)
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["hi", "both!"]
        assert (await store.load(here.channel.conversation)).waiting == ()


async def test_a_stop_between_two_attempts_is_heard() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel([never], [never])) as here:
        await here.say("one")
        await until(lambda: here.model.streaming == 1)
        message = await here.say("two")
        await here.engine.stop(message.conversation)
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]


async def test_after_something_was_seen_it_stops_at_once_between_commands() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n", never, "[SEND: b]"], "[SEND: c]")) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["a", "c"]
        assert here.replies() == ["[SEND: a]"]
        assert [ended.finish for ended in here.channel.ended] == ["cancelled", "stop"]
        assert "one" not in here.history()[-1].text


@pytest.mark.parametrize("growing", [False, True])
async def test_after_something_was_seen_the_open_command_is_finished(growing: bool) -> None:
    go_on, never = asyncio.Event(), asyncio.Event()
    reply: list[Step] = ["[SEND: a]\n[SEND: b", go_on, "b]\n[SEND: not this]", never]
    async with scene(ScriptedModel(reply, "[SEND: c]", piece=0), growing=growing) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"] and here.channel.typed == 2)
        await here.say("two")
        await asyncio.sleep(0.02)
        assert here.channel.sent == ["a"]
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "bb", "c"]
        assert here.replies() == ["[SEND: a]\n[SEND: bb]"]


async def test_a_message_that_people_see_growing_is_not_taken_back() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a", go_on, "a]"], "[SEND: c]"), growing=True) as here:
        await here.say("one")
        await until(lambda: "Grew" in here.kinds())
        await here.say("two")
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["aa", "c"]


async def test_an_open_command_that_the_reply_never_closes_is_finished_too() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n[SEND: b", go_on], "[SEND: c]")) as here:
        await here.say("one")
        await until(lambda: here.channel.typed == 2 and here.channel.sent == ["a"])
        await here.say("two")
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b", "c"]


async def test_commands_that_wait_for_a_slow_channel_are_dropped() -> None:
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]\n[SEND: c]", "[SEND: d]")) as here:
        here.channel.hold = asyncio.Event()
        await here.say("one")
        await until(lambda: here.model.streaming == 0 and len(here.model.requests) == 1)
        await asyncio.sleep(0.02)
        await here.say("two")
        here.channel.hold.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "d"]
        assert here.replies() == ["[SEND: a]"]


async def test_an_overheard_message_interrupts_nothing() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", go_on, "[SEND: b]"], "[SEND: c]")) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        await here.say("by the way", author="Ana", addressed=False)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        await here.talk("two")
        assert "by the way" in here.history()[-1].text


async def test_tools_that_ran_are_not_run_again() -> None:
    dice, never = Dice(held=True), asyncio.Event()
    model = ScriptedModel([ROLL], ["[SEND: ok]"], [never])
    async with scene(model, persona=GAMBLER, addons=[dice.setup]) as here:
        await here.say("one")
        await until(lambda: dice.rolls == 1)
        await here.say("two")
        dice.may.set()
        await here.engine.settled()
        assert dice.rolls == 1
        assert here.channel.sent == ["ok"]
        history = here.history()
        assert [type(line) for line in history] == [
            UserLine,
            AssistantLine,
            ToolLine,
            AssistantLine,
            UserLine,
        ]
        assert history[2].text == "six"
        assert "two" in history[-1].text


async def test_a_message_at_the_very_end_of_a_reply_is_answered_next() -> None:
    async with scene(ScriptedModel("[SEND: a]", "[SEND: b]")) as here:
        here.channel.hold = asyncio.Event()
        await here.say("one")
        await until(lambda: here.model.streaming == 0 and len(here.model.requests) == 1)
        await asyncio.sleep(0.01)
        await here.say("two")
        await here.say("three")
        here.channel.hold.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert "two" in here.history()[-1].text
        assert "three" in here.history()[-1].text


# Stop.


async def test_stop_ends_the_reply_at_once_and_what_was_delivered_stands() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n[SEND: b", never], "[SEND: c]")) as here:
        message = await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.stop(message.conversation)
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
        assert here.model.streaming == 0
        await here.talk("two")
        assert here.channel.sent == ["a", "c"]
        assert here.replies() == ["[SEND: a]"]


async def test_stop_before_anything_leaves_the_message_in_the_history() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel([never], "[SEND: c]")) as here:
        message = await here.say("one")
        await until(lambda: here.model.streaming == 1)
        await here.engine.stop(message.conversation)
        await here.talk("two")
        assert "one" in here.history()[0].text
        assert here.channel.sent == ["c"]


async def test_stop_while_messages_are_gathered_answers_nothing() -> None:
    async with scene(ScriptedModel("[SEND: no]"), gather_seconds=0.03) as here:
        message = await here.say("one")
        await here.engine.stop(message.conversation)
        assert here.channel.sent == []
        assert here.model.requests == []
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]


async def test_stop_where_nothing_runs_does_nothing() -> None:
    async with scene(ScriptedModel("[SEND: hi]")) as here:
        await here.engine.stop("nobody")
        await here.talk("one")
        await here.engine.stop(here.channel.conversation)
        assert here.channel.sent == ["hi"]


async def test_an_act_that_hangs_does_not_hold_up_a_stop_for_long(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.engine.command_executor._STOP_SECONDS", 0.02)
    async with scene(ScriptedModel("[SEND: a]"), store=store) as here:
        here.channel.hold = asyncio.Event()
        message = await here.say("one")
        await until(lambda: here.model.streaming == 0 and len(here.model.requests) == 1)
        await asyncio.sleep(0.01)
        await here.engine.stop(message.conversation)
        assert here.channel.sent == []
        assert here.kinds() == ["TurnEnded"]


# Reset.


async def test_a_reset_during_a_turn_forgets_it() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", never], "[SEND: who are you?]", "[SEND: x]")) as here:
        message = await here.say("my secret")
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.reset(message.conversation)
        await here.talk("hello", "more")
        assert [len(here.history(number)) for number in (1, 2)] == [1, 3]
        assert not any("secret" in line.text for line in here.history())


async def test_a_reset_forgets_what_still_waits() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", never], "[SEND: fresh]")) as here:
        message = await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        await asyncio.gather(here.say("waits"), here.engine.reset(message.conversation))
        await here.engine.settled()
        here.model.add("[SEND: fresh]")
        await here.talk("hello")
        assert not any("> one" in line.text for line in here.history())
        assert here.channel.sent[-1] == "fresh"


async def test_a_reset_while_messages_are_gathered_leaves_nothing_to_answer() -> None:
    async with scene(ScriptedModel("[SEND: fresh]"), gather_seconds=0.03) as here:
        message = await here.say("one")
        await here.engine.reset(message.conversation)
        await here.engine.settled()
        assert here.channel.events == []
        await here.talk("hello")
        assert here.channel.sent == ["fresh"]
        assert len(here.history()) == 1


async def test_messages_during_a_reset_are_answered_or_forgotten_and_never_an_error() -> None:
    async with scene(ScriptedModel(*(["[SEND: ok]"] * 60))) as here:
        for number in range(20):
            await asyncio.gather(
                here.say(f"a {number}"), here.engine.reset(here.channel.conversation), here.say(f"b {number}")
            )
            await here.engine.settled()
        assert "Failed" not in here.kinds()


async def test_a_message_that_comes_while_a_reset_still_cleans_up_is_answered(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: a]", "[SEND: b]"), store=store) as here:
        await here.talk("old")
        cleaning = Gate(store, "reset", after=True)
        reset = asyncio.create_task(here.engine.reset(here.channel.conversation))
        await cleaning.reached.wait()
        await here.say("new")
        cleaning.open.set()
        await reset
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert len(here.history()) == 1


async def test_a_reset_does_not_wait_for_a_reply_to_what_came_after_it_was_asked_for() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", never], ["[SEND: b]", never], "[SEND: x]")) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        here.channel.hold = asyncio.Event()
        reset = asyncio.create_task(here.engine.reset(here.channel.conversation))
        await asyncio.sleep(0)
        await here.say("two")
        here.channel.hold.set()
        async with within("the reset"):
            await reset
        assert here.channel.sent == ["a"]


# Many at once, and the end.


async def test_many_conversations_at_once_do_not_mix() -> None:
    model = ScriptedModel(*([lambda request: f"[SEND: {request.lines[-1].text.split()[-1]}]"] * 200))
    async with scene(model) as here:
        channels = [RecordingChannel(f"test:{number}") for number in range(100)]
        for turn in ("one", "two"):
            await asyncio.gather(
                *(here.engine.receive(c.message(f"{c.conversation}-{turn}"), c) for c in channels)
            )
            await here.engine.settled()
        for channel in channels:
            assert channel.sent == [f"{channel.conversation}-one", f"{channel.conversation}-two"]


async def test_a_message_that_is_recorded_while_all_is_closed_waits_in_the_store(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: a]", "[SEND: too late]"), store=store) as here:
        await here.talk("one")
        caller = asyncio.create_task(here.say("two"))
        await asyncio.sleep(0)
        await here.engine.close()
        await caller
        assert here.channel.sent == ["a"]
    (waiting,) = (await store.load(here.channel.conversation)).waiting
    assert waiting.text == "two"


async def test_close_ends_all_and_loses_nothing(store: SqliteStore) -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", never]), store=store) as here:
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        here.channel.hold = asyncio.Event()
    assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
    async with scene(ScriptedModel("[SEND: b]"), store=store) as again:
        await again.engine.receive(again.channel.message("two", id="new"), again.channel)
        await again.engine.settled()
        assert again.replies() == ["[SEND: a]"]


@pytest.mark.parametrize("end", ["stop", "drain", "close"])
async def test_an_end_that_comes_while_a_reply_is_begun_again_is_not_lost(
    store: SqliteStore, end: str
) -> None:
    put_back = Gate(store, "end_turn", when=lambda turn, lines, *_, **__: not lines)
    never = asyncio.Event()
    async with scene(ScriptedModel([never], "[SEND: too late]"), store=store) as here:
        await here.say("one")
        await until(lambda: here.model.streaming == 1)
        await here.say("two")
        await put_back.reached.wait()
        ends: dict[str, Callable[[], Awaitable[object]]] = {
            "stop": partial(here.engine.stop, "test:channel"),
            "drain": partial(here.engine.drain, 8.0),
            "close": here.engine.close,
        }
        ending = asyncio.ensure_future(ends[end]())
        await asyncio.sleep(0.01)
        put_back.open.set()
        await ending
        assert len(here.model.requests) == 1
        assert here.channel.sent == []
        saved = await store.load("test:channel")
        assert saved.unfinished == ()
        assert [each.text for each in saved.waiting] == ([] if end == "stop" else ["one", "two"])


async def test_a_stop_before_a_private_command_of_an_addon_leaves_it_undone(store: SqliteStore) -> None:
    done: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.command(private=True)
        async def remind(context: Context, text: str) -> None:
            """write down"""
            done.append(text)

    plan = Gate(store, "plan", when=lambda turn, commands, **_: commands[0].name == "remind")
    never = asyncio.Event()
    persona = Persona("Pixi", "You are Pixi.", commands=("send", "remind"))
    model = ScriptedModel(["[REMIND: eggs]", never])
    async with scene(model, persona=persona, addons=[setup], store=store) as here:
        await here.say("hello")
        await plan.reached.wait()
        stopping = asyncio.ensure_future(here.engine.stop("test:channel"))
        await asyncio.sleep(0.01)
        plan.open.set()
        await stopping
        assert done == []
        assert "Failed" not in here.kinds()
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
