"""The events of a talk over HTTP: kept for a while, and followed by as many as want to.

A turn does not wait for its readers. Each event is put into a ring, from which every follower takes the
events that are new to it, all at once. A follower that reads too slowly finds its place in the ring gone,
and is told so: it can ask for the messages on record, and follow anew. So a client that stops reading costs
nobody anything.
"""

import asyncio
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

from pixi.channels.http.access import is_of_visitor
from pixi.core.channel import Channel, Question
from pixi.core.errors import ChannelError, PixiError
from pixi.core.events import Numbering, Pictured, TalkChanged, TurnEvent, TurnStarted, Verdict
from pixi.core.message import Abilities, Image, Picture
from pixi.store.kept import MOST_ENDED

RING = 2_000
"""Events of one talk that are kept. A reply of 500 words has some 700."""

KEPT_SECONDS = 600.0
"""Seconds for which the events of a talk are kept in which nothing happens."""

KEEP_ALIVE_SECONDS = 15.0
"""Seconds in which a follower hears nothing at most: proxies and clients drop silent streams."""

Protocol = Literal["native", "ai-sdk", "ai-sdk-6"]
"""The protocol of a stream below `/api/chat`; `ai-sdk-6` is for AI SDK's clients of version 6 and later."""

Form = dict[str, Any]
"""An event in its JSON form, with its turn and its number."""

SILENCE: Form = {"event": "silence", "turn": 0, "seq": 0}
"""Tells that no event came for long. It is no event, and has no place in the ring."""

CHANGED: Form = {"event": "changed", "turn": 0, "seq": 0}
"""Tells whoever follows a talk to read it anew."""

_WHOLE = frozenset({"send", "note", "command"})
"""Events that hold what came in pieces before."""

_AT_ONCE = 100  # events that a follower takes: who stops reading then holds no more than these

_MARK = re.compile(r"([0-9a-f]{8})-(\d{1,18})")


class FollowedTooSlowly(PixiError):
    """The events that a follower wants next are kept no more."""


class Feed:
    """The latest events of one talk.

    The pieces of a message are left out once the whole message came and all followers have had them: a client
    that resumes in their midst gets the text from the event of the whole message.

    Where several servers share a store, a feed also has the events of a turn that another one takes, as that
    one has numbered them; see `Peers`.

    Attributes:
        count: the number of events until now. Events are followed from a count on.
        pass_on: called with each event that happens here; None: no other server is there.
        turn_elsewhere: the number of the turn that another server takes; 0: none does.
        asked_elsewhere: ids of the questions of that turn that wait for an answer.
        ended: the number of the turn that ended last.
        heard: the turns whose ends came here, the latest.
        losses: how often `lose` was called.
        waiting: how many requests wait for the answer to their message.
        followers: how many follow just now.
        used: the time of the last event, on the monotonic clock.
        closed: the server stops.
    """

    def __init__(self) -> None:
        self.count = 0
        self.waiting = 0
        self.followers = 0
        self.pass_on: Callable[[Form], None] | None = None
        self.turn_elsewhere = 0
        self.asked_elsewhere: set[str] = set()
        self.ended = 0
        self.heard: deque[int] = deque(maxlen=MOST_ENDED)
        self.losses = 0
        self._name = secrets.token_hex(4)  # counts of another feed mean nothing here
        self.used = time.monotonic()
        self._numbering = Numbering()
        self._ring: list[Form | None] = []  # None: a piece that was left out
        self._grows = ""  # the id of the message that came in pieces last
        self._pieces: list[int] = []  # the counts before them
        self._more: list[asyncio.Future[bool]] = []  # of followers who have had everything
        self._silence: asyncio.TimerHandle | None = None  # one for all followers; None: nobody waits
        self.closed = False

    @property
    def turn(self) -> int:
        """Return the number of the turn under way; 0: none is."""
        return self._numbering.turn or self.turn_elsewhere

    @property
    def idle(self) -> bool:
        """Return True if nothing is under way, or about to be."""
        return self.turn == 0 and self.waiting == 0

    def push(self, event: TurnEvent) -> None:
        """Add an event that happens here, and wake the followers."""
        if isinstance(event, TurnStarted) and self.turn_elsewhere:
            # That turn has ended, and what it did last is on record: whoever follows the talk reads it there.
            self._end_elsewhere(self.turn_elsewhere)
            self._add(CHANGED)
        elif isinstance(event, TalkChanged):
            self._end_elsewhere(event.ended)
        form = self._numbering.form(event)
        self._add(form)
        if self.pass_on is not None:
            self.pass_on(form)

    def take(self, form: Form | None) -> None:
        """Add an event that happened on another server; None: a piece that was left out there."""
        if form is not None:
            match form["event"]:
                case "turn_start":
                    self.turn_elsewhere = form["turn"]
                    self.asked_elsewhere.clear()
                case "turn_end":
                    self._end_elsewhere(form["turn"])
                case "changed":
                    self._end_elsewhere(form.get("ended", 0))
                case "approval":
                    self.asked_elsewhere.add(form["id"])
                case "approved":
                    self.asked_elsewhere.discard(form["id"])
        self._add(form)

    def _end_elsewhere(self, turn: int) -> None:
        """Note that a turn has ended, if it is the one that another server takes."""
        if turn and turn == self.turn_elsewhere:
            self.turn_elsewhere = 0
            self.asked_elsewhere.clear()

    def lose(self) -> None:
        """Drop all events, and let nobody go on in them: some are missing. Followers are told that."""
        self.losses += 1
        self._ring.clear()
        self._grows, self._pieces = "", []
        self.count += 1  # so that each place until now is one of which the next event was dropped
        self._name = secrets.token_hex(4)
        self.turn_elsewhere = 0
        self.asked_elsewhere.clear()
        self.wake()

    def forget(self) -> None:
        """Drop all events but those of the turn under way. Followers who have not had them are told that.

        A turn that tells of what was forgotten is ended before this is called. Where another server takes
        the turn, that server says so later, and this is called again.
        """
        del self._ring[: self.begin_of_turn() - self.first]

    def _add(self, form: Form | None) -> None:
        self._ring.append(form)
        if len(self._ring) > RING:
            del self._ring[0]
        self.count += 1
        self.used = time.monotonic()
        self.wake()
        if form is None:
            return
        event = form["event"]
        if event == "text":
            if form["id"] != self._grows:
                self._grows, self._pieces = form["id"], []
            self._pieces.append(self.count - 1)
        elif event in _WHOLE and form["id"] == self._grows:
            self._leave_out_pieces()
        elif event == "turn_end":
            self._note_end(form["turn"])  # 0: it ended before it began
        elif event == "changed" and "ended" in form:
            self._note_end(form["ended"])

    def _note_end(self, turn: int) -> None:
        self.ended = max(self.ended, turn)
        self.heard.append(turn)

    def _leave_out_pieces(self) -> None:
        pieces, self._pieces, self._grows = self._pieces, [], ""
        if self.followers:  # they are woken before this is called
            asyncio.get_running_loop().call_soon(self._leave_out, pieces)
        else:
            self._leave_out(pieces)

    def _leave_out(self, places: Sequence[int]) -> None:
        first = self.first
        for place in places:
            if place >= first:
                self._ring[place - first] = None

    def close(self) -> None:
        """End all followers, once they have had all events: the server stops."""
        self.closed = True
        self.wake()

    def place_after(self, turn: int, seq: int) -> int | None:
        """Return the count behind an event; None: the event is kept no more."""
        later = self.count  # the place of the next event that is kept
        for place, form in zip(range(self.count - 1, -1, -1), reversed(self._ring), strict=False):
            if form is None:
                continue
            if form["turn"] == turn and form["seq"] <= seq:
                after = place + 1 + seq - form["seq"]  # in between are pieces that were left out
                return after if after <= later else None
            later = place
        return None

    def ends_after(self, place: int) -> bool:
        """Return True if the end of a turn is kept after a count."""
        later = self._ring[max(0, place - self.first) :]
        return any(form is not None and form["event"] == "turn_end" for form in later)

    def mark_of(self, place: int) -> str:
        """Return a name for a count, by which a follower finds the place again in this feed alone."""
        return f"{self._name}-{place}"

    @property
    def first(self) -> int:
        """Return the count before the first event that is kept."""
        return self.count - len(self._ring)

    def place_of_mark(self, mark: str) -> int | None:
        """Return the count of a name; None: the name is another feed's, or the next event is kept no more."""
        given = _MARK.fullmatch(mark)
        if given is None or given[1] != self._name:
            return None
        place = int(given[2])
        return place if self.first <= place <= self.count else None

    def place_of_question(self, question: str) -> int | None:
        """Return the count behind a question; None: the question is not kept."""
        for number, form in enumerate(reversed(self._ring)):
            if form is not None and form["event"] == "approval" and form["id"] == question:
                return self.count - number
        return None

    def turn_so_far(self) -> list[Form | None]:
        """Return the events of the turn that is taken here, as far as they are kept; none, where none is."""
        return self._ring[self.begin_of_turn() - self.first :] if self._numbering.turn else []

    def begin_of_turn(self) -> int:
        """Return the count before the turn under way; the last count, where no turn is.

        Of a turn that is longer than the ring, return the count before the first event that is kept.
        """
        if self.turn == 0:
            return self.count
        for number, form in enumerate(reversed(self._ring), 1):
            if form is not None and form["event"] == "turn_start" and form["turn"] == self.turn:
                return self.count - number
        return self.first

    async def follow(
        self, place: int, over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[list[Form], None]:
        """Yield the events from a count on, as they come, until the feed is closed or `over` returns True.

        Events that are there already come together. After each long silence comes `SILENCE`.

        Raises:
            FollowedTooSlowly: the next event was dropped.
        """
        async with aclosing(self.follow_on(place, over)) as events:
            async for numbered in events:
                yield [form for _, form in numbered]

    async def follow_on(
        self, place: int, over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[list[tuple[int, Form]], None]:
        """Yield the same events, each with the count behind the event."""
        self.followers += 1
        try:
            while True:
                first = self.first
                if place < first:
                    raise FollowedTooSlowly("Events were dropped: read the messages, and follow anew.")
                if place < self.count:
                    there = self._ring[place - first : place - first + _AT_ONCE]
                    numbered = [(n, form) for n, form in enumerate(there, place + 1) if form is not None]
                    place += len(there)
                    if numbered:
                        yield numbered
                elif self.closed or over():
                    return
                elif not await self._more_or_silence():
                    yield [(place, SILENCE)]
        finally:
            self.followers -= 1
            if not self.followers and self._silence is not None:
                self._silence.cancel()
                self._silence = None

    def _more_or_silence(self) -> asyncio.Future[bool]:
        """Return what is done once there may be more to follow; False after a long silence."""
        loop = asyncio.get_running_loop()
        if self._silence is None:
            self._silence = loop.call_later(KEEP_ALIVE_SECONDS, self._tell_silence)
        more: asyncio.Future[bool] = loop.create_future()
        self._more.append(more)
        return more

    def _tell_silence(self) -> None:
        """Tell the followers of a long silence; where it was not long yet, look again later."""
        left = KEEP_ALIVE_SECONDS - (time.monotonic() - self.used)
        if left <= 0:
            self._settle(False)
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(left if left > 0 else KEEP_ALIVE_SECONDS, self._tell_silence)

    def wake(self) -> None:
        """Let the followers look whether they go on."""
        self._settle(True)

    def _settle(self, came: bool) -> None:
        waiting, self._more = self._more, []
        for more in waiting:
            if not more.done():
                more.set_result(came)


class HttpChannel(Channel):
    """A talk over HTTP, as a persona acts in it: an act is an event of the feed, and nothing else.

    Nothing can be refused and nothing be lost on the way: all acts stand on record, where a client that was
    away reads them.

    Args:
        visitors: the talk is a visitor's: nothing is changed for visitors, and their yes counts for nothing.

    Attributes:
        keep: called with the id of an act and the picture that it shows, which lies nowhere else; None: such
            pictures cannot be shown.
        feed: the events.
        answers: the client that spoke last can answer questions; a program that knows talk alone cannot.
        protocol: the client spoke this one last; a client that follows and names none gets it.
        saying: held while a message is being put on record.
        joining: done once the feed has what happens on other servers; None: nobody has asked for that yet.
    """

    growing = True
    acts_by_events = True

    def __init__(self, *, visitors: bool = False) -> None:
        self.feed = Feed()
        self.answers = True
        self.protocol: Protocol = "native"
        self.saying = asyncio.Lock()
        self.joining: asyncio.Future[None] | None = None
        self.keep: Callable[[str, Image], None] | None = None
        self._visitors = visitors
        self._asked: dict[str, tuple[str, asyncio.Future[Verdict]]] = {}  # by the nonce: whom, and the answer

    @property
    def abilities(self) -> Abilities:
        """Words, cards, and pictures by their links."""
        return Abilities(changes=not self._visitors, asks=self._can_answer)

    @property
    def _can_answer(self) -> bool:
        return self.answers and not self._visitors

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Wait until the person answers over HTTP."""
        if not self._can_answer:
            return "nobody"
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._asked[question.nonce] = (question.person, answer)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            return "nobody"
        finally:
            del self._asked[question.nonce]

    @property
    def is_asking(self) -> bool:
        """Return True while any question waits for its answer."""
        return any(map(self.asks, (*self._asked, *self.feed.asked_elsewhere)))

    def asks(self, question: str) -> bool:
        """Return True while a question waits for its answer."""
        _, answer = self._asked.get(question, ("", None))
        waits = answer is not None and not answer.done()
        return waits or question in self.feed.asked_elsewhere

    def answer(self, question: str, person: str, verdict: Verdict) -> bool:
        """Answer a question; False where there is none of this id that waits for this person."""
        whom, answer = self._asked.get(question, ("", None))
        if answer is None or whom != person or answer.done():
            return False
        answer.set_result(verdict)
        return True

    def ends(self, form: Form, *, pauses: bool) -> bool:
        """Return True for the event that ends a turn; with `pauses` also for a question that waits."""
        return form["event"] == "turn_end" or (
            pauses and form["event"] == "approval" and self.asks(form["id"])
        )

    async def turn_from(self, place: int, *, pauses: bool = False) -> AsyncGenerator[list[Form], None]:
        """Yield the events from a count on, up to the end of a turn, see `ends`."""
        async with aclosing(self.feed.follow(place, lambda: self.feed.idle)) as events:
            async for forms in events:
                for number, form in enumerate(forms, 1):
                    if self.ends(form, pauses=pauses):
                        yield forms[:number]
                        return
                yield forms

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Do nothing: the event shows it."""
        return None

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Do nothing: the event shows it.

        Raises:
            ChannelError: it has no link, and nobody keeps it.
        """
        if not picture.link and self.keep is None:
            raise ChannelError("A picture without a link cannot be shown here.")
        return None

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Return None: what was delivered is what stands on record, so that it may be delivered again."""
        return None

    def show(self, event: TurnEvent) -> None:
        """Put an event into the feed."""
        if isinstance(event, Pictured) and self.keep and event.picture.file and not event.picture.link:
            self.keep(event.id, event.picture.file)
        self.feed.push(event)


class Channels:
    """The channels of all talks, by their addresses. Those without events for long are dropped.

    Attributes:
        pass_on: called with each event that happens here, and the address of its talk; None: by nobody.
        keep: called with the address of a talk, and as `HttpChannel.keep`; None: by nobody.
        forgotten: called with the address of each talk that lost words; None: by nobody.
        dropped: called with the address of each channel that is dropped.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.pass_on: Callable[[str, Form], None] | None = None
        self.keep: Callable[[str, str, Image], None] | None = None
        self.forgotten: Callable[[str], None] | None = None
        self.dropped: Callable[[str], None] | None = None
        self._clock = clock
        self._open: OrderedDict[str, HttpChannel] = OrderedDict()  # the one used last is last

    def at(self, address: str) -> HttpChannel:
        """Return the channel of a talk; it is made where there is none."""
        channel = self._open.pop(address, None)
        if channel is None:
            channel = HttpChannel(visitors=is_of_visitor(address))
            if self.pass_on is not None:
                channel.feed.pass_on = partial(self.pass_on, address)
            if self.keep is not None:
                channel.keep = partial(self.keep, address)
        self._open[address] = channel
        self._drop_old()
        return channel

    def known(self, address: str) -> HttpChannel | None:
        """Return the channel of a talk in which something happened lately."""
        return self._open.get(address)

    def forget(self, address: str) -> None:
        """Drop what is held of a talk that lost words."""
        if self.forgotten is not None:
            self.forgotten(address)
        if (channel := self.known(address)) is not None:
            channel.feed.forget()

    def items(self) -> list[tuple[str, HttpChannel]]:
        """Return the channels with the addresses of their talks."""
        return list(self._open.items())

    def __iter__(self) -> Iterator[HttpChannel]:
        return iter(list(self._open.values()))

    def _drop_old(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while len(self._open) > 1:
            address, channel = next(iter(self._open.items()))
            feed = channel.feed
            if feed.used > oldest:
                return
            if not feed.idle or feed.followers:
                self._open.move_to_end(address)
                return  # the next time another one is looked at
            del self._open[address]
            if self.dropped is not None:
                self.dropped(address)
