"""An answer under way: attempts at a turn, until one of them is the reply."""

import time

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.deltas import Usage
from pixi.core.events import Finish, TurnEnded
from pixi.core.report import TurnReport
from pixi.engine.attempt import Attempt, attempt_at
from pixi.engine.heard import Heard
from pixi.engine.reminding import reminders_for
from pixi.engine.reply import Halt
from pixi.engine.stage import Stage


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
        "_pending",
        "_restarts_left",
        "_revisions_left",
        "_stage",
        "_steps",
        "_stopping",
        "_usage",
        "_winding_down",
        "_withdrawn",
        "heard",
        "outdated",
        "put_back",
    )

    def __init__(self, stage: Stage, pending: Heard) -> None:
        self.heard = Heard()
        self.put_back = self.outdated = False
        self._stage = stage
        self._pending = pending
        self._restarts_left = self._revisions_left = stage.shared.conduct.limits.restarts
        self._attempt: Attempt | None = None
        self._began = time.monotonic()
        self._stopping = self._winding_down = False
        self._withdrawn = False  # some of the words that it answers are no longer there
        self._steps, self._usage = 0, Usage()

    async def run(self, window: Conversation, channel: Channel, generation: int) -> TurnEnded:
        """Answer; returns when the turn is over and on record.

        Raises:
            PixiError: it could not be written or recorded.
        """
        store = self._stage.shared.store
        while True:
            self.heard.add(self._pending.take())
            attempt = await self._begin(window, channel, generation)
            if attempt is None:
                break
            await attempt.reply.run()
            turn = attempt.turn
            self._steps += turn.steps
            self._usage += turn.usage
            if attempt.acts.left_open:  # the turn is not over: the next process goes on with it
                self.outdated = True
                return TurnEnded("cancelled", self._steps, self._usage)
            again = attempt.reply.halted is Halt.AGAIN
            if not again and not self._is_to_be_put_back(attempt):
                await self._end(attempt, window)
                return TurnEnded(attempt.reply.finish, self._steps, self._usage)
            if again:
                self._attempt = None
            cost = self._cost(turn.usage)
            await store.end_turn(attempt.id, (), "cancelled", turn.steps, turn.usage, cost=cost)
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
            persona=self._stage.role.persona.name,
            model=self._stage.role.model.name,
            finish=finish,
            steps=self._steps,
            usage=self._usage,
            cost=self._cost(self._usage),
            seconds=time.monotonic() - arrived,
            first_visible=None if seen is None else seen - arrived,
            effects=dict(attempt.acts.effects),
        )

    async def _begin(self, window: Conversation, channel: Channel, generation: int) -> Attempt | None:
        """Put a turn on record; None where in the meantime there is nothing left to be answered."""
        stage, heard = self._stage, self.heard
        reminders = await reminders_for(stage, heard.messages, channel.venue, window.lines)
        if not self._is_wanted():
            return None
        store, role = stage.shared.store, stage.role
        conversation = heard.answered.conversation
        number = await store.begin_turn(
            conversation, generation, role.persona.name, heard.ids, model=role.model.name
        )
        if not self._is_wanted():
            await store.end_turn(number, (), "cancelled", 0, Usage())
            return None
        attempt = self._attempt = attempt_at(number, stage, window, channel, heard, reminders=reminders)
        if self._stopping:
            attempt.reply.stop()
        elif self._pending.wants_answer:  # it came while the turn was put on record
            self.interrupt()
        return attempt

    def _is_wanted(self) -> bool:
        return self.heard.wants_answer and not self._winding_down

    def _is_to_be_put_back(self, attempt: Attempt) -> bool:
        """Whether the turn is to leave no trace: it did nothing, and is answered another time."""
        unseen = not attempt.acts.final and attempt.reply.finish == "cancelled"
        return attempt.reply.halted is Halt.BACK or (self._winding_down and unseen)

    async def _end(self, attempt: Attempt, window: Conversation) -> None:
        turn, lines = attempt.turn, attempt.turn.lines
        if self._withdrawn:
            lines = (window.fit(self._stage.stamp(self.heard.messages)), *lines[1:])
        cost = self._cost(turn.usage)
        recorded = await self._stage.shared.store.end_turn(
            attempt.id, lines, attempt.reply.finish, turn.steps, turn.usage, cost=cost
        )
        if not recorded:  # another process ended it, or forgot the conversation
            self.outdated = True
            return
        window.append(lines)
        if turn.steps == 1:
            window.counted(attempt.guess, turn.usage.prompt_tokens)

    def _cost(self, usage: Usage) -> float | None:
        prices = self._stage.role.model.traits.prices
        return None if prices is None else prices.cost(usage)
