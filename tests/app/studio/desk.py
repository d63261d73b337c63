"""A service with its server and the routes of the studio, and operators who ask them."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from pixi.app.reload import reloading
from pixi.app.service import BotService
from pixi.channels.http.access import digest_of
from pixi.channels.http.files import files_folder
from pixi.channels.http.server import HttpServer
from pixi.core.message import Author, Message
from pixi.core.routes import AddonRoute
from pixi.store.kept import ApiKey
from pixi.testing import RecordingChannel
from tests.app.scene import reading, service_in, settings_file
from tests.channels.http.served import Event, events_in
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, answer, finish, stream, usage

ROOM, DIRECT = "discord:1:77:pixi", "discord:1:78:pixi"
MO, ANN = Author("11", "Mo"), Author("12", "Ann")
Routes = Callable[[BotService], Sequence[AddonRoute]]


def answers(seen: Seen) -> Reply:
    """A model that thinks, answers and reacts."""
    said = "[NOTE: they are kind]\n[SEND: Hello there.]\n[REACT: 🐙]"
    return stream(said, finish(), usage(100, 10))


@dataclass
class Desk:
    """A server that runs, and an operator with a key. `link` lets one browser in."""

    folder: Path
    service: BotService
    model: ScriptedOpenAI
    url: str
    http: aiohttp.ClientSession
    link: str
    headers: dict[str, str] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """The address of a path, or of one below `/api/studio/`."""
        return self.url + (path if path.startswith("/") else f"/api/studio/{path}")

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send a request; gives the status and the answer."""
        sent = self.headers | headers
        async with self.http.request(method, self.at(path), json=body, headers=sent) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str) -> Any:
        """Read something that is there."""
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
        async with self.http.post(self.at(path), json=body, headers=self.headers) as answer:
            assert answer.status == 200, await answer.text()
            return [event async for event in events_in(answer)]

    async def key(self, name: str, *scopes: str) -> dict[str, str]:
        """Make a key, unless it is there from before; gives the header that sends it."""
        secret = f"pixi_sk_{name}{'x' * 40}"
        await self.service.store.add_key(ApiKey(name, digest_of(secret), scopes))
        return {"Authorization": f"Bearer {secret}"}

    async def say(self, text: str, address: str = ROOM, by: Author = MO, *, number: int = 1) -> None:
        """Have somebody say something on Discord, and be answered."""
        group = address == ROOM
        said = Message(str(number), address, by, text, 1.7e9 + number, group=group)
        await self.service.receive(said, RecordingChannel())
        await self.service.engine.settled()

    async def printed(self, *words: str) -> list[dict[str, Any]]:
        """Run a subcommand with `--json` in the folder; gives its lines."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pixi", *words, "--json"), cwd=self.folder, stdout=asyncio.subprocess.PIPE
        )
        told, _ = await process.communicate()
        assert process.returncode == 0
        return [json.loads(line) for line in told.decode().splitlines()]

    def from_here(self, value: Any) -> Any:
        """A value of JSON with paths as they are told to those who work in the folder."""
        return json.loads(json.dumps(value).replace(f"{self.folder}/", ""))


def path_of(address: str) -> str:
    """The path of a talk in the studio's API."""
    return f"/api/studio/talks/{quote(address, safe='')}"


@asynccontextmanager
async def desk_in(
    folder: Path,
    routes: Iterable[Routes],
    more: str = "",
    choose: Callable[[Seen], Reply] = answers,
    *,
    head: str = "",
) -> AsyncGenerator[Desk, None]:
    """A service in a folder whose model is scripted, served with these routes; its files are watched."""
    listing = {"/v1/models": [answer(200, {"data": [{"id": "first"}, {"id": "second"}]})]}
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedOpenAI(choose=choose, about=listing))
        many = "[http]\nrequests_per_minute = 100_000\n"
        settings_file(folder, model, f'{more}\n[models.fast]\nname = "second"\n{many}')
        path = folder / "pixi.toml"
        path.write_text(head + path.read_text())
        service = await stack.enter_async_context(service_in(folder))
        await stack.enter_async_context(reloading(service, reading(folder), folder))
        rules = service.settings.http
        server = HttpServer(
            service,
            rules,
            files=files_folder(rules.files, service.settings.store.url),
            routes=[*service.routes, *(route for each in routes for route in each(service))],
        )
        url = await stack.enter_async_context(server.serving("127.0.0.1", 0))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        desk = Desk(folder, service, model, url, http, server.new_link().partition("=")[2])
        desk.headers = await desk.key("desk", "chat", "operate")
        yield desk
