"""Interleaved rounds, so that whatever else the machine does meanwhile falls on all contenders alike."""

import gc
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rounds:
    """What each contender measured, a value a round."""

    values: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The contender's value."""
        return statistics.median(self.values[name])

    def ratio(self, name: str, to: str) -> float:
        """How many times the first is of the second: the median of the rounds' ratios."""
        pairs = zip(self.values[name], self.values[to], strict=True)
        return statistics.median(above / below for above, below in pairs)


def interleave(contenders: Mapping[str, Callable[[], float]], rounds: int) -> Rounds:
    """Let each contender measure itself once a round, starting with another one each time."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            values[name].append(contenders[name]())
    return Rounds(values)
