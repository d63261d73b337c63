"""Meaning beside words: what it finds, when it is trusted, and what becomes of a server that fails."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from sqlite3 import connect

import numpy as np
import pytest

from pixi.core.errors import ConfigError
from pixi.knowledge import sync
from pixi.knowledge import vectors as vectors_module
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.query import Scored
from pixi.knowledge.vectors import POOL, WEIGHT, VectorSet, joined
from pixi.models.embeddings import OpenAIEmbeddings
from pixi.models.faults import Retries
from tests.documents.at_hand import ReadersAtHand
from tests.servers.scripted_embeddings import ScriptedEmbeddings, embeddings_server
from tests.servers.scripted_openai import error
from tests.waiting import LIMIT, until, within

TOPICS = [
    "harbour",
    "violin",
    "glacier",
    "orchid",
    "pancake",
    "comet",
    "kettle",
    "tunnel",
    "falcon",
    "marble",
]
HAN = [
    "港口船只",
    "小提琴曲",
    "冰川融化",
    "兰花盛开",
    "煎饼糖浆",
    "彗星轨道",
    "水壶烧水",
    "隧道施工",
    "猎鹰飞翔",
    "大理石雕",
]
CONCEPTS = {"dock": "harbour", "fiddle": "violin", "flapjack": "pancake"}


def document(topic: str) -> str:
    return (
        f"All about the {topic}. Nothing pleases a {topic} friend like another {topic} by the window.\n"
        f"Whoever sees one {topic} wants the next {topic} soon."
    )


def han_document(topic: str) -> str:
    return f"关于{topic}的事。人们说{topic}是一件很美好的事情,因为{topic}很少见。看见{topic}的人都很高兴。"


@pytest.fixture(autouse=True)
def _readers_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "Readers", ReadersAtHand)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "things"
    made.mkdir()
    for topic in TOPICS:
        (made / f"{topic}.md").write_text(document(topic), encoding="utf-8")
    return made


@asynccontextmanager
async def opened(
    folder: Path, server: ScriptedEmbeddings, name: str = "scripted", *, wait: bool = True
) -> AsyncIterator[DirectoryDatabase]:
    model = OpenAIEmbeddings(name, base_url=server.base_url, retries=Retries(attempts=1), seconds=5)
    database = await DirectoryDatabase.open(folder, cache=folder.parent / "cache", embedder=model)
    try:
        if wait:
            await database.ready()
            await database.embedded()
        yield database
    finally:
        await database.close()
        await model.close()


async def paths(database: DirectoryDatabase, query: str) -> list[str]:
    return [hit.source.path for hit in (await database.search(query)).hits]


async def test_meaning_finds_what_no_word_does(folder: Path) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server:
        async with opened(folder, server) as database:
            assert (await paths(database, "a fiddle lesson"))[0] == "violin.md"
            assert (await paths(database, "flapjack"))[0] == "pancake.md"
            assert (await paths(database, "harbour"))[0] == "harbour.md", "words count more than meaning"
            (hit, *_) = (await database.search("flapjack")).hits
            assert "pancake" in hit.snippet
        words = await DirectoryDatabase.open(folder, cache=folder.parent / "plain")
        await words.ready()
        assert await paths(words, "flapjack") == []
        await words.close()


async def test_the_corrected_query_is_embedded_and_not_the_typed_one(folder: Path) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
        server.asked.clear()
        found = await database.search("glaicer window")
        assert found.read_as == (("glaicer", "glacier"),)
        assert server.texts == ["glacier window"]


async def test_only_what_is_new_is_embedded_again_not_even_after_a_restart(folder: Path) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server:
        async with opened(folder, server) as database:
            assert sum("All about" in text for text in server.texts) >= len(TOPICS)
            server.asked.clear()
            (folder / "raven.md").write_text(document("raven"), encoding="utf-8")
            (folder / "comet.md").write_text(document("meteor"), encoding="utf-8")
            (folder / "marble.md").unlink()
            await database.refresh()
            await database.embedded()
            assert len(server.texts) == 2
            server.concepts["space"] = "meteor"
            assert (await paths(database, "space"))[0] == "comet.md"
            assert "marble.md" not in await paths(database, "flapjack")
            server.asked.clear()
        async with opened(folder, server) as database:
            assert (await paths(database, "flapjack"))[0] == "pancake.md"
            assert server.texts == ["flapjack"]


async def test_another_model_begins_anew(folder: Path) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server:
        async with opened(folder, server):
            server.asked.clear()
        async with opened(folder, server, "another") as database:
            assert len(server.texts) >= len(TOPICS)
            assert (await paths(database, "flapjack"))[0] == "pancake.md"


async def test_a_model_is_not_trusted_with_a_script_that_it_cannot_read(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, topic in enumerate(HAN):
        (folder / f"{number}.md").write_text(han_document(topic), encoding="utf-8")
    with caplog.at_level(logging.INFO, "pixi.knowledge"):
        async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
            server.asked.clear()
            assert (await paths(database, "煎饼糖浆"))[0] == "4.md"
            assert server.texts == [], "words alone are asked"
            assert (await paths(database, "flapjack"))[0] == "pancake.md"
            assert server.texts == ["flapjack"]
    assert "does not know what is written there in cjk" in caplog.text


async def test_what_is_too_little_to_try_a_model_with_is_left_to_words(tmp_path: Path) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    for topic in TOPICS[:4]:
        (folder / f"{topic}.md").write_text(document(topic), encoding="utf-8")
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
        server.asked.clear()
        assert (await paths(database, "violin"))[0] == "violin.md"
        assert await paths(database, "fiddle") == []
        assert server.texts == []


async def test_a_server_that_fails_leaves_the_words_and_is_told_of_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
        server.failing = [error(500, "out of order")]
        asked = len(server.asked)
        for _ in range(3):
            assert await paths(database, "harbour") == ["harbour.md"]
        assert len(server.asked) == asked + 1, "for a while it is left in peace"
    assert caplog.text.count("is answered by words alone") == 1


async def test_a_slow_server_is_not_waited_for(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "QUERY_SECONDS", 0.1)
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
        server.seconds = 10 * LIMIT
        async with within("an answer by words alone"):
            assert await paths(database, "harbour") == ["harbour.md"]
            assert await paths(database, "violin") == ["violin.md"]
        server.seconds = 0
    assert "did not come within 0.1 s" in caplog.text


async def test_a_server_that_is_away_at_first_is_asked_again(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.knowledge.vectors._AGAIN", 0.05)
    away = embeddings_server(concepts=CONCEPTS, failing=[error(500, "later")] * 2)
    async with away as server, opened(folder, server) as database:
        assert await paths(database, "violin") == ["violin.md"]
        await until(lambda: paths(database, "flapjack"), "vectors")
        assert (await paths(database, "flapjack"))[0] == "pancake.md"
    assert caplog.text.count("could not be embedded") == 1


async def test_passages_that_have_no_vector_yet_are_found_by_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
        (folder / "raven.md").write_text(document("raven") + " flapjack", encoding="utf-8")
        server.failing = [error(400, "not now")]
        await database.refresh()
        await database.embedded()
        assert server.failing == []
        assert (await paths(database, "raven window"))[0] == "raven.md"
        found = await paths(database, "flapjack")
        assert set(found[:2]) == {"raven.md", "pancake.md"}


async def test_a_broken_file_of_vectors_is_made_anew(folder: Path) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server:
        async with opened(folder, server):
            pass
        path = folder.parent / "cache" / "vectors.db"
        path.write_bytes(b"not a database" * 1_000)
        for other in path.parent.glob("vectors.db-*"):
            other.unlink()
        server.asked.clear()
        async with opened(folder, server) as database:
            assert (await paths(database, "flapjack"))[0] == "pancake.md"
            assert len(server.texts) > len(TOPICS)


async def test_vectors_of_nothing_are_dropped_once_they_are_most(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "_ENTRIES_AT_ONCE", 4)
    monkeypatch.setattr(vectors_module, "_STALE", 1.5)
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server) as database:
        for round_ in range(2):
            for topic in TOPICS:
                (folder / f"{topic}.md").write_text(f"{document(topic)} Edition {round_}.", encoding="utf-8")
            await database.refresh()
            await database.embedded()
        assert (await paths(database, "flapjack"))[0] == "pancake.md"
    with closing(connect(folder.parent / "cache" / "vectors.db")) as db:
        (count,) = db.execute("SELECT count(*) FROM vectors").fetchone()
    assert count <= 1.5 * len(TOPICS)


async def test_a_second_process_takes_what_the_first_had_embedded(folder: Path) -> None:
    async with embeddings_server(concepts=CONCEPTS) as server, opened(folder, server):
        server.asked.clear()
        async with opened(folder, server) as other:
            assert (await paths(other, "flapjack"))[0] == "pancake.md"
            assert server.texts == ["flapjack"]


async def test_without_numpy_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    model = OpenAIEmbeddings("x", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match=r"pixi-persona\[embeddings\]"):
        await DirectoryDatabase.open(folder, cache=folder.parent / "cache", embedder=model)


def held(*vectors: tuple[float, float], first: int = 10) -> VectorSet:
    numbers = np.arange(first, first + len(vectors), dtype=np.int64)
    return VectorSet(numbers, numbers * 100, np.array(vectors, np.float16))


def worth(scored: list[Scored]) -> dict[int, float]:
    return {each.passage: each.score for each in scored}


EAST = np.array([1.0, 0.0], np.float32)


def test_each_says_its_share() -> None:
    vectors = held((1, 0), (0, 1), (0, 1), (-1, 0))
    scored = joined(vectors, [Scored(11, 1100, 8.0), Scored(10, 1000, 4.0)], EAST)
    assert worth(scored) == pytest.approx(
        {11: 1 - WEIGHT, 10: (1 - WEIGHT) / 2 + WEIGHT, 12: 0.0, 13: 0.0}, abs=1e-3
    )
    assert {each.passage: each.entry for each in scored}[13] == 1300


def test_of_a_passage_without_a_vector_words_say_it_all() -> None:
    scored = joined(held((1, 0), (0, 1)), [Scored(7, 700, 2.0), Scored(99, 9900, 1.0)], EAST)
    assert worth(scored)[7] == pytest.approx(1.0)
    assert worth(scored)[99] == pytest.approx(0.5)


def test_where_no_word_is_found_meaning_is_enough() -> None:
    scored = joined(held((1, 0), (0, 1)), [], EAST)
    assert max(scored, key=lambda each: each.score).passage == 10


def test_where_all_mean_the_same_words_decide() -> None:
    scored = joined(held((1, 0), (1, 0), (1, 0)), [Scored(12, 1200, 3.0), Scored(11, 1100, 1.0)], EAST)
    assert sorted(worth(scored), key=lambda number: -worth(scored)[number])[0] == 12


def test_of_many_the_nearest_come() -> None:
    angles = np.linspace(0, 3, 1_000)
    numbers = np.arange(1, 1_001, dtype=np.int64)
    many = VectorSet(numbers, numbers, np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float16))
    scored = joined(many, [], EAST)
    assert len(scored) == POOL
    assert {each.passage for each in scored} >= set(range(1, POOL - 5))
