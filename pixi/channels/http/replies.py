"""The reply to a message: the events of its turn as they come, or as the record tells them afterwards.

The record tells the same that a client saw while the turn went on, but for the pieces of its messages, its
notes, its tools, and commands that show nothing in the chat.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from pixi.channels.http.access import Problem
from pixi.channels.http.faces.messages import BROKEN
from pixi.channels.http.feed import FollowedTooSlowly, Form, HttpChannel
from pixi.core import language
from pixi.core.events import (
    Failed,
    Numbering,
    Pictured,
    Reacted,
    Sent,
    Shown,
    Sourced,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from pixi.core.llm import AssistantLine, Cited, sources_in
from pixi.core.message import card_from_record, picture_from_record
from pixi.core.reading import commands_in
from pixi.store.kept import Effect, TurnRecord, id_of_act
from pixi.store.store import Store

_SEEN = frozenset({"text", "send", "card", "picture", "react", "error"})
"""Events of an answer that people see."""

_BEFORE = frozenset({"turn_start", "reading", "started", "note"})
"""Events behind which a turn may begin anew, in the same answer to the client."""


@dataclass(eq=False)
class TalkReply:
    """The answer to one message, as it comes.

    Args:
        channel: of the talk.
        message_id: of the message.
        recorded: reads the events from the record; None: the turn has not ended.
        known: the message had come before, by the same request.
        over: its turn has ended, and the events come from the record.
        turn: that answers it; 0: none has begun.

    Attributes:
        place: the count from which on the events are followed.
    """

    channel: HttpChannel
    message_id: str
    recorded: Callable[[], Awaitable[Sequence[Form] | None]]
    known: bool = False
    over: bool = False
    turn: int = 0

    def __post_init__(self) -> None:
        self.place = self.channel.feed.begin_of_turn() if self.known else self.channel.feed.count
        self._settled = False
        self._seen = False  # something of the answer
        self._begun = False  # something of the turn was passed on behind which it cannot begin anew

    async def events(
        self, *, pauses: bool = False, resumes: bool = False
    ) -> AsyncGenerator[Sequence[Form], None]:
        """Yield the events of the turn that answers the message, up to its end.

        A message that was withdrawn is not answered: then no events come. If another server has answered, and
        its events were missed, they come from the record.

        Args:
            pauses: end at a question that waits for its answer, too.
            resumes: the client knows of a missing end, and follows anew.

        Raises:
            Problem: 503, the server stops before the end of the turn, which the next server finishes; or
                another server has left it unfinished, or begins it anew after something was passed on.
            StoreError: the record could not be read.
            FollowedTooSlowly: events of the turn were dropped.
        """
        if self.over:
            yield await self.recorded() or ()
            return
        async with aclosing(self._followed()) as events:
            async for forms in events:
                shown: list[Form] = []
                for form in forms:
                    if form["event"] == "turn_start" and self.message_id in form["answers"]:
                        self.turn = form["turn"]
                    if form["turn"] not in (self.turn, 0):
                        continue  # of a turn that answers another message
                    if await self._is_put_off(form):
                        if self._begun and not resumes:
                            raise not_now(self.turn)
                        self.turn = 0
                        continue
                    self._note(form)
                    shown.append(form)
                    if self.channel.ends(form, pauses=pauses):
                        yield shown
                        return
                if shown:
                    yield shown
        closed = self.channel.feed.closed
        if self.turn and not closed:
            return  # it was put back, or taken over: what was shown stands
        recorded = None if closed else await self.recorded()
        if recorded is not None:
            yield recorded
        elif not resumes:
            raise not_now(self.turn)

    def _note(self, form: Form) -> None:
        """Note whether an event that is passed on is seen, and whether the turn can still begin anew."""
        if form.get("name") == language.NOTE:
            return
        if form["event"] in _SEEN:
            self._seen = True
        if form["turn"] > 0 and form["event"] not in _BEFORE:
            self._begun = True

    async def _is_put_off(self, form: Form) -> bool:
        """Return True for the end of a turn of which nothing was seen, where the message is still to be
        answered: the server stops, or another one has taken the talk."""
        is_empty = form["event"] == "turn_end" and form["finish"] == "cancelled" and not self._seen
        return is_empty and await self.recorded() is None

    async def _followed(self) -> AsyncGenerator[Sequence[Form], None]:
        """Yield the events of the talk. Those of other servers are not missed before the turn began."""
        feed, place = self.channel.feed, self.place
        while True:
            losses = feed.losses
            try:
                async with aclosing(feed.follow_on(place, self._is_settled)) as events:
                    async for numbered in events:
                        yield [form for _, form in numbered]
                return
            except FollowedTooSlowly:
                if self.turn or feed.losses == losses:
                    raise
                place = feed.first

    def _is_settled(self) -> bool:
        """Return True if nothing more comes; of a message that came before, once nothing is under way."""
        return self._settled or (self.known and self.channel.feed.idle)

    def settle(self) -> None:
        """End the events with the last that is there: nothing is left to be answered."""
        self._settled = True
        self.channel.feed.wake()


def not_now(turn: int = 0) -> Problem:
    """Return what tells a client that its message is not answered yet."""
    return Problem(
        503,
        "Not now",
        "The server stops, or another one has. What was said is on record: send the same again "
        "later, with the same key or id; or read the messages of the conversation.",
        headers={"Retry-After": "5"},
        turn=turn,
    )


def shown_of(record: TurnRecord) -> list[Effect]:
    """Return the acts of a turn that stand in the chat, in their order."""
    return [effect for effect in record.effects if effect.outcome == "done"]


async def recorded_events(store: Store, record: TurnRecord, message_id: str) -> list[Form]:
    """Return the events of a turn as the record tells them, numbered anew."""
    events: list[TurnEvent] = [
        TurnStarted(record.id, record.conversation, record.persona, (message_id,)),
        *acts_of(record, message_id, await messages_reacted_to(store, record)),
    ]
    if sources := sources_of(record):
        events.append(Sourced(sources))
    if record.finish == "error":
        events.append(Failed(BROKEN))  # what exactly went wrong is not on record
    events.append(TurnEnded(record.finish or "cancelled", record.steps, record.usage))
    numbering = Numbering()
    return [numbering.form(event) for event in events]


def sources_of(record: TurnRecord) -> tuple[Cited, ...]:
    """Return the pages that a reply rests on, as its notes tell."""
    notes = [
        command.argument
        for line in record.lines
        if isinstance(line, AssistantLine)
        for command in commands_in(line.text, {language.NOTE: ()})
        if command.name == language.NOTE
    ]
    return tuple(sources_in(notes))


async def messages_reacted_to(store: Store, record: TurnRecord) -> dict[int, str]:
    """Return the ids of the earlier messages that a turn's reactions name, by number; "" of one forgotten."""
    numbers = {
        effect.target for effect in shown_of(record) if effect.kind == language.REACT and effect.target
    }
    found: dict[int, str] = {}
    for number in sorted(numbers):
        found[number] = await store.message_id(record.conversation, number) or ""
    return found


def acts_of(record: TurnRecord, message_id: str, earlier: Mapping[int, str]) -> list[TurnEvent]:
    """Return the acts of a turn in the chat, as events with the ids that they had.

    Args:
        record: of the turn.
        message_id: of the message that it answers, the last of several.
        earlier: ids of the messages that its reactions name, by number.
    """
    events: list[TurnEvent] = []
    for effect in shown_of(record):
        act = id_of_act(effect, record.effects)
        match effect.kind:
            case language.SEND:
                events.append(Sent(effect.payload, act))
            case language.REACT:
                on = earlier.get(effect.target, "") if effect.target else message_id
                events.append(Reacted(effect.payload, act, on))
            case "card":
                events.append(Shown(card_from_record(effect.payload), act))
            case "picture":
                picture, _ = picture_from_record(effect.payload)
                events.append(Pictured(picture, act))
    return events
