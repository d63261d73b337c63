"""Joins what words find with what lies near in meaning, by a weighted sum."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pixi.knowledge.index import Scored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Halves = NDArray[np.float16]
    Floats = NDArray[np.float32]

WEIGHT = 0.35
"""Of meaning, beside words."""

POOL = 200
"""Passages that meaning alone brings at most."""

_BLOCK = 8_192  # vectors that are widened together


@dataclass(frozen=True, slots=True)
class Held:
    """Vectors of length 1 by their passages' numbers, which rise. There is at least one."""

    numbers: "Numbers"
    entries: "Numbers"
    vectors: "Halves"


def joined(held: Held, words: Sequence[Scored], vector: "Floats") -> list[Scored]:
    """Passages that words or meaning bring, by a weighted sum of what each says of them, from 0 to 1.

    The best by words has 1 for words; the nearest in meaning has 1 for meaning, and one as near as passages
    are on the average has 0. Of a passage without a vector words say it all.
    """
    import numpy as np

    near = np.concatenate(
        [
            held.vectors[at : at + _BLOCK].astype(np.float32) @ vector
            for at in range(0, len(held.vectors), _BLOCK)
        ]
    )
    usual, best = float(near.mean()), float(near.max())
    meaning = np.clip((near - usual) / max(best - usual, 1e-6), 0.0, 1.0)
    nearest = np.argpartition(-meaning, min(POOL, len(meaning)) - 1)[:POOL]
    most = max((each.score for each in words), default=0.0) or 1.0
    share = {each.passage: each.score / most for each in words}
    scored: list[Scored] = []
    wanted = np.array([each.passage for each in words], np.int64)
    rows = np.searchsorted(held.numbers, wanted).clip(max=len(held.numbers) - 1)
    for each, row in zip(words, rows.tolist(), strict=True):
        by_words = share[each.passage]
        has_vector = int(held.numbers[row]) == each.passage
        by_meaning = float(meaning[row]) if has_vector else by_words
        scored.append(Scored(each.passage, each.entry, (1 - WEIGHT) * by_words + WEIGHT * by_meaning))
    for row in nearest.tolist():
        number = int(held.numbers[row])
        if number not in share:
            scored.append(Scored(number, int(held.entries[row]), WEIGHT * float(meaning[row])))
    return scored
