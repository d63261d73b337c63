"""Taking turns out of a conversation: they stand beside it, and nothing of them is lost or left over."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pixi.core.conversation import Bounds
from pixi.core.errors import StoreError
from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store.sqlite import SqliteStore
from pixi.store.store import Store
from tests.store.kinds import everywhere

TALK = "http:1:pixi"


def message(number: int, author: str = "mo", *, image: bytes = b"") -> Message:
    images = (Image("image/png", image),) if image else ()
    return Message(f"m{number}", TALK, Author(author, author), f"word{number}", 1e9 + number, images=images)


async def turn(store: Store, number: int, author: str = "mo", *, image: bytes = b"") -> int:
    """A message that was answered."""
    told = message(number, author, image=image)
    await store.receive(told)
    lease = await store.lease(TALK)
    begun = await store.begin_turn(TALK, 0, "pixi", (told.id,), lease=lease)
    await store.intend(begun.turn, 1, "send", f"answer{number}")
    await store.settle(begun.turn, 1, "done")
    lines = (UserLine(told.text, told.images), AssistantLine(f"[SEND: answer{number}]"))
    assert await store.end_turn(begun.turn, lines, "stop", 1, Usage())
    return begun.turn


async def said(store: Store) -> list[str]:
    return [line.text for line in (await store.load(TALK)).lines]


@everywhere
async def test_the_turns_from_there_on_are_out_and_the_talk_goes_on(store: Store) -> None:
    await turn(store, 1)
    second = await turn(store, 2)
    await turn(store, 3)
    before = (await store.load(TALK)).revision
    beside = await store.rewind(TALK, second)
    assert await said(store) == ["word1", "[SEND: answer1]"]
    assert (await store.load(TALK)).revision > before  # others read it again
    assert [each.text for each in (await store.load(beside)).lines] == [
        *("word2", "[SEND: answer2]", "word3", "[SEND: answer3]")
    ]
    assert len(await store.turns(TALK, 10)) == 1
    assert await store.unanswered("http:", 0.0) == ()
    again = await store.receive(message(2))  # the same message again is a new one
    assert again is not None
    await turn(store, 4)
    assert (await said(store))[-1] == "[SEND: answer4]"


@everywhere
async def test_who_is_forgotten_is_forgotten_there_too(store: Store) -> None:
    await turn(store, 1)
    second = await turn(store, 2, "ana")
    beside = await store.rewind(TALK, second)
    assert "word2" in str(await store.export("ana"))
    await store.forget("ana")
    assert "word2" not in str(await store.export("ana"))
    assert (await store.load(beside)).lines == ()
    assert await said(store) == ["word1", "[SEND: answer1]"]


@everywhere
async def test_pictures_go_along_and_stay(store: Store) -> None:
    await turn(store, 1, image=b"png")
    second = await turn(store, 2, image=b"png")
    beside = await store.rewind(TALK, second)
    for address in (TALK, beside):
        line = (await store.load(address)).lines[0]
        assert isinstance(line, UserLine)
        assert line.images == (Image("image/png", b"png"),)


@everywhere
async def test_a_summary_that_tells_of_them_is_gone_and_an_older_one_stays(store: Store) -> None:
    turns = [await turn(store, number) for number in range(1, 5)]
    fold = await store.begin_fold(TALK, 0, turns[2])
    assert fold is not None
    assert await store.end_fold(TALK, fold, Bounds(1_000, first_turn=turns[2]), "they talked")
    await store.rewind(TALK, turns[3])
    assert (await store.load(TALK, 1_000)).summary == "they talked"
    await store.rewind(TALK, turns[1])
    saved = await store.load(TALK, 1_000)
    assert (saved.summary, saved.bounds.first_turn) == ("", 0)
    assert await said(store) == ["word1", "[SEND: answer1]"]


@pytest.mark.parametrize("twice", [False, True])
@everywhere
async def test_a_talk_can_be_rewound_again_and_again(store: Store, twice: bool) -> None:
    for number in (1, 2, 3):
        cut = await turn(store, number)
        await store.rewind(TALK, cut)
        if twice:
            await store.rewind(TALK, cut)  # nothing is left there
    assert await said(store) == []
    assert (await store.reset(TALK)) == 1


@pytest.mark.parametrize(
    "forget", [lambda store: store.forget("mo"), lambda store: store.reset(TALK)], ids=["forget", "reset"]
)
async def test_nothing_of_them_is_left_in_the_file_when_the_talk_is_forgotten(
    path: Path, forget: Callable[[Store], Awaitable[object]]
) -> None:
    store = await SqliteStore.open(str(path))
    await turn(store, 1, image=b"canary kept")
    cut = await turn(store, 2, image=b"canary cut")
    await turn(store, 3, image=b"canary cut")
    await store.rewind(TALK, cut)
    assert b"canary cut" in path.read_bytes() + path.with_name("pixi.db-wal").read_bytes()
    await forget(store)
    await store.close()
    for trace in (b"canary", b"word2", b"answer3"):
        assert trace not in path.read_bytes()


async def begun(store: Store, *ids: str) -> int:
    return (await store.begin_turn(TALK, 0, "pixi", ids, lease=await store.lease(TALK))).turn


@everywhere
async def test_a_turn_that_was_left_half_done_is_not_gone_on_with(store: Store) -> None:
    await store.receive(message(1))
    left = await begun(store, "m1")
    await store.plan(left, (Planned(1, "send", "later"),))
    beside = await store.rewind(TALK, left)
    assert await store.unanswered("http:", 0.0) == ()
    for address in (TALK, beside):
        assert (await store.load(address)).unfinished == ()
    assert "word1" in str(await store.export("mo"))


async def cut_short(store: Store) -> int:
    """A turn whose message comes due again."""
    await store.receive(message(1))
    first = await begun(store, "m1")
    await store.end_turn(
        first, (UserLine("word1"), AssistantLine("[SEND: answer1]")), "length", 1, Usage(), again=("m1",)
    )
    return first


@everywhere
async def test_what_was_to_come_again_comes_no_more(store: Store) -> None:
    first = await cut_short(store)
    assert await store.unanswered("http:", 0.0) == (TALK,)
    await store.rewind(TALK, first)
    assert await store.unanswered("http:", 0.0) == ()


@everywhere
async def test_a_reply_that_went_on_is_forgotten_with_who_was_answered(store: Store) -> None:
    await cut_short(store)
    second = await begun(store, "m1")
    lines = (UserLine("go on"), AssistantLine("[SEND: answer2]"))
    await store.end_turn(second, lines, "stop", 1, Usage())
    beside = await store.rewind(TALK, second)
    assert "answer2" in str(await store.export("mo"))
    await store.forget("mo")
    assert (await store.load(beside)).lines == ()


@everywhere
async def test_the_last_messages_are_those_that_wait_else_those_of_the_last_turn(store: Store) -> None:
    async def last() -> tuple[int | None, list[str]]:
        turn, messages = await store.last_asked(TALK)
        return turn, [each.text for each in messages]

    assert await last() == (None, [])
    await store.receive(message(1, image=b"png"))
    await store.receive(message(2))
    assert await last() == (None, ["word1", "word2"])
    first = await begun(store, "m1", "m2")
    assert await last() == (first, ["word1", "word2"])
    await store.end_turn(first, (UserLine("x"), AssistantLine("y")), "length", 1, Usage(), again=("m2",))
    goes_on = await begun(store, "m2")
    await store.end_turn(goes_on, (UserLine("go on"), AssistantLine("z")), "stop", 1, Usage())
    assert await last() == (first, ["word1", "word2"]), "the turn that only went on has no message of its own"
    assert (await store.last_asked(TALK))[1][0].images == (Image("image/png", b"png"),)
    await store.rewind(TALK, first)
    assert await last() == (None, [])


@everywhere
async def test_what_was_taken_out_can_be_put_back_in_place_of_what_came_since(store: Store) -> None:
    await turn(store, 1)
    second = await turn(store, 2, image=b"png")
    await turn(store, 3)
    first = await store.rewind(TALK, second)
    await turn(store, 4)
    assert await store.branches(TALK) == (first,)
    revision = (await store.load(TALK)).revision
    await store.restore(TALK, first)
    assert (await store.load(TALK)).revision > revision
    assert [word for word in await said(store) if word.startswith("word")] == ["word1", "word2", "word3"]
    line = (await store.load(TALK)).lines[2]
    assert isinstance(line, UserLine)
    assert line.images == (Image("image/png", b"png"),)
    (other,) = await store.branches(TALK)
    await store.restore(TALK, other)
    assert (await said(store))[2:] == ["word4", "[SEND: answer4]"]
    assert await store.branches(TALK) == (first,)


@everywhere
async def test_what_came_before_it_is_put_back_first(store: Store) -> None:
    turns = [await turn(store, number) for number in (1, 2, 3)]
    late = await store.rewind(TALK, turns[2])
    await turn(store, 4)
    early = await store.rewind(TALK, turns[0])
    await turn(store, 5)
    await store.restore(TALK, late)
    assert [word for word in await said(store) if word.startswith("word")] == ["word1", "word2", "word3"]
    kept = [[line.text for line in (await store.load(one)).lines] for one in await store.branches(TALK)]
    assert early not in await store.branches(TALK)
    assert [words[0] for words in kept] == ["word4", "word5"]


@everywhere
async def test_what_waits_or_was_withdrawn_meanwhile_is_in_nobodys_way(store: Store) -> None:
    await turn(store, 1)
    branch = await store.rewind(TALK, await turn(store, 2))
    for number in (3, 4):
        await store.receive(message(number))
    await store.withdraw(TALK, "m3")
    await store.restore(TALK, branch)
    (waiting,) = (await store.load(TALK)).waiting
    assert (waiting.text, waiting.number) == ("word4", 4)
    assert await store.message_id(TALK, 2) == "m2"


@pytest.mark.parametrize("withdrawn", [False, True])
@everywhere
async def test_what_waits_under_the_id_of_what_is_put_back_is_the_same_message(
    store: Store, withdrawn: bool
) -> None:
    branch = await store.rewind(TALK, await turn(store, 1))
    quoting = replace(message(1, image=b"png"), quoted=(Quoted("m0", Author("ana", "ana"), "hi"),))
    assert await store.receive(quoting) is not None
    if withdrawn:
        await store.withdraw(TALK, "m1")
    await store.restore(TALK, branch)
    assert await said(store) == ["word1", "[SEND: answer1]"]
    assert (await store.load(TALK)).waiting == ()
    assert await store.unanswered("http:", 0.0) == ()
    assert await store.people("ana") == ()  # nothing is left of the quote


@everywhere
async def test_what_was_never_taken_out_cannot_be_put_back(store: Store) -> None:
    branch = await store.rewind(TALK, await turn(store, 1))
    for address in (f"{TALK}~0.99", TALK, f"{TALK}~", "http:2:pixi~0.1", "' OR 1"):
        with pytest.raises(StoreError, match="is kept as"):
            await store.restore(TALK, address)
    await store.reset(TALK)
    assert (await store.load(branch)).lines == ()


@pytest.mark.parametrize("like", [f"{TALK}~7", f"{TALK}s", f"{TALK}~0.1~"])
async def test_a_talk_whose_address_begins_the_same_is_another(tmp_path: Path, like: str) -> None:
    store = await SqliteStore.open(str(tmp_path / "pixi.db"))
    await store.rewind(TALK, await turn(store, 1))
    await store.receive(replace(message(2), conversation=like))
    begun = await store.begin_turn(like, 0, "pixi", ("m2",), lease=await store.lease(like))
    await store.end_turn(begun.turn, (UserLine("word2"), AssistantLine("hm")), "stop", 1, Usage())
    assert await store.branches(TALK) == (f"{TALK}~0.1",)
    await store.reset(TALK)
    assert [line.text for line in (await store.load(like)).lines] == ["word2", "hm"]
    await store.close()


@everywhere
async def test_what_others_were_told_of_a_person_is_forgotten_there_too(store: Store) -> None:
    async def said_by(author: str, text: str, answer: str) -> int:
        told = Message(text, TALK, Author(author, author), text, 1e9)
        await store.receive(told)
        turn = await begun(store, told.id)
        lines = (UserLine(text), AssistantLine(f"[SEND: {answer}]"))
        assert await store.end_turn(turn, lines, "stop", 1, Usage())
        return turn

    await said_by("mo", "my zeppelin sank", "oh no")
    beside = await store.rewind(TALK, await said_by("ana", "what is new?", "a zeppelin sank"))
    (known,) = await store.people("mo")
    assert known.conversations == 1
    assert await store.forget("mo") == (TALK,)
    assert "zeppelin" not in str((await store.load(beside)).lines)
    assert "what is new?" in str((await store.load(beside)).lines)


@everywhere
async def test_what_can_stand_in_a_talk_again_is_told_with_its_place(store: Store) -> None:
    first, second = await turn(store, 1), await turn(store, 2)
    beside = await store.rewind(TALK, second)
    third = await turn(store, 3)
    found = await store.alternatives(TALK)
    assert [(each.turn, each.after, each.branch) for each in found] == [(second, first, beside)]
    assert found[0].began > 0
    all_of_it = await store.rewind(TALK, first)
    found = await store.alternatives(TALK)
    places = [(first, 0, TALK), (second, first, all_of_it)]
    assert [(each.turn, each.after, each.beside) for each in found] == places
    await store.restore(TALK, all_of_it)
    assert [(each.turn, each.after) for each in await store.alternatives(TALK)] == [(second, first)]
    await store.restore(TALK, beside)
    assert [(each.turn, each.after) for each in await store.alternatives(TALK)] == [(third, first)]
    await store.forget("mo")
    assert await store.alternatives(TALK) == ()


async def test_an_attempt_that_was_begun_again_is_no_place_of_its_own(store: Store) -> None:
    first = await turn(store, 1)
    await store.receive(message(2))
    lease = await store.lease(TALK)
    attempt = await store.begin_turn(TALK, 0, "pixi", ("m2",), lease=lease)
    assert await store.end_turn(attempt.turn, (), "cancelled", 0, Usage())
    begun = await store.begin_turn(TALK, 0, "pixi", ("m2",), lease=lease)
    assert await store.end_turn(begun.turn, (UserLine("word2"), AssistantLine("x")), "stop", 1, Usage())
    await store.rewind(TALK, begun.turn)
    other = await turn(store, 3)
    await store.rewind(TALK, other)
    found = await store.alternatives(TALK)
    assert [(each.turn, each.after) for each in found] == [(begun.turn, first), (other, first)]


async def test_pictures_of_messages_come_where_they_are_wanted(store: Store) -> None:
    first = await turn(store, 1, image=b"png")
    ((plain,),) = (await store.messages_of([first])).values()
    ((whole,),) = (await store.messages_of([first], pictures=True)).values()
    assert (plain.images[0].data, whole.images[0].data) == (b"", b"png")
