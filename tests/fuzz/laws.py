"""What must hold for every reply, said as one sentence where it does not."""

import time
from dataclasses import dataclass

from pixi.core.commands import CommandEnded, Event
from tests.conformance.reading import Reading, check_shape, merged, pieces_at, read
from tests.properties.fragments import CANARY, PEOPLE, may_hide_a_canary

SLOWEST_S = 1.0
"""No reply of a few hundred characters may take longer: a loop that hardly ends."""


@dataclass(frozen=True, slots=True)
class Input:
    """A reply and where it is cut."""

    reply: str
    cuts: tuple[int, ...] = ()


def broken_law(subject: Input) -> str | None:
    """The first law that the reply breaks, or None."""
    begun = time.process_time()
    try:
        _check(subject)
    except Exception as error:  # that nothing is ever raised is one of the laws
        return f"{type(error).__name__}: {error}"
    spent = time.process_time() - begun
    return f"it took {spent:.1f} s" if spent > SLOWEST_S else None


def _check(subject: Input) -> None:
    whole = _read([subject.reply])
    cut = _read(pieces_at(subject.reply, [min(place, len(subject.reply)) for place in subject.cuts]))
    check_shape(whole.events)
    check_shape(cut.events)
    assert merged(cut.events) == merged(whole.events), (
        f"cutting changed it:\n  whole {_shown(whole)}\n  cut   {_shown(cut)}"
    )
    assert cut.ended == whole.ended, "cutting changed where the reply ends"
    if not may_hide_a_canary(subject.reply):
        last = _read([subject.reply + CANARY]).events[-1:]
        assert last == (CommandEnded("send", "canary", True),), f"a message after it was swallowed: {last}"


def _read(pieces: list[str]) -> Reading:
    return read(pieces, people=PEOPLE)


def _shown(reading: Reading) -> list[Event]:
    return merged(reading.events)
