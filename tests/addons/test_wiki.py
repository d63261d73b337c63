"""What a model gets from a wiki's two tools: pages in their own words with links, and the mend for a slip."""

from collections.abc import AsyncIterator

import pytest

from pixi.addons.wiki import query_result, search_result, tool_names, wiki_tools
from pixi.core.errors import ToolError
from pixi.core.llm import Prices, Usage
from pixi.core.persona import Persona
from pixi.fetching.web import Web
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import EVERYBODY, Toolbox
from pixi.web.wiki import Wiki
from tests.servers.scripted_wiki import Article, ScriptedWiki, refusal

CREEPER = """<table class="infobox"><tbody><tr><th>Health points</th><td>20</td></tr></tbody></table>
<p>A creeper is a mob that explodes near players.</p><h2>Drops and more</h2>
<p>A creeper drops gunpowder when it dies.</p>"""
ARTICLES = {
    "Creeper": Article(CREEPER),
    "Gunpowder": Article("<p>Gunpowder makes TNT.</p>"),
    "苦力怕": Article("<p>苦力怕是一种会爆炸的生物。</p><h2>掉落物</h2><p>苦力怕死亡时会掉落火药。</p>"),
    "Boom": Article(redirect="Creeper"),
    "Mercury": Article('<ul><li><a href="/wiki/a" title="Mercury (planet)">x</a></li></ul>', ambiguous=True),
}


async def nobody() -> RetrievalAgent:
    """Reads by words alone."""
    return RetrievalAgent(None)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedWiki]:
    async with ScriptedWiki(dict(ARTICLES)) as server:
        yield server


@pytest.fixture
async def wiki(server: ScriptedWiki) -> AsyncIterator[Wiki]:
    async with Web() as web:
        yield Wiki(web, server.url, trusted=True)


async def test_a_search_gives_titles_snippets_and_links(wiki: Wiki, server: ScriptedWiki) -> None:
    result = await search_result(wiki, "gunpowder")
    assert result["wiki"] == "Blocks Wiki"
    assert [(each["title"], each["url"]) for each in result["results"]] == [
        ("Creeper", f"{server.root}/wiki/Creeper"),
        ("Gunpowder", f"{server.root}/wiki/Gunpowder"),
    ]
    assert "note" not in result


async def test_what_is_nowhere_is_said_to_be_nowhere(wiki: Wiki) -> None:
    result = await search_result(wiki, "xylophone")
    assert (result["results"], result["did_you_mean"]) == ([], "creeper")
    assert result["note"].startswith("Nothing was found.")


async def test_pages_are_read_in_their_own_words_with_the_link_to_the_place(
    wiki: Wiki, server: ScriptedWiki
) -> None:
    result = await query_result(wiki, nobody, "What does a creeper drop when it dies?", ["boom"])
    fact = result["relevant"][0]
    assert fact["fact"] == "A creeper drops gunpowder when it dies."
    assert fact["source"] == {
        "title": "Creeper",
        "section": "Drops and more",
        "url": f"{server.root}/wiki/Creeper#Drops_and_more",
    }
    assert result["read"] == ["Creeper"]
    assert result["redirects"] == {"boom": "Creeper"}


async def test_a_box_is_read_as_well(wiki: Wiki) -> None:
    result = await query_result(wiki, nobody, "How many health points has it?", ["Creeper"])
    assert any("Health points | 20" in fact["fact"] for fact in result["relevant"])


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What does a Creeper drop when it dies?", "Creeper"),
        ("Could you tell me whether Gunpowder smells of roses?", "Gunpowder"),
        ("苦力怕死亡时会掉落什么？", "苦力怕"),
    ],
)
async def test_without_titles_the_best_of_a_search_is_read(wiki: Wiki, question: str, title: str) -> None:
    assert title in (await query_result(wiki, nobody, question))["read"]


async def test_a_helper_reads_and_is_counted(wiki: Wiki) -> None:
    named = '{"answerable": true, "sentences": ["A creeper drops gunpowder when it dies."]}'
    agent = RetrievalAgent(ScriptedModel(named))
    counted: list[str] = []

    async def reader() -> RetrievalAgent:
        return agent

    def count(model: str, usage: Usage, prices: Prices | None) -> None:
        counted.append(model)

    result = await query_result(wiki, reader, "What does a creeper drop?", ["Creeper"], count)
    assert [each["fact"] for each in result["relevant"]] == ["A creeper drops gunpowder when it dies."]
    assert counted == ["scripted"]
    await agent.close()


async def test_a_page_that_tells_meanings_is_handed_on(wiki: Wiki) -> None:
    result = await query_result(wiki, nobody, "How far is it?", ["Mercury"])
    assert result["relevant"] == []
    assert result["ambiguous"] == [{"title": "Mercury", "may_mean": ["Mercury (planet)"]}]
    assert "ask again" in result["ask_again"]


async def test_a_title_that_is_none_comes_with_those_that_are_like_it(wiki: Wiki) -> None:
    result = await query_result(wiki, nobody, "What is it?", ["Gunpowder", "TNT", "A", "B", "C", "D"])
    assert result["read"] == ["Gunpowder"]
    assert result["missing"][0] == {"title": "TNT", "nearest": ["Gunpowder"]}
    assert result["not_read"] == ["D"]


async def test_a_title_named_twice_counts_once_and_blank_ones_not_at_all(wiki: Wiki) -> None:
    named = ["Gunpowder", "Gunpowder", "gunpowder#Use", "", "Creeper", "A", "B", "Creeper"]
    result = await query_result(wiki, nobody, "What is it?", named)
    assert result["read"] == ["Gunpowder", "Creeper"]
    assert "not_read" not in result
    assert (await query_result(wiki, nobody, "What does a Creeper drop?", [" "]))["read"] == ["Creeper"]


async def test_questions_without_words_and_walls_are_errors_for_the_model(
    wiki: Wiki, server: ScriptedWiki
) -> None:
    with pytest.raises(ToolError, match="empty"):
        await query_result(wiki, nobody, "  ")
    with pytest.raises(ToolError, match="empty"):
        await search_result(wiki, " ")
    server.stands_in_the_way = lambda _: refusal("readapidenied", "You need read permission.")
    with pytest.raises(ToolError, match="logged in"):
        await search_result(wiki, "creeper")
    with pytest.raises(ToolError, match="logged in"):
        await query_result(wiki, nobody, "What?")


def test_the_tools_are_named_after_the_wiki_and_described(wiki: Wiki) -> None:
    toolbox = Toolbox()
    setup = wiki_tools(
        "my-blocks", lambda _: wiki, nobody, toolbox.mask, about="the wiki of blocks", personas=("edda",)
    )
    setup(Addon(CommandRegistry(), toolbox))
    search, query = (toolbox.get(name) for name in tool_names("my-blocks"))
    assert search is not None
    assert query is not None
    assert (search.name, query.name) == ("search_my_blocks_wiki", "query_my_blocks_wiki")
    assert search.source == query.source == "wiki:my-blocks"
    assert search.personas == ("edda",) != EVERYBODY
    assert not search.writes
    assert "the wiki of blocks" in search.schema.description
    assert list(search.schema.parameters["properties"]) == ["query", "limit"]
    assert list(query.schema.parameters["properties"]) == ["question", "titles"]


async def test_each_persona_asks_the_wiki_of_its_own(server: ScriptedWiki, wiki: Wiki) -> None:
    asked: list[str] = []

    def of(persona: Persona) -> Wiki:
        asked.append(persona.language)
        return wiki

    toolbox = Toolbox()
    wiki_tools("wikipedia", of, nobody, toolbox.mask, about="Wikipedia", personas=None)(
        Addon(CommandRegistry(), toolbox)
    )
    tool = toolbox.get("search_wikipedia_wiki")
    assert tool is not None
    assert tool.personas == EVERYBODY
    await tool.call(_As(Persona("Qin", "…", language="zh-Hant")), {"query": "苦力怕"})  # type: ignore[arg-type]
    assert asked == ["zh-Hant"]
    toolbox.mask.learn(["苦力怕"])
    await tool.call(_As(Persona("Qin", "…")), {"query": "苦力怕"})  # type: ignore[arg-type]
    assert [each["srsearch"] for each in server.asked if "srsearch" in each] == ["苦力怕", "***"]


class _As:
    """A context, as far as these tools look at it."""

    def __init__(self, persona: Persona) -> None:
        self.persona = persona
