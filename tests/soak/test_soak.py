"""A short soak, and that it would find what is lost, said twice, or growing."""

import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pixi.channels.discord.outgoing.channel import NOTICE
from pixi.testing.discord import FakeChannel, FakeMessage, LoopbackDiscord, User
from tests.pages import ROOT
from tests.soak.judge import Judge, Turns, Verdict
from tests.soak.ledger import SORRY, Ledger, Question
from tests.soak.trend import slope, trend
from tests.soak.weather import questions_in


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the bot is asked by a signal, which this system lacks")
def test_a_town_is_served_and_nothing_grows_or_gets_lost(tmp_path: Path, seed: int) -> None:
    """For a minute, in a process of its own: what the servers remember of it would stay in this one."""
    flags = ["--minutes", "1", "--conversations", "200", "--rate", "8", "--seed", str(seed)]
    command = [sys.executable, "-m", "tests.soak", *flags, "--report", str(tmp_path / "soak.html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    asked, answered = (
        int(number.replace(",", ""))
        for number in re.findall(r"([\d,]+) (?:questions|answered)\b", done.stdout)[:2]
    )
    assert asked > 300, "it was no rest"
    assert answered > asked * 0.5, "in a storm a server is spared, and people are told so"


@dataclass
class Case:
    """A room, somebody who asks there, and what the ledger knows of it."""

    ledger: Ledger
    bot: User
    mo: User
    room: FakeChannel
    turns: dict[tuple[int, str, int], tuple[int | None, str]]

    async def ask(self, mark: str, *, turn: int | None = None, finish: str = "stop") -> FakeMessage:
        message = await self.room.say(self.mo, f"pixi, {mark}")
        self.ledger.ask(Question(mark, "pixi", self.room, message))
        self.turns[self.room.id, "pixi", message.id] = (turn, finish)
        return message

    def writes(self, number: int, *marks: str, kind: str = "quick", quiet: bool = False) -> None:
        texts = () if quiet else (f"{' '.join(marks)} r{number} hello",)
        self.ledger.write(number, "pixi", kind, marks, texts=texts, quiet=quiet)

    async def posts(self, text: str) -> None:
        await self.room.say(self.bot, text)
        self.ledger.posted(text)

    @property
    def verdict(self) -> Verdict:
        turns: Turns = self.turns
        return Judge(self.ledger, self.bot, self.bot.id, turns).judge([self.room])


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    async with LoopbackDiscord() as discord:
        guild = discord.guild("Pancake House")
        yield Case(Ledger(), discord.bot, discord.person("Mo"), guild.channel("general"), {})


async def test_what_was_answered_once_is_well(case: Case) -> None:
    await case.ask("p1", turn=1)
    case.writes(7, "p1")
    await case.posts("p1 r7 hello")

    assert case.verdict.faults == []
    assert case.verdict.answered == 1


async def test_a_question_without_an_answer_is_lost(case: Case) -> None:
    await case.ask("p1", turn=1)

    assert len(case.verdict.lost) == 1
    assert "the model was never asked" in case.verdict.lost[0]


async def test_two_replies_to_one_question_are_found(case: Case) -> None:
    await case.ask("p1", turn=1)
    for number in (7, 8):
        case.writes(number, "p1")
        await case.posts(f"p1 r{number} hello")

    assert case.verdict.twice == [f"p1 in {case.room!r} was answered by r7 (quick), r8 (quick)"]


async def test_a_message_that_stands_twice_is_found(case: Case) -> None:
    await case.ask("p1", turn=1)
    case.writes(7, "p1")
    for _ in range(2):
        await case.posts("p1 r7 hello")

    assert len(case.verdict.twice) == 1


async def test_what_the_model_never_wrote_is_found(case: Case) -> None:
    await case.ask("p1", turn=1)
    case.writes(7, "p1")
    await case.posts("p1 r7 hello")
    await case.posts("something else")

    assert case.verdict.false == [f"'something else' in {case.room!r}"]


async def test_each_turn_that_broke_has_one_notice(case: Case) -> None:
    await case.ask("p1", turn=1, finish="error")
    await case.ask("p2", turn=1, finish="error")  # gathered with the first
    await case.ask("p3", turn=2, finish="error")
    await case.posts(SORRY)
    assert len(case.verdict.lost) == 3  # one notice for two turns: nobody knows for which

    await case.posts(SORRY)
    assert case.verdict.faults == []
    assert case.verdict.told == 3

    await case.posts(SORRY)
    assert len(case.verdict.twice) == 1


async def test_a_notice_of_the_bot_is_none_of_pixi(case: Case) -> None:
    await case.ask("p1", turn=1, finish="error")
    await case.posts(NOTICE)

    assert len(case.verdict.lost) == 1


async def test_what_was_withdrawn_or_met_with_silence_needs_no_answer(case: Case) -> None:
    await case.ask("p1", turn=1)
    case.writes(7, "p1", quiet=True)
    await case.ask("p2", turn=None)
    case.ledger.excuse(case.ledger.open_in(case.room)[1:], "deleted")

    assert case.verdict.faults == []
    assert case.verdict.silent == 1
    assert case.verdict.excused == {"deleted": 1}


async def test_a_turn_that_gave_way_is_excused_where_the_model_was_shown_it_again(case: Case) -> None:
    await case.ask("p1", turn=1, finish="cancelled")
    assert len(case.verdict.lost) == 1

    case.ledger.shown_again.add("p1")
    assert case.verdict.faults == []
    assert case.verdict.superseded == 1


def test_only_what_is_asked_counts_as_asked() -> None:
    told = (
        'Sunday 1 March 2026, 10:00\nearlier, "Mo" (id 1):\n> pixi, p1\n#3 overheard, "Lia" (id 2):\n> p2\n'
        '#4 "Mo" (id 1):\n> pixi, p4 e4 tea\n> \n#5 replying to #4:\n> p5'
    )
    assert questions_in(told, "p") == ("p4", "p5")
    assert questions_in(told, "e") == ("e4",)


def test_a_slope_is_not_bent_by_peaks() -> None:
    chance = random.Random(1)
    flat = [(float(at), 80 + chance.uniform(-1, 1)) for at in range(600)]
    peaks = [(at, value + 300) if at % 97 == 0 else (at, value) for at, value in flat]
    assert abs(slope(peaks)) * 600 < 0.5


def test_a_leak_is_found() -> None:
    leaking = [(float(at), 80 + at / 60) for at in range(600)]  # one a minute
    assert slope(leaking) == pytest.approx(1 / 60)
    found = trend("memory", " MB", leaking, share=0.03, least=4.0)
    assert not found.flat
    assert "GROWS" in str(found)
    assert trend("memory", " MB", leaking[:120], share=0.03, least=4.0).flat
