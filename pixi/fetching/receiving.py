"""What a server gives, taken in within limits; and what went wrong, in words."""

import asyncio
import codecs
import re
from collections.abc import Collection
from dataclasses import replace

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientOSError,
    ClientPayloadError,
    ClientResponse,
    ServerDisconnectedError,
)

from pixi.fetching.outcome import Fetched, WebError
from pixi.fetching.unpacking import KNOWN, Unpacker

_YIELD_BYTES = 1_048_576  # unpacked bytes after which others have their turn
_REFUSAL_BYTES = 131_072  # of a page that says why nothing is given
_KIND = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,60}/[a-z0-9][a-z0-9.+_-]{0,80}")


class Wanted:
    """What is wanted of a server.

    Args:
        accept: the types that are asked for.
        most_bytes: of the body, as it comes and unpacked.
        types: those that are taken; None: all.
        cut: what is beyond `most_bytes` is left out.

    Attributes:
        headers: that say so to the server.
    """

    def __init__(self, accept: str, most_bytes: int, types: Collection[str] | None, *, cut: bool) -> None:
        self.headers = {"Accept": accept, "Accept-Encoding": KNOWN}
        self._most = most_bytes
        self._types = types
        self._cut = cut

    async def read(self, response: ClientResponse) -> Fetched:
        """The answer, if it is one that is wanted.

        Raises:
            WebError: it is not.
        """
        answer = Fetched(
            str(response.url), response.status, _kind(response), _charset(response), b"", _rest(response)
        )
        if answer.status >= 400:
            body = await _body(response, _REFUSAL_BYTES, cut=True)
            raise WebError(_refusal(response), answer=replace(answer, body=body))
        kind = answer.content_type
        if self._types is not None and kind and not _is_among(kind, self._types):
            raise WebError(f"What is there is of the type {kind}, which is not read.")
        return replace(answer, body=await _body(response, self._most, cut=self._cut))


async def _body(response: ClientResponse, most: int, *, cut: bool) -> bytes:
    """The body, unpacked.

    Raises:
        WebError: it is larger than `most`, and not to be cut; or broken.
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
    """Why a server could not be reached, in words: the texts of libraries may hold whole addresses."""
    match error:
        case ClientConnectorDNSError():
            return "there is no host of that name"
        case ClientConnectorCertificateError():
            return "its certificate is not valid"
        case ClientConnectorSSLError():
            return "no secure connection could be made"
        case ClientConnectorError():
            return "it does not answer"
        case ServerDisconnectedError() | ClientPayloadError() | ClientOSError() | OSError():
            return "it broke off"
        case _:
            return "it does not speak as a web server does"


def _is_among(kind: str, types: Collection[str]) -> bool:
    return kind in types or f"{kind.partition('/')[0]}/*" in types


def _kind(response: ClientResponse) -> str:
    """The type; "" for what is none."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind if _KIND.fullmatch(kind) else ""


def _charset(response: ClientResponse) -> str:
    """What the server says; "" for what nobody knows."""
    try:
        return codecs.lookup(response.charset).name if response.charset else ""
    except (LookupError, ValueError):
        return ""


def _rest(response: ClientResponse) -> float | None:
    """For how long the server wants to be left alone. It may also name a date, which is not read."""
    told = response.headers.get("Retry-After", "").strip()
    return float(told) if told.isascii() and told.isdecimal() and len(told) < 8 else None


def _refusal(response: ClientResponse) -> str:
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
