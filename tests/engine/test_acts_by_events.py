"""Acts that are their events and nothing else: on record together, and nothing is shown before that."""

import pytest

from pixi.core.events import Failed, Reacted, Sent
from pixi.store.sqlite import SqliteStore
from pixi.store.writer import Writer
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.gate import FULL, Gate
from tests.engine.scene import scene
from tests.waiting import until

WHOLE = "[NOTE: they came]\n[REACT: 🥞]\n[SEND: one]\n[SEND: two]\n[SEND: three]"
ACTS = [("react", "🥞"), ("send", "one"), ("send", "two"), ("send", "three")]


def by_events() -> RecordingChannel:
    return RecordingChannel(growing=True, acts_by_events=True)


async def test_all_acts_of_a_reply_that_comes_whole_go_on_record_in_one_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[int] = []
    hand_over = Writer._hand_over

    def counted(writer: Writer) -> None:
        rounds.append(len(writer._noted))
        hand_over(writer)

    async with scene(ScriptedModel("x", WHOLE, piece=0), channel=by_events()) as here:
        await here.talk("warm up")
        here.channel.events.clear()
        monkeypatch.setattr(Writer, "_hand_over", counted)
        await here.talk("hello")
        monkeypatch.undo()
        assert [type(event) for event in here.channel.events if isinstance(event, Reacted | Sent)] == [
            *(Reacted, Sent, Sent, Sent)
        ]
    # The message comes; the turn begins; a plan of five, their ends, and four acts; the turn ends.
    assert len(rounds) == 4
    assert max(rounds) == 1 + 5 + 4


async def test_what_was_done_is_on_record_with_its_outcome(store: SqliteStore) -> None:
    async with scene(ScriptedModel(WHOLE, "x"), channel=by_events(), store=store) as here:
        await here.talk("hello", "again")
        turn, _ = await store.turns("test:channel", 9)
        assert [(each.kind, each.payload) for each in turn.effects] == ACTS
        assert {each.outcome for each in turn.effects} == {"done"}
        assert here.replies() == [WHOLE]


async def test_nothing_is_shown_before_it_is_on_record_and_all_in_its_order(store: SqliteStore) -> None:
    gate = Gate(store, "intend")
    async with scene(ScriptedModel(WHOLE, piece=0), channel=by_events(), store=store) as here:
        await here.say("hello")
        await until(lambda: "Noted" in here.kinds())
        assert not any(isinstance(event, Reacted | Sent) for event in here.channel.events)
        gate.open.set()
        await here.engine.settled()
        shown = [event for event in here.channel.events if isinstance(event, Reacted | Sent)]
        assert [getattr(event, "text", "🥞") for event in shown] == ["🥞", "one", "two", "three"]
        assert here.kinds()[-1] == "TurnEnded"


async def test_where_an_act_cannot_be_recorded_neither_it_nor_what_follows_is_shown(
    store: SqliteStore,
) -> None:
    Gate(store, "intend", error=FULL, when=lambda *given, **_: given[3] == "two")
    async with scene(ScriptedModel(WHOLE), channel=by_events(), store=store) as here:
        await here.say("hello")
        await here.engine.settled()
        assert [event.text for event in here.channel.events if isinstance(event, Sent)] == ["one"]
        assert [event.text for event in here.channel.events if isinstance(event, Failed)] == [
            "The disk is full."
        ]


async def test_such_a_channel_is_asked_for_no_sign_of_typing() -> None:
    async with scene(ScriptedModel(WHOLE), channel=by_events()) as here:
        await here.talk("hello")
        assert here.channel.typed == 0
