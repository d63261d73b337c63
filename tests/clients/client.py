"""Programs of others that talk to Pixi: their own client packages under node, led step by step."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import within

HERE = Path(__file__).parent
_LONGEST_LINE = 2**24

with_node = pytest.mark.skipif(
    not (HERE / "node_modules").exists() and "CI" not in os.environ,
    reason="the clients are not installed: they come from npm, with `make test`",
)


class Client:
    """A client package, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, step: str, **given: object) -> Any:
        """Do a step; gives what the client tells of it.

        Raises:
            AssertionError: the client broke, or gives no answer.
        """
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        to.write(json.dumps({"do": step, **given}).encode() + b"\n")
        async with within(f"an answer of the client to {step}"):
            line = await back.readline()
        assert line, "the client ended; what it wrote stands above"
        answer = json.loads(line)
        assert not (isinstance(answer, dict) and "thrown" in answer), answer
        return answer


@asynccontextmanager
async def client(script: str, *arguments: str) -> AsyncGenerator[Client, None]:
    """Run a script of this folder."""
    node = shutil.which("node")
    assert node, "node is missing, which the clients need"
    process = await asyncio.create_subprocess_exec(
        *(node, script, *arguments),
        cwd=HERE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE,
    )
    try:
        yield Client(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
