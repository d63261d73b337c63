"""A mapping that keeps what was used last."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRU(Generic[K, V]):
    """A mapping of bounded size: of what was not used for longest, as much goes as is too much.

    Args:
        most: entries that are kept.
        heaviest: what all of them may weigh together; a single entry may weigh more.
        weigh: the weight of a value, by which `heaviest` goes.
    """

    __slots__ = ("_heaviest", "_kept", "_most", "_weigh", "_weight")

    def __init__(self, most: int, heaviest: int = 0, weigh: Callable[[V], int] = lambda value: 0) -> None:
        self._most = most
        self._heaviest = heaviest
        self._weigh = weigh
        self._weight = 0
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._kept))

    def get(self, key: K) -> V | None:
        """Return a value, which counts as its use; None: there is none."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value as the one that was used last."""
        self.drop(key)
        self._kept[key] = value
        self._weight += self._weigh(value)
        while len(self._kept) > self._most or (self._weight > self._heaviest and len(self._kept) > 1):
            self._weight -= self._weigh(self._kept.popitem(last=False)[1])

    def drop(self, key: K) -> None:
        """Forget a value, if it is kept."""
        if key in self._kept:
            self._weight -= self._weigh(self._kept.pop(key))
