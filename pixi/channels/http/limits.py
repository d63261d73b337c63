"""How often somebody may ask: a bucket for each caller, which fills as time goes by."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

from pixi.channels.http.access import Principal
from pixi.channels.http.problems import Problem
from pixi.settings.http_rules import HttpRules

_MOST_CALLERS = 10_000
"""Buckets that are kept. The one used longest ago goes first: it is full again, or nearly."""

_PERIODS = {60: "a minute", 3_600: "an hour", 86_400: "a day"}

Clock = Callable[[], float]


class RequestLimit:
    """Counts requests. Each caller may send `most` at once, and from then on that many in each period.

    Args:
        most: requests.
        seconds: the period: a minute, an hour or a day.
        what: is counted, in the plural.
        clock: the monotonic time.
    """

    def __init__(
        self, most: int, *, seconds: int = 60, what: str = "requests", clock: Clock = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._what = what
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests, and when it was counted

    def use(self, caller: str) -> None:
        """Count a request.

        Raises:
            Problem: 429, too many; it says when the next one is taken.
        """
        now = self._clock()
        left, then = self._left.pop(caller, (float(self._most), now))
        left = min(float(self._most), left + (now - then) * self._most / self._seconds)
        self._left[caller] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            wait, period = math.ceil((1 - left) * self._seconds / self._most), _PERIODS[self._seconds]
            raise Problem(
                429,
                f"Too many {self._what}",
                f"At most {self._most} {self._what} {period} are taken. Try again in {wait} s.",
                headers={
                    "Retry-After": str(wait),
                    "RateLimit-Policy": f'"{self._what}";q={self._most};w={self._seconds}',
                    "RateLimit": f'"{self._what}";r=0;t={wait}',
                },
            )


class HttpLimits:
    """What all who come over HTTP may do: by person, by key, and for visitors by where they are too.

    Args:
        rules: what the operator decided.
        clock: the monotonic time.
    """

    def __init__(self, rules: HttpRules, clock: Clock = time.monotonic) -> None:
        shared = rules.visitors_per_address
        minute, day = rules.visitor_requests_per_minute, rules.visitor_messages_per_day
        self._people = RequestLimit(rules.requests_per_minute, clock=clock)
        self._keys = RequestLimit(rules.key_requests_per_minute, clock=clock)
        self._visitors = RequestLimit(minute, clock=clock)
        self._networks = RequestLimit(minute * shared, clock=clock)
        self._new = RequestLimit(shared, seconds=3_600, what="visitors", clock=clock)
        self._said = RequestLimit(day, seconds=86_400, what="messages", clock=clock)
        self._said_there = RequestLimit(day * shared, seconds=86_400, what="messages", clock=clock)

    def request(self, person: Principal) -> None:
        """Count a request of a person.

        Raises:
            Problem: 429, one too many. It is not counted for those who share with them.
        """
        if person.is_visitor:
            self._visitors.use(person.id)
            self._networks.use(person.network)
        else:
            self._people.use(person.id)
        if person.key:
            self._keys.use(person.key)

    def message(self, person: Principal) -> None:
        """Count what a visitor says. What others say is limited by `[limits]`.

        Raises:
            Problem: 429, that was all for now.
        """
        if person.is_visitor:
            self._said.use(person.id)
            self._said_there.use(person.network)

    def knock(self, network: str) -> None:
        """Count a request for a visitor's token.

        Raises:
            Problem: 429, one too many.
        """
        self._networks.use(network)

    def new_visitor(self, network: str) -> None:
        """Count a visitor who was not here before.

        Raises:
            Problem: 429, too many come from there.
        """
        self._new.use(network)


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
