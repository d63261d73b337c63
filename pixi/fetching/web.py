"""Fetches pages and files by their addresses, within limits, and never from a network that is not public."""

import asyncio
import codecs
import re
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterator
from importlib.metadata import version
from types import TracebackType
from typing import Self

import aiohttp
from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from pixi.fetching.guard import (
    Fetched,
    Gate,
    Lookup,
    Lookups,
    NotPublic,
    OpenGate,
    Refused,
    WebError,
    joined,
    parsed,
    same_origin,
    session_through,
)

__all__ = ["Fetched", "Refused", "Web", "WebError"]

MOST_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ENCODING = "gzip"  # the one that is asked for
_BROKEN = "The page came broken: it cannot be unpacked."
_STEP = 262_144  # bytes that are unpacked at once
_MEMBERS = 64  # of a gzip file: each of a few bytes would take far longer than it is worth
_YIELD_BYTES = 1_048_576  # unpacked bytes after which others have their turn
_REFUSAL_BYTES = 131_072  # of a page that says why nothing is given
_CONTENT_TYPE = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,60}/[a-z0-9][a-z0-9.+_-]{0,80}")

Check = Callable[[URL], Awaitable[None]]
"""Asked whether an address may be fetched; raises `WebError` where it may not."""


class Unpacker:
    """Unpacks one body.

    Args:
        encoding: the `Content-Encoding` of the response.

    Raises:
        WebError: the encoding is none that was asked for.
    """

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip"):
            raise WebError("The server packs its pages in a way that was not asked for.")
        self._packed = "gzip" in name
        self._members = 0  # begun; a gzip file may hold several, one behind the other
        self._member: zlib._Decompress | None = None  # the one that is being unpacked

    def unpacked(self, data: bytes) -> Iterator[bytes]:
        """Yield the next bytes unpacked, in steps; a caller that has enough takes no more.

        Raises:
            WebError: the body is broken.
        """
        if not self._packed:
            yield data
            return
        held = False  # zlib may hold more output of the bytes that it took already
        try:
            while data or held:
                if self._member is None:
                    self._members += 1
                    if self._members > _MEMBERS:
                        raise WebError(_BROKEN)
                    self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
                piece = self._member.decompress(data, _STEP)
                yield piece
                held = len(piece) == _STEP
                if self._member.eof:
                    data, held, self._member = self._member.unused_data, False, None
                else:
                    data = self._member.unconsumed_tail
        except zlib.error:
            raise WebError(_BROKEN) from None


class Wanted(Struct, frozen=True):
    """The answer that is wanted of a server; see `Web.get`."""

    accept: str
    most_bytes: int
    types: Collection[str] | None
    cut: bool

    async def read(self, response: aiohttp.ClientResponse) -> Fetched:
        """Return the answer of a response.

        Raises:
            WebError: the server refused, or its answer is not the wanted one.
        """
        answer = Fetched(
            url=str(response.url),
            status=response.status,
            content_type=_content_type(response),
            charset=_charset(response),
            body=b"",
            retry_after=_retry_after(response),
        )
        if answer.status >= 400:
            body = await _body(response, _REFUSAL_BYTES, cut=True)
            raise WebError(_refusal(response), answer=replace(answer, body=body))
        kind = answer.content_type
        family = f"{kind.partition('/')[0]}/*"
        if self.types is not None and kind and kind not in self.types and family not in self.types:
            raise WebError(f"What is there is of the type {kind}, which is not read.")
        return replace(answer, body=await _body(response, self.most_bytes, cut=self.cut))


async def _body(response: aiohttp.ClientResponse, most: int, *, cut: bool) -> bytes:
    """Return the body of a response, unpacked.

    Args:
        most: bytes of the body, as it comes and unpacked.
        cut: leave out what is beyond `most`, instead of refusing the body.

    Raises:
        WebError: the body is too large, or broken.
    """
    too_large = WebError(f"What is there is larger than {most / 1_000_000:g} MB, which is too much to read.")
    length = response.content_length
    if length is not None and length > most and not cut:
        raise too_large
    unpacker = Unpacker(response.headers.get("Content-Encoding", ""))
    body = bytearray()
    came = given = 0
    async for data in response.content.iter_any():
        came += len(data)
        for piece in unpacker.unpacked(data):
            body += piece
            given += len(piece)
            if len(body) > most or came > most:
                if not cut:
                    raise too_large
                return bytes(body[:most])
            if given > _YIELD_BYTES:
                given = 0
                await asyncio.sleep(0)
    return bytes(body)


def reason_of(error: Exception) -> str:
    """Tell why a server could not be reached, in words: the texts of libraries may hold whole addresses."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "there is no host of that name"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not valid"
        case aiohttp.ClientConnectorSSLError():
            return "no secure connection could be made"
        case aiohttp.ClientConnectorError():
            return "it does not answer"
        case (
            aiohttp.ServerDisconnectedError()
            | aiohttp.ClientPayloadError()
            | aiohttp.ClientOSError()
            | OSError()
        ):
            return "it broke off"
        case _:
            return "it does not speak as a web server does"


def _content_type(response: aiohttp.ClientResponse) -> str:
    """Return the type of a response, without parameters; "" where the server named none."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind if _CONTENT_TYPE.fullmatch(kind) else ""


def _charset(response: aiohttp.ClientResponse) -> str:
    """Return Python's name of the charset that a server says; "" where there is none of that name."""
    try:
        return codecs.lookup(response.charset).name if response.charset else ""
    except (LookupError, ValueError):
        return ""


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Return the seconds that a server wants to be left alone. A date instead is not read."""
    told = response.headers.get("Retry-After", "").strip()
    return float(told) if told.isascii() and told.isdecimal() and len(told) < 8 else None


def _refusal(response: aiohttp.ClientResponse) -> str:
    host, status = response.url.host, response.status
    if "cf-mitigated" in response.headers:
        return f"{host} asks whoever comes to prove that it is a person ({status}); that cannot be passed."
    match status:
        case 401 | 402 | 407:
            return f"{host} wants a login for this ({status})."
        case 403 | 451:
            return f"{host} does not give this to everybody, or to no program ({status})."
        case 404 | 410:
            return f"{host} has no such page ({status})."
        case 429:
            return f"{host} was asked too often ({status}); it may answer again later."
        case _ if status >= 500:
            return f"{host} has a fault just now ({status}); it may answer again later."
        case _:
            return f"{host} refused to give this ({status})."


class Web:
    """A client that fetches. Use it as a context manager, or `close` it.

    Proxies that the environment names are not used: one would look hosts up by itself, inside of the private
    network, and nothing that was checked here would hold there.

    Args:
        lookup: finds the addresses of hosts; None: the system does. Those that it gives are checked like any.

    Attributes:
        contact: where servers find whoever runs Pixi: a mail address or a web page; "": nowhere.
    """

    def __init__(self, *, lookup: Lookup | None = None) -> None:
        self._lookup: Lookup = lookup or Lookups()
        self.contact = ""
        self._name = f"pixi-persona/{version('pixi-persona')}"
        # Each is opened at its first use; None: it was not yet.
        self._guarded: aiohttp.ClientSession | None = None  # for addresses that strangers name
        self._open: aiohttp.ClientSession | None = None  # for hosts that the operator wrote
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
        wanted = Wanted(accept, most_bytes, types, cut)
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(first, wanted, onward, trusted=trusted)
        except TimeoutError:
            raise WebError(f"{first.host} took longer than {seconds:g} seconds.") from None
        except aiohttp.InvalidURL:
            raise Refused("That is no address of a web page: it cannot be read.") from None
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, NotPublic):
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
        """Make the gate for addresses that strangers name; tests put a staged one in its place."""
        return Gate(lookup)

    async def _follow(self, first: URL, wanted: Wanted, onward: Check | None, *, trusted: bool) -> Fetched:
        """Fetch an address, and those that it redirects to.

        An operator who trusts an origin trusts no other one of the same host: `other_origin` names that for
        the error text.
        """
        url, other_origin = first, ""
        try:
            for _ in range(MOST_REDIRECTS + 1):
                permitted = trusted and same_origin(first, url)
                headers = {"Accept": wanted.accept, "Accept-Encoding": _ENCODING, "User-Agent": self._agent}
                async with self._session(permitted=permitted).get(
                    url, headers=headers, allow_redirects=False
                ) as response:
                    location = response.headers.get("Location", "")
                    if response.status not in _REDIRECTS or not location:
                        return await wanted.read(response)
                target = joined(url, location)
                meant = parsed(target, trusted=trusted)
                permitted = trusted and same_origin(first, meant)
                is_beside = trusted and not permitted and meant.host == first.host
                other_origin = str(meant.origin()) if is_beside else ""
                url = parsed(target, trusted=permitted)
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

    def _session(self, *, permitted: bool) -> aiohttp.ClientSession:
        """Return the session to fetch by. `permitted`: the operator wrote the origin."""
        if self._closed:
            raise WebError("Nothing is fetched any more: the program ends.")
        if permitted:
            if self._open is None:
                self._open = session_through(OpenGate(self._lookup))
            return self._open
        if self._guarded is None:
            self._guarded = session_through(self._gate(self._lookup))
        return self._guarded
