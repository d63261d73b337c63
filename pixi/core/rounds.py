"""One request of a turn and all that came of it, and what of that joins the history."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pixi.core.citing import is_trace, traced
from pixi.core.deltas import Cited
from pixi.core.language import NOTE, unbroken
from pixi.core.lines import AssistantLine, Line, ToolCall, ToolLine
from pixi.core.message import Image
from pixi.core.reading import Act, ReplyReading
from pixi.core.written import joined, written

UNANSWERED = "This was stopped before it was done."
"""The answer to a call whose tool was not waited for: a call never stands without one."""

_ESCAPED_BREAK = re.compile(r"(?<!\\)((?:\\\\)*)\\u2060")


class Round:
    """One request to the model and all that came of it.

    Args:
        reading: of the reply.

    Attributes:
        broken: its stream broke off unseen, and it was asked again: nothing of it joins the history.
        calls: those that the model asked for; `answers` to them, None while there is none.
        cited: pages of the web that were not cited before.
        refused: calls came though no more may be made.
    """

    __slots__ = ("answers", "broken", "calls", "cited", "reading", "refused")

    def __init__(self, reading: ReplyReading) -> None:
        self.reading = reading
        self.broken = False
        self.calls: list[ToolCall] = []
        self.answers: list[tuple[str, tuple[Image, ...]] | None] = []
        self.cited: list[Cited] = []
        self.refused = False

    def take_call(self, call: ToolCall) -> None:
        """The model asks for a tool. What was broken in the model's prompt is whole in the call."""
        arguments = _ESCAPED_BREAK.sub(r"\1", unbroken(call.arguments))
        self.calls.append(call if arguments == call.arguments else replace(call, arguments=arguments))
        self.answers.append(None)

    def lines(self, names: Mapping[str, Iterable[str]]) -> list[Line]:
        """What was done, as delivered: clean commands, where they are from, calls with their answers.

        `names`: the commands, with their aliases.
        """
        clean = [(act.separator, _written(act, names)) for act in self.reading.acts if _is_history(act)]
        if clean and self.cited and NOTE in names:
            clean.append(("\n", written(NOTE, traced(self.cited), names)))
        text = joined(clean)
        if all(answer is None for answer in self.answers):  # calls that nobody began are not history
            return [AssistantLine(text)] if text else []
        answers = [(UNANSWERED, ()) if answer is None else answer for answer in self.answers]
        return [
            AssistantLine(text, tuple(self.calls)),
            *(
                ToolLine(call.id, call.name, text, images)
                for call, (text, images) in zip(self.calls, answers, strict=True)
            ),
        ]


def _written(act: Act, names: Mapping[str, Iterable[str]]) -> str:
    return written(act.name, act.argument, names, act.target)


def _is_history(act: Act) -> bool:
    """Whether it was performed. Where something is from, the model may not say."""
    return act.delivered and not (act.name == NOTE and is_trace(act.argument))
