"""Writes one reply: the loop that joins the model, the turn, the executor of commands and the tools.

It goes on as long as the turn's life does, tells that life how the model fares, and is woken by the turn's
runner where the life ends early. Nothing is asked again of which something was seen.
"""

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pixi.core.errors import ModelError
from pixi.core.events import Failed, Sourced
from pixi.core.life import LifeEvent, LifeState
from pixi.core.llm import Delta, PromptProgress, Request
from pixi.core.reading import CommandEvent, RepeatFilter
from pixi.core.turn import Turn
from pixi.engine.command_executor import CommandExecutor
from pixi.engine.tool_rounds import ToolRounds
from pixi.engine.turn_actions import TurnActions
from pixi.models.deadlines import LONGEST_READING
from pixi.models.model import push

_CHARACTERS_PER_TOKEN = 3
# After this long without a word people see that there is something to come, though it may turn out to be
# nothing: whoever waits for a slow model would think that it is dead.
_SLOW_SECONDS = 5.0


class ModelLoop:
    """An attempt at a turn. `run` it once; `wake` it when the turn's life ends early.

    Args:
        turn: what is asked and said.
        actions: what commands and tools act with.
        executor: performs the commands.
        spare_tokens: room in the model's context for the results of tools.
        refusal: what people are told in place of an answer of the model; "" for nothing.
        not_again: messages of before. A reply that begins with one is thrown away, and asked for anew, once.

    Attributes:
        failure: what people were told that went wrong; "" for nothing.
        running_tools: whether tools are being run.
    """

    __slots__ = (
        "_actions",
        "_deadline",
        "_deltas",
        "_executor",
        "_first_word",
        "_life",
        "_model",
        "_not_again",
        "_observed",
        "_progress",
        "_reading_ends",
        "_refusal",
        "_repeats",
        "_room",
        "_tools",
        "_turn",
        "failure",
        "running_tools",
    )

    def __init__(
        self,
        turn: Turn,
        actions: TurnActions,
        executor: CommandExecutor,
        *,
        spare_tokens: int,
        refusal: str,
        not_again: Sequence[str],
    ) -> None:
        self._turn = turn
        self._model = actions.turn.session.role.model
        self._life = actions.turn.life
        self._actions = actions
        self._executor = executor
        self._observed = actions.turn.observed
        self._room = spare_tokens * _CHARACTERS_PER_TOKEN
        self._refusal = refusal
        self._not_again = not_again
        self._repeats = RepeatFilter(())  # of the request in hand
        self._tools = ToolRounds(actions, executor, held=self._held, left=self._left)
        self._deadline: asyncio.Timeout | None = None
        # The loop's time after which no reading of prompts counts as a reason to wait.
        self._reading_ends = 0.0
        self._deltas = 0  # of the request in hand
        self._progress: PromptProgress | None = None  # told last of the prompt of that request
        self._first_word: _FirstWord
        self.running_tools = False
        self.failure = ""

    async def run(self) -> None:
        """Write it; returns when all of it was performed, or given up.

        Raises:
            StoreError: an act could not be recorded, and was not done.
        """
        deadline = asyncio.timeout(self._actions.limits.seconds)
        self._reading_ends = asyncio.get_running_loop().time() + LONGEST_READING
        try:
            async with deadline:
                self._deadline = deadline
                try:
                    await self._write()
                finally:
                    self._deadline = None  # one that is left cannot be moved any more
        except TimeoutError:
            if not deadline.expired():
                raise
            if not self._life.ending:
                self._give_up_for_time()
        except asyncio.CancelledError:
            self._life.on(LifeEvent.CANCEL)
            raise
        except Exception:
            self._life.on(LifeEvent.FAILED)
            raise
        finally:
            await self._executor.finish()
        if self._executor.trouble is not None:
            raise self._executor.trouble

    def wake(self) -> None:
        """Let the loop leave whatever it waits for."""
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Stop the turn's clock while a person is asked. The turn can still be ended."""
        deadline, clock = self._deadline, asyncio.get_running_loop()
        end = deadline.when() if deadline else None
        if deadline is None or end is None or deadline.expired() or not self._life.goes_on:
            yield
            return
        left = end - clock.time()
        deadline.reschedule(None)
        self._actions.tools_run(False)
        self._life.on(LifeEvent.ACTED)
        self._life.on(LifeEvent.ASKED)
        try:
            yield
        finally:
            self._life.on(LifeEvent.REPLIED)
            if deadline.when() is None:  # else it was woken
                deadline.reschedule(clock.time() + left)
                self._actions.tools_run(True)

    def _left(self) -> float:
        """Return the seconds until the turn ends."""
        end = self._deadline.when() if self._deadline else None
        return self._actions.limits.seconds if end is None else end - asyncio.get_running_loop().time()

    async def _write(self) -> None:
        """Write the reply and see it performed, all of it under the turn's deadline."""
        executor = self._executor
        try:
            if self._refusal:
                self._turn.refuse()
                self._refuse(self._refusal)
            else:
                await self._converse()
        except ModelError as error:
            if self._life.state is LifeState.HOLDING:
                await executor.drained()
                return
            if self._life.goes_on:
                self._life.on(LifeEvent.FAILED)
            await self._read_to_the_end()
            executor.put(self._repeats.release())
            self._break_off()
            if self._life.state is LifeState.FAILING:
                self._tell_failure(str(error))
                await executor.drained()  # until then nobody knows what people have seen
                self._apologize()
        await executor.recorded()
        holding = self._life.on(LifeEvent.WRITTEN) is LifeState.HOLDING
        if self._is_whole and (executor.busy or holding):
            executor.mark("written")
        await executor.drained()
        if self._turn.sources and self._actions.said:
            executor.show(Sourced(self._turn.sources))
            await executor.drained()

    @property
    def _is_whole(self) -> bool:
        """True if the reply was written to its end."""
        over = self._turn.calls or self._turn.wants_model
        return not over and not self._life.ending

    async def _converse(self) -> None:
        turn, executor = self._turn, self._executor
        while turn.wants_model and self._life.goes_on:
            request = turn.request()
            # What is asked anew stands, and so does what a tool gave, however often it is told.
            self._repeats = RepeatFilter(self._not_again if request.repeats == "few" else ())
            closed = executor.read
            try:
                await self._listen(request)
            except ModelError as error:
                if not await self._is_asked_again(error, closed):
                    raise
                continue
            if not self._life.ending:
                await self._read_to_the_end()
            if self._life.ending:
                self._break_off()
                return
            if not self._repeats.found:
                self._put(turn.end_round())
            if self._repeats.found:
                turn.ask_anew(request)
                if self._observed is not None:
                    self._observed.thrown_away("repeat")
                await self._heed_budget()
                continue
            executor.put(self._repeats.release())
            if turn.calls:
                await self._heed_budget()
            if turn.calls and self._life.goes_on:
                await self._run_tools()
                # The next question tells what really happened, so it waits until it has.
                await executor.drained()
                await self._heed_budget()  # tools have prices, too

    async def _is_asked_again(self, error: ModelError, closed: int) -> bool:
        """Tell whether a stream that broke is asked for once more: nothing may have been seen of it.

        `closed`: how many commands had before it began.
        """
        if error.permanent or not self._deltas:  # the model's own tries are used up
            return False
        if self._executor.owes and self._life.may_act:
            self._life.on(LifeEvent.ACTED)  # as good as seen: it will be
        else:
            await self._executor.drained()  # until then nobody knows what people have seen
        self._life.on(LifeEvent.BROKE)
        if not (self._life.unseen and self._life.goes_on):
            return False
        self._executor.skip(self._repeats.release())
        self._executor.forget(closed)
        self._turn.ask_again()
        if self._observed is not None:
            self._observed.thrown_away("broken")
        await self._heed_budget()
        return True

    async def _listen(self, request: Request) -> None:
        observed = self._observed
        if observed is not None:
            observed.asked(request, self._executor.read)
        failed = False
        self._deltas = 0
        self._progress = None
        self._first_word = _FirstWord(self._actions, self._deadline, self._reading_ends)
        if self._model.traits.reads_long:
            self._first_word.read_on()
        try:
            await push(self._model, request, self._take)
        except ModelError:
            failed = True
            raise
        finally:
            self._first_word.came()
            end = self._turn.used(request, failed=failed)
            self._actions.usage.asked(end)
            if observed is not None:
                observed.answered(self._model.name, end, failed=failed)

    def _take(self, delta: Delta) -> bool:
        """Read a delta of the reply as it arrives; return True if the rest is not wanted."""
        if type(delta) is PromptProgress:
            self._progress = delta
            self._first_word.read_on()
            self._executor.show(delta)
            return False
        if not self._deltas:
            self._first_word.came()
            told = self._progress
            if told is not None and told.done < told.total:
                # The word shows that it is over: people are told so.
                self._executor.show(PromptProgress(told.total, told.total, 0.0))
        self._deltas += 1
        observed = self._observed
        if observed is None:
            return self._read(delta)
        observed.came(delta)
        for part in observed.parts(delta):
            observed.fed(part)
            if self._read(part):
                return True
        return False

    def _read(self, delta: Delta) -> bool:
        events = self._turn.feed(delta)
        if events:
            self._put(events)
        if self._turn.closed or self._repeats.found:
            return True
        return self._life.ending and not self._executor.wants_end

    async def _read_to_the_end(self) -> None:
        """Read the commands that the reply left open. They may be long: other tasks run in between."""
        for number, events in enumerate(self._turn.closing()):
            if number:
                await asyncio.sleep(0)
            self._put(events)

    def _put(self, events: list[CommandEvent]) -> None:
        """Give the executor the events that were read, as far as they cannot be a repeat."""
        if self._observed is not None:
            self._observed.read(events)
        self._executor.put(self._repeats.sift(events))

    def _break_off(self) -> None:
        """Give the executor the command that was open when the reply broke off, as far as it got."""
        events = self._turn.break_off()
        if self._observed is not None:
            self._observed.read(events)
        self._executor.put(events)

    async def _heed_budget(self) -> None:
        """Record the usage until now, and obey limits that are used up, before more is used.

        A day's limit leaves one more answer, without tools; the month's dollars leave nothing.
        """
        if not self._life.goes_on or not (self._turn.calls or self._turn.wants_model):
            return
        usage = self._actions.usage
        await usage.record()
        over = await usage.over()
        if over is None:
            return
        self._actions.reached |= {"budgets"}
        if over.scope is not None:
            self._turn.end_tools()
            return
        await self._executor.drained()  # until then nobody knows what people have seen
        if not self._actions.said and (told := await usage.notice(over)):
            self._refuse(told)
        self._turn.exceed()

    async def _run_tools(self) -> None:
        self._life.on(LifeEvent.LOOKED_UP)
        self.running_tools = True
        self._actions.tools_run(True)
        self._room //= 2  # each round may fill half of what the one before left
        try:
            if not await self._tools.answer(self._turn.calls, self._turn.answer, room=self._room):
                self._turn.end_tools()
        finally:
            self.running_tools = False
            self._actions.tools_run(False)

    def _give_up_for_time(self) -> None:
        self._actions.reached |= {"seconds"}
        self._executor.skip(self._repeats.release())
        if self._executor.performing and self._life.may_act:
            self._life.on(LifeEvent.ACTED)
        if self._life.on(LifeEvent.DEADLINE) is LifeState.FAILING:
            self._executor.drop(recorded=True)
            self._tell_failure(f"No answer came within {self._actions.limits.seconds:g} seconds.")
            self._apologize()
        self._turn.exceed()

    def _tell_failure(self, text: str) -> None:
        """Put one notice for people behind all that was put before."""
        self.failure = text
        self._executor.show(Failed(text))

    def _refuse(self, text: str) -> None:
        """Tell people that a limit is used up: in character, where the persona has words for it."""
        said = self._turn.say(self._one_of(self._actions.persona.when_tired) or text)
        if said:
            self._executor.put(said)
        else:  # it has no command to say something with
            self._executor.show(Failed(text))

    def _apologize(self) -> None:
        """Say a word in character, where nothing was said yet."""
        sorry = self._one_of(self._actions.persona.when_broken)
        if sorry and not self._actions.said and self._life.state is LifeState.FAILING:
            self._executor.put(self._turn.say(sorry))

    def _one_of(self, lines: Sequence[str]) -> str:
        """Return the line of the persona that is due in this turn; "" if it has none."""
        return lines[self._actions.turn.id % len(lines)] if lines else ""


class _FirstWord:
    """The wait for the first word of a model's answer; made when it is asked.

    While it reads its prompt the time is not the turn's, and after a while people see that there is something
    to come.

    Args:
        actions: to show that.
        deadline: of the turn, which is moved.
        latest: the loop's time to which it is moved at most.
    """

    def __init__(self, actions: TurnActions, deadline: asyncio.Timeout | None, latest: float) -> None:
        loop = asyncio.get_running_loop()
        ends = deadline.when() if deadline else None
        self._actions = actions
        self._deadline = deadline
        self._latest = latest
        self._left = math.inf if ends is None else ends - loop.time()
        self._moved_to: float | None = None
        self._came = False
        self._slow = loop.call_later(_SLOW_SECONDS, actions.model_reads, True)

    def read_on(self) -> None:
        """Stop the turn's clock while the model reads its prompt."""
        if not self._came and self._moved_to is None:
            self._move(max(self._latest, asyncio.get_running_loop().time() + self._left))

    def came(self) -> None:
        """Start the turn's clock again: the first word came, or none will. Later calls do nothing."""
        if self._came:
            return
        self._came = True
        self._slow.cancel()
        self._actions.model_reads(False)
        if self._deadline is not None and self._deadline.when() == self._moved_to:
            self._move(asyncio.get_running_loop().time() + self._left)

    def _move(self, when: float) -> None:
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(when)
            self._moved_to = when
