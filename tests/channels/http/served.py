"""The server over a real engine and a real store, with a model that follows a script."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from pixi.channels.http.access import digest_of
from pixi.channels.http.jwt import ForwardedUsers, HostTokens
from pixi.channels.http.peers import Peers
from pixi.channels.http.server import HttpServer
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import ModelError
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.routes import AddonRoute
from pixi.engine import Engine
from pixi.engine.context import Role
from pixi.fetching.web import Web
from pixi.models.model import Traits
from pixi.settings.rules import HttpRules
from pixi.store.kept import ApiKey
from pixi.store.sqlite import MEMORY, SqliteStore
from pixi.store.store import Store
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon

PERSONAS = {
    "pixi": Persona("Pixi", "You are Pixi."),
    "edda": Persona("Edda", "You are Edda.", about="a baker"),
}

Event = dict[str, Any]


@dataclass
class EngineBackend:
    """What the server asks for, by an engine alone."""

    engine: Engine
    store: Store
    personas: Mapping[str, Persona] = field(default_factory=lambda: PERSONAS)
    default_persona: str = "pixi"
    helped: list[str] = field(default_factory=list)
    helper: str | ModelError | None = None
    why_unready: str = ""

    async def unready(self) -> str:
        return self.why_unready

    async def scraped(self, accept: str, /) -> tuple[bytes, str]:
        return b"pixi_turns_total 0.0\n", "text/plain; version=0.0.4"

    def sees(self, conversation: str, /) -> bool:
        return self.engine.model.traits.vision

    async def receive(self, message: Message, channel: Channel) -> None:
        await self.engine.receive(message, channel)

    def model_of(self, conversation: str, /) -> str:
        return self.engine.model.name

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        await self.engine.resume(prefix, 0.0, open_channel)

    async def helper_answer(self, prompt: str) -> str | None:
        self.helped.append(prompt)
        if isinstance(self.helper, ModelError):
            raise self.helper
        return self.helper


@dataclass
class Served:
    """A server that runs, and a client of it."""

    url: str
    http: aiohttp.ClientSession
    model: ScriptedModel
    backend: EngineBackend
    server: HttpServer

    @property
    def peers(self) -> Peers:
        return self.server.peers

    async def post(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send JSON; gives the status, and the answer."""
        async with self.http.post(self.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None) if answer.status != 204 else None

    async def say(self, text: str, **more: str) -> Any:
        """Say something; gives the whole answer."""
        status, answer = await self.post("/api/chat", {"message": text, **more})
        assert status == 200, answer
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Follow a stream; each event has its `sse_id`."""
        method = "GET" if body is None else "POST"
        accept = {"Accept": "text/event-stream", **headers}
        async with self.http.request(method, self.url + path, json=body, headers=accept) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            yield events_in(answer)

    async def key(self, name: str, *scopes: str, personas: tuple[str, ...] = ()) -> dict[str, str]:
        """Make a key; gives the header that sends it."""
        secret = f"pixi_sk_{name}{'x' * 40}"
        assert await self.backend.store.add_key(ApiKey(name, digest_of(secret), scopes, personas))
        return {"Authorization": f"Bearer {secret}"}

    async def site(self, name: str, *origins: str, personas: tuple[str, ...] = ()) -> str:
        """Make a publishable key; gives it."""
        public = f"pixi_pk_{name}{'x' * 40}"
        key = ApiKey(name, digest_of(public), (), personas, origins, signs="5a" * 32)
        assert await self.backend.store.add_key(key)
        return public

    async def visitor(self, public: str, origin: str, **body: str) -> dict[str, str]:
        """Let a visitor in, by a publishable key; gives the headers that their page sends."""
        status, answer = await self.post("/api/visitors", body, **_page(public, origin))
        assert status == 200, answer
        return _page(answer["token"], origin)


def _page(token: str, origin: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Origin": origin}


async def events_in(answer: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """Yield the events of a stream, each with its `sse_id`."""
    said: dict[str, str] = {}
    async for line in answer.content:
        text = line.decode().rstrip("\n")
        if not text and "data" in said:
            yield {**json.loads(said["data"]), "sse_id": said.get("id", "")}
        if not text:
            said = {}
        elif not text.startswith(":"):
            name, _, value = text.partition(": ")
            said[name] = value


@asynccontextmanager
async def served(
    *replies: Any,
    store: Store | None = None,
    rules: HttpRules | None = None,
    addons: Iterable[Callable[[Addon], object]] = (),
    personas: Mapping[str, Persona] | None = None,
    forwarded: ForwardedUsers | None = None,
    tokens: HostTokens | None = None,
    files: Path | None = None,
    vision: bool = False,
    routes: Sequence[AddonRoute] = (),
    web: Web | None = None,
) -> AsyncGenerator[Served, None]:
    model = ScriptedModel(*replies, traits=Traits(vision=vision))
    kept = store or await SqliteStore.open(MEMORY)
    persona_set = personas or PERSONAS
    engine = Engine(
        model=model,
        persona=persona_set["pixi"],
        store=kept,
        addons=addons,
        resolver=lambda conversation: Role(
            persona_set.get(conversation.split(":", 2)[-1], persona_set["pixi"]), model
        ),
    )
    try:
        with TemporaryDirectory(prefix="pixi-files-") as own:
            async with engine, aiohttp.ClientSession() as http:
                backend = EngineBackend(engine, kept, persona_set)
                folder = files or Path(own)
                server = HttpServer(
                    backend,
                    rules or HttpRules(),
                    files=folder,
                    forwarded=forwarded,
                    tokens=tokens,
                    routes=routes,
                    web_of_strangers=web,
                )
                async with server.serving("127.0.0.1", 0) as url:
                    yield Served(url, http, model, backend, server)
    finally:
        if store is None:
            await kept.close()
