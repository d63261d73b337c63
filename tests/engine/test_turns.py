"""A message in, a reply performed: the plain way, silence, forgetful models, limits, commands."""

import asyncio

import pytest
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.events import Failed, Grew, Noted, Opened, Performed, Reacted, Sent, TurnEnded
from pixi.core.llm import AssistantLine, Finished, PromptProgress, Usage, UserLine
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.gate import Gate
from tests.engine.scene import PIXI, scene
from tests.held_clock import HeldClock
from tests.waiting import until


async def test_commands_are_performed_in_order_and_shown() -> None:
    async with scene(ScriptedModel("[NOTE: hm]\n[REACT: 🥞]\n[SEND: hi]\n[SEND: you!]")) as here:
        message = await here.say("hello")
        await here.engine.settled()
        assert here.channel.sent == ["hi", "you!"]
        assert here.channel.reactions == [(message.id, "🥞")]
        assert here.channel.events == [
            Noted("hm"),
            Reacted("🥞", message=message.id),
            Sent("hi"),
            Sent("you!"),
            TurnEnded("stop", 1),
        ]


async def test_a_command_is_performed_while_the_model_goes_on_writing() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: first]", go_on, "[SEND: second]"])) as here:
        await here.say("hello")
        await until(lambda: here.channel.sent == ["first"])
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["first", "second"]


async def test_a_slow_channel_does_not_slow_the_stream() -> None:
    async with scene(ScriptedModel("[SEND: a][SEND: b]")) as here:
        here.channel.hold = asyncio.Event()
        await here.say("hello")
        await until(lambda: here.model.streaming == 0 and len(here.model.requests) == 1)
        assert here.channel.sent == []
        here.channel.hold.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]


@pytest.mark.parametrize("reply", ["", "[SEND]", "[NOTE: not my business]", "<think>shall I? no</think>"])
async def test_silence_is_one_call_and_no_repair(reply: str) -> None:
    async with scene(ScriptedModel(reply, "[SEND: yes?]")) as here:
        await here.talk("hello", "still there?")
        assert len(here.model.requests) == 2
        assert here.channel.sent == ["yes?"]
        first, second = here.channel.ended
        assert (first.finish, first.steps) == ("stop", 1)
        assert second.finish == "stop"
        assert [type(line) for line in here.history()] == [UserLine, AssistantLine, UserLine]
        assert here.replies()[0]


async def test_a_model_that_forgot_the_language_still_talks() -> None:
    async with scene(ScriptedModel("oh hi!\nhow are you?", "[SEND: fine]")) as here:
        await here.talk("hello", "and you?")
        assert here.channel.sent == ["oh hi!\nhow are you?", "fine"]
        assert here.replies() == ["[SEND: oh hi!\nhow are you?]"]


async def test_every_request_is_the_last_one_plus_a_tail() -> None:
    replies = ["[NOTE: x]\n[SEND: a]", "b", "", "[SEND: c] [REACT: 🥞]", "[SEND: d"]
    async with scene(ScriptedModel(*replies)) as here:
        await here.talk("1", "2", "3", "4", "5")
        for before, after in zip(here.model.requests, here.model.requests[1:], strict=False):
            assert after.lines[: len(before.lines)] == before.lines
            assert len(after.lines) == len(before.lines) + 2


async def test_two_channels_are_two_conversations() -> None:
    async with scene(
        ScriptedModel(lambda request: f"[SEND: {request.lines[-1].text[-3:]}]", "[SEND: b]")
    ) as here:
        one, two = RecordingChannel("test:one"), RecordingChannel("test:two")
        await here.engine.receive(one.message("aaa"), one)
        await here.engine.settled()
        await here.engine.receive(two.message("bbb"), two)
        await here.engine.settled()
        assert one.sent == ["aaa"]
        assert two.sent == ["b"]
        assert not any("aaa" in line.text for line in here.history())


async def test_a_message_is_answered_once() -> None:
    async with scene(ScriptedModel("[SEND: hi]", "[SEND: again]")) as here:
        message = here.channel.message("hello")
        await here.engine.receive(message, here.channel)
        await here.engine.receive(message, here.channel)
        await here.engine.settled()
        await here.engine.receive(message, here.channel)
        await here.engine.settled()
        assert here.channel.sent == ["hi"]


async def test_a_message_that_comes_twice_at_once_is_answered_once(store: SqliteStore) -> None:
    twin: Gate = Gate(store, "receive", when=lambda _: twin.calls > 1)
    async with scene(ScriptedModel("[SEND: hi]", "[SEND: again]"), store=store) as here:
        message = here.channel.message("hello")
        first = asyncio.create_task(here.engine.receive(message, here.channel))
        second = asyncio.create_task(here.engine.receive(message, here.channel))
        await until(lambda: here.channel.sent == ["hi"])
        twin.open.set()
        await asyncio.gather(first, second)
        await here.engine.settled()
        assert here.channel.sent == ["hi"]


async def test_messages_that_came_together_are_answered_together() -> None:
    async with scene(ScriptedModel("[SEND: both!]"), gather_seconds=0.05) as here:
        await asyncio.gather(here.say("one"), here.say("two"))
        await here.engine.settled()
        assert len(here.model.requests) == 1
        assert "one" in here.history()[0].text
        assert "two" in here.history()[0].text
        assert len(here.channel.ended) == 1


async def test_overheard_messages_start_no_turn_and_are_told_with_the_next() -> None:
    async with scene(ScriptedModel("[SEND: pancakes?]", "[SEND: yes]", "[SEND: well]")) as here:
        await here.say("i made pancakes", author="Ana", addressed=False)
        await here.engine.settled()
        assert here.model.requests == []
        await here.talk("Pixi, did you hear?")
        assert "i made pancakes" in here.history()[0].text
        for number in range(30):
            await here.say(f"chatter {number}.", author="Ana", addressed=False)
        await here.talk("Pixi?")
        text = here.history()[-1].text
        assert "chatter 9." not in text
        assert "chatter 10." in text
        assert "chatter 29." in text
        await here.talk("and now?")
        assert "chatter" not in here.history()[-1].text


async def test_typing_is_shown_when_a_message_opens_and_not_for_a_note() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[NOTE: x]", "[SEND: h", go_on, "i]"])) as here:
        await here.say("hello")
        await until(lambda: here.channel.typed == 1)
        assert here.channel.sent == []
        go_on.set()
        await here.engine.settled()
        assert here.channel.typed == 1


async def test_a_channel_without_a_typing_indicator_is_as_good() -> None:
    async with scene(ScriptedModel("[SEND: hi]")) as here:
        here.channel.refuse.add("typing")
        await here.talk("hello")
        assert here.kinds() == ["Sent", "TurnEnded"]


async def test_a_growing_channel_sees_messages_grow() -> None:
    async with scene(ScriptedModel("[NOTE: a]\n[SEND: hello]", piece=3), growing=True) as here:
        await here.talk("hi")
        events = here.channel.events
        assert [e for e in events if not isinstance(e, Grew)] == [
            Opened("note", "note"),
            Noted("a"),
            Opened("send", "message"),
            Sent("hello"),
            TurnEnded("stop", 1),
        ]
        grown = "".join(e.text for e in events if isinstance(e, Grew) and e.name == "send")
        assert grown.strip() == "hello"


async def test_a_command_of_ones_own() -> None:
    waved: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.command(aliases=("greet",))
        async def wave(context: Context, how: str) -> None:
            """wave at the person"""
            waved.append(how)
            await context.send(f"*waves {how} at {context.message.author.name}*")

        @addon.command
        async def bow(context: Context) -> None:
            """bow"""
            waved.append("bow")

    async with scene(ScriptedModel("[GREET: wildly]\n[BOW]", "[SEND: done]"), addons=[setup]) as here:
        await here.talk("hello", "again")
        assert waved == ["wildly", "bow"]
        assert here.channel.events[:3] == [
            Sent("*waves wildly at Mo*"),
            Performed("wave", "wildly"),
            Performed("bow", ""),
        ]
        assert here.replies() == ["[WAVE: wildly]\n[BOW]"]


async def test_commands_come_by_decorator_too() -> None:
    async with scene(ScriptedModel("[WAVE: hi]")) as here:

        @here.engine.command
        async def wave(context: Context, how: str) -> None:
            """wave"""
            await context.send(how)

        await here.talk("hello")
        assert here.channel.sent == ["hi"]


async def test_a_command_that_comes_later_is_told_of_too() -> None:
    async with scene(ScriptedModel("[SEND: hi]", "[WAVE: hi]")) as here:
        await here.talk("hello")

        @here.engine.command
        async def wave(context: Context, how: str) -> None:
            """wave"""
            await context.send(how)

        await here.talk("wave!")
        assert ["[WAVE: how]" in request.lines[0].text for request in here.model.requests] == [False, True]
        assert here.channel.sent == ["hi", "hi"]


async def test_a_persona_uses_the_commands_it_names() -> None:
    quiet = replace(PIXI, commands=("react", "note"))
    async with scene(ScriptedModel("[SEND: hi]\n[REACT: 🥞]"), persona=quiet) as here:
        await here.talk("hello")
        assert here.channel.sent == []
        assert len(here.channel.reactions) == 1


@pytest.mark.parametrize(
    ("persona", "kind"),
    [(replace(PIXI, commands=("sned",)), "command 'sned'"), (replace(PIXI, tools=("moon",)), "tool 'moon'")],
)
async def test_a_persona_that_names_what_is_not_there_is_told_of(persona: Persona, kind: str) -> None:
    with pytest.raises(ConfigError, match=kind):
        async with scene(ScriptedModel(), persona=persona):
            pass


async def test_usage_and_steps_are_told_at_the_end() -> None:
    usage = Usage(100, 80, 7)
    reply: list[Step] = ["[SEND: hi]", Finished("length", usage)]
    async with scene(ScriptedModel(reply)) as here:
        await here.talk("hello")
        assert here.channel.ended == [TurnEnded("length", 1, usage)]


# Limits.


async def test_more_messages_than_allowed_close_the_stream() -> None:
    after = asyncio.Event()
    model = ScriptedModel(["[SEND: a][SEND: b][SEND: c]", after, "[SEND: d]"], "[SEND: next]")
    async with scene(model, limits=Limits(messages=2)) as here:
        await here.talk("hello")
        assert here.channel.sent == ["a", "b"]
        assert here.channel.ended[0].finish == "limit"
        await here.talk("more")
        assert here.replies() == ["[SEND: a][SEND: b]"]


async def test_two_hundred_reactions_are_five() -> None:
    async with scene(ScriptedModel("[REACT: 👍]" * 200, piece=0)) as here:
        await here.talk("hello")
        assert len(here.channel.reactions) == 5
        assert here.channel.ended[0].finish == "limit"


async def test_ten_thousand_commands_are_thirty() -> None:
    async with scene(ScriptedModel("[NOTE: x]\n" * 10_000, piece=100)) as here:
        await here.talk("hello")
        assert len(here.channel.notes) == 30
        assert here.channel.ended[0].finish == "limit"


async def test_a_turn_that_takes_too_long_is_ended_and_told_in_character() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel([never], ["[SEND: a]", never]), limits=Limits(seconds=0.05)) as here:
        await here.talk("hello")
        assert here.channel.events[0] == Failed("No answer came within 0.05 seconds.")
        assert here.channel.sent == ["brb, ink spilled"]
        await here.talk("again")
        assert here.channel.sent[1:] == ["a"]
        assert here.channel.ended[1].finish == "limit"


class Reader(ScriptedModel):
    """A model that may read its prompt for long, without a sign."""

    @property
    def traits(self) -> Traits:
        return Traits(reads_long=True)


async def test_the_time_in_which_a_model_reads_is_not_the_turns(clock: HeldClock) -> None:
    read: list[Step] = [PromptProgress(0, 1669), 400.0, PromptProgress(1024, 1669, 99.0), 99.0]
    model = ScriptedModel([*read, "[SEND: a]", 170.0, "[SEND: b]"], [*read, "[SEND: c]", 190.0, "[SEND: d]"])
    async with scene(model, limits=Limits(seconds=180)) as here:
        await here.talk("hello")
        assert here.kinds() == ["PromptProgress"] * 3 + ["Sent"] * 2 + ["TurnEnded"]
        assert here.channel.events[2] == PromptProgress(1669, 1669, 0.0)
        await here.talk("again")
        assert here.channel.sent == ["a", "b", "c"]
        assert here.channel.ended[1].finish == "limit"


async def test_a_model_that_reads_without_a_sign_is_waited_for_but_not_for_ever(clock: HeldClock) -> None:
    async with scene(Reader([400.0, "[SEND: a]"], [9_999.0]), limits=Limits(seconds=180)) as here:
        await here.talk("hello")
        assert here.channel.sent == ["a"]
        began = clock.time()
        await here.talk("again")
        assert here.channel.sent == ["a", "brb, ink spilled"]
        assert 3_600 <= clock.time() - began < 3_601
        assert here.channel.ended[1].finish == "error"


async def test_who_writes_while_the_prompt_is_read_is_answered_along() -> None:
    async with scene(ScriptedModel([PromptProgress(0, 9), asyncio.Event()], "[SEND: both]")) as here:
        await here.say("hello")
        await until(lambda: "PromptProgress" in here.kinds())
        await here.talk("and hello")
        assert here.channel.sent == ["both"]


# Acts.


async def test_what_a_channel_refuses_is_told_once_and_not_history() -> None:
    async with scene(ScriptedModel("[REACT: 🥞][REACT: 👍][SEND: hi]", "[SEND: x]")) as here:
        here.channel.refuse.add("react")
        await here.talk("hello", "more")
        assert here.kinds()[:3] == ["Failed", "Sent", "TurnEnded"]
        assert here.replies()[0] == "[SEND: hi]"


@pytest.mark.parametrize("error", [ValueError, SystemExit])
async def test_a_command_that_raises_is_named_and_the_turn_goes_on(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(ScriptedModel("[CRASH: now]\n[SEND: still here]", "[SEND: x]")) as here:

        @here.engine.command
        async def crash(context: Context, how: str) -> None:
            """crash"""
            raise error("the key is sk-123")

        await here.talk("hello", "more")
        failed = [event.text for event in here.channel.events if isinstance(event, Failed)]
        assert failed == [f"command 'crash' failed with {error.__name__}."]
        assert here.channel.sent == ["still here", "x"]
        assert here.replies()[0] == "[SEND: still here]"
        assert len(caplog.records) == 1
        assert "sk-123" not in caplog.text


async def test_every_act_is_recorded_before_and_after(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: a]\n[REACT: 🥞]\n[SEND: b]"), store=store) as here:
        here.channel.refuse.add("react")
        here.channel.hold = asyncio.Event()
        message = await here.say("hello")

        async def intended() -> bool:
            saved = await store.load(message.conversation)
            acts = [(e.sequence, e.kind, e.payload, e.outcome) for u in saved.unfinished for e in u.effects]
            return acts == [(1, "send", "a", None)]

        await until(intended)
        assert here.channel.sent == []
        here.channel.hold.set()
        await here.engine.settled()
        assert len(here.channel.nonces) == 2
        assert all(len(nonce) <= 25 for nonce in here.channel.nonces)


async def test_nonces_differ_between_databases() -> None:
    nonces: set[str] = set()
    for number in range(3):
        async with scene(ScriptedModel("[SEND: a]")) as here:
            await here.engine.receive(here.channel.message("hi", id=f"m{number}"), here.channel)
            await here.engine.settled()
            nonces.update(here.channel.nonces)
    assert len(nonces) == 3
