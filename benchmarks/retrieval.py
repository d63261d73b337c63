"""What comes back from helpers of several manners: `python -m benchmarks retrieval`.

A helper is a script that knows which sentence is wanted and answers in one manner: with its number, with
numbers beside it, by quoting or rewording it, by quoting something false. What is measured is how often the
sentence comes back, and how much of what comes back is not it. How well a real model chooses is another
question.

The documents are the short texts in `retrieval_facts/`, in English, Chinese and Persian, with facts reworded
and falsified by hand, all of a language in one query.
"""

import asyncio
import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz import fuzz

from benchmarks.report import Figure
from pixi.core.llm import AssistantLine, Request, UserLine, estimate
from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.knowledge.retrieval.passages import sentences_of
from pixi.models.model import Traits
from pixi.testing import ScriptedModel

WRITTEN = Path(__file__).parent / "retrieval_facts"
LANGUAGES = ("en", "zh", "fa")

Manner = Callable[[str, str], Sequence[int | str]]
"""Names what a helper answers, by what it is shown and the sentence that is wanted."""


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence that is wanted, among entries; and that sentence in other words, if anybody wrote them."""

    entries: Sequence[Entry]
    wanted: str
    reworded: str = ""
    falsified: str = ""


def written(language: str) -> Iterator[Case]:
    """Yield the cases written by hand."""
    rows = json.loads((WRITTEN / f"{language}.json").read_text("utf-8"))
    entries = [_entry(number, row["title"], row["text"]) for number, row in enumerate(rows)]
    for entry, row in zip(entries, rows, strict=True):
        for fact in row["reworded"]:
            yield Case(entries, _likest(fact, entry), reworded=fact)
        for _, fact in row["false"]:
            yield Case(entries, _likest(fact, entry), falsified=fact)


def _entry(number: int, title: str, text: str) -> Entry:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Entry(number + 1, f"{number}.txt", "", title or str(number), (Section(text, line=1),), digest)


def _likest(fact: str, entry: Entry) -> str:
    """Return the sentence of an entry that a fact was made of."""
    spaced = re.sub("([\u2e80-\u9fff])", r" \1 ", fact).lower()
    texts = [each.text for each in sentences_of([entry])]
    return max(
        texts,
        key=lambda text: fuzz.token_set_ratio(spaced, re.sub("([\u2e80-\u9fff])", r" \1 ", text).lower()),
    )


def _lines(told: str) -> dict[str, int]:
    return {text: int(number) for number, text in re.findall(r"^\[(\d+)\] (.*)$", told, re.MULTILINE)}


def _careless(told: str, wanted: str) -> Sequence[int]:
    chance = random.Random(wanted)
    return [_lines(told)[wanted], *chance.sample(sorted(_lines(told).values()), 2)]


MANNERS: Mapping[str, Manner] = {
    "names the number": lambda told, wanted: [_lines(told)[wanted]],
    "names it twice, as text, and one beyond the end": lambda told, wanted: [
        *[f"[{_lines(told)[wanted]}]"] * 2,
        len(_lines(told)) + 1,
    ],
    "names two more by chance": _careless,
    "counts from 0": lambda told, wanted: [_lines(told)[wanted] - 1],
    "quotes it": lambda _, wanted: [wanted],
}


@dataclass(slots=True)
class Tally:
    """What came of the cases of one manner.

    Attributes:
        found: the sentence came back.
        unread: passages came back instead, and a note that no model has read them.
        characters: that came back as what the helper had named.
        beside: those of them that are not of the sentence.
        tokens: of the helper's replies, estimated.
    """

    asked: int = 0
    found: int = 0
    unread: int = 0
    characters: int = 0
    beside: int = 0
    tokens: int = 0


async def measure(cases: Iterable[Case]) -> dict[str, Tally]:
    """Ask for each case in each manner."""
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    for case in cases:
        if case.reworded:
            await _ask(case, lambda *_: [case.reworded], tallies["rewords it"])  # noqa: B023 - asked at once
        elif case.falsified:
            await _ask(case, lambda *_: [case.falsified], tallies["falsifies it"])  # noqa: B023
        if not case.falsified:
            for name, manner in MANNERS.items():
                await _ask(case, manner, tallies[name])
    return dict(tallies)


async def _ask(case: Case, manner: Manner, tally: Tally) -> None:
    def answer(request: Request) -> str:
        told = request.lines[-1]
        assert isinstance(told, UserLine)
        reply = {"answerable": True, "sentences": manner(told.text, case.wanted)}
        text = json.dumps(reply, ensure_ascii=False)
        tally.tokens += estimate(AssistantLine(text))
        return text

    agent = RetrievalAgent(ScriptedModel(answer, piece=0, traits=Traits(context_tokens=16_000)))
    findings = await agent.query("What does it say?", case.entries)
    await agent.close()
    tally.asked += 1
    if "no model has read" in findings.note:
        tally.unread += 1
        return
    texts = [" ".join(fact.text.split()) for fact in findings.relevant]
    found = any(case.wanted in text for text in texts)
    tally.found += found
    characters = sum(map(len, texts))
    tally.characters += characters
    tally.beside += characters - len(case.wanted) * found


def run(quick: bool) -> list[Figure]:
    """The figure of the facts written by hand, which are at hand everywhere."""
    languages = LANGUAGES[:1] if quick else LANGUAGES
    cases = [case for language in languages for case in written(language)]
    tallies = asyncio.run(measure(cases))
    shares = {name: f"{each.found / each.asked:.2f}" for name, each in tallies.items()}
    named, quoted = tallies["names the number"], tallies["quotes it"]
    return [
        Figure(
            name=f"Retrieval by number: the wanted sentence of {named.asked} comes back",
            goal="1.00, and nothing else",
            ours=f"{shares['names the number']}, {named.beside / max(named.characters, 1):.2f} beside it",
            peers={f"a helper that {name}": shares[name] for name in shares if name != "names the number"},
            ratios={"reply tokens, quoted / named": f"{quoted.tokens / named.tokens:.1f}"},
            met=named.found == named.asked and not named.beside,
            note="helpers are scripts that know the sentence; who counts from 0 brings its neighbour",
        )
    ]
