"""After a crash: what was half-done is finished once, and what waits is answered."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from pixi.channels.channel import Channel
from pixi.core.errors import ChannelElsewhere, ChannelError, ChannelLost, StoreError
from pixi.core.events import Reacted, Sent
from pixi.core.lines import AssistantLine, ToolLine, UserLine
from pixi.core.message import Message
from pixi.engine.acts import nonce_of
from pixi.store.kept import AuditOutcome, Deed, Effect
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.scripted_model import Scripted
from tests.engine.scene import Scene, scene
from tests.waiting import until

CONVERSATION = "test:channel"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteStore, None]:
    opened = await SqliteStore.open(tmp_path / "pixi.db")
    yield opened
    await opened.close()


def message(text: str, name: str, *, minutes_ago: float = 0, conversation: str = CONVERSATION) -> Message:
    written = RecordingChannel(conversation).message(text, id=name)
    return replace(written, sent_at=written.sent_at - 60 * minutes_ago)


async def crashed(store: SqliteStore, said: Message, *acts: tuple[str, str, str, int]) -> int:
    """A turn that a process began and did not end: (kind, payload, outcome, target) of each act."""
    await store.receive(said)
    turn = await store.begin_turn(said.conversation, 0, "Pixi", (said.id,))
    for sequence, (kind, payload, outcome, target) in enumerate(acts, 1):
        await store.intend(turn, sequence, kind, payload, target=target)
        if outcome == "done":
            await store.settle(turn, sequence, "done", f"sent:{sequence}")
    return turn


async def resume(here: Scene, *, since: float = 0.0, channel: Channel | None = None) -> None:
    async def open_channel(address: str) -> Channel | None:
        assert address == CONVERSATION
        return channel or here.channel

    await here.engine.resume("test:", since, open_channel)


async def effects_of(store: SqliteStore) -> tuple[Effect, ...]:
    return (await store.turns(CONVERSATION, 9))[-1].effects


async def test_what_was_posted_and_not_recorded_is_found_and_not_posted_again(store: SqliteStore) -> None:
    said = message("hello", "m1")
    turn = await crashed(store, said, ("send", "a", "done", 0), ("send", "b", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        posted = await here.channel.send("b", nonce=nonce_of(turn, 2, said))
        await resume(here)
        assert here.channel.sent == ["b"]
        assert here.channel.events == []
        acts = await effects_of(store)
        assert [(act.outcome, act.platform_id) for act in acts] == [("done", "sent:1"), ("done", posted)]
        lines = (await store.load(CONVERSATION)).lines
        assert lines[1:] == (AssistantLine("[SEND: a]\n[SEND: b]"),)


async def test_what_was_not_posted_is_posted_now_under_its_old_nonce(store: SqliteStore) -> None:
    said = message("hello", "m1", minutes_ago=5)
    turn = await crashed(store, said, ("send", "a", "", 0), ("react", "🥞", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        await resume(here)
        (post,) = here.channel.posts
        assert (post.text, post.nonce, post.answers) == ("a", nonce_of(turn, 1, said), said.id)
        assert here.channel.reactions == [(said.id, "🥞")]
        assert here.channel.events == [Sent("a"), Reacted("🥞")]
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
        await resume(here)
        assert [post.reply_to for post in here.channel.posts] == ["m0"]
        assert here.channel.reactions == [("m0", "🥞")]
        assert [act.outcome for act in await effects_of(store)] == ["done", "done", "unknown"]
        lines = (await store.load(CONVERSATION)).lines
        assert lines[1:] == (AssistantLine("[SEND #1: nice]\n[REACT #1: 🥞]"),)


async def test_what_is_too_old_is_looked_for_and_not_done_any_more(store: SqliteStore) -> None:
    said = message("hello", "m1", minutes_ago=20)
    turn = await crashed(store, said, ("send", "a", "", 0), ("send", "b", "", 0), ("react", "🥞", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        await here.channel.send("a", nonce=nonce_of(turn, 1, said))
        await resume(here)
        assert here.channel.sent == ["a"]
        assert here.channel.reactions == []
        assert [act.outcome for act in await effects_of(store)] == ["done", "unknown", "unknown"]
        assert (await store.load(CONVERSATION)).lines[1:] == (AssistantLine("[SEND: a]"),)


async def test_how_old_that_is_can_be_said(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1", minutes_ago=20), ("send", "a", "", 0))
    async with scene(ScriptedModel(), store=store, finish_seconds=3_600) as here:
        await resume(here)
        assert here.channel.sent == ["a"]


class Hesitant(SqliteStore):
    """Records nothing until it may; everything else is done at once."""

    may: asyncio.Event
    asked: asyncio.Event

    async def receive(self, message: Message) -> Message | None:
        self.asked.set()
        await self.may.wait()
        return await super().receive(message)


@pytest.mark.parametrize("turn_begun", [False, True])
async def test_what_waits_is_answered_also_while_it_comes_in_once_more(
    tmp_path: Path, turn_begun: bool
) -> None:
    said = message("hello", "m1")
    before = await SqliteStore.open(tmp_path / "pixi.db")
    await (crashed(before, said) if turn_begun else before.receive(said))
    await before.close()
    store = await Hesitant.open(tmp_path / "pixi.db")
    assert isinstance(store, Hesitant)
    store.may, store.asked = asyncio.Event(), asyncio.Event()
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        again = asyncio.create_task(here.engine.receive(said, here.channel))
        await store.asked.wait()
        await resume(here)
        store.may.set()
        await again
        await here.engine.settled()
        assert here.channel.sent == ["hi"]
    await store.close()


class Stern(RecordingChannel):
    """Refuses, is lost, or breaks."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ChannelError("no"), "refused"), (ChannelLost("gone"), "unknown"), (OSError("broken"), "unknown")],
)
async def test_what_a_channel_makes_of_it_is_on_record(
    store: SqliteStore, error: Exception, outcome: str
) -> None:
    await crashed(store, message("hello", "m1"), ("send", "a", "", 0))
    async with scene(ScriptedModel(), store=store) as here:
        await resume(here, channel=Stern(error))
        assert [act.outcome for act in await effects_of(store)] == [outcome]
        assert (await store.load(CONVERSATION)).unfinished == ()


async def test_a_turn_of_which_nothing_is_on_record_is_answered_anew(store: SqliteStore) -> None:
    await crashed(store, message("hello", "m1"))
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await resume(here)
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
        await resume(here)
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
        await resume(here)
        assert here.channel.sent == ["a", "b"]
        assert [type(line) for line in here.history()] == [UserLine, AssistantLine, UserLine]


async def test_messages_and_resuming_at_once_answer_each_message_once(store: SqliteStore) -> None:
    for number in range(3):
        await store.receive(message(f"waits {number}", f"w{number}"))
    async with scene(ScriptedModel(*["[SEND: hi]"] * 9), store=store) as here:
        new = [message(f"new {number}", f"n{number}") for number in range(3)]
        await asyncio.gather(resume(here), *(here.engine.receive(each, here.channel) for each in new))
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
        async def send(
            self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
        ) -> str | None:
            sent = await super().send(text, nonce=nonce, answers=answers, reply_to=reply_to)
            if text == "a":
                raise StoreError("as if the process ended here: posted, and not recorded")
            return sent

    dying = Dying()
    async with scene(ScriptedModel(), store=store) as here:
        await resume(here, channel=dying)
        assert dying.sent == ["a"]
        assert len((await store.load(CONVERSATION)).unfinished) == 1
    alive = RecordingChannel()
    alive.posts, alive.nonces = dying.posts, dying.nonces
    async with scene(ScriptedModel(), store=store) as here:
        await resume(here, channel=alive)
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
        await resume(here)
        if not told:
            assert here.channel.sent == ["hello"]
            return
        assert here.model.requests == []
        _, asked, *answers, last = (await store.load(CONVERSATION)).lines
        assert isinstance(asked, AssistantLine)
        assert [(call.name, call.arguments) for call in asked.calls] == [
            ("order", '{"thing": "eggs"}'),
            ("order", "{}"),
        ]
        assert all(isinstance(line, ToolLine) and told in line.text for line in answers)
        assert [line.call_id for line in answers if isinstance(line, ToolLine)] == [
            call.id for call in asked.calls
        ]
        assert here.channel.sent == ["brb, ink spilled"]  # or they would wait for ever
        assert last == AssistantLine("[SEND: brb, ink spilled]")
        await here.talk("and?")
        assert here.channel.sent == ["brb, ink spilled", "hello"]
