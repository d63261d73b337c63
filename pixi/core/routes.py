"""Routes of addons: a way in over HTTP that an addon adds, beside those of the server itself.

An addon says what a route takes and gives, and the server does the rest: keys and scopes, limits, reading and
checking of bodies, problems, the description in `/openapi.json`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct, field

from pixi.core.errors import ConfigError, PixiError

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Scope = Literal["chat", "approve", "operate"]


class RouteError(PixiError):
    """A request that is refused.

    Attributes:
        status: of HTTP, from 400 on.
        title: what it is, in a few words.
        detail: what to do about it.
    """

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail


class Caller(Struct, frozen=True):
    """The caller of a route.

    Attributes:
        person: id of the author, as of somebody who talks, e.g. `web:app:7`.
        name: for people.
        path: the free parts of the path, by name.
        key: with which the same request is known again (`Idempotency-Key`); "": none was given.
    """

    person: str
    name: str
    path: Mapping[str, str] = field(default_factory=dict)
    key: str = ""


Answer = Callable[[Caller, Any], Awaitable[Any]]
"""Given who asks and what (None where nothing is taken), gives what the route's `response` says."""

Follow = Callable[[Caller, Any], AsyncGenerator[Mapping[str, Any], None]]
"""Given who asks and what, yields JSON objects. What it raises ends the stream, and is told in it."""


class RouteWrites(Struct, frozen=True):
    """Record of a change made through a route: the same request again is not another.

    Attributes:
        name: under which it stands there: that of the tool that does the same, where there is one.
        times: how often for one person within any stretch of `seconds`, together with `others`.
        others: names of tools and routes that are counted, too.
    """

    name: str
    times: int
    seconds: float
    others: tuple[str, ...] = ()


class AddonRoute(Struct, frozen=True):
    """A route of an addon.

    Attributes:
        method: of HTTP.
        path: below `/api/`, with `{name}` where a part is free.
        answer: answers, or for a route that `streams`, yields; refuses with `RouteError`.
        summary: what it does, in a line.
        scope: that the caller needs, see the guide to keys.
        request: the type of the body, or of what stands behind `?` for GET: a msgspec Struct whose field
            `userId`, where it has one, names for whom the caller asks; None: nothing is taken.
        response: the type of the answer, or of each object that is yielded.
        streams: the answer is a stream of server-sent events, each one JSON object.
        writes: what it changes that is put on record and counted; None: nothing. What it refuses by a status
            below 500, or by 503, it did not do. A stream has none.

    Raises:
        ConfigError: the path is not below `/api/`, the method is none, or it is a stream that writes.
    """

    method: Method
    path: str
    answer: Answer | Follow
    summary: str
    scope: Scope = "chat"
    request: type[Any] | None = None
    response: type[Any] | None = None
    streams: bool = False
    writes: RouteWrites | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("/api/"):
            raise ConfigError(f"route {self.path!r}: write a path below /api/, e.g. /api/books.")
        if self.method not in get_args(Method):
            raise ConfigError(
                f"route {self.path!r}: {self.method!r} is none of {', '.join(get_args(Method))}."
            )
        if self.streams and self.writes is not None:
            raise ConfigError(
                f"route {self.path!r}: a stream is not put on record; leave out writes or streams."
            )
