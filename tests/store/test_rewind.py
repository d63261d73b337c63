"""Taking turns out of a conversation: they stand beside it, and nothing of them is lost or left over."""

import pytest

from pixi.core.conversation import Bounds
from pixi.core.deltas import Usage
from pixi.core.lines import AssistantLine, UserLine
from pixi.core.message import Author, Image, Message
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
