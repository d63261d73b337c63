"""Talks of programs with personas: a message is answered by the engine, and all that is said comes back."""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pixi.app.building import open_service
from pixi.channels.gathering import GatheringChannel
from pixi.channels.terminal.lines import OWN_SECONDS
from pixi.core.errors import PixiError, ToolError
from pixi.core.message import Author, Message
from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.app.service import BotService

LONGEST_MESSAGE = 8_000
"""Characters."""

_AT_ONCE = 8  # replies under way
_TALK = re.compile(r"[0-9a-f]{32}")

Tell = Callable[[str], None]


class McpTalks:
    """Opens all that answers when somebody first writes; `close` it.

    Args:
        settings: what the operator wants.
        user: the name of the one who writes.
        report: told what a person should know, in one line.
        alone: it is one person in all talks; otherwise each talk is another's.
    """

    def __init__(self, settings: Settings, user: str, report: Tell, *, alone: bool) -> None:
        self._settings = settings
        self._user = user
        self._alone = alone
        self._report = report
        self._service: asyncio.Future[BotService] | None = None
        self._over = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def say(self, persona: str, text: str, talk: str, happens: Tell) -> Mapping[str, Any]:
        """Say something to a persona; gives its answer as plain data.

        Args:
            persona: by the name of its file.
            text: what is said.
            talk: an earlier one that this goes on with, by what was given as `conversation`; "": a new one.
            happens: told in a line what is being done.

        Raises:
            ToolError: there is no answer; says why.
        """
        if not text.strip():
            raise ToolError("The message is empty: write something.")
        if len(text) > LONGEST_MESSAGE:
            raise ToolError(
                f"The message has {len(text)} characters, and {LONGEST_MESSAGE} are taken at most."
            )
        if talk and not _TALK.fullmatch(talk):
            raise ToolError("There is no such conversation: give what was given as `conversation`, or none.")
        if self._places.locked():
            raise ToolError(f"{_AT_ONCE} replies are being written already; try again in a moment.")
        talk = talk or uuid.uuid4().hex
        address = f"mcp:{talk}:{persona}"
        lock = self._locks.setdefault(address, asyncio.Lock())
        async with self._places, lock:
            channel = await self._answered(persona, address, text, happens)
        if channel.failure and not channel.messages:
            raise ToolError(channel.failure)
        answer = {"persona": persona, "conversation": talk, "messages": channel.messages}
        answer |= {"reactions": channel.reactions, "finish": channel.finish}
        return answer | ({"sources": channel.sources} if channel.sources else {})

    async def close(self) -> None:
        """Stop what is being written, and close what was opened."""
        self._over.set()
        if self._keeping is not None:
            with suppress(PixiError):  # who asked was told
                await self._keeping

    async def _answered(self, persona: str, address: str, text: str, happens: Tell) -> GatheringChannel:
        try:
            service = await self._opened(happens)
        except PixiError as error:
            raise ToolError(f"Nobody can answer: {error}") from error
        if persona not in service.persona_set.personas:
            faults = " ".join(service.persona_set.faults)
            raise ToolError(f"{persona} cannot answer: {faults or 'there is no such persona.'}")
        channel = GatheringChannel(happens)
        person = self._user if self._alone else address.split(":")[1]
        author = Author(f"mcp:{person}", self._user)
        message = Message(uuid.uuid4().hex, address, author, text, time.time())
        try:
            await service.engine.own(address, seconds=OWN_SECONDS)
            await service.engine.receive(message, channel)
            await service.engine.settled(address)
        except asyncio.CancelledError:
            await service.engine.stop(address)
            raise
        except PixiError as error:
            raise ToolError(str(error)) from error
        return channel

    async def _opened(self, happens: Tell) -> "BotService":
        """Return the service; a task of its own opens and closes it. It is tried anew where it failed."""
        if self._service is None or (self._service.done() and self._service.exception() is not None):
            happens("opening the model")
            self._service = asyncio.get_running_loop().create_future()
            self._keeping = asyncio.create_task(self._keep(self._service))
        return await asyncio.shield(self._service)

    async def _keep(self, opened: "asyncio.Future[BotService]") -> None:
        try:
            async with open_service(self._settings, report=self._report) as service:
                opened.set_result(service)
                await self._over.wait()
        except PixiError as error:
            if opened.done():
                raise
            opened.set_exception(error)
            opened.exception()  # whoever waited may have gone
        except BaseException:
            if not opened.done():
                opened.cancel()
            raise
