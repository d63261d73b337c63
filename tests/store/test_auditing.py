"""What tools changed in the world stays on record; a forgotten person does not."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from pixi.core.errors import OverQuota, StoreOutdated
from pixi.core.llm import AssistantLine, ToolCall, ToolLine, Usage, UserLine
from pixi.core.message import Author, Image, Message
from pixi.core.stamps import stamp
from pixi.store.kept import AuditOutcome, Deed, Quota
from pixi.store.opening import open_store
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import everywhere, in_a_file

ROOM = "discord:1:7:pixi"
DEED = Deed(ROOM, "discord:1", 1, "Pixi", "11", "ban", '{"who": "canary"}', "11")


async def test_a_deed_is_on_record_before_and_after(store: Store) -> None:
    number = await store.audit_begin(DEED)
    (record,) = await store.audit(9)
    assert (record.id, record.deed, record.outcome, record.seconds) == (number, DEED, None, None)
    await store.audit_end(number, "done", 1.5)
    await store.audit_end(number, "unknown", 9.0)
    (record,) = await store.audit(9)
    assert (record.outcome, record.seconds) == ("done", 1.5)


async def test_nothing_is_done_in_a_turn_that_another_process_took_over(store: Store) -> None:
    await store.receive(Message("1", ROOM, Author("11", "mo"), "ban them", 0.0))
    turn = await begun(store, ROOM, 0, "Pixi", ("1",))
    await store.audit_begin(replace(DEED, turn=turn))
    await store.end_turn(turn, (), "cancelled", 0, Usage())
    with pytest.raises(StoreOutdated, match=f"Turn {turn} was ended by another process"):
        await store.audit_begin(replace(DEED, turn=turn))
    assert len(await store.audit(9)) == 1


QUOTA = Quota(3, 3_600, ("ban", "mute"))


async def test_so_much_is_done_for_a_person_within_a_stretch_of_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("pixi.store.statements.audit.time.time", lambda: now)
    outcomes: tuple[AuditOutcome, ...] = ("failed", "done", "denied", "unknown")
    for outcome in outcomes:
        await store.audit_end(await store.audit_begin(DEED, quota=QUOTA), outcome, 0.1)
    await store.audit_begin(replace(DEED, tool="look"), quota=QUOTA)
    now += 600
    await store.audit_begin(replace(DEED, tool="mute"), quota=QUOTA)
    with pytest.raises(OverQuota) as over:
        await store.audit_begin(DEED, quota=QUOTA)
    assert over.value.wait == 3_000
    await store.audit_begin(replace(DEED, person="12"), quota=QUOTA)
    now += 3_000
    await store.audit_begin(DEED, quota=QUOTA)


async def test_a_deed_that_is_wanted_once_is_not_counted_again(store: Store) -> None:
    once = replace(QUOTA, writes=2, once=True)
    first = await store.audit_begin(DEED, quota=once)
    assert await store.audit_begin(DEED, quota=once) == first
    await store.audit_end(first, "done", 0.1)
    long = replace(DEED, arguments="\ud800" + "x" * 9_000)
    second = await store.audit_begin(long, quota=once)
    assert [await store.audit_begin(each, quota=once) for each in (DEED, long)] == [first, second]
    for other in (replace(DEED, arguments="{}"), replace(DEED, tool="mute")):
        with pytest.raises(OverQuota):
            await store.audit_begin(other, quota=once)
    assert await store.audit_begin(replace(DEED, person="12"), quota=once) not in (first, second)
    await store.audit_end(second, "failed", 0.1)  # then it was not done, and is another
    assert await store.audit_begin(long, quota=once) != second


@everywhere
async def test_two_processes_count_together(store: Store, url: str) -> None:
    others = [store] if url == ":memory:" else [store, await open_store(url)]
    begun = await asyncio.gather(
        *(others[n % len(others)].audit_begin(DEED, quota=QUOTA) for n in range(8)), return_exceptions=True
    )
    assert sum(isinstance(each, int) for each in begun) == 3
    assert sum(isinstance(each, OverQuota) for each in begun) == 5
    for other in others[1:]:
        await other.close()


async def test_the_latest_come_last(store: Store) -> None:
    for number in range(5):
        room = f"{'terminal' if number % 2 else 'discord'}:{number}"
        await store.audit_begin(replace(DEED, conversation=room))
    assert [record.deed.conversation for record in await store.audit(2)] == ["terminal:3", "discord:4"]
    assert await store.audit(-1) == ()


async def test_long_and_strange_arguments_are_kept_as_far_as_they_can_be(store: Store) -> None:
    await store.audit_begin(replace(DEED, arguments="x" * 10_000))
    await store.audit_begin(replace(DEED, arguments="\ud800 ' ; DROP TABLE audit"))
    long, strange = (record.deed.arguments for record in await store.audit(9))
    assert len(long) < 4_100
    assert long.endswith("[6000 characters more]")
    assert strange == "? ' ; DROP TABLE audit"


@in_a_file
async def test_a_forgotten_person_is_in_no_record_and_others_are(store: Store, tmp_path: Path) -> None:
    await store.audit_end(await store.audit_begin(DEED), "done", 1.0)
    await store.audit_begin(replace(DEED, person="12", arguments="{}", approved_by="11"))
    assert [told["tool"] for told in (await store.export("11"))["done_for_you"]] == ["ban"]
    await store.forget("11")
    first, second = await store.audit(9)
    assert first.deed == replace(DEED, person="", arguments="", approved_by="")
    assert first.outcome == "done"
    assert (second.deed.person, second.deed.arguments, second.deed.approved_by) == ("12", "{}", "")
    assert (await store.export("11"))["done_for_you"] == []
    await store.close()
    assert b"canary" not in (tmp_path / "pixi.db").read_bytes()


async def test_what_begins_after_its_person_was_forgotten_names_nobody(store: Store) -> None:
    said = Message("m1", ROOM, Author("11", "Mo"), "ban canary", 100.0)
    await store.receive(said)
    turn = await begun(store, ROOM, 0, "Pixi", ("m1",))
    await store.forget("11")
    await store.audit_begin(replace(DEED, turn=turn))
    (record,) = await store.audit(1)
    assert (record.deed.person, record.deed.arguments, record.deed.approved_by) == ("", "", "")


async def test_what_was_done_for_several_holds_no_words_of_one_who_was_forgotten(store: Store) -> None:
    for number, (person, text, addressed) in enumerate(
        (("11", "ban canary", True), ("12", "do it", True), ("13", "he owes me 40,000", False))
    ):
        await store.receive(
            Message(f"m{number}", ROOM, Author(person, f"P{person}"), text, 100.0, addressed=addressed)
        )
    turn = await begun(store, ROOM, 0, "Pixi", ("m0", "m1", "m2"))
    deed = replace(DEED, person="12", turn=turn, approved_by="12")
    for given in ('{"who": "canary"}', '{"debt": "40,000"}'):
        await store.audit_begin(replace(deed, arguments=given))
    await store.audit_begin(replace(deed, turn=turn + 1))
    await store.forget("13")
    assert [record.deed.arguments for record in await store.audit(9)] == [
        '{"who": "canary"}',
        "",
        DEED.arguments,
    ]
    await store.forget("11")
    assert [record.deed.arguments for record in await store.audit(9)] == ["", "", DEED.arguments]
    assert {record.deed.person for record in await store.audit(9)} == {"12"}


@in_a_file
async def test_the_pictures_that_a_tool_brought_are_kept_once_and_go_with_their_turn(
    store: Store, tmp_path: Path
) -> None:
    picture = Image("image/png", b"canary" * 500)
    calls = (ToolCall("1", "draw", "{}"), ToolCall("2", "draw", "{}"))
    lines = (
        UserLine("Mo: draw"),
        AssistantLine("", calls),
        ToolLine("1", "draw", "here", (picture,)),
        ToolLine("2", "draw", "here", (picture, picture)),
        AssistantLine("[SEND: ok]"),
    )
    await store.receive(Message("m1", ROOM, Author("11", "Mo"), "draw", 100.0))
    turn = await begun(store, ROOM, 0, "Pixi", ("m1",))
    await store.end_turn(turn, lines, "stop", 2, Usage())
    assert (await store.load(ROOM)).lines == lines
    with closing(sqlite3.connect(tmp_path / "pixi.db")) as db:
        assert db.execute("SELECT count(*) FROM pictures").fetchone() == (1,)
        await store.forget("11")
        assert db.execute("SELECT count(*) FROM pictures").fetchone() == (0,)


@in_a_file
async def test_pictures_go_with_an_answer_of_which_only_silence_stays(store: Store, tmp_path: Path) -> None:
    people = (Author("11", "Mo"), Author("12", "Ann"))
    for number, author in enumerate(people):
        await store.receive(Message(f"m{number}", ROOM, author, f"draw {author.name}", 100.0, group=True))
    messages = (await store.load(ROOM)).waiting
    turn = await begun(store, ROOM, 0, "Pixi", ("m0", "m1"))
    lines = (
        stamp(messages, local_time=datetime(2026, 1, 1, tzinfo=UTC), small=False, group=True),
        AssistantLine("", (ToolCall("1", "draw", "{}"),)),
        ToolLine("1", "draw", "Mo", (Image("image/png", b"canary" * 500),)),
        AssistantLine("[SEND: Mo!]"),
    )
    await store.end_turn(turn, lines, "stop", 2, Usage())
    await store.forget("11")
    assert len((await store.load(ROOM)).lines) == 2  # what Ann wrote stays
    with closing(sqlite3.connect(tmp_path / "pixi.db")) as db:
        assert db.execute("SELECT count(*) FROM pictures").fetchone() == (0,)
