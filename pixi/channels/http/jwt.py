"""Tokens of other programs: a JWT that the host application made for the person who is logged in there.

Only signatures by a key pair are taken: whoever has the public keys can check a token and make none. The key
is told by its `kid`, and must stand among the keys of the settings; what a token says of keys of its own
(`jwk`, `jku`, `x5u`) is not looked at. The issuer's keys come from a file or an https address. They are read
when the first token comes, again after an hour (a key that the issuer took back ends then), and when a token
names a key that is not known, once a minute at most. Anybody can make up such a token, so those of known keys
do not wait for that.

Open WebUI signs whom it speaks for with a secret that both know (HS256). Its token tells that and lets nobody
in: it counts beside a key with the scope `chat:on-behalf`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp

from pixi.channels.http.access import Problem
from pixi.core.errors import ConfigError

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LONGEST_KEYS = 256 * 1024  # bytes
_FETCH_SECONDS = 5.0
_AGAIN_SECONDS = 60.0
_GOOD_SECONDS = 3_600.0
_AFTER_FAILURE_SECONDS = 10.0
_LEEWAY = 30  # seconds that the clocks of two machines may differ

Fetch = Callable[[str], Awaitable[bytes]]


@dataclass(eq=False)
class HostTokens:
    """Checks tokens.

    Args:
        issuer: who must have made a token (`iss`).
        audience: for whom it must be made (`aud`).
        keys: the public keys, as JWKS: an https address, or the path of a file.
        fetch: reads an address.
        clock: the monotonic time.

    Raises:
        ConfigError: the library is missing.
    """

    issuer: str
    audience: str
    keys: str
    fetch: Fetch | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if find_spec("jwt") is None:
            raise ConfigError('[http.jwt] needs PyJWT: pip install "pixi-persona[jwt]"')
        self._fetch = self.fetch or _fetched
        self._known: Mapping[str, Any] = {}
        self._next_read = self.clock()  # not before that are the keys read again
        self._fresh_until = self.clock()  # from then on they are to be
        self._reading = asyncio.Lock()

    async def verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token.

        Raises:
            Problem: 401, it does not hold; 503, the issuer's keys cannot be read.
        """
        import jwt

        with _telling_what_is_wrong():
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in _ALGORITHMS:
                raise _refused(f"it is signed by {str(head.get('alg'))[:20]!r}, and not by a key pair")
            key = await self._key(str(head.get("kid", "")))
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[head["alg"]],
                audience=self.audience,
                issuer=self.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        return claims

    async def _key(self, name: str) -> Any:
        if self._needs_reading(name):
            async with self._reading:
                if self._needs_reading(name) and self.clock() >= self._next_read:
                    self._next_read = self.clock() + _AFTER_FAILURE_SECONDS
                    try:
                        self._known = await self._read()
                        self._next_read = self.clock() + _AGAIN_SECONDS
                        self._fresh_until = self.clock() + _GOOD_SECONDS
                    except Problem:
                        if name not in self._known:
                            raise
                        self._fresh_until = self.clock() + _AGAIN_SECONDS  # the keys stay good until then
        if not self._known:
            raise _no_keys()
        if name not in self._known:
            raise _refused("it was signed with a key that is not among those of the issuer")
        return self._known[name]

    def _needs_reading(self, name: str) -> bool:
        return name not in self._known or self.clock() >= self._fresh_until

    async def _read(self) -> Mapping[str, Any]:
        import json

        import jwt

        try:
            if self.keys.startswith("https://"):
                data = await self._fetch(self.keys)
            else:
                data = await asyncio.to_thread(Path(self.keys).read_bytes)
            found = jwt.PyJWKSet.from_dict(json.loads(data))
        except (OSError, aiohttp.ClientError, jwt.PyJWTError) as error:
            raise _no_keys() from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:  # no JSON, or no JWKS
            raise _no_keys() from error
        signing = (key for key in found.keys if key.public_key_use != "enc" and hasattr(key.key, "verify"))
        return {str(key.key_id or ""): key for key in signing}


class ForwardedUsers:
    """Checks whom Open WebUI says that it speaks for.

    Args:
        secret: what it signs with, its `FORWARD_USER_INFO_HEADER_JWT_SECRET`.

    Raises:
        ConfigError: the library is missing.
    """

    def __init__(self, secret: str) -> None:
        if find_spec("jwt") is None:
            raise ConfigError('http.open_webui_secret needs PyJWT: pip install "pixi-persona[jwt]"')
        self._secret = secret

    def verified(self, token: str) -> tuple[str, str]:
        """Return the id and the name of the user.

        Raises:
            Problem: 401, the token does not hold, or there is none.
        """
        import jwt

        if not token:
            raise _refused("Open WebUI sent none; set its FORWARD_USER_INFO_HEADER_JWT_SECRET")
        with _telling_what_is_wrong():
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                issuer="open-webui",
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "sub"]},
            )
        name = claims.get("name")
        return claims["sub"], name if isinstance(name, str) else ""


@contextmanager
def _telling_what_is_wrong() -> Iterator[None]:
    """Refuse a token that the library finds wrong."""
    import jwt

    try:
        yield
    except jwt.ExpiredSignatureError:
        raise _refused("it has expired") from None
    except jwt.PyJWTError as error:
        raise _refused(str(error)[:200].lower() or "it is none") from None
    except RecursionError:
        raise _refused("it is nested too deeply") from None


async def _fetched(url: str) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_FETCH_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as http, http.get(url, allow_redirects=False) as answer:
        answer.raise_for_status()
        data = await answer.content.read(_LONGEST_KEYS + 1)
        if len(data) > _LONGEST_KEYS:
            raise ValueError("too long")
        return data


def _no_keys() -> Problem:
    return Problem(503, "No keys", "The public keys of the issuer cannot be read; see [http.jwt] keys.")


def _refused(why: str) -> Problem:
    return Problem(
        401,
        "Not let in",
        f"The token does not hold: {why}.",
        headers={"WWW-Authenticate": 'Bearer realm="pixi", error="invalid_token"'},
    )
