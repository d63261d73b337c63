"""A server of `/v1` with personas that answer by a script."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from pixi.channels.http.access import Principal
from pixi.channels.http.completions import Completions, Turn
from pixi.channels.http.faces.chat_completions import ChatCompletionStream
from pixi.channels.http.reconciling import KeptTalk, KeptTurn
from pixi.channels.http.rules import HttpRules

USAGE = {"prompt_tokens": 12, "cached_tokens": 8, "completion_tokens": 3}


def end(finish: str = "stop") -> dict[str, Any]:
    return {"event": "turn_end", "finish": finish, "steps": 1, "usage": USAGE}


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"event": "send", "id": f"1.{n}", "text": text} for n, text in enumerate(texts)]


@dataclass
class Backend:
    """Keeps talks in memory. `script` is what each turn shows before its end."""

    script: Sequence[Mapping[str, Any]] = ()
    finish: str = "stop"
    helper: str | None = None
    talks: dict[str, list[KeptTurn]] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    branched: list[tuple[str, int]] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    hold: asyncio.Event | None = None
    under_way: set[str] = field(default_factory=set)

    def personas(self) -> list[tuple[str, str]]:
        return [("mathilde", "Mathilde"), ("hidden", "Hidden")]

    async def kept_talks(self, person: str, persona: str, limit: int) -> list[KeptTalk]:
        return [KeptTalk(name, tuple(turns)) for name, turns in reversed(self.talks.items())]

    async def kept_talk(self, person: str, persona: str, name: str) -> KeptTalk | None:
        return KeptTalk(name, tuple(self.talks[name])) if name in self.talks else None

    def running(self, person: str, persona: str, name: str) -> bool:
        return name in self.under_way

    async def talk_with(self, person: str, persona: str, message_id: str) -> str | None:
        return next((turn.talk for turn in self.turns if turn.message_id == message_id), None)

    async def branch_talk(self, person: str, persona: str, name: str, turn: int) -> None:
        self.branched.append((name, turn))
        self.talks[name] = [each for each in self.talks[name] if each.turn < turn]

    async def stop_talk(self, person: str, persona: str, name: str, turn: int) -> None:
        self.stopped.append(turn)

    async def say(self, asker: Principal, turn: Turn) -> AsyncGenerator[Mapping[str, Any], None]:
        self.turns.append(turn)
        self.under_way.add(turn.talk)
        if self.hold is not None:
            await self.hold.wait()
        number = len(self.turns)
        yield {"event": "turn_start", "turn": number}
        words = ""
        for event in self.script or said(f"You said {turn.text}."):
            words += event.get("text", "") if event["event"] == "send" else ""
            yield {**event, "turn": number}
        self.under_way.discard(turn.talk)
        self.talks.setdefault(turn.talk, []).append(KeptTurn(number, turn.text, words))
        yield {**end(self.finish), "turn": number}

    async def helper_answer(self, prompt: str) -> str | None:
        return self.helper


async def _identify(request: web.Request, user: str, name: str) -> Principal:
    scopes = frozenset({"chat", "chat:on-behalf"})
    person = f"web:app:{user}" if user else "web:app"
    return Principal(person, name or "app", "app", scopes, personas=frozenset({"mathilde"}))


async def _stream(
    request: web.Request, face: ChatCompletionStream, events: AsyncIterator[Mapping[str, Any]]
) -> web.StreamResponse:
    response = web.StreamResponse(headers=dict(face.headers))
    await response.prepare(request)
    async for event in events:
        await response.write(face.feed(event))
        await response.write(b": keep-alive\n\n")
    await response.write(face.close())
    return response


@asynccontextmanager
async def serving(backend: Backend, settings: HttpRules | None = None) -> AsyncIterator[str]:
    """The address of a server on this machine."""
    app = web.Application(client_max_size=500_000)
    completions = Completions(backend, identify=_identify, stream=_stream, settings=settings)
    for method, path, handler in completions.routes():
        app.router.add_route(method, path, handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
