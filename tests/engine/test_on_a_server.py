"""The engine with its store on a PostgreSQL server, which goes away in the midst of turns."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pixi.core.errors import StoreError
from pixi.core.events import Failed
from pixi.core.llm import AssistantLine
from pixi.store.postgres import store as postgres_connection
from pixi.store.postgres.store import PostgresStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import scene
from tests.servers.postgres import Postgres
from tests.waiting import until

pytestmark = pytest.mark.nightly


@pytest.fixture
async def store(postgres: Postgres) -> AsyncIterator[PostgresStore]:
    with postgres.schema() as schema:
        store = await PostgresStore.open(postgres.url(schema))
        yield store
        await store.close()


async def test_a_talk_goes_on_after_a_new_start_and_is_forgotten_when_asked(store: PostgresStore) -> None:
    channel = RecordingChannel()
    async with scene(ScriptedModel("[SEND: one]", "[REACT: 🥞]"), store=store, channel=channel) as here:
        await here.talk("hi", "pancakes!")
        assert channel.sent == ["one"]
    async with scene(ScriptedModel("[SEND: three]", "[SEND: who?]"), store=store, channel=channel) as here:
        await here.talk("and now?")
        assert here.replies() == ["[SEND: one]", "[REACT: 🥞]"]
        await here.engine.reset(channel.conversation)
        await here.talk("hello")
        assert here.replies() == []


async def test_a_server_that_is_started_again_while_a_reply_is_written(
    store: PostgresStore, postgres: Postgres
) -> None:
    stopped = asyncio.Event()
    model = ScriptedModel(["[SEND: one]", stopped, "\n[SEND: two]\n[SEND: three]"], "[SEND: four]")
    async with scene(model, store=store) as here:
        await here.say("hi")
        await until(lambda: here.channel.sent == ["one"])
        postgres.stop()
        stopped.set()
        await until(lambda: model.streaming == 0)
        assert here.channel.sent == ["one"], "nothing is said that is not on record"
        postgres.start()
        await here.engine.settled()
        assert here.channel.sent == ["one", "two", "three"]
        await here.talk("more!")
        assert here.replies() == ["[SEND: one]\n[SEND: two]\n[SEND: three]"]
        assert here.channel.sent == ["one", "two", "three", "four"]
    assert len(model.requests) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_goes_while_many_talk(
    store: PostgresStore, postgres: Postgres, mode: str
) -> None:
    model = ScriptedModel(*(f"[SEND: reply {number}]" for number in range(30)))
    async with scene(model, store=store) as here:
        for number in range(30):
            if number % 10 == 5:
                postgres.stop(mode)
                postgres.start()
            await here.talk(f"message {number}")
        assert here.channel.sent == [f"reply {number}" for number in range(30)]
        saved = await store.load(here.channel.conversation)
        assert [line.text for line in saved.lines if isinstance(line, AssistantLine)] == [
            f"[SEND: reply {number}]" for number in range(30)
        ]
        assert (saved.waiting, saved.unfinished) == ((), ())


@pytest.mark.nightly
async def test_a_server_that_stays_away_is_told_of_once_and_the_turn_is_finished_later(
    store: PostgresStore, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "AWAY_SECONDS", 0.2)
    stopped = asyncio.Event()
    model = ScriptedModel(["[SEND: one]", stopped, "[SEND: two]"], "[SEND: three]")
    async with scene(model, store=store) as here:
        await here.say("hi")
        await until(lambda: here.channel.sent == ["one"])
        postgres.stop()
        try:
            stopped.set()
            await here.engine.settled()
            failed = [event for event in here.channel.events if isinstance(event, Failed)]
            assert len(failed) == 1
            assert "no server answers there" in failed[0].text
            with pytest.raises(StoreError, match="no server answers there"):
                await here.say("are you there?")
        finally:
            postgres.start()
        await here.talk("and now?")
        assert here.channel.sent == ["one", "three"]
        assert here.replies() == ["[SEND: one]"], "what was said is known, though nobody could record its end"
        assert here.kinds().count("Failed") == 1
