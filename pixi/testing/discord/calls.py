"""Calls of the REST interface: as they came, what refuses them, and their rate limits."""

from __future__ import annotations

import inspect
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class RefusedCall(Exception):
    """A request is refused with Discord's body."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        *,
        errors: Json | None = None,
        headers: dict[str, str] | None = None,
        body: Json | None = None,
    ) -> None:
        super().__init__(f"{status} {code} {message}")
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}
        self._errors = errors
        self._body = body

    @property
    def body(self) -> Json:
        """Return what is answered."""
        if self._body is not None:
            return self._body
        body: Json = {"message": self.message, "code": self.code}
        return body | {"errors": self._errors} if self._errors else body


class DropConnection(Exception):
    """Raised in a hook: the connection is closed and nothing is answered."""


_KNOWN: dict[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10007: (404, "Unknown Member"),
    10008: (404, "Unknown Message"),
    10014: (400, "Unknown Emoji"),
    10015: (404, "Unknown Webhook"),
    10062: (404, "Unknown interaction"),
    10063: (404, "Unknown application command"),
    30007: (400, "Maximum number of webhooks reached (15)"),
    30010: (403, "Maximum number of reactions reached (20)"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    50001: (403, "Missing Access"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50008: (400, "Cannot send messages in a non-text channel"),
    50013: (403, "Missing Permissions"),
    50024: (400, "Cannot execute action on this channel type"),
    50027: (401, "Invalid Webhook Token"),
    50081: (400, "Invalid sticker sent"),
    50083: (400, "Thread is archived"),
    160002: (403, "Cannot reply without permission to read message history"),
}


def fault(code: int) -> RefusedCall:
    """Return the error with one of Discord's codes."""
    status, message = _KNOWN[code]
    return RefusedCall(status, code, message)


def invalid(place: tuple[str | int, ...], code: str, message: str) -> RefusedCall:
    """Return the refusal of a body for a field. Its place is the way to it: `("embeds", 0, "title")`."""
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for step in reversed(place):
        errors = {str(step): errors}
    return RefusedCall(400, 50035, "Invalid Form Body", errors=errors)


def longest(place: tuple[str | int, ...], value: object, limit: int) -> None:
    """Raises `RefusedCall`: a text has more than `limit` characters."""
    if isinstance(value, str) and len(value) > limit:
        raise invalid(place, "BASE_TYPE_MAX_LENGTH", f"Must be {limit} or fewer in length.")


def within(place: tuple[str | int, ...], value: object, low: int, high: int) -> None:
    """Raises `RefusedCall`: a text has not from `low` to `high` characters."""
    if not isinstance(value, str) or not low <= len(value) <= high:
        raise invalid(place, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")


def snowflake(value: object, name: str) -> int:
    """Return an id from a path or a body. Raises `RefusedCall`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    raise invalid((name,), "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')


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
        """Return whether the request is meant."""
        return self.method in {"*", call.method} and self.path.search(call.path) is not None


async def run_hooks(hooks: list[Hook], call: ApiCall) -> None:
    """Do what was set up for the request. Raises what a hook raises: `RefusedCall`, `DropConnection`."""
    for hook in tuple(hooks):
        if not hook.meets(call) or hook not in hooks:
            continue
        hook.hits.append(call)
        if hook.times is not None and len(hook.hits) >= hook.times:
            hook.remove()
        done = hook.callback(call)
        if inspect.isawaitable(done):
            await done


NOT_GLOBAL = ("/interactions/", "/webhooks/")


@dataclass(slots=True)
class _Window:
    began: float
    used: int = 0


@dataclass(eq=False)
class Limit:
    """A limit that a test set: `limit` requests in `seconds`, for each top-level resource by itself."""

    method: str
    path: re.Pattern[str]
    limit: int
    seconds: float
    windows: dict[str, _Window] = field(default_factory=dict)

    def meets(self, call: ApiCall) -> bool:
        """Return whether the request counts."""
        return self.method in {"*", call.method} and self.path.search(call.path) is not None


class RateLimits:
    """Rate limits: `every` by resource, and `whole` for all that counts to the bot's own limit."""

    def __init__(self) -> None:
        self.every: list[Limit] = []
        self.whole: Limit | None = None

    def count(self, call: ApiCall) -> dict[str, str]:
        """Count a request; gives the headers. Raises `RefusedCall` with 429."""
        now = time.monotonic()
        if self.whole is not None and not call.path.startswith(NOT_GLOBAL):
            window = _window(self.whole, "", now)
            if window.used >= self.whole.limit:
                raise too_many(_left(self.whole, window, now), {"X-RateLimit-Global": "true"})
            window.used += 1
        limit = next((one for one in self.every if one.meets(call)), None)
        if limit is None:
            return {}
        window = _window(limit, major(call), now)
        left = _left(limit, window, now)
        headers = {
            "X-RateLimit-Limit": str(limit.limit),
            "X-RateLimit-Remaining": str(max(0, limit.limit - window.used - 1)),
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": f"{limit.method} {limit.path.pattern}",
        }
        if window.used >= limit.limit:
            raise too_many(left, headers)
        window.used += 1
        return headers


def major(call: ApiCall) -> str:
    """Return the top-level resource of a request: channel, guild, or webhook with its token."""
    ids = call.ids
    token = ids.get("token", "") if "webhook" in ids else ""
    return f"{ids.get('channel') or ids.get('guild') or ids.get('webhook') or ''}:{token}"


def too_many(seconds: float, headers: dict[str, str]) -> RefusedCall:
    """Return the answer 429."""
    message, is_global = "You are being rate limited.", "X-RateLimit-Global" in headers
    headers = headers | {"Retry-After": str(math.ceil(seconds)), "Via": "1.1 google"}
    body: Json = {"message": message, "retry_after": round(seconds, 3), "global": is_global}
    return RefusedCall(429, 0, message, headers=headers, body=body)


def _window(limit: Limit, key: str, now: float) -> _Window:
    window = limit.windows.get(key)
    if window is None or now - window.began >= limit.seconds:
        window = limit.windows[key] = _Window(now)
    return window


def _left(limit: Limit, window: _Window, now: float) -> float:
    return max(0.001, window.began + limit.seconds - now)
