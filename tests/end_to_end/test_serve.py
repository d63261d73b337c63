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


async def test_three_programs_at_once_beside_discord_have_each_its_own_talk(tmp_path: Path) -> None:
    turns = range(2)
    async with (
        scene(tmp_path, echo) as here,
        beside_discord(here) as (program, url),
        aiohttp.ClientSession(headers={"Accept": "text/event-stream"}) as http,
    ):

        async def by_completions() -> list[str]:
            said: list[Any] = []
            for _ in turns:
                said.append({"role": "user", "content": "x-says"})
                body = {"model": "pixi", "messages": said}
                async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
                    said.append((await answer.json())["choices"][0]["message"])
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

        answers = await asyncio.gather(
            on_discord(here, len(turns)), by_completions(), by_ai_sdk(), by_events()
        )
        async with http.get(f"{url}/metrics") as answer:
            told = (await answer.text()).splitlines()
        assert 'pixi_turns_total{finish="stop",model="scripted"} 8.0' in told
        assert any(re.match(r'pixi_discord_requests_total\{status="200"\} \d', line) for line in told)
        program.process.send_signal(signal.SIGTERM)
        assert (await program.end()).code == 0
    assert list(answers) == [[f"{who} {n + 1}" for n in turns] for who in "wxyz"]


MODEL = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")


def test_others_are_let_in_by_a_key_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert frame.run(["serve", "--host", "0.0.0.0", "--port", "0", *MODEL]) == 2
    assert "pixi-persona keys add" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert frame.run(["serve", "--port", port, *MODEL]) == 2
    told = f"--port {port}: cannot listen there (another program does, perhaps another Pixi); choose another"
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
