"""How often bots and personas are answered in a channel until a human speaks: what ends every loop."""

from collections import OrderedDict

_CHANNELS = 10_000  # of which the count is kept


class BotTurns:
    """Counts, in memory, the turns that were taken since a human spoke."""

    def __init__(self) -> None:
        self._taken: OrderedDict[int, int] = OrderedDict()

    def human_spoke(self, channel_id: int) -> None:
        """Begin anew."""
        self._taken.pop(channel_id, None)

    def take(self, channel_id: int, limit: int) -> bool:
        """Take a turn there; False where all are taken."""
        taken = self._taken.get(channel_id, 0)
        if taken >= limit:
            return False
        self._taken[channel_id] = taken + 1
        self._taken.move_to_end(channel_id)
        if len(self._taken) > _CHANNELS:
            self._taken.popitem(last=False)
        return True
