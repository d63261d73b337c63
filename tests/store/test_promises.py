"""The store's promises, on every database."""

import asyncio

import pytest
from msgspec.structs import replace

from pixi.core.conversation import PastTurn
from pixi.core.errors import StoreError, StoreOutdated
from pixi.core.llm import AssistantLine, Line, SystemLine, ToolCall, ToolLine, Usage, UserLine
from pixi.core.message import Author, Image, Message
from pixi.store.kept import Effect, SavedConversation, UnfinishedTurn
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import everywhere

pytestmark = everywhere
ROOM = "terminal:pixi:mo"
PICTURE = Image("image/png", bytes(range(256)) * 40)


def message(
    name: str, text: str = "hi", *, room: str = ROOM, images: tuple[Image, ...] = (), number: int = 0
) -> Message:
    return Message(
        name, room, Author("1", "mo"), text, 1_700_000_000.25, reply_to="0", images=images, number=number
    )


async def said(store: Store, name: str, *lines: Line, room: str = ROOM) -> bool:
    """A whole turn that answers one message."""
    await store.receive(message(name, room=room))
    turn = await begun(store, room, (await store.load(room)).generation, "pixi", (name,))
    return await store.end_turn(turn, lines, "stop", 1, Usage(10, 5, 2))


async def test_a_new_conversation_is_empty(store: Store) -> None:
    assert await store.load(ROOM) == SavedConversation(0, (), (), ())


async def test_a_message_is_received_once(store: Store) -> None:
    assert await store.receive(message("1"))
    assert not await store.receive(message("1", "another text"))
    assert await store.receive(message("1", room="elsewhere"))
    assert (await store.load(ROOM)).waiting == (message("1", number=1),)


async def test_messages_wait_in_the_order_they_came(store: Store) -> None:
    for name in ("b", "a", "c"):
        await store.receive(message(name))
    assert [waiting.id for waiting in (await store.load(ROOM)).waiting] == ["b", "a", "c"]


async def test_a_turn_from_beginning_to_end(store: Store) -> None:
    await store.receive(message("1"))
    await store.receive(message("2"))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "react", "🥞")
    await store.intend(turn, 1, "send", "hello")
    await store.settle(turn, 0, "refused")

    during = await store.load(ROOM)
    assert during.waiting == (message("2", number=2),)
    assert during.unfinished == (
        UnfinishedTurn(
            turn,
            (message("1", number=1),),
            (Effect(turn, 0, "react", "🥞", "refused"), Effect(turn, 1, "send", "hello")),
            lease=1,
            answered="1",
        ),
    )

    await store.settle(turn, 1, "done", "99")
    assert (await store.load(ROOM)).unfinished[0].effects[1] == Effect(turn, 1, "send", "hello", "done", "99")
    lines = (UserLine("mo: hi"), AssistantLine("[SEND: hello]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage())
    assert await store.load(ROOM) == SavedConversation(
        0, (PastTurn(turn, lines),), (message("2", number=2),), ()
    )


async def test_turns_have_ids_of_their_own_and_lines_keep_their_order(store: Store) -> None:
    await said(store, "1", UserLine("one"))
    await said(store, "2", UserLine("two"), AssistantLine("[SEND: 2]"))
    await said(store, "3", UserLine("three"), room="elsewhere")
    assert (await store.load(ROOM)).lines == (UserLine("one"), UserLine("two"), AssistantLine("[SEND: 2]"))


EVERY_LINE: tuple[Line, ...] = (
    SystemLine("static"),
    UserLine("mo: look \u2028 \x00 日本 🥞\r\n", (PICTURE, Image("image/webp", b""), PICTURE)),
    AssistantLine('[NOTE: "quoted" \\ \ud83d half a pair]', (ToolCall("c1", "find", '{"a":  1}'),)),
    ToolLine("c1", "find", ""),
    AssistantLine(""),
)


async def test_lines_come_back_equal_to_the_byte(store: Store) -> None:
    await said(store, "1", *EVERY_LINE)
    assert (await store.load(ROOM)).lines == EVERY_LINE


async def test_messages_come_back_with_their_pictures(store: Store) -> None:
    whole = Message("1", ROOM, Author("7", "a\ud83db", True), "\ud83d", 0.1 + 0.2, False, None, (PICTURE,))
    await store.receive(whole)
    assert (await store.load(ROOM)).waiting == (replace(whole, number=1),)


async def test_a_reset_forgets_and_counts(store: Store) -> None:
    await said(store, "1", UserLine("one", (PICTURE,)))
    await said(store, "2", UserLine("other"), room="elsewhere")
    await store.receive(message("3", images=(PICTURE,)))
    assert await store.reset(ROOM) == 1
    assert await store.load(ROOM) == SavedConversation(1, (), (), (), revision=1)
    assert (await store.load("elsewhere")).lines == (UserLine("other"),)
    assert not await store.receive(message("3")), "the same event again is still the same message"
    assert await store.reset(ROOM) == 2
    assert await said(store, "4", UserLine("new", (PICTURE,)))
    assert (await store.load(ROOM)).lines == (UserLine("new", (PICTURE,)),)


async def test_a_turn_that_a_reset_overtook_leaves_no_trace(store: Store) -> None:
    await store.receive(message("1"))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "late")
    await store.reset(ROOM)
    await store.settle(turn, 0, "done")
    assert (await store.load(ROOM)).unfinished == (UnfinishedTurn(turn, (), (), lease=1),), (
        "only its end is wanted"
    )
    assert not await store.end_turn(turn, (UserLine("late"),), "stop", 1, Usage())
    assert await store.load(ROOM) == SavedConversation(1, (), (), (), revision=1)


async def test_a_turn_begun_after_the_reset_with_an_old_generation_is_dropped(store: Store) -> None:
    await store.receive(message("1"))
    await store.reset(ROOM)
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    assert not await store.end_turn(turn, (), "stop", 1, Usage())
    assert await store.load(ROOM) == SavedConversation(1, (), (), (), revision=1)


async def test_a_turn_begun_again_puts_its_messages_back(store: Store) -> None:
    await store.receive(message("1"))
    first = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.receive(message("2"))
    assert await store.end_turn(first, (), "cancelled", 1, Usage())
    assert [waiting.id for waiting in (await store.load(ROOM)).waiting] == ["1", "2"]
    second = await begun(store, ROOM, 0, "pixi", ("1", "2"))
    assert second != first
    unfinished = (await store.load(ROOM)).unfinished
    assert [turn.id for turn in unfinished] == [second]
    assert unfinished[0].messages == (message("1", number=1), message("2", number=2))


async def test_a_turn_ends_once(store: Store) -> None:
    await store.receive(message("1"))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    assert await store.end_turn(turn, (UserLine("one"),), "stop", 1, Usage())
    assert not await store.end_turn(turn, (UserLine("one"),), "stop", 1, Usage())
    assert (await store.load(ROOM)).lines == (UserLine("one"),)
    with pytest.raises(StoreOutdated, match=f"Turn {turn} was ended"):
        await store.intend(turn, 1, "send", "more")  # by a process that does not know it yet


async def test_messages_that_another_turn_has_are_left_out(store: Store) -> None:
    for name in "123":
        await store.receive(message(name))
    lease = await store.lease(ROOM)
    first = await store.begin_turn(ROOM, 0, "pixi", ("2",), lease=lease)
    second = await store.begin_turn(ROOM, 0, "pixi", ("3", "2", "1", "gone"), lease=lease)
    assert (first.taken, second.taken) == (("2",), ("3", "1"))
    with pytest.raises(StoreOutdated, match="None of these messages of 'terminal:pixi:mo' waits"):
        await store.begin_turn(ROOM, 0, "pixi", ("1", "gone"), lease=lease)
    assert [turn.id for turn in (await store.load(ROOM)).unfinished] == [first.turn, second.turn]
    assert (await store.begin_turn(ROOM, 0, "pixi", (), lease=lease)).taken == ()


async def test_what_cannot_be_is_refused_and_undone(store: Store) -> None:
    await store.receive(message("1"))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "once")
    with pytest.raises(StoreError):
        await store.intend(turn, 0, "send", "twice")
    with pytest.raises(StoreError):
        await store.intend(turn + 1, 0, "send", "to nobody")
    with pytest.raises(StoreError, match="no act 5"):
        await store.settle(turn, 5, "done")
    with pytest.raises(StoreError, match="no turn 99"):
        await store.end_turn(99, (), "stop", 1, Usage())
    with pytest.raises(StoreError):
        await store.receive(message("\ud83d"))
    with pytest.raises(StoreError):
        await store.end_turn(turn, (UserLine("x"),), "stop", 1, Usage(prompt_tokens=2**70))
    assert [turn.effects for turn in (await store.load(ROOM)).unfinished] == [
        (Effect(turn, 0, "send", "once"),)
    ]


async def test_one_bad_call_among_many_fails_alone(store: Store) -> None:
    calls = [store.receive(message(str(number))) for number in range(50)]
    results = await asyncio.gather(
        *calls, store.settle(1, 1, "done"), store.load(ROOM), return_exceptions=True
    )
    assert results[:50] == [message(str(number), number=number + 1) for number in range(50)]
    assert isinstance(results[50], StoreError)
    assert isinstance(results[51], SavedConversation)
    assert len(results[51].waiting) == 50


async def test_a_thousand_messages_at_once(store: Store) -> None:
    ids = [str(number % 800) for number in range(1_000)]
    results = await asyncio.gather(*(store.receive(message(name)) for name in ids))
    assert results == [*(message(ids[at], number=at + 1) for at in range(800)), *[None] * 200]
    assert [waiting.id for waiting in (await store.load(ROOM)).waiting] == ids[:800]


async def test_a_cancelled_caller_neither_loses_nor_doubles_the_write(store: Store) -> None:
    for number in range(20):
        call = asyncio.ensure_future(store.receive(message(str(number))))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert [waiting.id for waiting in (await store.load(ROOM)).waiting] == [str(n) for n in range(20)]
