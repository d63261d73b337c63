"""What is told of turns later, and what is kept of channels."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, Line, Usage, UserLine
from pixi.core.message import Author, Image, Message
from pixi.core.spending import UsageEntry
from pixi.store.kept import ChannelConfig, Effect, Tally
from pixi.store.opening import open_store
from pixi.store.store import Store
from tests.begun import begun

ROOM = "discord:1:7:pixi"
LINES: tuple[Line, ...] = (UserLine("> hi", (Image("image/png", b"cat"),)), AssistantLine("[SEND: hello]"))

NO_USAGE = Usage()


async def said(
    store: Store,
    name: str,
    *,
    room: str = ROOM,
    overheard: Sequence[str] = (),
    posted: str | None = None,
    usage: Usage = NO_USAGE,
    cost: float | None = None,
) -> int:
    """A whole turn that answers a message of that id, by an author of that id."""
    for other in overheard:
        await store.receive(Message(other, room, Author(other, "x"), "hm", 1.0, addressed=False))
    await store.receive(Message(name, room, Author(name, "mo"), "hi", 1.0))
    generation = (await store.load(room)).generation
    turn = await begun(store, room, generation, "pixi", (*overheard, name), model="quick")
    await store.intend(turn, 0, "send", "hello", target=3)
    await store.settle(turn, 0, "done", posted)
    assert await store.end_turn(turn, LINES, "stop", 2, usage, cost=cost)
    return turn


async def begun_again(store: Store, name: str, usage: Usage = NO_USAGE, cost: float = 0.0) -> None:
    """An attempt that came to nothing, and the one after it, which is under way."""
    await store.receive(Message(name, ROOM, Author(name, "mo"), "hi", 1.0))
    turn = await begun(store, ROOM, 0, "pixi", (name,))
    assert await store.end_turn(turn, (), "cancelled", 1, usage, cost=cost)
    await begun(store, ROOM, 0, "pixi", (name,))


async def test_a_post_leads_to_its_turn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await said(store, "1", posted="900")
    monkeypatch.setattr(time, "time", lambda: 1_000_000.5)
    turn = await said(store, "3", overheard=["2"], posted="901", usage=Usage(30, 20, 10), cost=0.25)
    record = await store.turn_behind("discord:1:", "901")
    assert record is not None
    assert record.began == 1_000_000.5
    assert (record.id, record.conversation, record.persona, record.model) == (turn, ROOM, "pixi", "quick")
    assert (record.finish, record.steps, record.usage, record.cost) == ("stop", 2, Usage(30, 20, 10), 0.25)
    assert record.people == ("3",), "whom it only overheard it did not answer"
    assert record.lines == LINES
    assert record.effects == (Effect(turn, 0, "send", "hello", "done", "901", 3),)


async def test_only_posts_under_the_prefix_are_known(store: Store) -> None:
    await said(store, "1", posted="900")
    assert await store.turn_behind("discord:2:", "900") is None
    assert await store.turn_behind("discord:1:", "999") is None
    await store.reset(ROOM)
    assert await store.turn_behind("discord:1:", "900") is None, "it was forgotten"


async def test_a_turn_under_way_has_a_record_too(store: Store) -> None:
    await store.receive(Message("1", ROOM, Author("11", "mo"), "hi", 1.0))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "hello")
    await store.settle(turn, 0, "done", "900")
    record = await store.turn_behind("", "900")
    assert record is not None
    assert (record.finish, record.steps, record.usage, record.cost, record.lines) == (
        None,
        0,
        Usage(),
        None,
        (),
    )


async def test_the_last_turns_come_oldest_first(store: Store) -> None:
    ids = [await said(store, str(number)) for number in range(5)]
    await said(store, "9", room="discord:1:8:pixi")
    await begun_again(store, "10")
    assert [record.id for record in await store.turns(ROOM, 3)] == ids[2:]
    assert [record.id for record in await store.turns(ROOM, 99)] == ids
    assert await store.turns(ROOM, 0) == await store.turns(ROOM, -1) == await store.turns("new", 5) == ()


async def test_turns_that_were_forgotten_have_no_lines(store: Store) -> None:
    await said(store, "1")
    await store.reset(ROOM)
    (record,) = await store.turns(ROOM, 5)
    assert (record.people, record.lines, record.effects) == ((), (), ())


async def test_the_tally_counts_tokens_and_the_known_costs(store: Store) -> None:
    start = time.time()
    assert await store.tally("", 0.0) == Tally(0, Usage(), 0.0)
    await said(store, "1", usage=Usage(10, 5, 2), cost=0.5)
    await said(store, "2", usage=Usage(10, 5, 2))
    await said(store, "3", room="discord:1:8:ann", usage=Usage(1, 0, 1), cost=0.25)
    await said(store, "4", room="discord:10:8:ann", usage=Usage(100, 0, 0), cost=8.0)
    await begun_again(store, "5", usage=Usage(100, 0, 0), cost=1.0)
    assert await store.tally("discord:1:", start) == Tally(4, Usage(121, 10, 5), 1.75)
    assert await store.tally("discord:1:", time.time() + 1) == Tally(0, Usage(), 0.0)
    assert (await store.tally("", 0.0)).turns == 5


async def test_what_people_chose_for_a_channel_is_kept(store: Store, url: str) -> None:
    here, there = "discord:1:7:", "discord:1:8:"
    assert await store.places() == {}
    chosen = ChannelConfig(("pixi", "a, \"strange\" 'näme'"), "smart", home=True)
    await store.set_place(here, ChannelConfig(("ann",)))
    await store.set_place(here, chosen)
    await store.set_place(there, ChannelConfig(home=True))
    await store.reset(f"{here}pixi")
    again = await open_store(url)
    assert await again.places() == {here: chosen, there: ChannelConfig(home=True)}
    await again.close()
    await store.set_place(there, ChannelConfig())
    await store.set_place("discord:1:9:", ChannelConfig())
    assert await store.places() == {here: chosen}


async def test_watermarks_only_rise(store: Store) -> None:
    assert await store.watermarks("") == {}
    await store.mark({"discord:1:7:": 5, "discord:1:8:": 2**62, "discord:2:7:": 1})
    await store.mark({"discord:1:7:": 4, "discord:1:8:": 7, "discord:2:7:": 9})
    await store.mark({})
    assert await store.watermarks("discord:1:") == {"discord:1:7:": 5, "discord:1:8:": 2**62}
    assert await store.watermarks("discord:2:") == {"discord:2:7:": 9}
    await store.mark({"discord:1:7:": 6})
    assert (await store.watermarks(""))["discord:1:7:"] == 6


async def test_a_watermark_that_is_counted_up_meanwhile_is_kept_as_it_was_asked(store: Store) -> None:
    counted = {"a": 1}
    task = asyncio.create_task(store.mark(counted))
    await asyncio.sleep(0)
    counted["b"] = 2
    await task
    assert await store.watermarks("") == {"a": 1}


async def test_what_a_turn_may_be_given_besides_goes_by_name(store: Store) -> None:
    """Values of one type in a row are soon mistaken for each other, and what is recorded stands for good."""
    await store.receive(Message("1", ROOM, Author("1", "mo"), "hi", 1.0))
    lease = await store.lease(ROOM)
    with pytest.raises(TypeError):
        store.begin_turn(ROOM, 0, "pixi", ("1",), lease)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        store.intend(1, 1, "send", "one", 7)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        store.end_turn(1, (), "stop", 1, Usage(), 0.5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        store.plan(1, [], lease)  # type: ignore[call-arg]
    assert [message.id for message in await store.waiting(ROOM)] == ["1"]


async def test_what_is_given_is_read_at_once(store: Store) -> None:
    await store.receive(Message("1", ROOM, Author("1", "mo"), "hi", 1.0))
    lease = await store.lease(ROOM)
    ids = ["1"]
    beginning = store.begin_turn(ROOM, 0, "pixi", ids, lease=lease)
    ids.clear()
    begun = await beginning
    assert begun.taken == ("1",)
    commands, people = [Planned(1, "send", "one")], ["1"]
    asked = store.plan(begun.turn, commands)
    names = asyncio.create_task(store.names_of(people))
    await asyncio.sleep(0)
    commands.clear()
    people.clear()
    await asked
    assert await names == {"1": "mo"}
    (left,) = (await store.load(ROOM)).unfinished
    assert [command.number for command in left.commands] == [1]
    lines, spent, again = list(LINES), [UsageEntry(1, messages=1)], ["1"]
    ending = store.end_turn(begun.turn, lines, "length", 1, NO_USAGE, spent=spent, again=again)
    lines.clear()
    spent.clear()
    again.clear()
    assert await ending
    saved = await store.load(ROOM)
    assert saved.lines == LINES
    assert [message.id for message in saved.waiting] == ["1"]
    assert [used.messages for used in await store.usage(1, 1)] == [1]


async def test_what_a_call_does_not_take_is_the_fault_of_its_caller_alone(store: Store) -> None:
    with pytest.raises(TypeError):
        await store.waiting()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        await store.names_of(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await store.plan(1, 5)  # type: ignore[arg-type]
    assert await store.waiting(ROOM) == ()
