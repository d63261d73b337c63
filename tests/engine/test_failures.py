"""What breaks is told once, in one line and in character; nothing that was seen is said again."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.errors import ModelError, StoreError
from pixi.core.events import Failed, TurnEvent
from pixi.core.llm import AssistantLine, Delta, Request, Text, UserLine
from pixi.core.message import Message
from pixi.store.kept import Outcome
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.context import Context
from tests.engine.gate import FULL, Gate
from tests.engine.scene import PIXI, scene
from tests.waiting import until

WRONG_KEY = ModelError("The server refused the key.", permanent=True)


def failed(events: list[TurnEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Failed)]


async def test_a_model_that_fails_is_told_once_and_in_character() -> None:
    async with scene(ScriptedModel([WRONG_KEY], "[SEND: better]")) as here:
        await here.talk("hello", "still there?")
        assert failed(here.channel.events) == ["The server refused the key."]
        assert here.channel.sent == ["brb, ink spilled", "better"]
        assert here.kinds() == ["Failed", "Sent", "TurnEnded", "Sent", "TurnEnded"]
        assert here.channel.ended[0].finish == "error"
        assert len(here.model.requests) == 2
        assert "hello" in here.history()[0].text
        assert here.replies() == ["[SEND: brb, ink spilled]"]


async def test_a_persona_without_words_for_it_is_silent() -> None:
    async with scene(ScriptedModel([WRONG_KEY], "[SEND: x]"), persona=replace(PIXI, when_broken=())) as here:
        await here.talk("hello", "again")
        assert here.kinds()[:2] == ["Failed", "TurnEnded"]
        assert [type(line) for line in here.history()] == [UserLine, AssistantLine, UserLine]


async def test_a_stream_that_breaks_after_a_message_is_not_tried_again() -> None:
    broken = ModelError("The stream broke.")
    async with scene(ScriptedModel(["[SEND: a]\n[SEND: hal", broken], "[SEND: c]")) as here:
        await here.talk("hello")
        assert here.channel.sent == ["a", "hal"]
        assert failed(here.channel.events) == ["The stream broke."]
        await here.talk("more")
        assert here.replies() == ["[SEND: a]\n[SEND: hal]"]
        assert here.channel.sent == ["a", "hal", "c"]


@pytest.mark.parametrize("newer", [False, True])
async def test_who_writes_or_stops_while_a_broken_reply_is_still_delivered_meets_no_fault(
    newer: bool,
) -> None:
    broken = ModelError("The stream broke.")
    async with scene(ScriptedModel(["[SEND: a]\n[SEND: hal", broken], "[SEND: c]")) as here:
        here.channel.hold = asyncio.Event()
        message = await here.say("one")
        await until(lambda: len(here.model.requests) == 1 and here.model.streaming == 0)
        await asyncio.sleep(0.01)
        if newer:
            await here.say("two")
            here.channel.hold.set()
        else:
            asyncio.get_running_loop().call_later(0.02, here.channel.hold.set)
            await here.engine.stop(message.conversation)
        await here.engine.settled()
        assert here.channel.sent == (["a", "hal", "c"] if newer else ["a"])
        assert failed(here.channel.events) == ["The stream broke."]
        assert here.channel.ended[0].finish == "error"


async def test_a_task_that_is_cancelled_from_outside_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", never], "[SEND: c]")) as here:
        before = asyncio.all_tasks()
        await here.say("one")
        await until(lambda: here.channel.sent == ["a"] and len(asyncio.all_tasks() - before) == 1)
        (task,) = asyncio.all_tasks() - before
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert caplog.text == ""
        await here.talk("two")
        assert here.channel.sent == ["a", "c"]


async def test_half_of_a_prose_reply_is_not_sent() -> None:
    async with scene(ScriptedModel(["Well, I thi", ModelError("It broke.")])) as here:
        await here.talk("hello")
        assert here.channel.sent == ["brb, ink spilled"]


async def test_a_model_that_fails_in_a_later_round_keeps_what_was_done() -> None:
    reply = '[SEND: wait]<tool-call tool="x">{}</tool-call>'
    async with scene(ScriptedModel(reply, [ModelError("It broke.")], "[SEND: c]")) as here:
        await here.talk("hello")
        assert here.channel.sent == ["wait"]
        assert here.channel.ended[0].finish == "error"
        await here.talk("more")
        first, *_ = (line for line in here.history() if isinstance(line, AssistantLine))
        assert first.text == "[SEND: wait]"
        assert len(first.calls) == 1


class Mess(ScriptedModel):
    """A model that breaks its promise to raise `ModelError` alone."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        if len(self.requests) == 1:
            yield Text("[NOTE: x]")
            raise KeyError("secret")
        yield Text("[SEND: hi]")


async def test_a_fault_inside_ends_one_turn_and_not_the_conversation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene(Mess()) as here:
        await here.talk("one")
        assert failed(here.channel.events) == ["Something broke inside; with --debug the log tells what."]
        assert [ended.finish for ended in here.channel.ended] == ["error"]
        assert "KeyError" in caplog.text
        await here.talk("two")
        assert here.channel.sent == ["hi"]
        assert "one" in here.history()[0].text
        assert "two" in here.history()[-1].text


class Blind(RecordingChannel):
    """A channel whose `show` raises."""

    def show(self, event: TurnEvent) -> None:
        super().show(event)
        if len(self.events) == 1:
            raise RuntimeError("the screen is gone")


async def test_a_channel_that_cannot_show_ends_one_turn_and_not_the_conversation() -> None:
    async with scene(ScriptedModel("[SEND: a][SEND: b]", "[SEND: c]")) as here:
        channel = Blind(growing=True)
        await here.engine.receive(channel.message("one"), channel)
        await here.engine.settled()
        assert channel.ended[0].finish == "error"
        await here.engine.receive(channel.message("two"), channel)
        await here.engine.settled()
        assert channel.sent == ["a", "c"]  # the first had closed: it is performed, and the reply goes on


@pytest.mark.parametrize("door", ["load", "begin_turn", "intend", "settle", "end_turn"])
async def test_a_full_disk_is_told_once_and_nothing_unrecorded_is_done(store: SqliteStore, door: str) -> None:
    full = Gate(store, door, error=FULL)
    async with scene(ScriptedModel("[SEND: a][SEND: b]", "[SEND: c]", "[SEND: d]"), store=store) as here:
        await here.talk("one")
        assert failed(here.channel.events) == [str(FULL)]
        assert [ended.finish for ended in here.channel.ended] == ["error"]
        expected = {"settle": ["a"], "end_turn": ["a", "b"]}.get(door, [])
        assert here.channel.sent == expected
        full.error = None
        await here.talk("two")
        assert len(here.channel.sent) > len(expected)
        told = "\n".join(line.text for line in here.history() if isinstance(line, UserLine))
        assert "one" in told
        assert "two" in told


async def test_a_message_that_cannot_be_recorded_is_the_callers_to_know(store: SqliteStore) -> None:
    Gate(store, "receive", error=FULL)
    async with scene(ScriptedModel("[SEND: a]"), store=store) as here:
        with pytest.raises(StoreError):
            await here.say("one")
        await here.engine.settled()
        assert here.channel.events == []


async def test_outcomes_are_on_record(store: SqliteStore) -> None:
    settled: list[tuple[int, Outcome]] = []
    settle = store.settle

    async def watched(turn: int, sequence: int, outcome: Outcome, *given: Any, **more: Any) -> None:
        settled.append((sequence, outcome))
        await settle(turn, sequence, outcome, *given, **more)

    store.settle = watched  # type: ignore[method-assign]
    async with scene(ScriptedModel("[SEND: a]\n[REACT: 🥞]\n[BAD: x]\n[SEND: b]"), store=store) as here:

        @here.engine.command
        async def bad(context: Context, how: str) -> None:
            """send and then crash"""
            await context.send("half")
            raise ValueError(how)

        here.channel.refuse.add("react")
        await here.talk("one")
        assert settled == [(1, "done"), (2, "refused"), (3, "done"), (4, "done")]
        assert here.channel.sent == ["a", "half", "b"]
        here.model.add("[SEND: x]")
        await here.talk("two")
        assert here.replies() == ["[SEND: a]\n[BAD: x]\n[SEND: b]"]


async def test_a_network_error_of_a_channel_is_a_failure_of_that_command() -> None:
    class Flaky(RecordingChannel):
        async def send(self, text: str, **how: Any) -> str | None:
            if text == "a":
                raise ConnectionResetError("10.0.0.1")
            return await super().send(text, **how)

    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]")) as here:
        channel = Flaky()
        await here.engine.receive(channel.message("hi"), channel)
        await here.engine.settled()
        assert failed(channel.events) == ["command 'send' failed with ConnectionResetError."]
        assert channel.sent == ["b"]


async def test_a_closed_engine_takes_no_message() -> None:
    async with scene(ScriptedModel()) as here:
        await here.engine.close()
        with pytest.raises(Exception, match="closed"):
            await here.say("hi")


@pytest.mark.parametrize("known", [False, True])
async def test_a_cancelled_caller_loses_no_message(known: bool) -> None:
    async with scene(ScriptedModel(*["[SEND: hi]"] * 2)) as here:
        if known:
            await here.talk("hello")
        message: Message = here.channel.message("lost?")
        task = asyncio.create_task(here.engine.receive(message, here.channel))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await here.engine.receive(here.channel.message("you there?"), here.channel)
        await until(lambda: here.channel.sent == ["hi"] * (1 + known))
        assert "lost?" in here.history()[-1].text
        assert "you there?" in here.history()[-1].text
