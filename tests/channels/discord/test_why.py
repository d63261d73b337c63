import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pixi.channels.discord.formatting import clipped, code_block, escape_line, escape_markdown, number, units
from pixi.channels.discord.slash.invocation import EmbedContent, EmbedField
from pixi.channels.discord.slash.translations import Translations
from pixi.channels.discord.slash.why import dollars, notes_embed, why_embed
from pixi.core.conversation import notes_in
from pixi.core.language import BUILT_IN
from pixi.core.llm import AssistantLine, Cited, Line, ToolCall, ToolLine, Usage, UserLine, sources_note
from pixi.core.reading import written
from pixi.store.kept import Effect, TurnRecord

WORDS = Translations()
SAY = WORDS.english.say

RECORD = TurnRecord(
    id=7,
    conversation="discord:1:20:pixi",
    persona="Pixi",
    model="large",
    began=1_767_268_800.5,
    finish="stop",
    steps=2,
    usage=Usage(12_345, 12_000, 67),
    cost=0.00123,
    people=("31", "terminal:mo"),
    lines=(
        UserLine("Mo: what do you know of fog?"),
        AssistantLine(
            "[NOTE: look it up first]", (ToolCall("c1", "search_fog", '{"query": "fog", "limit": 3}'),)
        ),
        ToolLine("c1", "search_fog", "Fog is a cloud. See https://example.org/fog."),
        AssistantLine("[NOTE: keep it short]\n[SEND: a cloud that came down]\n[REACT: 🌫️]"),
    ),
    effects=(
        Effect(7, 1, "send", "a cloud that came down", "done", "501"),
        Effect(7, 2, "react", "🌫️", "done"),
        Effect(7, 3, "react", "🦑", "refused"),
    ),
)


def field(told: EmbedContent, name: str) -> str:
    return next(each.value for each in told.fields if each.name == name)


def test_the_thoughts_of_all_rounds_are_told() -> None:
    assert notes_in(RECORD.lines) == ("look it up first", "keep it short")
    assert why_embed(RECORD, SAY).text == "> look it up first\n\n> keep it short"


def test_tools_are_told_with_arguments_and_results() -> None:
    value = field(why_embed(RECORD, SAY), "Tool: search\\_fog")
    assert value == (
        '```json\n{"query": "fog", "limit": 3}\n``````\nFog is a cloud. See https://example.org/fog.\n```'
    )


def test_addresses_in_results_are_sources() -> None:
    assert field(why_embed(RECORD, SAY), "Sources") == "- <https://example.org/fog>"


def test_pages_that_a_provider_cited_are_sources_and_no_thoughts() -> None:
    cited = [
        Cited("https://example.org/fog", "All of it_"),
        Cited("https://example.org/mist"),
        Cited("https://example.org/" + "a" * 300, "too long to be shown"),
    ]
    text = f"[SEND: a cloud]\n{written('note', sources_note(cited), BUILT_IN)}"
    record = replace(RECORD, lines=(*RECORD.lines, AssistantLine(text)))
    assert notes_in(record.lines) == notes_in(RECORD.lines)
    assert field(why_embed(record, SAY), "Sources") == (
        "- All of it\\_ <https://example.org/fog>\n- <https://example.org/mist>"
    )


@pytest.mark.parametrize(
    "text",
    [
        "https://mo:secret@example.org/",
        "https://token@example.org/",
        "https://example.org/" + "a" * 300,
        "ftp://example.org/",
        "https://",
        "http://[::1",
    ],
)
def test_an_address_with_a_password_or_one_that_is_too_long_is_no_source(text: str) -> None:
    lines = (UserLine("hi"), AssistantLine("", (ToolCall("c", "t", ""),)), ToolLine("c", "t", text))
    assert not [
        each for each in why_embed(replace(RECORD, lines=lines), SAY).fields if each.name == "Sources"
    ]


def test_what_was_done_and_what_was_refused_is_told() -> None:
    assert field(why_embed(RECORD, SAY), "Done") == "messages: 1\nreactions: 🌫️\nrefused by Discord: 1"


def test_an_act_of_which_nobody_knows_counts_as_uncertain() -> None:
    effects = (
        Effect(7, 1, "send", "a"),
        Effect(7, 2, "roll", "2d6", "done"),
        Effect(7, 3, "send", "b", "unknown"),
    )
    assert field(why_embed(replace(RECORD, effects=effects), SAY), "Done") == "roll: 1\nuncertain: 2"


def test_the_figures_are_told() -> None:
    assert field(why_embed(RECORD, SAY), "Behind it").split("\n") == [
        "**Model** large",
        "**Rounds** 2",
        "**Tokens** 12\u202f345 read, of these 12\u202f000 cached; 67 written",
        "**Cost** $0.0012",
        "**Begun** <t:1767268800:F>",
        "**In answer to** <@31>",
        "**Ended** as it should",
    ]


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "–"),
        (0.0, "$0.00"),
        (0.00001, "< $0.0001"),
        (0.0123, "$0.012"),
        (0.5, "$0.50"),
        (3.456, "$3.46"),
    ],
)
def test_costs_are_short(cost: float | None, text: str) -> None:
    assert dollars(cost) == text


def test_numbers_are_read_alike_in_all_languages() -> None:
    assert number(1_234_567) == "1\u202f234\u202f567"


def test_a_turn_without_thoughts_says_so() -> None:
    lines = (UserLine("hi"), AssistantLine("[SEND: hi]"))
    assert why_embed(replace(RECORD, lines=lines), SAY).text == "No thoughts were written down for it."


def test_a_turn_that_was_forgotten_says_so() -> None:
    assert why_embed(replace(RECORD, lines=()), SAY).text == "What led to it was forgotten."


def test_a_turn_under_way_has_forgotten_nothing() -> None:
    told = why_embed(replace(RECORD, lines=(), finish=None), SAY)
    assert told.text == "No thoughts were written down for it."
    assert "**Ended** not yet" in field(told, "Behind it")


def test_a_note_that_a_message_quotes_is_no_thought() -> None:
    lines = (UserLine("hi"), AssistantLine("[SEND: people write [NOTE: x] here]"))
    assert notes_in(lines) == ()


def with_note(note: str, **changes: object) -> TurnRecord:
    line = AssistantLine(written("note", note, BUILT_IN))
    return replace(RECORD, lines=(UserLine("hi"), line), **changes)


def test_notes_are_told_in_order_with_their_times() -> None:
    told = notes_embed([with_note("first", began=100.0), with_note("second", began=200.0)], SAY)
    assert told == EmbedContent("Thoughts", "<t:100:R>\n> first\n<t:200:R>\n> second")


def test_notes_of_several_personas_are_told_apart() -> None:
    told = notes_embed([with_note("a", began=1.0), with_note("b", began=2.0, persona="Edda_")], SAY)
    assert told is not None
    assert told.text == "<t:1:R> **Pixi**\n> a\n<t:2:R> **Edda\\_**\n> b"


def test_of_many_notes_the_latest_are_told() -> None:
    told = notes_embed([with_note(f"note {n:03}", began=float(n)) for n in range(40)], SAY)
    assert told is not None
    assert re.findall(r"note (\d+)", told.text) == [f"{n:03}" for n in range(30, 40)]


def test_notes_that_are_too_long_for_all_leave_out_the_oldest() -> None:
    told = notes_embed([with_note(f"{n} " + "x" * 2_000, began=float(n)) for n in range(10)], SAY)
    assert told is not None
    assert units(told.text) <= 4_096
    assert re.findall(r"> (\d)", told.text) == ["6", "7", "8", "9"]


def test_where_nobody_thought_there_are_no_notes() -> None:
    assert notes_embed([], SAY) is None
    assert notes_embed([replace(RECORD, lines=())], SAY) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[free](https://evil.example)", "\\[free\\](https://evil.example)"),
        ("**bold** _it_ ~~no~~ ||spoiler||", "\\*\\*bold\\*\\* \\_it\\_ \\~\\~no\\~\\~ \\|\\|spoiler\\|\\|"),
        ("<@1> <t:1:R> <:a:1> </ban:1>", "\\<@1\\> \\<t:1:R\\> \\<:a:1\\> \\</ban:1\\>"),
        ("# big\n-# small\n> said", "\\# big\n-\\# small\n\\> said"),
        ("```\ncode", "\\`\\`\\`\ncode"),
        ("see https://example.org/a_b*c", "see https://example.org/a_b*c"),
        ("back\\slash", "back\\\\slash"),
        ("turned \u202e round\x1b[0m", "turned  round\\[0m"),
    ],
)
def test_strangers_words_are_shown_without_effect(text: str, shown: str) -> None:
    assert escape_markdown(text, 200) == shown


def test_a_line_is_one_line() -> None:
    assert escape_line(" a\n# b\r\n c ", 200) == "a \\# b c"


def test_a_block_cannot_be_left() -> None:
    assert code_block("a\n```\n@everyone", 200) == "```\na\nˋˋˋ\n@everyone\n```"


def test_what_is_cut_ends_in_a_sign_and_never_in_half_an_escape() -> None:
    assert clipped("abcdef", 4) == "abc…"
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("🌫🌫🌫", 4) == "🌫…"
    assert escape_markdown("aa" + "*" * 9, 4) == "aa…"
    assert clipped("abc", 0) == ""


ANY_TEXT = st.text(max_size=3_000) | st.text(st.sampled_from("[]`*_\\<>@#-🌫\n a"), max_size=3_000)
LONG = st.builds(lambda text, times: text * times, st.text(max_size=40), st.integers(1, 500))
STRANGE = ANY_TEXT | LONG
TOOL = STRANGE | st.sampled_from(("query_x_database", "search_x_database"))
RESULT = STRANGE | st.builds(
    lambda title, section, line: json.dumps(
        {"relevant": [{"source": {"title": title, "section": section, "line": line}}] * 9}
    ),
    *(STRANGE, STRANGE, st.integers()),
)


@given(STRANGE, st.integers(0, 2_000))
def test_inert_text_keeps_its_limit_and_opens_nothing(text: str, limit: int) -> None:
    shown = escape_markdown(text, limit)
    assert units(shown) <= limit
    without_links = re.sub(r"https?://\S+", "", shown)
    assert not re.search(
        r"(?<!\\)(?:\\\\)*[`*_~|<>\[\]#]", re.sub(r"\\.", "", without_links, flags=re.DOTALL)
    )


@given(
    st.sampled_from(WORDS.languages),
    st.lists(st.tuples(TOOL, STRANGE, RESULT), max_size=12),
    st.lists(STRANGE, max_size=12),
    STRANGE,
)
def test_whatever_a_turn_holds_discord_takes_what_is_told(
    language: object, calls: list[tuple[str, str, str]], notes: list[str], name: str
) -> None:
    lines: list[Line] = [UserLine("hi")]
    for at, (tool, arguments, result) in enumerate(calls):
        lines += [AssistantLine("", (ToolCall(str(at), tool, arguments),)), ToolLine(str(at), tool, result)]
    lines += [AssistantLine(written("note", note, BUILT_IN)) for note in notes]
    record = replace(
        RECORD,
        persona=name,
        model=name,
        lines=tuple(lines),
        effects=tuple(Effect(7, n, name[n : n + 9], name, "done") for n in range(9)),
        people=("1234567890123456789012",) * 9,
        usage=Usage(10**9, 10**9, 10**9),
        steps=10**6,
    )
    for told in (why_embed(record, language.say), notes_embed([record] * 5, language.say)):  # type: ignore[attr-defined]
        if told is not None:
            assert_discord_takes(told)


def assert_discord_takes(told: EmbedContent) -> None:
    assert 1 <= units(told.title) <= 256
    assert 1 <= units(told.text) <= 4_096
    assert len(told.fields) <= 25
    for each in told.fields:
        assert each.name.strip()
        assert units(each.name) <= 256
        assert each.value.strip()
        assert units(each.value) <= 1_024
    everything = [told.title, told.text, *(part for f in told.fields for part in (f.name, f.value))]
    assert sum(map(units, everything)) <= 6_000


def test_a_field_stands_by_itself_unless_told_otherwise() -> None:
    assert not EmbedField("a", "b").inline
