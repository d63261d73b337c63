"""Talks with a persona as it stands in the editor: held in memory, kept nowhere, paid for as any other."""

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from pixi.app.service import BotService
from pixi.channels.http.feed import SILENCE, HttpChannel
from pixi.core.errors import ConfigError, PixiError
from pixi.core.events import TurnReport
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.core.routes import Caller, RouteError
from pixi.core.spending import Budgets
from pixi.engine.context import Role
from pixi.engine.engine import Engine

_MOST_TALKS = 4
"""Talks that are held at once; the one that was used last stays longest."""


class DraftTalk:
    """A talk with an engine of its own, with commands and tools of the service, and a store in memory.

    It goes for nobody, so that nothing is remembered of it, and tools that change something are not offered.

    Args:
        service: whose model and tools are used, and where its cost is recorded.
        persona: who answers; may be set anew before each message.
    """

    def __init__(self, service: BotService, persona: Persona) -> None:
        self.persona = persona
        self._service = service
        self._model = service.model
        self._address = f"studio:draft:{token_hex(8)}"
        self._channel = HttpChannel(visitors=True)
        self._report: TurnReport | None = None
        self._messages = 0
        self._engine = Engine(
            model=self._model,
            persona=persona,
            resolver=lambda _: Role(self.persona, self._model),
            on_turn=self._enter,
            look_up=service.library.look_up,
        )
        self._engine.commands, self._engine.tools = service.engine.commands, service.engine.tools
        self._engine.settings = replace(
            service.engine.settings, budgets=Budgets(), gather_seconds=0.0, observers=[]
        )

    async def say(self, text: str) -> AsyncGenerator[dict[str, Any], None]:
        """Say something, and yield the events of the answer. Left early, the reply is stopped.

        Raises:
            PixiError: the message cannot be taken.
        """
        self._messages += 1
        author = Author(self._address, "somebody")
        message = Message(f"m{self._messages}", self._address, author, text, time.time())
        channel, self._report = self._channel, None
        place = channel.feed.count
        channel.feed.waiting += 1
        try:
            await self._engine.receive(message, channel)
            async with aclosing(channel.turn_from(place)) as events:
                async for forms in events:
                    for form in forms:
                        if form is not SILENCE:
                            yield form
            await self._engine.settled(self._address)
        finally:
            channel.feed.waiting -= 1
            await self._engine.stop(self._address)
        if report := self._report:
            yield {
                "event": "report",
                "model": report.model,
                "finish": report.finish,
                "steps": report.steps,
                "prompt_tokens": report.usage.prompt_tokens,
                "cached_tokens": report.usage.cached_tokens,
                "completion_tokens": report.usage.completion_tokens,
                "cost": report.cost,
                "seconds": report.seconds,
                "first_visible": report.first_visible,
            }

    async def close(self) -> None:
        """End it; what was said is gone."""
        await self._engine.close()

    def _enter(self, report: TurnReport) -> None:
        self._report = report
        self._service.engine.count(report.model, report.usage, self._model.traits.prices)


class DraftTalks:
    """The talks that go on beside editors, by the names that pages gave them."""

    def __init__(self, service: BotService) -> None:
        self._service = service
        self._talks: OrderedDict[tuple[str, str], DraftTalk] = OrderedDict()

    async def at(self, caller: Caller, name: str, persona: Persona) -> DraftTalk:
        """Give a talk of whoever asks, with the persona as it is by now; it is begun where there is none.

        Raises:
            RouteError: the persona cannot answer here, or this month's money is spent.
        """
        service = self._service
        try:
            service.library.check(persona)
            await service.library.want(persona.databases)
            service.library.register(service.engine.addon)
            service.engine.check(persona)
            spent = await service.overspent()
        except ConfigError as error:
            raise RouteError(422, "It cannot answer so", str(error)) from error
        except PixiError as error:
            raise RouteError(503, "Not now", str(error)) from error
        if spent:
            raise RouteError(429, "Spent", spent)
        key = (caller.person, name)
        talk = self._talks.get(key)
        if talk is None:
            talk = self._talks[key] = DraftTalk(service, persona)
        talk.persona = persona
        self._talks.move_to_end(key)
        while len(self._talks) > _MOST_TALKS:
            _, oldest = self._talks.popitem(last=False)
            await oldest.close()
        return talk

    async def end(self, caller: Caller, name: str) -> None:
        """End a talk of whoever asks, if there is one."""
        talk = self._talks.pop((caller.person, name), None)
        if talk is not None:
            await talk.close()

    async def close(self) -> None:
        """End all."""
        while self._talks:
            _, talk = self._talks.popitem()
            await talk.close()
