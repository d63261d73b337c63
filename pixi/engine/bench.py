"""What the tools of a turn are run with."""

from collections.abc import Mapping
from dataclasses import dataclass

from pixi.core.masking import Mask
from pixi.store.store import Store
from pixi.toolbox.rates import Rates
from pixi.toolbox.tools import Tool


@dataclass(frozen=True, slots=True)
class ToolRunConfig:
    """What tools are run with, beside what they act with.

    Attributes:
        turn: its number in the store.
        tools: those that the persona may use, by name.
        rates: counts how often they are used.
        mask: hides secrets in what they answer.
        store: where it is recorded what they change.
        vision: the model can be shown pictures.
        approval_seconds: how long people may take for their answers, in the whole turn.
    """

    turn: int
    tools: Mapping[str, Tool]
    rates: Rates
    mask: Mask
    store: Store
    vision: bool
    approval_seconds: float
