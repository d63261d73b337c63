"""The user line of messages that together are too long for a model: what is meant for it goes last."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pixi.core.lines import UserLine
from pixi.core.message import Message
from pixi.core.stamps import Citation, Reminder, recalled
from pixi.core.tokens import TOKENS_PER_IMAGE, estimate, shortened, without_middle

_LEAST = 200  # characters of a message, before the oldest of those that are answered together go
_GAP = 40  # characters: what a gap takes itself, so that there is no use in a smaller one


class Stamped(Protocol):
    """Makes the line of messages: see `pixi.core.stamps.stamp`."""

    def __call__(self, messages: Sequence[Message], *, reminders: Sequence[Reminder | Citation]) -> UserLine:
        """The line."""
        ...


@dataclass(frozen=True, slots=True)
class LineFitter:
    """Makes lines that fit.

    Args:
        stamped: makes the line of messages.
        reminders: of those who wrote them, and what documents say.
        tokens: the most that a line may have, by estimate.
    """

    stamped: Stamped
    reminders: Sequence[Reminder | Citation]
    tokens: float

    def line(self, messages: Sequence[Message]) -> UserLine:
        """The line of these messages, at least one.

        Where they are too long, there goes as much as must, in this order: what was merely overheard, the
        oldest first; what messages quote; what comes to mind; pictures; the middle of the longest messages.
        """
        messages = [recalled(message) for message in messages]  # what is not shown is not what is too long
        line = self.stamped(messages, reminders=self.reminders)
        if estimate(line) <= self.tokens:
            return line
        meant = self._with_less_overheard(messages)
        bare = [_with_nothing_quoted(message) for message in meant]
        for told, reminders in ((meant, self.reminders), (bare, self.reminders), (bare, ())):
            if self._fits(told, reminders):
                return self.stamped(told, reminders=reminders)
        line = self.stamped(self._cut(self._with_fewer_pictures(bare)), reminders=())
        return line if estimate(line) <= self.tokens else shortened(line, self.tokens)

    def _fits(self, messages: Sequence[Message], reminders: Sequence[Reminder | Citation] = ()) -> bool:
        return estimate(self.stamped(messages, reminders=reminders)) <= self.tokens

    def _with_less_overheard(self, messages: Sequence[Message]) -> list[Message]:
        """Without the oldest that are overheard; of the latest of these, what there is room for."""
        overheard = [message for message in messages if not message.addressed]
        if len(overheard) in (0, len(messages)):
            return list(messages)

        def left(gone: int) -> list[Message]:
            return _without(messages, overheard[:gone])

        def with_part(characters: int) -> list[Message]:
            short = _cut_to(replace(last, images=()), characters)
            return [short if message.id == last.id else message for message in left(gone - 1)]

        gone = _first(len(overheard), lambda gone: self._fits(left(gone), self.reminders))
        last = overheard[gone - 1]
        most = _first(len(last.text), lambda most: not self._fits(with_part(most), self.reminders)) - 1
        return with_part(most) if most >= _LEAST else left(gone)

    def _with_fewer_pictures(self, messages: list[Message]) -> list[Message]:
        """Without the oldest pictures: as many as must go, or those that take more than half of the room."""
        pictures = sum(len(message.images) for message in messages)
        gone = _first(pictures, lambda gone: self._fits(_without_pictures(messages, gone)))
        less = _without_pictures(messages, gone)
        if self._fits(less):
            return less
        return _without_pictures(messages, max(0, pictures - int(self.tokens / (2 * TOKENS_PER_IMAGE))))

    def _cut(self, messages: list[Message]) -> list[Message]:
        """Without the middle of the longest; and without the oldest, where they are too many for that."""
        short = [_cut_to(message, _LEAST) for message in messages]
        gone = _first(len(messages) - 1, lambda gone: self._fits(short[gone:]))
        left = messages[gone:]
        if gone:
            left[0] = replace(left[0], text=f"[… {gone} messages left out …]\n{left[0].text}")

        def cut(characters: int) -> list[Message]:
            return [_cut_to(message, characters) for message in left]

        longest = max(len(message.text) for message in left)
        return cut(max(0, _first(longest, lambda most: not self._fits(cut(most))) - 1))


def _first(end: int, holds: Callable[[int], bool]) -> int:
    """The first number for which it holds, as for all after it; `end` where it holds for none before."""
    return bisect_left(range(end), True, key=holds)


def _without(messages: Iterable[Message], gone: Sequence[Message]) -> list[Message]:
    """Without these; who replies to one of them quotes it."""
    ids = {message.id for message in gone}
    return [
        replace(
            message,
            quoted=tuple(replace(one, number=0) if one.id in ids else one for one in message.quoted),
        )
        for message in messages
        if message.id not in ids
    ]


def _with_nothing_quoted(message: Message) -> Message:
    """Without the words of what it rests on: whom it replies to is still told."""
    return replace(message, quoted=tuple(replace(one, text="") for one in message.quoted))


def _without_pictures(messages: Iterable[Message], gone: int) -> list[Message]:
    """Without so many pictures, the oldest ones; it is told where there were some."""
    left = []
    for message in messages:
        fewer = min(gone, len(message.images))
        gone -= fewer
        told = f"{message.text}\n[… {fewer} pictures left out …]" if fewer else message.text
        left.append(replace(message, text=told, images=message.images[fewer:]))
    return left


def _cut_to(message: Message, characters: int) -> Message:
    """With so many characters of its text, those at its beginning and its end."""
    text = message.text
    if len(text) <= characters + _GAP:
        return message
    return replace(message, text=without_middle(text, characters // 2))
