"""How often the bundled model says the same again, in talks of 50 turns on the real engine.

Each talk is another one, for llama.cpp draws another seed for each request. What is a repeat here is told in
`counted`; the engine's own judgement (`pixi.core.reading`) is not asked.
"""

import asyncio
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from rapidfuzz.fuzz import ratio

from benchmarks.report import Figure, progress
from pixi.core.events import Failed
from pixi.engine import Engine
from pixi.models.llama import LocalModel, check_runtime
from pixi.personas.files import find_persona, shipped_folder
from pixi.testing import RecordingChannel

NAME = (
    "{} talk(s) of {} turns, bundled model, {}: messages repeated within five; empty replies; nearly repeated"
)
GOAL = "0 repeated, 0 empty"

PERSONAS = ("pixi", "edda")
TALKS = 3  # for each persona
_LAST = 5
_WORDS = 4  # what has no more than these may be said again: "good night!"
_NEAR = 90  # of 100: where rapidfuzz calls two messages as good as the same
_GLUED = re.compile(r"\b[^\W\d_]{17,}\b|\b\w*[a-z][A-Z]\w*\b")  # how samplers are evaded

ASKED_AGAIN = ("say that again", "sorry, can you say that again?")
LINES: tuple[str, ...] = (
    "hi! who are you?",
    "my cat is called Biscuit",
    "what did you do today?",
    "i had toast with jam for breakfast",
    "do you like the sea?",
    "i think i failed my exam today",
    "i studied for weeks and it still was not enough",
    "thanks. what do you do when you are sad?",
    "ok here is a joke: why did the crab never share? because he is shellfish",
    ASKED_AGAIN[0],
    "do you know a joke too?",
    "haha that was awful",
    "it is raining here and the bus is late",
    "what is your favourite colour?",
    "mine is green, like old bottles",
    "i started to learn the guitar last week",
    "my fingers hurt so much",
    "which song should i learn first?",
    "my neighbour hates it already",
    "what can you see from your window?",
    "i live in a city, i only see a parking lot",
    "would you rather fly or be invisible?",
    "i would fly to work and save the bus ticket",
    "my grandmother died two years ago today",
    "she made the best plum cake in the world",
    "i miss her",
    "can we talk about something else",
    "what is the weirdest thing you ever ate?",
    "i once ate a whole lemon for a bet",
    ASKED_AGAIN[1],
    "guess how much i won",
    "five euros. was it worth it?",
    "i need a name for my new plant",
    "it is a cactus with one arm",
    "ok i will call him Gerald",
    "do you believe in ghosts?",
    "my old flat made noises at night",
    "it was the fridge, of course",
    "how do you stay awake at night?",
    "i drink far too much coffee",
    "what should i cook tonight? i have rice and two eggs",
    "and if i have no soy sauce?",
    "my sister is getting married in june",
    "i have to give a speech and i am terrified",
    "how should i begin it?",
    "maybe i just sing instead",
    "do you ever get bored?",
    "tell me one thing that nobody knows about you",
    "you are funny",
    "good night, see you tomorrow",
)


@dataclass(slots=True)
class Count:
    """What came of talks.

    Attributes:
        turns: answered.
        repeated: messages of more than four words that are, word for word, one of the last five.
        near: messages that are nearly one of those.
        empty: turns without a message.
        glued: words that are two or more written as one, or as good as that.
        requests: made of the model.
        lengths: words of each message.
        seconds: of all turns together.
    """

    turns: int = 0
    repeated: int = 0
    near: int = 0
    empty: int = 0
    glued: int = 0
    requests: int = 0
    lengths: tuple[int, ...] = ()
    seconds: float = 0.0

    @property
    def in_words(self) -> str:
        """For the table."""
        return f"{self.repeated}; {self.empty}; {self.near}"

    @property
    def note(self) -> str:
        """What else there is to know."""
        return (
            f"{len(self.lengths)} messages in {self.turns} turns, "
            f"{statistics.mean(self.lengths or (0,)):.1f} words each, "
            f"{self.glued} words glued together; {self.requests / self.turns:.2f} requests and "
            f"{self.seconds / self.turns:.1f} s for a turn"
        )


def words_in(text: str) -> str:
    """The words of a message alone: no case, no punctuation, no emoji."""
    return " ".join(re.findall(r"\w+", re.sub("['’]", "", text.casefold())))


def counted(replies: Sequence[Sequence[str]], lines: Sequence[str]) -> Count:
    """Count what the messages, by turns, that answered these lines repeat, unless that was asked for."""
    count = Count(turns=len(replies))
    said: list[str] = []
    lengths = []
    for line, messages in zip(lines, replies, strict=True):
        count.empty += not messages
        for message in messages:
            words = words_in(message)
            lengths.append(len(words.split()))
            count.glued += len(_GLUED.findall(message))
            last = said[-_LAST:]
            if len(words.split()) > _WORDS and line not in ASKED_AGAIN:
                if words in last:
                    count.repeated += 1
                elif any(ratio(words, earlier) >= _NEAR for earlier in last):
                    count.near += 1
            said.append(words)
    count.lengths = tuple(lengths)
    return count


async def talk(model: LocalModel, name: str, lines: Sequence[str]) -> tuple[Count, list[list[str]]]:
    """Let a shipped persona answer the lines one after the other; gives the messages, too, by turns."""
    channel = RecordingChannel(f"benchmark:{name}")
    # The bundled model is offered no tools, so here they need not be there.
    persona = replace(find_persona(name, (shipped_folder(),)), databases=(), tools=())
    replies: list[list[str]] = []
    began = time.monotonic()
    async with Engine(model=model, persona=persona) as engine:
        for number, text in enumerate(lines, start=1):
            before = len(channel.sent)
            await engine.receive(channel.message(text), channel)
            await engine.settled()
            replies.append(channel.sent[before:])
            progress(f"repeats, {name}: {number} of {len(lines)} turns")
    if wrong := [event.text for event in channel.events if isinstance(event, Failed)]:
        raise AssertionError(wrong)
    count = counted(replies, lines)
    count.requests = sum(ended.steps for ended in channel.ended)
    count.seconds = time.monotonic() - began
    progress(f"repeats, {name}: {count.in_words}; {count.note}")
    return count, replies


async def measure(talks: int, lines: Sequence[str]) -> list[Figure]:
    """Have the talks."""
    model = await LocalModel.open(progress=progress)
    counts: dict[str, list[Count]] = {name: [] for name in PERSONAS}
    try:
        for _ in range(talks):
            for name in PERSONAS:
                counts[name].append((await talk(model, name, lines))[0])
    finally:
        await model.close()
    return [_figure(name, theirs, len(lines)) for name, theirs in counts.items()]


def _figure(name: str, counts: Sequence[Count], turns: int) -> Figure:
    total = Count(
        turns=sum(count.turns for count in counts),
        repeated=sum(count.repeated for count in counts),
        near=sum(count.near for count in counts),
        empty=sum(count.empty for count in counts),
        glued=sum(count.glued for count in counts),
        requests=sum(count.requests for count in counts),
        lengths=tuple(length for count in counts for length in count.lengths),
        seconds=sum(count.seconds for count in counts),
    )
    return Figure(
        NAME.format(len(counts), turns, name.capitalize()),
        GOAL,
        total.in_words,
        met=total.repeated == total.empty == 0,
        note=f"by talk {', '.join(count.in_words for count in counts)}; {total.note}",
    )


def run(quick: bool, talks: int = TALKS) -> list[Figure]:
    """Measure it, where llama.cpp and the weights are at hand."""
    check_runtime()
    return asyncio.run(measure(1, LINES[:2]) if quick else measure(talks, LINES))
