"""A reader of entries for one question: numbered sentences go to a helper model, numbers come back."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from itertools import zip_longest
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.errors import ModelError, Reporter, silent
from pixi.core.llm import Delta, PromptProgress, Request, SystemLine, UserLine
from pixi.core.prompt import fill
from pixi.core.spending import Count
from pixi.core.untrusted import clipped, display_line
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval.findings import (
    LONGEST_REPLY,
    NOT_IN_WHAT_WAS_READ,
    NOT_THERE,
    Answer,
    SourceSpan,
    quoted,
    read_reply,
    runs_on,
)
from pixi.knowledge.retrieval.passages import (
    Passages,
    PromptPart,
    Sentence,
    parts_of,
    sentences,
    sentences_of,
    tokens_in,
)
from pixi.models.model import Model, ask

MOST_FACTS = 10
"""Sentences that are given back."""

NEAREST = "the passages nearest to the question: no model has read the documents for it"
FAR = (
    "no model has read the documents for the question, and no passage is plainly on it: these are the "
    "nearest, and there may be more"
)
NO_TEXT = "there is no text to read"
CUT_OFF = "reading was cut off, as the time was up"

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "answerable": {"type": "boolean"},  # first: a small model that has begun a list does not stop
        "sentences": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["answerable", "sentences"],
    "additionalProperties": False,
}

_LARGEST_PART = 8_000  # tokens; more at once, and helpers overlook things
_MOST_PARTS = 32
_REPLY_SHARE = 0.25  # of the model's context
_LONGEST_REPLY_TOKENS = 2_000  # thoughts included
_FAR_PASSAGES = 3  # given where none is plainly on the question
_CHARACTERS = 5_000  # of facts that are given back together
_LONGEST_FACT = 900  # characters of sentences that are given back as one
_QUESTION_TOKENS = 128  # parts have room for a question of a multiple of this: another has the same parts
# A helper that may read for long, but begins its first reply within this many seconds, is asked for several
# parts at once. A slower one reads one after the other anyway: the others would be given up for its silence.
_QUICK_SECONDS = 15.0
# Of the time that there is, what is kept to put the best passages together in.
_RESERVE_SHARE, _RESERVE_SECONDS = 0.15, 10.0
_LONGEST_NAME = 40  # characters


@cache
def instruction() -> str:
    """Return the prompt that tells a helper what to do. It is the same for every question."""
    text = resources.files("pixi.knowledge.retrieval").joinpath("prompts", "read.md").read_text("utf-8")
    return fill(text.strip(), {"facts": str(MOST_FACTS)})


def answer_unread(passages: Passages, dropped: int = 0) -> Answer:
    """Answer without a helper: with passages, and a note that nobody read them. It claims no absence."""
    if found := passages.best(MOST_FACTS // 2):
        return Answer(_within(found), dropped, NEAREST)
    found = passages.nearest(_FAR_PASSAGES)
    return Answer(_within(found), dropped, FAR if found else NO_TEXT)


class _Read(Struct, frozen=True):
    """Result of a part: the numbers of its sentences that answer, best first; and how many are none."""

    found: Sequence[int]
    dropped: int


class EntryReader:
    """Reads entries for one question.

    The server of a helper keeps what it has read, as long as a prompt begins like the one before. So each
    prompt is the instruction, then a part of the documents, then the question; and parts do not depend on
    the question, unless there is more than can be read.

    Args:
        at_once: requests that may be open side by side, unless the helper reads slowly.
        count: told what each request used.
        seconds: for all of it; what is not read by then is answered with its best passages.
        progress: told how far it is, in a line for people.

    Attributes:
        trouble: why the helper did not read all of it, for the operator; "" where it did.
    """

    def __init__(
        self,
        model: Model,
        question: str,
        entries: Sequence[Entry],
        *,
        at_once: int,
        seconds: float,
        count: Count | None = None,
        progress: Reporter = silent,
    ) -> None:
        self._model = model
        self._question = question
        self._entries = entries
        self._at_once = at_once
        self._quick = not model.traits.reads_long
        self._room = asyncio.Semaphore(at_once if self._quick else 1)
        self._alive = False  # the helper gave a sign of life
        self._seconds = seconds
        self._count = count
        self._ends = asyncio.get_running_loop().time() + _usable(seconds)
        self._progress = _Progress(entries, progress)
        self.trouble = ""
        self._refusal: ModelError | None = None  # the same for every part
        self._cut_off = False
        self._sentences: list[Sentence] = []

    async def answer(self) -> tuple[Answer, bool]:
        """Return the answer, and True if all was read as it should be: then it may be kept."""
        self._sentences = await asyncio.to_thread(sentences_of, self._entries)
        parts, left_out = await asyncio.to_thread(self._parts)
        reads = await self._side_by_side(parts)
        found, dropped = _ranked(reads), sum(read.dropped for read in reads)
        unread = len(parts) - len(reads)
        if unread or (dropped and not found):
            return await self._mended(found, dropped, unread, len(parts)), False
        notes = [] if found else [NOT_IN_WHAT_WAS_READ if left_out else NOT_THERE]
        if left_out:
            notes.append(
                f"{left_out} of {len(self._sentences)} sentences were not read, being least like the question"
            )
        facts = self._together(await self._fewer(found))
        return Answer(_within(facts), dropped, "; ".join(notes)), not self.trouble

    def _parts(self) -> tuple[list[PromptPart], int]:
        """Return the parts to read, and how many sentences are in none: those least like the question."""
        everything, tokens = range(len(self._sentences)), self._tokens_of_a_part()
        parts = self._cut(everything, tokens)
        if len(parts) <= _MOST_PARTS:
            return parts, 0
        passages = Passages(self._question, self._entries, self._sentences)
        room, chosen = tokens * (_MOST_PARTS - 2), []
        for number in sorted(everything, key=lambda number: -passages.likeness(number)):
            room -= tokens_in(self._sentences[number].text) + 8
            if room < 0:
                break
            chosen.append(number)
        parts = self._cut(sorted(chosen), tokens)[:_MOST_PARTS]
        return parts, len(everything) - sum(len(part.numbers) for part in parts)

    def _cut(self, chosen: Iterable[int], tokens: int) -> list[PromptPart]:
        return parts_of(self._entries, self._sentences, chosen, tokens)

    def _tokens_of_a_part(self) -> int:
        context = self._model.traits.context_tokens
        reply = min(_LONGEST_REPLY_TOKENS, int(context * _REPLY_SHARE))
        question = -(-tokens_in(self._question) // _QUESTION_TOKENS) * _QUESTION_TOKENS
        told = tokens_in(instruction()) + question + 64
        return max(128, min(_LARGEST_PART, context - reply - told))

    async def _side_by_side(self, parts: Sequence[PromptPart]) -> list[_Read]:
        """Return what came of the parts; what could not be read, or not in time, is left out."""
        self._progress.expect([tokens_in(instruction()) + tokens_in(part.text) for part in parts])
        tasks = [asyncio.create_task(self._read(number, part)) for number, part in enumerate(parts)]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._left())
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return [read for outcome in outcomes if (read := self._outcome(outcome)) is not None]

    def _outcome(self, outcome: _Read | BaseException | None) -> _Read | None:
        match outcome:
            case _Read():
                return outcome
            case None:
                self.trouble = self.trouble or "what it answered is no answer"
            case asyncio.CancelledError():
                self._cut_off = True
                self.trouble = self.trouble or f"it took more than {self._seconds:g} s"
            case ModelError():
                self.trouble = str(outcome)  # before all else: it names the mend
            case _:
                raise outcome
        return None

    async def _read(self, number: int, part: PromptPart) -> _Read | None:
        async with self._room:
            if self._refusal:
                raise self._refusal
            asked_at = asyncio.get_running_loop().time()

            def heard(delta: Delta) -> None:
                self._alive = True
                if isinstance(delta, PromptProgress):
                    self._progress.reads(number, delta)
                else:
                    self._progress.has_read(number)
                    self._open_room(asked_at)

            told = UserLine(f"{part.text}\n\nQuestion: {self._question}")
            request = Request((SystemLine(instruction()), told), schema=SCHEMA)
            try:
                reply = await ask(
                    self._model, request, self._count, longest=LONGEST_REPLY, heard=heard, enough=_runs_on
                )
            except ModelError as error:
                if error.permanent or not self._alive:
                    self._refusal = error
                raise
        return await asyncio.to_thread(self._checked, reply, part)

    def _open_room(self, asked_at: float) -> None:
        """Ask for several parts at once from now on, if the helper began to answer this one soon."""
        if not self._quick and asyncio.get_running_loop().time() - asked_at <= _QUICK_SECONDS:
            self._quick = True
            for _ in range(self._at_once - 1):
                self._room.release()

    def _checked(self, reply: str, part: PromptPart) -> _Read | None:
        """Return the sentences of a part that a reply names; None where it is no answer."""
        answer = read_reply(reply)
        if answer.answerable is False:
            return _Read((), 0)
        here = {number: self._sentences[number].text for number in part.numbers}
        found: dict[int, None] = {}
        dropped = 0
        for item in answer.items:
            numbers = [item - 1] if isinstance(item, int) else self._quoted(item, here)
            known = [number for number in numbers if number in here]
            found |= dict.fromkeys(known)
            dropped += not known
        if answer.answerable is None:
            return _Read(tuple(found)[:MOST_FACTS], 0) if found else None
        if not found and not dropped:
            return None  # that there is an answer, and not where
        return _Read(tuple(found)[:MOST_FACTS], dropped)

    def _quoted(self, quotation: str, here: dict[int, str]) -> list[int]:
        """Return the sentence that a quotation is of, or, if it is several sentences, each of them."""
        whole = quoted(quotation, here)
        if whole is not None:
            return [whole]
        parts = [quotation[start:end] for start, end in sentences(quotation[:_LONGEST_FACT])]
        return [n for part in parts if len(parts) > 1 and (n := quoted(part, here)) is not None]

    async def _mended(self, found: Sequence[int], dropped: int, unread: int, parts: int) -> Answer:
        """Return what was found, and passages for what could not be read."""
        unasked = await asyncio.to_thread(
            lambda: answer_unread(Passages(self._question, self._entries, self._sentences), dropped)
        )
        cut_off = [CUT_OFF] if self._cut_off else []
        if not found:
            return replace(unasked, note="; ".join([*cut_off, unasked.note]))
        facts = self._together(found[:MOST_FACTS])
        others = [place for place in unasked.found if not any(place.overlaps(fact) for fact in facts)]
        note = f"{unread} of {parts} parts of the documents could not be read; for these, {NEAREST}"
        return Answer(_within([*facts, *others][:MOST_FACTS]), dropped, "; ".join([*cut_off, note]))

    async def _fewer(self, found: list[int]) -> list[int]:
        """Return the sentences that answer best: too many are shown to the helper once more."""
        for _ in range(3):
            if len(found) <= MOST_FACTS:
                break
            parts = self._cut(sorted(found), self._tokens_of_a_part())
            self._progress = _Progress(self._entries, silent)  # it has told that all was read
            reads = await self._side_by_side(parts)
            chosen = _ranked(reads)
            if len(reads) < len(parts) or not chosen:
                break  # nobody has compared them: the best of each part stand first
            found = chosen
        return found[:MOST_FACTS]

    def _together(self, numbers: Sequence[int]) -> list[SourceSpan]:
        """Return the places of sentences, those that follow each other as one, where the first of them is."""
        places: list[SourceSpan] = []
        left = dict.fromkeys(numbers)
        while left:
            first = last = next(iter(left))
            while first - 1 in left and self._joins(first - 1, last):
                first -= 1
            while last + 1 in left and self._joins(first, last + 1):
                last += 1
            for number in range(first, last + 1):
                del left[number]
            begins, ends = self._sentences[first].place, self._sentences[last].place
            places.append(replace(begins, end=ends.end))
        return places

    def _joins(self, first: int, last: int) -> bool:
        """Return True if sentences, from the first to the last, are of one section and not too long."""
        begins, ends = self._sentences[first].place, self._sentences[last].place
        same = (begins.entry, begins.section) == (ends.entry, ends.section)
        return same and ends.end - begins.start <= _LONGEST_FACT

    def _left(self) -> float | None:
        """Return the seconds until reading is cut off; None: it never is."""
        if self._ends == math.inf:
            return None
        return max(0.0, self._ends - asyncio.get_running_loop().time())


def _runs_on(piece: str, pieces: Sequence[str]) -> bool:
    return "," in piece and runs_on("".join(pieces))


def _usable(seconds: float) -> float:
    """Return how many of the seconds that there are may be used for reading."""
    return seconds - min(seconds * _RESERVE_SHARE, _RESERVE_SECONDS)


def _ranked(reads: Sequence[_Read]) -> list[int]:
    """Return all that was found, the best of each part first: nobody has compared the parts."""
    ranks = zip_longest(*(read.found for read in reads))
    return [number for rank in ranks for number in rank if number is not None]


def _within(found: Sequence[SourceSpan]) -> tuple[SourceSpan, ...]:
    """Return as many of the first as have room."""
    kept: list[SourceSpan] = []
    room = _CHARACTERS
    for place in found:
        room -= place.end - place.start
        if room >= 0 or not kept:
            kept.append(place)
    return tuple(kept)


class _Progress:
    """Adds up what a helper has read of the prompts for one question.

    Args:
        entries: that are read.
        report: told after each change.
    """

    def __init__(self, entries: Sequence[Entry], report: Reporter) -> None:
        self._name = _named(entries)
        self._report = report
        self._expected: list[int] = []  # tokens of each prompt, estimated
        self._known: dict[int, tuple[int, int]] = {}  # of each prompt that was begun: tokens read, and all
        self._counted = False  # a server told how far it is
        self._told = ""

    def expect(self, tokens: Sequence[int]) -> None:
        """Take the estimated tokens of the prompts."""
        self._expected = list(tokens)
        self._tell()

    def reads(self, number: int, reading: PromptProgress) -> None:
        """Take what the server told of the prompt with this number, from 0."""
        self._counted = True
        self._known[number] = (reading.done, max(reading.done, reading.total))
        self._tell(reading)

    def has_read(self, number: int) -> None:
        """Take note that the prompt with this number was read: the reply has begun."""
        done, total = self._known.get(number, (0, self._expected[number]))
        if done < total or number not in self._known:
            self._known[number] = (total, total)
            self._tell()

    def _tell(self, reading: PromptProgress | None = None) -> None:
        """Report, with the seconds that the rest takes at the speed at which this prompt is read."""
        done, total = self._sums()
        if done and done >= total:
            line = f"writing down what {self._name} says"
        else:
            line = f"reading {self._name}"
            if self._counted:
                line += f" · {done:,} of {total:,} tokens"
            if reading is not None and reading.seconds and reading.done < reading.total:
                seconds = reading.seconds * (total - done) / (reading.total - reading.done)
                line += f" · {max(1, round(seconds)):,} s to go"
        if line != self._told:
            self._told = line
            self._report(line)

    def _sums(self) -> tuple[int, int]:
        """Return the tokens that were read and all tokens, of all prompts together.

        Those that were not begun are estimated, and the estimate goes by how far it was off before.
        """
        done = sum(read for read, _ in self._known.values())
        known = sum(total for _, total in self._known.values())
        estimated = sum(self._expected[number] for number in self._known)
        rest = sum(self._expected) - estimated
        return done, known + (round(rest * known / estimated) if estimated else rest)


def _named(entries: Sequence[Entry]) -> str:
    """Return the name of what is read: of one file or page, and how many there are besides."""
    names = list(dict.fromkeys(_name(entry) for entry in entries))
    others = len(names) - 1
    return names[0] + (f" and {others} other{'s' if others > 1 else ''}" if others else "")


def _name(entry: Entry) -> str:
    name = entry.title if "://" in entry.path else PurePosixPath(entry.path).name
    return clipped(display_line(name or entry.title), _LONGEST_NAME)
