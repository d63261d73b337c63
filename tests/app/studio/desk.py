"""A service with its server and the routes of the studio, and operators who ask them."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from pixi.app.service import BotService
from pixi.channels.http.access import digest_of
from pixi.channels.http.files import files_folder
from pixi.channels.http.server import HttpServer
from pixi.core.message import Author, Message
from pixi.core.routes import AddonRoute
from pixi.store.kept import ApiKey
from pixi.testing import RecordingChannel
from tests.app.scene import service_in, settings_file
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage

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

    service: BotService
    url: str
    http: aiohttp.ClientSession
    headers: dict[str, str]
    link: str

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send a request; gives the status and the answer."""
        sent = self.headers | headers
        async with self.http.request(method, self.url + path, json=body, headers=sent) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str) -> Any:
        """Read something that is there."""
        status, answer = await self.ask("GET", path)
        assert status == 200, answer
        return answer

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
    """A service in a folder whose model is scripted, served with these routes."""
    async with ScriptedOpenAI(choose=choose) as model:
        settings_file(folder, model, f'{more}\n[models.fast]\nname = "second"\n')
        path = folder / "pixi.toml"
        path.write_text(head + path.read_text())
        async with service_in(folder) as service, aiohttp.ClientSession() as http:
            http_rules = service.settings.http
            server = HttpServer(
                service,
                http_rules,
                files=files_folder(http_rules.files, service.settings.store.url),
                routes=[*service.routes, *(route for each in routes for route in each(service))],
            )
            async with server.serving("127.0.0.1", 0) as url:
                desk = Desk(service, url, http, {}, server.new_link().partition("=")[2])
                desk.headers = await desk.key("desk", "chat", "operate")
                yield desk
