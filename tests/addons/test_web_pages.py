"""What a model gets of a page: its text in parts, or what it says about a question."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.addons.web import PAGES_SOURCE, ReadLimits, in_parts, question_result, text_result, web_pages
from pixi.core.errors import ToolError
from pixi.core.llm import Prices, Text, Usage
from pixi.core.masking import SecretRedactor
from pixi.documents.files import Section
from pixi.fetching.web import Web
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import EVERYBODY, Tool, Toolbox
from pixi.web.pages import PageLimits, WebPage, WebPageReader

URL = "https://kitchen.pixi-web.net/pancakes"
SECTIONS = (
    Section("Thin ones are best.", ""),
    Section("Flour, 200 g. Milk, 300 ml.", "What you need"),
    Section("The pan must be hot before the batter goes in.", "How › The pan"),
)


def page(
    text: str = "Thin ones are best.", note: str = "", sections: tuple[Section, ...] = SECTIONS
) -> WebPage:
    return WebPage(URL, "Pancakes", sections, text, note)


def test_short_page_comes_whole() -> None:
    assert text_result(page(), 1, ReadLimits()) == {
        "url": URL,
        "title": "Pancakes",
        "text": "Thin ones are best.",
    }


def test_long_page_comes_in_parts() -> None:
    text = "\n\n".join(f"Paragraph {number} of the page." for number in range(100))
    first = text_result(page(text), 1, ReadLimits(characters=1_000))
    assert (first["part"], first["parts"]) == (1, 3)
    told = [text_result(page(text), part, ReadLimits(characters=1_000))["text"] for part in (1, 2, 3)]
    assert "\n\n".join(told) == text
    assert all(len(each) <= 1_000 for each in told)
    with pytest.raises(ToolError, match="The page has 3 parts"):
        text_result(page(text), 4, ReadLimits(characters=1_000))


CALLED = WebPage(f"{URL}?{'%E7%8C%AB' * 400}", "猫" * 300, SECTIONS, "猫は魚が好きです。\n" * 3_000, "a note")


@pytest.mark.parametrize("most", [8_000, 32_768])
def test_result_is_no_longer_than_it_may_be_whatever_the_page_is_called(most: int) -> None:
    portion = ReadLimits(result_bytes=most)
    for part in range(1, text_result(CALLED, 1, portion)["parts"] + 1):
        told = text_result(CALLED, part, portion)
        assert len(json.dumps(told, ensure_ascii=False).encode()) <= most


def test_parts_are_worth_it_where_results_may_hold_next_to_nothing() -> None:
    assert len(text_result(CALLED, 1, ReadLimits(result_bytes=64))["text"]) > 100


def test_what_stands_in_the_way_is_told() -> None:
    assert text_result(page("Sign in", "the page seems to want a login"), 1, ReadLimits())["note"] == (
        "the page seems to want a login"
    )
    assert text_result(page("", sections=()), 1, ReadLimits()) == {
        "url": URL,
        "title": "Pancakes",
        "text": "",
        "note": "The page holds no text.",
    }
    with pytest.raises(ToolError, match="The page has 0 parts"):
        text_result(page("", sections=()), 2, ReadLimits())


@given(
    st.lists(
        st.sampled_from(["word", " ", "\n", "\n\n", ". ", '"', "é", "漢", "🥞", "\x01", "\\"]), max_size=400
    ),
    st.integers(1, 200),
    st.integers(20, 400),
)
def test_parts_hold_all_words_and_are_short_enough(pieces: list[str], characters: int, most: int) -> None:
    text = "".join(pieces)
    parts = in_parts(text, characters, most)
    assert "".join("".join(parts).split()) == "".join(text.split())
    for part in parts:
        assert 0 < len(part) <= characters
        assert len(json.dumps(part, ensure_ascii=False).encode()) <= most


async def test_question_brings_back_what_the_page_says_and_its_place() -> None:
    named = {"answerable": True, "sentences": ["Flour, 200 g."]}
    counted: list[str] = []

    def count(model: str, usage: Usage, prices: Prices | None = None) -> None:
        counted.append(model)

    model = ScriptedModel([Text(json.dumps(named))])
    agent = RetrievalAgent(model)
    result = await question_result(page(), agent, "How much flour?", count)
    (fact,) = result["relevant"]
    assert (result["url"], result["title"]) == (URL, "Pancakes")
    assert "Flour, 200 g." in fact["fact"]
    assert fact["section"] == "What you need"
    assert "source" not in fact
    assert counted == [model.name]


async def test_question_that_the_page_does_not_answer() -> None:
    agent = RetrievalAgent(ScriptedModel([Text('{"answerable": false, "sentences": []}')]))
    result = await question_result(page(), agent, "Who won the election?")
    assert result["relevant"] == []
    assert result["note"].startswith("The page does not seem to say it.")
    assert await question_result(page("", sections=()), agent, "Who?") == {
        "url": URL,
        "title": "Pancakes",
        "relevant": [],
        "note": "The page holds no text.",
    }


async def tool_of(pages: WebPageReader, mask: SecretRedactor, portion: ReadLimits) -> Tool:
    async def reader() -> RetrievalAgent:
        raise AssertionError("nobody asked a question")

    toolbox = Toolbox()
    web_pages(pages, reader, mask, portion)(Addon(CommandRegistry(), toolbox))
    (tool,) = toolbox
    return tool


@pytest.mark.parametrize("secret", ["kéy canary-0001", "plain-canary-0001"])
async def test_address_that_holds_a_secret_is_not_fetched_however_it_is_written(secret: str) -> None:
    mask, written = SecretRedactor(), secret
    context: Any = None
    mask.learn([secret])
    async with Web() as web:
        tool = await tool_of(WebPageReader(web, PageLimits()), mask, ReadLimits())
        for _ in range(4):
            for url in (f"127.0.0.1/?said={written}", f"http://127.0.0.1/{written}"):
                with pytest.raises(ToolError, match="holds a secret"):
                    await tool.call(context, {"url": url})
            written = "".join(f"%{byte:02x}" for byte in written.encode())


async def test_terms_of_the_tool() -> None:
    async with Web() as web:
        tool = await tool_of(WebPageReader(web, PageLimits()), SecretRedactor(), ReadLimits())
        assert (tool.name, tool.source, tool.writes, tool.personas) == (
            "read_page",
            PAGES_SOURCE,
            False,
            EVERYBODY,
        )
        assert tool.per_person is not None
        assert set(tool.schema.parameters["properties"]) == {"url", "question", "part"}
        tool = await tool_of(
            WebPageReader(web, PageLimits()), SecretRedactor(), ReadLimits(personas=("pixi",))
        )
        assert tool.personas == ("pixi",)
