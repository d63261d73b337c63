"""Runs a turn: attempts at it, until one of them is the reply.

What can happen to a turn, and what then follows, is `pixi.core.life`. Here it is told what people and the
process do, and in one place, `_obey`, the parts of an attempt are made to do what a newly entered state asks
for. The parts tell it the rest: the loop how the model fares, the actions what was seen, the executor what
broke.
"""

import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.observing import ObservedTurn
from pixi.core.channel import Channel
from pixi.core.conversation import Bounds, Conversation, PastTurn
from pixi.core.errors import StoreError, StoreOutdated
from pixi.core.events import Finish, TurnEnded, TurnReport, TurnStarted
from pixi.core.life import ENDING, Fate, Life, LifeEvent, LifeState, Reason, unanswered
from pixi.core.llm import Finished, Line, Usage
from pixi.core.message import Message
from pixi.core.prompt import quoting_grammar
from pixi.core.reading import last_messages, wants_repeat
from pixi.core.spending import UsageScope
from pixi.core.stamps import Citation, Reminder
from pixi.core.turn import Turn
from pixi.engine.command_executor import CommandExecutor
from pixi.engine.context import PersonaSession, TurnContext, tell_observers
from pixi.engine.history import History
from pixi.engine.inbox import Inbox
from pixi.engine.model_loop import ModelLoop
from pixi.engine.reminding import Noticed, citations_for, notices_answered, notices_for, reminders_for
from pixi.engine.turn_actions import TurnActions
from pixi.engine.usage import QuotaExceeded, payer_of, refused
from pixi.store.framing import Framing


class _Attempt(Struct, frozen=True):
    """A turn on record, and what writes it. `guess` are the tokens of its first request, estimated."""

    context: TurnContext
    guess: int
    turn: Turn
    actions: TurnActions
    executor: CommandExecutor
    loop: ModelLoop
    refusal: str
    framing: Framing

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that it reached."""
        return tuple(sorted(self.turn.limits | self.actions.reached))


class TurnRunner:
    """Answers what waits in a conversation. `run` it once; all else may be called at any time.

    Args:
        channel: where people are answered.
        waiting: what waits; taken from there when an attempt begins.
        refusal: what people are told in place of an answer of the model; "" for nothing.

    Attributes:
        inbox: what it answers.
        life: of the turn. After `run` its `reason` says how it ended, and its `fate` what becomes of `inbox`.
        again: the messages of `inbox` that come due again, after `run`.
    """

    def __init__(
        self, session: PersonaSession, channel: Channel, waiting: Inbox, *, refusal: str = ""
    ) -> None:
        restarts = session.shared.settings.limits.restarts
        self.inbox = Inbox()
        self.life = Life(restarts=restarts, revisions=restarts)
        self.life.entered = self._obey
        self.again: tuple[Message, ...] = ()
        self._session = session
        self._channel = channel
        self._waiting = waiting
        self._refusal = refusal
        self._attempt: _Attempt | None = None
        self._noticed: Sequence[Noticed] = ()
        self._began = time.monotonic()
        self._gone = frozenset[str]()  # ids of messages that were withdrawn
        self._interrupter = ""  # id of the person for whom it yields
        self._steps, self._usage = 0, Usage()
        self._ends: list[Finished] = []

    async def run(self, window: Conversation, history: History) -> TurnEnded:
        """Answer; returns when the turn is over, and on record unless it `is_open`.

        Args:
            window: what the model is shown, in which the turn is put.
            history: under whose lease it was read.

        Raises:
            PixiError: it could not be written or recorded.
        """
        finish: Finish = "cancelled"
        try:
            finish = await self._run(window, history)
            if self.life.state is LifeState.WAITING:  # nothing is to be answered, or nobody is to answer now
                self.life.on(LifeEvent.PERFORMED)
        except StoreOutdated:
            self.life.on(LifeEvent.TAKEN)
        finally:
            for event in (LifeEvent.FAILED, LifeEvent.PERFORMED):
                if self.life.state is not LifeState.DONE:
                    self.life.on(event)
            self._waiting.deferred = frozenset()
            if self._attempt is not None:
                self._attempt.actions.usage.close()
        return TurnEnded(finish, self._steps, self._usage)

    async def _run(self, window: Conversation, history: History) -> Finish:
        while True:
            self.inbox.add(self._waiting.take(self._room))
            over = None if self._refusal else await self._used_up()
            if over is not None and self._session.shared.ledger.was_told(over, self._payer):
                await self._only_hear(history.lease)
                return "limit"
            attempt = await self._begin(window, history, over)
            if attempt is None:
                return "cancelled"
            if self.life.state is LifeState.WAITING:
                await self._live(attempt)
            if self.is_open:
                if self.life.reason is Reason.LEFT and not (attempt.actions.touched or attempt.executor.read):
                    await self._record(attempt, (), "cancelled")  # there is nothing to go on with
                return "cancelled"
            if self.life.fate is not Fate.WAITING:
                await self._end(attempt, window)
                return self._finish(attempt)
            if self.life.reason is not Reason.RESTARTED:
                await self._record(attempt, (), "cancelled")
                return "cancelled"
            self._attempt = None
            self.life.again()  # at once: a stop or a drain that comes meanwhile must count
            await self._record(attempt, (), "cancelled")

    async def _live(self, attempt: _Attempt) -> None:
        """Write the reply of an attempt, and see it performed."""
        self.life.on(LifeEvent.BEGUN)
        context, role = attempt.context, self._session.role
        if context.observed is not None:
            waited = time.monotonic() - self._arrived(context.answered.id)
            context.observed.begun(self.inbox.messages, role.model.name, waited=waited)
        asked = tuple(message.id for message in self.inbox.addressed)
        self._channel.show(TurnStarted(context.id, context.answered.conversation, role.persona.name, asked))
        for message in self._waiting.messages:  # it came while the turn was put on record
            if message.addressed and message.author.id not in self._waiting.deferred:
                self.newer(message)
        try:
            await attempt.loop.run()
        finally:
            turn = attempt.turn
            self._steps += turn.steps
            self._usage += turn.usage
            self._ends += turn.ends
        if self.life.state is not LifeState.DONE:
            self.life.on(LifeEvent.PERFORMED)

    def newer(self, message: Message) -> None:
        """Take note of a newer message: it is answered along, where nothing was seen yet and there is room.

        Later it interrupts, where its author is being answered, or replies to what this turn has said.
        """
        attempt = self._attempt
        if attempt is None or attempt.refusal:
            return
        if self.life.state in (LifeState.UNSEEN, LifeState.READY):
            if self._room > 0:
                self.life.on(LifeEvent.NEWER)
            return
        askers = {one.author.id for one in self.inbox.addressed}
        if message.author.id in askers or message.reply_to in attempt.actions.posted:
            before = self.life.state
            if self.life.on(LifeEvent.INTERRUPTED) is LifeState.YIELDING is not before:
                self._interrupter = message.author.id

    def changed(self, message_id: str, text: str | None) -> None:
        """Take another text of a message: it is answered, where nothing was seen yet.

        None: it was deleted. A reply to it ends at once, and the words are not kept.
        """
        message, attempt = self.inbox.find(message_id), self._attempt
        if message is None:
            return
        if text is not None:
            is_new = self.inbox.revise(message_id, text)
            if is_new and attempt is not None and message.addressed and not attempt.refusal:
                self.life.on(LifeEvent.EDITED)
            return
        if attempt is None or self.life.unseen:
            self.inbox.remove(message_id)
        else:
            self.inbox.blank(message_id)
        if attempt is None:
            return
        self._gone |= {message_id}
        is_answered = message_id == attempt.context.answered.id
        if not self.life.unseen:
            self.life.on(LifeEvent.ANSWERED_WITHDRAWN if is_answered else LifeEvent.WITHDRAWN)
        elif message.addressed:
            self.life.on(LifeEvent.WITHDRAWN)

    def cancel(self) -> None:
        """End it at once; what was delivered stands."""
        self.life.on(LifeEvent.CANCEL)

    def drain(self) -> None:
        """Finish what people see coming and what closed before, at once; what nobody saw is requeued.

        A reply that already goes on after a cut comes due no third time. Such a one is left to the next
        process, which performs what had closed and tells people that there is no more.
        """
        if any(message.again for message in self.inbox.addressed):
            self.leave()
            return
        attempt = self._attempt
        if attempt is not None:
            attempt.actions.hurry()
            if attempt.executor.sees_coming and self.life.may_act:
                self.life.on(LifeEvent.ACTED)
        self.life.on(LifeEvent.DRAIN)

    def leave(self) -> None:
        """End now, as the process does: an act that was begun is finished, the rest is left on record."""
        self.life.on(LifeEvent.LEAVE)

    @property
    def is_open(self) -> bool:
        """True if the turn, once it was run, is left open on record: see `pixi.engine.recovery`.

        So is one that was stopped, or whose message was withdrawn, where nobody knows what became of an act.
        """
        return self.life.fate is Fate.OPEN or (self._attempt is not None and self._attempt.actions.lost)

    @property
    def turn(self) -> int | None:
        """The id of the turn that is on record; None: there is none yet."""
        return None if self._attempt is None else self._attempt.context.id

    def _obey(self, before: LifeState, state: LifeState) -> None:
        """Make the parts do what the life asks for that was entered just now."""
        attempt = self._attempt
        if attempt is None:
            return
        executor, loop = attempt.executor, attempt.loop
        if attempt.context.observed is not None and state in ENDING:
            attempt.context.observed.state(state.name)
        match state:
            case LifeState.RESTARTING | LifeState.REQUEUEING | LifeState.WITHDRAWING | LifeState.DONE:
                executor.drop(recorded=False)
            case LifeState.STOPPING:
                executor.drop(recorded=False)
                executor.mark("stopped")
            case LifeState.YIELDING:
                executor.keep_open()
            case LifeState.DRAINING:
                executor.keep_closed()
            case LifeState.EXCEEDING:
                executor.drop(recorded=True)
                attempt.turn.exceed()
            case LifeState.HOLDING:
                executor.drop(recorded=False)
                return
            case LifeState.FAILING if executor.trouble is not None:
                pass
            case _:
                return
        attempt.actions.hurry()
        if state in (LifeState.STOPPING, LifeState.WITHDRAWING, LifeState.DONE):
            executor.hasten()
        # Tools that run may be in the midst of an act; but what people are asked they need not answer now.
        waits = loop.running_tools and before is not LifeState.ASKING
        waits = waits and state in (LifeState.EXCEEDING, LifeState.YIELDING)
        writes = state in (LifeState.YIELDING, LifeState.DRAINING) and executor.wants_end
        if not (waits or writes):
            loop.wake()

    def report(self, finish: Finish) -> TurnReport | None:
        """Report the turn; None where none was put on record."""
        if self._attempt is None:
            return None
        context, actions = self._attempt.context, self._attempt.actions
        arrived, seen = self._arrived(context.answered.id), actions.first_seen
        return TurnReport(
            turn=context.id,
            conversation=context.answered.conversation,
            person=context.answered.author.id,
            persona=self._session.role.persona.name,
            model=_stand_in(self._ends) or self._session.role.model.name,
            finish=finish,
            steps=self._steps,
            usage=self._usage,
            cost=self._cost(self._ends),
            seconds=time.monotonic() - arrived,
            first_visible=None if seen is None else seen - arrived,
            effects=dict(actions.effects),
        )

    def told(self, report: TurnReport) -> None:
        """Tell the operator's listener and the observers of a turn that is over."""
        self._session.shared.tell(report)
        if self._attempt is not None and self._attempt.context.observed is not None:
            reason = self.life.reason.name if self.life.reason else "FAILED"
            self._attempt.context.observed.ended(report, self._attempt.limits, reason)

    def _arrived(self, message: str) -> float:
        """Return when a message came, on the monotonic clock; of one that another process received, the
        begin of the turn."""
        return self.inbox.arrivals.get(message, self._began)

    async def _used_up(self) -> QuotaExceeded | None:
        """Return the limit that everybody who asks has used up; where some have not, the others wait."""
        ledger, heard = self._session.shared.ledger, self.inbox
        asking = {message.author.id: message for message in heard.addressed}
        over = {person: await refused(ledger, message, self._channel) for person, message in asking.items()}
        if not any(over.values()) or not heard.wants_answer:  # it may have been withdrawn meanwhile
            return None
        free = [person for person in asking if over[person] is None]
        now = free or [heard.answered.author.id]
        if len(now) < len(asking):
            self._waiting.defer(heard, frozenset(asking.keys() - now))
        return None if free else over[now[0]]

    @property
    def _payer(self) -> UsageScope:
        return payer_of(self.inbox.answered, self._channel)

    async def _only_hear(self, lease: int) -> None:
        """Answer nobody: their messages wait as if they were merely overheard.

        Raises:
            StoreOutdated: another process has the conversation by now, and may answer them.
        """
        ids = tuple(message.id for message in self.inbox.addressed)
        if ids:  # else they were withdrawn meanwhile
            conversation = self.inbox.answered.conversation
            await self._session.shared.store.only_hear(conversation, ids, lease=lease)
            self.inbox.overhear()

    async def _begin(
        self, window: Conversation, history: History, over: QuotaExceeded | None
    ) -> _Attempt | None:
        """Put a turn on record; None where in the meantime there is nothing left to be answered."""
        session, heard = self._session, self.inbox
        reminders: Sequence[Reminder | Citation] = ()
        self._noticed = ()
        if over is None and not self._refusal:
            self._noticed = await notices_for(session, heard.messages)
            reminders = (
                *await reminders_for(session, heard.messages, self._channel.venue, window.lines),
                *await citations_for(session, heard.messages),
                *(each.reminder for each in self._noticed),
            )
        if not self._is_wanted:
            return None
        role = session.role
        begun = await session.shared.store.begin_turn(
            heard.answered.conversation,
            history.generation,
            role.persona.name,
            heard.ids,
            model=role.model.name,
            revision=history.revision,
            lease=history.lease,
        )
        for lost in set(heard.ids) - set(begun.taken):  # another turn has them
            heard.remove(lost)
        if not self._is_wanted:
            await self._call_off(begun.turn)
            return None
        refusal = self._refusal
        if over and not (refusal := await session.shared.ledger.told(over, self._payer)):
            await self._call_off(begun.turn)
            await self._only_hear(history.lease)
            return None
        self.life.yields = not any(message.again for message in heard.messages)
        self._attempt = self._attempt_at(begun.turn, window, reminders, refusal)
        return self._attempt

    @property
    def _is_wanted(self) -> bool:
        """True if there is something to put on record: also where it was stopped before it began."""
        free = self.life.state is LifeState.WAITING or self.life.reason is Reason.STOPPED
        return free and self.inbox.wants_answer

    @property
    def _room(self) -> int:
        """Room for more addressed messages."""
        most = self._session.shared.settings.gather_messages
        return most - len(self.inbox.addressed)

    def _finish(self, attempt: _Attempt) -> Finish:
        """Return the end of an attempt, for people and the record."""
        if attempt.loop.failure or self.life.reason is Reason.FAILED:
            return "error"
        return attempt.turn.finish if self.life.reason in (Reason.ANSWERED, Reason.LIMIT) else "cancelled"

    async def _end(self, attempt: _Attempt, window: Conversation) -> None:
        turn, lines = attempt.turn, attempt.turn.lines
        if self._gone:
            said = self._session.stamp(
                self.inbox.messages, tokens=window.longest, broke_off=self.inbox.goes_on
            )
            lines = (said, *lines[1:])
        if turn.steps == 1 and _stand_in(turn.ends) is None:  # another counts otherwise
            window.counted(attempt.guess, turn.usage.prompt_tokens)
        exceeded = not attempt.refusal and self._finish(attempt) in ("limit", "length")
        if self.life.fate is Fate.AGAIN or exceeded:
            self.again = unanswered(
                self.inbox.messages,
                attempt.actions.targets,
                cut=self.life.reason is Reason.DRAINED,
                exceeded=exceeded,
                gone=self._gone,
                interrupter=self._interrupter,
            )
        # Before it is recorded: where it is cut is recorded along.
        window.append(PastTurn(attempt.context.id, lines))
        if not await self._record(attempt, lines, self._finish(attempt), window.news()):
            self.life.on(LifeEvent.TAKEN)  # another process ended it, or forgot the conversation
        elif self.life.reason is Reason.ANSWERED and self._finish(attempt) != "error":
            await notices_answered(self._noticed)

    async def _record(
        self, attempt: _Attempt, lines: tuple[Line, ...], finish: Finish, window: Bounds | None = None
    ) -> bool:
        """Put the attempt's end on record, with all that it used; without lines it answered nothing."""
        shared, turn = self._session.shared, attempt.turn
        answered = bool(lines) and turn.steps > 0 and finish != "error"
        spent = attempt.actions.usage.settle(answered=answered)
        shared.ledger.entered(spent)
        cost = self._cost(turn.ends)
        try:
            recorded = await shared.store.end_turn(
                attempt.context.id,
                lines,
                finish,
                turn.steps,
                turn.usage,
                cost=cost,
                model=_stand_in(turn.ends),
                spent=spent,
                window=window,
                again=tuple(message.id for message in self.again),
                framing=replace(attempt.framing, limits=attempt.limits),
            )
        except StoreError:
            shared.ledger.not_taken(spent)
            raise
        shared.ledger.enter_later(())  # what the store did not take before, it may take now
        return recorded

    async def _call_off(self, number: int) -> None:
        """End a turn that was only just put on record."""
        await self._session.shared.store.end_turn(number, (), "cancelled", 0, Usage())

    def _attempt_at(
        self, number: int, window: Conversation, reminders: Sequence[Reminder | Citation], refusal: str
    ) -> _Attempt:
        """Build the parts of an attempt at the turn of this number."""
        session, inbox = self._session, self.inbox
        answered = inbox.answered
        context = TurnContext(
            id=number,
            session=session,
            messages=tuple(inbox.messages),
            answered=answered,
            channel=self._channel,
            life=self.life,
            observed=_observed(number, answered.conversation, session),
        )
        actions = TurnActions(context)
        said = session.stamp(inbox.messages, reminders, tokens=window.longest, broke_off=inbox.goes_on)
        window.make_room(said)  # before the history is taken: it may be cut
        not_again = _not_to_be_repeated(session, window, inbox, reminders)
        tools = session.offered(inbox.messages, window.lines)
        prefix, before = session.prefix(answered), window.lines
        turn = Turn(
            prefix=prefix,
            history=before,
            said=said,
            names=session.capabilities.names,
            people=[message.author.name for message in inbox.messages],
            tools=tools,
            search=session.capabilities.searches,
            limits=actions.limits,
            prose=session.shared.settings.prose,
            grammar=_grammar(session, reminders),
            repeats="few" if not_again else "free",
            key=f"{number:x}",
        )
        executor = CommandExecutor(actions, turn.delivered)
        return _Attempt(
            context=context,
            guess=window.guess(said),
            turn=turn,
            actions=actions,
            executor=executor,
            loop=ModelLoop(
                turn,
                actions,
                executor,
                spare_tokens=window.spare_tokens,
                refusal=refusal,
                not_again=not_again,
            ),
            refusal=refusal,
            framing=Framing.of(
                prefix, before, said, tools, bounds=window.bounds, abilities=session.abilities
            ),
        )

    def _cost(self, ends: Sequence[Finished]) -> float | None:
        """Return the dollars for replies, by the prices of who wrote and searched; None: one is not known."""
        own = self._session.role.model.traits.prices
        total = None if own is None and not ends else 0.0
        for end in ends:
            prices = end.prices if end.model else own
            search = self._session.shared.settings.search_price if end.usage.searches else 0.0
            if total is None or prices is None or search is None:
                return None
            total += prices.cost(end.usage) + end.usage.searches * search
        return total


def _stand_in(ends: Sequence[Finished]) -> str | None:
    """Return the model that wrote last in place of the asked one; None where that one wrote it all."""
    return next((end.model for end in reversed(ends) if end.model), None)


def _observed(number: int, conversation: str, session: PersonaSession) -> ObservedTurn | None:
    observers = tuple(session.shared.settings.observers)  # each is told of a whole turn, or of none of it
    if not observers:
        return None
    return ObservedTurn(
        partial(tell_observers, observers),
        turn=number,
        conversation=conversation,
        persona=session.role.persona.name,
        names=session.capabilities.names,
    )


def _not_to_be_repeated(
    session: PersonaSession, window: Conversation, heard: Inbox, reminders: Sequence[Reminder | Citation]
) -> list[str]:
    """List the messages that the reply may not begin with: the last ones, unless people want them again.

    Of a model at a server none: it seldom repeats itself, and to ask it anew costs money. Nor beside a
    citation: whoever asks twice is told the same fact twice.
    """
    if not session.role.model.traits.runs_here or any(isinstance(one, Citation) for one in reminders):
        return []
    said = last_messages(window.lines, session.capabilities.names)
    return [] if any(wants_repeat(message.text, said) for message in heard.addressed) else said


def _grammar(session: PersonaSession, reminders: Sequence[Reminder | Citation]) -> str:
    """Return the grammar of a reply: a small model that is shown documents is held to their words."""
    capabilities = session.capabilities
    citations = [one for one in reminders if isinstance(one, Citation)]
    if not (citations and session.role.model.traits.small):
        return capabilities.grammar
    return quoting_grammar(capabilities.help, citations) or capabilities.grammar
