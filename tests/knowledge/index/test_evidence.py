"""What is sure enough to be shown unasked: what a question asks for; and for small talk, nothing."""

from pathlib import Path

import pytest

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.evidence import Excerpt
from pixi.knowledge.index import Index


def entry(number: int, title: str, *sections: Section) -> Entry:
    return Entry(number, f"{title.lower()}.md", "", title, sections, "")


FERRY = entry(
    1,
    "The ferry",
    Section("The boat is white. It was built on the mainland, long ago.", "About it", line=3),
    Section(
        "In fog it waits for the bell. The ferry leaves the harbour at 07:40 and at 16:15. Cats travel free.",
        "Times",
        line=7,
    ),
    Section("A crossing costs four crowns.", "Prices", page=2),
)
OTHERS = [
    entry(2, "The bakery", Section("It opens at six in the morning. On Mondays the oven is cold.")),
    entry(3, "Biscuits", Section("A biscuit of oats and butter, for hungry days. They keep for two weeks.")),
    entry(4, "茶", Section("龙井用八十到八十五度的水泡。头一泡倒掉。")),
    *(entry(number, f"Note {number}", Section(f"Pancakes of the kind {number}.")) for number in range(5, 40)),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.open(tmp_path_factory.mktemp("index"))
    made.change([FERRY, *OTHERS], [])
    return made


def best(index: Index, text: str) -> Excerpt | None:
    return next(iter(index.sure(text, 1)), None)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("When does the ferry leave?", "The ferry leaves the harbour at 07:40"),
        ("so, when does the ferry leave the harbour", "The ferry leaves the harbour at 07:40"),
        ("when does the ferrry leave the harbuor?", "The ferry leaves the harbour at 07:40"),
        ("what does a crossing cost?", "A crossing costs four crowns."),
        ("tell me about the bakery", "It opens at six"),
        ("龙井用多少度的水？", "龙井用八十到八十五度的水泡。"),
    ],
)
def test_a_question_brings_the_sentence_that_covers_it_first(index: Index, asked: str, says: str) -> None:
    found = best(index, asked)
    assert found is not None
    assert found.text.startswith(says)


@pytest.mark.parametrize(
    "said",
    [
        "hi",
        "my cat is called Biscuit",
        "is Biscuit a good name for a cat?",
        "are you hungry?",
        "how are you?",
        "do you like pancakes?",
        "I took the ferry from the harbour",
        "what is the capital of Australia?",
        "wie geht es dir?",
        "¿cómo te llamas?",
        "你叫什么名字？",
        "元気ですか？",
        "🥞?",
        "",
        "?",
    ],
)
def test_small_talk_brings_nothing(index: Index, said: str) -> None:
    assert best(index, said) is None


def test_the_place_is_that_of_the_sentence(index: Index) -> None:
    times, prices = best(index, "When does the ferry leave?"), best(index, "what does a crossing cost?")
    assert times is not None
    assert prices is not None
    assert (times.source.section, times.source.line) == ("Times", 7)
    assert (prices.source.section, prices.source.page) == ("Prices", 2)


def test_a_pasted_page_asks_nothing(index: Index) -> None:
    assert best(index, "When does the ferry leave? " + "And so it went on. " * 60) is None


def test_an_excerpt_is_short_and_on_one_line(tmp_path: Path) -> None:
    long = Index.open(tmp_path / "index")
    long.change([entry(1, "Ferries", Section("The ferry leaves the harbour\nat dawn. " * 60))], [])
    found = best(long, "when does the ferry leave the harbour?")
    assert found is not None
    assert len(found.text) <= 240
    assert found.text.startswith("The ferry leaves the harbour at dawn.")
