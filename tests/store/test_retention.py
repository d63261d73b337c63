"""What was said long ago is forgotten, in portions; what came later, and that there was something, stays."""

import time
from pathlib import Path

from pixi.app.retention import forget_old
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store.kept import Deed, Forgotten
from pixi.store.statements import forgetting
from pixi.store.store import Store
from tests.begun import begun

MO, ANN = Author("11", "mo"), Author("12", "ann")
ROOM, OTHER = "discord:1:7:pixi", "discord:1:8:pixi"
OLD, NEW = 1_000.0, 2_000_000_000.0
CAT = Image("image/png", b"cat" * 500)


def said(number: int, sent_at: float, room: str = ROOM, **more: object) -> Message:
    return Message(f"{room}-{number}", room, MO, f"old canary {number}", sent_at, **more)  # type: ignore[arg-type]


async def answered(store: Store, *messages: Message) -> int:
    for message in messages:
        await store.receive(message)
    turn = await begun(store, messages[0].conversation, 0, "pixi", tuple(each.id for each in messages))
    await store.intend(turn, 0, "send", "canary!")
    await store.settle(turn, 0, "done", f"post {turn}")
    number = await store.audit_begin(
        Deed(ROOM, "", turn, "pixi", MO.id, "remember", '{"fact": "canary"}', MO.id)
    )
    await store.audit_end(number, "done", 0.1)
    images = tuple(image for message in messages for image in message.images)
    lines = (UserLine("> " + messages[0].text, images), AssistantLine("[SEND: canary!]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage(10, 5, 2), cost=0.5)
    return turn


async def test_old_words_go_and_ids_memories_and_sums_stay(store: Store, tmp_path: Path) -> None:
    quote = (Quoted("0", ANN, "canary"),)
    await answered(store, said(1, OLD, images=(CAT,), quoted=quote))
    await store.receive(said(2, OLD, addressed=False))
    await store.remember(Memory(0, "Pixi", MO.id, "", ROOM, "one", "likes tea", OLD))
    now = time.time() + 10  # turns begin now, whenever their messages were sent
    more = True
    while more:
        more = await store.forget_old(now)
    saved = await store.load(ROOM)
    assert (saved.lines, saved.waiting, saved.unfinished) == ((), (), ())
    assert await store.receive(said(1, OLD)) is None, "it is not answered again"
    assert (await store.tally("", 0.0)).usage == Usage(10, 5, 2)
    assert len(await store.memories(MO.id, "Pixi")) == 1
    (record,) = await store.audit(9)
    assert (record.deed.tool, record.deed.person, record.deed.arguments) == ("remember", "", "")
    assert record.deed.approved_by == ""
    told = await store.export(MO.id)
    assert (told["conversations"], told["done_for_you"]) == ([], [])
    for file in tmp_path.iterdir():
        assert b"canary" not in file.read_bytes(), file
        assert CAT.data not in file.read_bytes(), file


async def test_what_is_young_stays_to_the_byte(store: Store) -> None:
    await answered(store, said(1, NEW, images=(CAT,)))
    before = await store.load(ROOM)
    await store.receive(said(1, OLD, OTHER))
    assert not await store.forget_old(OLD + 1)
    after = await store.load(ROOM)
    assert after == before
    assert after.revision == before.revision
    assert (await store.load(OTHER)).waiting == ()


async def test_a_turn_under_way_is_left_until_it_has_ended(store: Store) -> None:
    message = said(1, OLD)
    await store.receive(message)
    turn = await begun(store, ROOM, 0, "pixi", (message.id,))
    await store.intend(turn, 0, "send", "hm")
    assert not await store.forget_old(time.time() + 10)
    (unfinished,) = (await store.load(ROOM)).unfinished
    assert [each.id for each in unfinished.messages] == [message.id]
    assert len(unfinished.effects) == 1


async def test_it_is_done_in_portions_and_tells_when_nothing_is_left(store: Store) -> None:
    many = forgetting.PORTION * 2 + 5
    for number in range(many):
        await store.receive(said(number, OLD, addressed=False))
    assert await store.forget_old(OLD + 1)
    left = len((await store.load(ROOM)).waiting)
    assert left == many - forgetting.PORTION
    await forget_old(store, 1)
    assert (await store.load(ROOM)).waiting == ()


async def test_whoever_holds_the_talk_in_memory_is_told(store: Store) -> None:
    assert await store.forgotten(0) == Forgotten(0)
    await store.receive(said(1, OLD))
    await store.receive(said(1, NEW, OTHER))
    await store.forget_old(OLD + 1)
    found = await store.forgotten(0)
    assert found == Forgotten(1, (ROOM,))
    assert await store.forgotten(found.revision) == Forgotten(1)
