"""What arrives is numbered, can be changed or taken back until it is answered, and is found again."""

import asyncio
import hashlib
from pathlib import Path

from msgspec.structs import replace

from pixi.core.llm import Usage, UserLine
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store.kept import UnfinishedTurn
from pixi.store.opening import open_store
from pixi.store.sqlite import SqliteStore
from pixi.store.store import Store
from tests.begun import begun

ROOM = "discord:1:7:pixi"
MO, ANN = Author("11", "mo"), Author("12", "ann")
CAT, DOG = Image("image/png", b"a picture of a cat"), Image("image/png", b"a picture of a dog")


def message(
    name: str,
    text: str = "hi",
    *,
    author: Author = MO,
    room: str = ROOM,
    sent_at: float = 100.0,
    addressed: bool = True,
    images: tuple[Image, ...] = (),
    quoted: tuple[Quoted, ...] = (),
) -> Message:
    return Message(name, room, author, text, sent_at, addressed, None, images, True, quoted)


async def received(store: Store, sent: Message) -> Message:
    recorded = await store.receive(sent)
    assert recorded is not None
    return recorded


async def answered(store: Store, *names: str, room: str = ROOM) -> None:
    generation = (await store.load(room)).generation
    turn = await begun(store, room, generation, "pixi", names)
    assert await store.end_turn(turn, (UserLine("> hi"),), "stop", 1, Usage())


async def waiting(store: Store, room: str = ROOM) -> list[str]:
    return [message.text for message in (await store.load(room)).waiting]


# Numbers.


async def test_messages_are_numbered_in_the_order_they_came_each_conversation_by_itself(store: Store) -> None:
    assert [(await received(store, message(name))).number for name in ("9", "3", "5")] == [1, 2, 3]
    assert (await received(store, message("9", room="discord:1:8:pixi"))).number == 1
    assert await store.receive(message("3")) is None
    assert (await received(store, message("6"))).number == 4, "one that came again took no number"
    assert [message.number for message in (await store.load(ROOM)).waiting] == [1, 2, 3, 4]


async def test_a_message_is_given_back_as_it_was_recorded(store: Store) -> None:
    sent = message("1", images=(CAT,)), replace(message("2"), instructions="Be brief.")
    recorded = tuple([await received(store, each) for each in sent])
    assert recorded == tuple(replace(each, number=n) for n, each in enumerate(sent, 1))
    assert (await store.load(ROOM)).waiting == recorded


async def test_numbers_go_on_after_a_reset(store: Store) -> None:
    await received(store, message("1"))
    await received(store, message("2"))
    await store.reset(ROOM)
    assert (await received(store, message("3"))).number == 3
    assert await store.message_id(ROOM, 2) == "2"


async def test_numbers_have_no_gap_however_many_come_at_once(store: Store) -> None:
    rooms = ["a", "b", "c"]
    sent = [message(str(number % 200), room=rooms[number % 3]) for number in range(900)]
    recorded = [one for one in await asyncio.gather(*map(store.receive, sent)) if one is not None]
    for room in rooms:
        there = [one for one in recorded if one.conversation == room]
        assert [one.number for one in there] == [*range(1, len(there) + 1)]
        assert tuple(there) == (await store.load(room)).waiting


async def test_two_stores_on_one_database_share_the_count(store: Store, url: str) -> None:
    other = await open_store(url)
    calls = [(store, other)[number % 2].receive(message(str(number))) for number in range(200)]
    numbers = [one.number for one in await asyncio.gather(*calls) if one is not None]
    assert sorted(numbers) == [*range(1, 201)]
    await other.close()


async def test_a_number_leads_to_its_message(store: Store) -> None:
    await received(store, message("900"))
    assert await store.message_id(ROOM, 1) == "900"
    assert await store.message_id(ROOM, 2) is None
    assert await store.message_id("elsewhere", 1) is None
    assert await store.message_id(ROOM, 0) is None


async def test_quotes_get_the_numbers_that_the_conversation_knows(store: Store) -> None:
    await received(store, message("1", "first"))
    quoted = (
        Quoted("0", ANN, "before our time"),
        Quoted("1", MO, "first"),
        Quoted("55", None, "what pixi said"),
    )
    recorded = await received(store, message("2", author=ANN, quoted=quoted))
    assert [one.number for one in recorded.quoted] == [0, 1, 0]
    assert (await store.load(ROOM)).waiting[1] == recorded


async def test_what_was_forgotten_has_no_number_in_quotes(store: Store) -> None:
    """The persona was shown it once, and does not know it any more."""
    await received(store, message("1"))
    await store.reset(ROOM)
    recorded = await received(store, message("2", quoted=(Quoted("1", MO, "hi"),)))
    assert recorded.quoted == (Quoted("1", MO, "hi", 0),)


# Edits and deletions.


async def test_a_message_that_waits_can_be_changed(store: Store) -> None:
    before = await received(store, message("1", "draft", images=(CAT,), quoted=(Quoted("0", ANN, "so?"),)))
    assert await store.revise(ROOM, "1", "final \U0001f95e \ud83d")
    assert (await store.load(ROOM)).waiting == (replace(before, text="final \U0001f95e \ud83d"),)


async def test_a_message_whose_turn_is_under_way_can_be_changed(store: Store) -> None:
    await received(store, message("1", "draft"))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    assert await store.revise(ROOM, "1", "final")
    await store.end_turn(turn, (), "cancelled", 1, Usage())
    assert await waiting(store) == ["final"]


async def test_nothing_else_can_be_changed(store: Store) -> None:
    await received(store, message("1"))
    await answered(store, "1")
    await received(store, message("2"))
    await store.withdraw(ROOM, "2")
    await received(store, message("3", room="other"))
    await store.reset("other")
    for room, name in ((ROOM, "1"), (ROOM, "2"), ("other", "3"), (ROOM, "never came")):
        assert not await store.revise(room, name, "new")
        assert not await store.withdraw(room, name)
    assert await waiting(store) == []


async def test_a_withdrawn_message_waits_no_longer_and_is_still_known(store: Store) -> None:
    await received(store, message("1", "oops"))
    await received(store, message("2", "well"))
    assert await store.withdraw(ROOM, "1")
    assert await waiting(store) == ["well"]
    assert await store.receive(message("1", "oops")) is None
    assert (await received(store, message("3"))).number == 3


async def test_the_message_that_a_turn_answers_is_named_also_where_it_was_withdrawn(store: Store) -> None:
    for message_id in ("1", "2"):
        await received(store, message(message_id))
    await begun(store, ROOM, 0, "pixi", ("1", "2"))
    assert await store.withdraw(ROOM, "2")
    (turn,) = (await store.load(ROOM)).unfinished
    assert [each.id for each in turn.messages] == ["1"]
    assert turn.answered == "2"
    assert await store.unfinished(ROOM) == (turn,)
    assert await store.unfinished("discord:1:other") == ()


async def test_a_message_withdrawn_under_its_turn_does_not_come_back(store: Store) -> None:
    await received(store, message("1", "oops"))
    kept = await received(store, message("2", "well"))
    turn = await begun(store, ROOM, 0, "pixi", ("1", "2"))
    assert await store.withdraw(ROOM, "1")
    assert (await store.load(ROOM)).unfinished == (
        UnfinishedTurn(turn, (kept,), (), lease=1, answered=kept.id),
    )
    assert await store.end_turn(turn, (), "cancelled", 1, Usage())
    assert await waiting(store) == ["well"]


async def test_nothing_of_a_withdrawn_message_is_left_in_the_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    picture = Image("image/png", b"canary" * 2_000)
    await store.receive(message("1", "canary", images=(picture,), quoted=(Quoted("0", ANN, "canary"),)))
    assert await store.withdraw(ROOM, "1")
    await store.close()
    assert b"canary" not in (tmp_path / "pixi.db").read_bytes()


async def test_pictures_that_others_show_stay(store: Store) -> None:
    await received(store, message("1", images=(CAT, DOG)))
    seen = await received(store, message("2", images=(CAT,)))
    await received(store, message("3", images=(DOG,)))
    turn = await begun(store, ROOM, 0, "pixi", ("3",))
    line = UserLine("1 picture:", (DOG,))
    assert await store.end_turn(turn, (line,), "stop", 1, Usage())
    assert await store.withdraw(ROOM, "1")
    saved = await store.load(ROOM)
    assert (saved.waiting, saved.lines) == ((seen,), (line,))


async def test_nobody_keeps_a_picture_by_writing_what_it_is_called(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    secret = Image("image/png", b"canary")
    await store.receive(message("1", images=(secret,)))
    digest = hashlib.sha256(secret.data).hexdigest()
    for number, text in enumerate((digest, f'"{digest}"]', f'["image/png", "{digest}"]'), start=2):
        author = Author(text, text)
        quoted = (Quoted(text, author, text),)
        await store.receive(message(str(number), text, author=author, quoted=quoted))
    assert await store.withdraw(ROOM, "1")
    await store.close()
    assert b"canary" not in (tmp_path / "pixi.db").read_bytes()


# What nobody answered.


async def test_what_nobody_answered_is_found_by_prefix_and_time(store: Store) -> None:
    await received(store, message("1", room="discord:1:1:pixi", sent_at=99.9))
    await received(store, message("2", room="discord:1:2:pixi", sent_at=100.0))
    await received(store, message("3", room="discord:1:3:pixi", addressed=False))
    await received(store, message("4", room="discord:12:4:pixi"))
    await received(store, message("5", room="terminal:pixi:mo"))
    await received(store, message("6", room="discord:1:6:pixi"))
    await answered(store, "6", room="discord:1:6:pixi")
    await received(store, message("7", room="discord:1:7:pixi"))
    await store.withdraw("discord:1:7:pixi", "7")
    await received(store, message("8", room="discord:1:8:pixi"))
    await store.reset("discord:1:8:pixi")
    assert await store.unanswered("discord:1:", 100.0) == ("discord:1:2:pixi",)
    assert await store.unanswered("discord:1:", 99.0) == ("discord:1:1:pixi", "discord:1:2:pixi")
    assert await store.unanswered("", 100.5) == ()
    assert len(await store.unanswered("", 0.0)) == 4


async def test_a_turn_that_was_not_ended_is_found_however_old(store: Store) -> None:
    await received(store, message("1", sent_at=5.0))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    assert await store.unanswered("discord:1:", 100.0) == (ROOM,)
    assert await store.unanswered("discord:2:", 0.0) == ()
    await store.end_turn(turn, (UserLine("> hi"),), "stop", 1, Usage())
    assert await store.unanswered("discord:1:", 0.0) == ()


async def test_a_turn_that_a_reset_overtook_wants_only_its_end(store: Store) -> None:
    await received(store, message("1"))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "was it delivered?")
    await store.reset(ROOM)
    assert await store.unanswered("discord:1:", 0.0) == (ROOM,)
    assert (await store.load(ROOM)).unfinished == (UnfinishedTurn(turn, (), (), lease=1),)
    assert await store.unfinished(ROOM) == (UnfinishedTurn(turn, (), (), lease=1),)
    assert not await store.end_turn(turn, (), "cancelled", 0, Usage())
    assert await store.unanswered("discord:1:", 0.0) == ()
