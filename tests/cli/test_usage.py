"""`pixi-persona usage`, as a person starts it."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pixi.app.doctor.checks import check_limits
from pixi.cli.usage import chart
from pixi.core.llm import Usage
from pixi.core.spending import UsageEntry, date_of, day_of
from pixi.store.sqlite import SqliteStore
from tests.cli.conftest import Program, found_by

MODEL = "gpt-5-mini"


@pytest.fixture(autouse=True)
def no_midnight_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


def today() -> int:
    return day_of(time.time())


@pytest.fixture
def books(home: Path) -> None:
    """What two people used, yesterday and today."""
    day = today()
    entries = [
        UsageEntry(
            day,
            "11",
            "discord:7",
            "discord:1",
            "gpt-5-mini",
            0,
            3,
            1,
            Usage(120_000, 90_000, 4_000),
            cost=0.5,
        ),
        UsageEntry(
            day - 1,
            "[red]m\x1b[2Jo",
            "discord:7",
            "discord:1",
            "gpt-5-mini",
            0,
            2,
            0,
            Usage(10, 0, 5),
            0,
            0.01,
        ),
        UsageEntry(day, "", "", "", "vectors", 0, 0, 0, Usage(700), unpriced=700),
        UsageEntry(day - 40, "11", "discord:7", "discord:1", MODEL, 0, 9, 0, Usage(9), cost=9.0),
    ]

    async def enter() -> None:
        store = await SqliteStore.open(home / "pixi.db")
        await store.spend(entries)
        await store.close()

    asyncio.run(enter())


def test_without_a_store_there_is_a_line_and_nothing_is_made(program: Program, home: Path) -> None:
    said = "Nothing was used in the last 30 days: talk to somebody, and it is counted here.\n"
    assert program("usage") == (0, said, "")
    assert program("usage", "--days", "1")[1].startswith("Nothing was used today:")
    assert program("usage", "--json") == (0, "", "")
    assert list(home.iterdir()) == []


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_sentence_a_chart_and_a_table_that_fit(
    program: Program, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, err = program("usage")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= width
    told = " ".join(out.split())
    assert "The last 30 days: 5 messages, 121k tokens read (75% cached), 4,005 written, 1 change by" in told
    assert "$0.51+?." in told
    assert "█" in out
    assert date_of(today()).isoformat() in out
    assert date_of(today() - 40).isoformat() not in out
    assert "? 700 tokens have no known price: see [prices] in pixi.toml." in told


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("person", ["11", "[red]m\\x1b[2Jo", "(nobody)"]),
        ("channel", ["discord:7", "(none)"]),
        ("guild", ["discord:1", "(none)"]),
        ("model", ["gpt-5-mini", "vectors"]),
    ],
)
def test_it_can_be_added_up_otherwise_what_costs_most_first(
    program: Program, by: str, names: Sequence[str]
) -> None:
    code, out, _ = program("usage", "--by", by)
    assert code == 0
    lines = out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith(f" {by} "))
    rows = lines[head + 2 :][: len(names)]
    assert [row.split("  ")[0].strip() for row in rows] == names


@pytest.mark.usefixtures("books")
def test_programs_get_a_line_for_each(program: Program) -> None:
    _, out, _ = program("usage", "--by", "model", "--json", "--days", "60")
    told = [json.loads(line) for line in out.splitlines()]
    assert told == [
        {
            "model": "gpt-5-mini",
            "messages": 14,
            "writes": 1,
            "prompt_tokens": 120_019,
            "cached_tokens": 90_000,
            "completion_tokens": 4_005,
            "searches": 0,
            "unpriced_tokens": 0,
            "cost": 9.51,
        },
        {
            "model": "vectors",
            "messages": 0,
            "writes": 0,
            "prompt_tokens": 700,
            "cached_tokens": 0,
            "completion_tokens": 0,
            "searches": 0,
            "unpriced_tokens": 700,
            "cost": 0.0,
        },
    ]
    days = [json.loads(line)["day"] for line in program("usage", "--json")[1].splitlines()]
    assert days == [date_of(today() - 1).isoformat(), date_of(today()).isoformat()]
    people = [
        json.loads(line)["person"] for line in program("usage", "--json", "--by", "person")[1].splitlines()
    ]
    assert people == [None, "11", "[red]m\x1b[2Jo"]


@pytest.mark.parametrize("width", [60, 100])
def test_web_searches_have_a_column_where_there_were_some(
    program: Program, home: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    async def enter() -> None:
        store = await SqliteStore.open(home / "pixi.db")
        ways = {"web search (native)": (7, 0.07), "web search (duckduckgo)": (12, 0.0)}
        await store.spend(
            [
                UsageEntry(today(), "11", model=MODEL, messages=4, usage=Usage(900, 0, 50), cost=0.5),
                *(
                    UsageEntry(today(), "11", model=name, usage=Usage(searches=count), cost=cost)
                    for name, (count, cost) in ways.items()
                ),
            ]
        )
        await store.close()

    asyncio.run(enter())
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = program("usage", "--by", "model")
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    assert "19 web searches, $0.57." in " ".join(out.split())
    head = next(line for line in out.splitlines() if line.startswith(" model"))
    assert head.split()[-2:] == ["searches" if width == 100 else "srch", "cost"]
    ways = [line.split() for line in out.splitlines() if line.startswith(" web")]  # narrow, a name is folded
    assert [row[-2:] for row in ways] == [["7", "$0.07"], ["12", "$0.00"]]
    told = [json.loads(line) for line in program("usage", "--by", "model", "--json")[1].splitlines()]
    assert {each["model"]: each["searches"] for each in told} == {
        MODEL: 0,
        "web search (native)": 7,
        "web search (duckduckgo)": 12,
    }


@pytest.mark.usefixtures("books")
def test_the_dollars_of_the_month_stand_beside_their_limit(program: Program, home: Path) -> None:
    assert "with no limit (month_dollars)" in program("usage")[1]
    (home / "pixi.toml").write_text("[limits]\nmonth_dollars = 5\n")
    month = 0.51 if date_of(today()).day > 1 else 0.5
    assert f"This month: ${month:.2f}+? of $5.00 (10%)." in program("usage")[1]


@pytest.mark.parametrize("flags", [("--days", "0"), ("--days", "-1"), ("--days", "9" * 30), ("--by", "cat")])
def test_nonsense_is_refused(program: Program, flags: Sequence[str]) -> None:
    code, _, err = program("usage", *flags)
    assert code == 2
    assert flags[0] in err


def day(number: int, cost: float = 0.0, tokens: int = 0) -> UsageEntry:
    return UsageEntry(number, usage=Usage(tokens), cost=cost)


def test_the_chart_shows_dollars_or_tokens_where_all_were_free() -> None:
    lines = [line.plain for line in chart([day(20_500, 0.1), day(20_501, 0.2), day(20_502)], 60)]
    assert lines == [
        "   $0.20 │    ███",
        "         │    ███",
        "         │    ███",
        "         │███ ███",
        "         │███ ███",
        "         │███ ███",
        "       0 └────────────",
        "          16 Feb 18 Feb",
    ]
    lines = [line.plain for line in chart([day(20_500, tokens=5), day(20_501, tokens=1)], 60)]
    assert lines[0] == "       5 │███"
    assert lines[5] == "         │███ ███"
    lines = [line.plain for line in chart([UsageEntry(20_500, messages=1), day(20_501)], 60)]
    assert (lines[0], lines[5]) == ("       0 │", "         │")


def test_many_days_share_their_bars_and_the_smallest_is_seen() -> None:
    days = [
        day(20_000 + number, 100.0 if number == 300 else 0.001 if number < 9 else 0.0)
        for number in range(365)
    ]
    lines = [line.plain for line in chart(days, 60)]
    assert max(map(len, lines)) <= 60
    assert "a bar: 8 days" in lines[-1]
    assert lines[-1].split()[:3] == ["4", "Oct", "2024"]
    assert lines[5][10] == "▁"


@pytest.mark.usefixtures("books")
def test_doctor_tells_what_may_be_used_and_what_is_gone(home: Path) -> None:
    cost = 0.51 if date_of(today()).day > 1 else 0.5
    assert found_by(check_limits) == [
        f"ok   limits — ${cost:.2f}+? this month, and no stop is set (month_dollars)"
    ]
    (home / "pixi.toml").write_text(
        "[limits]\nmonth_dollars = 50\nperson_messages = 20\nguild_tokens = 1_000_000\nguild_writes = 0\n"
    )
    assert found_by(check_limits) == [
        f"ok   limits — ${cost:.2f}+? of $50.00 this month (1%)",
        "ok   limits — in a day each person: 20 messages; each guild: 1,000,000 tokens, 0 writes",
    ]
    (home / "pixi.toml").write_text("[limits]\nmonth_dollars = 0.1\n")
    (line,) = found_by(check_limits)
    assert line.startswith(f"fail limits — ${cost:.2f}+? of $0.10 this month (5")
    assert "nobody is answered until 20" in line
    (home / "pixi.toml").write_text('[helper_model]\nname = "qwen"\n[embedding_model]\nname = "vectors"\n')
    assert found_by(check_limits)[-1] == "ok   limits — no price is known for qwen, vectors: see [prices]"
