"""The life of a turn, lived by the engine: what breaks unseen is asked again, what closed is on record, what
nobody knows the fate of is not talked over, and who may interrupt whom."""

import asyncio
from typing import Any

import pytest

from pixi.core.errors import ChannelLost, ModelError
from pixi.core.events import Grew, Opened, Performed
from pixi.core.llm import AssistantLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.store.kept import UnfinishedTurn
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context, Draft
from tests.engine.gate import FULL, Gate
from tests.engine.scene import GAMBLER, ROLL, Dice, Scene, scene
from tests.waiting import until

BROKE = ModelError("The stream broke.")


async def left_open(store: SqliteStore) -> UnfinishedTurn:
    (turn,) = (await store.load("test:channel")).unfinished
    return turn


async def say(here: Scene, text: str, *, author: str = "Mo", reply_to: str | None = None) -> Message:
    message = here.channel.message(text, author=author, reply_to=reply_to)
    await here.engine.receive(message, here.channel)
    return message


class Watched(SqliteStore):
    """A store that remembers what it put on record, and puts off plans where it is told to."""

    told: list[Any]
    plans: asyncio.Event

    async def plan(self, turn: int, commands: Any, *given: Any, **more: Any) -> None:
        await self.plans.wait()
        await super().plan(turn, commands, *given, **more)
        self.told.append(("planned", *(each.number for each in commands)))

    async def intend(
        self, turn: int, sequence: int, kind: str, payload: str, *given: Any, **more: Any
    ) -> None:
        await super().intend(turn, sequence, kind, payload, *given, **more)
        self.told.append(payload)

    async def command_ended(self, turn: int, number: int, outcome: Any, **more: Any) -> None:
        self.told.append((number, outcome))
        await super().command_ended(turn, number, outcome, **more)

    async def mark_turn(self, turn: int, mark: Any, **more: Any) -> None:
        await super().mark_turn(turn, mark, **more)
        self.told.append(mark)

    @classmethod
    async def watching(cls, *, plans: bool = True) -> "Watched":
        store = await cls.open(":memory:")
        assert isinstance(store, Watched)
        store.told, store.plans = [], asyncio.Event()
        if plans:
            store.plans.set()
        return store


# A stream that breaks.


@pytest.mark.parametrize("before", ["[NOTE: hm", "[NOTE: hm]\n[NOTE: and", "[SEND: hal", "Well, I thi"])
async def test_a_stream_that_breaks_unseen_is_asked_again_and_nothing_of_it_is_history(before: str) -> None:
    async with scene(ScriptedModel([before, BROKE], "[NOTE: hm]\n[SEND: hi]", "[SEND: x]")) as here:
        await here.talk("hello")
        assert here.channel.sent == ["hi"]
        assert here.channel.ended[0].finish == "stop"
        assert here.model.requests[0].lines == here.model.requests[1].lines
        await here.talk("more")
        assert here.replies() == ["[NOTE: hm]\n[SEND: hi]"]
        assert "Failed" not in here.kinds()


async def test_it_is_asked_again_once() -> None:
    async with scene(ScriptedModel(["[NOTE: a", BROKE], ["[NOTE: b", BROKE], "[SEND: x]")) as here:
        await here.talk("hello")
        assert here.channel.sent == ["brb, ink spilled"]
        assert here.channel.ended[0].finish == "error"
        assert len(here.model.requests) == 2


async def test_what_cannot_be_mended_by_asking_is_not_asked_again() -> None:
    wrong = ModelError("The content was refused.", permanent=True)
    async with scene(ScriptedModel(["[NOTE: a", wrong], "[SEND: x]")) as here:
        await here.talk("hello")
        assert here.channel.sent == ["brb, ink spilled"]
        assert len(here.model.requests) == 1


@pytest.mark.parametrize("growing", [False, True])
async def test_of_what_people_saw_nothing_is_asked_again(growing: bool) -> None:
    reply: list[Step] = ["[SEND: hal", BROKE] if growing else ["[SEND: hal]", BROKE]
    async with scene(ScriptedModel(reply, "[SEND: x]"), growing=growing) as here:
        await here.talk("hello")
        assert here.channel.sent == ["hal"]
        assert len(here.model.requests) == 1


@pytest.mark.parametrize("writes", [False, True])
async def test_a_later_round_that_breaks_unseen_is_asked_again_where_tools_only_read(writes: bool) -> None:
    dice = Dice(writes=writes)
    model = ScriptedModel([ROLL], ["[NOTE: so", BROKE], "[SEND: six!]", "[SEND: x]")
    async with scene(model, persona=GAMBLER, addons=[dice.setup]) as here:
        await here.talk("roll")
        assert here.channel.sent == (["brb"] if writes else ["six!"])
        assert dice.rolls == 1
        await here.talk("more")
        replies = [line for line in here.history() if isinstance(line, AssistantLine)]
        assert [bool(line.calls) for line in replies[:2]] == [True, False]


async def test_commands_after_a_broken_stream_keep_their_numbers() -> None:
    """What was delivered is history, and what was refused is not, whatever the broken stream held."""
    model = ScriptedModel(["[NOTE: a]\n[NOTE: b]\n[SEND: hal", BROKE], "[REACT: 🥞]\n[SEND: hi]", "[SEND: x]")
    async with scene(model) as here:
        here.channel.refuse.add("react")
        await here.talk("hello", "more")
        assert here.replies() == ["[SEND: hi]"]


async def test_what_was_begun_ahead_belongs_to_its_command_after_a_broken_stream_too() -> None:
    """Also where commands of it were held back, as the reply might have begun with a repeat."""
    got: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.command
        async def paint(context: Context, what: str, *, ahead: asyncio.Task[str] | None = None) -> None:
            """paint"""
            got.append(await ahead if ahead else "nothing")

        @paint.ahead
        async def sketch(context: Context, draft: Draft) -> str:
            return "a sketch"

    said = "[SEND: I like pancakes with syrup]"
    persona = Persona("Pixi", "x", commands=("send", "note", "paint"))
    model = ScriptedModel(
        said, ["[NOTE: hm]\n[SEND: I like pancakes", BROKE], "[PAINT: a cat]", traits=Traits(runs_here=True)
    )
    async with scene(model, persona=persona, addons=[setup]) as here:
        await here.talk("hello", "paint a cat")
        assert len(here.model.requests) == 3
        assert got == ["a sketch"]


# On record.


async def test_commands_are_on_record_before_they_are_performed_or_wait() -> None:
    store = await Watched.watching()
    go_on = asyncio.Event()
    reply: list[Step] = ["[SEND: a]\n[REACT #1: 🥞]\n[SEND: b", go_on, "]"]
    async with scene(ScriptedModel(reply), store=store) as here:
        here.channel.hold = asyncio.Event()
        await here.say("hello")
        await until(lambda: here.model.streaming == 1)
        await until(lambda: "a" in store.told)
        turn = await left_open(store)
        assert [(each.number, each.name, each.argument, each.target) for each in turn.commands] == [
            (0, "send", "a", 0),
            (1, "react", "🥞", 1),
        ]
        assert turn.mark is None
        go_on.set()
        await until(lambda: "written" in store.told)
        turn = await left_open(store)
        assert turn.mark == "written"
        assert [each.argument for each in turn.commands] == ["a", "🥞", "b"]
        assert [(each.command, each.outcome) for each in turn.effects] == [(0, None)]
        here.channel.hold.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
    await store.close()


async def test_a_command_is_not_begun_before_its_plan_is_on_record_and_the_stream_does_not_wait() -> None:
    store = await Watched.watching(plans=False)
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]"), store=store) as here:
        await here.say("hello")
        await until(lambda: len(here.model.requests) == 1 and here.model.streaming == 0)
        assert here.channel.sent == []
        store.plans.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
    await store.close()


async def test_the_next_act_goes_on_record_behind_an_outcome_without_waiting_and_is_done_behind_both() -> (
    None
):
    class Slow(Watched):
        async def settle(self, *given: Any, **more: Any) -> None:
            await self.plans.wait()
            await super().settle(*given, **more)

        async def plan(self, turn: int, commands: Any, *given: Any, **more: Any) -> None:
            await SqliteStore.plan(self, turn, commands, *given, **more)

    store = await Slow.watching(plans=False)
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]"), store=store) as here:
        await here.say("hello")
        await until(lambda: "b" in store.told)
        assert here.channel.sent == ["a"]
        store.plans.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
    await store.close()


async def test_nothing_is_done_behind_an_act_whose_outcome_could_not_be_recorded(store: SqliteStore) -> None:
    Gate(store, "settle", error=FULL)
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]"), store=store) as here:
        await here.talk("hello")
        assert here.channel.sent == ["a"]
        assert [effect.outcome for effect in (await left_open(store)).effects] == [None, None]


async def test_a_channel_that_breaks_while_a_message_grows_ends_the_turn() -> None:
    go_on = asyncio.Event()
    reply: list[Step] = ["[SEND: one ", go_on, "two ", "three] [SEND: more]"]
    async with scene(ScriptedModel(reply), growing=True) as here:
        show = here.channel.show

        def breaking(event: Any) -> None:
            if isinstance(event, Grew) and "two" in event.text:
                raise ValueError("no room")
            show(event)

        here.channel.show = breaking  # type: ignore[method-assign]
        await here.say("hello")
        await until(lambda: any(isinstance(event, Grew) for event in here.channel.events))
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == []


async def test_what_came_of_each_command_is_on_record() -> None:
    store = await Watched.watching()
    async with scene(ScriptedModel("[WAVE: hi]\n[NOTE: hm]\n[BAD: x]\n[SEND: b]"), store=store) as here:

        @here.engine.command
        async def wave(context: Context, how: str) -> None:
            """wave"""
            assert (0, "begun") in store.told  # of it nobody knows what it does first

        @here.engine.command
        async def bad(context: Context, how: str) -> None:
            """crash"""
            raise ValueError(how)

        await here.talk("hello")
    ends = [told for told in store.told if told[0] != "planned" and isinstance(told, tuple)]
    assert ends == [(0, "begun"), (0, "done"), (1, "done"), (2, "begun"), (2, "failed"), (3, "done")]
    await store.close()


async def test_what_a_newer_message_drops_and_a_stop_is_on_record() -> None:
    store = await Watched.watching()
    never = asyncio.Event()
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]", ["[SEND: c]", never]), store=store) as here:
        here.channel.hold = asyncio.Event()
        await here.say("one")
        await until(lambda: "written" in store.told)
        message = await here.say("two")
        here.channel.hold.set()
        await until(lambda: here.channel.sent == ["a", "c"])
        await here.engine.stop(message.conversation)
    assert (1, "dropped") in store.told
    assert store.told.count("stopped") == 1
    await store.close()


async def test_a_broken_note_is_dropped_from_the_record_too() -> None:
    store = await Watched.watching()
    async with scene(ScriptedModel(["[NOTE: a]\n[NOTE: b", BROKE], "[NOTE: a]"), store=store) as here:
        await here.talk("hello")
    ends = [told for told in store.told if isinstance(told, tuple) and told[0] != "planned"]
    assert [outcome for number, outcome in ends if number == 0][-1] == "dropped"
    assert (1, "done") in ends
    await store.close()


# The place is away.


class Away(RecordingChannel):
    """A channel that cannot be reached for a message with this text, nor asked for one, until it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()

    async def send(self, text: str, **how: Any) -> str | None:
        if text == "away" and not self.back.is_set():
            raise ChannelLost("The place is away.")
        return await super().send(text, **how)

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        await self.back.wait()
        return await super().sent_before(text, nonce=nonce, after=after)


async def test_after_an_act_of_unknown_fate_nothing_is_posted_and_the_rest_is_on_record(
    store: SqliteStore,
) -> None:
    go_on = asyncio.Event()
    reply: list[Step] = ["[SEND: a]\n[SEND: away]\n[SEND: c]", go_on, "\n[REACT: 🥞]\n[SEND: d]"]
    channel = Away()
    async with scene(ScriptedModel(reply), store=store, channel=channel) as here:
        await here.say("hello")
        await until(lambda: channel.sent == ["a"])
        go_on.set()
        await until(lambda: len(channel.ended) == 1)
        assert here.channel.sent == ["a"]
        assert here.channel.reactions == []
        turn = await left_open(store)
        assert [(each.payload, each.outcome) for each in turn.effects] == [("a", "done"), ("away", None)]
        assert [each.outcome for each in turn.commands] == ["done", None, None, None, None]
        assert turn.mark == "written"
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
        channel.back.set()


async def test_no_tool_is_called_while_the_fate_of_an_act_is_not_known() -> None:
    dice = Dice()
    store = await Watched.watching()
    go_on = asyncio.Event()
    model = ScriptedModel(["[SEND: away]", go_on, ROLL])
    channel = Away()
    async with scene(model, persona=GAMBLER, addons=[dice.setup], store=store, channel=channel) as here:
        await here.say("hello")
        await until(lambda: "away" in store.told)
        go_on.set()
        await until(lambda: len(channel.ended) == 1)
        assert dice.rolls == 0
        assert (await left_open(store)).mark is None  # the reply is to go on
        channel.back.set()
    await store.close()


async def test_a_stop_while_the_place_is_away_ends_the_turn() -> None:
    store = await Watched.watching()
    async with scene(ScriptedModel(["[SEND: away]", asyncio.Event()]), store=store, channel=Away()) as here:
        message = await here.say("hello")
        await until(lambda: "away" in store.told)
        await here.engine.stop(message.conversation)
        await here.engine.settled()  # it was looked for, and not found
        (turn,) = await store.turns("test:channel", 1)
        assert [effect.outcome for effect in turn.effects] == ["unknown"]
        assert turn.finish == "cancelled"
    await store.close()


# Who interrupts whom.


async def test_tools_that_looked_up_are_not_run_again_for_somebody_else() -> None:
    dice = Dice(held=True)
    model = ScriptedModel([ROLL], "[SEND: six]", "[SEND: hi Ana]")
    async with scene(model, persona=GAMBLER, addons=[dice.setup]) as here:
        await here.say("roll")
        await until(lambda: dice.rolls == 1)
        await here.say("hello", author="Ana")
        dice.may.set()
        await here.engine.settled()
        assert here.channel.sent == ["six", "hi Ana"]
        assert dice.rolls == 1


# What commands declare of themselves.


async def test_a_private_command_is_seen_by_nobody_and_one_by_its_acts_shows_itself() -> None:
    def setup(addon: Addon) -> None:
        @addon.command(private=True, by_acts=True)
        async def mood(context: Context, how: str) -> None:
            """how you feel"""

        @addon.command(by_acts=True)
        async def shout(context: Context, what: str) -> None:
            """say it loudly"""
            await context.send(what.upper())

        @addon.command
        async def wave(context: Context, how: str) -> None:
            """wave"""

    async with scene(
        ScriptedModel("[MOOD: fine]\n[SHOUT: hi]\n[WAVE: big]", "[SEND: x]"), growing=True, addons=[setup]
    ) as here:
        await here.talk("hello")
        assert here.channel.sent == ["HI"]
        shown = [event for event in here.channel.events if isinstance(event, Performed)]
        assert shown == [Performed("wave", "big")]
        await here.talk("more")
        assert here.replies() == ["[MOOD: fine]\n[SHOUT: hi]\n[WAVE: big]"]


async def test_an_act_without_words_comes_to_nothing_and_is_not_history() -> None:
    async with scene(ScriptedModel("[REPLY #3]\n[NOTE]\n[REACT]\n[SEND: hi]", "[SEND: x]")) as here:
        await here.talk("hello", "more")
        assert here.channel.sent[0] == "hi"
        assert here.replies() == ["[SEND: hi]"]


async def test_after_a_private_command_a_newer_message_begins_the_reply_again() -> None:
    def setup(addon: Addon) -> None:
        @addon.command(private=True, by_acts=True)
        async def mood(context: Context, how: str) -> None:
            """how you feel"""

    never = asyncio.Event()
    async with scene(
        ScriptedModel(["[MOOD: fine]", never], "[SEND: both]"), growing=True, addons=[setup]
    ) as here:
        await here.say("one")
        await until(lambda: Opened("mood") in here.channel.events)
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["both"]
        assert len(here.channel.ended) == 1
