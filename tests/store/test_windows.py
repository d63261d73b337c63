"""Where windows stand and what is remembered of the turns before: kept, moved, overtaken, forgotten."""

from functools import partial

import pytest

from pixi.core.conversation import Bounds, PastTurn
from pixi.core.llm import AssistantLine, ToolLine, Usage, UserLine
from pixi.core.message import Author, Image, Message
from pixi.store.statements import inbox, journal, windows
from pixi.store.store import Store
from tests.begun import begun, begun_in
from tests.store.conftest import Watched

ROOM = "discord:1:7:pixi"
MO, ANN = Author("11", "mo"), Author("12", "ann")
CAT = Image("image/png", b"cat")


async def said(
    store: Store, number: int, *, window: Bounds | None = None, author: Author = MO, room: str = ROOM
) -> int:
    """A turn of which nothing but its lines is of interest; gives its number."""
    await store.receive(Message(str(number), room, author, "hm", 1.0))
    generation = (await store.load(room)).generation
    turn = await begun(store, room, generation, "pixi", (str(number),))
    assert await store.end_turn(turn, lines_of(number), "stop", 1, Usage(), window=window)
    return turn


def lines_of(number: int) -> tuple[UserLine, AssistantLine]:
    return UserLine(f"mo: {number}", (CAT,)), AssistantLine(f"[SEND: {number}]")


def fold_lines(number: int) -> tuple[UserLine, AssistantLine]:
    """As they are folded: that there was a picture, without the picture."""
    return UserLine(f"mo: {number}", (Image("image/png", b""),)), AssistantLine(f"[SEND: {number}]")


async def test_what_is_read_begins_where_the_window_does(store: Store) -> None:
    turns = [await said(store, number) for number in range(3)]
    bounds = Bounds(8_192, first_turn=turns[2], notes_from=turns[2], factor=1.375)
    turns.append(await said(store, 3, window=bounds))
    saved = await store.load(ROOM, 8_192)
    assert saved.bounds == bounds
    assert saved.turns == tuple(PastTurn(turns[number], lines_of(number)) for number in (2, 3))
    assert [turn.id for turn in (await store.load(ROOM)).turns] == turns


async def test_who_holds_less_begins_no_earlier_and_who_holds_more_no_later(store: Store) -> None:
    turns = [await said(store, number) for number in range(3)]
    cut = Bounds(8_192, first_turn=turns[1], notes_from=turns[2], factor=2.0)
    await said(store, 3, window=cut)
    assert (await store.load(ROOM, 4_096)).bounds == Bounds(4_096, turns[1], turns[2])
    larger = await store.load(ROOM, 16_384)
    assert larger.bounds == Bounds(16_384)
    assert len(larger.turns) == 4
    await said(store, 4, window=Bounds(4_096, turns[2], turns[2]))
    assert (await store.load(ROOM, 8_192)).bounds == cut


async def test_a_window_never_moves_back(store: Store) -> None:
    turns = [await said(store, number) for number in range(3)]
    await said(store, 3, window=Bounds(8_192, turns[2], turns[2], 1.5))
    await said(store, 4, window=Bounds(8_192, turns[1], turns[1], 1.0))
    assert (await store.load(ROOM, 8_192)).bounds == Bounds(8_192, turns[2], turns[2], 1.5)


async def test_where_it_stands_is_recorded_with_the_turn_or_not_at_all(store: Store) -> None:
    await said(store, 1)
    await store.receive(Message("2", ROOM, MO, "hm", 1.0))
    turn = await begun(store, ROOM, 0, "pixi", ("2",))
    await store.reset(ROOM)
    assert not await store.end_turn(turn, lines_of(2), "stop", 1, Usage(), window=Bounds(8_192, turn))
    assert (await store.load(ROOM, 8_192)).bounds == Bounds(8_192)


async def test_a_summary_and_the_cut_come_at_once_and_are_there_to_the_byte(store: Store) -> None:
    turns = [await said(store, number) for number in range(4)]
    await said(store, 9, room="elsewhere")
    fold = await store.begin_fold(ROOM, 0, turns[2])
    assert fold is not None
    assert fold.summary == ""
    assert fold.turns == tuple(PastTurn(turns[number], fold_lines(number)) for number in (0, 1))
    before = await store.load(ROOM, 8_192)
    assert (before.bounds, before.summary) == (Bounds(8_192), "")
    summary = "Mo promised a cake. \U0001f370\n \ud83d half \x00 a pair"
    assert await store.end_fold(ROOM, fold, Bounds(8_192, turns[2], turns[3]), summary)
    after = await store.load(ROOM, 8_192)
    assert after.summary == summary
    assert after.bounds == Bounds(8_192, turns[2], turns[3])
    assert [turn.id for turn in after.turns] == turns[2:]
    assert await store.begin_fold(ROOM, 0, turns[2]) is None
    following = await store.begin_fold(ROOM, 0, turns[3])
    assert following is not None
    assert (following.summary, [turn.id for turn in following.turns]) == (summary, turns[2:3])


async def test_of_two_summaries_that_are_written_at_once_the_first_stands(store: Store) -> None:
    turns = [await said(store, number) for number in range(3)]
    folds = [await store.begin_fold(ROOM, 0, turns[2]) for _ in range(2)]
    assert folds[0] is not None
    assert folds[1] is not None
    assert await store.end_fold(ROOM, folds[1], Bounds(8_192, turns[1]), "the one")
    assert not await store.end_fold(ROOM, folds[0], Bounds(8_192, turns[2]), "the other")
    saved = await store.load(ROOM, 8_192)
    assert (saved.summary, saved.bounds.first_turn) == ("the one", turns[1])


async def test_a_summary_that_comes_after_a_later_cut_leaves_the_cut(store: Store) -> None:
    turns = [await said(store, number) for number in range(4)]
    fold = await store.begin_fold(ROOM, 0, turns[1])
    assert fold is not None
    cut = Bounds(8_192, turns[3], turns[3], 1.25)
    await said(store, 4, window=cut)
    assert await store.end_fold(ROOM, fold, Bounds(8_192, turns[1], turns[1]), "Mo came.")
    saved = await store.load(ROOM, 8_192)
    assert (saved.summary, saved.bounds) == ("Mo came.", cut)
    missing = await store.begin_fold(ROOM, 0, turns[3])
    assert missing is not None
    assert [turn.id for turn in missing.turns] == turns[1:3]


async def test_a_reset_leaves_no_window_and_no_summary_also_of_one_being_written(store: Store) -> None:
    turns = [await said(store, number) for number in range(3)]
    fold = await store.begin_fold(ROOM, 0, turns[2])
    assert fold is not None
    await store.reset(ROOM)
    assert not await store.end_fold(ROOM, fold, Bounds(8_192, turns[2]), "late")
    await said(store, 3)
    assert await store.begin_fold(ROOM, 0, 10**9) is None
    again = await store.begin_fold(ROOM, 1, 10**9)
    assert again is not None
    assert not await store.end_fold(ROOM, fold, Bounds(8_192, turns[2]), "late")
    saved = await store.load(ROOM, 8_192)
    assert (saved.summary, saved.bounds) == ("", Bounds(8_192))


async def test_who_is_forgotten_is_in_no_summary_and_what_is_left_is_folded_anew(store: Store) -> None:
    turns = [await said(store, number, author=(MO, ANN)[number % 2]) for number in range(4)]
    fold = await store.begin_fold(ROOM, 0, turns[2])
    assert fold is not None
    assert await store.end_fold(ROOM, fold, Bounds(8_192, turns[2]), "mo and ann met")
    late = await store.begin_fold(ROOM, 0, turns[3])
    assert late is not None
    assert await store.forget(MO.id) == (ROOM,)
    saved = await store.load(ROOM, 8_192)
    assert (saved.summary, saved.bounds.first_turn) == ("", turns[2])
    assert not await store.end_fold(ROOM, late, Bounds(8_192, turns[3]), "mo is fond of tea")
    assert (await store.load(ROOM, 8_192)).summary == ""
    left = await store.begin_fold(ROOM, 0, turns[2])
    assert left is not None
    assert (left.summary, [turn.id for turn in left.turns]) == ("", turns[1:2])


# What it costs does not grow with what was said: counted in the steps that SQLite takes.


def turn(db: Watched, number: int, window: Bounds | None = None) -> int:
    inbox.receive(db, [Message(str(number), ROOM, MO, "hm", 1.0)])
    begun = begun_in(db, ROOM, (str(number),), model="m")
    lines = (UserLine(f"mo: {number}"), AssistantLine("[SEND: hm]"))
    journal.end_turns(db, [journal.Ending(begun, lines, "stop", 1, Usage(), window=window)])
    return begun


@pytest.mark.nightly
def test_the_thousandth_turn_costs_what_the_fiftieth_did_warm_and_cold(db: Watched) -> None:
    """At each fiftieth turn what is older than fifty turns is cut, and a summary is written of it."""
    warm, cold, folded = [], [], []
    first, last = range(1, 101), range(950, 1_050)

    def fold(bounds: Bounds) -> None:
        begun = windows.begin_fold(db, ROOM, 0, bounds.first_turn)
        assert begun is not None
        assert windows.end_fold(db, ROOM, begun, bounds, "Mo.")

    for number in range(1, 1_050):
        cut = Bounds(8_192, first_turn=number - 50) if number % 50 == 0 and number > 50 else None
        warm.append(db.steps(partial(turn, db, number, cut)))
        if number in first or number in last:
            cold.append(db.steps(partial(journal.load, db, ROOM, 8_192)))
        if cut:
            folded.append(db.steps(partial(fold, cut)))
    assert len(journal.load(db, ROOM, 8_192).turns) == len(last)
    assert len(journal.load(db, ROOM).turns) == 1_049
    assert max(warm[-100:]) <= max(warm[:100]) * 1.1
    assert max(cold[-100:]) <= max(cold[:100]) * 1.1
    assert max(folded[-3:]) <= max(folded[:3]) * 1.1
    assert db.steps(partial(journal.load, db, ROOM)) > 5 * max(cold)


def test_of_a_past_that_nobody_folded_only_the_latest_is_read(db: Watched) -> None:
    last = [turn(db, number) for number in range(1, windows.MOST_LINES + 1)][-1]
    few = db.steps(lambda: windows.begin_fold(db, ROOM, 0, last))
    for number in range(windows.MOST_LINES + 1, 2 * windows.MOST_LINES):
        last = turn(db, number)
    fold = windows.begin_fold(db, ROOM, 0, last)
    assert fold is not None
    assert sum(len(each.lines) for each in fold.turns) == windows.MOST_LINES
    assert fold.turns[-1].id == last - 1
    assert db.steps(lambda: windows.begin_fold(db, ROOM, 0, last)) <= few * 1.1


def test_neither_window_nor_summary_is_found_by_reading_through_a_table(db: Watched) -> None:
    begun = [turn(db, number, Bounds(8_192, number)) for number in range(1, 4)]
    statements: list[str] = []
    db.raw.set_trace_callback(statements.append)
    journal.load(db, ROOM, 8_192)
    fold = windows.begin_fold(db, ROOM, 0, begun[-1])
    assert fold is not None
    windows.end_fold(db, ROOM, fold, Bounds(8_192, begun[-1]), "hm")
    windows.forget(db, [ROOM])
    windows.drop(db, ROOM)
    db.raw.set_trace_callback(None)
    for statement in dict.fromkeys(statements):
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert not [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step], plan
        assert not [step for step in plan if "TEMP B-TREE" in step], (statement, plan)


def test_a_line_of_a_tool_is_no_reason_to_stumble(db: Watched) -> None:
    inbox.receive(db, [Message("1", ROOM, MO, "hm", 1.0)])
    begun = begun_in(db, ROOM, ("1",), model="m")
    lines = (UserLine("mo: look"), ToolLine("c", "camera", "{}", (CAT,)))
    journal.end_turns(db, [journal.Ending(begun, lines, "stop", 1, Usage())])
    fold = windows.begin_fold(db, ROOM, 0, begun + 1)
    assert fold is not None
    assert fold.turns[0].lines[1] == ToolLine("c", "camera", "{}", (Image("image/png", b""),))
