"""Visitors: let in by a token of their own, and what all callers may do in a time."""

import base64
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from ipaddress import IPv6Address, ip_address, ip_network

import msgspec

from pixi.channels.http.access import (
    PUBLISHABLE,
    VISITING,
    VISITOR,
    Principal,
    Problem,
    digest_of,
    type_of,
    wrong_key,
)
from pixi.core.spending import Rate
from pixi.settings.rules import HttpRules, is_own
from pixi.store.kept import ApiKey
from pixi.store.rates import UseOfAll

_WRONG_KEYS = 60  # a minute, from one network
_MOST_CALLERS = 10_000
"""Buckets that are kept. The one used longest ago goes first: it is full again, or nearly."""

_PERIODS = {60: "a minute", 3_600: "an hour", 86_400: "a day"}

Clock = Callable[[], float]


@dataclass(eq=False)
class RequestLimit:
    """Counts requests. Each caller may send `most` at once, and from then on that many in each period.

    Where there are other servers, callers may send all of them together no more than `most` in a period.

    Args:
        name: of the limit, which others have by the same name.
        most: requests.
        seconds: the period: a minute, an hour or a day.
        what: is counted, in the plural.
        clock: the monotonic time.

    Attributes:
        shared: counts requests over all servers; None: there is no other.
    """

    name: str
    most: int
    _: KW_ONLY
    seconds: int = 60
    what: str = "requests"
    clock: Clock = time.monotonic
    shared: UseOfAll | None = None

    def __post_init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests, and when it was counted

    async def use(self, caller: str, *, here: bool = False) -> None:
        """Count a request.

        Args:
            caller: who makes it.
            here: count it on this server alone, as whoever has no key is to cause no work elsewhere.

        Raises:
            Problem: 429, too many; it says when the next one is taken.
        """
        now = self.clock()
        left, then = self._left.pop(caller, (float(self.most), now))
        left = min(float(self.most), left + (now - then) * self.most / self.seconds)
        self._left[caller] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        seconds = 0.0 if left >= 1 else (1 - left) * self.seconds / self.most
        if not seconds and self.shared is not None and not here:
            seconds = await self.shared({("http", self.name, caller): Rate(self.most, self.seconds)})
        if seconds:
            wait, period = math.ceil(seconds), _PERIODS[self.seconds]
            raise Problem(
                429,
                f"Too many {self.what}",
                f"At most {self.most} {self.what} {period} are taken. Try again in {wait} s.",
                headers={
                    "Retry-After": str(wait),
                    "RateLimit-Policy": f'"{self.what}";q={self.most};w={self.seconds}',
                    "RateLimit": f'"{self.what}";r=0;t={wait}',
                },
                type=type_of("Too many requests"),
            )


class HttpLimits:
    """The limits of requests over HTTP: by person, by key, and for visitors by their network too.

    Args:
        rules: what the operator decided.
        clock: the monotonic time.
    """

    def __init__(self, rules: HttpRules, clock: Clock = time.monotonic) -> None:
        shared = rules.visitors_per_address
        minute, day = rules.visitor_requests_per_minute, rules.visitor_messages_per_day
        self._people = RequestLimit("person", rules.requests_per_minute, clock=clock)
        self._keys = RequestLimit("key", rules.key_requests_per_minute, clock=clock)
        self._visitors = RequestLimit("visitor", minute, clock=clock)
        self._networks = RequestLimit("network", minute * shared, clock=clock)
        self._refused = RequestLimit("refused", _WRONG_KEYS, what="wrong keys", clock=clock)
        self._new = RequestLimit("new", shared, seconds=3_600, what="visitors", clock=clock)
        self._said = RequestLimit("said", day, seconds=86_400, what="messages", clock=clock)
        self._said_there = RequestLimit(
            "said there", day * shared, seconds=86_400, what="messages", clock=clock
        )

    def share(self, shared: UseOfAll) -> None:
        """Count over all servers from now on."""
        for limit in vars(self).values():
            limit.shared = shared

    async def refused(self, network: str) -> None:
        """Count a wrong key or token.

        Raises:
            Problem: 429, too many came from there. Those whose key is right go on.
        """
        await self._refused.use(network, here=True)

    async def request(self, person: Principal) -> None:
        """Count a request of a person.

        Raises:
            Problem: 429, one too many. It is not counted for those who share with them.
        """
        if person.is_visitor:
            await self._visitors.use(person.id)
            await self._networks.use(person.network)
        else:
            await self._people.use(person.id)
        if person.key:
            await self._keys.use(person.key)

    async def message(self, person: Principal) -> None:
        """Count what a visitor says. What others say is limited by `[limits]`.

        Raises:
            Problem: 429, the visitor has said as much as a day allows.
        """
        if person.is_visitor:
            await self._said.use(person.id)
            await self._said_there.use(person.network)

    async def knock(self, network: str) -> None:
        """Count a request for a visitor's token.

        Raises:
            Problem: 429, one too many.
        """
        await self._networks.use(network, here=True)

    async def new_visitor(self, network: str) -> None:
        """Count a visitor who was not here before.

        Raises:
            Problem: 429, too many come from there.
        """
        await self._new.use(network)


def network_of(remote: str | None, told: str = "") -> str:
    """Return where a request comes from, as far as requests are counted by it.

    Of IPv6 it is the part that one customer has: the rest they can choose anew for each request.

    Args:
        remote: the address that the connection comes from.
        told: by the proxy that made it: addresses, the last of which the proxy saw itself.
    """
    text = (told.rpartition(",")[2].strip() or remote or "").partition("%")[0]
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return (remote or "").partition("%")[0]
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


TOKEN_SECONDS = 24 * 3_600
"""Seconds for which a token is good."""

RENEWED_SECONDS = 7 * 24 * 3_600
"""Seconds after its end in which a token still gets a new one for the same visitor."""


# Visitors: people at a web page who are logged in nowhere, known again by a token that the page keeps.
#
# A page begins with its publishable key, which everybody can read, and gets a token for one visitor: signed
# with what is kept beside the key, and good for a day on that page. So nothing is kept of visitors who say
# nothing, and a key that is revoked ends all its tokens. A page that is open for longer shows its old token
# to get one for the same visitor. What a browser says of the page (`Origin`) keeps other pages from using
# the key; it keeps no program from it, and so visitors can do little, and not often.


class _Claims(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The claims of a token: the digest of its key, the visitor, the page's origin, and when it ends."""

    key: str
    visitor: str
    origin: str
    expires: int


class Admitted(msgspec.Struct, frozen=True):
    """A visitor who was let in: who they are, their token, and when it ends, in seconds since the epoch."""

    person: Principal
    token: str
    expires: int


class Visitors:
    """Makes the tokens of visitors, and reads them.

    Args:
        key_of: finds a key by the digest of its secret. It is asked for each token, see `Access`.
        clock: seconds since the epoch.
    """

    def __init__(
        self, key_of: Callable[[str], Awaitable[ApiKey | None]], clock: Callable[[], float] = time.time
    ) -> None:
        self._key_of = key_of
        self._clock = clock

    async def key_for_page(self, secret: str, headers: Mapping[str, str]) -> ApiKey:
        """Return a publishable key that the calling page may use.

        A page of this server may use each: it stands in frames of the pages that the key was made for, as
        browsers let nobody else have it in one, see `pages.page_routes`.

        Raises:
            Problem: 401, it is none; 403, it is another page's.
        """
        key = await self.publishable_key(secret)
        origin = headers.get("Origin", "")
        if origin not in key.origins and not is_own(origin, headers.get("Host", "")):
            raise Problem(
                403,
                "Wrong origin",
                "A publishable key is good in a browser, on the pages that it was made for; see "
                "`pixi-persona keys list`.",
            )
        return key

    async def publishable_key(self, secret: str) -> ApiKey:
        """Return a publishable key.

        Raises:
            Problem: 401, it is none.
        """
        key = await self._key_of(digest_of(secret)) if secret.startswith(PUBLISHABLE) else None
        if key is None or not key.is_publishable or not key.signs:
            raise wrong_key()
        return key

    async def begin(self, key: ApiKey, headers: Mapping[str, str], before: str = "") -> tuple[Admitted, bool]:
        """Let a visitor in, and tell whether they are new. `before`: the token that the page had."""
        known = await self._visitor(before, headers, RENEWED_SECONDS)
        same = known is not None and known[0].digest == key.digest
        visitor = known[1] if known is not None and same else secrets.token_urlsafe(16)
        claims = _Claims(key.digest, visitor, headers["Origin"], int(self._clock()) + TOKEN_SECONDS)
        payload = _base64(msgspec.json.encode(claims))
        token = f"{VISITING}{payload}.{_base64(_signature(key, payload))}"
        return Admitted(_principal(key, visitor), token, claims.expires), not same

    async def verified(self, token: str, headers: Mapping[str, str]) -> Principal:
        """Return the visitor whom a token names.

        Raises:
            Problem: 401, it does not hold, or not for the calling page.
        """
        found = await self._visitor(token, headers)
        if found is None:
            raise Problem(
                401,
                "Not let in",
                "The visitor's token is not valid here, or no more: get one by POST /api/visitors.",
                headers={"WWW-Authenticate": 'Bearer realm="pixi", error="invalid_token"'},
            )
        return _principal(*found)

    async def _visitor(
        self, token: str, headers: Mapping[str, str], leeway: float = 0.0
    ) -> tuple[ApiKey, str] | None:
        """Return the key of a token and the name of its visitor; None where the token does not hold."""
        if not token.startswith(VISITING):
            return None
        payload, _, signature = token.removeprefix(VISITING).partition(".")
        try:
            claims = msgspec.json.decode(_from_base64(payload), type=_Claims)
            signed = _from_base64(signature)
        except ValueError:  # of base64, of JSON, or of a text that is not ASCII
            return None
        key = await self._key_of(claims.key)
        if key is None or not key.signs or not hmac.compare_digest(signed, _signature(key, payload)):
            return None
        if claims.expires + leeway <= self._clock() or not _is_of(claims.origin, headers):
            return None
        return key, claims.visitor


def _is_of(origin: str, headers: Mapping[str, str]) -> bool:
    """Return True if a page of an origin calls. A browser sends no origin for pages of this server."""
    if headers.get("Sec-Fetch-Site") == "same-origin" and "Origin" not in headers:
        return is_own(origin, headers.get("Host", ""))
    return headers.get("Origin") == origin


def _principal(key: ApiKey, visitor: str) -> Principal:
    return Principal(
        f"{VISITOR}{key.name}:{visitor}", "visitor", key.name, frozenset({"chat"}), frozenset(key.personas)
    )


def _signature(key: ApiKey, payload: str) -> bytes:
    return hmac.digest(bytes.fromhex(key.signs), payload.encode(), "sha256")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_base64(text: str) -> bytes:
    """Undo `_base64`. Only what it writes is read, so that a token can be written in one way alone."""
    data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _base64(data) != text:
        raise ValueError("not as it is written here")
    return data
