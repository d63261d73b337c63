"""What a command or a tool can do in a turn: each outward act is recorded before and after it is done."""

import asyncio
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from pixi.channels.channel import Channel
from pixi.core.card import Card
from pixi.core.deltas import Prices, Usage
from pixi.core.errors import ChannelError, ChannelLost, PixiError
from pixi.core.events import Noted, Pictured, Progressed, Reacted, Sent, Shown
from pixi.core.limits import TOOL_SECONDS, Limits
from pixi.core.message import Author, Message
from pixi.core.persona import Pace, Persona
from pixi.core.picture import Picture, on_record
from pixi.core.strangers import clipped
from pixi.core.venue import Venue
from pixi.core.written import written
from pixi.engine.pace import typing_seconds
from pixi.engine.typing_sign import TypingSign
from pixi.engine.usage import TurnUsage
from pixi.store.kept import Outcome
from pixi.store.store import Store
from pixi.toolbox.results import with_picture_checked

_MOST_PARTS = 10  # of one message
# Reasons to show that something is written.
_COMMAND, _MESSAGE, _TOOLS, _READING = "a command", "a message", "tools", "the prompt"


class NotDone(PixiError):
    """An act was asked for that the turn may not do any more: it is over its limits, or was ended."""


class Acts:
    """The context of a turn: a `pixi.toolbox.context.Context`.

    Args:
        turn: its number in the store.
        message: the one that is answered.
        askers: everybody whose messages are; the author of `message` where they are not named.
        persona: who answers.
        channel: where.
        store: where acts are recorded.
        limits: how many there may be.
        usage: takes what is used for it.
        pace: at which messages come, where the channel keeps one.
        ids: ids of messages by their numbers, as far as they are known without asking the store.

    Attributes:
        done: counts the acts that were carried out, of all kinds; `effects` of each.
        visible: whether people may have seen one.
        changed: whether a tool may have changed something in the world.
        first_seen: when the first one was carried out, on the monotonic clock; None: there was none.
        performed: name and argument of the command that is being performed.
        left_open: the process ends in the midst of an act: the next one finds out what became of it.
        on_limit: called when an act over the limits was asked for.
    """

    __slots__ = (
        "_dropped",
        "_hurry",
        "_ids",
        "_leaving",
        "_limits",
        "_messages",
        "_pace",
        "_reactions",
        "_sequence",
        "_store",
        "_turn",
        "_typing",
        "_writing_since",
        "askers",
        "changed",
        "channel",
        "effects",
        "first_seen",
        "left_open",
        "message",
        "on_limit",
        "performed",
        "persona",
        "usage",
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
        usage: TurnUsage,
        pace: Pace = "off",
        ids: Mapping[int, str] | None = None,
        askers: Sequence[Author] = (),
    ) -> None:
        self._turn = turn
        self.message = message
        self.askers = tuple(askers) or (message.author,)
        self.persona = persona
        self.channel = channel
        self.usage = usage
        self.on_limit: Callable[[], None] | None = None
        self.effects: Counter[str] = Counter()
        self.visible = self.changed = False
        self.first_seen: float | None = None
        self.performed: tuple[str, str] | None = None
        self.left_open = False
        self._store = store
        self._limits = limits
        self._pace: Pace = pace if channel.paced else "off"
        self._ids: dict[int, str | None] = {**ids} if ids else {}
        self._sequence = 0
        self._messages = 0
        self._reactions = 0
        self._typing = TypingSign(channel)
        self._writing_since = time.monotonic()  # the message that comes next
        self._hurry = asyncio.Event()  # there is no time any more to keep a pace
        self._dropped = False
        self._leaving = False

    @property
    def venue(self) -> Venue:
        """The place, as far as it decides what may be said there."""
        return self.channel.venue

    # What commands and tools do.

    async def send(self, text: str, *, to: int = 0) -> None:
        """Say something. Nothing happens for text that is empty or blank.

        Raises:
            ChannelError: the channel refused it for good.
            NotDone: the turn may say no more.
        """
        text = text.strip()
        if not text:
            return
        self._messages = self._counted(self._messages, self._limits.messages)
        parts = self.channel.parts(text)
        if not parts:
            raise ChannelError("A message held nothing that can be shown here.")
        reply_to = await self._id_of(to) if to else None
        for part in parts[:_MOST_PARTS]:
            await self._keep_pace(part)
            await self._say(part, reply_to, to if reply_to else 0)
            reply_to = None
        if len(parts) > _MOST_PARTS:
            self.channel.show(Sent("".join(parts[:_MOST_PARTS])))
            self._over_limit()
        self.channel.show(Sent(text))

    async def react(self, emoji: str, *, to: int = 0) -> None:
        """Put a reaction on the message being answered, or on the one of this number.

        Raises:
            ChannelError: there is no message of that number, or the channel refused it for good.
            NotDone: the turn may react no more.
        """
        emoji = emoji.strip()
        if not emoji:
            return
        self._reactions = self._counted(self._reactions, self._limits.reactions)
        message_id = await self._id_of(to) if to else self.message.id
        if message_id is None:
            raise ChannelError(f"There is no message #{to} to react to.")
        channel = self.channel

        async def put(nonce: str) -> None:
            await channel.react(message_id, emoji, nonce=nonce)

        await self._act("react", emoji, put, target=to)
        channel.show(Reacted(emoji))

    async def card(self, card: Card) -> None:
        """Show a card, which counts as a message. Nothing happens for an empty one.

        Raises:
            ChannelError: the channel refused it for good.
            NotDone: the turn may say no more.
        """
        card = await with_picture_checked(card.fitted())
        if not card.plain and card.picture is None:
            return
        self._messages = self._counted(self._messages, self._limits.messages)
        channel, answers = self.channel, self.message.id
        # Its words alone are on record: it is never posted again.
        await self._post("card", card.plain, lambda nonce: channel.card(card, nonce=nonce, answers=answers))
        channel.show(Shown(card))

    async def picture(self, picture: Picture) -> None:
        """Show a picture, which counts as a message. Nothing happens for one with neither link nor file.

        Raises:
            ChannelError: the channel refused it for good.
            NotDone: the turn may say no more.
        """
        if not picture.link and picture.file is None:
            return
        self._messages = self._counted(self._messages, self._limits.messages)
        channel, answers = self.channel, self.message.id
        # One without a link is never posted again: its file is not on record.
        kept = on_record(picture, _command(self.performed) or picture.words)
        await self._post(
            "picture", kept, lambda nonce: channel.picture(picture, nonce=nonce, answers=answers)
        )
        channel.show(Pictured(picture))

    async def sticker(self, name: str) -> None:
        """Show one of the place's own stickers, which counts as a message. Nothing happens without a name.

        Raises:
            ChannelError: there is none like it, or the channel refused it for good.
            NotDone: the turn may say no more.
        """
        name = name.strip()
        if not name:
            return
        self._messages = self._counted(self._messages, self._limits.messages)
        channel, answers = self.channel, self.message.id
        await self._post("sticker", name, lambda nonce: channel.sticker(name, nonce=nonce, answers=answers))

    async def note(self, text: str) -> None:
        """Write down a private thought."""
        if text.strip():
            self.channel.show(Noted(text.strip()))

    async def typing(self) -> None:
        """Show that a message is being written, until it is there. Does not wait for the channel."""
        if not self._dropped:
            self._typing.begin(_COMMAND)

    @property
    def seconds_left(self) -> float:
        """Seconds that a command may take, counted from when it is begun."""
        return self._limits.tool_seconds or TOOL_SECONDS

    def progress(self, text: str) -> None:
        """Tell people how far a command is, in a line that the next one replaces."""
        self.channel.show(Progressed(clipped(text, 200)))

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """Enter what another model used for whoever is answered."""
        self.usage.count(model, usage, prices)

    # What the turn tells.

    @property
    def done(self) -> int:
        """How many acts were carried out."""
        return self.effects.total()

    @property
    def final(self) -> bool:
        """Whether the turn cannot be as if it had not been any more."""
        return self.visible or self.changed

    def next_nonce(self) -> str:
        """A name on the platform for something that is asked of people, and no act on record.

        Raises:
            NotDone: the turn was ended.
        """
        if self._dropped:
            raise NotDone("The turn was ended.")
        self._sequence += 1
        self.visible = True
        return nonce_of(self._turn, self._sequence, self.message)

    def opened(self) -> None:
        """A command opens: from now on it is written."""
        self._writing_since = time.monotonic()

    def ended(self) -> None:
        """The command was performed, or dropped."""
        self._typing.end(_COMMAND)

    def tools_run(self, running: bool) -> None:
        """Tools begin to run, or have ended."""
        if running:
            self._typing.begin(_TOOLS)
        else:
            self._typing.end(_TOOLS)

    def model_reads(self, reading: bool) -> None:
        """The model has not said a word for long, or has begun to."""
        if reading and not self._dropped:
            self._typing.begin(_READING)
        else:
            self._typing.end(_READING)

    def hurry(self) -> None:
        """Keep no pace any more: what is to be posted is posted at once."""
        self._hurry.set()

    def leave(self) -> None:
        """The process is about to end: there is no time for a pace, nor for acts that take long."""
        self._leaving = True
        self._hurry.set()

    def drop(self) -> None:
        """Do nothing more. An act that was begun is finished."""
        self._dropped = True
        self._hurry.set()
        self._typing.end(_COMMAND)

    async def close(self) -> None:
        """End what was begun beside the acts. What is left of a command or a tool can do nothing any more."""
        self.drop()
        await self._typing.close()

    def _counted(self, count: int, limit: int) -> int:
        if count >= limit:
            self._over_limit()
        return count + 1

    def _over_limit(self) -> None:
        if self.on_limit is not None:
            self.on_limit()
        raise NotDone("The turn may do no more of this.")

    async def _id_of(self, number: int) -> str | None:
        if number not in self._ids:
            self._ids[number] = await self._store.message_id(self.message.conversation, number)
        return self._ids[number]

    async def _keep_pace(self, text: str) -> None:
        """Wait while somebody who types would still be typing this."""
        left = typing_seconds(text, self._pace) - (time.monotonic() - self._writing_since)
        if left <= 0 or self._hurry.is_set():
            return
        self._typing.begin(_MESSAGE)
        try:
            async with asyncio.timeout(left):
                await self._hurry.wait()
        except TimeoutError:
            pass  # it has been long enough
        finally:
            self._typing.end(_MESSAGE)

    async def _say(self, text: str, reply_to: str | None, target: int) -> None:
        channel, answers = self.channel, self.message.id
        await self._post(
            "send",
            text,
            lambda nonce: channel.send(text, nonce=nonce, answers=answers, reply_to=reply_to),
            target=target,
        )

    async def _post(
        self, kind: str, payload: str, do: Callable[[str], Awaitable[str | None]], *, target: int = 0
    ) -> None:
        """An act that stands in the chat as a message does."""

        async def post(nonce: str) -> str | None:
            self._typing.end(_COMMAND)  # asked for once more, it would outlast the message
            return await do(nonce)

        await self._act(kind, payload, post, target=target)
        self._typing.posted()
        self._writing_since = time.monotonic()

    async def _act(
        self, kind: str, payload: str, do: Callable[[str], Awaitable[str | None]], *, target: int
    ) -> None:
        if self._dropped:
            raise NotDone("The turn was ended.")
        self._sequence += 1
        sequence = self._sequence
        self.visible = True  # at once: from here on the turn can no longer be begun again
        await self._store.intend(self._turn, sequence, kind, payload, target=target)
        outcome: Outcome = "unknown"
        platform_id: str | None = None
        try:
            platform_id = await do(nonce_of(self._turn, sequence, self.message))
            outcome = "done"
            self.effects[kind] += 1
            if self.first_seen is None:
                self.first_seen = time.monotonic()
        except ChannelLost:
            raise
        except ChannelError:
            outcome = "refused"
            raise
        except asyncio.CancelledError:
            self.left_open = self._leaving
            raise
        finally:
            if not self.left_open:
                await self._store.settle(self._turn, sequence, outcome, platform_id)


def _command(performed: tuple[str, str] | None) -> str:
    """A command as history will hold it; "" for none."""
    return "" if performed is None else written(performed[0], performed[1], {performed[0]: ()})


def nonce_of(turn: int, sequence: int, message: Message) -> str:
    """The act's name on the platform: the same whenever it is tried again, and at most 25 characters.

    The message's id is part of it: turns are counted anew in a new database, messages are not.
    """
    return f"{turn:x}-{sequence:x}-{zlib.crc32(message.id.encode('utf-8', 'surrogatepass')):x}"
