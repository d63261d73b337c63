"""Scripts of the page that need no browser, under node: the talk as a state, and commands."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.waiting import within

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="no node")
@pytest.mark.parametrize("script", ["conversation", "commands"])
async def test_the_scripts_of_the_page(script: str) -> None:
    assert NODE is not None
    tests = Path(__file__).parent / f"{script}.test.mjs"
    running = await asyncio.create_subprocess_exec(
        NODE, "--test", tests, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with within("node's tests"):
        told, _ = await running.communicate()
    assert running.returncode == 0, told.decode(errors="replace")
