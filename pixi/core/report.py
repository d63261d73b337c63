"""What a turn came to, for the operator: one value, from which a log line, a bill and a table are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pixi.core.deltas import Usage
from pixi.core.events import Finish


@dataclass(frozen=True, slots=True)
class TurnReport:
    """A turn that ended.

    Attributes:
        turn: its number in the store.
        person: id of the author of the message that it answered.
        model: the name of the model that wrote it.
        cost: in dollars; None where the model's price is not known.
        seconds: from the message to the turn's end.
        first_visible: seconds from the message to the first act that people could see; None: there was none.
        effects: how many acts of each kind were carried out, e.g. `{"send": 2, "react": 1}`.
    """

    turn: int
    conversation: str
    person: str
    persona: str
    model: str
    finish: Finish
    steps: int
    usage: Usage
    cost: float | None
    seconds: float
    first_visible: float | None
    effects: Mapping[str, int] = field(default_factory=dict)
