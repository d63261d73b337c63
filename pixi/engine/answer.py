"""An answer under way: attempts at a turn, until one of them is the reply."""

import time
from collections.abc import Sequence

from pixi.channels.channel import Channel
from pixi.core.conversation import Bounds, Conversation, PastTurn
from pixi.core.deltas import Finished, Usage
from pixi.core.errors import StoreError
from pixi.core.events import Finish, TurnEnded
from pixi.core.lines import Line
from pixi.core.report import TurnReport
from pixi.core.spending import Payer
from pixi.core.stamps import Citation, Reminder
from pixi.engine.attempt import Attempt, attempt_at
from pixi.engine.context import PersonaSession
from pixi.engine.heard import Heard
from pixi.engine.reminding import citations_for, reminders_for
from pixi.engine.reply import Halt
from pixi.engine.usage import QuotaExceeded, payer_of, refused


class Answer:
    """Answers what waits in a conversation. `run` it once; all else may be called at any time.

    Args:
        pending: what waits; taken from there when an attempt begins.

    Attributes:
        heard: what it answers.
        put_back: it ended with nothing, and what it was to answer waits again.
        outdated: it did not become history: the store knows more than is known here.
    """

    __slots__ = (
        "_attempt",
        "_began",
        "_ends",
        "_pending",
        "_restarts_left",
        "_revisions_left",
        "_session",
        "_steps",
        "_stopping",
        "_usage",
        "_winding_down",
        "_withdrawn",
        "heard",
        "outdated",
        "put_back",
    )

    def __init__(self, session: PersonaSession, pending: Heard) -> None:
        self.heard = Heard()
        self.put_back = self.outdated = False
        self._session = session
        self._pending = pending
        self._restarts_left = self._revisions_left = session.shared.settings.limits.restarts
        self._attempt: Attempt | None = None
        self._began = time.monotonic()
        self._stopping = self._winding_down = False
        self._withdrawn = False  # some of the words that it answers are no longer there
        self._steps, self._usage = 0, Usage()
        self._ends: list[Finished] = []

    async def run(self, window: Conversation, channel: Channel, generation: int, revision: int) -> TurnEnded:
        """Answer; returns when the turn is over and on record.

        Raises:
            StoreOutdated: words were taken out of the store since the window was read, at this revision; or
                another process ended the turn.
            PixiError: it could not be written or recorded.
        """
        try:
            return await self._run(window, channel, generation, revision)
        finally:
            self._pending.deferred = frozenset()
            if self._attempt is not None:
                self._attempt.acts.usage.close()

    async def _run(self, window: Conversation, channel: Channel, generation: int, revision: int) -> TurnEnded:
        while True:
            self.heard.add(self._pending.take())
            over = await self._used_up(channel)
            if over is not None and self._session.shared.ledger.was_told(over, self._payer(channel)):
                await self._only_hear()
                return TurnEnded("limit", self._steps, self._usage)
            attempt = await self._begin(window, channel, generation, revision, over)
            if attempt is None:
                break
            await attempt.reply.run()
            turn = attempt.turn
            self._steps += turn.steps
            self._usage += turn.usage
            self._ends += turn.ends
            if attempt.acts.left_open or self._leaves_somebody_waiting(attempt):
                # The turn is not over: the next process goes on with it.
                self.outdated = True
                return TurnEnded("cancelled", self._steps, self._usage)
            again = attempt.reply.halted is Halt.AGAIN
            if not again and not self._is_to_be_put_back(attempt):
                await self._end(attempt, window)
                return TurnEnded(attempt.reply.finish, self._steps, self._usage)
            if again:
                self._attempt = None
            await self._record(attempt, (), "cancelled")
            if not again:
                break
        self.put_back = True
        return TurnEnded("cancelled", self._steps, self._usage)

    def interrupt(self) -> None:
        """A newer message came: it is answered along, where nothing was seen yet; else next."""
        if self._attempt is None:
            return
        if self._restarts_left and self._attempt.reply.begin_again():
            self._restarts_left -= 1
        else:
            asker = self._attempt.answered.author.id
            newer = [message.author.id for message in self._pending.messages if message.addressed]
            self._attempt.reply.give_way(to_asker=asker in newer)

    def revise(self, message_id: str, text: str) -> None:
        """A message was edited: the new text is answered, where nothing was seen yet."""
        message = self.heard.find(message_id)
        if message is None or not self.heard.revise(message_id, text) or self._attempt is None:
            return
        if message.addressed and self._revisions_left and self._attempt.reply.begin_again():
            self._revisions_left -= 1

    def withdraw(self, message_id: str) -> None:
        """A message was deleted: a reply to it ends at once, and the words are not kept."""
        message = self.heard.find(message_id)
        if message is None:
            return
        attempt = self._attempt
        if attempt is None:
            self.heard.remove(message_id)
        elif attempt.acts.final or attempt.reply.over:
            self.heard.blank(message_id)
            self._withdrawn = True
            if message_id == attempt.answered.id:
                attempt.reply.stop()
        else:
            self.heard.remove(message_id)
            self._withdrawn = True
            if message.addressed:
                attempt.reply.put_back()

    def stop(self) -> None:
        """End it at once; what was delivered stands."""
        self._stopping = True
        if self._attempt is not None:
            self._attempt.reply.stop()

    def wind_down(self) -> None:
        """Finish what people see coming, and drop what comes after; what nobody saw is put back."""
        self._winding_down = True
        if self._attempt is not None:
            self._attempt.reply.wind_down()

    @property
    def turn(self) -> int | None:
        """The id of the turn that is on record; None: there is none yet."""
        return None if self._attempt is None else self._attempt.id

    def report(self, finish: Finish) -> TurnReport | None:
        """What it came to; None where no turn was put on record."""
        attempt = self._attempt
        if attempt is None:
            return None
        # Of one that an earlier process received nobody knows when it came.
        arrived = self.heard.arrivals.get(attempt.answered.id, self._began)
        seen = attempt.acts.first_seen
        return TurnReport(
            turn=attempt.id,
            conversation=attempt.answered.conversation,
            person=attempt.answered.author.id,
            persona=self._session.role.persona.name,
            model=_stand_in(self._ends) or self._session.role.model.name,
            finish=finish,
            steps=self._steps,
            usage=self._usage,
            cost=self._cost(self._ends),
            seconds=time.monotonic() - arrived,
            first_visible=None if seen is None else seen - arrived,
            effects=dict(attempt.acts.effects),
        )

    async def _used_up(self, channel: Channel) -> QuotaExceeded | None:
        """What is used up of those who ask. Who may still be answered is; the others wait for a turn."""
        ledger, heard = self._session.shared.ledger, self.heard
        asking = {message.author.id: message for message in heard.messages if message.addressed}
        over = {person: await refused(ledger, message, channel) for person, message in asking.items()}
        if not any(over.values()) or not heard.wants_answer:  # it may have been withdrawn meanwhile
            return None
        free = [person for person in asking if over[person] is None]
        now = free or [heard.answered.author.id]
        if len(now) < len(asking):
            self._pending.defer(heard, frozenset(asking.keys() - now))
        return None if free else over[now[0]]

    def _payer(self, channel: Channel) -> Payer:
        return payer_of(self.heard.answered, channel)

    async def _only_hear(self) -> None:
        """Nobody is answered: what they wrote waits as what was merely overheard."""
        ids = tuple(message.id for message in self.heard.messages if message.addressed)
        if ids:  # else they were withdrawn meanwhile
            conversation = self.heard.answered.conversation
            self.heard.overhear()
            await self._session.shared.store.only_hear(conversation, ids)
        self.put_back = True

    async def _begin(
        self,
        window: Conversation,
        channel: Channel,
        generation: int,
        revision: int,
        over: QuotaExceeded | None,
    ) -> Attempt | None:
        """Put a turn on record; None where in the meantime there is nothing left to be answered."""
        session, heard = self._session, self.heard
        reminders: Sequence[Reminder | Citation] = ()
        if over is None:
            reminders = (
                *await reminders_for(session, heard.messages, channel.venue, window.lines),
                *await citations_for(session, heard.messages),
            )
        if not self._is_wanted():
            return None
        store, role = session.shared.store, session.role
        conversation = heard.answered.conversation
        number = await store.begin_turn(
            conversation,
            generation,
            role.persona.name,
            heard.ids,
            model=role.model.name,
            revision=revision,
        )
        session.shared.own_turns.add(number)
        if not self._is_wanted():
            await self._call_off(number)
            return None
        ledger = session.shared.ledger
        refusal = ""
        if over is not None and not (refusal := await ledger.told(over, self._payer(channel))):
            await self._call_off(number)
            await self._only_hear()
            return None
        attempt = self._attempt = attempt_at(
            number, session, window, channel, heard, reminders=reminders, refusal=refusal
        )
        if self._stopping:
            attempt.reply.stop()
        elif self._pending.wants_answer:  # it came while the turn was put on record
            self.interrupt()
        return attempt

    def _is_wanted(self) -> bool:
        return self.heard.wants_answer and not self._winding_down

    def _leaves_somebody_waiting(self, attempt: Attempt) -> bool:
        """Whether the process ends after a tool changed something, and before anything was said of it.

        The next one says so, where the persona has words for that.
        """
        silent = attempt.acts.changed and not attempt.acts.visible
        return self._winding_down and silent and bool(self._session.role.persona.when_broken)

    def _is_to_be_put_back(self, attempt: Attempt) -> bool:
        """Whether the turn is to leave no trace: it did nothing, and is answered another time."""
        unseen = not attempt.acts.final and attempt.reply.finish == "cancelled"
        return attempt.reply.halted is Halt.BACK or (self._winding_down and unseen)

    async def _end(self, attempt: Attempt, window: Conversation) -> None:
        turn, lines = attempt.turn, attempt.turn.lines
        if self._withdrawn:
            lines = (self._session.stamp(self.heard.messages, tokens=window.longest), *lines[1:])
        if turn.steps == 1 and _stand_in(turn.ends) is None:  # another counts otherwise
            window.counted(attempt.guess, turn.usage.prompt_tokens)
        window.append(PastTurn(attempt.id, lines))  # before it is recorded: where it is cut is recorded along
        if not await self._record(attempt, lines, attempt.reply.finish, window.news()):
            self.outdated = True  # another process ended it, or forgot the conversation

    async def _record(
        self, attempt: Attempt, lines: tuple[Line, ...], finish: Finish, window: Bounds | None = None
    ) -> bool:
        """Put the attempt's end on record, with all that it used; without lines it answered nothing."""
        shared, turn = self._session.shared, attempt.turn
        answered = bool(lines) and turn.steps > 0 and finish != "error"
        spent = attempt.acts.usage.settle(answered=answered)
        shared.ledger.entered(spent)
        cost = self._cost(turn.ends)
        try:
            recorded = await shared.store.end_turn(
                attempt.id,
                lines,
                finish,
                turn.steps,
                turn.usage,
                cost=cost,
                model=_stand_in(turn.ends),
                spent=spent,
                window=window,
            )
        except StoreError:
            shared.ledger.not_taken(spent)
            raise
        shared.own_turns.discard(attempt.id)
        shared.ledger.enter_later(())  # what the store did not take before, it may take now
        return recorded

    async def _call_off(self, number: int) -> None:
        """End a turn that was only just put on record."""
        shared = self._session.shared
        await shared.store.end_turn(number, (), "cancelled", 0, Usage())
        shared.own_turns.discard(number)

    def _cost(self, ends: Sequence[Finished]) -> float | None:
        """In dollars, each request by the prices of whoever wrote and searched; None: one is not known."""
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
    """The model that wrote last in place of the one that was asked; None where that one wrote it all."""
    return next((end.model for end in reversed(ends) if end.model), None)
