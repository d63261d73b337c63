"""What a provider wants back beside the calls that it asked for: signed thoughts, its own searches.

A history has no room for such things, they are one provider's alone; so they are kept here, by the ids of
the calls, for as long as a reply is likely to need them. A call whose keepsake is lost goes without.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Keepsakes(Generic[_T]):
    """Things by the ids of calls; those that nobody asked for in the longest time are let go.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._kept: OrderedDict[str, _T] = OrderedDict()

    def keep(self, call_ids: Iterable[str], thing: _T) -> None:
        """Keep it for each of these calls."""
        for call_id in call_ids:
            self._kept[call_id] = thing
            self._kept.move_to_end(call_id)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def of(self, call_id: str) -> _T | None:
        """What was kept for a call; None: nothing, or no longer."""
        thing = self._kept.get(call_id)
        if thing is not None:
            self._kept.move_to_end(call_id)
        return thing
