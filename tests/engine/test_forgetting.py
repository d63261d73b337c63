"""A person who wants to be forgotten is: in the store, in memory, and in what is being written."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pixi.core.errors import StoreError
from pixi.core.memory import Memory
from pixi.core.message import Author
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import Scene, scene
from tests.waiting import until

MO, ANA = Author("1", "Mo"), Author("2", "Ana")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteStore, None]:
    opened = await SqliteStore.open(tmp_path / "pixi.db")
    yield opened
    await opened.close()


def told(here: Scene) -> str:
    return "\n".join(line.text for line in here.history())


async def test_what_they_said_is_not_told_again_and_others_words_are(store: SqliteStore) -> None:
    async with scene(ScriptedModel(*["[SEND: hm]"] * 9), store=store) as here:
        await here.say("my secret", author=MO)
        await here.engine.settled()
        await here.say("i like tea", author=ANA)
        await here.engine.settled()
        elsewhere = RecordingChannel("test:elsewhere")
        await here.engine.receive(elsewhere.message("my secret", author=MO), elsewhere)
        await here.engine.settled()
        assert await here.engine.forget(MO.id) == 2
        await here.say("and now?", author=ANA)
        await here.engine.settled()
        assert "secret" not in told(here)
        assert "i like tea" in told(here)
        assert await here.engine.forget(MO.id) == 0


async def test_a_reply_to_them_ends_and_does_not_come_back(store: SqliteStore) -> None:
    async with scene(ScriptedModel(["[SEND: a]", asyncio.Event()], "[SEND: b]"), store=store) as here:
        await here.say("my secret", author=MO)
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.forget(MO.id)
        assert here.engine.talking == 0
        assert here.model.streaming == 0
        await here.say("hello", author=ANA)
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert "secret" not in told(here)
        assert "[SEND: a]" not in told(here)


async def test_what_they_said_and_what_still_waits_is_never_answered(store: SqliteStore) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel(["[SEND: a", go_on, "]"], "[SEND: b]", "[SEND: c]")
    async with scene(model, store=store, growing=True) as here:
        await here.say("i like tea", author=ANA)
        await until(lambda: "Opened" in here.kinds())
        await here.say("my secret", author=MO)
        await here.engine.forget(MO.id)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a"]
        await here.say("hello", author=ANA)
        await here.engine.settled()
        assert "secret" not in told(here)
        assert "i like tea" in told(here)
        assert "Failed" not in here.kinds()


async def test_somebody_nobody_knows_changes_nothing(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: a]"), store=store) as here:
        await here.talk("hello")
        assert await here.engine.forget("nobody") == 0


# In another process, which shares the store alone.


async def elsewhere(tmp_path: Path, person: str) -> None:
    other = await SqliteStore.open(tmp_path / "pixi.db")
    await other.forget(person)
    await other.close()


async def test_what_another_process_had_forgotten_is_not_told_again(
    store: SqliteStore, tmp_path: Path
) -> None:
    async with scene(ScriptedModel(*["[SEND: hm]"] * 9), store=store) as here:
        await here.say("my secret", author=MO)
        await here.engine.settled()
        await here.say("i like tea", author=ANA)
        await here.engine.settled()
        await here.say("a secret, overheard", author=MO, addressed=False)
        await elsewhere(tmp_path, MO.id)
        await here.say("and now?", author=ANA)
        await here.engine.settled()
        assert "secret" not in told(here)
        assert "i like tea" in told(here)
        assert here.channel.sent == ["hm"] * 3, "it is answered, once"
        assert "Failed" not in here.kinds()
        assert here.kinds().count("TurnEnded") == 3


async def test_whoever_is_forgotten_elsewhere_before_the_turn_begins_is_not_answered(
    store: SqliteStore, tmp_path: Path
) -> None:
    async with scene(ScriptedModel("[SEND: a]", "[SEND: b]"), store=store, gather_seconds=0.3) as here:
        await here.say("i like tea", author=ANA)
        await here.engine.settled()
        await here.say("my secret", author=MO)
        await elsewhere(tmp_path, MO.id)
        await here.engine.settled()
        assert here.channel.sent == ["a"]
        assert len(here.model.requests) == 1
        assert "Failed" not in here.kinds()


async def test_a_reply_to_whoever_is_forgotten_elsewhere_ends_when_that_is_seen(
    store: SqliteStore, tmp_path: Path
) -> None:
    async with scene(ScriptedModel(["[SEND: a]", asyncio.Event()], "[SEND: b]"), store=store) as here:
        await here.say("my secret", author=MO)
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.evict()
        assert here.engine.talking == 1, "nobody was forgotten yet"
        await elsewhere(tmp_path, MO.id)
        await here.engine.evict()
        await here.engine.settled()
        assert here.channel.ended[-1].finish == "cancelled"
        assert here.model.streaming == 0
        await here.say("hello", author=ANA)
        await here.engine.settled()
        assert "secret" not in told(here)


async def test_listeners_hear_of_every_talk_that_lost_words_elsewhere(
    store: SqliteStore, tmp_path: Path
) -> None:
    told = list[tuple[str, ...]]()
    async with scene(ScriptedModel(*["[SEND: a]"] * 3), store=store) as here:
        other = RecordingChannel("test:elsewhere")
        await here.say("my secret", author=MO)
        await here.engine.receive(other.message("i like tea", author=ANA), other)
        await here.engine.settled()
        here.engine.on_forget.append(lambda person, talks: told.append((person, *talks)))
        await elsewhere(tmp_path, MO.id)
        await here.engine.evict()
        await elsewhere(tmp_path, ANA.id)
        await here.engine.evict()
        await here.engine.forgotten(MO.id)
        await here.engine.forgotten(ANA.id)
        assert told == [(MO.id, here.channel.conversation, "test:elsewhere"), (ANA.id,)]
        told.clear()
        await here.say("hello", author=ANA)
        await here.engine.settled()
        assert await here.engine.take_back(here.channel.conversation)
        await here.engine.evict()
        assert told == [], "of a talk that was only rewound, nothing is dropped"


async def test_the_reply_to_another_goes_on(store: SqliteStore, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel("[SEND: a]", ["[SEND: b]", go_on, "[SEND: c]"]), store=store) as here:
        await here.say("my secret", author=MO)
        await here.engine.settled()
        await here.say("i like tea", author=ANA)
        await until(lambda: here.channel.sent == ["a", "b"])
        await elsewhere(tmp_path, MO.id)
        await here.engine.evict()
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b", "c"]


async def test_nothing_is_remembered_of_whoever_was_forgotten_in_the_same_turn(
    store: SqliteStore, tmp_path: Path
) -> None:
    async with scene(ScriptedModel(["[SEND: a]", asyncio.Event()]), store=store) as here:
        message = await here.say("i have a secret", author=MO)
        await until(lambda: here.channel.sent == ["a"])
        await elsewhere(tmp_path, MO.id)
        fact = Memory(0, "Pixi", MO.id, "", message.conversation, "one", "has a secret", 1.0)
        with pytest.raises(StoreError, match="was forgotten"):
            await store.remember(fact, message_id=message.id)
        assert await store.memories(MO.id, "Pixi") == ()
        await here.engine.stop(message.conversation)
