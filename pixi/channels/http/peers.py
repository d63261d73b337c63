"""Other servers on the same store: what happens in a talk on one of them is seen, and ended, from all.

One server at a time answers a talk: the one that has its lease. Its readers may be connected to any. So a
server on which a talk is opened follows it: it tells the others, and they pass on each event of the talk,
numbered as there. The event is put into the feed here, and readers are answered from this feed as if all
happened here. Only a place in a feed (`Feed.mark_of`) is that feed's alone: who comes with the place of
another server is told that the talk has changed, and reads it anew.

    a reader       a server that follows        the server that answers
    opens a talk   Follow  ------------------>
                           <------------------  Events: the turn under way, from its beginning
                           <------------------  Result: with the turns that ended before
    sees events            <------------------  Events, one by one
    stops it       Stop    ------------------>  ends the turn
    sees its end           <------------------  Events
                           <------------------  Result
    is long gone   Leave   ------------------>

Each message reaches all servers, in the same order. A server is there from the first that is heard of it
until it says `Bye`, or is missed; then the others take up what it left.

**What a follower misses.** A turn may end on a server that has not heard yet who follows. So a server answers
each `Follow` with the turns that it saw end: what ended before, it tells by that, and what ends later, as it
happens. If the follower has not seen the end of one of them, its readers are told to read anew. A server that
ends cannot answer. Then the record is asked.

**What is lost.** Messages get lost with a connection. Who missed some says anew what it follows, and the
others answer as before. Of a turn no event may be missing: where one is lost, or the server ends that sent
them, the feed drops its events, and the readers of that turn are told so. So a lost message costs a reading,
and no more. What was said is in the store, and no message is needed for a talk to be answered, once and in
order.

**What comes late.** A server that stands still may hear a request long after the reader was told that nothing
came of it. So a request says until when it holds, by the clock of the database, and is refused later.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct, field

from pixi.channels.http.backend import Backend
from pixi.channels.http.feed import CHANGED, Channels, Feed, FollowedTooSlowly, Form, HttpChannel, Protocol
from pixi.core.errors import PixiError, StoreError
from pixi.core.events import Verdict
from pixi.core.untrusted import without_halves
from pixi.store.kept import MOST_ENDED

_log = logging.getLogger("pixi.http")

ASK_SECONDS = 5.0
"""How long another server may take to do what it is asked for. It begins nothing of it later."""

JOIN_SECONDS = 1.0
"""How long others may take to tell what is under way in a talk. Who takes longer is not waited for again."""

BACK_SECONDS = 2.0
"""In which a server whose connections alone were lost is there again."""

_LATE_SECONDS = 2.0  # that events may come after the store has what they tell


# The messages, in JSON. One that is not known, as it comes from another version, is passed over.


class _Hello(Struct, tag="hello"):
    """This server hears the others from now on; it may have missed what they said before."""


class _Here(Struct, tag="here"):
    """This server is there; `written`: the talks in which it writes replies, by person.

    It answers `_Hello`, and tells of a change.
    """

    written: dict[str, list[str]] = field(default_factory=dict)


class _Bye(Struct, tag="bye"):
    """This server has ended, and owns no talk any more."""


class _Follow(Struct, tag="follow"):
    """This server follows these talks from now on."""

    talks: list[str]
    ask: str = ""


class _Leave(Struct, tag="leave"):
    """This server follows a talk no more."""

    talk: str


class _Events(Struct, tag="events"):
    """Events of a talk; `turn`: they are this turn under way from its beginning, 0: they happen just now."""

    talk: str
    forms: list[Form | None]
    protocol: Protocol = "native"
    turn: int = 0


class _Stop(Struct, tag="stop"):
    """The reply in a talk is to be stopped; `turn`: if it is this one, None: whichever it is."""

    talk: str
    turn: int | None
    ask: str = ""
    until: float = 0.0


class _Answer(Struct, tag="answer"):
    """A person answers a question."""

    talk: str
    question: str
    person: str
    verdict: Verdict
    ask: str = ""
    until: float = 0.0


class _Result(Struct, tag="told"):
    """Whether a message with this `ask` was done here; `ended`: turns that this server saw end, by talk.

    `_Follow` is done where a turn is under way.
    """

    ask: str
    done: bool
    ended: dict[str, list[int]] = field(default_factory=dict)


class _LostWords(Struct, tag="lost words"):
    """Words of a talk were forgotten, and what its turns here said until now is to be dropped."""

    talk: str


class _Fails(Struct, tag="fails"):
    """A server of models does not answer."""

    place: str


_Message = (
    _Hello | _Here | _Bye | _Follow | _Leave | _Events | _Stop | _Answer | _Result | _LostWords | _Fails
)

_decode = msgspec.json.Decoder(_Message).decode


class _Request:
    """A request to other servers, until one has done it, or none of them can."""

    def __init__(self, others: Collection[str]) -> None:
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.left = set(others)

    def told(self, other: str, done: bool) -> None:
        self.left.discard(other)
        if not self.done.done() and (done or not self.left):
            self.done.set_result(done)


@dataclass
class _Followed:
    """A talk that is followed here.

    Attributes:
        channel: its feed has the events of other servers, too.
        known: the last turn that had ended when following began: whoever reads the talk sees it there.
        sender: the server that sends the turn under way, while `Feed.turn_elsewhere` is one.
        joining: done when others have told what is under way; None: they were not asked for that.
    """

    channel: HttpChannel
    known: int
    sender: str = ""
    joining: asyncio.Task[None] | None = None

    def note_ended(self, turns: Iterable[int]) -> None:
        """Have the talk read anew if turns have ended of which the end did not come here."""
        feed = self.channel.feed
        if missed := {turn for turn in turns if turn > self.known}.difference(feed.heard):
            feed.heard.extend(missed)  # that is told once
            feed.take(CHANGED)


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

    def __init__(self, backend: Backend, channels: Channels, resume: Callable[[], Awaitable[None]]) -> None:
        self._backend = backend
        self._channels = channels
        self._resume = resume
        self.suspect: Callable[[str], None] = lambda _: None
        self.written: Callable[[], dict[str, list[str]]] = dict
        self._write: Callable[[bytes], None] = lambda _: None
        self._now = time.time
        self._closed = False
        self._others: dict[str, set[str]] = {}  # the other servers, with the talks that each follows
        self._told: dict[str, list[str]] = {}  # what is written here, as the others were told last
        self._written_by: dict[str, dict[str, list[str]]] = {}  # on the others, as they told it last
        self._silent: set[str] = set()  # others that did not answer in time, and said nothing since
        self._followed: dict[str, _Followed] = {}  # the talks that are followed here
        self._requests: dict[str, _Request] = {}  # of this server, by their `ask`
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def others(self) -> Collection[str]:
        """The names of the servers that are there besides this one."""
        return self._others.keys()

    def connect(self, write: Callable[[bytes], None], now: Callable[[], float] = time.time) -> None:
        """Pass messages on from now on.

        Args:
            write: hands a message to all other servers, in order. It does not wait.
            now: gives the time by a clock that all have in common, in seconds.
        """
        self._write, self._now = write, now
        self._channels.pass_on = self._pass_on
        self._channels.dropped = self._leave

    async def close(self) -> None:
        """End what is done for other servers, and hear them no more; what happens here is still passed on."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # For readers here.

    async def join(self, address: str) -> HttpChannel:
        """Return the channel of a talk, whose feed has what happens on other servers from now on."""
        channel = self._channels.at(address)
        followed = self._followed.get(address)
        if self._others and followed is None:
            followed = self._followed[address] = _Followed(channel, channel.feed.ended)
            followed.joining = self._begin(self._join(address, followed))
        if followed is not None and followed.joining is not None:
            await asyncio.shield(followed.joining)
        return channel

    async def _join(self, address: str, followed: _Followed) -> None:
        feed = followed.channel.feed
        with suppress(StoreError):  # then the talk is read once more, later
            ended = await self._backend.store.ended_after({address: feed.ended})
            feed.ended = followed.known = max((feed.ended, *ended[address]))
        asked = self._others.keys() - self._silent
        if asked and await self._is_elsewhere(address):
            await self._ask(_Follow([address]), asked, JOIN_SECONDS)
        else:
            self._send(_Follow([address]))

    async def stop(self, address: str, turn: int | None = None) -> bool:
        """Have the reply stopped that another server writes; returns when its turn has ended.

        Args:
            address: of the talk.
            turn: the one that is meant; None: whichever is under way.
        """
        return await self._ask_owner(_Stop(address, turn))

    async def answer(self, address: str, question: str, person: str, verdict: Verdict) -> bool:
        """Answer a question that was asked on another server; False where none waits for this person."""
        return await self._ask_owner(_Answer(address, question, person, verdict))

    async def answered(self, address: str, message_id: str) -> None:
        """Return when the feed has the turn that answers a message, where another server takes it.

        To be called when nothing is left to be answered here. The feed may have missed the turn: then it
        returns a while after the turn's end is on record.

        Raises:
            StoreError: it could not be found out.
        """
        feed = self._channels.at(address).feed
        while self._others:
            found = await self._backend.store.answer_to(address, message_id)
            if found is None or found.turn is None or feed.ended >= found.turn.id:
                return
            await self._come(feed, found.turn.id)
            if found.turn.finish is not None or not await self._is_elsewhere(address):
                return

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

    async def _is_elsewhere(self, address: str) -> bool:
        with suppress(StoreError):
            return bool(self._others) and await self._backend.store.owned_elsewhere(address)
        return False

    async def _ask_owner(self, message: _Stop | _Answer) -> bool:
        if not await self._is_elsewhere(message.talk):
            return False
        message.until = self._now() + ASK_SECONDS
        return await self._ask(message, self._others, ASK_SECONDS)

    async def _ask(self, message: _Follow | _Stop | _Answer, others: Collection[str], seconds: float) -> bool:
        """Ask others; return True as soon as one has done it, False if none can or answers in time."""
        message.ask = secrets.token_hex(8)
        request = self._requests[message.ask] = _Request(others)
        self._send(message)
        try:
            async with asyncio.timeout(seconds):
                return await request.done
        except TimeoutError:
            self._silent |= request.left & self._others.keys()
            return False
        finally:
            del self._requests[message.ask]

    # What the others are told.

    def _send(self, message: _Message) -> None:
        try:
            data = msgspec.json.encode(message)
        except UnicodeEncodeError:  # half of a pair of surrogates, which has no UTF-8
            data = without_halves(json.dumps(msgspec.to_builtins(message), ensure_ascii=False)).encode()
        self._write(data)

    def is_followed(self, address: str) -> bool:
        """Return True if another server follows a talk."""
        return any(address in talks for talks in self._others.values())

    def _pass_on(self, address: str, form: Form) -> None:
        if self.is_followed(address):
            channel = self._channels.known(address)
            self._send(_Events(address, [form], "native" if channel is None else channel.protocol))

    def lost_words(self, address: str) -> None:
        """Tell the followers of a talk that words of it were forgotten, once no turn here says them any more.

        They may have heard of it before, while their feeds still had the turn under way.
        """
        if self.is_followed(address):
            self._send(_LostWords(address))

    def tell_failing(self, place: str) -> None:
        """Tell the others that a server of models does not answer."""
        if self._others:
            self._send(_Fails(place))

    def hello(self) -> None:
        """Tell the others that this server hears them from now on, and what it follows."""
        self._send(_Hello())
        self._follow_all()

    def bye(self) -> None:
        """Tell the others that this server has ended. To be called once its store is closed."""
        self._send(_Bye())

    def _follow_all(self) -> None:
        """Follow all talks that are open here."""
        for address, channel in self._channels.items():
            self._followed.setdefault(address, _Followed(channel, channel.feed.ended))
        if self._followed:
            self._send(_Follow(list(self._followed)))

    def _leave(self, address: str) -> None:
        self._followed.pop(address, None)
        if self._others:
            self._send(_Leave(address))

    def tell_written(self) -> None:
        """Tell the others in which talks replies are written here, if that has changed."""
        if self._others and (written := self.written()) != self._told:
            self._tell_here(written)

    def _tell_here(self, written: dict[str, list[str]]) -> None:
        self._told = written
        self._send(_Here(written))

    # What the others tell.

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
        is_new = other not in self._others
        self._others.setdefault(other, set())
        if isinstance(message, _Hello):
            self._tell_here(self.written())
        if is_new or isinstance(message, _Hello):
            self._follow_all()
        match message:
            case _Bye():
                self._forget(other)
                self._begin(self._take_up(other))
            case _Here(written):
                self._written_by[other] = written
            case _Follow(talks, ask):
                self._others[other].update(talks)
                self._tell_follower(talks, ask)
            case _Leave(talk):
                self._others[other].discard(talk)
            case _Events():
                self._take(other, message)
            case _Stop() | _Answer():
                self._begin(self._do(message))
            case _Result(ask, done, ended):
                for talk, turns in ended.items():
                    if talk in self._followed:
                        self._followed[talk].note_ended(turns)
                if ask in self._requests:
                    self._requests[ask].told(other, done)
            case _LostWords(talk):
                self._channels.forget(talk)
            case _Fails(place):
                self.suspect(place)

    def _tell_follower(self, talks: Iterable[str], ask: str) -> None:
        """Tell a new follower of talks what is under way in them, and what was."""
        is_under_way, ended = False, dict[str, list[int]]()
        for talk in talks:
            if (channel := self._channels.known(talk)) is None:
                continue
            if forms := channel.feed.turn_so_far():
                is_under_way = True
                self._send(_Events(talk, forms, channel.protocol, channel.feed.turn))
            if channel.feed.heard:
                ended[talk] = list(channel.feed.heard)[-MOST_ENDED:]
        if ask or ended:
            self._send(_Result(ask, is_under_way, ended))

    def _take(self, other: str, message: _Events) -> None:
        """Put events of another server into the feed here."""
        if (followed := self._followed.get(message.talk)) is None:
            return
        channel, feed = followed.channel, followed.channel.feed
        if message.turn and feed.turn:
            return  # it is known
        if message.turn:
            feed.turn_elsewhere, followed.sender, channel.protocol = message.turn, other, message.protocol
        for form in message.forms:
            event, turn = ("", 0) if form is None else (form["event"], form["turn"])
            if event == "turn_start":
                if feed.turn_elsewhere and followed.sender != other:
                    feed.lose()  # of the turn before, nobody knows the end
                followed.sender, channel.protocol = other, message.protocol
            elif turn != feed.turn_elsewhere and (turn or event == "turn_end"):
                continue  # a turn is followed from its beginning, or not at all
            feed.take(form)

    async def _do(self, message: _Stop | _Answer) -> None:
        """Do what another server asks for, if it can be done here, and tell whether it was."""
        if message.until < self._now():
            _log.warning("a request of another server came too late, and nothing of it was done")
            return
        channel, done = self._channels.known(message.talk), False
        match message:
            case _Stop(talk, turn):
                if turn is None or (channel is not None and channel.feed.turn == turn):
                    done = await self._backend.engine.stop(talk)
            case _Answer(_, question, person, verdict):
                done = channel is not None and channel.answer(question, person, verdict)
        self._send(_Result(message.ask, done))

    def forgot(self, person: str) -> None:
        """Note that a process with the same store has forgotten a person."""
        if not self._closed:
            self._begin(self._backend.engine.forgotten(person))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            trace = None if isinstance(error, PixiError) else error
            _log.warning("something between servers could not be done: %s", error, exc_info=trace)

    # What is lost, and who is gone.

    def missed(self) -> None:
        """Note that messages of others were missed: nothing that is followed here is known to be whole."""
        for followed in self._followed.values():
            feed = followed.channel.feed
            if feed.turn_elsewhere:
                feed.lose()
            else:
                feed.take(CHANGED)
        self._follow_all()  # and so have what is missing of turns under way

    def gone(self, other: str) -> None:
        """Note that a server has ended, and take up what it left, unless it comes back soon."""
        if not self._closed:
            self._forget(other)
            self._begin(self._take_up(other, BACK_SECONDS))

    def _forget(self, other: str) -> None:
        self._others.pop(other, None)
        self._written_by.pop(other, None)
        for request in self._requests.values():
            request.told(other, False)
        for followed in self._followed.values():
            if followed.sender == other and followed.channel.feed.turn_elsewhere:
                followed.channel.feed.lose()

    async def _take_up(self, other: str, after: float = 0.0) -> None:
        """Look what a server that ended did not tell, and take up what it left."""
        await asyncio.sleep(after)
        while other not in self._others:
            try:
                known = {address: followed.known for address, followed in self._followed.items()}
                for address, turns in (await self._backend.store.ended_after(known)).items():
                    if address in self._followed:
                        self._followed[address].note_ended(turns)
                await self._resume()
                return
            except PixiError as error:  # the database may have gone along with the server
                _log.warning("what another server left cannot be taken up yet: %s", error)
            await asyncio.sleep(BACK_SECONDS)
