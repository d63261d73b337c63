"""What a command or a tool can do in a turn: each outward act is recorded before and after it is done."""

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable

from pixi.channels.channel import Channel
from pixi.core.errors import ChannelError, PixiError
from pixi.core.events import Noted, Reacted, Sent
from pixi.core.limits import Limits
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.store.store import Outcome, Store

_log = logging.getLogger("pixi.engine")


class LimitReached(PixiError):
    """An act over the turn's limits was asked for; it was not done."""


class Acts:
    """The context of a turn: a `pixi.toolbox.context.Context`.

    `done` counts the acts that were carried out, `visible` tells whether people may have seen one.
    `on_limit` is called when an act over the limits was asked for.
    """

    __slots__ = (
        "_limits",
        "_messages",
        "_reactions",
        "_sequence",
        "_store",
        "_turn",
        "_typing",
        "channel",
        "done",
        "message",
        "on_limit",
        "persona",
        "visible",
    )

    def __init__(
        self,
        *,
        turn: int,
        message: Message,
        persona: Persona,
        channel: Channel,
        store: Store,
        limits: Limits,
    ) -> None:
        self._turn = turn
        self.message = message
        self.persona = persona
        self.channel = channel
        self.on_limit: Callable[[], None] | None = None
        self.done = 0
        self.visible = False
        self._store = store
        self._limits = limits
        self._sequence = 0
        self._messages = 0
        self._reactions = 0
        self._typing: asyncio.Task[None] | None = None

    async def send(self, text: str) -> None:
        """Say something. Nothing happens for text that is empty or blank.

        Raises:
            ChannelError: the channel refused it for good.
        """
        text = text.strip()
        if not text:
            return
        self._messages = self._counted(self._messages, self._limits.messages)
        channel = self.channel
        await self._act("send", text, lambda nonce: channel.send(text, nonce=nonce))
        channel.show(Sent(text))

    async def react(self, emoji: str) -> None:
        """Put a reaction on the message being answered.

        Raises:
            ChannelError: the channel refused it for good.
        """
        emoji = emoji.strip()
        if not emoji:
            return
        self._reactions = self._counted(self._reactions, self._limits.reactions)
        channel, target = self.channel, self.message.id

        async def put(nonce: str) -> None:
            await channel.react(target, emoji, nonce=nonce)

        await self._act("react", emoji, put)
        channel.show(Reacted(emoji))

    async def note(self, text: str) -> None:
        """Write down a private thought."""
        if text.strip():
            self.channel.show(Noted(text.strip()))

    async def typing(self) -> None:
        """Show that a message is being written. Does not wait for the channel, so that no message does."""
        if self._typing is None or self._typing.done():
            self._typing = asyncio.create_task(self._type())
            self._typing.add_done_callback(_tell_failure)

    async def close(self) -> None:
        """End what was begun beside the acts."""
        task, self._typing = self._typing, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _type(self) -> None:
        try:
            await self.channel.typing()
        except ChannelError as error:
            _log.debug("no typing indicator: %s", error)  # a reply without one is as good

    def _counted(self, count: int, limit: int) -> int:
        if count >= limit:
            if self.on_limit is not None:
                self.on_limit()
            raise LimitReached("The turn may do no more of this.")
        return count + 1

    async def _act(self, kind: str, payload: str, do: Callable[[str], Awaitable[str | None]]) -> None:
        self._sequence += 1
        sequence = self._sequence
        await self._store.intend(self._turn, sequence, kind, payload)
        self.visible = True
        outcome: Outcome = "unknown"
        platform_id: str | None = None
        try:
            platform_id = await do(nonce_of(self._turn, sequence, self.message))
            outcome = "done"
            self.done += 1
        except ChannelError:
            outcome = "refused"
            raise
        finally:
            await self._store.settle(self._turn, sequence, outcome, platform_id)


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("the typing indicator failed with %s", type(error).__name__)


def nonce_of(turn: int, sequence: int, message: Message) -> str:
    """The act's name on the platform: the same whenever it is tried again, and at most 25 characters.

    The message's id is part of it: turns are counted anew in a new database, messages are not.
    """
    return f"{turn:x}-{sequence:x}-{zlib.crc32(message.id.encode('utf-8', 'surrogatepass')):x}"
