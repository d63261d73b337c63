"""The life of a turn: how it ends in the cases that people meet, and what holds on any way through it."""

import random
from typing import Any

import pytest

from pixi.core.life import (
    ENDING,
    FATES,
    LIVE,
    NEXT,
    Fate,
    ImpossibleEvent,
    Life,
    LifeEvent,
    LifeState,
    Reason,
    unanswered,
)
from pixi.core.message import Author, Message


def lived(*events: LifeEvent, restarts: int = 3, retries: int = 1, yields: bool = True) -> Life:
    life = Life(restarts=restarts, revisions=restarts, retries=retries, yields=yields)
    for event in events:
        life.on(event)
    return life


E = LifeEvent


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((E.BEGUN, E.ACTED, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),  # by silence
        ((E.BEGUN, E.NEWER, E.PERFORMED), Reason.RESTARTED),
        ((E.BEGUN, E.ACTED, E.NEWER, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.ACTED, E.INTERRUPTED, E.PERFORMED), Reason.YIELDED),
        ((E.BEGUN, E.LOOKED_UP, E.NEWER, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.LOOKED_UP, E.INTERRUPTED, E.PERFORMED), Reason.YIELDED),
        ((E.BEGUN, E.EDITED, E.PERFORMED), Reason.RESTARTED),
        ((E.BEGUN, E.ACTED, E.EDITED, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.WITHDRAWN, E.PERFORMED), Reason.REQUEUED),
        ((E.BEGUN, E.ACTED, E.WITHDRAWN, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.ACTED, E.ANSWERED_WITHDRAWN, E.PERFORMED), Reason.WITHDRAWN),
        ((E.CANCEL,), Reason.STOPPED),
        ((E.BEGUN, E.NEWER, E.CANCEL, E.PERFORMED), Reason.STOPPED),
        ((E.BEGUN, E.ACTED, E.WRITTEN, E.CANCEL, E.PERFORMED), Reason.STOPPED),
        ((E.DRAIN,), Reason.REQUEUED),
        ((E.BEGUN, E.DRAIN, E.PERFORMED), Reason.REQUEUED),
        ((E.BEGUN, E.ACTED, E.DRAIN, E.PERFORMED), Reason.DRAINED),
        ((E.BEGUN, E.ACTED, E.WRITTEN, E.DRAIN, E.PERFORMED), Reason.ANSWERED),  # nothing of it is missing
        ((E.BEGUN, E.ACTED, E.DRAIN, E.LEAVE), Reason.LEFT),
        ((E.BEGUN, E.NEWER, E.LEAVE, E.PERFORMED), Reason.REQUEUED),  # nobody saw anything of it
        ((E.LEAVE,), Reason.REQUEUED),
        ((E.BEGUN, E.BROKE, E.ACTED, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.BROKE, E.BROKE, E.PERFORMED), Reason.FAILED),
        ((E.BEGUN, E.ACTED, E.BROKE, E.PERFORMED), Reason.FAILED),
        ((E.BEGUN, E.DEADLINE, E.PERFORMED), Reason.FAILED),
        ((E.BEGUN, E.ACTED, E.DEADLINE, E.PERFORMED), Reason.LIMIT),
        ((E.BEGUN, E.ACTED, E.LOST, E.WRITTEN, E.PERFORMED), Reason.LEFT),
        ((E.BEGUN, E.ACTED, E.LOST, E.CANCEL, E.PERFORMED), Reason.STOPPED),
        ((E.BEGUN, E.ACTED, E.ASKED, E.REPLIED, E.WRITTEN, E.PERFORMED), Reason.ANSWERED),
        ((E.BEGUN, E.ACTED, E.TAKEN), Reason.TAKEN),
        ((E.BEGUN, E.ACTED, E.LEAVE, E.LOST, E.WRITTEN), Reason.LEFT),  # what is told late changes nothing
        ((E.BEGUN, E.ACTED, E.WRITTEN, E.PERFORMED, E.NEWER, E.DRAIN), Reason.ANSWERED),
        ((E.BEGUN, E.ACTED, E.WRITTEN, E.PERFORMED, E.TAKEN), Reason.TAKEN),  # its end is not on record
    ],
)
def test_how_a_turn_ends(events: tuple[LifeEvent, ...], reason: Reason) -> None:
    life = lived(*events)

    assert (life.state, life.reason) == (LifeState.DONE, reason)


def test_it_is_begun_again_so_often_and_then_others_wait() -> None:
    life = lived(restarts=2)
    for _ in range(2):
        life.on(LifeEvent.BEGUN)
        life.on(LifeEvent.NEWER)
        life.on(LifeEvent.PERFORMED)
        life.again()
    life.on(LifeEvent.BEGUN)

    assert life.on(LifeEvent.NEWER) is LifeState.UNSEEN


def test_whoever_is_answered_and_writes_on_uses_up_a_beginning_too() -> None:
    life = lived(restarts=1)
    for event in (LifeEvent.BEGUN, LifeEvent.INTERRUPTED, LifeEvent.PERFORMED):
        life.on(event)
    life.again()
    life.on(LifeEvent.BEGUN)
    assert life.on(LifeEvent.INTERRUPTED) is LifeState.UNSEEN


def test_who_was_put_off_once_is_not_put_off_again() -> None:
    life = lived(LifeEvent.BEGUN, LifeEvent.ACTED, yields=False)

    assert life.on(LifeEvent.INTERRUPTED) is LifeState.SEEN


def test_each_newly_entered_state_is_told() -> None:
    life = Life()
    told: list[tuple[LifeState, LifeState]] = []
    life.entered = lambda before, state: told.append((before, state))
    for event in (
        LifeEvent.BEGUN,
        LifeEvent.LOOKED_UP,
        LifeEvent.LOOKED_UP,
        LifeEvent.ACTED,
        LifeEvent.ACTED,
    ):
        life.on(event)

    assert told == [
        (LifeState.WAITING, LifeState.UNSEEN),
        (LifeState.UNSEEN, LifeState.LOOKED_UP),
        (LifeState.LOOKED_UP, LifeState.SEEN),
    ]


def test_what_cannot_happen_says_so() -> None:
    with pytest.raises(ImpossibleEvent, match="ACTED cannot happen in REQUEUEING"):
        lived(LifeEvent.BEGUN, LifeEvent.DRAIN, LifeEvent.ACTED)
    with pytest.raises(ImpossibleEvent, match="not begun again"):
        lived(LifeEvent.BEGUN, LifeEvent.ACTED).again()


def test_every_reason_says_what_becomes_of_the_messages() -> None:
    assert set(FATES) == set(Reason)


def test_every_state_is_reached_and_left() -> None:
    followed = {follows for (state, _), follows in NEXT.items() if follows is not state}
    left = {state for (state, _), follows in NEXT.items() if follows is not state}

    assert followed == set(LifeState) - {LifeState.WAITING}
    assert left == set(LifeState) - {LifeState.DONE}


def test_what_holds_at_every_place_of_the_table() -> None:
    for (state, event), follows in NEXT.items():
        pair = f"{state.name}, {event.name} -> {follows.name}"
        if state in ENDING:  # nothing that ends goes on
            assert follows in ENDING | {LifeState.DONE, LifeState.HOLDING}, pair
        if state is LifeState.DONE:
            assert follows is LifeState.DONE, pair
        if follows in (LifeState.RESTARTING, LifeState.REQUEUEING):  # nobody saw anything
            assert state in (
                LifeState.UNSEEN,
                LifeState.LOOKED_UP,
                LifeState.READY,
                follows,
                LifeState.RESTARTING,
            ), pair
        if event is LifeEvent.CANCEL:  # a stop is always heeded
            assert follows in (LifeState.STOPPING, LifeState.DONE), pair
        if state in LIVE | ENDING:
            assert NEXT[state, LifeEvent.TAKEN] is LifeState.DONE


# Whom a cut turn left unanswered.


def asked(number: int, person: str, *, addressed: bool = True, again: bool = False) -> Message:
    return Message(
        f"m{number}", "test:channel", Author(person, person), "?", 0.0, addressed, number=number, again=again
    )


ANA, BEN, MO = asked(1, "Ana"), asked(2, "Ben"), asked(3, "Mo")


@pytest.mark.parametrize(
    ("messages", "acted", "more", "left"),
    [
        ((ANA, BEN, MO), (), {}, "m1 m2 m3"),
        ((ANA, BEN, MO), (2,), {}, "m1 m3"),  # named
        ((ANA, BEN, MO), (0,), {}, "m1 m2"),  # without a name it went to the last
        ((ANA, BEN, MO), (0,), {"cut": True}, "m1 m2"),
        ((MO,), (0,), {"cut": True}, "m3"),  # the reply is to go on
        ((MO,), (3,), {"cut": True}, ""),
        ((MO,), (0,), {}, ""),
        ((MO,), (), {}, "m3"),
        ((ANA, BEN, MO), (), {"interrupter": "Mo"}, "m1 m2"),
        ((ANA, BEN, MO), (), {"gone": {"m1"}}, "m2 m3"),
        ((asked(1, "Ana", again=True), MO), (), {}, "m3"),  # once
        ((asked(1, "Ana", addressed=False),), (), {}, ""),
    ],
)
def test_whom_a_cut_turn_left_unanswered(
    messages: tuple[Message, ...], acted: tuple[int, ...], more: dict[str, Any], left: str
) -> None:
    again = unanswered(messages, acted, **{"cut": False, **more})

    assert [message.id for message in again] == left.split()
    assert all(message.again for message in again)


# A walk at random.


def walk(chance: random.Random, steps: int) -> None:
    """Live turns at random, and hold each against plain statements."""
    life, acted, again = lived(), False, 0
    for _ in range(steps):
        possible = [event for event in LifeEvent if (life.state, event) in NEXT]
        event = chance.choice(possible)
        before = life.state
        after = life.on(event)
        acted |= event is LifeEvent.ACTED
        if acted:  # what was seen is neither begun again nor put back
            assert after not in (LifeState.RESTARTING, LifeState.REQUEUEING), (before, event)
            assert life.fate is not Fate.WAITING
        if before in ENDING:
            assert after not in LIVE or after is LifeState.HOLDING
        if after is LifeState.DONE:
            assert life.fate is not None  # somebody sees to its messages
            if life.reason is Reason.RESTARTED and again < 20:
                life.again()
                again += 1
            else:
                assert again <= 6  # so many restarts and revisions it has
                life, acted, again = lived(yields=chance.random() < 0.5), False, 0
        elif chance.random() < 0.1:  # from anywhere it ends when nobody wants anything more
            for last in (LifeEvent.BEGUN, LifeEvent.REPLIED, LifeEvent.WRITTEN, LifeEvent.PERFORMED):
                if (life.state, last) in NEXT and life.state is not LifeState.DONE:
                    life.on(last)
            assert life.state is LifeState.DONE
            life, acted, again = lived(), False, 0


def test_a_walk_at_random() -> None:
    walk(random.Random(14), 30_000)


@pytest.mark.nightly
def test_a_long_walk_at_random() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    walk(random.Random(seed), 3_000_000)
