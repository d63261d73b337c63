"""Other servers on the same store: what happens in a talk on one of them is seen, and ended, from all.

Each conversation is answered by one process at a time, the one that has its lease. But its people may be
connected to any. So a server that has a talk open tells the others that it follows the talk. From then on, a
server where something happens there passes the events on, as it has numbered them, and each follower puts
them into its own feed. Whoever begins to follow amid a turn is given the turn so far. Clients are answered
from the feed of the server that they reach, as if all happened there, by the same rules.

A place in a feed (`Feed.mark_of`) is that feed's alone. A client that comes with the place of another server
is told that the talk has changed, and reads it anew, as after a restart. An event's turn and number are the
same everywhere.

Where messages between servers are missed, or a server ends amid a turn, the followers of that turn are told
that events were dropped. What was said is in the store in any case, and the conversations that were left are
taken up by those that are there. No message is needed for a talk to be answered, once and in order.

Nor is one needed to see that. While it is not sure that all others know what is followed here, and for some
seconds after that, the record is asked which turns have ended, see `find_missed`.

A server that stands still may hear a request long after whoever made it was told that nothing came of it. So
a request says until when it holds, by the clock of the database, and a later one is refused.

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
"""How long another server may take to do what it is asked for. It begins nothing of it later."""

JOIN_SECONDS = 1.0
"""How long others may take to tell what is under way in a talk. Who takes longer is not waited for again."""

BACK_SECONDS = 2.0
"""In which a server whose connections alone were lost is there again."""

_LATE_SECONDS = 2.0  # that events may come after the store has what they tell

_LOOKS_IN_DOUBT = 4
"""After so many looks in which all others were heard, each of them knows what was followed before."""

_MOST_TALKS = 200  # that are looked for in the record at a time


class _Hello(Struct, tag="hello"):
    """A server hears the others from now on; it may have missed what they said before."""


class _Here(Struct, tag="here"):
    """So is this one; `written`: the talks in which it writes replies, by person."""

    written: dict[str, list[str]] = {}


class _Bye(Struct, tag="bye"):
    """A server has ended, and owns no talk any more."""


class _Follow(Struct, tag="follow"):
    """These talks are followed; `ask` is "" where no answer is wanted."""

    talks: list[str]
    ask: str = ""


class _Leave(Struct, tag="leave"):
    """This talk is followed no more."""

    talk: str


class _LostWords(Struct, tag="lost words"):
    """Words of this talk were forgotten, and what its turns here said until now is to be dropped."""

    talk: str


class _Fails(Struct, tag="fails"):
    """A server of models does not answer."""

    place: str


class _Events(Struct, tag="events"):
    """What happened in a talk; `so_far`: it is the turn under way from its beginning."""

    talk: str
    forms: list[Form | None]
    protocol: Protocol = "native"
    so_far: bool = False


class _Stop(Struct, tag="stop"):
    """The reply in a talk is to be stopped; `turn`: if it is this one, None: whichever it is."""

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


class _Result(Struct, tag="told"):
    """What came of a message with an `ask`."""

    ask: str
    done: bool


_Message = (
    _Hello | _Here | _Bye | _Follow | _Leave | _LostWords | _Fails | _Events | _Stop | _Answer | _Result
)

_decode = msgspec.json.Decoder(_Message).decode


class _Request:
    """A question to other servers, until one has done what was asked for, or none of them can."""

    def __init__(self, others: Collection[str]) -> None:
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.left = set(others)

    def told(self, other: str, done: bool) -> None:
        self.left.discard(other)
        if not self.done.done() and (done or not self.left):
            self.done.set_result(done)


class Peers:
    """The other servers on the same store, and what they are told. There are none until `connect`.

    Args:
        backend: answers here.
        channels: the talks that are open here.
        resume: takes up what another server left when it ended.

    Attributes:
        suspect: is told which server of models fails another server.
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
        self._write: Callable[[bytes], None] = lambda _: None
        self._now = time.time
        self._closed = False
        self._others: set[str] = set()
        self._written_by: dict[str, dict[str, list[str]]] = {}  # of others, as they told it last
        self._silent: set[str] = set()  # others that did not answer in time, and said nothing since
        self._followed_by: dict[str, set[str]] = {}  # by the address of a talk
        self._turns_of: dict[str, str] = {}  # which server takes the turn that is followed here, by address
        self._asked: dict[str, _Request] = {}
        # Talks of which turns may be missed: for how many looks yet, and the last turn that surely was not.
        self._doubted: dict[str, tuple[int, int]] = {}
        self._beside: set[asyncio.Task[None]] = set()

    @property
    def others(self) -> Collection[str]:
        """The names of the servers that are there besides this one."""
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
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    # For those who talk here.

    async def join(self, address: str) -> HttpChannel:
        """Return the channel of a talk, whose feed has what happens on other servers from now on."""
        channel = self._channels.at(address)
        if self._others and channel.joining is None:
            channel.joining = self._do_beside(self._follow(address))
        if channel.joining is not None:
            await asyncio.shield(channel.joining)
        return channel

    async def _follow(self, address: str) -> None:
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
        return await self._ask(lambda ask, until: _Stop(address, turn, ask, until))

    async def answer(self, address: str, question: str, person: str, verdict: Verdict) -> bool:
        """Answer a question that was asked on another server; False where none waits for this person."""
        if not await self._is_elsewhere(address):
            return False
        return await self._ask(lambda ask, until: _Answer(address, question, person, verdict, ask, until))

    async def answered(self, address: str, message_id: str) -> None:
        """Return when the feed has the turn that answers a message, where another server takes it.

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
            await self._come(feed, found.turn.id)
            is_over = found.turn.finish is not None or not await self._is_elsewhere(address)

    @staticmethod
    async def _come(feed: Feed, turn: int) -> None:
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
        return address in self._followed_by

    async def _is_elsewhere(self, address: str) -> bool:
        with suppress(StoreError):
            return bool(self._others) and await self._backend.store.owned_elsewhere(address)
        return False

    async def _ask(
        self,
        message: Callable[[str, float], _Message],
        others: Collection[str] = (),
        seconds: float | None = None,
    ) -> bool:
        """Ask others, by default all of them, and wait for `ASK_SECONDS` at most.

        Returns True as soon as one has done it, False if none can or answers in time. `message` is given the
        name of the request, and until when it holds.
        """
        ask, seconds = secrets.token_hex(8), ASK_SECONDS if seconds is None else seconds
        asked = self._asked[ask] = _Request(others or self._others)
        self._send(message(ask, self._now() + seconds))
        try:
            async with asyncio.timeout(seconds):
                return await asked.done
        except TimeoutError:
            self._silent |= asked.left & self._others
            return False
        finally:
            del self._asked[ask]

    # What others are told.

    def _send(self, message: _Message) -> None:
        try:
            data = msgspec.json.encode(message)
        except UnicodeEncodeError:  # half of a pair of surrogates, which has no UTF-8
            data = without_halves(json.dumps(msgspec.to_builtins(message), ensure_ascii=False)).encode()
        self._write(data)

    def _pass_on(self, address: str, form: Form) -> None:
        if address in self._followed_by:
            channel = self._channels.known(address)
            self._send(_Events(address, [form], "native" if channel is None else channel.protocol))

    def tell_failing(self, place: str) -> None:
        """Tell the others that a server of models does not answer."""
        if self._others:
            self._send(_Fails(place))

    def lost_words(self, address: str) -> None:
        """Tell the followers of a talk that words of it were forgotten, once no turn here says them any more.

        They may have heard of it before, while their feeds still had the turn under way.
        """
        if address in self._followed_by:
            self._send(_LostWords(address))

    def _dropped(self, address: str) -> None:
        self._turns_of.pop(address, None)
        self._doubted.pop(address, None)
        if self._others:
            self._send(_Leave(address))

    def _follow_all(self) -> None:
        """Follow all talks that are open here."""
        talks = self._channels.items()
        for _, channel in talks:
            if channel.joining is None:
                channel.joining = asyncio.get_running_loop().create_future()
                channel.joining.set_result(None)
        if talks:
            self._doubt(*(address for address, _ in talks))
            self._send(_Follow([address for address, _ in talks]))

    # What others tell.

    def beat(self) -> None:
        """Tell the others that this server lives, and what it writes."""
        self._send(_Here(self.written()))

    def hello(self) -> None:
        """Tell the others that this server hears them from now on."""
        self._send(_Hello())

    def heard(self, other: str, data: bytes) -> None:
        """Follow a message of another server."""
        if self._closed:
            return
        self._silent.discard(other)
        try:
            self._heed(other, _decode(data))
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
            _log.warning("a message of another server is not understood; is it of another version? %s", error)

    def _heed(self, other: str, message: _Message) -> None:
        match message:
            case _Hello():  # from one that is known, too: its connection was lost, and is made again
                self._others.add(other)
                self.beat()
                self._follow_all()
            case _Bye():
                self._forget(other)
                self._do_beside(self._take_up(other))
            case _Here(written):
                self._written_by[other] = written
                if other not in self._others:
                    self._others.add(other)
                    self._follow_all()
            case _Follow():
                self._followed(other, message)
            case _Leave(talk):
                self._left(other, talk)
            case _LostWords(talk):
                self._channels.forget(talk)
            case _Fails(place):
                self.suspect(place)
            case _Events():
                self._take(other, message)
            case _Result(ask, done):
                if ask in self._asked:
                    self._asked[ask].told(other, done)
            case _Stop() | _Answer():
                self._do_beside(self._asked_for(message))

    def _followed(self, other: str, message: _Follow) -> None:
        under_way = False
        for talk in message.talks:
            self._followed_by.setdefault(talk, set()).add(other)
            channel = self._channels.known(talk)
            if channel is not None and (forms := channel.feed.turn_so_far()):
                under_way = True
                self._send(_Events(talk, forms, channel.protocol, so_far=True))
        if message.ask:
            self._send(_Result(message.ask, under_way))

    def _left(self, other: str, talk: str) -> None:
        others = self._followed_by.get(talk, set())
        others.discard(other)
        if not others:
            self._followed_by.pop(talk, None)

    def _take(self, other: str, message: _Events) -> None:
        channel = self._channels.known(message.talk)
        if channel is None or channel.joining is None:
            return
        feed, turn = channel.feed, channel.feed.turn_elsewhere
        turns = {form["turn"] for form in message.forms if form is not None}
        if message.so_far and (feed.turn or not turns):
            return  # it is known
        if message.so_far:
            turn = feed.turn_elsewhere = max(turns)
            self._turns_of[message.talk] = other
            channel.protocol = message.protocol
        for form in message.forms:
            if form is not None and form["event"] == "turn_start":
                if turn and self._turns_of.get(message.talk) != other:
                    feed.lose()  # of the turn before, nobody knows the end
                turn = form["turn"]
                self._turns_of[message.talk] = other
                channel.protocol = message.protocol
            elif form is not None and form["turn"] != turn and (form["turn"] or form["event"] == "turn_end"):
                continue  # a turn is followed from its beginning, or not at all
            feed.take(form)
        if not feed.turn_elsewhere:
            self._turns_of.pop(message.talk, None)

    async def _asked_for(self, message: _Stop | _Answer) -> None:
        channel = self._channels.known(message.talk)
        done = False
        if message.until < self._now():
            _log.warning("a request of another server came too late, and nothing of it was done")
            return
        match message:
            case _Stop(talk, turn):
                if turn is None or (channel is not None and channel.feed.turn == turn):
                    done = await self._backend.engine.stop(talk)
            case _Answer(_, question, person, verdict):
                done = channel is not None and channel.answer(question, person, verdict)
        self._send(_Result(message.ask, done))

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def done() -> None:
            try:
                await work
            except PixiError as error:
                _log.warning("something between servers could not be done: %s", error)

        task = asyncio.get_running_loop().create_task(done())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        task.add_done_callback(lambda _: work.close())  # the task may be cancelled before it begins
        return task

    # What is missed, and who is gone.

    def missed(self) -> None:
        """Note that messages of others were missed: nothing that is followed here is known to be whole."""
        self._turns_of.clear()
        for channel in self._channels:
            if channel.joining is None:
                continue
            if channel.feed.turn_elsewhere:
                channel.feed.lose()
            else:
                channel.feed.take(CHANGED)
        self._follow_all()  # and so have what is missing of turns under way

    def unheard(self) -> None:
        """Note that what was said here did not reach the others: tell anew what they need to know."""
        self.hello()
        self._follow_all()

    def bye(self) -> None:
        """Tell the others that this server has ended. To be called once its store is closed."""
        self._send(_Bye())

    def forgot(self, person: str) -> None:
        """Note that a process with the same store has forgotten a person."""
        if not self._closed:
            self._do_beside(self._backend.engine.forgotten(person))

    def gone(self, other: str) -> None:
        """Note that a server has ended, and take up what it left, unless it comes back soon."""
        if self._closed:
            return
        self._forget(other)
        self._do_beside(self._take_up(other, BACK_SECONDS))

    async def _take_up(self, other: str, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        while other not in self._others:
            try:
                await self._resume()
                break
            except PixiError as error:  # the database may have gone along with the server
                _log.warning("what another server left cannot be taken up yet: %s", error)
            await asyncio.sleep(BACK_SECONDS)

    def _forget(self, other: str) -> None:
        self._others.discard(other)
        self._silent.discard(other)
        self._written_by.pop(other, None)
        for talk in list(self._followed_by):
            self._left(other, talk)
        for asked in self._asked.values():
            asked.told(other, False)
        lost = [talk for talk, taker in self._turns_of.items() if taker == other]
        for talk in lost:
            del self._turns_of[talk]
            if (channel := self._channels.known(talk)) is not None and channel.feed.turn_elsewhere:
                channel.feed.lose()
        if lost:
            self._send(_Follow(lost))  # another may go on with them by now
        self.doubt_all()  # not all it said may have come

    def doubt_all(self) -> None:
        """Note that turns of any talk that is open here may end from now on of which nobody tells here."""
        self._doubt(*(address for address, _ in self._channels.items()))

    def _doubt(self, *addresses: str) -> None:
        """Note that turns of talks may end from now on of which nobody tells here."""
        for address in addresses:
            if (channel := self._channels.known(address)) is not None:
                _, known = self._doubted.get(address, (0, channel.feed.ended))
                self._doubted[address] = (_LOOKS_IN_DOUBT, known)

    async def find_missed(self) -> None:
        """Have those talks read anew in which turns ended that may have been missed here.

        A turn counts that ended before all others knew that the talk is followed; from then on, its events
        come. To be called each second in which all others were heard but those that stand still.

        Raises:
            StoreError: the record could not be read.
        """
        self._doubted = {talk: (looks - 1, known) for talk, (looks, known) in self._doubted.items()}
        over = {talk: known for talk, (looks, known) in self._doubted.items() if looks <= 0}
        if not over:
            return
        ended = await self._backend.store.ended_after(dict(islice(over.items(), _MOST_TALKS)))
        for talk, turns in ended.items():
            if self._doubted.get(talk, (1, 0))[0] > 0:
                continue  # it was dropped, or is doubted anew
            del self._doubted[talk]
            channel = self._channels.known(talk)
            if channel is not None and not set(turns) <= set(channel.feed.heard):
                channel.feed.heard.extend(reversed(turns))  # which is told once
                channel.feed.take(CHANGED)
