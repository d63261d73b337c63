"""One question, read out of entries by a helper model: parts side by side, each fact checked, then merged."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pixi.core.deltas import Delta, PromptProgress
from pixi.core.errors import ModelError
from pixi.core.spending import Count
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval.answers import Answer
from pixi.knowledge.retrieval.asking import CHOOSE_SCHEMA, MOST_FACTS, READ_SCHEMA, ask, prompt
from pixi.knowledge.retrieval.findings import NOT_IN_WHAT_WAS_READ, NOT_THERE, Found, Place
from pixi.knowledge.retrieval.grounding import Ground, Grounded
from pixi.knowledge.retrieval.parts import Line, Part, lines_of, parts_of, tokens_in
from pixi.knowledge.retrieval.passages import best_passages, nearest_passages, without_overlaps
from pixi.knowledge.retrieval.progress import ReadingProgress, Reporter, silent
from pixi.knowledge.retrieval.replies import claims_in, numbers_in
from pixi.knowledge.retrieval.sentences import sentences
from pixi.models.model import Model

NEAREST = "the passages nearest to the question: nobody has read the documents for it"
FAR = (
    "nobody has read the documents for the question, and no passage is plainly on it: these are the nearest, "
    "and there may be more"
)
NO_TEXT = "there is no text to read"
CUT_OFF = "reading was cut off, as the time was up"
_LARGEST_PART = 8_000  # tokens; more at once, and helpers overlook things
_MOST_PARTS = 32
_REPLY_SHARE = 0.25  # of the model's context
_LONGEST_REPLY_TOKENS = 2_000
_LONGEST_CLAIM = 4_000  # characters; whoever brings back more at once has not chosen
_FAR_PASSAGES = 3  # given where none is plainly on the question
_CHARACTERS = 5_000  # of facts that are given back together
_QUESTION_TOKENS = 128  # parts have room for a question of a multiple of this: another has the same parts
# A helper that may read for long, but begins its first reply within this many seconds, is asked for several
# parts at once. A slower one reads one after the other anyway: the others would be given up for its silence.
_QUICK_SECONDS = 15.0
# Of the time that there is, what is kept to put the best passages together in.
_RESERVE_SHARE, _RESERVE_SECONDS = 0.15, 10.0


def grounds_of(entries: Sequence[Entry]) -> list[Ground]:
    """The entries, ready for facts to be held against them. Takes some 0.5 s for a million characters."""
    return [
        Ground([s.text for s in entry.sections], [s.heading for s in entry.sections], entry.title)
        for entry in entries
    ]


def passages_answer(question: str, grounds: Sequence[Ground], dropped: int = 0) -> Answer:
    """What there is to say without a helper: passages, and that nobody read them. It claims no absence."""
    if found := best_passages(question, grounds, MOST_FACTS // 2):
        return Answer(_within(found), dropped, NEAREST)
    found = nearest_passages(question, grounds, _FAR_PASSAGES)
    return Answer(_within(found), dropped, FAR if found else NO_TEXT)


@dataclass(frozen=True, slots=True)
class _Read:
    """What came of a part: the places, and how many facts have none."""

    found: list[Found]
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
        self._answers = False  # the helper gave a sign of life
        self._checking = asyncio.Lock()  # grounds are for one thread at a time
        self._seconds = seconds
        self._count = count
        self._ends = asyncio.get_running_loop().time() + _usable(seconds)
        self._progress = ReadingProgress(entries, progress)
        self.trouble = ""
        self._refusal: ModelError | None = None  # the same for every part
        self._cut_off = False
        self._lines: list[Line] = []
        self._grounds: list[Ground] = []

    async def answer(self) -> tuple[Answer, bool]:
        """The answer, and whether all was read as it should be: then it holds until something changes."""
        self._lines, self._grounds = await asyncio.to_thread(
            lambda: (lines_of(self._entries), grounds_of(self._entries))
        )
        parts, left_out = await asyncio.to_thread(self._parts)
        outcomes = await self._side_by_side(parts)
        reads = [outcome for outcome in outcomes if outcome is not None]
        found = [each for read in reads for each in read.found]
        dropped = sum(read.dropped for read in reads)
        if len(reads) < len(parts) or (dropped and not found):
            return await self._mended(found, dropped, len(parts) - len(reads), len(parts)), False
        chosen = await self._merged(found)
        notes = [] if chosen else [NOT_IN_WHAT_WAS_READ if left_out else NOT_THERE]
        if left_out:
            notes.append(
                f"{left_out} of {len(self._lines)} passages were not read, being least like the question"
            )
        return Answer(_within(chosen), dropped, "; ".join(notes)), True

    def _parts(self) -> tuple[list[Part], int]:
        """The parts to read, and how many lines are in none: of more than can be read, the least alike."""
        context = self._model.traits.context_tokens
        reply = min(_LONGEST_REPLY_TOKENS, int(context * _REPLY_SHARE))
        question = -(-tokens_in(self._question) // _QUESTION_TOKENS) * _QUESTION_TOKENS
        told = tokens_in(prompt("read")) + question + 64
        tokens = max(128, min(_LARGEST_PART, context - reply - told))
        parts = parts_of(self._entries, self._lines, range(len(self._lines)), tokens)
        if len(parts) <= _MOST_PARTS:
            return parts, 0
        best = best_passages(self._question, self._grounds, len(self._lines))
        near = {_line_at(self._lines, found.place): found.confidence for found in reversed(best)}
        order = sorted(range(len(self._lines)), key=lambda number: -near.get(number, 0.0))
        room, chosen = tokens * (_MOST_PARTS - 2), []
        for number in order:
            room -= tokens_in(self._lines[number].text) + 8
            if room < 0:
                break
            chosen.append(number)
        parts = parts_of(self._entries, self._lines, sorted(chosen), tokens)[:_MOST_PARTS]
        return parts, len(self._lines) - sum(len(part.numbers) for part in parts)

    async def _side_by_side(self, parts: Sequence[Part]) -> list[_Read | None]:
        """What came of each part; None where it could not be read, or not in time."""
        self._progress.expect([tokens_in(prompt("read")) + tokens_in(part.text) for part in parts])
        tasks = [asyncio.create_task(self._read(number, part)) for number, part in enumerate(parts)]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._left())
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return [self._outcome(outcome) for outcome in outcomes]

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

    async def _read(self, number: int, part: Part) -> _Read | None:
        told = f"{part.text}\n\nQuestion: {self._question}"
        async with self._room:
            if self._refusal:
                raise self._refusal
            asked_at = asyncio.get_running_loop().time()

            def heard(delta: Delta) -> None:
                self._answers = True
                if isinstance(delta, PromptProgress):
                    self._progress.reads(number, delta)
                else:
                    self._progress.has_read(number)
                    self._open_room(asked_at)

            try:
                reply = await ask(self._model, prompt("read"), told, READ_SCHEMA, self._count, heard=heard)
            except ModelError as error:
                if error.permanent or not self._answers:
                    self._refusal = error
                raise
        async with self._checking:
            return await asyncio.to_thread(self._checked, reply, part)

    def _open_room(self, asked_at: float) -> None:
        """Ask for several parts at once from now on, if the helper began to answer this one soon."""
        if not self._quick and asyncio.get_running_loop().time() - asked_at <= _QUICK_SECONDS:
            self._quick = True
            for _ in range(self._at_once - 1):
                self._room.release()

    def _checked(self, reply: str, part: Part) -> _Read | None:
        """The places of the facts in a reply; None where it is no answer."""
        claims = claims_in(reply)
        here = list(dict.fromkeys(self._lines[number].place.entry for number in part.numbers))
        found: list[Found] = []
        dropped = 0
        for claim in claims.claims:
            named = claim.source - 1 if claim.source is not None else -1
            first = [self._lines[named].place.entry] if 0 <= named < len(self._lines) else []
            order = [*first, *(entry for entry in here if entry not in first)]
            places = self._places(order, claim.text)
            found += [Found(place, claim.confidence) for place in places if place is not None]
            dropped += None in places
        if not claims.certain:
            return _Read(found, 0) if found else None
        return _Read(found, dropped)

    def _places(self, order: Sequence[int], fact: str) -> list[Place | None]:
        """Where a fact stands, or, if it is several sentences, each of them; None for what stands nowhere."""
        whole = self._first_place(order, fact)
        parts = [] if whole else [fact[start:end] for start, end in sentences(fact[:_LONGEST_CLAIM])]
        if len(parts) < 2:
            return [whole]
        return [self._first_place(order, part) for part in parts]

    def _first_place(self, order: Sequence[int], fact: str) -> Place | None:
        return next((place for entry in order if (place := self._place(entry, fact))), None)

    def _place(self, entry: int, fact: str) -> Place | None:
        answer = self._grounds[entry].check(fact)
        return (
            Place(entry, answer.section, answer.start, answer.end) if isinstance(answer, Grounded) else None
        )

    async def _mended(self, found: list[Found], dropped: int, unread: int, parts: int) -> Answer:
        """What was found, and passages for what could not be read."""
        async with self._checking:
            passages = await asyncio.to_thread(passages_answer, self._question, self._grounds, dropped)
        cut_off = [CUT_OFF] if self._cut_off else []
        if not found:
            return replace(passages, note="; ".join([*cut_off, passages.note]))
        together = without_overlaps([*_surest(found), *passages.found], MOST_FACTS)
        note = f"{unread} of {parts} parts of the documents could not be read; for these, {NEAREST}"
        return Answer(_within(together), dropped, "; ".join([*cut_off, note]))

    async def _merged(self, found: list[Found]) -> list[Found]:
        """The facts that answer best: those that are too many are shown to the helper once more."""
        together = without_overlaps(_surest(found), len(found))
        for _ in range(3):
            if len(together) <= MOST_FACTS:
                break
            before = len(together)
            chosen = [await self._chosen(group) for group in self._groups(together)]
            # The best of each group come first, as nobody has seen the groups beside each other.
            ranks = range(max(map(len, chosen), default=0))
            together = [group[rank] for rank in ranks for group in chosen if rank < len(group)]
            if len(together) == before:
                break
        return together[:MOST_FACTS]

    def _groups(self, found: Sequence[Found]) -> list[list[Found]]:
        """The facts in groups that the helper can hold, each larger than what may be chosen of it."""
        context = self._model.traits.context_tokens
        room = max(
            256, int(context * (1 - _REPLY_SHARE)) - tokens_in(prompt("choose")) - tokens_in(self._question)
        )
        groups: list[list[Found]] = [[]]
        used = 0
        for each in found:
            cost = tokens_in(self._quoted(each)) + 8
            if used + cost > room and len(groups[-1]) > 1:
                groups.append([])
                used = 0
            groups[-1].append(each)
            used += cost
        return groups

    def _quoted(self, found: Found) -> str:
        place = found.place
        text = self._entries[place.entry].sections[place.section].text[place.start : place.end]
        return " ".join(text.split())

    async def _chosen(self, group: list[Found]) -> list[Found]:
        """What the helper chooses of a group; the surest half where it does not answer."""
        listed = "\n".join(f"[{number}] {self._quoted(found)}" for number, found in enumerate(group, 1))
        told = f"{listed}\n\nQuestion: {self._question}"
        otherwise = group[: max(1, min(MOST_FACTS, len(group) // 2))]
        try:
            async with asyncio.timeout(self._left()):
                reply = await ask(self._model, prompt("choose"), told, CHOOSE_SCHEMA, self._count)
        except (ModelError, TimeoutError):
            return otherwise
        numbers = numbers_in(reply)
        if numbers is None:
            return otherwise
        return [group[number - 1] for number in numbers if 0 < number <= len(group)][:MOST_FACTS]

    def _left(self) -> float | None:
        """Return the seconds until reading is cut off; None: it never is."""
        if self._ends == math.inf:
            return None
        return max(0.0, self._ends - asyncio.get_running_loop().time())


def _usable(seconds: float) -> float:
    """Return how many of the seconds that there are may be used for reading."""
    return seconds - min(seconds * _RESERVE_SHARE, _RESERVE_SECONDS)


def _line_at(lines: Sequence[Line], place: Place) -> int:
    """The number of the line in which a place begins."""
    wanted = (place.entry, place.section, place.start)
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        there = lines[middle].place
        if (there.entry, there.section, there.start) <= wanted:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _surest(found: Sequence[Found]) -> list[Found]:
    return sorted(found, key=lambda each: -each.confidence)


def _within(found: Sequence[Found]) -> tuple[Found, ...]:
    """As many of the first as have room."""
    kept: list[Found] = []
    room = _CHARACTERS
    for each in found:
        room -= each.place.end - each.place.start
        if room >= 0 or not kept:
            kept.append(each)
    return tuple(kept)
