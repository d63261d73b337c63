"""What comes back without a helper, in any script; and what is left of entries that are too long."""

import pytest

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval import RetrievalAgent, reader
from pixi.knowledge.retrieval.findings import NOT_IN_WHAT_WAS_READ, NOT_THERE
from pixi.knowledge.retrieval.passages import MOST_CHARACTERS, narrowed
from pixi.knowledge.retrieval.reader import FAR, NEAREST
from pixi.testing import ScriptedModel
from tests.knowledge.retrieval.scene import BRIDGE_ENTRY, LARGE, NOTHING, TEA_ENTRY, entry

TEXTS = {
    "en": "The ferry leaves at 07:40. A crossing costs four crowns, and cats travel free.",
    "zh": "龙井是绿茶，水温用八十五度就好，太烫会发苦。",
    "fa": "نان سنگک روی ریگ داغ پخته می‌شود و کنجد دارد.",
    "th": "ชาเขียวควรชงด้วยน้ำร้อนแปดสิบองศา มิฉะนั้นจะขม",
}


def entry_in(language: str) -> Entry:
    return Entry(1, "one.md", "", "one", (Section(TEXTS[language]),), language)


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "What does a crossing cost?"),
        ("zh", "龙井用多少度的水"),
        ("zh", "龙井的水温是多少？"),
        ("fa", "نان سنگک روی چه پخته می‌شود؟"),
        ("th", "ชาเขียวควรชงด้วยน้ำกี่องศา"),
    ],
)
async def test_a_question_on_a_text_brings_it_back(language: str, question: str) -> None:
    findings = await RetrievalAgent(None).query(question, [entry_in(language)])
    assert findings.relevant
    assert findings.relevant[0].text in TEXTS[language]
    assert findings.note == NEAREST


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "Who won the match on Sunday?"),
        ("zh", "昨天的足球比赛谁赢了？"),
        ("fa", "دیروز چه کسی مسابقه را برد؟"),
        ("th", "เมื่อวานใครชนะการแข่งขันฟุตบอล"),
    ],
)
async def test_of_a_question_on_something_else_nobody_claims_that_nothing_is_there(
    language: str, question: str
) -> None:
    findings = await RetrievalAgent(None).query(question, [entry_in(language)])
    assert findings.relevant[0].text in TEXTS[language]  # the nearest there is
    assert findings.note == FAR


async def test_what_stands_below_a_heading_answers_to_it() -> None:
    sections = (
        Section("It is the bell that tells.", "In fog"),
        Section("Heat the pan for ten minutes.", "The first one is always bad"),
        Section("The first bell rings at six.", "Mornings"),
    )
    one = Entry(1, "one.md", "", "Failures", sections, "headed")
    findings = await RetrievalAgent(None).query("Why is the first one always bad?", [one])
    assert findings.relevant[0].text == "Heat the pan for ten minutes."


FILLER = "The river runs past the mill, and the miller counts his sacks of rye."


def long_text(said: str, lines: int = 15_000, at: int = 14_234) -> str:
    written = [FILLER] * lines
    written[at - 1] = said
    return "\n".join(written)


def test_what_is_short_stays_as_it_is() -> None:
    assert narrowed("Who built it?", [BRIDGE_ENTRY, TEA_ENTRY]) == ((BRIDGE_ENTRY, TEA_ENTRY), "")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How do axolotls stay young?", "The axolotl stays young all its life."),
        ("AXOLOTL?", "An axolotl."),
        ("西湖龙井产自哪里？", "西湖龍井产自杭州。"),
        ("اژدها کجا زندگی می‌کند؟", "اژدها در کوه زندگی مي‌كند."),
    ],
)
def test_what_the_question_is_about_is_left_with_its_line(question: str, said: str) -> None:
    long = entry(1, "Long", Section(long_text(said), heading="Above", line=11))
    (short, bridge), note = narrowed(question, [long, BRIDGE_ENTRY])
    left = sum(len(section.text) for section in (*short.sections, *bridge.sections))
    assert left <= MOST_CHARACTERS < len(long.sections[0].text)
    assert note == (
        f"of {len(long.sections[0].text) + len(BRIDGE_ENTRY.sections[0].text):,} characters only the "
        f"{left:,} most like the question were looked at"
    )
    (section,) = (each for each in short.sections if said in each.text)
    assert section.heading == "Above"
    assert section.line_at(section.text.index(said)) == 14_234 + 10
    assert (short.id, short.digest) == (long.id, long.digest)


def test_a_text_without_any_place_to_cut_is_cut() -> None:
    whole = "x" * (2 * MOST_CHARACTERS)
    (short,), _ = narrowed("Where is it?", [entry(1, "Long", whole)])
    assert all(section.line == 1 for section in short.sections)
    assert 0 < sum(len(section.text) for section in short.sections) <= MOST_CHARACTERS


async def test_the_agent_finds_it_and_says_what_it_did_not_look_at() -> None:
    long = entry(1, "Long", long_text("The axolotl stays young all its life."))
    agent = RetrievalAgent(None)
    findings = await agent.query("How does the axolotl stay young?", [long])
    await agent.close()
    assert findings.relevant[0].text.startswith("The axolotl stays young all its life.")
    assert findings.relevant[0].source.line == 14_234
    assert "most like the question were looked at" in findings.note


async def test_the_agent_does_not_say_that_it_is_not_there_where_it_did_not_look_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_MOST_PARTS", 100)
    agent = RetrievalAgent(ScriptedModel(*[NOTHING] * 100, traits=LARGE))
    findings = await agent.query("How does the axolotl stay young?", [entry(1, "Long", long_text("No."))])
    await agent.close()
    assert NOT_THERE not in findings.note
    assert findings.note.startswith(f"{NOT_IN_WHAT_WAS_READ}; of ")
