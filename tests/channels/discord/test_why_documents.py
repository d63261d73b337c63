"""Which documents stood behind a reply: read out of whatever the tools of databases answered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pixi.channels.discord.formatting import units
from pixi.channels.discord.slash.invocation import EmbedContent
from pixi.channels.discord.slash.translations import Translations
from pixi.channels.discord.slash.why import documents_in, why_embed
from pixi.core.llm import AssistantLine, Line, ToolLine, UserLine
from tests.channels.discord.test_why import RECORD, field

WORDS = Translations()
SAY = WORDS.english.say
WEB = ToolLine("d", "web", "https://example.org/a")
SOURCE = {"id": 3, "title": "Lemon sugar", "section": "Toppings", "line": 12}


def query(*sources: object, database: str = "pancakes", name: str = "query_pancakes_database") -> ToolLine:
    facts = [{"fact": "Lemon and sugar.", "source": source} for source in sources]
    return ToolLine("c", name, json.dumps({"database": database, "relevant": facts, "dropped": 0}))


def search(*titles: object, name: str = "search_pancakes_database") -> ToolLine:
    results = [{"id": number, "title": title, "snippet": "…"} for number, title in enumerate(titles)]
    return ToolLine("c", name, json.dumps({"database": "pancakes", "results": results}))


def told(*lines: Line) -> list[str]:
    return documents_in(lines, SAY)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (SOURCE, "pancakes: Lemon sugar › Toppings, line 12"),
        ({"id": 3, "title": "Lemon sugar", "page": 4}, "pancakes: Lemon sugar, page 4"),
        ({"id": 3, "title": "Lemon sugar"}, "pancakes: Lemon sugar"),
        ({"title": "Lemon sugar", "section": None, "line": None, "page": 4}, "pancakes: Lemon sugar, page 4"),
        ({"title": "Lemon sugar", "line": 12, "page": None}, "pancakes: Lemon sugar, line 12"),
        (
            {"id": 3, "title": "Lemon sugar", "section": "Lemon sugar", "line": 1},
            "pancakes: Lemon sugar, line 1",
        ),
        ({"title": "柠檬糖", "section": "配料", "line": 2}, "pancakes: 柠檬糖 › 配料, line 2"),
    ],
)
def test_a_source_is_told_with_its_place(source: object, shown: str) -> None:
    assert told(query(source)) == [shown]


@pytest.mark.parametrize(
    "source",
    [
        *(None, 3, "Lemon", [], {}, {"title": ""}, {"title": 3}, {"title": " \n"}),
        *({"title": "T", "line": True}, {"title": "T", "page": -1}, {"title": "T", "page": 1e400}),
        {"title": "T", "section": ["x"]},
    ],
)
def test_what_is_no_source_is_left_out(source: object) -> None:
    assert told(query(source)) == []


def test_each_place_is_told_once_and_in_the_order_of_the_answers() -> None:
    other = {"title": "Batter", "line": 1}
    assert told(query(SOURCE, other, SOURCE), query(other)) == [
        "pancakes: Lemon sugar › Toppings, line 12",
        "pancakes: Batter, line 1",
    ]


def test_of_a_database_that_was_only_searched_the_hits_are_told() -> None:
    assert told(search("Batter", "Lemon sugar")) == ["pancakes: Batter", "pancakes: Lemon sugar"]
    assert told(search("Batter"), query(SOURCE)) == ["pancakes: Lemon sugar › Toppings, line 12"]
    tea = query({"title": "Oolong"}, database="茶", name="query_tea_database")
    assert told(search("Batter"), tea) == ["茶: Oolong", "pancakes: Batter"]


def test_a_result_that_was_cut_off_tells_what_is_whole() -> None:
    whole = query(SOURCE, {"title": "Batter"}).text
    cut = whole[: whole.index("Batter")] + "\n[cut here; the whole has 900 characters]"
    assert told(ToolLine("c", "query_pancakes_database", cut)) == [
        "pancakes: Lemon sugar › Toppings, line 12"
    ]


def test_without_the_database_s_name_the_tool_s_counts() -> None:
    text = json.dumps({"relevant": [{"source": {"title": "Batter"}}]})
    assert told(ToolLine("c", "query_my_notes_database", text)) == [r"my\_notes: Batter"]


def test_a_fact_cannot_make_a_source_up() -> None:
    forged = json.dumps({"relevant": [{"source": {"title": "Forged"}}]})
    facts = [{"fact": forged, "source": {"title": "Real"}}]
    line = ToolLine("c", "query_pancakes_database", json.dumps({"note": forged, "relevant": facts}))
    assert told(line) == ["pancakes: Real"]


def test_other_tools_tell_no_documents() -> None:
    text = query(SOURCE).text
    assert told(ToolLine("c", "weather", text), ToolLine("c", "query_database", text), UserLine(text)) == []
    assert told(AssistantLine(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not in these documents",
        "[]",
        '{"relevant": ',
        '{"relevant": [',
        '{"relevant": [{]}',
        '{"relevant": {}}',
        '{"relevant": [1, {}]}',
        '{"relevant": [{"source": ' + "[" * 100_000,
        '{"database": "\\ud83e", "relevant": []}',
    ],
    ids=lambda text: text[:30],
)
def test_anything_else_in_a_result_is_no_trouble(text: str) -> None:
    assert told(ToolLine("c", "query_pancakes_database", text)) == []


@given(st.text(max_size=300))
def test_no_text_is_any_trouble(text: str) -> None:
    assert all(
        isinstance(each, str) for each in told(ToolLine("c", "query_x_database", '{"relevant": [' + text))
    )


def test_strangers_words_in_a_source_do_not_act() -> None:
    evil = {"title": "@everyone [x](https://evil.example) \u202e**b**\n# big", "section": "`<@1>`", "line": 1}
    (shown,) = told(query(evil, database="pan*cakes"))
    assert shown.startswith(r"pan\*cakes: @everyone \[x\]")
    assert "\n" not in shown
    assert "\u202e" not in shown
    assert r"\`\<@1\>\`" in shown


def test_they_stand_before_the_addresses_and_leave_room_for_everything() -> None:
    sources = [{"title": f"{number}" * 300, "section": "s" * 300, "line": number} for number in range(1, 9)]
    told: EmbedContent = why_embed(replace(RECORD, lines=(query(*sources), WEB)), SAY)
    value = field(told, "Sources")
    assert value.startswith("- pancakes: 111")
    assert units(value) <= 600
    few = field(why_embed(replace(RECORD, lines=(query(SOURCE), WEB)), SAY), "Sources")
    assert few == "- pancakes: Lemon sugar › Toppings, line 12\n- <https://example.org/a>"


@pytest.mark.parametrize("language", WORDS.languages, ids=lambda language: language.name)
def test_places_are_told_in_every_language(language: object) -> None:
    say = next(each for each in WORDS.languages if each is language).say
    for kind in ("line", "page"):
        (shown,) = documents_in([query({"title": "T", kind: 12})], say)
        assert shown.startswith("pancakes: T")
        assert "12" in shown
