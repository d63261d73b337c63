"""Visitors: people at a web page who are logged in nowhere, known again by a token that the page keeps.

A page begins with its publishable key, which everybody can read, and gets a token for one visitor: signed
with what is kept beside the key, and good for a day on that page. So nothing is kept of visitors who say
nothing, and a key that is revoked ends all its tokens. A page that is open for longer shows its old token to
get one for the same visitor. What a browser says of the page (`Origin`) keeps other pages from using the key;
it keeps no program from it, and so visitors can do little, and not often.
"""

import base64
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from pixi.channels.http.access import PUBLISHABLE, VISITING, VISITOR, Principal, digest_of, wrong_key
from pixi.channels.http.problems import Problem
from pixi.settings.http_rules import is_own
from pixi.store.kept import ApiKey

TOKEN_SECONDS = 24 * 3_600
"""How long a token is good."""

RENEWED_SECONDS = 7 * 24 * 3_600
"""How long after its end a token still gets a new one for the same visitor."""


class _Said(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a token says: the digest of its key, the visitor, the page's origin, and when it ends."""

    key: str
    visitor: str
    origin: str
    expires: int


@dataclass(frozen=True, slots=True)
class Admitted:
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
        self,
        key_of: Callable[[str], Awaitable[ApiKey | None]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key_of = key_of
        self._clock = clock

    async def key(self, secret: str, headers: Mapping[str, str]) -> ApiKey:
        """Return a publishable key that the calling page may use.

        A page of this server may use each: it stands in frames of the pages that the key was made for, as
        browsers let nobody else have it in one, see `embed`.

        Raises:
            Problem: 401, it is none; 403, it is another page's.
        """
        key = await self.found(secret)
        origin = headers.get("Origin", "")
        if origin not in key.origins and not is_own(origin, headers.get("Host", "")):
            raise Problem(
                403,
                "Wrong origin",
                "A publishable key is good in a browser, on the pages that it was made for; see "
                "`pixi-persona keys list`.",
            )
        return key

    async def found(self, secret: str) -> ApiKey:
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
        said = _Said(key.digest, visitor, headers["Origin"], int(self._clock()) + TOKEN_SECONDS)
        payload = _text(msgspec.json.encode(said))
        token = f"{VISITING}{payload}.{_text(_signature(key, payload))}"
        return Admitted(_principal(key, visitor), token, said.expires), not same

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
        """The key of a token and the name of its visitor; None where it does not hold."""
        if not token.startswith(VISITING):
            return None
        payload, _, signature = token.removeprefix(VISITING).partition(".")
        try:
            said = msgspec.json.decode(_bytes(payload), type=_Said)
            signed = _bytes(signature)
        except ValueError:  # of base64, of JSON, or of a text that is not ASCII
            return None
        key = await self._key_of(said.key)
        if key is None or not key.signs or not hmac.compare_digest(signed, _signature(key, payload)):
            return None
        if said.expires + leeway <= self._clock() or not _is_of(said.origin, headers):
            return None
        return key, said.visitor


def _is_of(origin: str, headers: Mapping[str, str]) -> bool:
    """Whether a page of an origin calls. A browser leaves it out where a page of this server itself reads."""
    if headers.get("Sec-Fetch-Site") == "same-origin" and "Origin" not in headers:
        return is_own(origin, headers.get("Host", ""))
    return headers.get("Origin") == origin


def _principal(key: ApiKey, visitor: str) -> Principal:
    return Principal(
        f"{VISITOR}{key.name}:{visitor}", "visitor", key.name, frozenset({"chat"}), frozenset(key.personas)
    )


def _signature(key: ApiKey, payload: str) -> bytes:
    return hmac.digest(bytes.fromhex(key.signs), payload.encode(), "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Undo `_text`. Only what it writes is read, so that a token can be written in one way alone."""
    data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _text(data) != text:
        raise ValueError("not as it is written here")
    return data
