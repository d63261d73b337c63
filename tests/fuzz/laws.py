"""What must hold for every reply, said as one sentence where it does not."""

from dataclasses import dataclass

from pixi.core.language import CommandEnded, Event
from tests.conformance.reading import Reading, check_shape, merged, pieces_at, read
from tests.properties.fragments import CANARY, PEOPLE, may_hide_a_canary
from tests.steps import TooManySteps, steps_of

MOST_STEPS = 200_000
"""No reply of a few hundred characters may take more to be read: a loop that hardly ends. The oddest of a
thousand takes some 5,000."""


@dataclass(frozen=True, slots=True)
class Input:
    """A reply and where it is cut."""

    reply: str
    cuts: tuple[int, ...] = ()


def broken_law(subject: Input) -> str | None:
    """The first law that the reply breaks, or None."""
    try:
        _check(subject)
    except TooManySteps:
        return f"it took more than {MOST_STEPS:,} steps"
    except Exception as error:  # that nothing is ever raised is one of the laws
        return f"{type(error).__name__}: {error}"
    return None


def _check(subject: Input) -> None:
    whole = _read([subject.reply])
    cut = _read(pieces_at(subject.reply, [min(place, len(subject.reply)) for place in subject.cuts]))
    check_shape(whole.events)
    check_shape(cut.events)
    assert merged(cut.events) == merged(whole.events), (
        f"cutting changed it:\n  whole {_shown(whole)}\n  cut   {_shown(cut)}"
    )
    assert cut.cut_short == whole.cut_short, "cutting changed where the reply ends"
    if not may_hide_a_canary(subject.reply):
        last = _read([subject.reply + CANARY]).events[-1:]
        assert last == (CommandEnded("send", "canary", True),), f"a message after it was swallowed: {last}"


def _read(pieces: list[str]) -> Reading:
    readings: list[Reading] = []
    steps_of(lambda: readings.append(read(pieces, people=PEOPLE)), most=MOST_STEPS)
    return readings[0]


def _shown(reading: Reading) -> list[Event]:
    return merged(reading.events)
