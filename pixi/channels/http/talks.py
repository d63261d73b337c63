"""Talks over HTTP: messages are handed over, and the turns that answer them are followed.

The same request again finds its turn, under way or on record, also after a restart; it is never answered
twice. A request is the same by its `Idempotency-Key`, or else by the id of its message.

Of a turn that is over, the events come from the record, see `replies`.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.engine import HttpBackend
from pixi.channels.http.access import Principal, Problem, address_of
from pixi.channels.http.attachments import Attachments
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.feed import Channels, Form, HttpChannel
from pixi.channels.http.peers import Peers
from pixi.channels.http.replies import TalkReply, not_now, recorded_events
from pixi.channels.http.visitors import HttpLimits
from pixi.core.channel import Channel
from pixi.core.errors import ChannelElsewhere, StoreError
from pixi.core.events import PersonSaid, TalkChanged, Verdict
from pixi.core.message import Attached, Author, Message, Quoted, carried_by, words_of
from pixi.settings.rules import HttpRules
from pixi.store.kept import AnsweredMessage, KeyedRequest, Talk, TurnRecord

_PREFIX = "http:"  # of the addresses of all talks

KEPT_TURNS = 200
"""Turns of a talk that the history of a program is compared with."""


class TalkAddress(Struct, frozen=True):
    """A talk: whose, with whom, and under which name."""

    person: Principal
    persona: str
    name: str

    @property
    def address(self) -> str:
        """Return the address of the conversation."""
        return address_of(self.person.id, self.persona, self.name)


class Instead(Struct, frozen=True):
    """The turns and the messages whose place a new message takes.

    Attributes:
        turn: the first of the turns that are set aside; None: none is, the message was not answered yet.
        branch: the address of what is put back before, as a person went back to it; "": nothing.
        before, after: messages that it answered, which are said again round the new one.
        message: the one whose place is taken. Its files go with the new one, and its words where the new one
            has none.
    """

    turn: int | None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    message: Message | None = None
    branch: str = ""


class Talks:
    """All talks over HTTP.

    Args:
        backend: takes the messages, and answers.
        rules: of the operator.
        limits: counts what visitors say.
        attachments: reads files that go with messages; closed with the talks.

    Attributes:
        channels: of the talks that are open here.
        peers: the other servers.
    """

    def __init__(
        self, backend: HttpBackend, rules: HttpRules, limits: HttpLimits, attachments: Attachments
    ) -> None:
        self.channels = Channels()
        self._backend = backend
        self._turns_per_person = rules.turns_per_person
        self._limits = limits
        self._attachments = attachments
        # The channels where replies are waited for, by person and address.
        self._talking: dict[str, dict[str, HttpChannel]] = {}
        self._watching: set[asyncio.Task[None]] = set()  # one for each reply that is waited for
        self.peers = Peers(backend, self.channels, self.resume)
        self.peers.written = lambda: {person: self._written_to(person) for person in self._talking}
        backend.engine.on_forget.append(self.forget)

    async def begin(
        self,
        place: TalkAddress,
        text: str,
        message_id: str,
        quoted: Sequence[Quoted] = (),
        attachments: Sequence[Attachment] = (),
        *,
        is_new: bool = False,
        answers: bool = True,
        replaces: Callable[[], Awaitable[Instead | None]] | None = None,
        keyed: KeyedRequest | None = None,
        instructions: str = "",
    ) -> TalkReply:
        """Say something; returns once it is on record.

        In one talk one message is taken at a time, so that the same request again finds the first one's. A
        request that is refused changes nothing.

        Args:
            place: the talk.
            text: of the message.
            message_id: of the message. What came under it is not said again.
            quoted: lines that stand before it.
            attachments: files that go with it.
            is_new: the id was made just now, so that nothing can have come under it.
            answers: see `HttpChannel`.
            replaces: finds the messages whose place this one takes; None: there are none.
            keyed: the request, where it has a key of its own.
            instructions: see `Message`.

        Raises:
            Problem: 422, the request of this key was another, or the message of this id had another text;
                404, 413, 422, a file cannot be taken; 409, the message came long ago and was never answered;
                429, too many replies are waited for, or a visitor said too much.
            StoreError: the message could not be recorded.
        """
        address, person, store = place.address, place.person, self._backend.store
        channel = await self.peers.join(address)
        async with channel.saying:
            if keyed is not None and (known := await self._known(keyed)) is not None:
                return await self._said_before(place, known)
            instead = None if replaces is None else await replaces()
            if instead is None and not is_new and (answered := await store.answer_to(address, message_id)):
                if keyed is None or answered.text is not None:
                    _check_text(answered, text)
                    return await self._again(address, address, message_id)
                # It was forgotten, and its key with it: this request is another one.
                message_id = id_with_run(_client_id(message_id), uuid.uuid4().hex)
            await self._check_turns(address, channel, person)
            now = time.time()
            with ExitStack() as waiting:
                self._talking.setdefault(person.id, {})[address] = channel
                channel.feed.waiting += 1
                waiting.callback(self._done, address, channel, person.id)
                await self._limits.message(person)
                channel.answers = answers
                text, carried = await self._carried(place, text, attachments, instead)
                talk = Talk(address, person.id, place.persona, place.name, now, now)
                if keyed is not None:
                    # Before anything is set aside: another server may have taken the key meanwhile.
                    claimed = await self._claimed(talk, replace(keyed, message=message_id))
                    if claimed.address:
                        waiting.close()
                        return await self._said_before(place, claimed)
                    message_id, now = claimed.message, claimed.sent_at
                reply = TalkReply(channel, message_id, partial(self._recorded, address, message_id))
                if instead is not None:
                    await self._set_aside(address, channel, instead, reply)
                told = "\n".join(part for part in (text, carried.text) if part)
                who = Author(person.id, person.name)
                message = Message(message_id, address, who, told, now, images=carried.images)
                message = replace(message, quoted=tuple(quoted), instructions=instructions)
                after = () if instead is None else instead.after
                await self._record((message, *after), channel, talk if keyed is None else None)
                waiting.pop_all()
        watching = asyncio.create_task(self._watch(address, channel, person.id, reply))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return reply

    async def _carried(
        self, place: TalkAddress, text: str, attachments: Sequence[Attachment], instead: Instead | None
    ) -> tuple[str, Attached]:
        """Return the words and the files of a message: its own, else those of the message that it replaces.

        Raises:
            Problem: 404, 413, 422, a file cannot be taken.
        """
        if attachments:
            sees = self._backend.sees(place.address)
            return text, await self._attachments.read(attachments, place.person.id, sees=sees)
        if instead is not None and instead.message is not None:
            return text or words_of(instead.message.text), _carried_by(instead.message)
        return text, Attached()

    async def _record(self, messages: Sequence[Message], channel: HttpChannel, talk: Talk | None) -> None:
        """Put messages on record, the first of them together with the talk; None: that is kept already."""
        kept = None if talk is None else self._backend.store.keep_talk(talk)
        try:
            for each in messages:
                await self._receive(each, channel)
        finally:
            if kept is not None:
                await kept

    async def _known(self, keyed: KeyedRequest) -> KeyedRequest | None:
        """Return the request as it is on record; None: what it says is not.

        Raises:
            Problem: 422, the request of this key was another.
        """
        known = await self._backend.store.request(keyed.key)
        if known is not None and known.digest != keyed.digest:
            raise _used_before()
        if known is None or not known.address:
            return None
        return known

    async def _claimed(self, talk: Talk, keyed: KeyedRequest) -> KeyedRequest:
        """Put a request on record, and return the one of its key that is there.

        Raises:
            Problem: 422, the request of this key was another.
        """
        there = await self._backend.store.keep_talk(talk, keyed)
        if there is None or there.digest != keyed.digest:
            raise _used_before()
        return there

    async def _said_before(self, place: TalkAddress, known: KeyedRequest) -> TalkReply:
        """Return the reply to a request that is on record, maybe in another talk: a program names none, and
        two servers began one each.
        """
        address = replace(place, name=known.name).address
        await self.peers.join(address)
        return await self._again(address, known.address, known.message)

    def _written_to(self, person: str) -> list[str]:
        """Return the talks in which replies to a person are written here; none that waits for a verdict."""
        talks = self._talking.get(person, {})
        return [address for address, channel in talks.items() if not channel.is_asking]

    async def _check_turns(self, address: str, channel: HttpChannel, person: Principal) -> None:
        """Check that one more reply may be waited for, here and on other servers.

        Raises:
            Problem: 429, too many are.
            StoreError: it could not be found out.
        """
        store, there = self._backend.store, self.peers.written_to(person.id)
        if there and len({*there, *self._written_to(person.id)}) >= self._turns_per_person:
            # They told it up to a second ago, and some may have ended since.
            there = {each for each in there if each in await store.unanswered(each, 0.0)}
        written = {*there, *self._written_to(person.id)}
        # A talk has one turn at a time, whatever is said amid it.
        if not (channel.feed.waiting or address in written) and len(written) >= self._turns_per_person:
            raise Problem(
                429,
                "Too many replies",
                f"{self._turns_per_person} replies to you are being written. Wait for one, or stop it.",
                headers={"Retry-After": "2"},
            )

    async def branch_point(self, address: str, message_id: str, seen: Collection[str]) -> int | None:
        """Return the first turn that a client does not know, or wants to have anew; None: it knows all.

        Turns before the first that it knows do not count: it may have dropped what is old.

        Args:
            address: of the talk.
            message_id: of the message that is to be answered now, as the client has it.
            seen: ids of the messages of people that the client has before it.
        """
        records = await self._backend.store.turns(address, KEPT_TURNS)
        return await self._first_other([record.id for record in records], message_id, seen)

    async def _first_other(
        self, turns: Sequence[int], message_id: str, seen: Collection[str], *, known: bool = False
    ) -> int | None:
        """Return the first of these turns that a client has otherwise, once it `known` one before."""
        answered = await self._backend.store.messages_of(turns)
        for turn in turns:
            ids = {each for message in answered.get(turn, ()) for each in _client_ids(message.id)}
            if message_id in ids or (known and ids and ids.isdisjoint(seen)):
                return turn
            known = known or not ids.isdisjoint(seen)
        return None

    async def restored_at(
        self, address: str, turn: int, message_id: str, seen: Collection[str]
    ) -> Instead | None:
        """Return what restores a turn that was set aside; None: it was not.

        What came after it, and the client has otherwise, stays set aside.

        Args:
            address: of the talk.
            turn: the last one that the client has.
            message_id, seen: see `branch_point`.
        """
        if not turn or await self._stands(address, turn):
            return None
        store = self._backend.store
        for each in await store.alternatives(address):
            if await self._stands(each.branch, turn):
                records = await store.turns(each.branch, KEPT_TURNS)
                later = [record.id for record in records if record.id > turn]
                cut = await self._first_other(later, message_id, seen, known=True)
                return replace(await self.cut_at(cut, seen) or Instead(None), branch=each.branch)
        return None

    async def cut_at(self, turn: int | None, seen: Collection[str]) -> Instead | None:
        """Return what a message takes the place of, where a client's talk is another from a turn on.

        Messages that the turn answered and the client has are said again, before the new one.

        Args:
            turn: see `branch_point`.
            seen: see `branch_point`.
        """
        if turn is None:
            return None
        messages = (await self._backend.store.messages_of([turn], pictures=True)).get(turn, ())
        return Instead(turn, tuple(each for each in messages if not _client_ids(each.id).isdisjoint(seen)))

    async def in_place_of(self, address: str, message_id: str, replaced: str) -> Instead | None:
        """Return what a message takes the place of that is to replace another; None: it came before.

        Raises:
            Problem: 404, there is no message of that id.
        """
        store = self._backend.store
        if await store.answer_to(address, message_id) is not None:
            return None
        answered = await store.answer_to(address, replaced)
        if answered is None or answered.text is None:
            raise Problem(404, "No such message", "You have said nothing of that id in this conversation.")
        place = None
        if answered.turn is not None:
            place = await self._place_of(replaced, [answered.turn.id])
        if place is None:
            # It stands in the turn that heard it first, also where a later one answered it again.
            place = await self._place_of(
                replaced, [each.id for each in await store.turns(address, KEPT_TURNS)]
            )
        if place is not None:
            turn, at = place
            whole = (await store.messages_of([turn], pictures=True))[turn]
            return Instead(turn, whole[:at], whole[at + 1 :], whole[at])
        _, waiting = await store.last_asked(address)
        same = [each for each in waiting if each.id == replaced]
        return Instead(None, message=same[0] if same else None)

    async def _place_of(self, message_id: str, turns: Sequence[int]) -> tuple[int, int] | None:
        """Return the turn in which a message stands, and its index there; None: it is in none of these."""
        for turn, messages in (await self._backend.store.messages_of(turns)).items():
            for index, message in enumerate(messages):
                if message.id == message_id:
                    return turn, index
        return None

    async def _set_aside(
        self, address: str, channel: HttpChannel, instead: Instead, reply: TalkReply
    ) -> None:
        """Take out the turns whose place a message takes; a reply that is being written is stopped."""
        if instead.branch:
            await self.peers.stop(address)
            await self._backend.engine.restore(address, instead.branch)
        if instead.turn is not None:
            await self.peers.stop(address)
            await self._backend.engine.rewind(address, instead.turn)
        elif instead.message is not None:
            await self._backend.engine.withdraw(address, instead.message.id)
        reply.place = channel.feed.count  # the end of what was stopped is not the end of this reply
        channel.show(TalkChanged())
        for message in instead.before:
            await self._receive(message, channel)

    async def _receive(self, message: Message, channel: HttpChannel) -> None:
        """Hand a message over, and tell the followers of the talk."""
        await self._backend.receive(message, channel)
        names = tuple(name for name, _ in carried_by(message.text))
        channel.show(PersonSaid(message.id, words_of(message.text), message.sent_at, names))

    def forget(self, person: str, conversations: Sequence[str]) -> None:
        """Drop what is held of talks that lost words."""
        for address in conversations:
            self.channels.forget(address)
            self.peers.lost_words(address)

    def changed(self, address: str) -> None:
        """Tell the followers of a talk that its history has changed."""
        channel = self.channels.known(address)
        if channel is None and self.peers.is_followed(address):
            channel = self.channels.at(address)
        if channel is not None:
            channel.show(TalkChanged())

    async def stop(self, address: str, turn: int | None = None) -> bool:
        """Stop the reply that is being written, here or on another server; returns when its turn has ended.

        Args:
            address: of the talk.
            turn: the one that is meant; None: whichever is under way.

        Returns:
            Whether there was one.
        """
        channel = self.channels.known(address)
        is_meant = turn is None or (channel is not None and channel.feed.turn == turn)
        return (is_meant and await self._backend.engine.stop(address)) or await self.peers.stop(address, turn)

    async def answer(self, place: TalkAddress, verdicts: Mapping[str, bool]) -> HttpChannel:
        """Answer those of these questions that wait for the person. Return the channel where they were asked.

        Args:
            place: the talk.
            verdicts: True for yes, by the id of the question.

        Raises:
            Problem: 403, the person may not; 404, none of the questions waits.
        """
        place.person.require("approve")
        address, person = place.address, place.person.id
        channel = await self.peers.join(address)
        is_given = False
        for question, yes in verdicts.items():
            verdict: Verdict = "yes" if yes else "no"
            is_given |= channel.answer(question, person, verdict) or await self.peers.answer(
                address, question, person, verdict
            )
        if not is_given:
            raise Problem(
                404, "No such question", "Nothing waits for this answer: it came too late, or was given."
            )
        return channel

    async def has_turn(self, address: str, turn: int) -> bool:
        """Return True if a turn that has ended is in the talk still, and was not forgotten."""
        return await self._stands(address, turn) and turn in await self._backend.store.messages_of([turn])

    async def _stands(self, address: str, turn: int) -> bool:
        """Return True if a turn that has ended is in a talk, or in a branch."""
        return any(record.id == turn for record in await self._backend.store.turns(address, 1, turn + 1))

    async def close(self) -> None:
        """End all streams, once their clients had all events."""
        self._backend.engine.on_forget.remove(self.forget)
        for channel in self.channels:
            channel.feed.close()
        for task in list(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self.peers.close()
        await self._attachments.close()

    async def _again(self, address: str, branch: str, message_id: str) -> TalkReply:
        """Return the reply to a message that came before.

        Args:
            address: of the talk.
            branch: where the message stands: in the talk, or in what was set aside there.
            message_id: its id.

        Raises:
            Problem: 409, it came long ago and was never answered; 503, another server is about to finish the
                reply.
        """
        channel, store = self.channels.at(address), self._backend.store
        answered = await store.answer_to(branch, message_id)
        turn = None if answered is None else answered.turn
        at_work = not channel.feed.idle if turn is None else channel.feed.turn == turn.id
        if not at_work and (turn is None or not turn.finish):
            turn = await self._taken_up(address, branch, message_id)
        recorded = partial(self._recorded, branch, message_id)
        over = turn is not None and bool(turn.finish)
        return TalkReply(channel, message_id, recorded, known=True, over=over, turn=turn.id if turn else 0)

    async def _taken_up(self, address: str, branch: str, message_id: str) -> TurnRecord:
        """Return the turn that answers a message, once what other processes left half-done is finished.

        Raises:
            Problem: 409, 503.
        """
        store = self._backend.store
        for _ in range(2):  # the process that had the talk may have put it off amid the first look
            await self._backend.resume(address, self.open_channel)
            await self._backend.engine.settled(address)
            # The owner is looked up first: what it answers before it lets go is on record then.
            owned = await store.owned_elsewhere(address)
            answered = await store.answer_to(branch, message_id)
            if answered is not None and answered.turn is not None and answered.turn.finish:
                return answered.turn
            if owned:
                raise not_now()
        raise Problem(
            409,
            "Not answered",
            "This message came before, and was not answered then. Send it anew, with another key or id.",
        )

    async def _recorded(self, address: str, message_id: str) -> Sequence[Form] | None:
        """Return the events of the turn that answers a message, from the record; None: it has not ended.

        Of a message that was withdrawn there are none.
        """
        found = await self._backend.store.answer_to(address, message_id)
        if found is None or found.turn is None or not found.turn.finish:
            return () if found is None or found.text is None else None
        return await recorded_events(self._backend.store, found.turn, message_id)

    async def resume(self) -> None:
        """Finish what processes left half-done that have ended; returns when that is done.

        Raises:
            PixiError: it could not be found out what that is.
        """
        await self._backend.resume(_PREFIX, self._open_left)

    async def _open_left(self, address: str) -> Channel:
        """Return the channel of a talk that is to be taken up, unless another server that lives has it."""
        if self.peers.others and await self._backend.store.owned_elsewhere(address):
            raise ChannelElsewhere(f"Another server has the talk {address}.")
        return self.channels.at(address)

    async def open_channel(self, address: str) -> Channel:
        """Return the channel of a talk that an earlier process left."""
        return self.channels.at(address)

    async def _watch(self, address: str, channel: HttpChannel, person: str, reply: TalkReply) -> None:
        """Wait until a message is answered, here or elsewhere, and end its reply then."""
        try:
            await self._backend.engine.settled(address)
            with suppress(StoreError):  # whoever reads the reply is told of it
                await self.peers.answered(address, reply.message_id)
        finally:
            self._done(address, channel, person)
            reply.settle()

    def _done(self, address: str, channel: HttpChannel, person: str) -> None:
        """Note that a reply is waited for no more."""
        channel.feed.waiting -= 1
        if not channel.feed.waiting:
            self._talking[person].pop(address, None)
            if not self._talking[person]:
                del self._talking[person]


def _check_text(answered: AnsweredMessage, text: str) -> None:
    """See that a message of the same id has the same words.

    Raises:
        Problem: 422, it has others.
    """
    if text and answered.text is not None and words_of(answered.text) != words_of(text):
        raise Problem(
            422,
            "Used before",
            "A message of this id came before with other words. Send an id of its own with each.",
        )


def _used_before() -> Problem:
    return Problem(
        422,
        "Used before",
        "This idempotency key came before with another request. Send a key of its own with each.",
    )


def _carried_by(message: Message) -> Attached:
    """Return the attachments of a message on record."""
    return Attached(message.text[len(words_of(message.text)) :].lstrip("\n"), message.images)


def id_with_run(client_id: str, run: str) -> str:
    """Return the id of a message of AG-UI: another run about the same message is another answer."""
    return f"{client_id}#{quote(run, safe='')}"


def _client_ids(message_id: str) -> set[str]:
    """Return the ids that the client may have given a message, see `id_with_run`."""
    return {message_id, _client_id(message_id)}


def _client_id(message_id: str) -> str:
    """Return the id of a message without the run, see `id_with_run`."""
    return message_id.rpartition("#")[0] or message_id
