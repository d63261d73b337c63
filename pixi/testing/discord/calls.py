"""Requests that came, and what a test does at the point of one."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pixi.testing.discord.faults import DropConnection, Json, RefusedCall

if TYPE_CHECKING:
    from pixi.testing.discord.world import World


@dataclass(eq=False)
class ApiCall:
    """A request to the REST interface.

    Attributes:
        path: under `/api/v10`, decoded, without the query.
        pairs: the query with names that stand in it more than once.
        route: its template, like `/channels/{channel}/messages`; "" while it is not known.
        body: what JSON or `payload_json` said; None: nothing.
        files: names of the files that came along.
        at: when it came, on the monotonic clock.
        status: what was answered; None while it is not yet, or when the connection was dropped.
        answer: what was answered.
    """

    world: World
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    pairs: tuple[tuple[str, str], ...] = ()
    body: Any = None
    files: tuple[str, ...] = ()
    at: float = field(default_factory=time.monotonic)
    route: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    answer: object = None
    uploads: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{self.method} {self.path} → {self.status}>"


Callback = Callable[[ApiCall], Awaitable[None] | None]


@dataclass(eq=False)
class Hook:
    """Something that is done at the point of a request. `hits`: the calls that it met."""

    method: str
    path: re.Pattern[str]
    callback: Callback
    times: int | None
    hits: list[ApiCall] = field(default_factory=list)
    _home: list[Hook] = field(default_factory=list, repr=False)

    def remove(self) -> None:
        """Do it no more."""
        if self in self._home:
            self._home.remove(self)

    def meets(self, call: ApiCall) -> bool:
        """Whether the request is meant."""
        return self.method in {"*", call.method} and self.path.search(call.path) is not None


class Hooks:
    """Those before a request takes effect, and those after it did and before it is answered."""

    def __init__(self) -> None:
        self.early: list[Hook] = []
        self.late: list[Hook] = []

    def add(self, home: list[Hook], method: str, path: str, callback: Callback, times: int | None) -> Hook:
        """Set one up."""
        hook = Hook(method.upper(), re.compile(path), callback, times, _home=home)
        home.append(hook)
        return hook

    async def run(self, home: list[Hook], call: ApiCall) -> None:
        """Do what was set up for the request. Raises what a hook raises: `RefusedCall`, `DropConnection`."""
        for hook in tuple(home):
            if not hook.meets(call) or hook not in home:
                continue
            hook.hits.append(call)
            if hook.times is not None and len(hook.hits) >= hook.times:
                hook.remove()
            done = hook.callback(call)
            if inspect.isawaitable(done):
                await done


def refusal(status: int, code: int = 0, message: str = "", body: Json | None = None) -> Callback:
    """A callback that refuses."""

    def refuse(call: ApiCall) -> None:
        raise RefusedCall(status, code, message or f"{status}: refused by a test", body=body)

    return refuse


def drop(call: ApiCall) -> None:
    """A callback that closes the connection without an answer."""
    raise DropConnection
