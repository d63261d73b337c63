"""`pixi-persona serve` as a program: over HTTP, and on Discord beside it."""

import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pixi.cli import frame
from tests.end_to_end.bot import Scene, scene
from tests.end_to_end.program import Piped, piped
from tests.servers.scripted_openai import ScriptedOpenAI, Seen, finish, stream
from tests.waiting import within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

HEY = stream("[SEND: hey there]", finish())


@asynccontextmanager
async def serving(home: Path, *words: str, **environ: str) -> AsyncGenerator[tuple[Piped, str], None]:
    """The program, and its address."""
    async with piped(home, "serve", "--port", "0", *words, environ=environ) as program:
        assert program.process.stderr
        async with within("the server's address"):
            told = ""
            while not (found := re.search(r"serving at (\S+) until", told)):
                line = await program.process.stderr.readline()
                assert line, f"it ended: {told}"
                told += line.decode()
        yield program, found[1]


@asynccontextmanager
async def beside_discord(here: Scene) -> AsyncGenerator[tuple[Piped, str], None]:
    """The program with Discord beside it, and its address."""
    settings = f'[discord]\napi_url = "{here.discord.api_url}"\n[store]\nurl = "sqlite:///pixi.db"\n'
    (here.folder / "pixi.toml").write_text(settings)
    words = ("--model", "scripted", "--base-url", here.model.base_url)
    async with serving(here.folder, *words, DISCORD_TOKEN=here.discord.token) as running:
        await here.discord.ready(1)
        yield running


def echo(seen: Seen) -> str:
    """Say how many messages of whom the model is shown."""
    shown = str(seen.json()["messages"][1:])
    return "".join(f"[SEND: {who} {shown.count(who + '-says')}]" for who in "wxyz" if f"{who}-says" in shown)


async def on_discord(here: Scene, turns: int) -> list[str]:
    """Talk on Discord; gives what the bot said."""

    def posted(count: int) -> bool:
        return len(here.posts()) == count

    for count in range(1, turns + 1):
        await here.ask("w-says")
        await here.discord.wait_for(partial(posted, count))
    return here.posts()


async def test_it_talks_until_it_is_told_to_end(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HEY) as model:
        words = ("--only", "http", "--model", "scripted", "--base-url", model.base_url)
        beside = serving(tmp_path, *words, DISCORD_TOKEN="of-no-bot")
        async with beside as (program, url), aiohttp.ClientSession() as http:
            async with http.post(f"{url}/api/chat", json={"message": "hi"}) as answer:
                assert (answer.status, (await answer.json())["text"]) == (200, "hey there")
            async with http.get(f"{url}/openapi.json") as answer:
                assert "/api/chat" in json.loads(await answer.text())["paths"]
            program.process.send_signal(signal.SIGTERM)
            ended = await program.end()
        assert ended.code == 0
        assert "Traceback" not in ended.err


@pytest.mark.nightly
async def test_discord_is_beside_it_and_each_has_a_talk_of_its_own(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, "[SEND: one]", "[SEND: two]") as here,
        beside_discord(here) as (program, url),
        aiohttp.ClientSession() as http,
    ):
        await here.ask("from discord")
        await here.said("one")
        async with http.post(f"{url}/api/chat", json={"message": "from the web"}) as answer:
            assert (await answer.json())["text"] == "two"
        assert "from discord" in str(here.model.requests[0].json()["messages"])
        assert "from discord" not in str(here.model.requests[1].json()["messages"])
        async with http.get(f"{url}/metrics") as answer:
            told = (await answer.text()).splitlines()
        assert 'pixi_turns_total{finish="stop",model="scripted"} 2.0' in told
        assert any(re.match(r'pixi_discord_requests_total\{status="200"\} \d', line) for line in told)
        program.process.send_signal(signal.SIGTERM)
        assert (await program.end()).code == 0


async def test_three_programs_at_once_beside_discord_have_each_its_own_talk(tmp_path: Path) -> None:
    from openai import AsyncOpenAI  # large, and of this test alone

    turns = range(2)
    async with (
        scene(tmp_path, echo) as here,
        beside_discord(here) as (program, url),
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        aiohttp.ClientSession(headers={"Accept": "text/event-stream"}) as http,
    ):

        async def by_openai() -> list[str]:
            said: list[Any] = []
            for _ in turns:
                said.append({"role": "user", "content": "x-says"})
                answer = await client.chat.completions.create(model="pixi", messages=said)
                said.append({"role": "assistant", "content": answer.choices[0].message.content})
            return [each["content"] for each in said[1::2]]

        async def streamed(body: dict[str, Any]) -> list[dict[str, Any]]:
            async with http.post(f"{url}/api/chat", json=body) as answer:
                lines = (await answer.text()).splitlines()
            return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]

        async def by_ai_sdk() -> list[str]:
            said: list[str] = []
            for n in turns:
                parts = [{"type": "text", "text": "y-says"}]
                body = {"id": "a", "messages": [{"id": f"u{n}", "role": "user", "parts": parts}]}
                told = await streamed(body)
                said.append("".join(each["delta"] for each in told if each["type"] == "text-delta"))
            return said

        async def by_events() -> list[str]:
            told = [await streamed({"message": "z-says", "conversation": "b"}) for _ in turns]
            return [each["text"] for events in told for each in events if each["event"] == "send"]

        answers = await asyncio.gather(on_discord(here, len(turns)), by_openai(), by_ai_sdk(), by_events())
        program.process.send_signal(signal.SIGTERM)
        assert (await program.end()).code == 0
    assert list(answers) == [[f"{who} {n + 1}" for n in turns] for who in "wxyz"]


async def test_others_are_let_in_by_a_key_alone(tmp_path: Path) -> None:
    words = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    async with piped(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", *words) as program:
        ended = await program.end()
    assert ended.code == 2
    assert "pixi-persona keys add" in ended.err


def test_a_port_that_is_taken_is_told_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert (
            frame.run(["serve", "--port", port, "--model", "m", "--base-url", "http://127.0.0.1:9/v1"]) == 2
        )
    told = f"--port {port}: cannot listen there (another program does, perhaps another Pixi); choose another"
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
