"""What a turn came to, for the operator: one value, from which a log line, a bill and a table are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pixi.core.deltas import Usage
from pixi.core.events import Finish


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model costs, in dollars for a million tokens. `cached` is the price of a cached prompt token."""

    prompt: float
    completion: float
    cached: float

    def cost(self, usage: Usage) -> float:
        """Dollars. A server that counts more cached tokens than those of the prompt is not believed."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        prompt = fresh * self.prompt + cached * self.cached
        return (prompt + usage.completion_tokens * self.completion) / 1_000_000


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
