"""What is promised to those who talk, in one process and in parts: one answer, in order, one at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pixi.app.cluster.gateway import Recorder
from pixi.app.cluster.queue import open_queue
from pixi.engine import Engine
from pixi.store.opening import open_store
from pixi.testing import ScriptedModel
from tests.app.cluster.house import TALK, House, working
from tests.engine.scene import PIXI
from tests.servers.postgres import Postgres
from tests.waiting import until


@pytest.fixture(params=["one process", "in parts"])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    model = ScriptedModel()
    if request.param == "one process":
        store = await open_store(":memory:")
        async with Engine(model=model, persona=PIXI, store=store) as engine:
            yield House(engine, store, model)
        await store.close()
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.schema() as schema:
        url = server.url(schema)
        store, workers = await open_store(url), await open_store(url)
        async with (
            open_queue(url) as queue,
            open_queue(url) as other,
            Engine(model=model, persona=PIXI, store=workers) as engine,
        ):
            house = House(Recorder(store, queue), store, model)
            async with working(engine, workers, other, house):
                yield house
        await workers.close()
        await store.close()


async def test_a_message_is_answered_once_however_often_it_comes(house: House) -> None:
    house.model.add("[SEND: a]", "[SEND: b]")
    message = await house.say("hi")
    await house.intake.receive(message, house.channel())
    await house.rests()
    await house.intake.receive(message, house.channel())
    await house.say("and?")
    await until(lambda: len(house.said()) == 2)
    await house.rests()
    assert house.said() == ["a", "b"]
    assert len(house.model.requests) == 2


async def test_conversations_are_answered_side_by_side_each_in_order(house: House) -> None:
    go_on = asyncio.Event()
    house.model.add(["[SEND: a]\n[SEND: aa", go_on, "]"], "[SEND: other]", "[SEND: b]")
    await house.say("one")
    await until(house.said)
    await house.say("elsewhere", conversation="discord:1:3:pixi")
    await until(lambda: house.said("discord:1:3:pixi"))
    await house.say("two", by="8")
    go_on.set()
    await until(lambda: len(house.said()) == 3)
    await house.rests()
    assert house.said() == ["a", "aa", "b"]
    assert "two" in house.asked()


async def test_what_comes_before_anything_was_seen_is_answered_along(house: House) -> None:
    house.model.add([asyncio.Event()], "[SEND: both]")
    await house.say("one")
    await until(lambda: house.model.requests)
    await house.say("two")
    await until(house.said)
    await house.rests()
    assert house.said() == ["both"]
    assert "one" in house.asked()
    assert "two" in house.asked()


async def test_an_edit_before_anything_was_seen_is_answered(house: House) -> None:
    house.model.add([asyncio.Event()], "[SEND: waffles!]")
    message = await house.say("pancakes?")
    await until(lambda: house.model.requests)
    await house.intake.edit(TALK, message.id, "waffles?")
    await until(house.said)
    await house.rests()
    assert "waffles?" in house.asked()
    assert "pancakes" not in house.asked()


async def test_a_message_that_was_deleted_is_not_answered(house: House) -> None:
    house.model.add([asyncio.Event()], "[SEND: to two]")
    message = await house.say("one")
    await until(lambda: house.model.requests)
    await house.intake.withdraw(TALK, message.id)
    await until(lambda: not house.model.streaming)
    await house.rests()
    assert house.said() == []
    await house.say("two")
    await until(house.said)
    assert "one" not in house.asked()


async def test_a_stop_ends_the_reply_and_what_was_said_stands(house: House) -> None:
    assert not await house.intake.stop(TALK)
    house.model.add(["[SEND: a]\n[SEND: ", asyncio.Event()])
    await house.say("hi")
    await until(house.said)
    assert await house.intake.stop(TALK)
    await house.rests()
    assert house.said() == ["a"]
    assert not house.model.streaming


async def test_a_reset_ends_the_reply_and_forgets(house: House) -> None:
    house.model.add("[SEND: a]", ["[SEND: b]\n[SEND: ", asyncio.Event()], "[SEND: new]")
    await house.say("strawberries")
    await until(house.said)
    await house.rests()
    await house.say("hi")
    await until(lambda: len(house.said()) == 2)
    await house.intake.reset(TALK)
    await until(lambda: not house.model.streaming)
    await house.say("who am I?")
    await until(lambda: len(house.said()) == 3)
    assert house.said() == ["a", "b", "new"]
    assert "strawberries" not in str(house.model.requests[-1].lines)


async def test_who_is_forgotten_is_not_answered(house: House) -> None:
    house.model.add("[SEND: a]", "[SEND: b]")
    await house.say("strawberries")
    await until(house.said)
    await house.rests()
    assert await house.intake.forget("7") == 1
    await house.say("hi", by="8")
    await until(lambda: len(house.said()) == 2)
    assert "strawberries" not in str(house.model.requests[-1].lines)
