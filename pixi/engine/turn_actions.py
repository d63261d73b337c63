"""Actions of commands and tools in a turn: each outward act is recorded before and after it is done.

What became of an act is put on record together with the next one, which waits for both, or with the turn's
end; so an act that is done is told of at once, and nothing is posted behind one that may be lost.

Where an act is its event and nothing else (`Channel.acts_by_events`), no act waits: all that a reply holds
goes on record at once, and events are held back until what was to be recorded before them is.

An act begins only where the turn's life lets one begin, and it tells that life that something may be seen.
Where the place is lost in its midst, nobody knows what became of it: it stays open on record, for whoever
looks for it later, and the life holds everything that would be posted after it.

Beside the acts there are two courtesies: the pace of somebody who types, and the sign that a message is
being written, which nothing waits for.
"""

import asyncio
import logging
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from msgspec import Struct

from pixi.core.channel import Channel
from pixi.core.errors import ChannelError, ChannelLost, PixiError
from pixi.core.events import Noted, Pictured, Progressed, Reacted, Sent, Shown, TurnEvent, act_id
from pixi.core.language import REACT, SEND, Planned
from pixi.core.life import LifeEvent, LifeState
from pixi.core.llm import Prices, Usage
from pixi.core.message import Card, Message, Picture, Venue, card_on_record, picture_on_record
from pixi.core.persona import Pace
from pixi.core.reading import written
from pixi.core.spending import TOOL_SECONDS
from pixi.core.untrusted import clipped
from pixi.engine.context import TurnContext
from pixi.engine.usage import TurnUsage
from pixi.store.kept import Outcome
from pixi.toolbox.foreign import look_at
from pixi.toolbox.tools import with_picture_checked

_log = logging.getLogger("pixi.engine")

_WIDE = 2.5  # a character of Chinese, Japanese or Korean says as much as so many letters
_BEGINNING = 0.3  # seconds before the first letter
_LETTERS_PER_SECOND = {"brisk": 40.0, "human": 12.0}
_MOST_SECONDS = {"brisk": 2.5, "human": 8.0}

AGAIN_SECONDS = 8.0  # platforms show the sign for some ten seconds
_END_SECONDS = 0.5

_LOST = frozenset({LifeState.HOLDING, LifeState.STOPPING, LifeState.WITHDRAWING, LifeState.DONE})
"""States in which an act of which nobody knows whether it happened is left open."""

_MOST_PARTS = 10  # of one message
# Reasons to show that something is written.
_COMMAND, _MESSAGE, _TOOLS, _READING = "a command", "a message", "tools", "the prompt"


class NotDone(PixiError):
    """An act was asked for that the turn may not do any more: it is over its limits, or was ended."""


class _Act(Struct, frozen=True):
    """An act, by its number in the turn; `target`, `command` as in `Effect`."""

    sequence: int
    kind: str
    payload: str
    target: int
    command: int | None
    id: str


class TurnActions:
    """The context of a turn: a `pixi.toolbox.context.Context`.

    Args:
        turn: the attempt, with who answers what, and where.
        answers: whether the messages count as answered by it.
        sequence: the last number that an act of this turn has; 0: there was none.

    Attributes:
        usage: takes what is used for it.
        limits: of the turn, as they were when it began.
        effects: counts the acts that were carried out, by their kinds.
        said: whether anything was begun that people see.
        under_way: how many acts were begun and have not ended.
        targets: the number of the message that each of them named; 0: none.
        touched: whether an act was begun, on people or on the world.
        posted: ids of what they put in the chat.
        first_seen: when the first one was carried out, on the monotonic clock; None: there was none.
        performed: the command that is being performed.
        parts_out: of the next message, so many parts stand in the chat already.
        lost: nobody knows what became of an act, which is open on record for whoever looks for it later.
        reached: names of the limits that were reached.
    """

    __slots__ = (
        "_acts_for",
        "_closed",
        "_haste",
        "_held",
        "_ids",
        "_in_haste",
        "_life",
        "_messages",
        "_outcomes",
        "_pace",
        "_reactions",
        "_recording",
        "_sequence",
        "_store",
        "_typing",
        "_writing_since",
        "askers",
        "channel",
        "effects",
        "first_seen",
        "limits",
        "lost",
        "message",
        "parts_out",
        "performed",
        "persona",
        "posted",
        "reached",
        "said",
        "targets",
        "touched",
        "turn",
        "under_way",
        "usage",
    )

    def __init__(self, turn: TurnContext, *, answers: bool = True, sequence: int = 0) -> None:
        shared, asked = turn.session.shared, [one.author for one in turn.messages if one.addressed]
        self.turn = turn
        self.message = turn.answered
        self.askers = tuple({author.id: author for author in asked}.values()) or (turn.answered.author,)
        self.persona = turn.session.role.persona
        self.channel = channel = turn.channel
        self.usage = TurnUsage(
            shared.ledger,
            turn=turn.id,
            model=turn.session.role.model,
            message=turn.answered,
            answers=Counter(author.id for author in asked) if answers else {},
            channel=channel,
            search_price=shared.settings.search_price,
        )
        self.effects: Counter[str] = Counter()
        self.targets: list[int] = []
        self.posted: list[str] = []
        self.reached = frozenset[str]()
        self.first_seen: float | None = None
        self.performed: Planned | None = None
        self.parts_out = 0
        self.touched = self.said = self.lost = False
        self._store = turn.store
        self.limits = turn.session.limits
        self._life = turn.life
        self._pace: Pace = turn.session.pace if channel.paced else "off"
        self._ids = _numbered(turn.messages)
        self._sequence = sequence
        self._acts_for: int | None = None  # the number of the command that acted last; None: none did
        self.under_way = 0
        self._recording: list[asyncio.Future[None]] = []  # what is being put on record: no act is done before
        self._outcomes: list[asyncio.Future[None]] = []  # of acts, the same; but the end does not wait
        # Events to show, behind the records that come before them.
        self._held: list[Callable[[], None] | asyncio.Future[None]] = []
        self._messages = 0
        self._reactions = 0
        self._typing = TypingSign(channel)
        self._writing_since = time.monotonic()  # the message that comes next
        self._in_haste = False  # there is no time any more to keep a pace
        self._haste: asyncio.Event | None = None  # the same, for those who keep one; made for the first
        self._closed = False  # the turn's life may go on with another attempt

    @property
    def venue(self) -> Venue:
        """The place, as far as it decides what may be said there."""
        return self.channel.venue

    # Acts of commands and tools.

    async def send(self, text: str, *, to: int = 0) -> None:
        """Say something. Nothing happens for text that is empty or blank.

        Raises:
            ChannelError: the channel refused it for good.
            NotDone: the turn may say no more.
        """
        text = text.strip()
        if not text:
            return
        self._count_message()
        parts = self.channel.parts(text)
        if not parts:
            raise ChannelError("A message held nothing that can be shown here.")
        reply_to = await self._id_of(to) if to else None
        out, self.parts_out = self.parts_out, 0
        if out == len(parts):
            return  # it was shown when they were posted
        if out:
            reply_to = None  # the first part pointed at it
        said = ""
        for part in parts[out:_MOST_PARTS]:
            await self._keep_pace(part)
            do = partial(self.channel.send, part, reply_to=reply_to)
            act = await self._say(SEND, part, do, target=to if reply_to else 0)
            said, reply_to = said or act, None
        if len(parts) > _MOST_PARTS:
            self.show(Sent("".join(parts[:_MOST_PARTS]), said))
            self._over_limit("messages")
        self.show(Sent(text, said))

    async def react(self, emoji: str, *, to: int = 0) -> None:
        """Put a reaction on the message being answered, or on the one of this number.

        Raises:
            ChannelError: there is no message of that number, or the channel refused it for good.
            NotDone: the turn may react no more.
        """
        emoji = emoji.strip()
        if not emoji:
            return
        if self._reactions >= self.limits.reactions:
            self._over_limit("reactions")
        self._reactions += 1
        message_id = await self._id_of(to) if to else self.message.id
        if message_id is None:
            raise ChannelError(f"There is no message #{to} to react to.")
        act = await self._act(REACT, emoji, partial(self.channel.react, message_id, emoji), target=to)
        self.show(Reacted(emoji, act, message_id))

    async def card(self, card: Card) -> None:
        """Show a card, which counts as a message. Nothing happens for an empty one.

        Raises:
            ChannelError: the channel refused it for good.
            NotDone: the turn may say no more.
        """
        card = await with_picture_checked(card.fitted())
        if not card.plain and card.picture is None:
            return
        # A picture that has no address is not on record: a card is never posted again, only told.
        act = await self._post("card", card_on_record(card), partial(self.channel.card, card))
        self.show(Shown(card, act))

    async def picture(self, picture: Picture) -> None:
        """Show a picture, which counts as a message. Nothing happens for one with neither link nor file.

        Raises:
            ChannelError: the channel refused it for good.
            NotDone: the turn may say no more.
        """
        if not picture.link and picture.file is None:
            return
        # One without a link is never posted again: its file is not on record.
        kept = picture_on_record(picture, _command(self.performed) or picture.words)
        act = await self._post("picture", kept, partial(self.channel.picture, picture))
        self.show(Pictured(picture, act))

    async def sticker(self, name: str) -> None:
        """Show one of the place's own stickers, which counts as a message. Nothing happens without a name.

        Raises:
            ChannelError: there is none like it, or the channel refused it for good.
            NotDone: the turn may say no more.
        """
        name = name.strip()
        if name:
            await self._post("sticker", name, partial(self.channel.sticker, name))

    async def note(self, text: str) -> None:
        """Write down a private thought."""
        if text.strip():
            number = self.performed.number if self.performed else None
            self.show(Noted(text.strip(), act_id(self.turn.id, self._sequence, number)))

    async def typing(self) -> None:
        """Show that a message is being written, until it is there. Does not wait for the channel."""
        if self._may_act:
            self._typing.begin(_COMMAND)

    @property
    def seconds_left(self) -> float:
        """Seconds that a command may take, counted from when it is begun."""
        return self.limits.tool_seconds or TOOL_SECONDS

    def progress(self, text: str) -> None:
        """Tell people how far a command is, in a line that the next one replaces."""
        self.show(Progressed(clipped(text, 200)))

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """Record usage of another model for the person who is answered."""
        self.usage.count(model, usage, prices)

    # Events of the turn.

    def show(self, event: TurnEvent) -> None:
        """Show people, and whoever looks on, what happens, once what it was held for is on record."""
        self._in_order(partial(self._show, event))

    def _in_order(self, tell: Callable[[], None]) -> None:
        """Call `tell` behind all events that are held."""
        if self._held:
            self._held.append(tell)
        else:
            tell()

    def _show(self, event: TurnEvent) -> None:
        self.channel.show(event)
        if self.turn.observed is not None:
            self.turn.observed.shown(event)

    def change(self) -> None:
        """Note that the world is about to be changed: from here on the turn cannot be begun again.

        Raises:
            NotDone: the turn was ended.
        """
        if not self._may_act:
            raise NotDone("The turn was ended.")
        self._life.on(LifeEvent.ACTED)
        self.touched = True

    def next_nonce(self) -> str:
        """Return a name on the platform for something that is asked of people, and no act on record.

        Raises:
            NotDone: the turn was ended.
        """
        return self._nonce(self._begin())

    def opened(self) -> None:
        """Note that a command opens: its pace is counted from now on."""
        self._writing_since = time.monotonic()

    def ended(self) -> None:
        """End the typing sign of the command, which was performed or dropped."""
        self._typing.end(_COMMAND)

    def tools_run(self, running: bool) -> None:
        """Show the typing sign while tools run."""
        if running:
            self._typing.begin(_TOOLS)
        else:
            self._typing.end(_TOOLS)

    def model_reads(self, reading: bool) -> None:
        """Show the typing sign while a slow model reads its prompt."""
        if reading and self._may_act:
            self._typing.begin(_READING)
        else:
            self._typing.end(_READING)

    def wait_for(self, recording: asyncio.Future[None]) -> None:
        """Do no act before this is on record. Its own record is asked for meanwhile: one way for both."""
        if self.channel.acts_by_events:  # nothing else waits for what is there already
            self._recording = [each for each in self._recording if not _is_there(each)]
            self.hold(recording)
        self._recording.append(recording)

    def hold(self, recording: asyncio.Future[None]) -> None:
        """Hold what is shown from now on until this is on record; for good where it cannot be."""
        if not _is_there(recording):
            self._held.append(recording)
            recording.add_done_callback(self._release)

    def _release(self, _: asyncio.Future[None]) -> None:
        """Show what is held no longer."""
        freed = 0
        for held in self._held:
            if not isinstance(held, asyncio.Future):
                held()
            elif not _is_there(held):
                break
            freed += 1
        del self._held[:freed]

    def hurry(self) -> None:
        """Keep no pace any more: what is to be posted is posted at once."""
        self._in_haste = True
        if self._haste is not None:
            self._haste.set()

    async def close(self) -> None:
        """End what was begun beside the acts. What is left of a command or a tool can do nothing any more.

        Raises:
            StoreError: an act could not be recorded.
        """
        self._closed = True
        self.hurry()
        await self._typing.close()
        await self._recorded()

    @property
    def _may_act(self) -> bool:
        return not self._closed and self._life.may_act

    def _begin(self) -> int:
        """Begin an act: from here on the turn cannot be begun again. Gives its number."""
        self.change()
        self.said = True
        self._sequence += 1
        return self._sequence

    def _count_message(self) -> None:
        if self._messages >= self.limits.messages:
            self._over_limit("messages")
        self._messages += 1

    def _nonce(self, sequence: int) -> str:
        return nonce_of(self.turn.id, sequence, self.message.id)

    def _over_limit(self, name: str) -> None:
        self.reached |= {name}
        self._life.on(LifeEvent.LIMIT)
        raise NotDone("The turn may do no more of this.")

    async def _id_of(self, number: int) -> str | None:
        if number not in self._ids:
            self._ids[number] = await self._store.message_id(self.message.conversation, number)
        return self._ids[number]

    async def _keep_pace(self, text: str) -> None:
        """Wait while somebody who types would still be typing this."""
        left = typing_seconds(text, self._pace) - (time.monotonic() - self._writing_since)
        if left <= 0 or self._in_haste:
            return
        self._typing.begin(_MESSAGE)
        try:
            self._haste = self._haste or asyncio.Event()
            async with asyncio.timeout(left):
                await self._haste.wait()
        except TimeoutError:
            pass  # it has been long enough
        finally:
            self._typing.end(_MESSAGE)

    async def _post(self, kind: str, payload: str, do: Callable[..., Awaitable[str | None]]) -> str:
        """Do an act that counts as a message; gives its id."""
        self._count_message()
        return await self._say(kind, payload, do)

    async def _say(
        self, kind: str, payload: str, do: Callable[..., Awaitable[str | None]], *, target: int = 0
    ) -> str:
        """Do an act that stands in the chat as a message does; gives its id."""

        async def post(*, nonce: str) -> str | None:
            self._typing.end(_COMMAND)  # asked for once more, it would outlast the message
            return await do(nonce=nonce, answers=self.message.id)

        act = await self._act(kind, payload, post, target=target)
        self._typing.posted()
        self._writing_since = time.monotonic()
        return act

    async def _act(
        self, kind: str, payload: str, do: Callable[..., Awaitable[str | None]], *, target: int
    ) -> str:
        """Do an act; gives its id."""
        sequence = self._begin()
        command = self.performed.number if self.performed else None
        first, self._acts_for = command != self._acts_for, command
        name = act_id(self.turn.id, sequence, command, first=first)
        act = _Act(sequence, kind, payload, target, command, name)
        await (self._act_by_event(act, do) if self.channel.acts_by_events else self._act_outside(act, do))
        return name

    async def _act_by_event(self, act: _Act, do: Callable[..., Awaitable[str | None]]) -> None:
        """Do an act that nobody sees before it is shown; what became of it goes on record with it."""
        outcome: Outcome = "refused"
        try:
            platform_id = await do(nonce=self._nonce(act.sequence))
            outcome = "done"
            self._count_done(act.kind, platform_id, act.target)
        finally:
            self.wait_for(asyncio.ensure_future(self._intend(act, outcome)))
            self._in_order(partial(self._observe, act, outcome))  # it is seen once its event is

    async def _act_outside(self, act: _Act, do: Callable[..., Awaitable[str | None]]) -> None:
        """Do an act in the world, on record before and after."""
        self.under_way += 1
        outcome: Outcome | None = None
        platform_id: str | None = None
        try:
            outcomes, self._outcomes = self._outcomes, []
            await self._intend(act)
            self._recording += outcomes
            await self._recorded()
            outcome = "unknown"
            # Meanwhile; whoever goes on with it does it.
            if self._life.state in (LifeState.HOLDING, LifeState.DONE):
                raise NotDone("The turn was ended.")
            platform_id = await do(nonce=self._nonce(act.sequence))
            outcome = "done"
            self._count_done(act.kind, platform_id, act.target)
        except (ChannelLost, asyncio.CancelledError):  # the place is away, or nobody waits for it any more
            self._life.on(LifeEvent.LOST)
            raise
        except ChannelError:
            outcome = "refused"
            raise
        finally:
            self.under_way -= 1
            if outcome is not None:
                self._observe(act, outcome)
                self._settle(act.sequence, outcome, platform_id)

    def _intend(self, act: _Act, outcome: Outcome | None = None) -> Awaitable[None]:
        """Ask for an act to be put on record."""
        return self._store.intend(
            self.turn.id,
            act.sequence,
            act.kind,
            act.payload,
            target=act.target,
            command=act.command,
            outcome=outcome,
            lease=self.turn.lease,
        )

    def _observe(self, act: _Act, outcome: Outcome) -> None:
        if self.turn.observed is not None:
            self.turn.observed.acted(act.id, act.kind, act.payload, act.command, outcome)

    def _settle(self, sequence: int, outcome: Outcome, platform_id: str | None) -> None:
        """Put on record what became of an act, or leave it open for whoever looks for it later."""
        if outcome == "unknown" and self._life.state in _LOST:
            self.lost = True
        else:
            work = self._store.settle(self.turn.id, sequence, outcome, platform_id, later=True)
            self._outcomes.append(asyncio.ensure_future(work))
            self._outcomes[-1].add_done_callback(look_at)

    async def _recorded(self) -> None:
        """Wait until what was told before is on record.

        Raises:
            StoreError: it could not be recorded.
        """
        recording = tuple(self._recording)
        if not all(each.done() for each in recording):
            await asyncio.wait(recording)  # whoever is cancelled here leaves them to `close`
        self._recording = [task for task in self._recording if task not in recording]
        for error in [task.exception() for task in recording]:
            if error is not None:
                raise error

    def _count_done(self, kind: str, platform_id: str | None, target: int) -> None:
        """Take note of an act that was carried out."""
        self.effects[kind] += 1
        self.targets.append(target)
        if platform_id:
            self.posted.append(platform_id)
        if self.first_seen is None:
            self.first_seen = time.monotonic()


def _is_there(recording: asyncio.Future[None]) -> bool:
    """Return True for what is on record, False for what is not yet, or cannot be."""
    return recording.done() and not recording.cancelled() and recording.exception() is None


def _numbered(messages: Iterable[Message]) -> dict[int, str | None]:
    """Return the ids of the messages that a persona is most likely to name, by their numbers."""
    ids: dict[int, str | None] = {q.number: q.id for one in messages for q in one.quoted if q.number}
    return ids | {one.number: one.id for one in messages if one.number}


def _command(performed: Planned | None) -> str:
    """Return a command as history will hold it; "" for none."""
    return "" if performed is None else written(performed.name, performed.argument, {performed.name: ()})


def nonce_of(turn: int, sequence: int, answered: str) -> str:
    """Return the act's name on the platform: the same whenever it is tried again, and at most 25 characters.

    The message's id is part of it: turns are counted anew in a new database, messages are not.
    """
    return f"{turn:x}-{sequence:x}-{zlib.crc32(answered.encode('utf-8', 'surrogatepass')):x}"


def typing_seconds(text: str, pace: Pace) -> float:
    """Return seconds from the first thought of a message to its posting; 0 where there is no pace to keep."""
    if pace == "off":
        return 0.0
    most, speed = _MOST_SECONDS[pace], _LETTERS_PER_SECOND[pace]
    longest = int(most * speed) + 1  # a longer one takes no longer
    return min(most, _BEGINNING + _letters(text[:longest]) / speed)


def _letters(text: str) -> float:
    if text.isascii():
        return len(text)
    return sum(_WIDE if unicodedata.east_asian_width(c) in "WF" else 1.0 for c in text)


class TypingSign:
    """Shows the sign that a message is being written, and asks for it again as long as there is a reason.

    A channel that refuses it once is left in peace.
    """

    __slots__ = ("_again", "_asking", "_channel", "_left", "_reasons", "_refused")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reasons = frozenset[str]()
        self._asking: asyncio.Task[None] | None = None
        self._left = frozenset[asyncio.Task[None]]()  # cancelled, and not ended yet
        self._again: asyncio.TimerHandle | None = None
        self._refused = channel.acts_by_events  # a message that opens is seen

    def begin(self, reason: str) -> None:
        """Add a reason to show it."""
        shown = bool(self._reasons)
        self._reasons |= {reason}
        if not shown:
            self._ask()

    def end(self, reason: str) -> None:
        """Remove a reason; with the last one, nothing more is asked of the channel."""
        self._reasons -= {reason}
        if not self._reasons:
            self._rest()

    def posted(self) -> None:
        """Show the sign again, which a message took away, where there still is a reason."""
        if self._reasons:
            self._rest()
            self._ask()

    async def close(self) -> None:
        """Show it no more."""
        self._reasons = frozenset()
        self._rest()
        if self._left:
            await asyncio.wait(self._left, timeout=_END_SECONDS)

    def _ask(self) -> None:
        if self._refused:
            return
        self._asking = asyncio.create_task(self._channel.typing())
        self._asking.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._left -= {task}
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
            self._left |= {self._asking}
            self._asking = None
