"""Asking whoever sits at the terminal whether a tool may do something: y or n, and enter."""

import asyncio
import time
from typing import Protocol

from pixi.channels.channel import Question, Verdict
from pixi.channels.shortening import shortened
from pixi.channels.terminal_text import one_line, printable
from pixi.channels.terminal_transcript import Transcript

_ARGUMENTS = 800  # characters that are shown
_ARGUMENT_ROWS = 20
_TYPED_AHEAD = 0.5  # seconds in which what is entered was meant for something else
_ANSWERS: dict[str, Verdict] = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}
_TOLD: dict[Verdict, str] = {"yes": "allowed", "no": "not allowed", "nobody": "not answered in time"}


class Face(Protocol):
    """What is asked on."""

    def ask(self, prompt: str) -> None:
        """Let the person write an answer in place of their line."""
        ...

    def end_asking(self) -> None:
        """Give the person their line back."""
        ...

    def changed(self) -> None:
        """Draw what is new."""
        ...


class Asking:
    """The questions to one person, one after another.

    Args:
        transcript: where a question and what came of it are told.
        face: where the answer is written.
        persona: the name of who wants to use a tool.
    """

    def __init__(self, transcript: Transcript, face: Face, persona: str) -> None:
        self._transcript = transcript
        self._face = face
        self._persona = one_line(persona)
        self._one = asyncio.Lock()
        self._answer: asyncio.Future[Verdict] | None = None
        self._tool = ""
        self._asked_at = self._closes = 0.0
        self._unclear = False

    @property
    def open(self) -> bool:
        """Whether an answer is waited for."""
        return self._answer is not None and not self._answer.done()

    async def ask(self, question: Question, seconds: float) -> Verdict:
        """Ask, and wait so long for the answer, the turn of other questions before it included."""
        try:
            async with asyncio.timeout(seconds):
                closes = time.monotonic() + seconds
                async with self._one:
                    return await self._put(question, closes)
        except TimeoutError:
            return "nobody"

    def answered(self, text: str) -> None:
        """Take what was written as the answer, if it is one."""
        verdict = _ANSWERS.get(text.strip().casefold())
        typed_ahead = time.monotonic() - self._asked_at < _TYPED_AHEAD
        self._unclear = verdict is None or typed_ahead
        if verdict is not None and not typed_ahead:
            self._give(verdict)

    def refuse(self) -> None:
        """Answer no."""
        self._give("no")

    def status(self) -> str:
        """What is waited for, while something is."""
        left = max(0, round(self._closes - time.monotonic()))
        how = "please write y or n" if self._unclear else "y or n, and enter; Ctrl-C is no"
        return f"{self._tool} waits for you: {how} ({left} s)"

    def _give(self, verdict: Verdict) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(verdict)

    async def _put(self, question: Question, closes: float) -> Verdict:
        self._tool = one_line(question.tool)
        self._answer = asyncio.get_running_loop().create_future()
        self._asked_at, self._closes, self._unclear = time.monotonic(), closes, False
        self._transcript.tell(self._words(question), "question")
        self._face.ask("Allow it? (y/n)")
        self._face.changed()
        came: Verdict = "nobody"
        try:
            came = await self._answer
        finally:
            told = (
                _TOLD[came] if came != "nobody" or time.monotonic() >= closes - 0.1 else "not needed any more"
            )
            self._answer = None
            self._transcript.tell(f"· {self._tool}: {told}", "question")
            self._face.end_asking()
            self._face.changed()
        return came

    def _words(self, question: Question) -> str:
        lines = [f"? {self._persona} wants to use {self._tool}: {one_line(question.does)}"]
        given, left_out = shortened(printable(question.arguments).strip(), _ARGUMENTS)
        rows = given.split("\n") if given else []
        if len(rows) > _ARGUMENT_ROWS:
            half = _ARGUMENT_ROWS // 2
            left_out += sum(len(row) for row in rows[half:-half])
            rows = [*rows[:half], "…", *rows[-half:]]
        lines += [f"    {row}" for row in rows]
        lines += [f"    ({left_out:,} characters in the middle are not shown)"] if left_out else []
        return "\n".join(lines)
