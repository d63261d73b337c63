"""Fetches what an address names, within limits, and never from a network that is not public."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from importlib.metadata import version
from types import TracebackType
from typing import Self

from aiohttp import ClientConnectorError, ClientError, ClientSession, InvalidURL
from yarl import URL

from pixi.fetching.connecting import Gate, NotPublic, OpenGate, session_through
from pixi.fetching.lookups import Lookup, Lookups
from pixi.fetching.outcome import Fetched, Refused, WebError
from pixi.fetching.receiving import Wanted, reason_of
from pixi.fetching.urls import joined, parsed, same_origin

__all__ = ["Fetched", "Refused", "Web", "WebError"]

MOST_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Check = Callable[[URL], Awaitable[None]]
"""Asked whether an address may be fetched; raises `WebError` where it may not."""


class Web:
    """Fetches. Use it as a context manager, or `close` it.

    Proxies that the environment names are not used: one would look hosts up by itself, inside of the private
    network, and nothing that was checked here would hold there.

    Args:
        lookup: finds the addresses of hosts; None: the system does. What it gives is checked like any.

    Attributes:
        contact: where servers find whoever runs Pixi: a mail address or a web page; "": nowhere.
    """

    def __init__(self, *, lookup: Lookup | None = None) -> None:
        self._lookup: Lookup = lookup or Lookups()
        self.contact = ""
        self._name = f"pixi-persona/{version('pixi-persona')}"
        self._guarded: ClientSession | None = None
        self._open: ClientSession | None = None
        self._closed = False

    async def get(
        self,
        url: str,
        *,
        trusted: bool = False,
        accept: str = "*/*",
        most_bytes: int = 5_000_000,
        seconds: float = 15.0,
        types: Collection[str] | None = None,
        cut: bool = False,
        onward: Check | None = None,
    ) -> Fetched:
        """Fetch an address.

        Args:
            url: http or https.
            trusted: the operator wrote its scheme, host and port, which may be in the private network; it may
                redirect there, and to what is public.
            accept: the types that are wanted.
            most_bytes: of the body, as it comes and unpacked; more is refused.
            seconds: for all of it.
            types: those that are read, by their names or as `text/*`; another is refused before its body
                comes. None: all.
            cut: what is beyond `most_bytes` is left out, and no reason to refuse.
            onward: asked before a redirect is followed.

        Raises:
            WebError: it is no address, not public, too large, too slow, refused, or was not there (a status
                of 400 and above is one too).
        """
        first = parsed(url, trusted=trusted)
        wanted = Wanted(accept, most_bytes, types, cut=cut)
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(first, wanted, onward, trusted=trusted)
        except TimeoutError:
            raise WebError(f"{first.host} took longer than {seconds:g} seconds.") from None
        except InvalidURL:
            raise Refused("That is no address of a web page: it cannot be read.") from None
        except (ClientError, OSError) as error:
            if isinstance(error, ClientConnectorError) and isinstance(error.os_error, NotPublic):
                raise Refused(f"{error.os_error}; only what is there can be read.") from None
            raise WebError(f"{first.host} could not be reached: {reason_of(error)}.") from None

    async def close(self) -> None:
        """Give back the connections. Calling it twice does no harm."""
        self._closed = True
        for session in (self._guarded, self._open):
            if session is not None:
                await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _gate(self, lookup: Lookup) -> Gate:
        """Return the gate through which all goes that strangers may name."""
        return Gate(lookup)

    async def _follow(self, first: URL, wanted: Wanted, onward: Check | None, *, trusted: bool) -> Fetched:
        url, other_origin = first, ""
        try:
            for _ in range(MOST_REDIRECTS + 1):
                opened = trusted and same_origin(first, url)
                headers = {**wanted.headers, "User-Agent": self._agent}
                async with self._session(opened=opened).get(
                    url, headers=headers, allow_redirects=False
                ) as response:
                    location = response.headers.get("Location", "")
                    if response.status not in _REDIRECTS or not location:
                        return await wanted.read(response)
                following = joined(url, location)
                meant = parsed(following, trusted=trusted)
                permitted = trusted and same_origin(first, meant)
                other_origin = (
                    str(meant.origin()) if trusted and not permitted and meant.host == first.host else ""
                )
                url = parsed(following, trusted=permitted)
                if onward is not None:
                    await onward(url)
        except Refused as refused:
            if not other_origin:
                raise
            raise Refused(
                f"{first.origin()} redirects to {other_origin}, which is not on the public internet and not "
                "named in the settings; write that address there if it is meant."
            ) from refused
        raise WebError(f"{first.host} redirects again and again.")

    @property
    def _agent(self) -> str:
        reached = f"; {self.contact}" if self.contact else ""
        return f"{self._name} (a chatbot; it asks when a person asks it{reached})"

    def _session(self, *, opened: bool) -> ClientSession:
        """Return the session to fetch by; hosts of the operator's have one that nobody else gets through."""
        if self._closed:
            raise WebError("Nothing is fetched any more: the program ends.")
        if opened:
            if self._open is None:
                self._open = session_through(OpenGate(self._lookup))
            return self._open
        if self._guarded is None:
            self._guarded = session_through(self._gate(self._lookup))
        return self._guarded
