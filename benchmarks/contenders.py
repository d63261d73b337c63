"""Clients of the model server that are measured beside each other, behind one protocol."""

import asyncio
import re
import tempfile
import time
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks.replies import STAMP_DIGITS
from pixi.core.channel import Channel
from pixi.core.events import Failed, TurnEnded, TurnEvent
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.engine import Engine
from pixi.models.server_model import ServerModel
from pixi.store.kept import Begun, SavedConversation
from pixi.store.sqlite import SqliteStore
from pixi.store.store import Store
from pixi.store.writer import Writer

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Contender(Protocol):
    """Reads replies from a base URL.

    `delays` grows with each message that tells when its bracket was written: nanoseconds of the monotonic
    clock, which all processes of a machine share.
    """

    delays: list[int]

    async def open(self, base_url: str) -> None:
        """Get ready for replies from there."""
        ...

    async def reply(self, number: int) -> None:
        """Ask for one reply and read it to its end; `number` tells simultaneous ones apart."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...


def delay_of(message: str) -> int | None:
    """Nanoseconds since the moment with which a message ends; None where it tells none."""
    now = time.monotonic_ns()
    last = message.rpartition(" ")[2]
    return now - int(last) if len(last) == STAMP_DIGITS and last.isdigit() else None


class _CountingProtocol(asyncio.Protocol):
    """Counts events; decodes nothing."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.events = 0
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, for uvloop's transports are none of asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.events += data.count(b"\n\n")
        if data.endswith(b"0\r\n\r\n"):
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class _WatchingProtocol(_CountingProtocol):
    """Looks for closing brackets with their moment, too."""

    _stamp = re.compile(rb"\"(\d{%d})\]" % STAMP_DIGITS)

    def __init__(self, request: bytes, delays: list[int]) -> None:
        super().__init__(request)
        self._delays = delays

    def data_received(self, data: bytes) -> None:
        for found in self._stamp.finditer(data):
            self._delays.append(time.monotonic_ns() - int(found[1]))
        super().data_received(data)


class Floor:
    """A bare Protocol: the least that can be done with the bytes. It counts, or looks for brackets too."""

    def __init__(self, *, watching: bool = False) -> None:
        self.delays: list[int] = []
        self._watching = watching

    async def open(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        path = f"{parts.path}/chat/completions"
        self._request = f"POST {path} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}".encode()

    def _protocol(self) -> _CountingProtocol:
        if self._watching:
            return _WatchingProtocol(self._request, self.delays)
        return _CountingProtocol(self._request)

    async def reply(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(self._protocol, self._host, self._port)
        await protocol.ended
        if not protocol.events:
            raise AssertionError("the server sent nothing")

    async def close(self) -> None:
        """Each connection was closed by itself."""


class OpenAISDK:
    """The openai package as its documentation shows it: a loop over the chunks, nothing done with them."""

    def __init__(self) -> None:
        self.delays: list[int] = []
        self._client: AsyncOpenAI | None = None

    async def open(self, base_url: str) -> None:
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)

    async def reply(self, number: int) -> None:
        assert self._client is not None
        stream = await self._client.chat.completions.create(
            model="benchmark", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        characters = 0
        async for chunk in stream:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                characters += len(text)
        if not characters:
            raise AssertionError("the server sent nothing")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


class Recording(Channel):
    """A channel that keeps count of what was done in it, and of what went wrong."""

    def __init__(self, delays: list[int]) -> None:
        self._delays = delays
        self.performed = 0
        self.wrong: list[str] = []

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        delay = delay_of(text)
        if delay is not None:
            self._delays.append(delay)
        return None

    def show(self, event: TurnEvent) -> None:
        if isinstance(event, Failed):
            self.wrong.append(event.text)
        elif not isinstance(event, TurnEnded):
            self.performed += 1
        elif event.finish != "stop":
            self.wrong.append(f"the turn ended with {event.finish!r}")


class Forgetful(SqliteStore):
    """A store that keeps a message until its turn begins, and no more: the engine without its journal."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._waiting: dict[str, tuple[Message, ...]] = {}

    async def receive(self, message: Message) -> Message | None:
        self._waiting[message.conversation] = (message,)
        return message

    async def load(self, conversation: str, context_tokens: int | None = None) -> SavedConversation:
        return SavedConversation(0, (), self._waiting.pop(conversation, ()), ())

    async def begin_turn(
        self,
        conversation: str,
        generation: int,
        persona: str,
        message_ids: Iterable[str],
        **_: Any,
    ) -> Begun:
        return Begun(1, tuple(message_ids))

    async def end_turn(self, *_: Any, **__: Any) -> bool:
        return True

    def _unrecorded(self, *_: Any, **__: Any) -> Awaitable[None]:
        """Return a future that is done, as a store does: a coroutine would take a task for each."""
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    plan = command_ended = mark_turn = intend = settle = _unrecorded


class Pixi:
    """The whole engine: a message in, the reply streamed, parsed, journalled in SQLite, and performed."""

    def __init__(self, *, journal: bool = True) -> None:
        self.delays: list[int] = []
        self._journal = journal
        self._open = AsyncExitStack()

    async def open(self, base_url: str) -> None:
        store = await self._open_store()
        self._open.push_async_callback(store.close)
        model = ServerModel("benchmark", base_url=base_url)
        self._open.push_async_callback(model.close)
        many = 10**9
        limits = Limits(commands=many, messages=many, reactions=many, reply_characters=many)
        persona = Persona(name="Pixi", prompt="You are a friend.")
        engine = Engine(model=model, persona=persona, store=store, limits=limits)
        self._engine = await self._open.enter_async_context(engine)

    async def _open_store(self) -> Store:
        if not self._journal:
            return await Forgetful.open(":memory:")
        folder = self._open.enter_context(tempfile.TemporaryDirectory())
        return await SqliteStore.open(Path(folder) / "pixi.db")

    async def reply(self, number: int) -> None:
        conversation = f"benchmark:{number}"
        message = Message(
            id=uuid4().hex,
            conversation=conversation,
            author=Author("1", "Mo"),
            text="hi",
            sent_at=time.time(),
        )
        channel = Recording(self.delays)
        await self._engine.receive(message, channel)
        await self._engine.settled(conversation)
        if channel.wrong or not channel.performed:
            raise AssertionError(channel.wrong or "nothing was performed")

    async def close(self) -> None:
        await self._open.aclose()


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, str]:
    """uvloop's loop where it is installed, else asyncio's; and what it is called."""
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop(), "asyncio"
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop, "uvloop"
