"""What addons tell a persona of a message by themselves, before it answers."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pixi.core.message import Message

SECONDS = 2.0
"""How long an answer waits for a notice."""

Look = Callable[[Message], Awaitable[Sequence[str]]]
"""Given a message that is to be answered, gives what the persona should know of it: short lines, or none."""


Answered = Callable[[Message, Sequence[str]], Awaitable[None]]
"""Given a message and what of its lines the persona was told, keeps that it answered."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that is looked up for each message, e.g. where a link in it leads.

    What it says is shown to the persona above the message, as words that instruct nobody, and stays in the
    talk. A model that is small is not shown it.

    Attributes:
        source: of the tools that it goes with: only personas that have one of these are told.
        look: see `Look`; what takes longer than two seconds is left out, and so are all lines but three.
            It changes nothing: a turn may look several times before it answers, or fail.
        answered: called once the answer is on record; for what is told once. None: nothing is to be kept.
    """

    source: str
    look: Look
    answered: Answered | None = None
