"""Writes one reply: the loop that joins the model, the turn, the performer and the tools."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from enum import Enum, auto

from pixi.core.deltas import Delta, PromptProgress, Request, Text
from pixi.core.errors import ModelError
from pixi.core.events import Failed, Finish, Sourced
from pixi.core.limits import TOOL_SECONDS, Limits
from pixi.core.reading import CommandEvent
from pixi.core.repeats import RepeatFilter
from pixi.core.turn import Turn
from pixi.engine.acts import Acts
from pixi.engine.performer import Performer
from pixi.engine.tool_guards import ToolRunConfig
from pixi.engine.tool_rounds import ToolRounds
from pixi.models.deadlines import LONGEST_READING
from pixi.models.model import Model
from pixi.toolbox.commands import CommandRegistry

_CHARACTERS_PER_TOKEN = 3
_MOST_AT_ONCE = 1_024  # characters of a reply that are read before others come in between
_ACT_SECONDS = 30.0  # how long an act that was begun may take to end when the turn is over
_STOP_SECONDS = 2.0  # the same, when somebody waits for the stop
# After this long without a word people see that there is something to come, though it may turn out to be
# nothing: whoever waits for a slow model would think that it is dead.
_SLOW_SECONDS = 5.0


class Halt(Enum):
    """Why a reply is ended from outside."""

    AGAIN = auto()  # it is begun again, with a newer message or another text: nothing was seen yet
    BACK = auto()  # what it answers is put back, or was taken back: nothing was seen yet
    NEWER = auto()  # a newer message is to be answered: stop at the next boundary
    STOP = auto()  # somebody asked
    LIMIT = auto()  # more acts than the turn may do
    TROUBLE = auto()  # the performer broke


class Reply:
    """One attempt at a turn. `run` it once; what ends it early may be called at any time.

    Args:
        turn: what is asked and said.
        model: who writes.
        acts: what commands and tools act with.
        commands: the registered commands.
        run_config: what its tools are run with.
        limits: of the turn.
        spare_tokens: room in the model's context for the results of tools.
        when_broken: what the persona says when its model fails; "" for nothing.
        when_tired: what it says when there is no more to be used; "" for no words of its own.
        refusal: what people are told in place of an answer of the model; "" for nothing.
        not_again: messages of before. A reply that begins with one is thrown away, and asked for anew, once.
    """

    __slots__ = (
        "_acts",
        "_asked_anew",
        "_asking",
        "_deadline",
        "_failed",
        "_limits",
        "_model",
        "_not_again",
        "_over",
        "_performer",
        "_reading_ends",
        "_refusal",
        "_repeats",
        "_room",
        "_running_tools",
        "_tools",
        "_turn",
        "_when_broken",
        "_when_tired",
        "_woken",
        "halted",
    )

    halted: Halt | None

    def __init__(
        self,
        *,
        turn: Turn,
        model: Model,
        acts: Acts,
        commands: CommandRegistry,
        run_config: ToolRunConfig,
        limits: Limits,
        spare_tokens: int = 2_048,
        when_broken: str = "",
        when_tired: str = "",
        refusal: str = "",
        not_again: Sequence[str] = (),
    ) -> None:
        self._turn = turn
        self._model = model
        self._acts = acts
        self._limits = limits
        self._room = spare_tokens * _CHARACTERS_PER_TOKEN
        self._when_broken = when_broken
        self._when_tired = when_tired
        self._refusal = refusal
        self._not_again = not_again
        self._repeats = RepeatFilter(())  # of the request in hand
        self._asked_anew = False
        self._performer = Performer(
            acts,
            commands,
            seconds=limits.tool_seconds or TOOL_SECONDS,
            delivered=turn.delivered,
            on_trouble=lambda: self._halt(Halt.TROUBLE),
        )
        acts.on_limit = lambda: self._halt(Halt.LIMIT)
        self._tools = ToolRounds(
            run_config,
            acts,
            limits,
            show=self._performer.show,
            drained=self._performer.drained,
            held=self._held,
            left=self._left,
        )
        self._deadline: asyncio.Timeout | None = None
        # The loop's time after which no reading of prompts counts as a reason to wait.
        self._reading_ends = 0.0
        self._woken = False  # the deadline was moved to now
        self._running_tools = False
        self._asking = False  # a person is, whether a tool may do something
        self._over = False  # written; what was put is still being performed
        self._failed = False
        self.halted = None

    @property
    def over(self) -> bool:
        """Whether it is written, and can only be waited for."""
        return self._over

    @property
    def finish(self) -> Finish:
        """How it ended."""
        if self._failed or self.halted is Halt.TROUBLE:
            return "error"
        if self.halted in (Halt.AGAIN, Halt.BACK, Halt.NEWER, Halt.STOP):
            return "cancelled"
        return self._turn.finish

    async def run(self) -> None:
        """Write it; returns when all of it was performed.

        Raises:
            StoreError: an act could not be recorded, and was not done.
        """
        deadline = asyncio.timeout(self._limits.seconds)
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
            if self.halted is None:
                self._give_up_for_time()
        except asyncio.CancelledError:
            self.stop()
            raise
        finally:
            self._over = True
            await self._performer.finish(_STOP_SECONDS if self.halted is Halt.STOP else _ACT_SECONDS)
        if self._performer.trouble is not None:
            raise self._performer.trouble

    def begin_again(self) -> bool:
        """End it at once, to be begun anew; False where something of it was seen, or tools ran."""
        if self.halted is not None or self._over or self._spent or self._refusal:
            return False
        self._halt(Halt.AGAIN)
        return True

    def give_way(self, *, to_asker: bool) -> None:
        """A newer message is to be answered: stop at the next boundary, if something was seen of it.

        `to_asker`: it is of the person who is answered. What they are being asked they need not answer then.
        """
        if self._over or self.halted not in (None, Halt.NEWER):
            return
        unasked = to_asker and self._asking
        if unasked or (self.halted is None and self._spent):
            self._stop_at_boundary(at_once=unasked or not self._running_tools)

    def wind_down(self) -> None:
        """Finish what people see coming and drop the rest, with no pace kept; or put it back, where nothing
        of it was seen or changed."""
        self._acts.leave()
        if self._over or self.halted not in (None, Halt.NEWER):
            return
        if self._acts.final or self._performer.sees_coming:
            self._stop_at_boundary(at_once=True)
        else:
            self._halt(Halt.BACK)

    def put_back(self) -> None:
        """End it at once, as if it had not been begun. Nothing of it may have been seen."""
        self._halt(Halt.BACK)

    def stop(self) -> None:
        """End it at once. An act that was begun is finished; what was delivered stands."""
        if self._over:
            self._performer.hasten(_STOP_SECONDS)
        else:
            self._halt(Halt.STOP)

    @property
    def _spent(self) -> bool:
        """Whether it cannot be begun again."""
        tools_ran = self._turn.steps > (2 if self._asked_anew else 1)
        return self._acts.visible or tools_ran or self._running_tools

    def _stop_at_boundary(self, *, at_once: bool) -> None:
        """Finish the command that is open. `at_once`: without one, wait for nothing else."""
        self.halted = Halt.NEWER
        self._performer.halt_at_boundary()
        if at_once and not self._performer.wants_end:
            self._wake()

    def _halt(self, why: Halt) -> None:
        self.halted = why
        if why is Halt.LIMIT:
            self._turn.exceed()
            self._acts.hurry()
        else:
            self._acts.drop()
        self._performer.halt()
        if why is not Halt.LIMIT or not self._running_tools:  # tools that run may be in the midst of an act
            self._wake()

    def _wake(self) -> None:
        """Let the loop leave whatever it waits for."""
        self._woken = True
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())

    @contextmanager
    def _held(self) -> Iterator[None]:
        """A person is asked: their time is not the turn's. Nobody writes meanwhile, and it can be ended."""
        deadline, clock = self._deadline, asyncio.get_running_loop()
        end = deadline.when() if deadline else None
        if deadline is None or end is None or self._is_ending(deadline):
            yield
            return
        left = end - clock.time()
        deadline.reschedule(None)
        self._acts.tools_run(False)
        self._asking = True
        try:
            yield
        finally:
            self._asking = False
            if not self._is_ending(deadline):
                deadline.reschedule(clock.time() + left)
                self._acts.tools_run(True)

    def _left(self) -> float:
        """Return the seconds until the turn ends."""
        end = self._deadline.when() if self._deadline else None
        return self._limits.seconds if end is None else end - asyncio.get_running_loop().time()

    def _is_ending(self, deadline: asyncio.Timeout) -> bool:
        return self._woken or deadline.expired()

    async def _write(self) -> None:
        """All that stands under the deadline: the talk with the model, and what is done on account of it."""
        if self.halted is not None:
            return
        try:
            if self._refusal:
                self._turn.refuse()
                self._refuse(self._refusal)
            else:
                await self._converse()
        except ModelError as error:
            await self._read_to_the_end()
            self._performer.put([*self._repeats.release(), *self._turn.break_off()])
            if self.halted is None:
                self._tell_failure(str(error))
                await self._performer.drained()  # until then nobody knows what people have seen
                self._apologize()
        await self._performer.drained()
        if self._turn.sources and self._acts.visible:
            self._performer.show(Sourced(self._turn.sources))
            await self._performer.drained()

    async def _converse(self) -> None:
        turn, performer = self._turn, self._performer
        while turn.wants_model and self.halted is None:
            request = turn.request()
            # What is asked anew stands, and so does what a tool gave, however often it is told.
            self._repeats = RepeatFilter(self._not_again if turn.steps == 1 else ())
            await self._listen(request)
            if self.halted is not None:
                performer.put(turn.break_off())
                return
            await self._read_to_the_end()
            if self.halted is not None:
                performer.put(turn.break_off())
                return
            if not self._repeats.found:
                self._put(turn.end_round())
            if self._repeats.found:
                self._asked_anew = True
                turn.ask_anew(request)
                await self._heed_budget()
                continue
            performer.put(self._repeats.release())
            if turn.calls:
                await self._heed_budget()
            if turn.calls:
                await self._run_tools()
                # The next question tells what really happened, so it waits until it has.
                await performer.drained()
                await self._heed_budget()  # tools have prices, too

    async def _listen(self, request: Request) -> None:
        feed, put = self._turn.feed, self._put
        failed = False
        told: PromptProgress | None = None
        first_word = _FirstWord(self._acts, self._deadline, self._reading_ends)
        if self._model.traits.reads_long:
            first_word.read_on()
        try:
            async with aclosing(self._model.stream(request)) as stream:
                async for delta in stream:
                    if type(delta) is PromptProgress:
                        told = delta
                        first_word.read_on()
                        self._performer.show(delta)
                        continue
                    first_word.came()
                    if told is not None:
                        if told.done < told.total:  # the word shows that it is over: people are told so
                            self._performer.show(PromptProgress(told.total, told.total, 0.0))
                        told = None
                    for part in _parts(delta):
                        events = feed(part)
                        if events:
                            put(events)
                        if self._turn.closed or self._repeats.found:
                            return
                        if self.halted is not None and not self._performer.wants_end:
                            return
                        if part is not delta:
                            await asyncio.sleep(0)
        except ModelError:
            failed = True
            raise
        finally:
            first_word.came()
            self._acts.usage.asked(self._turn.used(request, failed=failed))

    async def _read_to_the_end(self) -> None:
        """Read what the reply left open. It may be all of a long one: others come in between."""
        for number, events in enumerate(self._turn.closing()):
            if number:
                await asyncio.sleep(0)
            self._put(events)

    def _put(self, events: list[CommandEvent]) -> None:
        """Have performed what was read, as far as it cannot be a repeat."""
        self._performer.put(self._repeats.sift(events))

    async def _heed_budget(self) -> None:
        """Before more is used: what was used until now is on record, and what is used up is heeded.

        A day's limit leaves one more answer, without tools; the month's dollars leave nothing.
        """
        if self.halted is not None or not (self._turn.calls or self._turn.wants_model):
            return
        usage = self._acts.usage
        await usage.record()
        over = await usage.over()
        if over is None:
            return
        if over.scope is not None:
            self._turn.end_tools()
            return
        await self._performer.drained()  # until then nobody knows what people have seen
        if not self._acts.visible and (told := await usage.notice(over)):
            self._refuse(told)
        self._turn.exceed()

    async def _run_tools(self) -> None:
        self._running_tools = True
        self._acts.tools_run(True)
        self._room //= 2  # each round may fill half of what the one before left
        try:
            any_ran = await self._tools.answer(
                self._turn.calls,
                self._turn.answer,
                room=self._room,
                goes_on=lambda: self.halted is None,
            )
            if not any_ran:
                self._turn.end_tools()
        finally:
            self._running_tools = False
            self._acts.tools_run(False)

    def _give_up_for_time(self) -> None:
        self._performer.put(self._repeats.release())  # it counts them
        self._performer.drop()
        self._acts.hurry()
        if self._acts.visible or self._performer.performing:
            self._turn.exceed()
            return
        self._tell_failure(f"No answer came within {self._limits.seconds:g} seconds.")
        self._apologize()
        self._turn.exceed()

    def _tell_failure(self, text: str) -> None:
        """One notice for people, after all that was put before."""
        self._failed = True
        self._performer.show(Failed(text))

    def _refuse(self, text: str) -> None:
        """Tell that there is no more to be used: in character, where the persona has words for it."""
        said = self._turn.say(self._when_tired or text)
        if said:
            self._performer.put(said)
        else:  # it has no command to say something with
            self._performer.show(Failed(text))

    def _apologize(self) -> None:
        """A word in character, where nothing was said yet."""
        if self.halted is None and not self._acts.visible and self._when_broken:
            self._performer.put(self._turn.say(self._when_broken))


class _FirstWord:
    """The wait for the first word of a model's answer; made when it is asked.

    While it reads its prompt the time is not the turn's, and after a while people see that there is something
    to come.

    Args:
        acts: to show that.
        deadline: of the turn, which is moved.
        latest: the loop's time to which it is moved at most.
    """

    def __init__(self, acts: Acts, deadline: asyncio.Timeout | None, latest: float) -> None:
        loop = asyncio.get_running_loop()
        ends = deadline.when() if deadline else None
        self._acts = acts
        self._deadline = deadline
        self._latest = latest
        self._left = math.inf if ends is None else ends - loop.time()
        self._moved_to: float | None = None
        self._came = False
        self._slow = loop.call_later(_SLOW_SECONDS, acts.model_reads, True)

    def read_on(self) -> None:
        """The model reads: the turn waits for it."""
        if not self._came and self._moved_to is None:
            self._move(max(self._latest, asyncio.get_running_loop().time() + self._left))

    def came(self) -> None:
        """The first word came, or none will; from now on the time is the turn's, all that is left of it."""
        if self._came:
            return
        self._came = True
        self._slow.cancel()
        self._acts.model_reads(False)
        if self._deadline is not None and self._deadline.when() == self._moved_to:
            self._move(asyncio.get_running_loop().time() + self._left)

    def _move(self, when: float) -> None:
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(when)
            self._moved_to = when


def _parts(delta: Delta) -> Sequence[Delta]:
    """The delta, or a long text in pieces: reading one takes milliseconds, whatever is written in it."""
    if type(delta) is not Text or len(delta.text) <= _MOST_AT_ONCE:
        return (delta,)
    text = delta.text
    return [Text(text[at : at + _MOST_AT_ONCE]) for at in range(0, len(text), _MOST_AT_ONCE)]
