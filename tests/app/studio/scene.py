"""The studio's routes over a real service and a real socket, as an operator with a key."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from pixi.app.reload import reloading
from pixi.app.service import BotService
from pixi.channels.http.access import digest_of
from pixi.channels.http.server import HttpServer
from pixi.core.routes import AddonRoute
from pixi.store.kept import ApiKey
from tests.app.scene import hello, reading, service_in, settings_file
from tests.channels.http.served import Event, events_in
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, answer

Answered = tuple[int, Any]


def key_of(*scopes: str) -> tuple[ApiKey, dict[str, str]]:
    """A key with these scopes, and the header that sends it."""
    secret = f"pixi_sk_{''.join(scopes)}{'x' * 40}"
    return ApiKey("-".join(scopes), digest_of(secret), scopes), {"Authorization": f"Bearer {secret}"}


@dataclass
class Studio:
    """A service that is served, and an operator's client."""

    folder: Path
    service: BotService
    model: ScriptedOpenAI
    url: str
    http: aiohttp.ClientSession
    published: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        """Ask for a path below `/api/studio/`; gives the status and the JSON answer."""
        url = f"{self.url}/api/studio/{path}"
        async with self.http.request(method, url, json=body, headers=headers or None) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str) -> Any:
        status, answer = await self.ask("GET", path)
        assert status == 200, answer
        return answer

    async def post(self, path: str, body: object = None) -> Any:
        status, answer = await self.ask("POST", path, body)
        assert status == 200, answer
        return answer

    async def refused(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Ask for what is refused; gives the status and why."""
        status, answer = await self.ask(method, path, body)
        assert status >= 400, answer
        return status, answer["detail"]

    async def stream(self, path: str, body: object) -> list[Event]:
        """Ask for a stream, and read it to its end."""
        async with self.http.post(f"{self.url}/api/studio/{path}", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return [event async for event in events_in(answer)]


@asynccontextmanager
async def studio_in(
    folder: Path,
    routes: Callable[[BotService], Sequence[AddonRoute]],
    more: str = "",
    *,
    choose: Callable[[Seen], Reply] = hello,
) -> AsyncGenerator[Studio, None]:
    """Serve a service in a folder with the routes of a screen, watched for changes of its files."""
    async with AsyncExitStack() as stack:
        listing = {"/v1/models": [answer(200, {"data": [{"id": "first"}]})]}
        model = await stack.enter_async_context(ScriptedOpenAI(choose=choose, about=listing))
        settings_file(folder, model, f"[http]\nrequests_per_minute = 100_000\n{more}")
        service = await stack.enter_async_context(service_in(folder))
        await stack.enter_async_context(reloading(service, reading(folder), folder))
        key, header = key_of("operate")
        await service.store.add_key(key)
        server = HttpServer(service, service.settings.http, files=folder / "files", routes=routes(service))
        url = await stack.enter_async_context(server.serving("127.0.0.1", 0))
        http = await stack.enter_async_context(aiohttp.ClientSession(headers=header))
        yield Studio(folder, service, model, url, http)


def from_here(studio: Studio, value: Any) -> Any:
    """A value of JSON with paths as they are told to those who work in the folder."""
    return json.loads(json.dumps(value).replace(f"{studio.folder}/", ""))


async def printed(studio: Studio, *words: str) -> list[dict[str, Any]]:
    """Run a subcommand with `--json` in the folder; gives its lines."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pixi", *words, "--json"), cwd=studio.folder, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in told.decode().splitlines()]
