"""What comes back without a helper: the passages that a question is about, in any script, or none."""

import pytest

from pixi.knowledge.entry import Entry, Section
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.knowledge.retrieval.reader import FAR, NEAREST

TEXTS = {
    "en": "The ferry leaves at 07:40. A crossing costs four crowns, and cats travel free.",
    "zh": "龙井是绿茶，水温用八十五度就好，太烫会发苦。",
    "fa": "نان سنگک روی ریگ داغ پخته می‌شود و کنجد دارد.",
    "th": "ชาเขียวควรชงด้วยน้ำร้อนแปดสิบองศา มิฉะนั้นจะขม",
}


def entry(language: str) -> Entry:
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
    findings = await RetrievalAgent(None).query(question, [entry(language)])
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
    findings = await RetrievalAgent(None).query(question, [entry(language)])
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
