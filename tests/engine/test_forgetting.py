"""A person who wants to be forgotten is: in the store, in memory, and in what is being written."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pixi.core.message import Author
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import Scene, scene, until

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
