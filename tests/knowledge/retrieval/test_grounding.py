"""A fact held against a document: what stands there, what does not, and what is shown of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.knowledge.retrieval.grounding import Ground, Grounded, Ungrounded
from tests.steps import assert_linear, steps_of

DOCUMENTS = {
    "en": (
        "Khaju Bridge",
        "The Khaju Bridge stands in Isfahan. It was built by Shah Abbas II around 1650, on the "
        "foundations of an older bridge. It has 23 arches and is 133 metres long. The bridge does not carry "
        "cars, and 5 million people cross it each year. Anna praised Bert. "
        "From 2005 to 2014 it was repaired. Dr. J. Smith measured 3.5 m of mud. "
        "The treatment increased the blood pressure of 1,200 patients.",
    ),
    "zh": (
        "赵州桥",
        "赵州桥位于河北省赵县，由隋代工匠李春设计建造。桥长64.4米，距今已有一千四百多年。这座桥没有倒塌。"
        "它不是木桥，也不用水泥。2000年有500万人参观。",
    ),
    "fa": (
        "سی‌وسه‌پل",
        "سی‌وسه‌پل در اصفهان است و ۳۳ دهانه دارد. ساخت آن در سال ۱۵۹۹ به دستور شاه عباس آغاز شد. "
        "امروز خودرو از روی پل عبور نمی‌کند. طول پل بیشتر از ۲۹۰ متر است.",
    ),
}

STANDS = [
    ("en", "The Khaju Bridge was built by Shah Abbas II around 1650.", "It was built"),
    (
        "en",
        "Around 1650, Shah Abbas II built the Khaju Bridge on the foundations of an older bridge.",
        "It was built",
    ),
    ("en", "The bridge has twenty-three arches.", "It has 23"),
    ("en", "The bridge doesn't carry cars", "The bridge does not"),
    ("en", "5,000,000 people cross the bridge each year.", "The bridge does not"),
    ("en", "Bert was praised by Anna.", "Anna praised"),
    ("en", "J. Smith measured 3.5 m of mud", "Dr. J. Smith"),
    ("en", "the blood pressure of 1200 patients was increased by the treatment", "The treatment"),
    ("zh", "隋代工匠李春设计建造了赵州桥。", "赵州桥位于"),
    ("zh", "赵州桥距今已有1400多年", "桥长"),
    ("zh", "赵州桥不是木桥", "它不是"),
    ("zh", "2000年有五百万人参观赵州桥", "2000年"),
    ("fa", "سی‌وسه‌پل 33 دهانه دارد", "سی‌وسه‌پل در"),
    ("fa", "در سال ۱۵۹۹ ساخت پل به دستور شاه عباس آغاز شد", "ساخت آن"),
    ("fa", "از روی پل خودرو عبور نمی‌کند", "امروز"),
]


def ground(language: str) -> Ground:
    title, text = DOCUMENTS[language]
    return Ground([text], title=title)


@pytest.mark.parametrize(("language", "fact", "begins"), STANDS)
def test_a_fact_that_is_said_in_other_words_is_shown_in_the_documents_own(
    language: str, fact: str, begins: str
) -> None:
    answer = ground(language).check(fact)
    assert isinstance(answer, Grounded), answer
    assert DOCUMENTS[language][1][answer.start : answer.end].startswith(begins)


DIFFERS = [
    ("en", "The Khaju Bridge has 24 arches.", "numbers"),
    ("en", "The bridge has 133 arches.", "numbers"),
    ("en", "From 2014 to 2005 it was repaired.", "numbers"),
    ("en", "5 thousand people cross it each year.", "numbers"),
    ("en", "The bridge carries cars.", "negation"),
    ("en", "It was not built by Shah Abbas II around 1650.", "negation"),
    ("en", "It never has 23 arches.", "negation"),
    ("en", "The treatment decreased the blood pressure of 1,200 patients.", "opposite"),
    ("en", "Bert praised Anna.", "roles"),
    ("en", "The Khaju Bridge stands in Shiraz.", "words"),
    ("en", "Elephants and tigers live in the forest.", "foreign"),
    ("en", "of the and", "empty"),
    ("zh", "赵州桥由隋代工匠李冰设计建造。", "words"),
    ("zh", "赵州桥桥长74.4米", "numbers"),
    ("zh", "这座桥倒塌。", "negation"),
    ("zh", "赵州桥是木桥", "negation"),
    ("fa", "سی‌وسه‌پل ۳۵ دهانه دارد", "numbers"),
    ("fa", "امروز خودرو از روی پل عبور می‌کند", "negation"),
    ("fa", "طول پل کمتر از ۲۹۰ متر است", "opposite"),
    ("fa", "سی‌وسه‌پل در اصفهان نیست و ۳۳ دهانه دارد", "negation"),
]


@pytest.mark.parametrize(("language", "fact", "reason"), DIFFERS)
def test_a_fact_that_the_document_does_not_say_is_told_apart(language: str, fact: str, reason: str) -> None:
    assert ground(language).check(fact) == Ungrounded(reason)  # type: ignore[arg-type]


def test_what_one_sentence_denies_is_not_patched_together_from_others() -> None:
    document = Ground(["Cats do not swim. Dogs swim. Cats sleep."])
    assert isinstance(document.check("Cats swim."), Ungrounded)


def test_a_fact_may_stand_in_two_sentences_beside_each_other() -> None:
    text = "The lake is deep. It holds trout. The shore is rocky."
    answer = Ground([text]).check("The lake holds trout")
    assert isinstance(answer, Grounded)
    assert text[answer.start : answer.end] == "The lake is deep. It holds trout."


def test_sections_are_kept_apart() -> None:
    document = Ground(["The lake is deep.", "It holds trout."])
    assert isinstance(document.check("The lake holds trout."), Ungrounded)
    assert document.check("It holds trout.") == Grounded(1, 0, 15, 1.0)


SENTENCES = {
    "en": [
        "A cat sat on 3 mats.",
        "Dogs do not bark in 1999!",
        "Was it Anna, or Bert?",
        "The e.g. of No. 5 is big.",
    ],
    "zh": ["猫坐在三张垫子上。", "狗在1999年没有叫！", "是安娜还是伯特？"],
    "fa": ["گربه روی ۳ فرش نشست.", "سگ‌ها در سال ۱۹۹۹ پارس نکردند!", "آنا بود یا برت؟"],
}
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([s for sentences in SENTENCES.values() for s in sentences]), st.text(max_size=30)
    ),
    max_size=8,
).flatmap(lambda parts: st.sampled_from([" ", "\n", "\n\n", "\n- "]).map(lambda joint: joint.join(parts)))


@given(st.lists(TEXTS, max_size=3), st.one_of(TEXTS, st.text(max_size=200)))
def test_whatever_is_grounded_lies_within_its_section(sections: list[str], fact: str) -> None:
    answer = Ground(sections).check(fact)
    if isinstance(answer, Grounded):
        text = sections[answer.section]
        assert 0 <= answer.start < answer.end <= len(text)
        assert text[answer.start : answer.end].strip()
        assert 0 < answer.covered <= 1


@pytest.mark.parametrize("language", SENTENCES)
def test_each_sentence_of_a_document_stands_in_it(language: str) -> None:
    text = " ".join(SENTENCES[language])
    for sentence in SENTENCES[language]:
        answer = Ground([text]).check(sentence)
        assert isinstance(answer, Grounded)
        assert text[answer.start : answer.end] == sentence


def test_a_fact_costs_little_more_in_a_hundred_times_the_text() -> None:
    filler = [f"Pancake {i} of the {w} batch weighs little." for w in "abcdefghij" for i in range(400)]
    needle = "The silver spoon was buried under a juniper tree by nobody but Ada."

    small = Ground([" ".join([*filler[:20], needle, *filler[20:40]])])
    large = Ground([" ".join([*filler, needle])])
    assert all(isinstance(document.check(needle), Grounded) for document in (small, large))
    small_steps = steps_of(lambda: small.check(needle), in_lines=True)
    assert steps_of(lambda: large.check(needle), in_lines=True) < 3 * small_steps


@pytest.mark.parametrize("letter", ["a", "。", "1", "不", "\u200c"])
def test_an_odd_document_takes_as_long_as_it_is(letter: str) -> None:
    assert_linear(lambda size: lambda: Ground([letter * size]).check(letter * size), 2_000)
