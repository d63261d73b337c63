"""What was asked in the town, what the model wrote, and what people saw: to this the bot is held."""

import re
import time
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import islice

from pixi.channels.discord.outgoing.channel import NOTICE
from pixi.testing.discord import FakeChannel, FakeMessage

SORRY = "oops, my head"
"""What Pixi says when its model fails. Edda has no words for it: then the bot gives a notice."""

_PATIENCE = 60.0
"""Seconds after which no answer can come any more: far longer than all deadlines together."""

_REPLY = re.compile(r"\br(\d+)\b")


@dataclass(eq=False, slots=True)
class Question:
    """A message that asks one persona for an answer.

    Attributes:
        mark: the word by which the model finds it, e.g. `p12`: the first letter is the persona's.
        asked: when, on the monotonic clock.
        seen: when people saw the first of an answer; None: not yet.
        excused: why it needs none; empty: it does.
    """

    mark: str
    persona: str
    room: FakeChannel
    message: FakeMessage
    asked: float = field(default_factory=time.monotonic)
    seen: float | None = None
    excused: str = ""

    @property
    def open(self) -> bool:
        """Whether nobody saw an answer yet."""
        return self.seen is None and not self.excused


@dataclass(eq=False, slots=True)
class Given:
    """What the model wrote, to one request.

    Attributes:
        kind: how, e.g. `quick` or `reset half-way`.
        marks: of the questions that it was asked.
        texts: the messages that it wrote, as far as it came.
        quiet: it may be that nothing is posted of it, by its own wish.
        reaction: it is a reaction, and no message.
    """

    number: int
    persona: str
    kind: str
    marks: tuple[str, ...]
    texts: tuple[str, ...] = ()
    quiet: bool = False
    reaction: bool = False


class Ledger:
    """Holds all of it.

    Attributes:
        questions: by their marks, in the order in which they were asked.
        given: replies, by their numbers.
        latest: the last reply that was written to each question, by its mark.
        shown_again: marks of questions that the model was shown in the history of a later one.
        notices: how often people were told that something went wrong.
        waits: when an answer was first seen, and how long that took.
    """

    def __init__(self) -> None:
        self.questions: dict[str, Question] = {}
        self.given: dict[int, Given] = {}
        self.latest: dict[str, Given] = {}
        self.shown_again: set[str] = set()
        self.notices = 0
        self.waits: list[tuple[float, float]] = []
        self._open: defaultdict[int, dict[str, Question]] = defaultdict(dict)  # by room
        self._numbers = 0

    def new_mark(self, persona: str) -> str:
        """The word for a new question to a persona."""
        return f"{persona[0]}{self.next_number()}"

    def next_number(self) -> int:
        """Of a question or a reply."""
        self._numbers += 1
        return self._numbers

    def ask(self, question: Question) -> None:
        """It was asked."""
        self.questions[question.mark] = question
        self._open[question.room.id][question.mark] = question

    def open_in(self, room: FakeChannel) -> list[Question]:
        """The questions there to which an answer may be on its way."""
        there = self._open[room.id]
        late = time.monotonic() - _PATIENCE
        for mark in [mark for mark, one in there.items() if not one.open or one.asked < late]:
            del there[mark]
        return list(there.values())

    def all_came(self, known: Container[tuple[int, str, int]]) -> bool:
        """Whether the bot has on record what it is asked: a connection that was lost may still be away."""
        waiting = (one for there in self._open.values() for one in there.values() if one.open)
        return all((one.room.id, one.persona, one.message.id) in known for one in waiting)

    def recent(self, count: int) -> list[Question]:
        """The last questions that were asked, oldest first."""
        return list(islice(reversed(self.questions.values()), count))[::-1]

    def excuse(self, questions: Iterable[Question], why: str) -> None:
        """These need no answer any more, as far as they have none."""
        for question in questions:
            if question.open:
                question.excused = why

    def write(
        self,
        number: int,
        persona: str,
        kind: str,
        marks: tuple[str, ...],
        *,
        texts: tuple[str, ...] = (),
        quiet: bool = False,
        reaction: bool = False,
    ) -> None:
        """The model writes this, in the reply of that number."""
        given = self.given[number] = Given(number, persona, kind, marks, texts, quiet, reaction)
        self.latest |= dict.fromkeys(marks, given)

    def posted(self, text: str) -> None:
        """The bot posts something: is it the first that people see of an answer?"""
        self.notices += text in (SORRY, NOTICE)
        for given in self.replies_in(text):
            self._saw(given)

    def reacted(self, message: int) -> None:
        """The bot reacts to a message, which may be an answer too."""
        asked = [one for there in self._open.values() for one in there.values() if one.message.id == message]
        for question in asked:
            given = self.latest.get(question.mark)
            if given is not None and given.reaction:
                self._saw(given)

    def replies_in(self, text: str) -> list[Given]:
        """The replies to which a posted text belongs: one, if all is well."""
        numbers = dict.fromkeys(int(number) for number in _REPLY.findall(text))
        return [self.given[number] for number in numbers if number in self.given]

    def _saw(self, given: Given) -> None:
        for mark in given.marks:
            if mark in self.questions:
                self._see(self.questions[mark])

    def _see(self, question: Question) -> None:
        if question.seen is None:
            question.seen = time.monotonic()
            self.waits.append((question.seen, question.seen - question.asked))
