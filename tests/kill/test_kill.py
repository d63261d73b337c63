"""SIGKILL and SIGTERM at every point that matters: nothing is lost or done twice, and the history is true."""

import os
import sys
from pathlib import Path

import pytest

from tests.kill.__main__ import run
from tests.kill.rounds import POINTS

ROUNDS = 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program is forked, which this system cannot do")
@pytest.mark.skipif(sys.platform == "darwin", reason="forks do not get along with Apple's frameworks")
async def test_nothing_is_lost_or_said_twice_however_often_it_is_killed(tmp_path: Path) -> None:
    report = await run(tmp_path, ROUNDS, seed=20_261)

    assert report.clean, f"{report}\n{report.stuck}\n{(tmp_path / 'log.txt').read_text()[-4_000:]}"
    assert sum(report.kills.values()) == ROUNDS
    assert set(report.kills) == set(POINTS)
    assert 0 < report.polite < ROUNDS
    assert report.slowest < 10  # a polite end is an end all the same
    assert report.interrupted > ROUNDS // 5  # the kills came while there was something to lose
