"""A busy channel: many people ask at once; who is answered, in which order, and how long they wait.

The engine is real, the model and the channel are scripted. One model looks only at the last line and answers
each message in it by its number; the other looks back and answers whatever it finds unanswered.
"""

import asyncio
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.report import Figure
from pixi.core.events import TurnReport
from pixi.core.llm import AssistantLine, Request, UserLine
from pixi.core.message import Author
from pixi.core.persona import Persona
from pixi.engine import Engine
from pixi.models.model import Traits
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Step

GOAL = "everybody answered, once and in order"

_QUICK_SECOND = 0.02  # how long a second lasts where it is only a try
_FIRST_WORD = 0.8  # seconds until the model begins to write
_EACH_MESSAGE = 0.7  # seconds that it writes at one message
_MOST = 8  # messages in one reply: below the limit of a turn
_CONTEXT = 200_000  # tokens: nothing falls out of the window
_NAMED = 12  # of those who were forgotten, in the note

_SHOWN = re.compile(r"^#(\d+)[^\n]*:\n> (question \w+)$", re.MULTILINE)
_ANSWERED = re.compile(r"re: (question \w+)")


@dataclass(frozen=True, slots=True)
class Crowd:
    """People who ask so many questions each: `apart` seconds lie between one question and the next."""

    people: int
    questions: int
    apart: float

    @property
    def in_words(self) -> str:
        """Tell who they are."""
        each = "one question each" if self.questions == 1 else f"{self.questions} questions each"
        return f"{self.people} people with {each}, {f'{self.apart:g} s apart' if self.apart else 'at once'}"


CROWDS = (Crowd(10, 1, 1.0), Crowd(30, 5, 0.0))


class Answers(RecordingChannel):
    """A channel that keeps the time of each answer.

    Attributes:
        asked: when each question was asked, in order.
        answered: when each was answered first, in order.
        twice: answers to a question that was answered before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, float] = {}
        self.answered: dict[str, float] = {}
        self.twice = 0

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Note when the question was answered."""
        for question in _ANSWERED.findall(text):
            self.twice += question in self.answered
            self.answered.setdefault(question, time.perf_counter())
        return await super().send(text, nonce=nonce, answers=answers, reply_to=reply_to)


Look = Callable[[Request], Sequence[tuple[str, str]]]
"""Finds the messages that a reply answers: the number of each, and its question."""


def last_line(request: Request) -> Sequence[tuple[str, str]]:
    """Return what the last user line holds."""
    said = next(line.text for line in reversed(request.lines) if isinstance(line, UserLine))
    return _SHOWN.findall(said)


def looking_back(request: Request) -> Sequence[tuple[str, str]]:
    """Return what no reply in the history answers."""
    shown: dict[str, str] = {}
    for line in request.lines:
        if isinstance(line, UserLine):
            shown |= {question: number for number, question in _SHOWN.findall(line.text)}
    told = " ".join(line.text for line in request.lines if isinstance(line, AssistantLine))
    done = set(_ANSWERED.findall(told))
    return [(number, question) for question, number in shown.items() if question not in done]


MODELS: dict[str, Look] = {"the last line alone": last_line, "the whole history": looking_back}


def model_that(look: Look, questions: int, second: float) -> ScriptedModel:
    """Make a model that answers what it finds, as fast as one at a server writes."""

    def reply(request: Request) -> list[Step]:
        steps: list[Step] = [_FIRST_WORD * second]
        for number, question in look(request)[:_MOST]:
            steps += [f"[REPLY #{number}: re: {question}", _EACH_MESSAGE * second, "]\n"]
        return steps

    # A message can begin a reply anew, a few times each; so many requests no crowd needs.
    return ScriptedModel(*[reply] * (questions * 10), piece=0, traits=Traits(context_tokens=_CONTEXT))


async def measure(crowd: Crowd, name: str, second: float) -> Figure:
    """Let the crowd ask, and wait until the engine has nothing left to answer."""
    total = crowd.people * crowd.questions
    channel, model = Answers(), model_that(MODELS[name], total, second)
    turns: list[TurnReport] = []
    persona = Persona("Pixi", "You are Pixi, who answers everybody.")
    async with Engine(model=model, persona=persona, on_turn=turns.append) as engine:
        for number in range(total):
            person = number % crowd.people
            question = f"question p{person}q{number // crowd.people}"
            channel.asked[question] = time.perf_counter()
            await engine.receive(
                channel.message(question, author=Author(f"{person}", f"P{person}"), group=True), channel
            )
            await asyncio.sleep(crowd.apart * second)
        await engine.settled()
    work = f"{len(turns)} turns, {len(model.requests)} requests"
    return _figure(crowd, name, channel, second, work=work)


def _figure(crowd: Crowd, name: str, channel: Answers, second: float, *, work: str) -> Figure:
    asked = list(channel.asked)
    order = [asked.index(question) for question in channel.answered]
    out_of_order = sum(later < earlier for earlier, later in pairwise(order))
    waits = [(at - channel.asked[question]) / second for question, at in channel.answered.items()] or [0.0]
    forgotten = [question.removeprefix("question ") for question in asked if question not in channel.answered]
    named = ", ".join(forgotten[:_NAMED]) + (", …" if len(forgotten) > _NAMED else "")
    return Figure(
        f"Crowd: {crowd.in_words}; a model that looks at {name}",
        GOAL,
        f"{len(order)} of {len(asked)} answered, {channel.twice} twice, {out_of_order} out of order; "
        f"waited {max(waits):.1f} s at most, median {statistics.median(waits):.1f} s; {work}",
        met=not (forgotten or channel.twice or out_of_order),
        note=f"never answered: {named}" if forgotten else "",
    )


async def _measure_all(second: float) -> list[Figure]:
    """Measure side by side: nearly all of it is waiting."""
    cases = [(crowd, name) for crowd in CROWDS for name in MODELS]
    return await asyncio.gather(*(measure(crowd, name, second) for crowd, name in cases))


def run(quick: bool) -> list[Figure]:
    """Measure."""
    return asyncio.run(_measure_all(_QUICK_SECOND if quick else 1.0))
