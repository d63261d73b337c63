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
    told = killed("--rounds", "2", "--seed", "20261")
    assert re.search(r"; [1-9]\d? questions, \d told of, 0 lost, 0 half, 0 twice, 0 wrong histories", told)


@pytest.mark.nightly
def test_kills_at_every_point(seed: int) -> None:
    told = killed("--minutes", "1.5", "--seed", str(seed))
    kills, polite, cut = map(int, re.findall(r"(\d+) (?:kills|polite ends|answers cut short)", told))
    assert kills > 0 < polite
    assert cut > (kills + polite) // 5, "the kills came while there was something to lose"
    assert [point for point in POINTS if point not in told] == [] or kills + polite < 2 * len(POINTS)


@pytest.mark.nightly
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_three_processes_on_one_store(seed: int, store: str) -> None:
    told = killed("--processes", "3", "--minutes", "1", "--seed", str(seed), "--store", store)
    assert re.search(r"[1-9]\d* kills and [1-9]\d* polite ends", told)
    assert re.search(r"[1-9]\d* answers cut short", told), "the ends came while there was something to lose"


@pytest.mark.nightly
def test_a_gateway_and_two_workers(seed: int) -> None:
    told = killed("--workers", "2", "--rounds", "6", "--seed", str(seed), "--store", "postgres")
    assert "1 pause a gateway, 1 pause a worker" in told
    assert re.search(r"[1-9]\d* answers cut short", told), "they came while there was something to lose"


@pytest.mark.nightly
def test_gateways_workers_and_servers_on_a_database_that_crashes(seed: int) -> None:
    parts = ["--workers", "4", "--gateways", "2", "--serves", "2", "--at-once", "4", "--crashes"]
    told = killed(*parts, "--store", "postgres", "--rounds", "3", "--seed", str(seed))
    ways = r"\d crash the database, \d end a gateway, \d end a serve, \d end a worker, \d kill a gateway"
    assert re.search(ways, told)


@pytest.mark.nightly
def test_workers_are_replaced_while_people_ask(seed: int) -> None:
    told = killed("--rolling", "5", "--store", "postgres", "--seed", str(seed))
    assert re.search(r"while 2 workers were replaced one by one, 2 times: \d\d+ answers", told)
    assert "4 end a worker" in told
    assert "waited until their worker was taken for dead: 0." in told
