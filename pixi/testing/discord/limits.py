"""Rate limits: buckets per route and top-level resource, and one for everything."""

from __future__ import annotations

import hashlib
import math
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.faults import Json, RefusedCall

if TYPE_CHECKING:
    from pixi.testing.discord.calls import ApiCall

# What bots meet at Discord's usual limits: (method, route, requests, seconds).
USUAL = (
    ("POST", r"^/channels/\d+/messages$", 5, 5.0),
    ("PATCH", r"^/channels/\d+/messages/\d+$", 5, 5.0),
    ("DELETE", r"^/channels/\d+/messages/\d+$", 5, 1.0),
    ("GET", r"^/channels/\d+/messages$", 5, 5.0),
    ("PUT", r"/reactions/", 1, 0.25),
    ("DELETE", r"/reactions/", 1, 0.25),
    ("POST", r"/typing$", 5, 5.0),
    ("POST", r"^/webhooks/", 5, 2.0),
    ("PATCH", r"/members/@me$", 10, 10.0),
)
GENEROUS = (1_000_000, 1.0)
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
    scope: str = "user"
    hash: str = ""
    windows: dict[str, _Window] = field(default_factory=dict)

    def meets(self, call: ApiCall) -> bool:
        """Whether the request counts."""
        return self.method in {"*", call.method} and self.path.search(call.path) is not None


class RateLimits:
    """Every limit; `refused` counts the answers with 429."""

    def __init__(self) -> None:
        self.refused = 0
        self._limits: list[Limit] = []
        self._whole: Limit | None = None
        self._hashes: dict[tuple[str, str], str] = {}

    def add(self, method: str, path: str, limit: int, seconds: float, scope: str = "user") -> Limit:
        """Set a limit; the latest that fits a request counts."""
        one = Limit(method.upper(), re.compile(path), limit, seconds, scope, _hash(f"{method} {path}"))
        self._limits.insert(0, one)
        return one

    def remove(self, limit: Limit) -> None:
        """Lift a limit."""
        if limit in self._limits:
            self._limits.remove(limit)

    def everything(self, limit: int, seconds: float) -> None:
        """Set the global limit."""
        self._whole = Limit("*", re.compile(""), limit, seconds, "global")

    def pass_(self, call: ApiCall) -> dict[str, str]:
        """Count a request; gives the headers. Raises `RefusedCall` with 429."""
        if self._whole is not None and not call.path.startswith(NOT_GLOBAL):
            now = time.monotonic()
            window = _window(self._whole, "", now)
            if window.used >= self._whole.limit:
                self.refused += 1
                raise too_many(_left(self._whole, window, now), is_global=True)
            window.used += 1
        limit = next((one for one in self._limits if one.meets(call)), None)
        if limit is None:
            return self._generous(call)
        now = time.monotonic()
        window = _window(limit, major(call), now)
        left = _left(limit, window, now)
        headers = _headers(limit.limit, limit.limit - window.used - 1, left, limit.hash)
        if window.used >= limit.limit:
            self.refused += 1
            raise too_many(left, scope=limit.scope, headers=headers | {"X-RateLimit-Remaining": "0"})
        window.used += 1
        return headers

    def _generous(self, call: ApiCall) -> dict[str, str]:
        key = call.method, call.route
        if key not in self._hashes:
            self._hashes[key] = _hash(" ".join(key))
        return _headers(GENEROUS[0], GENEROUS[0] - 1, GENEROUS[1], self._hashes[key])


def major(call: ApiCall) -> str:
    """The top-level resource of a request: channel, guild, or webhook with its token."""
    ids = call.ids
    token = ids.get("token", "") if "webhook" in ids else ""
    return f"{ids.get('channel') or ids.get('guild') or ids.get('webhook') or ''}:{token}"


def too_many(
    seconds: float, *, is_global: bool = False, scope: str = "user", headers: dict[str, str] | None = None
) -> RefusedCall:
    """The answer 429."""
    all_headers = (headers or {}) | {
        "Retry-After": str(math.ceil(seconds)),
        "X-RateLimit-Scope": "global" if is_global else scope,
        "Via": "1.1 google",
    }
    if is_global:
        all_headers["X-RateLimit-Global"] = "true"
    shared = scope == "shared"
    message = "The resource is being rate limited." if shared else "You are being rate limited."
    body: Json = {"message": message, "retry_after": round(seconds, 3), "global": is_global}
    return RefusedCall(429, 0, message, headers=all_headers, body=body)


def _window(limit: Limit, key: str, now: float) -> _Window:
    window = limit.windows.get(key)
    if window is None or now - window.began >= limit.seconds:
        window = limit.windows[key] = _Window(now)
    return window


def _left(limit: Limit, window: _Window, now: float) -> float:
    return max(0.001, window.began + limit.seconds - now)


def _headers(limit: int, remaining: int, left: float, bucket: str) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(max(0, remaining)),
        "X-RateLimit-Reset": f"{time.time() + left:.3f}",
        "X-RateLimit-Reset-After": f"{left:.3f}",
        "X-RateLimit-Bucket": bucket,
    }


def _hash(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()
