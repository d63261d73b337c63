"""The sign that a message is being written: asked for again while it goes on, and nothing waits for it."""

import asyncio
import logging

from pixi.channels.channel import Channel
from pixi.core.errors import ChannelError

_log = logging.getLogger("pixi.engine")

AGAIN_SECONDS = 8.0  # platforms show it for some ten seconds
_END_SECONDS = 0.5


class TypingSign:
    """Shows it in a channel as long as there is a reason. A channel that refuses it once is left in peace."""

    __slots__ = ("_again", "_asking", "_channel", "_left", "_reasons", "_refused")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reasons: set[str] = set()
        self._asking: asyncio.Task[None] | None = None
        self._left: set[asyncio.Task[None]] = set()  # cancelled, and not ended yet
        self._again: asyncio.TimerHandle | None = None
        self._refused = False

    def begin(self, reason: str) -> None:
        """There is a reason to show it."""
        shown = bool(self._reasons)
        self._reasons.add(reason)
        if not shown:
            self._ask()

    def end(self, reason: str) -> None:
        """The reason is gone; with the last one, nothing more is asked of the channel."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._rest()

    def posted(self) -> None:
        """A message took the sign away: it is shown again where there still is a reason."""
        if self._reasons:
            self._rest()
            self._ask()

    async def close(self) -> None:
        """Show it no more."""
        self._reasons.clear()
        self._rest()
        if self._left:
            await asyncio.wait(self._left, timeout=_END_SECONDS)

    def _ask(self) -> None:
        if self._refused:
            return
        self._asking = asyncio.create_task(self._channel.typing())
        self._asking.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._left.discard(task)
        if task is self._asking:
            self._asking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("no typing indicator: %s", error)  # a reply without one is as good
            self._refused = isinstance(error, ChannelError)
        if self._reasons and self._asking is None and self._again is None and not self._refused:
            self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._ask_again)

    def _ask_again(self) -> None:
        self._again = None
        self._ask()

    def _rest(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._asking is not None:
            self._asking.cancel()
            self._left.add(self._asking)
            self._asking = None
