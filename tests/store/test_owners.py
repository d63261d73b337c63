"""Who owns a conversation, and that nobody else writes what belongs to its turns."""

import asyncio
import os
import signal
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from pixi.core.errors import LeaseHeld, StoreOutdated
from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.core.spending import UsageEntry
from pixi.store.kept import Deed, PlannedCommand
from pixi.store.opening import file_of, open_store
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import everywhere, in_a_file
from tests.waiting import until

ROOM, MO = "room", Author("1", "mo")
LINES = (UserLine("mo: hi"), AssistantLine("[SEND: hm]"))


def message(name: str = "1") -> Message:
    return Message(name, ROOM, MO, "hi", 0.5)


@pytest.fixture
async def other(url: str, store: Store) -> Store:
    """Another store on the same database."""
    return await open_store(url)


async def test_a_lease_is_kept_and_grows_with_each_owner(store: Store, other: Store) -> None:
    assert not await store.owned_elsewhere(ROOM)
    assert [await store.lease(ROOM), await store.lease(ROOM)] == [1, 1]
    assert (await store.owned_elsewhere(ROOM), await other.owned_elsewhere(ROOM)) == (False, True)
    assert await other.lease(ROOM) == 2, "an owner without a turn under way yields at once"
    assert await store.owned_elsewhere(ROOM)
    with pytest.raises(StoreOutdated, match="Another process owns 'room' by now"):
        await store.begin_turn(ROOM, 0, "pixi", (), lease=1)
    assert await store.lease(ROOM) == 3
    assert await other.lease("elsewhere") == 1
    await other.close()


async def test_a_turn_under_way_holds_the_lease(store: Store, other: Store) -> None:
    turn = await begun(store, ROOM, 0, "pixi", ())
    with pytest.raises(LeaseHeld):
        await other.lease(ROOM)
    assert await store.lease(ROOM) == 1, "it is its own"
    assert await store.end_turn(turn, (), "cancelled", 0, Usage())
    assert await other.lease(ROOM) == 2
    await other.close()


async def test_what_is_released_is_anybodys(store: Store, other: Store) -> None:
    turn = await begun(store, ROOM, 0, "pixi", ())
    await other.release(ROOM)
    with pytest.raises(LeaseHeld):
        await other.lease(ROOM)
    await store.release(ROOM)
    assert (await store.owned_elsewhere(ROOM), await other.owned_elsewhere(ROOM)) == (False, False)
    with pytest.raises(StoreOutdated):
        await store.mark_turn(turn, "written")
    assert await other.lease(ROOM) == 2
    with pytest.raises(LeaseHeld):
        await store.lease(ROOM)
    await other.release(ROOM)
    assert await store.lease(ROOM) == 3
    await other.close()


async def test_a_turn_that_is_recovered_holds_the_lease(url: str, store: Store, other: Store) -> None:
    """Else a second one would recover it at the same time."""
    turn = await begun(other, ROOM, 0, "pixi", ())
    await other.close()
    assert await store.lease(ROOM) == 2
    third = await open_store(url)
    with pytest.raises(LeaseHeld):
        await third.lease(ROOM)
    await store.end_turn(turn, (), "cancelled", 0, Usage(), lease=2)
    assert await third.lease(ROOM) == 3
    await third.close()


async def test_a_slow_former_owner_writes_nothing(store: Store, other: Store) -> None:
    await store.receive(message())
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.plan(turn, [Planned(1, "send", "hm")])
    for sequence in (1, 2):
        await store.intend(turn, sequence, "send", "hm", command=1)
    assert await other.lease(ROOM, take=True) == 2
    before = await other.load(ROOM)
    deed = Deed(ROOM, "", turn, "pixi", "1", "ban", "{}")
    for late in (
        store.plan(turn, [Planned(2, "send", "more")]),
        store.command_ended(turn, 1, "done"),
        store.intend(turn, 3, "send", "more"),
        store.mark_turn(turn, "written"),
        store.audit_begin(deed),
    ):
        with pytest.raises(StoreOutdated, match=f"Another process owns the conversation of turn {turn}"):
            await late
    spent = [UsageEntry(day=1, person="1", messages=1)]
    assert not await store.end_turn(turn, LINES, "stop", 1, Usage(), spent=spent, again=("1",))
    assert (await store.used(1, "person", "1")).messages == 1, "what was used is entered all the same"
    assert await other.load(ROOM) == before

    await other.settle(turn, 1, "unknown")
    for sequence in (1, 2):
        await store.settle(turn, sequence, "done", f"post {sequence}")  # it did happen
    (left,) = (await other.load(ROOM)).unfinished
    assert [(act.outcome, act.platform_id) for act in left.effects] == [("unknown", None), ("done", "post 2")]
    assert left.lease == 1
    await other.intend(turn, 3, "send", "goodbye", lease=2)
    await other.settle(turn, 3, "done")
    assert await other.end_turn(turn, LINES, "cancelled", 0, Usage(), lease=2)
    await other.close()


async def test_a_former_owner_that_owns_it_again_writes_under_its_new_lease_alone(
    store: Store, other: Store
) -> None:
    await store.receive(message())
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.plan(turn, [Planned(1, "send", "hm")])
    assert await other.lease(ROOM, take=True) == 2
    assert await store.lease(ROOM, take=True) == 3
    for late in (
        store.plan(turn, [Planned(2, "send", "more")]),
        store.command_ended(turn, 1, "done"),
        store.intend(turn, 1, "send", "more"),
        store.mark_turn(turn, "written"),
        store.audit_begin(Deed(ROOM, "", turn, "pixi", "1", "ban", "{}")),
        other.intend(turn, 1, "send", "more", lease=2),
    ):
        with pytest.raises(StoreOutdated, match=rf"[Aa]nother process .* the conversation of turn {turn}"):
            await late
    assert not await store.end_turn(turn, LINES, "stop", 1, Usage())
    await store.intend(turn, 1, "send", "hm", command=1, lease=3)
    await store.command_ended(turn, 1, "done", lease=3)
    await store.settle(turn, 1, "done")
    assert await store.end_turn(turn, LINES, "cancelled", 0, Usage(), lease=3)
    await other.close()


@everywhere
async def test_what_closed_is_on_record_until_the_turn_ends(store: Store) -> None:
    await store.receive(message())
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    planned = [Planned(1, "note", ""), Planned(2, "send", "\ud83d [x]", 4), Planned(3, "dice", "2d6")]
    await store.plan(turn, planned[:2])
    await asyncio.gather(
        store.plan(turn, planned[2:]),
        store.intend(turn, 1, "send", "\ud83d", command=2),
        store.command_ended(turn, 2, "begun"),
        store.command_ended(turn, 2, "done"),
        store.command_ended(turn, 1, "failed"),
    )
    (left,) = (await store.load(ROOM)).unfinished
    assert left.commands == (
        PlannedCommand(1, "note", "", 0, "failed"),
        PlannedCommand(2, "send", "\ud83d [x]", 4, "done"),
        PlannedCommand(3, "dice", "2d6"),
    )
    assert ([act.command for act in left.effects], left.mark) == ([2], None)
    await store.mark_turn(turn, "stopped")
    await store.mark_turn(turn, "written")
    (left,) = (await store.load(ROOM)).unfinished
    assert [each.outcome for each in left.commands] == ["failed", "done", "dropped"]
    assert left.mark == "stopped"
    await store.settle(turn, 1, "done")
    assert await store.end_turn(turn, LINES, "cancelled", 1, Usage())
    with pytest.raises(StoreOutdated, match=f"Turn {turn} was ended"):
        await store.plan(turn, planned)
    assert await store._writer.ask(lambda db: db.execute("SELECT * FROM commands").fetchall()) == []


@everywhere
async def test_a_command_that_is_not_on_record_cannot_end(store: Store) -> None:
    turn = await begun(store, ROOM, 0, "pixi", ())
    with pytest.raises(Exception, match=f"no command 7 of turn {turn}"):
        await store.command_ended(turn, 7, "done")


@everywhere
@pytest.mark.parametrize("outcome", [None, "done", "unknown", "refused"])
async def test_freeing_looks_again_whether_something_was_seen(store: Store, outcome: str | None) -> None:
    await store.receive(message())
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 1, "send", "hm")
    if outcome is not None:
        await store.settle(turn, 1, outcome)  # type: ignore[arg-type]
    freed = await store.end_turn(turn, (), "cancelled", 1, Usage())
    saved = await store.load(ROOM)
    assert saved.unfinished == ()
    assert (freed, [one.id for one in saved.waiting]) == ((outcome == "refused"), ["1"] if freed else [])


async def test_who_owned_it_once_keeps_no_message_from_an_answer(store: Store, other: Store) -> None:
    await store.receive(message())
    former = await store.lease(ROOM)
    lease = former
    for owner in (other, store):
        lease = await owner.lease(ROOM)
        with pytest.raises(StoreOutdated):
            await store.only_hear(ROOM, ["1"], lease=former)
    assert (await store.load(ROOM)).waiting[0].addressed
    await store.only_hear(ROOM, ["1"], lease=lease)
    assert not (await store.load(ROOM)).waiting[0].addressed
    await other.close()


# Messages that come due again.


@everywhere
async def test_what_a_cut_turn_left_unanswered_comes_due_again_once(store: Store) -> None:
    for name in "1234":
        await store.receive(message(name))
    await store.only_hear(ROOM, ["2"])
    first = await begun(store, ROOM, 0, "pixi", ("1", "2", "3"))
    assert await store.end_turn(first, LINES, "cancelled", 1, Usage(), again=("1", "2", "9"))
    waiting = (await store.load(ROOM)).waiting
    assert [(one.id, one.again) for one in waiting] == [("1", True), ("4", False)]
    assert await store.unanswered("", 0.0) == (ROOM,)

    second = await begun(store, ROOM, 0, "pixi", ("4", "1"))
    (left,) = (await store.load(ROOM)).unfinished
    assert [(one.id, one.again) for one in left.messages] == [("1", True), ("4", False)]
    assert (await store.load(ROOM)).waiting == ()
    assert await store.end_turn(second, (), "cancelled", 1, Usage()), "it was begun again"
    assert (await store.load(ROOM)).waiting == waiting

    third = await begun(store, ROOM, 0, "pixi", ("1", "4"))
    await store.intend(third, 1, "send", "hm")
    await store.settle(third, 1, "done", "post")
    assert await store.end_turn(third, LINES, "cancelled", 1, Usage(), again=("1", "4"))
    assert [(one.id, one.again) for one in (await store.load(ROOM)).waiting] == [("4", True)], "1 did before"
    record = await store.turn_behind("", "post")
    assert record is not None
    assert record.people == ("1",)
    assert [turn.id for turn in await store.turns(ROOM, 9)] == [first, third]


@everywhere
async def test_a_message_that_comes_due_again_can_be_edited_and_taken_back(store: Store) -> None:
    for name in "123":
        await store.receive(message(name))
    turn = await begun(store, ROOM, 0, "pixi", ("1", "2", "3"))
    await store.end_turn(turn, LINES, "cancelled", 1, Usage(), again=("1", "2", "3"))
    assert await store.revise(ROOM, "1", "well")
    assert await store.withdraw(ROOM, "2")
    await store.only_hear(ROOM, ["3"])
    (left,) = (await store.load(ROOM)).waiting
    assert (left.id, left.text, left.again) == ("1", "well", True)
    assert not await store.revise(ROOM, "3", "hm"), "it was answered, and waits no longer"
    second = await begun(store, ROOM, 0, "pixi", ("1",))
    assert await store.revise(ROOM, "1", "oh")
    await store.end_turn(second, LINES, "stop", 1, Usage())
    assert not await store.revise(ROOM, "1", "too late")


@everywhere
async def test_who_is_forgotten_is_forgotten_in_both_turns(store: Store) -> None:
    ann = Author("2", "ann")
    await store.receive(message("1"))
    await store.receive(replace(message("2"), author=ann))
    first = await begun(store, ROOM, 0, "pixi", ("1", "2"))
    await store.end_turn(first, LINES, "cancelled", 1, Usage(), again=("1",))
    second = await begun(store, ROOM, 0, "pixi", ("1",))
    lines = (UserLine("mo: a canary"), AssistantLine("[SEND: a canary]"))
    await store.intend(second, 1, "send", "a canary")
    await store.settle(second, 1, "done", "post")
    await store.end_turn(second, lines, "stop", 1, Usage())
    (talk,) = (await store.export(MO.id))["conversations"]
    assert [answer["acts"] for answer in talk["answers"]] == [[], [{"kind": "send", "text": "a canary"}]]
    await store.forget(MO.id)
    saved = await store.load(ROOM)
    assert "canary" not in str(saved.lines)
    assert await store.turn_behind("", "post") is None


@everywhere
async def test_who_is_forgotten_under_the_second_turn_ends_it_without_effect(store: Store) -> None:
    await store.receive(message())
    first = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.end_turn(first, LINES, "cancelled", 1, Usage(), again=("1",))
    second = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.plan(second, [Planned(1, "send", "a canary")])
    assert not await store.forget_old(1.0), "what is answered just now is left to the next time"
    assert [one.id for one in (await store.load(ROOM)).unfinished[0].messages] == ["1"]
    revision = (await store.forgotten(0)).revision
    await store.forget(MO.id)
    assert second in (await store.forgotten(revision)).turns
    found = await store._writer.ask(lambda db: db.execute("SELECT argument FROM commands").fetchall())
    assert found == [(b"",)]
    await store.command_ended(second, 1, "done")
    assert not await store.end_turn(second, LINES, "stop", 1, Usage())
    assert (await store.load(ROOM)).waiting == ()


# Processes.

HOLDER = """
import asyncio, sys
from pixi.core.message import Author, Message
from pixi.store.opening import open_store

async def main():
    store = await open_store(sys.argv[1])
    await store.receive(Message("1", "room", Author("1", "mo"), "hi", 0.5))
    lease = await store.lease("room")
    begun = await store.begin_turn("room", 0, "pixi", ("1",), lease=lease)
    await store.intend(begun.turn, 1, "send", "was it seen?")
    print(lease, flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


async def started(script: str, *arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *arguments, stdin=pipe, stdout=pipe
    )


async def ownerless(store: Store, room: str) -> None:
    """Wait until nobody else owns a conversation: a server hears of a death a moment later."""

    async def nobody() -> bool:
        return not await store.owned_elsewhere(room)

    await until(nobody)


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_the_lease_of_a_killed_process_is_anybodys(url: str) -> None:
    holder = await started(HOLDER, url)
    assert await line_of(holder) == "1"
    store = await open_store(url)
    for _ in range(3):  # to look does not free it
        with pytest.raises(LeaseHeld):
            await store.lease(ROOM)
        assert await store.owned_elsewhere(ROOM)
    holder.kill()
    await holder.communicate()
    assert holder.returncode == -signal.SIGKILL
    await ownerless(store, ROOM)
    assert await store.lease(ROOM) == 2
    (left,) = (await store.load(ROOM)).unfinished
    assert (left.lease, [act.outcome for act in left.effects]) == (1, [None])
    owners = await store._writer.ask(lambda db: db.execute("SELECT id FROM owners").fetchall())
    assert owners == [(2,)]
    await store.close()


@in_a_file
async def test_files_of_owners_go_with_them(url: str) -> None:
    path = file_of(url)
    assert path is not None

    def files() -> list[str]:
        return sorted(file.name for file in path.parent.iterdir() if "-owner-" in file.name)

    holder = await started(HOLDER, url)
    await line_of(holder)
    assert files() == ["pixi.db-owner-1"]
    assert os.stat(path.parent / files()[0]).st_mode & 0o777 == 0o600
    holder.kill()
    await holder.communicate()
    assert files() == ["pixi.db-owner-1"]
    store, only_looks = await open_store(url), await open_store(url)
    await only_looks.load(ROOM)
    await store.lease("elsewhere")
    assert files() == ["pixi.db-owner-2"], "whoever becomes an owner clears away what the dead left"
    await only_looks.close()
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == ["pixi.db"]


ASKER = """
import asyncio, sys
from pixi.store.opening import open_store

async def main():
    store = await open_store(sys.argv[1])
    print(await store.owned_elsewhere("room"), flush=True)

asyncio.run(main())
"""


async def test_no_store_of_the_same_process_gives_the_lock_up(url: str, store: Store) -> None:
    """As to close a file would, of all that a process has open."""
    turn = await begun(store, ROOM, 0, "pixi", ())
    for _ in range(3):
        other = await open_store(url)
        assert await other.lease("elsewhere")
        with pytest.raises(LeaseHeld):
            await other.lease(ROOM)
        await other.close()
    asked = await (await started(ASKER, url)).communicate()
    assert asked[0] == b"True\n"
    assert await store.end_turn(turn, (), "cancelled", 0, Usage())


@in_a_file
async def test_a_store_that_is_reached_through_a_link_has_the_same_owners(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    folder.mkdir()
    path = file_of(url)
    assert path is not None
    (folder / "other.db").symlink_to(path)
    here, there = await open_store(url), await open_store(f"sqlite:///{folder}/other.db")
    await begun(here, ROOM, 0, "pixi", ())
    with pytest.raises(LeaseHeld):
        await there.lease(ROOM)
    await here.close()
    await there.close()


@in_a_file
async def test_a_number_that_was_not_kept_locks_nobody_out(url: str) -> None:
    path = file_of(url)
    assert path is not None
    store = await open_store(url)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON leases BEGIN SELECT RAISE(ABORT, 'full'); END")
        db.execute("CREATE TRIGGER none AFTER INSERT ON owners BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(Exception, match="full"):
        await store.lease(ROOM)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER none")
    with pytest.raises(Exception, match="full"):
        await store.lease(ROOM)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER full")
    assert await store.lease(ROOM) == 1
    await store.close()


WORKER = """
import asyncio, sys
from random import Random
from pixi.core.llm import Usage
from pixi.core.errors import LeaseHeld, StoreOutdated
from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, UserLine
from pixi.store.opening import open_store

USED = Usage()

async def main(url, seed, rooms):
    store, random = await open_store(url), Random(seed)
    while True:
        room = f"room {random.randrange(rooms)}"
        try:
            lease = await store.lease(room)
        except LeaseHeld:
            print("held", flush=True)
            await asyncio.sleep(0)
            continue
        saved = await store.load(room)
        mine = [turn for turn in saved.unfinished if turn.lease <= lease]
        for turn in mine:  # nobody takes over while they are recovered
            assert turn.lease < lease, "a living process had it"
            for act in turn.effects:
                await store.settle(turn.id, act.sequence, "unknown")
            said = (UserLine(" ".join(m.id for m in turn.messages)), AssistantLine(""))
            lines = said if turn.effects else ()
            assert await store.end_turn(turn.id, lines, "cancelled", 0, USED, lease=lease)
        saved = await store.load(room)
        ids = tuple(message.id for message in saved.waiting[: random.randint(1, 3)])
        try:
            begun = await store.begin_turn(room, 0, "pixi", ids, lease=lease)
        except StoreOutdated:
            if not (await store.unanswered("", 0.0)):
                break
            continue  # it was idle for a moment, and somebody was quicker
        print("turn", flush=True)
        # From here on nobody but a killer ends it.
        number = random.randint(0, 2)
        await store.plan(begun.turn, [Planned(n, "send", "hm") for n in range(number)])
        for n in range(number):
            await store.intend(begun.turn, n, "send", "hm", command=n)
            await asyncio.sleep(random.choice((0, 0.001)))
            await store.settle(begun.turn, n, "done", f"{begun.turn}-{n}")
            await store.command_ended(begun.turn, n, "done")
        await store.mark_turn(begun.turn, "written")
        lines = (UserLine(" ".join(begun.taken)), AssistantLine(""))
        assert await store.end_turn(begun.turn, lines, "stop", 1, USED)
        if not ids and not await store.unanswered("", 0.0):
            break
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.parametrize(("messages", "kills"), [(20, 3), pytest.param(600, 80, marks=pytest.mark.nightly)])
async def test_three_processes_killed_at_random_never_own_the_same(
    url: str, messages: int, kills: int
) -> None:
    """None of them meets another in its turn, and each message becomes history once."""
    rooms = 2
    store = await open_store(url)
    for number in range(messages):
        room = f"room {number % rooms}"
        await store.receive(replace(message(str(number)), conversation=room, sent_at=1.0 + number))
    workers = [await started(WORKER, url, str(seed), str(rooms)) for seed in range(3)]
    for seed in range(kills):
        victim = seed % 3
        for _ in range(seed % 5 + 1):  # at another moment of its work each time
            await line_of(workers[victim])
        with suppress(
            ProcessLookupError
        ):  # not by `kill`: that looks whether it has ended, and takes the code
            os.kill(workers[victim].pid, signal.SIGKILL)
        await workers[victim].communicate()
        assert workers[victim].returncode in (-signal.SIGKILL, 0)
        workers[victim] = await started(WORKER, url, str(100 + seed), str(rooms))
    ends = [worker.communicate() for worker in workers]
    await asyncio.gather(*ends)
    assert [worker.returncode for worker in workers] == [0, 0, 0], "none lost a turn to another that lives"
    told: list[str] = []
    for room in (f"room {number}" for number in range(rooms)):
        await ownerless(store, room)
        saved = await store.load(room)
        assert (saved.unfinished, saved.waiting) == ((), ())
        told += [name for line in saved.lines if isinstance(line, UserLine) for name in line.text.split()]
    assert sorted(told, key=int) == [str(number) for number in range(messages)]
    await store.close()
