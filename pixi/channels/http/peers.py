"""Other servers on the same store: a talk is seen, stopped and answered from each of them.

Theory
------
Each conversation is answered by one process at a time, the one that has its lease. But its people may be
connected to any server. Clients are always answered from the feed of the server that they reach, by the same
rules, wherever the reply is written. So a server that writes a reply passes its events on to the servers
that *follow* the talk, and each follower puts them into its own feed.

Following. A server that opens a talk says `follow` to all others (`join`). From then on, what happens there
is passed on to it, as `events`. A server that writes a turn there just then sends the turn so far. A follower
takes a turn from its beginning or not at all, so that no stream begins amid a turn. The server from which it
takes the turn under way is the *writer* of the talk. `leave` ends it, when the talk is closed.

Places. An event's turn and number are the same on all servers. A place in a feed (`Feed.mark_of`) is that
feed's alone: a client that comes with the place of another server is told that the talk has changed, and
reads it anew, as after a restart.

Requests. `stop` and `answer` (to a question) are for the server that has the talk. Who asks does not know
which that is, so all others are asked, and each says in a `told` whether it did that. A server that stands
still may hear a request long after whoever made it was told that nothing came of it. So a request says until
when it holds, by the clock of the database, and a later one is refused. Who did not reply in time is not
waited for until it says something again (`_silent`).

Losses. Nothing has to arrive for a talk to be answered, once and in order: that is the store's work. A
message that was missed costs a stream, not a reply:

- Messages of one server were missed (`missed`): the turns that it writes may have a hole, and their streams
  are ended. Who follows one reads the talk, and follows anew. Idle talks are read anew too, as a whole turn
  may have gone by. Streams of turns that others write go on.
- A server has ended (`gone`): so it is with the turns that it wrote, and what it left is taken up. Whoever
  takes up a turn tells that it has ended.
- A turn went by before its writer knew that the talk is followed. While that may be so, a talk is *in doubt*:
  in each of some looks at the record (`find_missed`) turns are looked for that ended and were not heard of.

What is not nice. Messages say nothing of their order among several servers, so that two turns of one talk may
overlap here where its lease changes hands: the later one wins, and the streams of the earlier one end.

The messages are JSON. One that is not known, as it comes from another version, is passed over.
"""

import asyncio
import json
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from pixi.channels.engine import HttpBackend
from pixi.channels.http.feed import CHANGED, Channels, Feed, FollowedTooSlowly, Form, HttpChannel, Protocol
from pixi.core.errors import PixiError, StoreError
from pixi.core.events import Verdict
from pixi.core.untrusted import without_halves

_log = logging.getLogger("pixi.http")

ASK_SECONDS = 5.0
"""Seconds that another server has to do what it is asked for. It begins nothing of it later."""

JOIN_SECONDS = 1.0
"""Seconds that others have to tell what is under way in a talk. Who takes longer is not waited for again."""

BACK_SECONDS = 2.0
"""Seconds in which a server whose connections alone were lost is there again."""

_LATE_SECONDS = 2.0  # that events may come after the store has what they tell

_LOOKS_IN_DOUBT = 4
"""Looks in which all others were heard, after which each of them knows what was followed before."""

_MOST_TALKS = 200  # that are looked for in the record at a time


class _Hello(Struct, tag="hello"):
    """The sender hears the others from now on; it may have missed what they said before."""


class _Here(Struct, tag="here"):
    """The sender is there. `written`: the talks in which it writes replies, by person."""

    written: dict[str, list[str]] = {}


class _Bye(Struct, tag="bye"):
    """The sender has ended, and has no talk any more."""


class _Follow(Struct, tag="follow"):
    """The sender follows these talks. `ask`: the request that a `told` replies to; "": none is wanted."""

    talks: list[str]
    ask: str = ""


class _Leave(Struct, tag="leave"):
    """The sender follows this talk no more."""

    talk: str


class _LostWords(Struct, tag="lost words"):
    """Words of this talk were forgotten: what its turns at the sender said until now is to be dropped."""

    talk: str


class _Fails(Struct, tag="fails"):
    """A server of models does not answer."""

    place: str


class _Events(Struct, tag="events"):
    """Events of a talk. `so_far`: all of the turn under way, from its beginning."""

    talk: str
    forms: list[Form | None]
    protocol: Protocol = "native"
    so_far: bool = False


class _Stop(Struct, tag="stop"):
    """Stop the reply in a talk. `turn`: if it is this one; None: whichever it is."""

    talk: str
    turn: int | None
    ask: str
    until: float = math.inf  # older versions do not say


class _Answer(Struct, tag="answer"):
    """A person answered a question."""

    talk: str
    question: str
    person: str
    verdict: Verdict
    ask: str
    until: float = math.inf


class _Told(Struct, tag="told"):
    """The reply to a message with an `ask`. `done`: the sender did it, or writes a turn in such a talk."""

    ask: str
    done: bool


_Message = _Hello | _Here | _Bye | _Follow | _Leave | _LostWords | _Fails | _Events | _Stop | _Answer | _Told

_decode = msgspec.json.Decoder(_Message).decode


class _Request:
    """A request to other servers, open until one of them has done it, or none of them can.

    Attributes:
        done: its outcome.
        left: those that did not reply yet.
    """

    def __init__(self, others: Collection[str]) -> None:
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.left = set(others)

    def replied(self, other: str, done: bool) -> None:
        """Take the reply of one."""
        self.left.discard(other)
        if not self.done.done() and (done or not self.left):
            self.done.set_result(done)


@dataclass
class _Doubt:
    """A talk of which turns may end unheard.

    Attributes:
        looks: how many looks at the record it is in doubt yet.
        after: turns up to this one are surely known here.
    """

    looks: int
    after: int


class Peers:
    """The other servers on the same store, and what they are told. There are none until `connect`.

    Args:
        backend: answers here.
        channels: the talks that are open here.
        resume: takes up what another server left when it ended.

    Attributes:
        suspect: called with the server of models that fails another server.
        written: gives the talks in which replies are written here, by person.
    """

    def __init__(
        self, backend: HttpBackend, channels: Channels, resume: Callable[[], Awaitable[None]]
    ) -> None:
        self._backend = backend
        self._channels = channels
        self._resume = resume
        self.suspect: Callable[[str], None] = lambda _: None
        self.written: Callable[[], dict[str, list[str]]] = dict
        self._write: Callable[[bytes], None] = lambda _: None  # set by `connect`, and so is the clock
        self._now = time.time
        self._closed = False
        self._background: set[asyncio.Task[None]] = set()

        # Other servers, by name.
        self._others: set[str] = set()
        self._silent: set[str] = set()  # did not reply in time, and said nothing since
        self._written_by: dict[str, dict[str, list[str]]] = {}  # their talks by person, as told last
        self._requests: dict[str, _Request] = {}  # to them, by `ask`

        # Talks, by address.
        self._followers: dict[str, set[str]] = {}  # the others that follow a talk
        self._writers: dict[str, str] = {}  # the other from which the turn under way is taken here
        self._doubts: dict[str, _Doubt] = {}

    @property
    def others(self) -> Collection[str]:
        """Return the names of the servers that are there besides this one."""
        return self._others

    def connect(self, write: Callable[[bytes], None], now: Callable[[], float] = time.time) -> None:
        """Pass messages on from now on.

        Args:
            write: hands a message to all other servers, in order. It does not wait.
            now: gives the time by a clock that all have in common, in seconds.
        """
        self._write, self._now = write, now
        self._channels.pass_on = self._pass_on
        self._channels.dropped = self._dropped

    async def close(self) -> None:
        """End what is done for other servers, and hear them no more; what happens here is still passed on."""
        self._closed = True
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    # For the clients of this server.

    async def join(self, address: str) -> HttpChannel:
        """Return the channel of a talk, whose feed has what happens on other servers from now on."""
        channel = self._channels.at(address)
        if self._others and channel.joining is None:
            channel.joining = self._in_background(self._follow(address))
        if channel.joining is not None:
            await asyncio.shield(channel.joining)
        return channel

    async def _follow(self, address: str) -> None:
        """Follow a talk. Where another server may write there, wait for the turn so far."""
        with suppress(StoreError):  # then the talk is read once more, later
            feed = self._channels.at(address).feed
            ended = await self._backend.store.ended_after({address: feed.ended})
            feed.ended = max((feed.ended, *ended[address]))
        self._doubt(address)
        asked = self._others - self._silent
        if asked and await self._is_elsewhere(address):
            await self._ask(lambda ask, _: _Follow([address], ask), asked, JOIN_SECONDS)
        else:
            self._send(_Follow([address]))

    async def stop(self, address: str, turn: int | None = None) -> bool:
        """Have the reply stopped that another server writes; returns when its turn has ended.

        Args:
            address: of the talk.
            turn: the one that is meant; None: whichever is under way.
        """
        if not await self._is_elsewhere(address):
            return False
        return await self._ask(lambda ask, until: _Stop(address, turn, ask, until), self._others, ASK_SECONDS)

    async def answer(self, address: str, question: str, person: str, verdict: Verdict) -> bool:
        """Answer a question that was asked on another server; False where none waits for this person."""
        if not await self._is_elsewhere(address):
            return False
        return await self._ask(
            lambda ask, until: _Answer(address, question, person, verdict, ask, until),
            self._others,
            ASK_SECONDS,
        )

    async def answered(self, address: str, message_id: str) -> None:
        """Return when the feed has the turn that answers a message, where another server writes it.

        To be called when nothing is left to be answered here. The feed may have missed the turn: then it
        returns a while after the turn's end is on record.

        Raises:
            StoreError: it could not be found out.
        """
        feed = self._channels.at(address).feed
        is_over = not self._others
        while not is_over:
            found = await self._backend.store.answer_to(address, message_id)
            if found is None or found.turn is None or feed.ended >= found.turn.id:
                return
            await self._wait_for_end(feed, found.turn.id)
            is_over = found.turn.finish is not None or not await self._is_elsewhere(address)

    @staticmethod
    async def _wait_for_end(feed: Feed, turn: int) -> None:
        """Wait until a feed has the end of a turn, or a while has passed."""
        events = feed.follow(feed.count, lambda: feed.ended >= turn)
        with suppress(TimeoutError, FollowedTooSlowly):
            async with asyncio.timeout(_LATE_SECONDS), aclosing(events):
                async for _ in events:
                    pass

    def written_to(self, person: str) -> set[str]:
        """Return the talks in which other servers write replies to a person, up to a second late."""
        return {talk for written in self._written_by.values() for talk in written.get(person, ())}

    def is_followed(self, address: str) -> bool:
        """Return True if another server follows a talk."""
        return address in self._followers

    async def _is_elsewhere(self, address: str) -> bool:
        """Return True if another server has a talk. False where the record cannot be read."""
        if not self._others:
            return False
        try:
            return await self._backend.store.owned_elsewhere(address)
        except StoreError:
            return False

    async def _ask(
        self, message: Callable[[str, float], _Message], others: Collection[str], seconds: float
    ) -> bool:
        """Send a request. Return True as soon as one has done it, False if none can, or replies in time.

        Args:
            message: makes the request of its name and of the time until when it holds.
            others: whose replies are waited for.
            seconds: for which that is.
        """
        ask = secrets.token_hex(8)
        request = self._requests[ask] = _Request(others)
        self._send(message(ask, self._now() + seconds))
        try:
            async with asyncio.timeout(seconds):
                return await request.done
        except TimeoutError:
            self._silent |= request.left & self._others
            return False
        finally:
            del self._requests[ask]

    # To the others.

    def _send(self, message: _Message) -> None:
        try:
            data = msgspec.json.encode(message)
        except UnicodeEncodeError:  # half of a pair of surrogates, which has no UTF-8
            data = without_halves(json.dumps(msgspec.to_builtins(message), ensure_ascii=False)).encode()
        self._write(data)

    def beat(self) -> None:
        """Tell the others that this server lives, and where it writes."""
        self._send(_Here(self.written()))

    def hello(self) -> None:
        """Tell the others that this server hears them from now on."""
        self._send(_Hello())

    def unheard(self) -> None:
        """Note that messages from here did not reach the others: tell anew what they need to know."""
        self.hello()
        self._follow_all()

    def bye(self) -> None:
        """Tell the others that this server has ended. To be called once its store is closed."""
        self._send(_Bye())

    def tell_failing(self, place: str) -> None:
        """Tell the others that a server of models does not answer."""
        if self._others:
            self._send(_Fails(place))

    def lost_words(self, address: str) -> None:
        """Tell the followers of a talk that words of it were forgotten, once no turn here says them any more.

        They may have heard of it before, while their feeds still had the turn under way.
        """
        if address in self._followers:
            self._send(_LostWords(address))

    def _pass_on(self, address: str, form: Form) -> None:
        """Pass an event that happened here on to the followers of its talk."""
        if address in self._followers:
            channel = self._channels.known(address)
            self._send(_Events(address, [form], "native" if channel is None else channel.protocol))

    def _dropped(self, address: str) -> None:
        """Note that a talk is closed here."""
        self._writers.pop(address, None)
        self._doubts.pop(address, None)
        if self._others:
            self._send(_Leave(address))

    def _follow_all(self) -> None:
        """Follow all talks that are open here."""
        talks = self._channels.items()
        for address, channel in talks:
            if channel.joining is None:  # nobody waits for what is under way there
                channel.joining = asyncio.get_running_loop().create_future()
                channel.joining.set_result(None)
            self._doubt(address)
        if talks:
            self._send(_Follow([address for address, _ in talks]))

    # From the others.

    def receive(self, other: str, data: bytes) -> None:
        """Do what a message of another server says."""
        if self._closed:
            return
        self._silent.discard(other)
        try:
            self._handle(other, _decode(data))
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
            _log.warning("a message of another server is not understood; is it of another version? %s", error)

    def _handle(self, other: str, message: _Message) -> None:
        match message:
            case _Hello():  # from one that is known, too: its connection was lost, and is made again
                self._others.add(other)
                self.beat()
                self._follow_all()
            case _Here(written):
                self._written_by[other] = written
                if other not in self._others:
                    self._others.add(other)
                    self._follow_all()
            case _Bye():
                self._forget(other)
                self._in_background(self._take_up(other))
            case _Follow():
                self._add_follower(other, message)
            case _Leave(talk):
                self._remove_follower(other, talk)
            case _LostWords(talk):
                self._channels.forget(talk)
            case _Fails(place):
                self.suspect(place)
            case _Events():
                self._take_events(other, message)
            case _Told(ask, done):
                if ask in self._requests:
                    self._requests[ask].replied(other, done)
            case _Stop() | _Answer():
                self._in_background(self._do_request(message))

    def _add_follower(self, other: str, message: _Follow) -> None:
        """Pass events of talks on to another server; what is under way there is sent at once."""
        is_writing = False
        for talk in message.talks:
            self._followers.setdefault(talk, set()).add(other)
            channel = self._channels.known(talk)
            if channel is not None and (forms := channel.feed.turn_so_far()):
                is_writing = True
                self._send(_Events(talk, forms, channel.protocol, so_far=True))
        if message.ask:
            self._send(_Told(message.ask, is_writing))

    def _remove_follower(self, other: str, talk: str) -> None:
        others = self._followers.get(talk, set())
        others.discard(other)
        if not others:
            self._followers.pop(talk, None)

    def _take_events(self, other: str, message: _Events) -> None:
        """Put events of another server into the feed of their talk, if somebody here follows it."""
        talk, channel = message.talk, self._channels.known(message.talk)
        if channel is None or channel.joining is None:
            return
        feed = channel.feed
        if message.so_far:
            turn = max((form["turn"] for form in message.forms if form is not None), default=0)
            if not turn:
                return
            if feed.turn:
                is_other_servers = feed.turn == feed.turn_elsewhere and self._writers.get(talk) != other
                if not is_other_servers or turn <= feed.turn:
                    return  # its beginning is here already
                feed.lose()  # of the turn before, nobody knows the end
            feed.turn_elsewhere = turn  # what began it may be kept no more
            self._writers[talk], channel.protocol = other, message.protocol
        for form in message.forms:
            if form is not None and form["event"] == "turn_start":
                if feed.turn_elsewhere and self._writers.get(talk) != other:
                    feed.lose()  # of the turn before, nobody knows the end
                self._writers[talk], channel.protocol = other, message.protocol
            elif form is not None and not _belongs(form, feed.turn_elsewhere):
                continue
            feed.take(form)
        if not feed.turn_elsewhere:
            self._writers.pop(talk, None)

    async def _do_request(self, message: _Stop | _Answer) -> None:
        """Do what another server asks for, and reply."""
        if message.until < self._now():
            _log.warning("a request of another server came too late, and nothing of it was done")
            return
        channel = self._channels.known(message.talk)
        done = False
        match message:
            case _Stop(talk, turn):
                if turn is None or (channel is not None and channel.feed.turn == turn):
                    done = await self._backend.engine.stop(talk)
            case _Answer(_, question, person, verdict):
                done = channel is not None and channel.answer(question, person, verdict)
        self._send(_Told(message.ask, done))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def logged() -> None:
            try:
                await work
            except PixiError as error:
                _log.warning("something between servers could not be done: %s", error)

        task = asyncio.get_running_loop().create_task(logged())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda _: work.close())  # the task may be cancelled before it begins
        return task

    # What is missed, and who is gone.

    def missed(self, other: str = "") -> None:
        """Note that messages of another server were missed; "": maybe of all. Their turns have holes."""
        for address, channel in self._channels.items():
            if channel.joining is None:
                continue
            if not channel.feed.turn_elsewhere:
                channel.feed.take(CHANGED)  # a whole turn may have gone by
            elif not other or self._writers.get(address) == other:
                self._writers.pop(address, None)
                channel.feed.lose()
        self._follow_all()  # and so have the turns under way so far

    def forgot(self, person: str) -> None:
        """Note that a process with the same store has forgotten a person."""
        if not self._closed:
            self._in_background(self._backend.engine.forgotten(person))

    def gone(self, other: str) -> None:
        """Note that a server has ended, and take up what it left, unless it comes back soon."""
        if self._closed:
            return
        self._forget(other)
        self._in_background(self._take_up(other, BACK_SECONDS))

    async def _take_up(self, other: str, after: float = 0.0) -> None:
        """Take up what a server left, unless it is back after so many seconds."""
        await asyncio.sleep(after)
        while other not in self._others:
            try:
                await self._resume()
                break
            except PixiError as error:  # the database may have gone along with the server
                _log.warning("what another server left cannot be taken up yet: %s", error)
            await asyncio.sleep(BACK_SECONDS)

    def _forget(self, other: str) -> None:
        """Drop all that is known of a server, and end the streams of the turns that it wrote."""
        self._others.discard(other)
        self._silent.discard(other)
        self._written_by.pop(other, None)
        for talk in list(self._followers):
            self._remove_follower(other, talk)
        for request in self._requests.values():
            request.replied(other, False)
        left = [talk for talk, writer in self._writers.items() if writer == other]
        for talk in left:
            del self._writers[talk]
            if (channel := self._channels.known(talk)) is not None and channel.feed.turn_elsewhere:
                channel.feed.lose()
        if left:
            self._send(_Follow(left))  # another may go on with them by now
        self.doubt_all()  # not all it said may have come

    def doubt_all(self) -> None:
        """Note that turns of any talk that is open here may end from now on of which nobody tells here."""
        for address, _ in self._channels.items():  # noqa: PERF102 - a list of pairs, no dict
            self._doubt(address)

    def _doubt(self, address: str) -> None:
        """Note that turns of a talk may end from now on of which nobody tells here."""
        if (channel := self._channels.known(address)) is None:
            return
        if doubt := self._doubts.get(address):
            doubt.looks = _LOOKS_IN_DOUBT  # and it is still not known what ended since it began
        else:
            self._doubts[address] = _Doubt(_LOOKS_IN_DOUBT, channel.feed.ended)

    async def find_missed(self) -> None:
        """Have those talks read anew in which turns ended that were not heard of here.

        A turn counts that ended before all others knew that the talk is followed; from then on, its events
        come. To be called each second in which all others were heard but those that stand still.

        Raises:
            StoreError: the record could not be read.
        """
        for doubt in self._doubts.values():
            doubt.looks -= 1
        due = {talk: doubt.after for talk, doubt in self._doubts.items() if doubt.looks <= 0}
        if not due:
            return
        ended = await self._backend.store.ended_after(dict(islice(due.items(), _MOST_TALKS)))
        for talk, turns in ended.items():
            now = self._doubts.get(talk)
            if now is None or now.looks > 0:
                continue  # it was closed, or is in doubt anew
            del self._doubts[talk]
            channel = self._channels.known(talk)
            if channel is not None and not set(turns) <= set(channel.feed.heard):
                channel.feed.heard.extend(reversed(turns))  # which is told once
                channel.feed.take(CHANGED)


def _belongs(form: Form, turn: int) -> bool:
    """Return True for an event of the turn that is followed (0: none is), or outside of turns."""
    if form["turn"] == 0 and turn != 0:
        return bool(form["event"] != "turn_end")
    return bool(form["turn"] == turn)
