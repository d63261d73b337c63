"""Two processes of the bot on one store: both hear everything, and each question is answered once."""

import os
import sys
from pathlib import Path

import pytest

from tests.kill.rounds import rounds

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the program is forked, which this system cannot do"),
    pytest.mark.skipif(sys.platform == "darwin", reason="forks do not get along with Apple's frameworks"),
]


NO_LEASE = (
    "a turn has no lease: who starts beside a bot that is being killed takes the turns that it left for dead,"
    " and now and then one that is alive"
)


@pytest.mark.parametrize(
    "end",
    ["politely", pytest.param("by a kill", marks=pytest.mark.xfail(strict=False, reason=NO_LEASE))],
)
async def test_two_processes_on_one_store(tmp_path: Path, end: str) -> None:
    async with rounds(tmp_path, seed=5) as bots:
        await bots.begin()
        await bots.ask_everywhere()
        await bots.some_posts()
        await bots.begin_another()  # while the first one answers
        await bots.all_settled()
        for _ in range(10):
            await bots.ask_everywhere()
            await bots.all_settled()

        await bots.ask_everywhere()
        await bots.some_posts()
        if end == "politely":
            await bots.end_one()
        else:
            bots.kill_one()
        await bots.begin_another()  # which finishes what that one was at
        await bots.all_settled()
        await bots.ask_everywhere()
        await bots.all_settled()
        await bots.end()

        assert bots.report.clean, f"{bots.report}\n{(tmp_path / 'log.txt').read_text()[-4_000:]}"
        assert bots.report.asked == 39
