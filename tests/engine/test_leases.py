"""Several engines on one store: a conversation has one owner at a time, and nothing is answered twice."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.core.channel import TAKEN_OVER, Channel
from pixi.core.errors import LeaseHeld
from pixi.core.events import Failed
from pixi.core.llm import AssistantLine, UserLine
from pixi.engine import engine
from pixi.store.kept import SavedConversation
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.gate import FULL, Gate
from tests.engine.scene import Scene, scene
from tests.held_clock import HeldClock
from tests.waiting import until, within

CONVERSATION = "test:channel"


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[list[SqliteStore], None]:
    opened = [await SqliteStore.open(tmp_path / "pixi.db") for _ in range(2)]
    yield opened
    for store in opened:
        await store.close()


@asynccontextmanager
async def two(
    stores: list[SqliteStore], first: ScriptedModel, second: ScriptedModel
) -> AsyncGenerator[tuple[Scene, Scene], None]:
    """Two processes in one conversation: what is posted by either stands in the same place."""
    channels = RecordingChannel(), RecordingChannel()
    channels[1].posts, channels[1].nonces = channels[0].posts, channels[0].nonces
    async with (
        scene(first, store=stores[0], channel=channels[0]) as here,
        scene(second, store=stores[1], channel=channels[1]) as there,
    ):
        yield here, there


async def say(scene: Scene, text: str) -> None:
    await scene.engine.receive(scene.channel.message(text, id=text), scene.channel)


async def said(store: SqliteStore) -> list[str]:
    saved = await store.load(CONVERSATION)
    assert saved.unfinished == ()
    assert saved.waiting == ()
    return [line.text for line in saved.lines if isinstance(line, AssistantLine)]


async def test_while_one_answers_the_other_waits(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel(["[SEND: a", go_on, "]"]), ScriptedModel("[SEND: b]")) as (
        here,
        there,
    ):
        await say(here, "one")
        await until(lambda: here.channel.typed)
        await say(there, "two")
        await asyncio.sleep(30)
        assert there.model.requests == []
        go_on.set()
        await asyncio.gather(here.engine.settled(), there.engine.settled())
        assert here.channel.sent == ["a", "b"]
        assert there.replies() == ["[SEND: a]"]
        assert "Failed" not in (*here.kinds(), *there.kinds())
    assert await said(stores[0]) == ["[SEND: a]", "[SEND: b]"]


async def test_an_owner_at_rest_gives_way_at_once(stores: list[SqliteStore], clock: HeldClock) -> None:
    async with two(
        stores, ScriptedModel("[SEND: a]", "[SEND: c]"), ScriptedModel("[SEND: b]", "[SEND: d]")
    ) as (here, there):
        began = clock.time()
        for number, process in enumerate((here, there, here, there)):
            await say(process, f"m{number}")
            await process.engine.settled()
        assert clock.time() - began < 1  # nobody waited for a lease
        assert here.channel.sent == ["a", "b", "c", "d"]
        assert there.replies() == ["[SEND: a]", "[SEND: b]", "[SEND: c]"]
    assert await said(stores[1]) == ["[SEND: a]", "[SEND: b]", "[SEND: c]", "[SEND: d]"]


async def test_what_another_process_answered_is_not_answered_again(stores: list[SqliteStore]) -> None:
    """Whoever of them is quicker answers; the other sees that the message waits no more."""
    go_on = asyncio.Event()
    model = ScriptedModel(["[SEND: a", go_on, "]"], [60.0, "[SEND: b]"])
    async with two(stores, model, model) as (here, there):
        await say(here, "one")
        await until(lambda: here.channel.typed)
        await say(there, "two")
        go_on.set()
        resuming = asyncio.create_task(here.resume())
        await there.engine.settled()
        await resuming
        await here.engine.settled()
        assert len(model.requests) == 2
        assert here.channel.sent == ["a", "b"]
    assert await said(stores[0]) == ["[SEND: a]", "[SEND: b]"]


async def test_what_came_to_both_is_answered_together_with_what_came_later(stores: list[SqliteStore]) -> None:
    """Two bots hear everything, and each records some of it: whoever answers next answers all that waits."""
    go_on = asyncio.Event()
    model = ScriptedModel(["[SEND: a]\n[NOTE: ", go_on, "hm]"], "[SEND: b]")
    async with two(stores, model, model) as (here, there):
        await say(here, "one")
        await until(lambda: here.channel.sent)
        await say(there, "two")
        await say(here, "two")
        await say(here, "three")
        go_on.set()
        await asyncio.gather(here.engine.settled(), there.engine.settled())
        assert len(model.requests) == 2
        shown = model.requests[-1].lines[-1].text
        assert shown.index("two") < shown.index("three")
        assert here.channel.sent == ["a", "b"]


async def test_what_came_to_both_is_answered_though_who_recorded_it_ended(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel(["[SEND: a", go_on, "]"], "[SEND: b]"), ScriptedModel()) as (
        here,
        there,
    ):
        await say(here, "one")
        await until(lambda: here.channel.typed)
        await say(there, "two")
        await say(here, "two")
        await there.engine.drain(1)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
    assert await said(stores[0]) == ["[SEND: a]", "[SEND: b]"]


async def test_what_comes_twice_to_one_process_alone_is_answered_once(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel("[SEND: a]", ["[SEND: b", go_on, "]"])
    async with two(stores, model, ScriptedModel()) as (here, _):
        await say(here, "one")
        await here.engine.settled()
        await say(here, "two")
        await until(lambda: here.channel.typed == 2)
        await say(here, "one")
        await say(here, "two")
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert len(here.model.requests) == 2


async def test_what_a_living_process_is_at_is_no_crash(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel(["[SEND: a]\n[SEND: b", go_on, "]"]), ScriptedModel()) as (
        here,
        there,
    ):
        await say(here, "one")
        await until(lambda: here.channel.sent == ["a"])
        resuming = asyncio.create_task(there.resume())
        await asyncio.sleep(10)
        assert not resuming.done()
        go_on.set()
        await resuming
        assert here.channel.sent == ["a", "b"]
    assert await said(stores[0]) == ["[SEND: a]\n[SEND: b]"]


async def test_a_reply_under_way_holds_up_nothing_that_a_dead_process_left(
    stores: list[SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_RESUMED_AT_ONCE", 1)
    left = RecordingChannel("test:left")

    async def open_channel(address: str) -> Channel | None:
        return left if address == left.conversation else here.channel

    model = ScriptedModel(["[SEND: a]", asyncio.Event()], "[SEND: b]")
    async with scene(model, store=stores[0]) as here:
        await say(here, "one")
        await until(lambda: here.channel.sent)
        await stores[1].receive(left.message("two"))
        resuming = asyncio.create_task(here.engine.resume("test:", 0.0, open_channel))
        await until(lambda: left.sent == ["b"])
        assert not resuming.done()
        await here.engine.stop(CONVERSATION)
        await resuming


async def test_what_a_dead_process_left_is_finished_at_once(
    stores: list[SqliteStore], clock: HeldClock
) -> None:
    first, second = stores
    message = RecordingChannel().message("one", id="one")
    await first.receive(message)
    lease = await first.lease(CONVERSATION)
    await first.begin_turn(CONVERSATION, 0, "Pixi", ("one",), lease=lease)
    async with scene(ScriptedModel("[SEND: a]"), store=second) as there:
        with pytest.raises(LeaseHeld):
            await there.engine.own(CONVERSATION)
        await first.close()
        began = clock.time()
        await there.resume()
        assert there.channel.sent == ["a"]
        assert clock.time() - began < 1
    assert await said(stores[1]) == ["[SEND: a]"]


async def test_a_talk_that_is_taken_over_goes_on_elsewhere(stores: list[SqliteStore]) -> None:
    async with two(
        stores, ScriptedModel(["[SEND: a]\n[SEND: b", asyncio.Event()]), ScriptedModel("[SEND: c]")
    ) as (here, there):
        await say(here, "one")
        await until(lambda: here.channel.sent == ["a"])
        assert await there.engine.owned_elsewhere(CONVERSATION)
        await there.engine.take_over(CONVERSATION)
        assert await here.engine.owned_elsewhere(CONVERSATION)
        await there.resume()
        assert there.channel.sent == ["a", "c"]
        await here.engine.evict()
        await say(there, "two")
        await asyncio.gather(here.engine.settled(), there.engine.settled())
        assert [event.text for event in here.channel.events if isinstance(event, Failed)] == [TAKEN_OVER]
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
        assert len(here.model.requests) == 1


async def test_what_else_waited_in_a_talk_that_was_taken_over_does_not_bring_it_back(
    stores: list[SqliteStore], clock: HeldClock
) -> None:
    first = ScriptedModel(["[SEND: a]\n[SEND: b", asyncio.Event()])
    async with two(stores, first, ScriptedModel("[SEND: c]")) as (here, there):
        await say(here, "one")
        await until(lambda: here.channel.sent == ["a"])
        await say(here, "two")
        await there.engine.take_over(CONVERSATION)
        await here.engine.stop(CONVERSATION)
        await there.resume()
        assert there.channel.sent == ["a", "c"]
        await here.engine.settled()
        assert not await there.engine.owned_elsewhere(CONVERSATION)
        assert len(here.model.requests) == 1


async def test_a_process_that_lost_the_talk_posts_nothing_more(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    first = ScriptedModel(["[SEND: a]\n", go_on, "[SEND: b]\n[SEND: c]"], "[SEND: e]")
    async with two(stores, first, ScriptedModel("[SEND: d]")) as (here, there):
        await say(here, "one")
        await until(lambda: here.channel.sent == ["a"])
        await there.engine.take_over(CONVERSATION)
        go_on.set()
        await until(lambda: here.channel.ended)
        assert here.channel.sent == ["a"]
        await there.resume()
        assert here.channel.sent == ["a", "d"]
        await here.engine.settled()
        await say(here, "two")
        await here.engine.settled()
        assert here.channel.sent == ["a", "d", "e"]
        assert here.replies() == ["[SEND: a]", "[SEND: d]"]


async def test_what_is_found_once_the_turn_has_ended_is_left_to_whoever_has_the_talk_next(
    stores: list[SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(name: str, context_tokens: int | None = None) -> SavedConversation:
        saved = await SqliteStore.load(stores[0], name, context_tokens)
        loaded.set()
        await told.wait()
        return saved

    go_on, loaded, told = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with two(stores, ScriptedModel([go_on, "[SEND: a]"]), ScriptedModel("[SEND: b]")) as (here, there):
        await say(here, "one")
        await until(lambda: here.model.streaming)
        await stores[1].receive(there.channel.message("two", id="two"))
        monkeypatch.setattr(stores[0], "load", load)
        looking = asyncio.create_task(here.engine.look(CONVERSATION))
        await loaded.wait()
        go_on.set()
        await here.engine.settled()
        told.set()
        await looking
        assert here.engine.busy == ()
        await there.resume()
        assert here.channel.sent == ["a", "b"]


async def test_a_turn_elsewhere_is_waited_for_so_long_and_no_longer(
    stores: list[SqliteStore], clock: HeldClock
) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel([go_on, "[SEND: a]"]), ScriptedModel()) as (here, there):
        await say(here, "one")
        await until(lambda: here.model.streaming == 1)
        began = clock.time()
        with pytest.raises(LeaseHeld):
            await there.engine.own(CONVERSATION, seconds=30.0)
        assert 30 <= clock.time() - began < 31
        waiting = asyncio.create_task(there.engine.own(CONVERSATION, seconds=30.0))
        await asyncio.sleep(1)
        go_on.set()
        await waiting
        assert here.channel.sent == ["a"]
        assert not await there.engine.owned_elsewhere(CONVERSATION)


async def test_to_read_beforehand_takes_nothing_from_anybody(stores: list[SqliteStore]) -> None:
    async with two(stores, ScriptedModel("[SEND: a]"), ScriptedModel()) as (here, there):
        await here.talk("one")
        lines = await there.engine.prefix(there.channel.message("two"))
        assert AssistantLine("[SEND: a]") in lines
        assert await there.engine.owned_elsewhere(CONVERSATION)


async def test_who_waits_can_be_drained_and_the_message_stays(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel(["[SEND: a", go_on, "]"]), ScriptedModel()) as (here, there):
        await say(here, "one")
        await until(lambda: here.channel.typed)
        await say(there, "two")
        await asyncio.sleep(5)
        assert not await there.engine.stop(CONVERSATION)  # there is no reply of its own
        await there.engine.drain(5)
        assert there.model.requests == []
        saved = await stores[0].load(CONVERSATION)
        assert [message.text for message in saved.waiting] == ["two"]
        go_on.set()
        await here.engine.settled()


async def test_who_waits_lets_the_message_be_taken_back(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel([go_on, "[SEND: a]"]), ScriptedModel("[SEND: b]")) as (here, there):
        await say(here, "one")
        await until(lambda: here.model.streaming == 1)
        for text in ("two", "three"):
            await say(there, text)
        await asyncio.sleep(5)
        await there.engine.withdraw(CONVERSATION, "two")
        go_on.set()
        await asyncio.gather(here.engine.settled(), there.engine.settled())
        assert here.channel.sent == ["a", "b"]
        told = there.history()[-1]
        assert isinstance(told, UserLine)
        assert "three" in told.text
        assert "two" not in told.text


async def test_different_talks_go_side_by_side(stores: list[SqliteStore]) -> None:
    go_on = asyncio.Event()
    async with two(stores, ScriptedModel([go_on, "[SEND: a]"]), ScriptedModel("[SEND: b]")) as (here, there):
        await say(here, "one")
        await until(lambda: here.model.streaming == 1)
        other = RecordingChannel("test:other")
        await there.engine.receive(other.message("two"), other)
        await there.engine.settled()
        assert other.sent == ["b"]
        go_on.set()
        await here.engine.settled()


@pytest.mark.parametrize("count", [3])
async def test_many_processes_that_are_all_written_to_answer_each_message_once(
    tmp_path: Path, count: int
) -> None:
    stores = [await SqliteStore.open(tmp_path / "pixi.db") for _ in range(count)]
    place = RecordingChannel()
    scenes = [
        scene(ScriptedModel(*[f"[SEND: {name}{n}]" for n in range(40)]), store=store, channel=place)
        for name, store in zip("abc", stores, strict=True)
    ]
    async with scenes[0] as one, scenes[1] as two, scenes[2] as three:
        processes = (one, two, three)
        for number in range(24):
            await say(processes[number % count], f"<{number}>")
            if number % 5 == 0:
                await asyncio.sleep(0.1)
        for _ in range(count):
            await asyncio.gather(*(process.engine.settled() for process in processes))
        assert "Failed" not in one.kinds()
        told = "\n".join(
            line.text for line in (await stores[0].load(CONVERSATION)).lines if isinstance(line, UserLine)
        )
        assert [told.count(f"<{number}>") for number in range(24)] == [1] * 24
    assert len(await said(stores[0])) == len(place.sent) == len(set(place.sent))
    for store in stores:
        await store.close()


async def test_one_message_too_many_that_another_process_answered_is_told_nothing(
    stores: list[SqliteStore],
) -> None:
    lease = Gate(stores[0], "lease")
    async with two(stores, ScriptedModel(), ScriptedModel("[SEND: a]")) as (here, there):
        here.engine.settings.waiting_messages = 0
        await say(here, "one")
        await lease.reached.wait()
        await there.resume()
        lease.open.set()
        async with within("the word that nobody needs"):
            await here.engine.settled()
        assert here.channel.sent == ["a"]
    assert await said(stores[1]) == ["[SEND: a]"]


async def test_what_another_process_answered_fills_no_place_among_those_that_wait(
    stores: list[SqliteStore],
) -> None:
    lease = Gate(stores[0], "lease")
    async with two(stores, ScriptedModel("[SEND: b]"), ScriptedModel("[SEND: a]")) as (here, there):
        here.engine.settings.waiting_messages = 1
        await say(here, "one")
        await lease.reached.wait()
        await there.resume()
        await say(here, "two")
        lease.open.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]


async def test_a_turn_that_could_not_be_ended_keeps_no_other_process_waiting(
    stores: list[SqliteStore], clock: HeldClock
) -> None:
    """Its process lives on and is at rest: whoever gets the next message finishes the turn."""
    full: Gate = Gate(stores[0], "end_turn", error=FULL, when=lambda *_, **__: full.calls == 1)
    async with two(stores, ScriptedModel("[SEND: a]"), ScriptedModel("[SEND: b]")) as (here, there):
        await say(here, "one")
        await here.engine.settled()
        assert here.kinds() == ["Sent", "Failed", "TurnEnded"]
        began = clock.time()
        await say(there, "two")
        await there.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert clock.time() - began < 1  # nobody waited for a lease
    assert await said(stores[1]) == ["[SEND: a]", "[SEND: b]"]
