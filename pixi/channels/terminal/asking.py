"""Questions to the person at the terminal, one after another, each answered in place of the line."""

import asyncio
import math
import time
from collections.abc import Mapping

from msgspec import Struct

from pixi.channels.terminal.screen import Screen
from pixi.channels.terminal.transcript import Transcript
from pixi.core.channel import Question
from pixi.core.events import Verdict
from pixi.core.untrusted import printable, printable_line, without_middle

_ARGUMENTS = 800  # characters that are shown
_ARGUMENT_ROWS = 20
_TYPED_AHEAD = 0.5  # seconds in which what is entered was meant for something else


class _Form(Struct, frozen=True):
    """Form of a question.

    Attributes:
        asks: what is told above the line.
        prompt: what stands before the answer.
        answers: what can be written, in small letters.
        how: the status line: how to answer.
        unclear: the same, after what was no answer.
        told: what is told of the answer; of "nobody": where nobody answered in time.
        cancelled: what is told where nobody waits for the answer any more; "" for nothing.
        puts_by: whether what is no answer is put by for later.
    """

    asks: str
    prompt: str
    answers: Mapping[str, Verdict]
    how: str
    unclear: str
    told: Mapping[Verdict, str]
    cancelled: str
    puts_by: bool = False


class QuestionQueue:
    """The questions to one person, one after another.

    Args:
        transcript: where a question and what came of it are told.
        screen: where the answer is written.
        persona: the name of who wants to use a tool.
    """

    def __init__(self, transcript: Transcript, screen: Screen, persona: str) -> None:
        self._transcript = transcript
        self._screen = screen
        self._persona = printable_line(persona)
        self._one = asyncio.Lock()  # one question at a time
        # Of the question that is open, if one is. Times are on the monotonic clock.
        self._answer: asyncio.Future[Verdict] | None = None
        self._form: _Form | None = None
        self._asked_at = 0.0
        self._closes = 0.0
        self._unclear = False  # what was written last was no answer

    @property
    def open(self) -> bool:
        """Return whether an answer is waited for."""
        return self._answer is not None and not self._answer.done()

    async def ask(self, question: Question, seconds: float) -> Verdict:
        """Ask whether a tool may run, and wait so long, the turn of other questions before it included."""
        try:
            async with asyncio.timeout(seconds):
                closes = time.monotonic() + seconds
                async with self._one:
                    return await self._put(self._allowing(question), closes)
        except TimeoutError:
            return "nobody"

    async def ask_to_take_over(self, where: str) -> Verdict:
        """Ask whether this window takes the talk over; "nobody": the question was withdrawn.

        Args:
            where: where the talk is, in one line.
        """
        async with self._one:
            return await self._put(_taking(where), math.inf)

    def answered(self, text: str) -> None:
        """Take what was written as the answer, if it is one."""
        form = self._form
        if form is None:
            return
        verdict = form.answers.get(text.strip().casefold())
        self._unclear = verdict is None or time.monotonic() - self._asked_at < _TYPED_AHEAD
        if verdict is not None and not self._unclear:
            self.give(verdict)
        elif form.puts_by and text.strip():
            self._screen.put_by(text.strip())

    def give(self, verdict: Verdict) -> None:
        """Answer the question that is open; "nobody" ends one that needs no answer any more."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(verdict)

    def status(self) -> str:
        """Return what is waited for, while something is."""
        if self._form is None:
            return ""
        how = self._form.unclear if self._unclear else self._form.how
        left = self._closes - time.monotonic()
        return how if left == math.inf else f"{how} ({max(0, round(left))} s)"

    async def _put(self, form: _Form, closes: float) -> Verdict:
        self._form = form
        self._answer = asyncio.get_running_loop().create_future()
        self._asked_at, self._closes, self._unclear = time.monotonic(), closes, False
        self._transcript.tell(form.asks, "question")
        self._screen.ask(form.prompt)
        self._screen.changed()
        came: Verdict | None = None
        try:
            came = await self._answer
        finally:
            if came is None and time.monotonic() >= closes - 0.1:
                came = "nobody"
            self._answer = self._form = None
            told = form.told[came] if came else form.cancelled
            if told:
                self._transcript.tell(f"· {told}", "question")
            self._screen.end_asking()
            self._screen.changed()
        return came

    def _allowing(self, question: Question) -> _Form:
        tool = printable_line(question.tool)
        lines = [f"? {self._persona} wants to use {tool}: {printable_line(question.does)}"]
        arguments = printable(question.arguments).strip()
        given, left_out = without_middle(arguments, _ARGUMENTS, "\n…\n"), max(0, len(arguments) - _ARGUMENTS)
        rows = given.split("\n") if given else []
        if len(rows) > _ARGUMENT_ROWS:
            half = _ARGUMENT_ROWS // 2
            left_out += sum(len(row) for row in rows[half:-half])
            rows = [*rows[:half], "…", *rows[-half:]]
        lines += [f"    {row}" for row in rows]
        lines += [f"    ({left_out:,} characters in the middle are not shown)"] if left_out else []
        return _Form(
            asks="\n".join(lines),
            prompt="Allow it? (y/n)",
            answers={"y": "yes", "yes": "yes", "n": "no", "no": "no"},
            how=f"{tool} waits for you: y or n, and enter; Ctrl-C is no",
            unclear=f"{tool} waits for you: please write y or n",
            told={
                "yes": f"{tool}: allowed",
                "no": f"{tool}: not allowed",
                "nobody": f"{tool}: not answered in time",
            },
            cancelled=f"{tool}: not needed any more",
        )


def _taking(where: str) -> _Form:
    return _Form(
        asks=f"? {where}",
        prompt="Take it over? (Enter/q)",
        answers={"": "yes", "q": "no", "quit": "no", "/quit": "no"},
        how="Enter takes the talk over, q leaves",
        unclear="not sent: Enter takes the talk over, q leaves",
        told={
            "yes": "the talk goes on here",
            "no": "the talk goes on there",
            "nobody": "it ended there: the talk goes on here",
        },
        cancelled="",
        puts_by=True,
    )
