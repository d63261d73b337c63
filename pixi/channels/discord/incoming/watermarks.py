"""Watermarks: up to which message each channel was taken note of, so that a later start misses none."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from pixi.channels.discord.address import ConversationAddress, parse_address
from pixi.channels.discord.backend import BotBackend
from pixi.core.errors import PixiError, StoreError

_log = logging.getLogger("pixi.discord")

_SECONDS = 3.0  # between two writes
_NOWHERE = 0
"""The id of no channel: its watermark says since when the bot is here."""


class Watermarks:
    """Raised in memory at once, and written together every few seconds and at the end."""

    def __init__(self, backend: BotBackend) -> None:
        self._backend = backend
        self._bot = 0
        self._marks: dict[int, int] = {}
        self._unwritten: dict[int, int] = {}
        self._frozen: set[int] = set()
        self._failing = False
        self._new = asyncio.Event()  # something stands here that was not there before

    async def load(self, bot: int, now: int) -> None:
        """Read what the last process wrote. `now` is an id of a message that would be written now: a bot
        that comes for the first time has missed nothing until then."""
        self._bot = bot
        try:
            written = await self._backend.watermarks()
        except StoreError as error:
            _log.error("the watermarks could not be read, so nothing is caught up with: %s", error)
            return
        for text, message_id in written.items():
            try:
                address = parse_address(text)
            except PixiError:
                continue
            if address.bot == bot:
                self._marks[address.channel] = message_id
        if not self._marks:
            self._begin(_NOWHERE, now)

    @property
    def marks(self) -> Mapping[int, int]:
        """By channel."""
        return self._marks

    @property
    def channels(self) -> list[int]:
        """Those that have a watermark."""
        return [channel for channel in self._marks if channel != _NOWHERE]

    def meet(self, channel_id: int, message_id: int) -> None:
        """A message is about to be dealt with. In a channel that has no watermark, one is set below it and
        written soon: should the process end now, the message is found by it."""
        if channel_id not in self._marks:
            self._begin(channel_id, message_id - 1)

    def raise_to(self, channel_id: int, message_id: int) -> None:
        """Everything in a channel up to this message was dealt with."""
        if channel_id in self._frozen or message_id <= self._marks.get(channel_id, 0):
            return
        self._marks[channel_id] = self._unwritten[channel_id] = message_id

    def freeze(self, channel_id: int) -> None:
        """A message could not be dealt with: the watermark stays below it, until it was caught up with."""
        self._frozen.add(channel_id)

    def thaw(self, channel_id: int) -> None:
        """The channel is being caught up with."""
        self._frozen.discard(channel_id)

    async def keep_written(self) -> None:
        """Write every few seconds, until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._new.wait(), _SECONDS)
            self._new.clear()
            await self.write()

    async def write(self) -> None:
        """Write what was raised since; where that fails it is tried again with the next."""
        if not self._unwritten:
            return
        raised, self._unwritten = self._unwritten, {}
        try:
            await self._backend.mark(
                {str(ConversationAddress(self._bot, each)): mark for each, mark in raised.items()}
            )
        except StoreError as error:
            self._unwritten = {**raised, **self._unwritten}
            if not self._failing:
                _log.error("the watermarks could not be written: %s", error)
            self._failing = True
        else:
            self._failing = False

    def _begin(self, channel_id: int, message_id: int) -> None:
        self.raise_to(channel_id, message_id)
        self._new.set()
