"""The life of a turn: the states that it can be in, what can happen to it, and what then follows.

A turn is a talk with a model beside a chat that does not stand still: people write on, edit, delete and stop;
time runs out; the model or the platform fails; the program is told to end. What each of these means depends
on one question, whether anybody has seen something of the reply. Before that a turn can be begun again or
put back as if it had not been. After that it can only go on or end, since nothing can be unsaid.

So a turn is one value in one state. `NEXT` is the whole of it: for each state and event, the state that
follows. It is a table, and not code, to be drawn, walked at random by tests, and read by whoever asks "what
if". A pair that stands there with the state it has is ignored on purpose; one that does not stand there
cannot happen, and says so. The engine tells the events and does what the state asks for; it keeps no flags
besides.

A turn without a message, in which a persona begins by itself, and a branch of an earlier turn live the same
life. Where nothing waits, nothing is put back; a branch is made with no restarts and does not yield.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from msgspec.structs import replace

from pixi.core.message import Message


class LifeState(Enum):
    """State of a turn."""

    __hash__ = object.__hash__  # Enum's own is a function in Python, and is called for each piece of a reply

    WAITING = auto()
    """Waits for messages, a budget, or the right to write here. Nothing is on record, nobody is asked."""
    UNSEEN = auto()
    """The model is asked. Nobody has seen anything, and nothing was changed."""
    LOOKED_UP = auto()
    """As `UNSEEN`, but tools that only read were run: they are not run again for a newer message."""
    READY = auto()
    """The reply is written, and nobody has seen anything of it yet."""
    SEEN = auto()
    """Something stands in the chat, or was changed in the world. The model still writes."""
    ASKING = auto()
    """A person is asked whether a tool may do something. The turn's clock stands still."""
    FINISHING = auto()
    """The reply is written, and what is left of it is performed."""
    HOLDING = auto()
    """The place is away, and nobody knows what became of an act: nothing is posted after it."""
    RESTARTING = auto()
    """It is begun again at once, with a newer message or another text."""
    REQUEUEING = auto()
    """Its messages are put back, as if it had not been."""
    YIELDING = auto()
    """Somebody who is answered wrote on: the command that people see opening is finished, no other."""
    DRAINING = auto()
    """The program ends: the command that people see opening is finished, and what was closed before."""
    WITHDRAWING = auto()
    """The message that it answers was deleted: only an act that was begun is finished."""
    STOPPING = auto()
    """Somebody stopped it: only an act that was begun is finished."""
    EXCEEDING = auto()
    """A limit was reached: what was begun is finished."""
    FAILING = auto()
    """The model failed, or something broke: people are told."""
    DONE = auto()
    """It is over; `Life.reason` says how."""


class LifeEvent(Enum):
    """Event in a turn's life."""

    __hash__ = object.__hash__  # as above

    BEGUN = auto()
    """It is on record, and the model is asked."""
    NEWER = auto()
    """Somebody wrote to the persona, and there is room for them in this turn."""
    INTERRUPTED = auto()
    """Somebody who is being answered wrote on, or somebody replied to what this turn has said."""
    EDITED = auto()
    """A message that it answers was edited."""
    WITHDRAWN = auto()
    """One of several messages that it answers was deleted."""
    ANSWERED_WITHDRAWN = auto()
    """The message that it answers was deleted."""
    CANCEL = auto()
    """Somebody stops it."""
    DRAIN = auto()
    """The program is about to end."""
    LEAVE = auto()
    """The program ends now: what is left undone is left on record."""
    LOOKED_UP = auto()
    """Tools begin to run that only read."""
    ACTED = auto()
    """An act begins that people can see, or that changes something."""
    ASKED = auto()
    """A person is asked whether a tool may do something."""
    REPLIED = auto()
    """That question was answered, or nobody waits for the answer any more."""
    WRITTEN = auto()
    """The model's last stream ended; every command that closed is on record."""
    PERFORMED = auto()
    """All that was to be performed was."""
    BROKE = auto()
    """The model's stream broke off, and may be asked for once more."""
    FAILED = auto()
    """The model failed for good, or something of ours did."""
    LIMIT = auto()
    """More was asked for than one turn may do."""
    DEADLINE = auto()
    """Its time is over."""
    LOST = auto()
    """The place cannot be reached: nobody knows what became of an act."""
    TAKEN = auto()
    """Another process owns the conversation, or its words were taken out of the store."""


class Reason(Enum):
    """Reason for the end of a turn."""

    ANSWERED = auto()
    RESTARTED = auto()
    REQUEUED = auto()
    YIELDED = auto()
    DRAINED = auto()
    WITHDRAWN = auto()
    STOPPED = auto()
    LIMIT = auto()
    FAILED = auto()
    LEFT = auto()
    TAKEN = auto()


class Fate(Enum):
    """Fate of the messages of a turn that ended."""

    ANSWERED = auto()
    """They were answered, if only by silence or by a notice."""
    WAITING = auto()
    """They wait again, as if the turn had not been."""
    AGAIN = auto()
    """Those that it left unanswered come due once more."""
    OPEN = auto()
    """The turn stays open on record: whoever owns the conversation finishes it."""


class ImpossibleEvent(Exception):
    """An event was told that cannot happen in this state: a fault of the program."""


_S, _E = LifeState, LifeEvent

UNSEEN_STATES: Final = frozenset({_S.WAITING, _S.UNSEEN, _S.LOOKED_UP, _S.READY})
"""States in which nobody has seen anything: the turn can be as if it had not been."""
ENDING: Final = frozenset(
    {
        _S.RESTARTING,
        _S.REQUEUEING,
        _S.YIELDING,
        _S.DRAINING,
        _S.WITHDRAWING,
        _S.STOPPING,
        _S.EXCEEDING,
        _S.FAILING,
    }
)
"""States in which the model writes no more, and no new command is begun that nobody sees coming."""
LIVE: Final = frozenset(_S) - ENDING - {_S.DONE}

_REASONS: Final[Mapping[LifeState, Reason]] = {
    _S.READY: Reason.ANSWERED,
    _S.FINISHING: Reason.ANSWERED,
    _S.HOLDING: Reason.LEFT,
    _S.RESTARTING: Reason.RESTARTED,
    _S.REQUEUEING: Reason.REQUEUED,
    _S.YIELDING: Reason.YIELDED,
    _S.DRAINING: Reason.DRAINED,
    _S.WITHDRAWING: Reason.WITHDRAWN,
    _S.STOPPING: Reason.STOPPED,
    _S.EXCEEDING: Reason.LIMIT,
    _S.FAILING: Reason.FAILED,
}
"""Reason for the end of a turn in which all was performed, by its state."""

_LAST_EVENTS: Final[Mapping[LifeEvent, Reason]] = {_E.LEAVE: Reason.LEFT, _E.TAKEN: Reason.TAKEN}
"""Reason for the end of a turn that an event ended at once."""

_TOLD_LATE: Final = (_E.WRITTEN, _E.REPLIED, _E.BROKE, _E.FAILED, _E.LIMIT, _E.DEADLINE, _E.LOST, _E.TAKEN)
"""Events that a turn may still get after it was ended at once; `TAKEN` also where its end could not be put on
record."""

_FROM_WAITING: Final[Mapping[LifeEvent, Reason]] = {
    _E.CANCEL: Reason.STOPPED,
    _E.DRAIN: Reason.REQUEUED,
    _E.LEAVE: Reason.REQUEUED,
    _E.PERFORMED: Reason.REQUEUED,
    _E.FAILED: Reason.FAILED,
}
"""Reason for the end of a turn that was never begun: `PERFORMED`, where nothing was left to be answered."""

FATES: Final[Mapping[Reason, Fate]] = {
    Reason.ANSWERED: Fate.ANSWERED,
    Reason.RESTARTED: Fate.WAITING,
    Reason.REQUEUED: Fate.WAITING,
    Reason.YIELDED: Fate.AGAIN,
    Reason.DRAINED: Fate.AGAIN,
    Reason.WITHDRAWN: Fate.AGAIN,
    Reason.STOPPED: Fate.ANSWERED,
    Reason.LIMIT: Fate.AGAIN,
    Reason.FAILED: Fate.ANSWERED,
    Reason.LEFT: Fate.OPEN,
    Reason.TAKEN: Fate.OPEN,
}


def _table() -> dict[tuple[LifeState, LifeEvent], LifeState]:
    next_: dict[tuple[LifeState, LifeEvent], LifeState] = {}

    def on(event: LifeEvent, states: Iterable[LifeState], follows: LifeState | None = None) -> None:
        """Let the event lead from these states to that one; None: it is ignored."""
        for state in states:
            next_[state, event] = follows or state

    people = (_E.NEWER, _E.INTERRUPTED, _E.EDITED, _E.WITHDRAWN, _E.ANSWERED_WITHDRAWN)
    for event in people:  # they do as they like at any time: what is not said below is ignored
        on(event, _S)
    for event in (_E.CANCEL, _E.DRAIN, _E.LEAVE):
        on(event, {_S.DONE})
    for event in _TOLD_LATE:
        on(event, {_S.DONE})

    on(_E.BEGUN, {_S.WAITING}, _S.UNSEEN)
    on(_E.PERFORMED, {_S.WAITING}, _S.DONE)

    # People's acts.
    unseen_but_free = {_S.UNSEEN, _S.READY}
    under_way = {_S.SEEN, _S.ASKING, _S.FINISHING}
    on(_E.NEWER, unseen_but_free, _S.RESTARTING)
    on(_E.INTERRUPTED, unseen_but_free, _S.RESTARTING)
    on(_E.INTERRUPTED, under_way | {_S.LOOKED_UP}, _S.YIELDING)
    on(_E.EDITED, unseen_but_free, _S.RESTARTING)
    for event in (_E.WITHDRAWN, _E.ANSWERED_WITHDRAWN):
        on(event, {_S.UNSEEN, _S.LOOKED_UP, _S.READY, _S.RESTARTING}, _S.REQUEUEING)
    on(_E.ANSWERED_WITHDRAWN, under_way | {_S.HOLDING, _S.YIELDING, _S.DRAINING}, _S.WITHDRAWING)
    on(_E.CANCEL, {_S.WAITING}, _S.DONE)
    on(_E.CANCEL, (LIVE | ENDING) - {_S.WAITING}, _S.STOPPING)

    # The program ends.
    on(_E.DRAIN, {_S.WAITING}, _S.DONE)
    on(_E.DRAIN, {_S.UNSEEN, _S.LOOKED_UP, _S.READY, _S.RESTARTING}, _S.REQUEUEING)
    on(_E.DRAIN, {_S.SEEN, _S.ASKING}, _S.DRAINING)
    on(_E.DRAIN, (ENDING - {_S.RESTARTING}) | {_S.FINISHING, _S.HOLDING})
    on(_E.LEAVE, LIVE | ENDING, _S.DONE)
    on(_E.LEAVE, {_S.UNSEEN, _S.LOOKED_UP, _S.READY, _S.RESTARTING}, _S.REQUEUEING)
    on(_E.LEAVE, {_S.REQUEUEING})

    # The reply.
    on(_E.LOOKED_UP, {_S.UNSEEN}, _S.LOOKED_UP)
    on(_E.LOOKED_UP, {_S.LOOKED_UP, _S.SEEN, _S.HOLDING})
    on(_E.ACTED, {_S.UNSEEN, _S.LOOKED_UP}, _S.SEEN)
    on(_E.ACTED, {_S.READY}, _S.FINISHING)
    on(_E.ACTED, {_S.SEEN, _S.ASKING, _S.FINISHING, _S.YIELDING, _S.DRAINING, _S.EXCEEDING, _S.FAILING})
    on(_E.ASKED, {_S.SEEN}, _S.ASKING)
    on(_E.REPLIED, {_S.ASKING}, _S.SEEN)
    on(_E.REPLIED, (ENDING - {_S.RESTARTING, _S.REQUEUEING}) | {_S.HOLDING})
    on(_E.WRITTEN, {_S.UNSEEN}, _S.READY)
    on(_E.WRITTEN, {_S.LOOKED_UP, _S.SEEN}, _S.FINISHING)
    on(_E.WRITTEN, ENDING | {_S.HOLDING})
    on(_E.PERFORMED, _REASONS, _S.DONE)

    # Faults.
    on(_E.BROKE, {_S.UNSEEN, _S.LOOKED_UP})
    on(_E.BROKE, {_S.SEEN}, _S.FAILING)
    on(_E.BROKE, ENDING | {_S.HOLDING})
    on(_E.FAILED, {_S.WAITING}, _S.DONE)
    on(_E.FAILED, (LIVE | ENDING) - {_S.WAITING, _S.STOPPING, _S.HOLDING}, _S.FAILING)
    on(_E.FAILED, {_S.STOPPING, _S.HOLDING})
    on(_E.LIMIT, LIVE - {_S.WAITING, _S.HOLDING}, _S.EXCEEDING)
    on(_E.LIMIT, ENDING | {_S.HOLDING})
    on(_E.DEADLINE, {_S.UNSEEN, _S.LOOKED_UP, _S.READY}, _S.FAILING)
    on(_E.DEADLINE, {_S.SEEN, _S.FINISHING}, _S.EXCEEDING)
    on(_E.DEADLINE, ENDING | {_S.HOLDING})
    on(_E.LOST, {_S.SEEN, _S.ASKING, _S.FINISHING, _S.YIELDING, _S.EXCEEDING, _S.FAILING}, _S.HOLDING)
    on(_E.LOST, {_S.HOLDING, _S.STOPPING, _S.WITHDRAWING})
    on(_E.LOST, {_S.DRAINING}, _S.HOLDING)
    on(_E.TAKEN, LIVE | ENDING, _S.DONE)
    return next_


NEXT: Final[Mapping[tuple[LifeState, LifeEvent], LifeState]] = _table()
"""The whole life: from a state, by an event, to the next state."""

_WHEN_USED_UP: Final[Mapping[LifeEvent, LifeEvent | None]] = {
    _E.NEWER: None,
    _E.EDITED: None,
    _E.BROKE: _E.FAILED,
}
"""Events that count only so often, and what they are once that is used up; None: they are ignored."""


class Life:
    """The life of one turn. Tell it what happens with `on`.

    Args:
        restarts: how often it is begun again for newer messages.
        revisions: the same for messages that were edited.
        retries: how often a stream that broke is asked for once more.
        yields: whether it ends for those who are answered and write on. One that answers messages which came
            due again does not, so that nobody is put off twice.

    Attributes:
        entered: called with the state before and the new one, whenever another is entered.
    """

    __slots__ = ("_left", "entered", "reason", "state", "yields")

    def __init__(
        self, *, restarts: int = 0, revisions: int = 0, retries: int = 1, yields: bool = True
    ) -> None:
        self.state = LifeState.WAITING
        self.reason: Reason | None = None
        self.yields = yields
        self.entered: Callable[[LifeState, LifeState], None] | None = None
        self._left = {LifeEvent.NEWER: restarts, LifeEvent.EDITED: revisions, LifeEvent.BROKE: retries}

    def on(self, event: LifeEvent) -> LifeState:
        """Enter and return the state that follows from an event.

        Raises:
            ImpossibleEvent: that cannot happen in this state.
        """
        event_ = self._as_it_counts(event)
        if event_ is None:
            return self.state
        follows = NEXT.get((self.state, event_))
        if follows is None:
            raise ImpossibleEvent(f"{event_.name} cannot happen in {self.state.name}.")
        if event_ in self._left and (follows is not self.state or event_ is LifeEvent.BROKE):
            self._left[event_] -= 1
        if follows is LifeState.DONE and (self.state is not LifeState.DONE or event_ is LifeEvent.TAKEN):
            self.reason = self._reason(event_)
        before, self.state = self.state, follows
        if follows is not before and self.entered is not None:
            self.entered(before, follows)
        return self.state

    def again(self) -> None:
        """Go back to `WAITING` after a restart; restarts that were used up stay so."""
        if self.reason is not Reason.RESTARTED:
            raise ImpossibleEvent(f"A turn that is {self.state.name} is not begun again.")
        self.state, self.reason = LifeState.WAITING, None

    @property
    def unseen(self) -> bool:
        """True if the turn can be as if it had not been, or will be."""
        put_back = self.state in (LifeState.RESTARTING, LifeState.REQUEUEING) or self.fate is Fate.WAITING
        return put_back or self.state in UNSEEN_STATES

    @property
    def may_act(self) -> bool:
        """True if an act may begin."""
        return (self.state, LifeEvent.ACTED) in NEXT

    @property
    def goes_on(self) -> bool:
        """True if the model is to be asked further."""
        return self.state in LIVE and self.state is not LifeState.HOLDING

    @property
    def ending(self) -> bool:
        """True if the model is to write no more."""
        return self.state in ENDING or self.state is LifeState.DONE

    @property
    def fate(self) -> Fate | None:
        """The fate of the turn's messages; None: the turn is not over."""
        return None if self.reason is None else FATES[self.reason]

    def _as_it_counts(self, event: LifeEvent) -> LifeEvent | None:
        if event is LifeEvent.INTERRUPTED and self.state in (LifeState.UNSEEN, LifeState.READY):
            event = LifeEvent.NEWER
        if event is LifeEvent.INTERRUPTED and not self.yields:
            return None
        if event in self._left and self._left[event] <= 0:
            return _WHEN_USED_UP[event]
        return event

    def _reason(self, event: LifeEvent) -> Reason:
        if self.state is LifeState.WAITING and event in _FROM_WAITING:
            return _FROM_WAITING[event]
        return _LAST_EVENTS.get(event) or _REASONS[self.state]


def unanswered(
    messages: Sequence[Message],
    acted: Sequence[int],
    *,
    cut: bool,
    exceeded: bool = False,
    gone: Collection[str] = (),
    interrupter: str = "",
) -> tuple[Message, ...]:
    """List the messages that a turn which did not end by itself left unanswered, as they come due again.

    Args:
        messages: those that the turn was shown.
        acted: for each act that was delivered, in order, the number of the message that it named; 0: none.
            What follows an act that named one belongs to that; before that it is for whoever asked last.
        cut: the process ended in its midst, so that also a reply which was begun is to go on.
        exceeded: a limit ended it. One person alone has had what there was for them; of several, others wait.
        gone: ids of messages that were withdrawn.
        interrupter: id of the person for whom the turn yielded; they wrote on, and that is answered.
    """
    asked = [message for message in messages if message.addressed]
    if not asked:
        return ()
    answered = {message.id for message in asked if message.number and message.number in acted}
    several = len({message.author.id for message in asked}) > 1
    if exceeded and not several:
        return ()
    to_the_last = acted[0] == 0 if acted and several else 0 in acted and not cut
    if to_the_last:
        answered.add(asked[-1].id)
    return tuple(
        replace(message, again=True)
        for message in asked
        if not (message.again or message.author.id == interrupter or message.id in answered | {*gone})
    )
