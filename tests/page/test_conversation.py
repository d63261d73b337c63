"""The talk of the page as a state: `conversation.test.mjs` under node, without a browser."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.waiting import within

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="no node")
async def test_events_make_the_talk_that_is_drawn() -> None:
    assert NODE is not None
    tests = Path(__file__).parent / "conversation.test.mjs"
    running = await asyncio.create_subprocess_exec(
        NODE, "--test", tests, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with within("node's tests"):
        told, _ = await running.communicate()
    assert running.returncode == 0, told.decode(errors="replace")
