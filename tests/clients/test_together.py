"""Real clients of three protocols talk to one server at once, and each has its own talk."""

import asyncio
from typing import Any

import pytest

from pixi.core.llm import Request
from tests.channels.http.served import served
from tests.clients.client import client, with_node

pytestmark = [pytest.mark.nightly, with_node]
TURNS = 4


def echo(request: Request) -> str:
    """Say how many messages of whom the model is shown."""
    shown = str(request.lines[1:])
    return "".join(f"[SEND: {who} {shown.count(who + '-says')}]" for who in "xyz" if f"{who}-says" in shown)


async def test_each_client_has_its_own_talk() -> None:
    async with (
        served(*[echo] * 3 * TURNS) as here,
        client("openai.mjs", here.url) as program,
        client("ai_sdk.mjs", "ai7", here.url) as page,
        client("ag_ui.mjs", here.url) as agent,
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

        answers = await asyncio.gather(by_openai(), by_ai_sdk(), by_ag_ui())
    assert list(answers) == [[f"{who} {n}" for n in range(1, TURNS + 1)] for who in "xyz"]
