"""A helper that reads slowly: it is waited for, tells how far it is, and reads nothing a second time."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from pixi.core.errors import ModelError
from pixi.core.llm import PromptProgress, Request
from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.knowledge.retrieval.reader import CUT_OFF, NEAREST
from pixi.models.model import Traits
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Scripted, Step
from tests.held_clock import HeldClock
from tests.knowledge.retrieval.scene import (
    BRIDGE_ENTRY,
    LARGE,
    NOTHING,
    TEA_ENTRY,
    entry,
    reply,
    shown,
    texts,
)

pytestmark = pytest.mark.usefixtures("clock")

WHO = "Who built the Khaju bridge?"
BUILT = "It was built by Shah Abbas II around 1650, on the foundations of an older bridge."


def slow(seconds: float, *then: Step, total: int = 3_400) -> list[Step]:
    """A reply before which the prompt is read for so long, in four steps that are told."""
    steps: list[Step] = [PromptProgress(0, total)]
    for quarter in (1, 2, 3, 4):
        steps += [seconds / 4, PromptProgress(total * quarter // 4, total, seconds * (4 - quarter) / 4)]
    return [*steps, *then]


async def test_who_reads_is_waited_for_and_what_it_shows_is_told(clock: HeldClock) -> None:
    told: list[str] = []
    model = ScriptedModel(slow(600.0, reply(2)), piece=0, traits=LARGE)
    began = clock.time()
    findings = await RetrievalAgent(model).query(WHO, [BRIDGE_ENTRY], progress=told.append)
    assert clock.time() - began == 600
    assert texts(findings.relevant) == [BUILT]
    assert told == [
        "reading khaju-bridge.md",
        "reading khaju-bridge.md · 0 of 3,400 tokens",
        "reading khaju-bridge.md · 850 of 3,400 tokens · 450 s to go",
        "reading khaju-bridge.md · 1,700 of 3,400 tokens · 300 s to go",
        "reading khaju-bridge.md · 2,550 of 3,400 tokens · 150 s to go",
        "writing down what khaju-bridge.md says",
    ]


async def test_what_was_not_read_in_time_is_made_up_for_with_a_word(clock: HeldClock) -> None:
    agent = RetrievalAgent(ScriptedModel(slow(600.0, reply(2)), traits=LARGE))
    began = clock.time()
    findings = await agent.query(WHO, [BRIDGE_ENTRY], seconds=60)
    assert clock.time() - began < 60  # or whoever waits would be gone
    assert BUILT in findings.relevant[0].text
    assert findings.note == f"{CUT_OFF}; {NEAREST}"
    assert agent.trouble == "it took more than 60 s"


BOOK = entry(1, "Book", Section("\n\n".join(f"Pancake {i} weighs {i + 100} grams." for i in range(200))))
SMALL_CONTEXT = Traits(context_tokens=1_200)


class Counted(ScriptedModel):
    """A helper that counts how many of its replies were open at once."""

    most = 0

    def __init__(self, *replies: Scripted, near: bool = True) -> None:
        super().__init__(*replies, piece=0, traits=replace(SMALL_CONTEXT, reads_long=near))

    def _steps(self, reply):  # type: ignore[no-untyped-def]
        self.most = max(self.most, self.streaming)
        return super()._steps(reply)


@pytest.mark.parametrize(("seconds", "near", "at_once"), [(2.0, True, 4), (60.0, True, 1), (60.0, False, 4)])
async def test_a_slow_helper_is_asked_for_one_part_at_a_time(
    seconds: float, near: bool, at_once: int
) -> None:
    model = Counted(*[slow(seconds, NOTHING)] * 30, near=near)
    await RetrievalAgent(model).query("How heavy are they?", [BOOK])
    assert len(model.requests) > at_once
    assert model.most == at_once


async def test_the_rest_of_several_parts_is_reckoned_in() -> None:
    def read(request: Request) -> list[Step]:
        """Read twenty tokens a second, with tokens of two characters."""
        total = sum(len(str(line)) for line in request.lines) // 2
        return slow(total / 20, NOTHING, total=total)

    told: list[str] = []
    model = Counted(*[read] * 30)
    await RetrievalAgent(model).query("How heavy are they?", [BOOK], progress=told.append)
    total = sum(sum(len(str(line)) for line in request.lines) // 2 for request in model.requests)
    tokens, rest = zip(*(line.split(" · ")[1:] for line in told if line.endswith("to go")), strict=True)
    assert tokens[-1].endswith(f" of {total:,} tokens")
    seconds = [int(each.split()[0].replace(",", "")) for each in rest]
    assert seconds[0] == pytest.approx(total / 20, rel=0.2)
    assert seconds == sorted(seconds, reverse=True)


async def test_who_never_answered_is_not_asked_for_every_part() -> None:
    silent: list[Step] = [300.0, ModelError("it sent nothing for 300 s")]
    model = Counted(*[silent] * 30)
    findings = await RetrievalAgent(model).query("How heavy is pancake 17?", [BOOK])
    assert len(model.requests) == 1
    assert any("Pancake 17 " in fact.text for fact in findings.relevant)


def read_before(requests: Sequence[Request]) -> list[str]:
    """All of each prompt but the question at its end, sorted: what a server has in its cache."""
    return sorted(f"{request.lines[0]}{shown(request).rpartition('Question: ')[0]}" for request in requests)


async def prompts(question: str, entries: Sequence[Entry], traits: Traits) -> list[str]:
    """What a helper is shown for a question, but for the question."""
    model = ScriptedModel(*[NOTHING] * 40, piece=0, traits=traits)
    await RetrievalAgent(model).query(question, entries)
    assert all(shown(request).endswith(f"Question: {question}") for request in model.requests)
    return read_before(model.requests)


async def test_another_question_about_the_same_documents_has_the_same_prompt_before_it() -> None:
    few = await prompts(WHO, [BRIDGE_ENTRY, TEA_ENTRY], LARGE)
    assert few == await prompts("And which tea is it?", [TEA_ENTRY, BRIDGE_ENTRY], LARGE)
    many = await prompts("How heavy?", [BOOK, TEA_ENTRY], SMALL_CONTEXT)
    longer = f"How heavy are they, and {'really ' * 20}how many?"
    assert len(many) > 3
    assert many == await prompts(longer, [TEA_ENTRY, replace(BOOK)], SMALL_CONTEXT)
