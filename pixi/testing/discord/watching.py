"""Seeing what a bot asks, and meddling with it: failures, delays, limits."""

# ruff: noqa: ASYNC109 — a test says how long it waits, in the call

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

from pixi.testing.discord import calls, limits, payloads
from pixi.testing.discord.calls import ApiCall, Callback, Hook
from pixi.testing.discord.faults import Json
from pixi.testing.discord.limits import Limit
from pixi.testing.discord.messages import FakeMessage
from pixi.testing.discord.routing import Rest
from pixi.testing.discord.world import LIMIT, World

T = TypeVar("T")


class Watching:
    """The part of the face with which requests are seen and meddled with."""

    world: World
    rest: Rest

    @property
    def requests(self) -> list[ApiCall]:
        """Every request to REST, in their order."""
        return self.rest.calls

    def asked(self, method: str, path: str = "") -> list[ApiCall]:
        """Requests with that method whose path has that pattern in it."""
        pattern = re.compile(path)
        return [call for call in self.rest.calls if call.method == method and pattern.search(call.path)]

    async def wait_for(self, condition: Callable[[], T], timeout: float = LIMIT) -> T:
        """What `condition` gives as soon as that is true; it is asked again after each change.

        Raises `TimeoutError`, with what happened last.
        """
        try:
            async with asyncio.timeout(timeout):
                while not (found := condition()):
                    await self.world.next_change()
                return found
        except TimeoutError:
            last = ", ".join(repr(call) for call in self.rest.calls[-8:]) or "none"
            raise TimeoutError(f"It did not become true in {timeout} s. The last requests: {last}.") from None

    async def ready(self, sessions: int = 1, timeout: float = LIMIT) -> None:
        """Return once so many sessions are connected."""
        await self.wait_for(lambda: len(self.world.hub.live()) >= sessions, timeout)

    async def idle(self, quiet: float = 0.05, timeout: float = LIMIT) -> None:
        """Return once no request is being answered and nothing has happened for a while."""
        async with asyncio.timeout(timeout):
            while True:
                change = asyncio.ensure_future(self.world.next_change())
                done, _ = await asyncio.wait({change}, timeout=quiet)
                change.cancel()
                if not done and not self.rest.running:
                    return

    # At the point of a request.

    def before(self, method: str, path: str, callback: Callback, *, times: int | None = None) -> Hook:
        """Do something before a request takes effect, `times` times or always.

        `path` is a pattern that is searched in the path under /api/v10. What the callback raises is
        answered: `RefusedCall` as an error, `DropConnection` by closing the connection. It may wait.
        """
        return self.rest.hooks.add(self.rest.hooks.early, method, path, callback, times)

    def after(self, method: str, path: str, callback: Callback, *, times: int | None = None) -> Hook:
        """Do something when a request took effect and is not answered yet."""
        return self.rest.hooks.add(self.rest.hooks.late, method, path, callback, times)

    def fail(
        self,
        method: str,
        path: str,
        status: int = 500,
        code: int = 0,
        message: str = "",
        *,
        times: int | None = None,
        took_effect: bool = False,
    ) -> Hook:
        """Answer requests with an error, before or after they took effect."""
        place = self.after if took_effect else self.before
        return place(method, path, calls.refusal(status, code, message), times=times)

    def hang_up(self, method: str, path: str, *, times: int | None = 1, took_effect: bool = False) -> Hook:
        """Close the connection instead of answering."""
        return (self.after if took_effect else self.before)(method, path, calls.drop, times=times)

    def slow(self, method: str, path: str, seconds: float, *, times: int | None = None) -> Hook:
        """Let requests take a while."""

        async def wait(call: ApiCall) -> None:
            await asyncio.sleep(seconds)

        return self.before(method, path, wait, times=times)

    def limit(self, method: str, path: str, limit: int, seconds: float, *, scope: str = "user") -> Limit:
        """Limit requests, for each channel, guild or webhook by itself; `Limit` goes to `unlimit`."""
        return self.rest.limits.add(method, path, limit, seconds, scope)

    def unlimit(self, limit: Limit) -> None:
        """Lift a limit."""
        self.rest.limits.remove(limit)

    def limit_everything(self, limit: int = 50, seconds: float = 1.0) -> None:
        """Set the global limit."""
        self.rest.limits.everything(limit, seconds)

    def limit_as_usual(self) -> None:
        """Set the limits that bots meet at Discord."""
        for method, path, limit, seconds in limits.USUAL:
            self.limit(method, path, limit, seconds)
        self.limit_everything()

    def payload(self, message: FakeMessage) -> Json:
        """A message as REST gives it."""
        return payloads.message(message, self.world)
