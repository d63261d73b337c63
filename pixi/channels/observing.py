"""Tells observers what happens in turns: the raw text, where commands close in it, and their outcomes.

Without observers nothing is made or copied: then there is no `ObservedTurn`.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec.structs import asdict

from pixi.core.events import (
    Answered,
    Asked,
    Failed,
    Noted,
    Performed,
    Progressed,
    Sourced,
    ToolAnswered,
    ToolCalled,
    TurnEvent,
    TurnReport,
    to_json,
)
from pixi.core.language import CommandEnded, CommandStarted, Thought
from pixi.core.llm import Delta, Finished, PromptProgress, Request, Text
from pixi.core.message import Message
from pixi.core.reading import CommandEvent
from pixi.store.kept import Outcome

Form = dict[str, Any]
Observer = Callable[[Form], None]
"""Told what happens in all turns, as plain data; see the guide to events. Must not block."""

_OPENING = re.compile(r"[\[【［][\s*_/`]*")
_CLOSING = re.compile(r"[\]】］]")
_LONGEST_BETWEEN = 4_096  # characters before a command in which its bracket is looked for


class ObservedTurn:
    """Tells an observer of one attempt at a turn. Times are in seconds since the attempt began.

    Args:
        observer: is told.
        turn: its number in the store.
        conversation: the address.
        persona: who answers.
        names: the commands, with their aliases.
    """

    def __init__(
        self,
        observer: Observer,
        *,
        turn: int,
        conversation: str,
        persona: str,
        names: Mapping[str, Iterable[str]],
    ) -> None:
        self._observer = observer
        self._whose = {"conversation": conversation, "persona": persona, "turn": turn}
        self._names = names
        self._began = time.monotonic()
        self._step = 0
        self._asked = self._began  # when the model was asked last
        self._first: float | None = None  # seconds from there to the first piece of its reply
        self._number = 0  # of the next command that closes
        self._told = 0  # characters of this request's text that were told
        self._fed = 0  # characters of it that were read
        self._before = 0  # where the text begins that stands behind the last command
        self._between = ""  # that text, as far as it was read and no command opened
        self._opened: int | None = None  # the number of the command that is open
        self._closed: dict[int, float] = {}  # when each command closed, by its number
        self._calls: dict[str, float] = {}  # when each tool was called, by the id of the call

    # The model.

    def begun(self, messages: Sequence[Message], model: str, *, waited: float) -> None:
        """Tell that the turn is on record, and the model is about to be asked.

        Args:
            messages: those that it answers, and what was overheard.
            model: the name of the model.
            waited: seconds since the answered message came.
        """
        answers = [
            {"id": message.id, "author": message.author.name, "text": message.text}
            for message in messages
            if message.addressed
        ]
        waited = round(waited, 4)
        self._tell("turn_start", model=model, began=time.time(), waited=waited, answers=answers)

    def asked(self, request: Request, number: int) -> None:
        """Tell that the model is asked. The next command that closes has this number."""
        self._step += 1
        self._asked, self._first = time.monotonic(), None
        self._number = number
        self._told = self._fed = self._before = 0
        self._between, self._opened = "", None
        self._tell("asked", tools=[tool.name for tool in request.tools], lines=len(request.lines))

    def came(self, delta: Delta) -> None:
        """Tell of a piece that the model wrote."""
        if self._first is None:
            self._first = round(time.monotonic() - self._asked, 4)
        match delta:
            case Text(text):
                self._tell("text", offset=self._told, text=text)
                self._told += len(text)
            case Thought(text):
                self._tell("thought", text=text)
            case _:
                pass  # calls, sources and counts are told later, by the events that come of them

    def parts(self, delta: Delta) -> Sequence[Delta]:
        """Cut a text behind each closing bracket, so that it is known where a command closes."""
        if type(delta) is not Text or _CLOSING.search(delta.text) is None:
            return (delta,)
        cuts = [0, *(bracket.end() for bracket in _CLOSING.finditer(delta.text)), len(delta.text)]
        return [Text(delta.text[start:end]) for start, end in pairwise(cuts) if start < end]

    def fed(self, delta: Delta) -> None:
        """Take note of a piece that is about to be read."""
        if type(delta) is Text:
            self._fed += len(delta.text)
            if self._opened is None:
                self._between = (self._between + delta.text)[-_LONGEST_BETWEEN:]

    def read(self, events: Iterable[CommandEvent]) -> None:
        """Tell of commands that opened or closed in the pieces until now."""
        for event in events:
            if type(event) is CommandStarted:
                self._open(event.name)
            elif type(event) is CommandEnded:
                self._close(event)

    def answered(self, model: str, end: Finished, *, failed: bool) -> None:
        """Tell that the model's stream ended."""
        usage = asdict(end.usage)
        self._tell(
            "answered",
            model=end.model or model,
            finish=end.reason,
            failed=failed,
            usage=usage,
            seconds=round(time.monotonic() - self._asked, 4),
            first=self._first,
        )

    def thrown_away(self, why: Literal["repeat", "broken"]) -> None:
        """Tell that the last reply is thrown away, and the same is asked again."""
        self._tell("thrown_away", why=why)

    # The outcomes.

    def acted(self, act: str, kind: str, text: str, command: int | None, outcome: Outcome) -> None:
        """Tell of an act that was carried out, or not."""
        self._tell(
            "effect", id=act, number=command, act=kind, text=text, outcome=outcome, ms=self._since(command)
        )

    def shown(self, event: TurnEvent) -> None:
        """Tell of an event that people were shown, unless an act or a text tells of it."""
        match event:
            case Noted(text, id):
                self.acted(id, "note", text, _command_of(id), "done")
            case Performed(name, argument, id):
                self.acted(id, name, argument, _command_of(id), "done")
            case ToolCalled(id):
                self._calls[id] = time.monotonic()
                self._tell_of(event)
            case ToolAnswered(id):
                began = self._calls.pop(id, None)
                self._tell_of(event, ms=None if began is None else _ms(began))
            case PromptProgress() | Progressed() | Asked() | Answered() | Sourced() | Failed():
                self._tell_of(event)
            case _:
                pass  # told as an act, or as text

    def state(self, name: str) -> None:
        """Tell that the turn ends before its time, in this state of its life."""
        self._tell("state", state=name.lower())

    def ended(self, report: TurnReport, limits: Sequence[str], reason: str) -> None:
        """Tell that the turn is over, for a `Reason` of its life."""
        self._tell(
            "turn_end",
            finish=report.finish,
            reason=reason.lower(),
            model=report.model,
            steps=report.steps,
            usage=asdict(report.usage),
            cost=report.cost,
            seconds=round(report.seconds, 4),
            first_visible=None if report.first_visible is None else round(report.first_visible, 4),
            effects=dict(report.effects),
            limits=list(limits),
        )

    def _open(self, name: str) -> None:
        self._opened = self._number
        self._tell("open", number=self._number, name=name, offset=self._before + self._found(name))

    def _close(self, ended: CommandEnded) -> None:
        if self._opened is None:
            self._open(ended.name)
        self._closed[self._number] = time.monotonic()
        self._tell(
            "close",
            number=self._number,
            name=ended.name,
            argument=ended.argument,
            target=ended.target,
            complete=ended.complete,
            offset=self._fed,
        )
        self._number += 1
        self._opened, self._between, self._before = None, "", self._fed

    def _found(self, name: str) -> int:
        """Find where a command opens in the text behind the last one; without a bracket, its beginning."""
        words = [word.replace("_", " ").casefold() for word in (name, *self._names.get(name, ()))]
        start = self._fed - self._before - len(self._between)  # of what was kept
        for bracket in _OPENING.finditer(self._between):
            beginning = self._between[bracket.end() : bracket.end() + 64].replace("_", " ").casefold()
            if any(beginning.startswith(word) for word in words):
                return start + bracket.start()
        return start + len(self._between) - len(self._between.lstrip())

    def _since(self, command: int | None) -> float | None:
        """Return the milliseconds since a command closed; None where no command did."""
        closed = None if command is None else self._closed.get(command)
        return None if closed is None else _ms(closed)

    def _tell_of(self, event: TurnEvent, **more: object) -> None:
        form = to_json(event)
        self._tell(form.pop("event"), **form, **more)

    def _tell(self, event: str, **form: object) -> None:
        at = round(time.monotonic() - self._began, 6)
        self._observer({"event": event, **self._whose, "at": at, "step": self._step, **form})


def _ms(since: float) -> float:
    return round((time.monotonic() - since) * 1_000, 3)


def _command_of(act: str) -> int | None:
    """Return the number of the command in the id of an act, see `act_id`."""
    number = act.split(".")[1]
    return int(number) if number.isdigit() else None
