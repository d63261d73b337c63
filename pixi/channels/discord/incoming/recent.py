"""What was said lately, channel by channel: small records in memory, from which overhearing is told."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pixi.core.message import Author

_CHANNELS = 1_000  # that are remembered; the one where nothing was said for longest goes first
_MORE = 10  # messages kept beyond those that are told of: the bot's own count too
_SEEN = 10_000  # ids of messages that were heard


@dataclass(frozen=True, slots=True)
class RecentMessage:
    """A message as it is remembered.

    Attributes:
        text: with names in place of markup, and no longer than a few thousand characters.
        reply_to: id of the message that it replies to.
        persona: the resident who posted it under its own name; "" for everybody else.
        ours: the bot's own user posted it.
    """

    id: int
    author: Author
    text: str
    reply_to: int | None = None
    persona: str = ""
    ours: bool = False


@dataclass(slots=True)
class _Room:
    """A channel: its last remarks in order of id, and up to where each persona was told of them."""

    remarks: OrderedDict[int, RecentMessage] = field(default_factory=OrderedDict)
    told: dict[str, int] = field(default_factory=dict)
    latest_by_others: int = 0
    past_is_read: bool = False


class RecentMessages:
    """The last messages of the channels where something was said lately.

    Args:
        overhear: gives how many messages before the one that addresses it a persona is told of.
    """

    def __init__(self, overhear: Callable[[], int]) -> None:
        self._overhear = overhear
        self._rooms: OrderedDict[int, _Room] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def is_new(self, message_id: int) -> bool:
        """Whether a message is heard for the first time; from now on it is known."""
        if message_id in self._seen:
            return False
        self._seen[message_id] = None
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return True

    def unhear(self, message_id: int) -> None:
        """It could not be dealt with, and may come again."""
        self._seen.pop(message_id, None)

    def add(self, channel_id: int, remark: RecentMessage) -> None:
        """Remember what was said; a remark that is known already is replaced."""
        room = self._room(channel_id)
        late = bool(room.remarks) and remark.id < next(reversed(room.remarks))
        room.remarks[remark.id] = remark
        if late:  # it was read from the history
            room.remarks = OrderedDict(sorted(room.remarks.items()))
        while len(room.remarks) > self._overhear() + _MORE:
            room.remarks.popitem(last=False)
        if not (remark.ours or remark.persona):
            self.somebody_spoke(channel_id, remark.id)

    def somebody_spoke(self, channel_id: int, message_id: int) -> None:
        """Others wrote there, whether or not it is remembered what."""
        room = self._room(channel_id)
        room.latest_by_others = max(room.latest_by_others, message_id)

    def revise(self, channel_id: int, message_id: int, text: str) -> None:
        """A message was edited."""
        if remark := self.find(channel_id, message_id):
            self._rooms[channel_id].remarks[message_id] = replace(remark, text=text)

    def withdraw(self, channel_id: int, message_id: int) -> None:
        """A message was deleted."""
        if room := self._rooms.get(channel_id):
            room.remarks.pop(message_id, None)

    def forget(self, person: str) -> None:
        """A person, by the id of the author, is to be forgotten."""
        for room in self._rooms.values():
            for remark in [each for each in room.remarks.values() if each.author.id == person]:
                del room.remarks[remark.id]

    def leave(self, channel_id: int) -> None:
        """A channel is gone."""
        self._rooms.pop(channel_id, None)

    def find(self, channel_id: int, message_id: int) -> RecentMessage | None:
        """What is remembered of a message."""
        room = self._rooms.get(channel_id)
        return room.remarks.get(message_id) if room else None

    def latest_by_others(self, channel_id: int) -> int:
        """The id of the last message there that the bot did not post; 0: unknown."""
        room = self._rooms.get(channel_id)
        return room.latest_by_others if room else 0

    # What a persona was told.

    def wants_past(self, channel_id: int) -> bool:
        """Whether what was said before should be read from the channel's history. True once."""
        room = self._room(channel_id)
        wants, room.past_is_read = not room.past_is_read, True
        return wants

    def is_stranger(self, channel_id: int, persona: str) -> bool:
        """Whether a persona was told of nothing yet that was said there."""
        return persona not in self._room(channel_id).told

    def was_told(self, channel_id: int, persona: str, message_id: int) -> bool:
        """Whether a persona was told of everything up to this message."""
        return message_id <= self._room(channel_id).told.get(persona, 0)

    def untold(self, channel_id: int, persona: str, before: int) -> list[RecentMessage]:
        """What a persona has not been told of yet of the last messages before this one, oldest first.

        What the persona or the bot's own user said is not among it: their history holds it.
        """
        room = self._room(channel_id)
        told, limit = room.told.get(persona, 0), self._overhear()
        earlier = [
            remark
            for remark in room.remarks.values()
            if remark.id < before and not remark.ours and remark.persona != persona
        ]
        return [remark for remark in earlier[max(0, len(earlier) - limit) :] if remark.id > told]

    def tell(self, channel_id: int, persona: str, up_to: int) -> None:
        """A persona was told of everything up to this message."""
        told = self._room(channel_id).told
        told[persona] = max(told.get(persona, 0), up_to)

    def _room(self, channel_id: int) -> _Room:
        room = self._rooms.get(channel_id)
        if room is None:
            room = self._rooms[channel_id] = _Room()
            if len(self._rooms) > _CHANNELS:
                self._rooms.popitem(last=False)
        self._rooms.move_to_end(channel_id)
        return room
