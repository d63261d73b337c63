"""What sites let programs read: their robots.txt, fetched as any page is, and kept for a while."""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarl import URL

from pixi.fetching.web import Refused, Web, WebError

if TYPE_CHECKING:
    from protego import Protego

NAME = "pixi-persona"
"""By which a robots.txt may speak of this program."""

_MOST_BYTES = 512_000  # of one; what comes after is not read, as RFC 9309 allows
_SECONDS = 5.0
_KEPT_SECONDS = 3_600.0
_FAULT_SECONDS = 120.0  # after which a site is asked again that could not tell
_KEPT = 200
_KEPT_CHARACTERS = 2_000_000

_FOR_WHOM = re.compile(r"\s*user[- ]?agent[\s:]+(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Rules:
    """What one site said.

    Attributes:
        read: None: it said nothing.
        fault: why it could not tell; "" where it could.
        size: characters.
        until: when it is asked again.
    """

    read: "Protego | None"
    fault: str
    size: int
    until: float


class Robots:
    """Sites' rules.

    Args:
        web: fetches them.
        clock: seconds that only ever grow.
    """

    def __init__(self, web: Web, clock: Callable[[], float] = time.monotonic) -> None:
        self._web = web
        self._clock = clock
        self._kept: OrderedDict[str, _Rules] = OrderedDict()

    async def check(self, url: URL) -> None:
        """See that the site lets programs read this. As RFC 9309 has it: where there are no rules, all may be
        read; where they could not be asked for, nothing.

        Raises:
            WebError: it may not be read.
        """
        rules = await self._rules(url.origin())
        if rules.fault:
            raise WebError(rules.fault)
        if rules.read is None:
            return
        if not await asyncio.to_thread(rules.read.can_fetch, str(url), NAME):
            raise WebError(f"{url.host} does not let programs read this page (its robots.txt says so).")

    async def _rules(self, site: URL) -> _Rules:
        key = str(site)
        known = self._kept.get(key)
        if known is None or known.until <= self._clock():
            known = self._kept[key] = await self._fetched(site)
        self._kept.move_to_end(key)
        size = sum(rules.size for rules in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or size > _KEPT_CHARACTERS):
            size -= self._kept.popitem(last=False)[1].size
        return known

    async def _fetched(self, site: URL) -> _Rules:
        """What a site says now.

        Raises:
            Refused: it is none that may be asked.
        """
        now = self._clock()
        try:
            answer = await self._web.get(
                str(site.with_path("/robots.txt")),
                accept="text/plain",
                most_bytes=_MOST_BYTES,
                seconds=_SECONDS,
                cut=True,
            )
        except Refused:
            raise
        except WebError as error:
            if 400 <= error.status < 500:
                return _Rules(None, "", 0, now + _KEPT_SECONDS)
            unknown = (
                " So whether programs may read it (its robots.txt) is not known." if error.status else ""
            )
            return _Rules(None, f"{error}{unknown}", 0, now + _FAULT_SECONDS)
        text = answer.body.decode("utf-8", "replace").removeprefix("\ufeff")
        return _Rules(await asyncio.to_thread(_parsed, text), "", len(text), now + _KEPT_SECONDS)


def _parsed(text: str) -> "Protego":
    from protego import Protego

    return Protego.parse(_for_us(text))


def _for_us(text: str) -> str:
    """The text with all other programs made one.

    Rules are kept once for each program that they are for: a thousand of these with a thousand rules would be
    a million.
    """
    lines: list[str] = []
    for line in text.splitlines():
        told = _FOR_WHOM.match(line)
        if told is None:
            lines.append(line)
            continue
        name = told[1].partition("#")[0].strip().lower()
        ours = f"User-agent: {name if name in ('*', NAME) else 'another'}"
        if not lines or lines[-1] != ours:
            lines.append(ours)
    return "\n".join(lines)
