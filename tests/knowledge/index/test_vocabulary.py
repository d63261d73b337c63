"""Typing mistakes: what an unknown word was meant for, and what is left as it was typed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pixi.knowledge.index import Index
from pixi.knowledge.query import WordIndex
from tests.knowledge.index.building import ids, index_of

TEXTS = {
    1: "Professional bakers weigh the flour, and it is the ingredient that matters.",
    2: "The astronomers of the observatory saw it, and the telescope was new.",
    3: "Программирование и базы данных: это не на один день, но и не на год.",
    4: "برنامه‌نویسی و پایگاه داده را در این کتاب که است می خوانیم",
    5: "图书馆里有很多关于天文学的书籍。",
    6: "หอดูดาวแห่งชาติเปิดให้เข้าชมทุกวันเสาร์",
    7: "천문대는 토요일마다 문을 연다.",
    8: "वैज्ञानिकों ने दूरबीन से तारों को देखा और यह अच्छा था।",
    10: "The gene MDA5 is not the gene TP53 and its enzyme is unlike the others.",
    9: "Room 4512 and room 4513 of the hotel are on the same floor.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    index = index_of(tmp_path_factory.mktemp("mistakes") / "index", TEXTS)
    yield index
    index.close()


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("proffesional", 1),
        ("ingerdient", 1),
        ("flouur", 1),
        ("astornomers obsevatory", 2),
        ("tlescope", 2),
        ("програмирование", 3),
        ("برنامه نوبسی", 4),
        ("图馆书", 5),
        ("天大文学", 5),
        ("หอูดดาว", 6),
        ("천대문", 7),
        ("दूरबबीन", 8),
        ("MD5A", 10),
    ],
)
def test_found_all_the_same(index: Index, query: str, number: int) -> None:
    assert ids(index.search(query, 3))[0] == number


def test_what_was_read_is_told(index: Index) -> None:
    found = index.search("the telesscope of profesional bakers", 3)
    assert found.read_as == (("telesscope", "telescope"), ("profesional", "professional"))
    assert index.candidates("Telesscope, please", 3).reading == "telescope, please"
    assert index.candidates("Telescope", 3).reading == "Telescope"


def test_known_words_and_numbers_stay(index: Index) -> None:
    assert index.search("flour telescope", 3).read_as == ()
    assert index.search("4514", 3).read_as == ()
    assert ids(index.search("4514", 3)) == []
    assert index.search("TP63 TP533", 3).read_as == ()


def test_short_and_distant_words_stay(index: Index) -> None:
    assert index.search("xy", 3).read_as == ()
    assert index.search("zzzzzzzzz", 3).hits == ()


def test_words_of_removed_documents_are_meant_no_more(tmp_path: Path) -> None:
    index = index_of(tmp_path / "index", TEXTS)
    index.change([], [2])
    index.change([], [])
    for number in range(100, 120):  # enough changes that what was removed is cleared away
        index.change([], [number])
    assert ids(index.search("telesscope", 3)) == []
    index.close()


def test_the_nearer_and_the_commoner_come_first(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    vocabulary = WordIndex.make(tmp_path / "words")
    counts = {"pancake": 90, "pancakes": 10, "pancreas": 500, "nothing": 3, "gone": 0}
    vocabulary.add(counts)
    vocabulary.add(["pancake"])

    def meant(word: str) -> list[str]:
        return [each.word for each in vocabulary.meant(word, lambda other: counts[other])]

    assert meant("pancaek") == ["pancake"]
    assert meant("pancakse") == ["pancakes"] or meant("pancakse")[0] in {"pancake", "pancakes"}
    assert meant("pamcreaz") == ["pancreas"]
    assert meant("panc4ke") == []
    assert meant("gonee") == []
    assert meant("no") == []
    vocabulary.close()


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("How many weeks?", "They may go."),
        ("Which were fewer?", "It is newer."),
        ("Wie viele?", "Die Ziele sind da."),
        ("Combien de fois?", "Le bois est fin."),
        ("Сколько это?", "Столько стоит."),
        ("پیش", "پیشه است"),
    ],
)
def test_a_common_word_is_taken_for_no_other(tmp_path: Path, query: str, held: str) -> None:
    index = index_of(tmp_path / "small", {1: held})
    read_as = index.candidates(query, 10).read_as
    index.close()
    assert read_as == ()


@pytest.mark.parametrize(
    "query", ["who has thet", "they your whom", "und der", "what them telescope", "how many", "viele"]
)
def test_words_that_say_nothing_are_taken_for_no_others(tmp_path: Path, query: str) -> None:
    texts = {1: "What the baker said: that is then the you in youth.", 2: "When the telescope was new."}
    index = index_of(tmp_path / "small", texts)
    read_as = dict(index.candidates(query, 10).read_as)
    index.close()
    assert read_as.keys() <= {"thet"}, "only what is no word"
