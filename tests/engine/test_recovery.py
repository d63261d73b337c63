"""After a crash: what was half-done is finished once, and what waits is answered."""

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.channel import Channel
from pixi.core.errors import ChannelElsewhere, ChannelError, ChannelForgot, ChannelLost, StoreError
from pixi.core.events import Reacted, Sent, TalkChanged
from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, ToolLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.core.reading import SILENCE
from pixi.core.stamps import BROKE_OFF
from pixi.engine.turn_actions import nonce_of
from pixi.store.kept import AuditOutcome, Deed, Effect
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Scripted
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.begun import begun
from tests.engine.gate import Gate
from tests.engine.scene import PIXI, scene
from tests.waiting import until

CONVERSATION = "test:channel"


def message(text: str, name: str, *, minutes_ago: float = 0, conversation: str = CONVERSATION) -> Message:
    written = RecordingChannel(conversation).message(text, id=name)
    return replace(written, sent_at=written.sent_at - 60 * minutes_ago)


async def a_turn(store: SqliteStore, *said: Message) -> int:
    """A turn that a process began."""
    for message in said:
        await store.receive(message)
    return await begun(store, said[0].conversation, 0, "Pixi", tuple(message.id for message in said))


async def crashed(store: SqliteStore, said: Message, *acts: tuple[str, str, str, int]) -> int:
    """A turn that a process began and did not end: (kind, payload, outcome, target) of each act.

    With acts its reply was written, and they are all that was left to be done.
    """
    turn = await a_turn(store, said)
    for sequence, (kind, payload, outcome, target) in enumerate(acts, 1):
        await store.intend(turn, sequence, kind, payload, target=target)
        if outcome == "done":
            await store.settle(turn, sequence, "done", f"sent:{sequence}")
    if acts:
        await store.mark_turn(turn, "written")
    return turn


async def planned(store: SqliteStore, turn: int, *commands: tuple[str, str]) -> None:
    """Commands that closed, by name and argument."""
    await store.plan(turn, [Planned(number, *command) for number, command in enumerate(commands)])


async def posted(store: SqliteStore, turn: int, sequence: int, text: str, command: int) -> None:
    await store.intend(turn, sequence, "send", text, command=command)
    await store.settle(turn, sequence, "done", f"sent:{sequence}")


async def lines_of(store: SqliteStore) -> list[str]:
    return [line.text for line in (await store.load(CONVERSATION)).lines if isinstance(line, AssistantLine)]


async def effects_of(store: SqliteStore) -> tuple[Effect, ...]:
    return (await store.turns(CONVERSATION, 9))[-1].effects


async def test_what_was_posted_and_not_recorded_is_found_and_not_posted_again(store: SqliteStore) -> None:
    said = message("hello", "m1")
    turn = await crashed(store, said, ("send", "a", "done", 0), ("send", "b", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        posted = await here.channel.send("b", nonce=nonce_of(turn, 2, said.id))
        await here.resume()
        assert here.channel.sent == ["b"]
        assert here.channel.events == [TalkChanged(turn)]
        acts = await effects_of(store)
        assert [(act.outcome, act.platform_id) for act in acts] == [("done", "sent:1"), ("done", posted)]
        lines = (await store.load(CONVERSATION)).lines
        assert lines[1:] == (AssistantLine("[SEND: a]\n[SEND: b]"),)


async def test_what_was_not_posted_is_posted_now_under_its_old_nonce(store: SqliteStore) -> None:
    said = message("hello", "m1", minutes_ago=5)
    turn = await crashed(store, said, ("send", "a", "", 0), ("react", "🥞", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        (post,) = here.channel.posts
        assert (post.text, post.nonce, post.answers) == ("a", nonce_of(turn, 1, said.id), said.id)
        assert here.channel.reactions == [(said.id, "🥞")]
        assert here.channel.events == [Sent("a"), Reacted("🥞", message=said.id), TalkChanged(turn)]
        assert [act.outcome for act in await effects_of(store)] == ["done", "done"]
        saved = await store.load(CONVERSATION)
        assert saved.lines[1:] == (AssistantLine("[SEND: a]\n[REACT: 🥞]"),)
        assert saved.waiting == ()
        assert saved.unfinished == ()


async def test_an_act_about_an_earlier_message_is_finished_on_that_one(store: SqliteStore) -> None:
    earlier = replace(message("look", "m0"), addressed=False)
    await store.receive(earlier)
    acts = (("send", "nice", "", 1), ("react", "🥞", "", 1), ("react", "👍", "", 9))
    await crashed(store, message("hello", "m1"), *acts)
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert [post.reply_to for post in here.channel.posts] == ["m0"]
        assert here.channel.reactions == [("m0", "🥞")]
        assert [act.outcome for act in await effects_of(store)] == ["done", "done", "unknown"]
        lines = (await store.load(CONVERSATION)).lines
        unknown = "[NOTE: [REACT #9: 👍] may or may not have been seen.]"
        assert lines[1:] == (AssistantLine(f"[SEND #1: nice]\n[REACT #1: 🥞]\n{unknown}"),)


async def test_what_is_too_old_is_looked_for_and_not_done_any_more(store: SqliteStore) -> None:
    said = message("hello", "m1", minutes_ago=20)
    turn = await crashed(store, said, ("send", "a", "", 0), ("send", "b", "", 0), ("react", "🥞", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        await here.channel.send("a", nonce=nonce_of(turn, 1, said.id))
        await here.resume()
        assert here.channel.sent == ["a"]
        assert here.channel.reactions == []
        assert [act.outcome for act in await effects_of(store)] == ["done", "unknown", "unknown"]
        told = (f"[NOTE: {act} may or may not have been seen.]" for act in ("[SEND: b]", "[REACT: 🥞]"))
        line = AssistantLine("\n".join(("[SEND: a]", *told)))
        assert (await store.load(CONVERSATION)).lines[1:] == (line,)


async def test_how_old_that_is_can_be_said(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1", minutes_ago=20), ("send", "a", "", 0))
    async with scene(ScriptedModel(), store=store, finish_seconds=3_600) as here:
        await here.resume()
        assert here.channel.sent == ["a"]


@pytest.mark.parametrize("turn_begun", [False, True])
async def test_what_waits_is_answered_also_while_it_comes_in_once_more(
    store: SqliteStore, turn_begun: bool
) -> None:
    said = message("hello", "m1")
    await (crashed(store, said) if turn_begun else store.receive(said))
    receive = Gate(store, "receive")
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        again = asyncio.create_task(here.engine.receive(said, here.channel))
        await receive.reached.wait()
        await here.resume()
        receive.open.set()
        await again
        await here.engine.settled()
        assert here.channel.sent == ["hi"]


class Stern(RecordingChannel):
    """Refuses, is lost, or breaks."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def send(self, text: str, **how: Any) -> str | None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"), [(ChannelError("no"), "refused"), (OSError("broken"), "unknown")]
)
async def test_what_a_channel_makes_of_it_is_on_record(
    store: SqliteStore, error: Exception, outcome: str
) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume(Stern(error))
        assert [act.outcome for act in await effects_of(store)] == [outcome]
        assert (await store.load(CONVERSATION)).unfinished == ()


async def test_a_turn_of_which_nothing_is_on_record_is_answered_anew(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"))
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await here.resume()
        assert here.channel.sent == ["hi"]
        assert "hello" in here.history()[-1].text


async def test_what_waits_is_answered_if_it_is_not_too_old(store: SqliteStore) -> None:
    old, new = message("old", "m1", minutes_ago=60), message("new", "m2")
    for waits in (old, new):
        await store.receive(replace(waits, conversation=f"test:{waits.id}"))
    channels = {f"test:{name}": RecordingChannel(f"test:{name}") for name in ("m1", "m2")}

    async def open_channel(address: str) -> Channel | None:
        return channels[address]

    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await here.engine.resume("test:", new.sent_at - 1_800, open_channel)
        assert channels["test:m2"].sent == ["hi"]
        assert channels["test:m1"].sent == []
        assert len((await store.load("test:m1")).waiting) == 1


async def test_a_message_that_was_only_overheard_is_not_answered(store: SqliteStore) -> None:
    await store.receive(replace(message("by the way", "m1"), addressed=False))
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert here.model.requests == []


async def test_where_the_channel_is_gone_it_is_laid_down_as_it_is(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "done", 0), ("send", "b", "", 0))
    await store.receive(message("anybody?", "m2"))

    async def gone(address: str) -> Channel | None:
        return None

    async with scene(ScriptedModel(), store=store) as here:
        await here.engine.resume("test:", 0.0, gone)
        assert here.model.requests == []
        assert [act.outcome for act in await effects_of(store)] == ["done", "unknown"]
        saved = await store.load(CONVERSATION)
        assert saved.unfinished == ()
        assert [waiting.id for waiting in saved.waiting] == ["m2"]


async def test_what_is_another_processs_is_left_to_it_without_a_word(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    await store.receive(message("anybody?", "m2"))

    async def elsewhere(address: str) -> Channel | None:
        raise ChannelElsewhere("It is not here.")

    async with scene(ScriptedModel(), store=store) as here:
        await here.engine.resume("test:", 0.0, elsewhere)
        assert here.model.requests == []
        (turn,) = (await store.load(CONVERSATION)).unfinished
        assert [act.outcome for act in turn.effects] == [None]
    assert caplog.records == []


async def test_a_message_that_comes_first_finishes_what_was_left_too(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    async with scene(ScriptedModel("[SEND: b]"), store=store) as here:
        await here.engine.receive(message("well?", "m2"), here.channel)
        await here.engine.settled()
        await here.resume()
        assert here.channel.sent == ["a", "b"]
        assert [type(line) for line in here.history()] == [UserLine, AssistantLine, UserLine]


async def test_messages_and_resuming_at_once_answer_each_message_once(store: SqliteStore) -> None:
    for number in range(3):
        await store.receive(message(f"waits {number}", f"w{number}"))
    async with scene(ScriptedModel(*["[SEND: hi]"] * 9), store=store) as here:
        new = [message(f"new {number}", f"n{number}") for number in range(3)]
        await asyncio.gather(here.resume(), *(here.engine.receive(each, here.channel) for each in new))
        await here.engine.settled()
        assert "Failed" not in here.kinds()
        await here.talk("more")
        told = "\n".join(line.text for line in here.history() if isinstance(line, UserLine))
        for text in ("waits", "new"):
            assert [told.count(f"{text} {number}") for number in range(3)] == [1, 1, 1]


async def test_a_second_crash_in_the_midst_of_it_does_no_harm(store: SqliteStore) -> None:
    said = message("hello", "m1")
    await crashed(store, said, ("send", "a", "", 0), ("send", "b", "", 0))

    class Dying(RecordingChannel):
        async def send(self, text: str, **how: Any) -> str | None:
            sent = await super().send(text, **how)
            if text == "a":
                raise StoreError("as if the process ended here: posted, and not recorded")
            return sent

    dying = Dying()
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume(dying)
        assert dying.sent == ["a"]
        assert len((await store.load(CONVERSATION)).unfinished) == 1
    alive = RecordingChannel()
    alive.posts, alive.nonces = dying.posts, dying.nonces
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume(alive)
        assert alive.sent == ["a", "b"]
        assert (await store.load(CONVERSATION)).lines[1:] == (AssistantLine("[SEND: a]\n[SEND: b]"),)


async def test_many_are_resumed_side_by_side_but_not_all_at_once(store: SqliteStore) -> None:
    for number in range(30):
        await store.receive(message("hello", "m", conversation=f"test:{number:02}"))
    channels = {f"test:{number:02}": RecordingChannel(f"test:{number:02}") for number in range(30)}

    async def open_channel(address: str) -> Channel | None:
        if address == "test:07":
            raise ChannelError("Not now.")
        if address == "test:08":
            raise ValueError("never")
        return channels[address]

    go_on = asyncio.Event()
    replies: list[Scripted] = [[go_on, "[SEND: hi]"]] * 30
    async with scene(ScriptedModel(*replies), store=store) as here:
        resuming = asyncio.create_task(here.engine.resume("test:", 0.0, open_channel))
        await until(lambda: here.engine.talking == 8)
        await asyncio.sleep(0.02)
        assert here.engine.talking == 8
        go_on.set()
        await resuming
        silent = [name for name, channel in channels.items() if channel.sent != ["hi"]]
        assert silent == ["test:07", "test:08"]
        assert here.engine.talking == 0


async def test_other_bots_conversations_are_left_alone(store: SqliteStore) -> None:
    await store.receive(message("hello", "m1", conversation="other:channel"))

    async def open_channel(address: str) -> Channel | None:
        raise AssertionError(address)

    async with scene(ScriptedModel(), store=store) as here:
        await here.engine.resume("test:", 0.0, open_channel)
        assert here.model.requests == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("done", "This was done"),
        ("unknown", "nobody knows"),
        (None, "nobody knows"),
        ("failed", ""),
        ("denied", ""),
    ],
)
async def test_what_a_tool_changed_before_the_crash_is_told_and_not_done_again(
    store: SqliteStore, outcome: AuditOutcome | None, told: str
) -> None:
    said = message("order eggs", "m1")
    turn = await crashed(store, said)
    for given in ('{"thing": "eggs"}', '{"thing": "' + "x" * 9_000):
        deed = Deed(CONVERSATION, "", turn, "Pixi", said.author.id, "order", given, "")
        number = await store.audit_begin(deed)
        if outcome is not None:
            await store.audit_end(number, outcome, 1.0)
    async with scene(ScriptedModel("[SEND: hello]"), store=store) as here:
        await here.resume()
        if not told:
            assert here.channel.sent == ["hello"]
            return
        words, asked, *answers, last, goes_on = here.history()
        assert "order eggs" in words.text
        assert isinstance(asked, AssistantLine)
        assert [(call.name, call.arguments) for call in asked.calls] == [
            ("order", '{"thing": "eggs"}'),
            ("order", "{}"),
        ]
        assert all(isinstance(line, ToolLine) and told in line.text for line in answers)
        assert [line.call_id for line in answers if isinstance(line, ToolLine)] == [
            call.id for call in asked.calls
        ]
        assert last == AssistantLine(SILENCE)
        assert BROKE_OFF in goes_on.text
        assert here.channel.sent == ["hello"]  # or they would wait for ever


async def test_who_was_told_nothing_of_a_change_and_is_not_answered_again_gets_a_word(
    store: SqliteStore,
) -> None:
    said = message("order eggs", "m1")
    turn = await a_turn(store, said)
    await planned(store, turn, ("send", "one moment"))
    await posted(store, turn, 1, "one moment", 0)
    await store.end_turn(turn, (UserLine("x"),), "cancelled", 0, Usage(), again=(said.id,))
    turn = await begun(store, CONVERSATION, 0, "Pixi", (said.id,))
    await store.audit_begin(Deed(CONVERSATION, "", turn, "Pixi", said.author.id, "order", "{}", ""))
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert here.model.requests == []
        assert here.channel.sent == ["brb, ink spilled"]


# Commands that had closed.


async def test_a_command_that_closed_is_performed_by_the_next_process(store: SqliteStore) -> None:
    said = message("hello", "m1")
    turn = await a_turn(store, said)
    await planned(store, turn, ("send", "a"), ("note", "hm"), ("send", "b"), ("react", "🥞"))
    await posted(store, turn, 1, "a", 0)
    await store.command_ended(turn, 0, "done")
    await store.mark_turn(turn, "written")
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert here.channel.sent == ["b"]
        assert here.channel.reactions == [(said.id, "🥞")]
        assert here.channel.posts[0].nonce == nonce_of(turn, 2, said.id)
        assert await lines_of(store) == ["[SEND: a]\n[NOTE: hm]\n[SEND: b]\n[REACT: 🥞]"]


class Silent(RecordingChannel):
    """Never answers what is to be posted; `asked` are the nonces."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def send(self, text: str, **how: Any) -> str | None:
        self.asked.append(how["nonce"])
        return await asyncio.Future()


async def test_an_end_in_the_midst_of_it_leaves_the_act_to_the_next_process(store: SqliteStore) -> None:
    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, ("send", "a"), ("send", "b"))
    await store.mark_turn(turn, "written")
    silent = Silent()
    async with scene(ScriptedModel(), store=store) as first:
        resuming = asyncio.create_task(first.resume(silent))
        await until(lambda: bool(silent.asked))
        resuming.cancel()
        await asyncio.wait([resuming])
    (left,) = (await store.load(CONVERSATION)).unfinished
    assert [effect.outcome for effect in left.effects] == [None]
    async with scene(ScriptedModel(), store=store) as second:
        await second.resume()
        assert second.channel.sent == ["a", "b"]
        assert second.channel.nonces[:1] == silent.asked
        assert await lines_of(store) == ["[SEND: a]\n[SEND: b]"]


async def test_of_a_message_half_of_which_stands_there_the_rest_is_posted(store: SqliteStore) -> None:
    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, ("send", "abcdef"))
    await posted(store, turn, 1, "ab", 0)
    await store.mark_turn(turn, "written")
    async with scene(ScriptedModel(), store=store, channel=RecordingChannel(part_length=2)) as here:
        await here.resume()
        assert here.channel.sent == ["cd", "ef"]
        assert await lines_of(store) == ["[SEND: abcdef]"]


async def test_what_was_posted_of_a_command_is_not_posted_again_and_what_was_written_not_gone_on_with(
    store: SqliteStore,
) -> None:
    """The process died after the act, and before the command's end was on record."""
    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, ("send", "a"))
    await posted(store, turn, 1, "a", 0)
    await store.mark_turn(turn, "written")
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert here.channel.sent == []
        assert await lines_of(store) == ["[SEND: a]"]
        assert here.model.requests == []
        assert "Failed" not in here.kinds()
        assert (await store.load(CONVERSATION)).waiting == ()


async def test_the_rest_of_a_reply_to_somebody_points_at_them_no_more(store: SqliteStore) -> None:
    """As in a turn, where its first part does alone."""
    turn = await a_turn(store, message("hello", "m1"))
    await store.plan(turn, [Planned(0, "send", "abcd", 1)])
    await posted(store, turn, 1, "ab", 0)
    await store.mark_turn(turn, "written")
    async with scene(ScriptedModel(), store=store, channel=RecordingChannel(part_length=2)) as here:
        await here.resume()
        assert [(post.text, post.reply_to) for post in here.channel.posts] == [("cd", None)]


async def test_no_act_of_a_command_is_repeated(store: SqliteStore) -> None:
    """Nor where it is no message, or a command makes several: nobody knows how far that one came."""

    def twice(addon: Addon) -> None:
        @addon.command(by_acts=True)
        async def shout(context: Context, text: str) -> None:
            """say it twice"""
            await context.send(text)
            await context.send(text)

    said = message("hello", "m1")
    turn = await a_turn(store, said)
    await planned(store, turn, ("react", "🥞"), ("shout", "hey"), ("send", "b"))
    await store.intend(turn, 1, "react", "🥞", command=0)
    await store.settle(turn, 1, "done")
    for sequence in (2, 3):
        await posted(store, turn, sequence, "hey", 1)
    await store.mark_turn(turn, "written")
    persona = replace(PIXI, commands=("send", "react", "shout"))
    async with scene(ScriptedModel(), persona=persona, addons=[twice], store=store) as here:
        await here.resume()
        assert here.channel.reactions == []
        assert here.channel.sent == ["b"]
        assert await lines_of(store) == ["[REACT: 🥞]\n[SEND: hey]\n[SEND: hey]\n[SEND: b]"]


async def test_a_command_of_an_addon_that_was_begun_is_told_and_not_repeated(store: SqliteStore) -> None:
    done: list[str] = []

    def shop(addon: Addon) -> None:
        @addon.command
        async def order(context: Context, thing: str) -> None:
            """order"""
            done.append(thing)

    turn = await a_turn(store, message("order eggs and milk", "m1"))
    await planned(store, turn, ("order", "eggs"), ("order", "milk"))
    await store.command_ended(turn, 0, "begun")
    await store.mark_turn(turn, "written")
    persona = replace(PIXI, commands=("send", "note", "order"))
    async with scene(ScriptedModel(), persona=persona, addons=[shop], store=store) as here:
        await here.resume()
        assert done == ["milk"]
        (line,) = await lines_of(store)
        assert line == "[NOTE: [ORDER: eggs] may or may not have been seen.]\n[ORDER: milk]"


@pytest.mark.parametrize("mark", ["stopped", "late", "withdrawn"])
async def test_what_was_stopped_or_is_too_old_or_was_taken_back_is_not_performed(
    store: SqliteStore, mark: str
) -> None:
    turn = await a_turn(store, message("hello", "m1", minutes_ago=20 * (mark == "late")))
    await planned(store, turn, ("send", "a"), ("send", "b"))
    await posted(store, turn, 1, "a", 0)
    if mark == "stopped":
        await store.mark_turn(turn, "stopped")
    if mark == "withdrawn":
        await store.withdraw(CONVERSATION, "m1")
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert here.channel.sent == []
        assert here.model.requests == []
        saved = await store.load(CONVERSATION)
        assert saved.unfinished == ()
        assert saved.waiting == ()
        assert await lines_of(store) == ["[SEND: a]"]
        assert ("Failed" in here.kinds()) == (mark == "late")  # people are told that nothing more comes


async def test_acts_of_a_message_that_is_taken_back_while_they_are_looked_for_are_not_done(
    store: SqliteStore,
) -> None:
    class TakenBack(RecordingChannel):
        async def sent_before(self, text: str, **how: Any) -> str | None:
            await here.engine.withdraw(CONVERSATION, "m1")
            return None

    acts = (("send", "a", "", 0), ("send", "b", "", 0), ("react", "🥞", "", 0))
    await crashed(store, message("hello", "m1"), *acts)
    async with scene(ScriptedModel(), store=store, channel=TakenBack()) as here:
        await here.resume()
        assert here.channel.sent == []
        assert here.channel.reactions == []
        assert [act.outcome for act in await effects_of(store)] == ["unknown"] * 3
        assert (await store.load(CONVERSATION)).unfinished == ()


async def test_acts_behind_one_under_which_the_message_is_taken_back_are_not_done(store: SqliteStore) -> None:
    class TakenBack(RecordingChannel):
        async def react(self, message_id: str, emoji: str, **how: Any) -> None:
            await here.engine.withdraw(CONVERSATION, "m1")
            await super().react(message_id, emoji, **how)

    await crashed(store, message("hello", "m1"), ("react", "🥞", "", 0), ("react", "👍", "", 0))
    async with scene(ScriptedModel(), store=store, channel=TakenBack()) as here:
        await here.resume()
        assert here.channel.reactions == [("m1", "🥞")]
        assert [act.outcome for act in await effects_of(store)] == ["done", "unknown"]


async def test_the_conversation_is_not_read_anew_for_each_command(store: SqliteStore) -> None:
    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, *[("send", str(number)) for number in range(6)])
    await store.mark_turn(turn, "written")
    loads = Gate(store, "load", when=lambda *_, **__: False)
    async with scene(ScriptedModel(), store=store) as here:
        await here.resume()
        assert here.channel.sent == ["0", "1", "2", "3", "4", "5"]
        assert loads.calls == 2  # before and after


@pytest.mark.parametrize("when", ["settled", "performed"])
async def test_what_is_taken_back_while_the_turn_is_finished_is_not_performed(
    store: SqliteStore, when: str
) -> None:
    class TakenBack(RecordingChannel):
        """Its message is deleted while the place looks for an act, or while a command is performed."""

        async def sent_before(self, text: str, **how: Any) -> str | None:
            if when == "settled":
                await here.engine.withdraw(CONVERSATION, "m1")
                return "sent:1"
            return await super().sent_before(text, **how)

        async def send(self, text: str, **how: Any) -> str | None:
            if when == "performed" and text == "b":
                await here.engine.withdraw(CONVERSATION, "m1")
            return await super().send(text, **how)

    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, ("send", "a"), ("send", "b"), ("send", "c"))
    await store.intend(turn, 1, "send", "a", command=0)
    async with scene(ScriptedModel(), store=store, channel=TakenBack()) as here:
        await here.resume()
        assert here.channel.sent == ([] if when == "settled" else ["a", "b"])
        assert here.model.requests == []
        assert (await store.load(CONVERSATION)).waiting == ()
        assert await lines_of(store) == ["[SEND: a]" if when == "settled" else "[SEND: a]\n[SEND: b]"]


async def test_thoughts_alone_are_thought_anew(store: SqliteStore) -> None:
    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, ("note", "hm"))
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await here.resume()
        assert await lines_of(store) == ["[SEND: hi]"]


# What the model had not written yet.


async def test_the_persona_goes_on_where_its_reply_broke_off(store: SqliteStore) -> None:
    turn = await a_turn(store, message("count to two", "m1"))
    await planned(store, turn, ("send", "one"))
    await posted(store, turn, 1, "one", 0)
    async with scene(ScriptedModel("[SEND: two]"), store=store) as here:
        await here.resume()
        assert here.channel.sent == ["two"]
        said, before, again = here.history()
        assert "count to two" in said.text
        assert before == AssistantLine("[SEND: one]")
        assert BROKE_OFF in again.text
        saved = await store.load(CONVERSATION)
        assert saved.waiting == ()
        assert saved.unfinished == ()


async def cut_twice(store: SqliteStore, said: Message) -> int:
    """A reply that was cut, came due again, and was cut once more."""
    turn = await a_turn(store, said)
    await planned(store, turn, ("send", "one"))
    await posted(store, turn, 1, "one", 0)
    await store.end_turn(turn, (UserLine("x"),), "cancelled", 0, Usage(), again=(said.id,))
    turn = await begun(store, CONVERSATION, 0, "Pixi", (said.id,))
    await planned(store, turn, ("send", "two"))
    await posted(store, turn, 1, "two", 0)
    return turn


@pytest.mark.parametrize("sorry", [(), ("where was I?",)])
async def test_it_is_asked_to_go_on_once(store: SqliteStore, sorry: tuple[str, ...]) -> None:
    await cut_twice(store, message("count to three", "m1"))
    async with scene(ScriptedModel(), persona=replace(PIXI, when_broken=sorry), store=store) as here:
        await here.resume()
        assert here.model.requests == []
        assert (await store.load(CONVERSATION)).waiting == ()
        assert here.channel.sent == list(sorry)
        assert ("Failed" in here.kinds()) is not bool(sorry)  # one word, in character if there is one


async def test_who_is_given_up_gets_a_word_also_where_others_come_again(store: SqliteStore) -> None:
    first, second = message("count to two", "m1"), replace(message("hello", "m2"), author=Author("2", "Mo"))
    turn = await a_turn(store, first)
    await planned(store, turn, ("send", "one"))
    await posted(store, turn, 1, "one", 0)
    await store.end_turn(turn, (UserLine("x"),), "cancelled", 0, Usage(), again=("m1",))
    await store.receive(second)
    turn = await begun(store, CONVERSATION, 0, "Pixi", ("m1", "m2"))
    await store.audit_begin(Deed(CONVERSATION, "", turn, "Pixi", "2", "order", "{}", ""))
    persona = replace(PIXI, when_broken=("sorry",))
    async with scene(ScriptedModel("[SEND: hi]"), persona=persona, store=store) as here:
        await here.resume()
        assert here.channel.sent == ["sorry", "hi"]
        assert "count to two" not in here.history()[-1].text


async def test_a_word_that_was_said_before_the_process_ended_is_not_said_again(store: SqliteStore) -> None:
    said = message("count to three", "m1")
    turn = await cut_twice(store, said)
    await store.intend(turn, 65_535, "send", "brb, ink spilled")
    async with scene(ScriptedModel(), store=store) as here:
        await here.channel.send("brb, ink spilled", nonce=nonce_of(turn, 65_535, said.id))
        await here.resume()
        assert here.channel.sent == ["brb, ink spilled"]
        assert here.kinds() == ["TalkChanged"]
        assert (await store.load(CONVERSATION)).unfinished == ()


async def test_of_several_who_asked_those_come_again_who_were_not_answered(store: SqliteStore) -> None:
    asked = [replace(message(f"question {n}", f"m{n}"), author=Author(f"{n}", f"Mo{n}")) for n in (1, 2, 3)]
    turn = await a_turn(store, *asked)
    await store.plan(turn, [Planned(0, "send", "one", 1)])
    await store.intend(turn, 1, "send", "one", target=1, command=0)
    await store.settle(turn, 1, "done", "sent:1")
    async with scene(ScriptedModel("[SEND: two and three]"), store=store) as here:
        await here.resume()
        told = here.history()[-1].text
        assert "question 1" not in told
        assert "question 2" in told
        assert "question 3" in told
        assert here.channel.sent == ["two and three"]


async def test_where_nobody_can_be_told_the_log_does(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    turn = await a_turn(store, message("hello", "m1"))
    await planned(store, turn, ("send", "a"))
    await posted(store, turn, 1, "a", 0)

    async def gone(_: str) -> Channel | None:
        return None

    async with scene(ScriptedModel(), store=store) as here:
        await here.engine.resume("test:", 0.0, gone)
        assert here.model.requests == []
    assert "cut off" in caplog.text


# Where the place is away, or forgets.


class Away(RecordingChannel):
    """Cannot be asked what became of an act, for a while or ever."""

    def __init__(self, error: ChannelLost) -> None:
        super().__init__()
        self.error: ChannelLost | None = error
        self.asked: list[float] = []

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        self.asked.append(time.monotonic())
        if self.error is not None:
            raise self.error
        return await super().sent_before(text, nonce=nonce, after=after)


async def test_newer_messages_wait_until_the_fate_of_an_act_is_known(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    away = Away(ChannelLost("away"))
    async with scene(ScriptedModel("[SEND: b]"), store=store, channel=away) as here:
        resuming = asyncio.create_task(here.resume())
        await here.engine.receive(message("well?", "m2"), away)
        await asyncio.sleep(60)
        assert here.model.requests == []
        assert away.sent == []
        away.error = None
        await resuming
        await here.engine.settled()
        assert away.sent == ["a", "b"]
        pauses = [after - before for before, after in pairwise(away.asked)]
        assert len(away.asked) < 20
        assert max(pauses) > 10


async def test_what_cannot_be_found_out_in_time_is_told(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    away = Away(ChannelLost("away"))
    async with scene(ScriptedModel("[SEND: b]"), store=store, channel=away) as here:
        await here.resume()
        assert 900 <= away.asked[-1] - away.asked[0] < 1_000
        assert [act.outcome for act in await effects_of(store)] == ["unknown"]
        assert await lines_of(store) == ["[NOTE: [SEND: a] may or may not have been seen.]"]
        await here.engine.receive(message("well?", "m2"), away)
        await here.engine.settled()
        assert away.sent == ["b"]


async def test_where_a_place_forgets_it_is_told_at_once(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    forgetful = Away(ChannelForgot("nobody knows"))
    async with scene(ScriptedModel(), store=store, channel=forgetful) as here:
        await here.resume()
        assert len(forgetful.asked) == 1
        assert forgetful.sent == []
        assert await lines_of(store) == ["[NOTE: [SEND: a] may or may not have been seen.]"]


async def test_a_talk_whose_place_went_away_in_its_midst_goes_on_by_itself(store: SqliteStore) -> None:
    class Shaky(Away):
        async def send(self, text: str, **how: Any) -> str | None:
            if self.error is not None and text != "a":
                raise self.error
            return await super().send(text, **how)

    shaky = Shaky(ChannelLost("away"))
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]\n[SEND: c]"), store=store, channel=shaky) as here:
        await here.say("hello")
        await asyncio.sleep(30)
        assert shaky.sent == ["a"]
        shaky.error = None
        await here.engine.settled()
        assert shaky.sent == ["a", "b", "c"]
        assert await lines_of(store) == ["[SEND: a]\n[SEND: b]\n[SEND: c]"]
