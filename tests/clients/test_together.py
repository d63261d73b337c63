"""Real clients of three protocols talk to one program at once, beside Discord, and each has its own talk."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client import client, with_node
from tests.end_to_end.bot import scene
from tests.end_to_end.test_serve import beside_discord, echo, on_discord

pytestmark = [pytest.mark.nightly, with_node]
TURNS = 4


async def test_each_client_has_its_own_talk(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, echo) as here,
        beside_discord(here) as (_, url),
        client("openai.mjs", url) as program,
        client("ai_sdk.mjs", "ai", url) as page,
        client("ag_ui.mjs", url) as agent,
    ):

        async def by_openai() -> list[str]:
            said: list[dict[str, str]] = []
            for _ in range(TURNS):
                said.append({"role": "user", "content": "x-says"})
                told = await program.do("stream", model="pixi", messages=said)
                said.append({"role": "assistant", "content": told["content"]})
            return [each["content"] for each in said[1::2]]

        async def by_ai_sdk() -> list[str]:
            told: Any = None
            for _ in range(TURNS):
                await page.do("send", chat="a", text="y-says")
                told = await page.do("settle", chat="a")
            replies = told["messages"][1::2]
            return [part["text"] for each in replies for part in each["parts"] if part["type"] == "text"]

        async def by_ag_ui() -> list[str]:
            told: Any = None
            for n in range(TURNS):
                await agent.do("send", thread="b", runId=f"r{n}", id=f"u{n}", text="z-says")
                told = await agent.do("settle", thread="b")
            return [each["content"] for each in told["messages"][1::2]]

        answers = await asyncio.gather(on_discord(here, TURNS), by_openai(), by_ai_sdk(), by_ag_ui())
    assert list(answers) == [[f"{who} {n}" for n in range(1, TURNS + 1)] for who in "wxyz"]
