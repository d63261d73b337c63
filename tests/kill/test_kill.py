"""SIGKILL and SIGTERM at the points that matter: nothing is lost or done twice, and the history is true."""

import os
import re
import subprocess
import sys

import pytest

from tests.kill.rounds import POINTS
from tests.pages import ROOT

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the program is forked, which this system cannot do"),
    pytest.mark.skipif(sys.platform == "darwin", reason="forks do not get along with Apple's frameworks"),
]


def killed(*flags: str) -> str:
    """Kill in a process of its own, as `make kill` does; return what it tells when nothing was wrong.

    What the servers remember of it would stay in the process that runs the tests.
    """
    command = [sys.executable, "-m", "tests.kill", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    return done.stdout


def test_a_few_kills() -> None:
    told = killed("--rounds", "5", "--seed", "20261")
    assert re.search(r"; 15 questions, 0 lost, 0 done twice, 0 conversations remembered wrongly", told)


@pytest.mark.nightly
def test_kills_at_every_point(seed: int) -> None:
    told = killed("--minutes", "3", "--seed", str(seed))
    kills, polite, cut = map(int, re.findall(r"(\d+) (?:kills|polite ends|turns cut short)", told))
    assert kills > 0 < polite
    assert cut > (kills + polite) // 5, "the kills came while there was something to lose"
    assert [point for point in POINTS if point not in told] == [] or kills + polite < 2 * len(POINTS)
