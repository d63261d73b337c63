"""What a model gets from a database's two tools: results, and the mend for a slip."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pixi.addons.knowledge import knowledge_of, query_result, search_result
from pixi.core.errors import ToolError
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox

FERRY = "# The ferry\n\nThe ferry leaves at 07:40. A crossing costs four crowns.\n"
TOPPINGS = "# Lemon and sugar\n\nLemon wants thin pancakes.\n"
NOBODY = RetrievalAgent(None)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[DirectoryDatabase]:
    folder = tmp_path / "islands"
    folder.mkdir()
    (folder / "README.md").write_text("# The archive\n\nLife on the\nisland.\n\nMore that no model needs.\n")
    (folder / "ferry.md").write_text(FERRY)
    (folder / "toppings.md").write_text(TOPPINGS)
    opened = await DirectoryDatabase.open(folder, cache=tmp_path / "cache")
    await opened.ready()
    yield opened
    await opened.close()


async def ids(database: DirectoryDatabase, query: str) -> list[int]:
    return [each["id"] for each in (await search_result(database, query))["results"]]


async def test_a_search_gives_ids_titles_and_snippets(database: DirectoryDatabase) -> None:
    result = await search_result(database, "ferry crosing")
    assert result == {
        "database": "islands",
        "results": [
            {
                "id": result["results"][0]["id"],
                "title": "The ferry",
                "snippet": "The ferry leaves at 07:40. A crossing costs four crowns.",
            }
        ],
        "read_as": {"crosing": "crossing"},
    }
    nowhere = await search_result(database, "xylophone")
    assert nowhere["results"] == []
    assert nowhere["note"].startswith("Nothing was found.")


async def test_an_empty_database_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "void").mkdir()
    async with await DirectoryDatabase.open(tmp_path / "void", cache=tmp_path / "cache") as void:
        await void.ready()
        assert "no documents" in (await search_result(void, "ferry"))["note"]
        assert "no documents" in (await query_result(void, NOBODY, "When does the ferry leave?"))["note"]


async def test_entries_are_read_for_a_question_in_the_documents_own_words(
    database: DirectoryDatabase,
) -> None:
    (ferry,) = await ids(database, "ferry")
    for wanted in ([ferry], []):
        result = await query_result(database, NOBODY, "What does a crossing cost?", wanted)
        assert "A crossing costs four crowns." in result["relevant"][0]["fact"]
        assert result["relevant"][0]["source"]["id"] == ferry


async def test_slips_are_named_with_their_mend(database: DirectoryDatabase) -> None:
    (ferry,) = await ids(database, "ferry")
    asked = "What does a crossing cost?"
    some = await query_result(database, NOBODY, asked, [1, ferry, ferry])
    assert some["unknown_ids"] == [1]
    assert some["relevant"]
    many = await query_result(database, NOBODY, asked, [ferry, *range(1, 10)])
    assert many["not_read"] == [8, 9]
    with pytest.raises(ToolError, match=r"no entry 1, 2\. Search first"):
        await query_result(database, NOBODY, asked, [1, 2])
    for question in ("", "  \n"):
        with pytest.raises(ToolError, match="empty"):
            await query_result(database, NOBODY, question)


async def test_a_model_that_reads_is_asked_with_the_entry_alone(database: DirectoryDatabase) -> None:
    model = ScriptedModel('{"answerable": false, "sentences": []}')
    (ferry,) = await ids(database, "ferry")
    await query_result(database, RetrievalAgent(model), "What does a crossing cost?", [ferry])
    shown = "\n".join(line.text for request in model.requests for line in request.lines)
    assert "four crowns" in shown
    assert "Lemon" not in shown


async def test_the_tools_say_what_they_search(database: DirectoryDatabase) -> None:
    tools = Toolbox()
    knowledge_of(database, NOBODY, "islands_1")(Addon(CommandRegistry(), tools))
    search, query = tools
    assert (search.name, query.name) == ("search_islands_1_database", "query_islands_1_database")
    assert search.schema.description.startswith(
        'Search The archive (the folder "islands"): Life on the island.\n\nGives ids'
    )
    assert "More that" not in search.schema.description
    assert {search.source, query.source} == {"database:islands"}
    assert not search.writes
    assert set(query.schema.parameters["required"]) == {"query"}
