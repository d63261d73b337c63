"""A person is forgotten, and the others are not; what is kept of somebody can be told to them."""

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.errors import StoreError, StoreOutdated
from pixi.core.llm import AssistantLine, Line, ToolCall, ToolLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Image, Message, Quoted
from pixi.core.reading import SILENCE
from pixi.core.stamps import stamp
from pixi.store.database import Cursor, Database
from pixi.store.kept import Known, SavedConversation, UnfinishedTurn
from pixi.store.sqlite import SqliteStore
from pixi.store.statements import forgetting, personal_data
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import in_a_file

ROOM, DM = "discord:1:7:pixi", "discord:1:8:pixi"
MO, ANN, BOB = Author("11", "Mo the canary"), Author("12", "ann"), Author("13", "bob")
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SECRET, CAT = Image("image/png", b"canary" * 1_000), Image("image/png", b"cat" * 1_000)


class Talk:
    """Messages with ids of their own, and turns that answer them."""

    def __init__(self, store: Store, room: str = ROOM) -> None:
        self._store = store
        self._room = room
        self._count = 0

    async def heard(
        self,
        author: Author,
        text: str,
        *,
        addressed: bool = True,
        images: tuple[Image, ...] = (),
        quoted: tuple[Quoted, ...] = (),
    ) -> Message:
        self._count += 1
        name = f"{self._room}-{self._count}"
        group = self._room != DM
        sent = Message(name, self._room, author, text, 100.0, addressed, None, images, group, quoted)
        recorded = await self._store.receive(sent)
        assert recorded is not None
        return recorded

    async def begun(self, messages: Sequence[Message], reply: str = "hello") -> int:
        """A turn that has posted its reply, and is not ended."""
        names = tuple(message.id for message in messages)
        turn = await begun(self._store, self._room, 0, "pixi", names, model="quick")
        await self._store.intend(turn, 0, "send", reply)
        await self._store.settle(turn, 0, "done", f"post {turn}")
        return turn

    async def answered(self, *messages: Message, reply: str = "hello", small: bool = False) -> list[Line]:
        """A whole turn, with a call of a tool whose argument and result are the reply as well."""
        turn = await self.begun(messages, reply)
        lines: list[Line] = [
            stamp(messages, local_time=NOON, small=small, group=self._room != DM),
            AssistantLine("", (ToolCall("c", "find", json.dumps({"q": reply}, ensure_ascii=False)),)),
            ToolLine("c", "find", reply),
            AssistantLine(f"[SEND: {reply}]"),
        ]
        assert await self._store.end_turn(turn, tuple(lines), "stop", 2, Usage(10, 5, 2), cost=0.5)
        return lines

    def line(self, *messages: Message) -> UserLine:
        return stamp(messages, local_time=NOON, small=False, group=self._room != DM)

    async def lines(self) -> tuple[Line, ...]:
        return (await self._store.load(self._room)).lines


@pytest.fixture
def talk(store: Store) -> Talk:
    return Talk(store)


SILENT = AssistantLine(SILENCE)


def left_in(folder: Path, word: bytes = b"canary") -> list[str]:
    """The files in which the word still stands."""
    return [file.name for file in folder.iterdir() if word in file.read_bytes()]


@in_a_file
async def test_nothing_of_a_forgotten_person_is_left_in_the_files(store: Store, tmp_path: Path) -> None:
    dm, room = Talk(store, DM), Talk(store)
    quote = (Quoted("0", MO, "canary"), Quoted("1", BOB, "well"))
    await dm.answered(await dm.heard(MO, "my canary", images=(SECRET,)), reply="what a canary")
    await dm.heard(MO, "canary?")
    overheard = await room.heard(MO, "canary", addressed=False, images=(SECRET,))
    await room.answered(overheard, await room.heard(ANN, "and pancakes?", images=(CAT,)), reply="a canary!")
    await room.answered(await room.heard(MO, "canary"), await room.heard(BOB, "hi"), reply="canary, bob")
    await room.answered(await room.heard(ANN, "so it is", quoted=quote))
    await room.heard(BOB, "so it is", quoted=quote)
    half_done = await room.begun([await room.heard(MO, "canary")], reply="yes, canary")
    assert left_in(tmp_path), "or this test could not fail"

    assert await store.forget(MO.id) == (ROOM, DM)
    assert left_in(tmp_path) == [], "the log beside the file counts too"
    await store.intend(half_done, 1, "send", "late canary")
    await store.settle(half_done, 1, "done", "5")
    assert not await store.end_turn(half_done, (UserLine("> canary"),), "stop", 1, Usage())
    with closing(sqlite3.connect(tmp_path / "pixi.db")) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    assert left_in(tmp_path) == []
    assert left_in(tmp_path, CAT.data), "the pictures of others are still there"
    await store.check()


async def test_what_answered_them_alone_goes_as_a_whole(store: Store, talk: Talk) -> None:
    before = await talk.answered(await talk.heard(ANN, "hi"))
    overheard = await talk.heard(BOB, "hm", addressed=False)
    await talk.answered(overheard, await talk.heard(MO, "hello"))
    after = await talk.answered(await talk.heard(ANN, "again"))
    assert await store.forget(MO.id) == (ROOM,)
    assert await talk.lines() == (*before, *after)
    assert await store.turn_behind("", "post 2") is None
    assert [len(record.effects) for record in await store.turns(ROOM, 9)] == [1, 0, 1]
    assert (await store.tally("", 0.0)).turns == 3, "what it cost is still known"


async def test_where_others_were_answered_too_their_words_stay_and_the_reply_does_not(
    store: Store, talk: Talk
) -> None:
    ann = await talk.heard(ANN, "pancakes?\nor waffles?", images=(CAT,))
    mo = await talk.heard(MO, "waffles", images=(SECRET,))
    bob = await talk.heard(BOB, "hm", addressed=False)
    await talk.answered(ann, mo, bob, reply="both")
    assert await store.forget(MO.id) == (ROOM,)
    assert await talk.lines() == (talk.line(ann, bob), SILENT)
    (record,) = await store.turns(ROOM, 9)
    assert (record.people, record.effects) == ((ANN.id,), ())


async def test_where_they_were_only_overheard_the_reply_to_others_stays(store: Store, talk: Talk) -> None:
    mo = await talk.heard(MO, "i like the opera", addressed=False)
    ann = await talk.heard(ANN, "what shall we do?")
    lines = await talk.answered(mo, ann, reply="let's dance")
    await store.forget(MO.id)
    assert await talk.lines() == (talk.line(ann), *lines[1:])
    record = await store.turn_behind("", "post 1")
    assert record is not None
    assert [effect.payload for effect in record.effects] == ["let's dance"]


@pytest.mark.parametrize(
    "reply", ["mo the CANARY said so", "a Wednesday then", "it is 47b", 'she said "wednesday"']
)
async def test_a_reply_that_names_or_repeats_them_goes(store: Store, talk: Talk, reply: str) -> None:
    mo = await talk.heard(MO, "on wednesday, at door 47b", addressed=False)
    ann = await talk.heard(ANN, "when?")
    await talk.answered(mo, ann, reply=reply)
    await store.forget(MO.id)
    assert await talk.lines() == (talk.line(ann), SILENT)
    assert await store.turn_behind("", "post 1") is None


async def test_words_that_others_said_too_may_be_repeated(store: Store, talk: Talk) -> None:
    mo = await talk.heard(MO, "not wednesday", addressed=False)
    ann = await talk.heard(ANN, "what about wednesday?")
    lines = await talk.answered(mo, ann, reply="wednesday it is")
    await store.forget(MO.id)
    assert await talk.lines() == (talk.line(ann), *lines[1:])


async def test_of_a_line_that_names_nobody_the_words_of_others_stay(store: Store, talk: Talk) -> None:
    """Small models are shown the bare words of all."""
    await talk.answered(await talk.heard(MO, "hello"), await talk.heard(ANN, "hi"), small=True)
    await store.forget(MO.id)
    assert await talk.lines() == (UserLine("hi"), SILENT)
    assert (await store.turns(ROOM, 1))[0].effects == ()


async def test_quotes_go_from_messages_that_wait_and_from_lines(store: Store, talk: Talk) -> None:
    quoted = (Quoted("0", MO, "my secret"), Quoted("5", BOB, "well"), Quoted("6", None, "oh?"))
    answered = await talk.heard(ANN, "really?", quoted=quoted)
    lines = await talk.answered(answered, reply="sure")
    waits = await talk.heard(ANN, "hm", quoted=quoted)
    assert await store.forget(MO.id) == (ROOM,)
    saved = await store.load(ROOM)
    assert saved.waiting == (replace(waits, quoted=quoted[1:]),)
    assert saved.lines == (talk.line(replace(answered, quoted=quoted[1:])), *lines[1:])


async def test_a_turn_under_way_of_theirs_ends_without_effect(store: Store, talk: Talk) -> None:
    mo = await talk.heard(MO, "hello")
    turn = await talk.begun([mo])
    assert await store.forget(MO.id) == (ROOM,)
    assert (await store.load(ROOM)).unfinished == (UnfinishedTurn(turn, (), (), lease=1),)
    assert not await store.end_turn(turn, (talk.line(mo), SILENT), "stop", 1, Usage(10, 5, 2))
    assert await store.load(ROOM) == SavedConversation(0, (), (), (), revision=1)
    assert (await store.turns(ROOM, 1))[0].usage == Usage(10, 5, 2)


async def test_the_turn_under_way_of_another_goes_on(store: Store, talk: Talk) -> None:
    await talk.answered(await talk.heard(MO, "hello"))
    ann = await talk.heard(ANN, "hi")
    turn = await talk.begun([ann])
    assert await store.forget(MO.id) == (ROOM,)
    assert [unfinished.messages for unfinished in (await store.load(ROOM)).unfinished] == [(ann,)]
    lines = (talk.line(ann), AssistantLine("[SEND: hello]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage())
    assert await talk.lines() == lines


async def test_others_in_a_turn_that_was_overtaken_wait_again_unless_something_was_posted(
    store: Store, talk: Talk
) -> None:
    mo, ann, bob = [await talk.heard(author, "hi") for author in (MO, ANN, BOB)]
    quiet = await begun(store, ROOM, 0, "pixi", (mo.id, ann.id))
    await store.intend(quiet, 0, "send", "hi all")
    await store.settle(quiet, 0, "refused")
    await store.forget(MO.id)
    assert not await store.end_turn(quiet, (), "cancelled", 1, Usage())
    assert (await store.load(ROOM)).waiting == (ann, bob)

    posted = await talk.begun([ann, bob])
    await store.forget(ANN.id)
    assert not await store.end_turn(posted, (), "cancelled", 1, Usage())
    assert (await store.load(ROOM)).waiting == (), "it would be answered twice"


async def test_a_turn_begun_with_what_was_just_forgotten_leaves_nothing(store: Store, talk: Talk) -> None:
    """Whoever begins it still had the message in mind."""
    mo = await talk.heard(MO, "hello")
    await store.forget(MO.id)
    turn = await talk.begun([mo])
    assert not await store.end_turn(turn, (talk.line(mo), SILENT), "stop", 1, Usage())
    assert await store.load(ROOM) == SavedConversation(0, (), (), (), revision=1)


async def test_acts_of_a_turn_that_was_overtaken_can_be_settled_even_after_a_reset(
    store: Store, talk: Talk
) -> None:
    turn = await begun(store, ROOM, 0, "pixi", ((await talk.heard(MO, "hi")).id,))
    await store.intend(turn, 0, "send", "hello")
    await store.forget(MO.id)
    await store.reset(ROOM)
    await store.settle(turn, 0, "done", "900")
    assert not await store.end_turn(turn, (), "cancelled", 1, Usage())
    assert await store.turn_behind("", "900") is None


async def test_a_forgotten_message_is_still_known_and_numbers_go_on(store: Store, talk: Talk) -> None:
    mo = await talk.heard(MO, "hello")
    await store.forget(MO.id)
    assert await store.receive(mo) is None
    assert (await talk.heard(MO, "me again")).number == 2
    assert await store.unanswered("", 0.0) == (ROOM,)
    assert [message.text for message in (await store.load(ROOM)).waiting] == ["me again"]


async def test_to_forget_twice_or_a_stranger_changes_nothing(store: Store, talk: Talk) -> None:
    lines = await talk.answered(await talk.heard(ANN, "hi"))
    await talk.answered(await talk.heard(MO, "hi"))
    assert await store.forget(MO.id) == (ROOM,)
    assert await store.forget(MO.id) == ()
    assert await store.forget("99") == ()
    assert await store.forget("1") == ()
    assert await talk.lines() == tuple(lines)


async def test_a_picture_that_another_showed_too_stays(store: Store, talk: Talk) -> None:
    await talk.heard(MO, "look", images=(CAT, SECRET))
    ann = await talk.heard(ANN, "i have it too", images=(CAT,))
    await store.forget(MO.id)
    assert (await store.load(ROOM)).waiting == (ann,)


async def test_a_store_in_memory_forgets_too() -> None:
    store = await SqliteStore.open(":memory:")
    talk = Talk(store)
    await talk.answered(await talk.heard(MO, "hello"))
    assert await store.forget(MO.id) == (ROOM,)
    assert await store.load(ROOM) == SavedConversation(0, (), (), (), revision=1)
    await store.close()


async def test_forgetting_waits_for_nobody_and_loses_nobody(store: Store, talk: Talk) -> None:
    """Messages arrive and turns are recorded while somebody is forgotten again and again."""
    turn = await talk.begun([await talk.heard(ANN, "hi")])
    calls = [talk.heard(ANN if number % 2 else MO, str(number)) for number in range(100)]
    acts = [store.intend(turn, number, "send", "x") for number in range(1, 50)]
    await asyncio.gather(*calls, *acts, *(store.forget(MO.id) for _ in range(5)))
    await store.forget(MO.id)
    saved = await store.load(ROOM)
    assert sorted(int(message.text) for message in saved.waiting) == [*range(1, 100, 2)]
    assert len(saved.unfinished[0].effects) == 50


# Telling.


async def test_a_person_is_told_all_that_is_kept_of_them(
    store: Store, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.store.statements.journal.time.time", lambda: 1_000.0)
    overheard = await talk.heard(MO, "hm", addressed=False)
    asked = await talk.heard(MO, "half \ud83d a pair 🥞", images=(CAT,))
    await talk.answered(await talk.heard(ANN, "and me?"), overheard, asked, reply="look at that")
    await talk.answered(await talk.heard(ANN, "is it?", quoted=(Quoted(asked.id, MO, "half"),)))
    await store.withdraw(ROOM, (await talk.heard(MO, "oops")).id)
    dm = Talk(store, DM)
    await dm.heard(MO, "psst")
    await dm.heard(ANN, "hello")

    told = await store.export(MO.id)
    assert json.loads(json.dumps(told, ensure_ascii=False).encode()) == told
    assert told["person"] == MO.id
    here, there = told["conversations"]
    assert (here["address"], there["address"]) == (ROOM, DM)
    time = "1970-01-01T00:01:40+00:00"
    assert here["messages"] == [
        {
            "id": overheard.id,
            "number": 1,
            "time": time,
            "addressed": False,
            "name": MO.name,
            "text": "hm",
            "reply_to": None,
            "pictures": [],
        },
        {
            "id": asked.id,
            "number": 2,
            "time": time,
            "addressed": True,
            "name": MO.name,
            "text": "half ? a pair 🥞",
            "reply_to": None,
            "pictures": [{"type": "image/png", "bytes": len(CAT.data)}],
        },
        {"id": f"{ROOM}-5", "number": 5, "time": time, "addressed": True},
    ]
    (answer,) = here["answers"]
    assert (answer["persona"], answer["model"]) == ("pixi", "quick")
    assert answer["acts"] == [{"kind": "send", "text": "look at that"}]
    assert answer["history"] == ["[SEND: look at that]"]
    assert answer["time"] == "1970-01-01T00:16:40+00:00"
    assert here["quoted_by_others"] == [{"id": asked.id, "text": "half"}]
    assert [message["text"] for message in there["messages"]] == ["psst"]
    assert "hello" not in json.dumps(told), "what others wrote is not theirs to see"


async def test_of_a_stranger_and_of_somebody_forgotten_nothing_is_told(store: Store, talk: Talk) -> None:
    await talk.answered(await talk.heard(MO, "hello"))
    await store.forget(MO.id)
    for person in (MO.id, "99"):
        assert await store.export(person) == {
            "person": person,
            "conversations": [],
            "talks": [],
            "files": [],
            "requests": [],
            "done_for_you": [],
            "usage": [],
            "memories": [],
        }


async def test_people_are_found_by_their_id_or_by_a_name(store: Store, talk: Talk) -> None:
    await talk.heard(ANN, "hi")
    await talk.heard(replace(ANN, name="Annie"), "it is me")
    await talk.heard(replace(BOB, name="ANN "), "me too")
    await store.remember(Memory(0, "Pixi", ANN.id, "", ROOM, "all", "likes tea", 1.0))
    (by_id,) = await store.people(ANN.id)
    assert by_id == Known(ANN.id, ("Annie", "ann"), 2, 1, 1, 0, last=by_id.last)
    assert by_id.last > 0
    assert [known.id for known in await store.people("Ann")] == [ANN.id, BOB.id]
    assert await store.people("nobody") == await store.people("") == ()


async def test_a_turn_that_holds_words_that_were_forgotten_is_not_begun(store: Store, talk: Talk) -> None:
    before = (await store.load(ROOM)).revision
    message = await talk.heard(ANN, "hi")
    await talk.heard(MO, "a secret")
    assert await store.forget(MO.id) == (ROOM,)
    with pytest.raises(StoreOutdated, match="Words were taken out of"):
        await begun(store, ROOM, 0, "pixi", (message.id,), revision=before)
    told = await store.forgotten(before)
    assert (told.conversations, told.revision) == ((ROOM,), (await store.load(ROOM)).revision)
    assert await begun(store, ROOM, 0, "pixi", (message.id,), revision=told.revision)


async def test_nothing_is_remembered_in_a_turn_in_which_somebody_was_forgotten(
    store: Store, talk: Talk
) -> None:
    messages = [await talk.heard(ANN, "hi"), await talk.heard(MO, "a secret")]
    await talk.begun(messages)
    fact = Memory(0, "Pixi", ANN.id, "", ROOM, "all", "knows a secret", 1.0)
    await store.remember(replace(fact, text="says hi"), message_id=messages[0].id)
    await store.forget(MO.id)
    with pytest.raises(StoreError, match="Somebody was forgotten meanwhile"):
        await store.remember(fact, message_id=messages[0].id)
    assert [memory.text for memory in await store.memories(ANN.id, "Pixi")] == ["says hi"]


@in_a_file
async def test_a_picture_that_is_missing_is_left_out(store: Store, talk: Talk, tmp_path: Path) -> None:
    await talk.heard(ANN, "look", images=(CAT,))
    with closing(sqlite3.connect(tmp_path / "pixi.db")) as other, other:
        other.execute("DELETE FROM pictures")
    (message,) = (await store.load(ROOM)).waiting
    assert (message.text, message.images) == ("look", ())


async def test_a_person_of_many_turns_is_forgotten_and_told_of_with_few_statements(
    store: Store, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask a server for each turn takes seconds, in which nobody else can write."""
    turns = 240
    for number in range(turns):
        heard = [await talk.heard(MO, f"canary {number}"), await talk.heard(ANN, "hello")]
        await talk.answered(*(heard if number % 3 else heard[:1]))
        if number % 3 == 0:
            await talk.answered(heard[1], reply="nothing of the kind")
    statements: list[str] = []
    forget, export = forgetting.forget, personal_data.export
    monkeypatch.setattr(forgetting, "forget", lambda db, person: forget(Counted(db, statements), person))
    monkeypatch.setattr(personal_data, "export", lambda db, person: export(Counted(db, statements), person))
    assert len((await store.export(MO.id))["conversations"][0]["answers"]) == turns
    assert len(statements) < turns / 3
    statements.clear()
    assert await store.forget(MO.id) == (ROOM,)
    assert len(statements) < turns / 2
    left = await talk.lines()
    assert not any("canary" in line.text for line in left)
    assert [line.text for line in left].count(SILENCE) == turns * 2 // 3
    assert [line.text for line in left].count("[SEND: nothing of the kind]") == turns // 3


async def test_replies_of_later_turns_that_repeat_or_name_somebody_go_too(store: Store, talk: Talk) -> None:
    await talk.answered(await talk.heard(ANN, "who likes mountains?"), reply="nobody said porcupine yet")
    await talk.answered(await talk.heard(MO, "I keep a hedgehog, a porcupine, and love mountains"))
    replies = ("a hedgehog, I hear", "ask Mo the canary", "mountains are fine", "a porcupine")
    for reply in replies:
        heard = await talk.heard(ANN, "and now?")
        await talk.answered(heard, reply=reply)
    await store.forget(MO.id)
    lines = await talk.lines()
    said = [line.text for line in lines if isinstance(line, AssistantLine) and line.text]
    assert said == [
        "[SEND: nobody said porcupine yet]",
        *(SILENCE, SILENCE),
        "[SEND: mountains are fine]",  # others spoke of them as well
        "[SEND: a porcupine]",  # the persona knew the word before
    ]
    assert not any("hedgehog" in line.text or "canary" in line.text for line in lines)
    assert sum(isinstance(line, ToolLine) for line in lines) == 3, "a call goes with its result"
    for number in (3, 4):
        assert await store.turn_behind("discord:", f"post {number}") is None


async def test_an_answer_that_was_put_off_tells_of_nobody(store: Store, talk: Talk) -> None:
    """Its message waits for another turn: whom the acts on record were meant for is known no more."""
    message = await talk.heard(MO, "hi")
    turn = await begun(store, ROOM, 0, "pixi", (message.id,))
    await store.intend(turn, 1, "send", "a canary, Mo")
    await store.settle(turn, 1, "refused", "post")
    assert await store.end_turn(turn, (), "cancelled", 1, Usage())
    record = await store.turn_behind("discord:", "post")
    assert record is not None
    assert [(effect.outcome, effect.payload) for effect in record.effects] == [("refused", "")]


class Counted:
    """A database that notes what it is asked."""

    def __init__(self, db: Database, statements: list[str]) -> None:
        self._db = db
        self._statements = statements

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        self._statements.append(statement)
        return self._db.execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        self._statements.append(statement)
        return self._db.executemany(statement, rows)
