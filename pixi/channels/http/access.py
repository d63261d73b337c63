"""Identifies the caller of a request, with their permissions, and refuses requests."""

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

import msgspec
from aiohttp import web

from pixi.core.errors import PixiError
from pixi.core.persona import Persona
from pixi.core.untrusted import name_key
from pixi.store.kept import ApiKey

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_OPENAI_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


PROBLEM_TYPES = "tag:pixi,2026:"
"""The begin of the types of problems: names, which lead to no page (RFC 4151)."""

PLAIN = web.RequestKey("plain", bool)
"""True for a request whose client shows people the body of an error as it is: then it is words alone."""


class Problem(PixiError):
    """A request that is refused, with the status of the answer and the mend.

    Args:
        status: of HTTP, 400 or more.
        title: the kind of problem, in a few words that are the same each time; "": as the status says.
        detail: what is wrong here and what to do about it. It holds no secret and no trace of the program.
        type: what programs know the kind by; "": a name that is made of the title.
        errors: for each wrong field a JSON pointer and what is wrong with it.
        headers: that the answer has besides.
        code: OpenAI's word for it; "": there is none.
        turn: in which it went wrong; 0: in none.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        type: str = "",  # noqa: A002 - the name that RFC 9457 has for it
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        code: str = "",
        turn: int = 0,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.turn = turn
        self.code = code or _OPENAI_CODES.get(status)

    def body(self) -> bytes:
        """Return the problem as `application/problem+json`."""
        told: dict[str, object] = {
            "type": self.type or (type_of(self.title) if self.title else "about:blank"),
            "title": self.title or HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.turn:
            told["instance"] = f"/api/chat#turn-{self.turn}"
        return msgspec.json.encode(told | ({"errors": list(self.errors)} if self.errors else {}))

    def openai_body(self) -> bytes:
        """Return the problem in the envelope that OpenAI's clients read."""
        pointer = self.errors[0].get("pointer", "") if self.errors else ""
        param = re.sub(r"/(\d+)", r"[\1]", pointer).removeprefix("/").replace("/", ".")
        kind = _OPENAI_TYPES.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        error = {"message": self.detail, "type": kind, "param": param or None, "code": self.code}
        return msgspec.json.encode({"error": error})


def type_of(title: str) -> str:
    """Return the type of a kind of problem; `docs/http.md` tells of each."""
    return PROBLEM_TYPES + title.lower().replace(" ", "-")


SCOPES: Mapping[str, str] = {
    "chat": "talk to personas",
    "chat:on-behalf": "talk for users of an application, by naming them in userId",
    "approve": "say yes or no where a persona asks before it acts",
    "instruct": "add the system prompt of a chat program to that of a persona",
    "operate": "see and change what an operator does",
}
"""Scopes that a secret key may have."""

SECRET = "pixi_sk_"
"""The begin of secret keys."""

PUBLISHABLE = "pixi_pk_"
"""The begin of keys that stand in web pages, and do nothing but let visitors in."""

VISITING = "pixi_vt_"
"""The begin of visitors' tokens."""

VISITOR = "web:visitor:"
"""The begin of visitors' ids."""

LOCAL = "web:local"
"""The id of the person at this machine."""

_OURS = "pixi_"
_VISITORS = "http:visitor-"  # how the addresses of their talks begin

RESERVED_NAMES = frozenset({"local", "jwt", "visitor"})
"""Names that no key can have: they stand in the ids of those who have none."""

MOST_CHARACTERS = 128
"""Characters of a user's id, and of the name that a client gives a talk, at most."""

_KEY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_LONGEST_TOKEN = 8_192  # characters; a JWT with many claims has two or three thousand
_OWN = frozenset({"chat", "approve"})  # what those may do who speak for themselves
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="pixi"'}


# Who is it that asks: keys with scopes, tokens of the host application, and this machine.
#
# A request names its caller in `Authorization: Bearer TOKEN` and nowhere else. What the token begins with
# tells what it is: `pixi_sk_` a key; `pixi_vt_` the token of a visitor, see `visitors`; with two dots it is
# a JWT of the host application. One of these that is wrong is refused, also from this machine: nobody who
# sent one is taken for another. Any other text is no token: many programs insist on sending one.
#
# A caller who sent none is the person at this machine where the connection comes from it. A connection that
# a proxy made comes from this machine too, and is known by the headers that proxies add. One that adds none
# has everybody on its other side taken for the person here: for such a proxy there is `[http] local =
# false`.
#
# Every principal is a person (`Principal.id` is the id of an author), so that budgets, memories, forgetting
# and exporting reach them as they reach everybody. The parts of an id are parted by `:`, and no name of a
# key holds one, so that nobody can name a user of another key.


class Principal(msgspec.Struct, frozen=True):
    """The caller of a request, with their permissions.

    Attributes:
        id: of the author of their messages: `web:local`, `web:KEY`, `web:KEY:USER`,
            `web:jwt:USER` or `web:visitor:KEY:RANDOM`.
        name: what the persona is told that they are called.
        key: the name of the key that let them in; "" for none.
        scopes: those of `SCOPES` that they have.
        personas: whom they may talk to; empty: everybody.
        network: of a visitor, where the requests come from, see `visitors.network_of`: what they may do is
            limited by that too. It is kept nowhere.
    """

    id: str
    name: str
    key: str = ""
    scopes: frozenset[str] = frozenset()
    personas: frozenset[str] = frozenset()
    network: str = ""

    @property
    def is_visitor(self) -> bool:
        """Return True if nobody vouches for them."""
        return self.id.startswith(VISITOR)

    def may(self, scope: str) -> bool:
        """Return True if they have a scope."""
        return scope in self.scopes

    def knows(self, persona: str) -> bool:
        """Return True if they may talk to a persona. To all others it is as if there were none."""
        return not self.personas or persona in self.personas

    def require(self, scope: str) -> None:
        """See that they have a scope.

        Raises:
            Problem: 403, they do not.
        """
        if scope not in self.scopes:
            raise _no_scope(scope)


def persona_named(name: str, personas: Mapping[str, Persona], allowed: Collection[str]) -> str:
    """Return the name of the file of a persona; "" if no persona is meant, or several are.

    Args:
        name: of the file, or the persona's own, in which case and blanks do not count.
        personas: all there are, by the names of their files.
        allowed: names of the files of those that the caller may talk to; empty: all.
    """
    known = {file: each for file, each in personas.items() if not allowed or file in allowed}
    if name in personas or len(name) > MOST_CHARACTERS:  # so long, nobody's; and slow to compare
        return name if name in known else ""
    wanted = name_key(name)
    found = [file for file in known if name_key(file) == wanted]
    found = found or [file for file, each in known.items() if name_key(each.name) == wanted]
    return found[0] if len(found) == 1 else ""


def new_key(kind: str = SECRET) -> str:
    """Return a new key of 256 random bits. It is shown once; the store keeps its digest."""
    return kind + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a key, in hexadecimal. A key is random, so that it needs no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def joint_digest(*parts: str) -> str:
    """Return 32 hexadecimal digits that no other texts have together, wherever one of them ends."""
    encoded = (part.encode("utf-8", "surrogatepass") for part in parts)
    packed = b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
    return hashlib.blake2b(packed, digest_size=16).hexdigest()


def is_key_name(name: str) -> bool:
    """Return True if a key can be called that."""
    return _KEY_NAME.fullmatch(name) is not None and name not in RESERVED_NAMES


def address_of(person: str, persona: str, name: str) -> str:
    """Return the address of the talk that a person has with a persona under a name.

    It is a hash of the three: the name that another person's talk goes by leads somewhere else. One of a
    visitor says so, as whoever takes the talk up again knows nothing but its address.
    """
    kind = _VISITORS if person.startswith(VISITOR) else "http:"
    return f"{kind}{joint_digest(person, persona, name)}:{persona}"


def is_of_visitor(address: str) -> bool:
    """Return True for the address of a talk with a visitor."""
    return address.startswith(_VISITORS)


def _is_user_id(text: str) -> bool:
    return 1 <= len(text) <= MOST_CHARACTERS and text.isprintable()


def checked_user_id(text: str) -> str:
    """Return the id of a user as it was given.

    Raises:
        Problem: 400, it is none.
    """
    if not _is_user_id(text):
        raise Problem(
            400,
            "No user id",
            f"userId must be 1 to {MOST_CHARACTERS} printable characters, such as an id of your users.",
            errors=({"pointer": "/userId", "detail": f"1 to {MOST_CHARACTERS} printable characters"},),
        )
    return text


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the token of `Authorization: Bearer`; "" where the header is missing.

    Raises:
        Problem: 401, the header says something else.
    """
    given = headers.get("Authorization")
    if given is None:
        return ""
    scheme, _, token = given.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or not token.isascii() or len(token) > _LONGEST_TOKEN:
        raise _not_let_in("The header Authorization must be: Bearer, a space, and a key or token.")
    return token


@dataclass(frozen=True, eq=False)
class Access:
    """Tells who sent a request.

    Args:
        key_of: finds a key by the digest of its secret, see `Store.key_of`. It is asked for each request, so
            that a key which was revoked is refused at once.
        local: those who connect from this machine need no key.
        jwt: verifies a JWT of the host application and gives its claims, or raises `Problem`; None: there are
            none.
        jwt_user: the claim that names the user.
        visitor: verifies the token of a visitor, given the headers of its request too; None: there are none.
    """

    key_of: Callable[[str], Awaitable[ApiKey | None]]
    local: bool = True
    jwt: Callable[[str], Awaitable[Mapping[str, Any]]] | None = None
    jwt_user: str = "sub"
    visitor: Callable[[str, Mapping[str, str]], Awaitable[Principal]] | None = None

    async def identify(
        self, headers: Mapping[str, str], remote: str | None, *, user_id: str = "", user_name: str = ""
    ) -> Principal:
        """Tell who sent a request.

        Args:
            headers: of the request; their names may be in any case where the mapping finds them so.
            remote: the address that the connection comes from.
            user_id: the user for whom it is sent, where it names one.
            user_name: what that user is called.

        Raises:
            Problem: 401, nobody who is known; 403, they may not name a user; 400, that is no id of a user.
        """
        token = bearer_of(headers)
        if token.startswith(SECRET):
            return _of_key(await self._secret(token), user_id, user_name)
        principal = await self._without_key(token, headers, remote)
        if user_id and principal.id == LOCAL:
            raise _not_let_in("To name a userId, send a secret key that has the scope chat:on-behalf.")
        if user_id:
            raise _no_scope("chat:on-behalf")
        return principal

    async def holds(self, digest: str) -> bool:
        """Return True while a secret key with this digest is there, and was not revoked."""
        return await self.key_of(digest) is not None

    async def _without_key(self, token: str, headers: Mapping[str, str], remote: str | None) -> Principal:
        """Return the caller who sent no secret key."""
        if token.count(".") == 2 and self.jwt is not None:
            return self._of_claims(await self.jwt(token))
        if token.startswith(VISITING) and self.visitor is not None:
            return await self.visitor(token, headers)
        if token.startswith(PUBLISHABLE):
            raise _not_let_in("A publishable key gets a visitor's token by POST /api/visitors, and no more.")
        if token.lower().startswith(_OURS):
            raise wrong_key()
        if self.local and _is_here(headers, remote):
            return Principal(LOCAL, "user", scopes=_OWN)
        if token:
            raise wrong_key()
        raise _not_let_in("Send a key: the header Authorization with Bearer, a space, and the key.")

    async def _secret(self, token: str) -> ApiKey:
        """Return the secret key that a token is.

        Raises:
            Problem: 401, it is none.
        """
        key = await self.key_of(digest_of(token))
        if key is None or key.is_publishable:
            raise wrong_key()
        return key

    def _of_claims(self, claims: Mapping[str, Any]) -> Principal:
        """Return the user whom the claims of a JWT name."""
        user = claims.get(self.jwt_user)
        if not isinstance(user, str) or not _is_user_id(user):
            raise _not_let_in(
                f"The token names no user: its claim {self.jwt_user!r} must be 1 to {MOST_CHARACTERS} "
                "printable characters."
            )
        name = claims.get("name")
        return Principal(f"web:jwt:{user}", _shown(name if isinstance(name, str) else "", user), scopes=_OWN)


def _of_key(key: ApiKey, user_id: str, user_name: str) -> Principal:
    """Return the owner of a key, or the user for whom the key speaks."""
    person, scopes, personas = f"web:{key.name}", frozenset(key.scopes), frozenset(key.personas)
    if not user_id:
        return Principal(person, key.name, key.name, scopes, personas)
    if "chat:on-behalf" not in scopes:
        raise _no_scope("chat:on-behalf")
    user = checked_user_id(user_id)
    # The operator's scope is the application's own: it is not lent to the users that it names.
    return Principal(f"{person}:{user}", _shown(user_name, user), key.name, scopes - {"operate"}, personas)


def _shown(name: str, otherwise: str) -> str:
    """Return a name on one line, short enough for a prompt; without one, `otherwise`."""
    printable = "".join(sign if sign.isprintable() else " " for sign in name[: 4 * MOST_CHARACTERS])
    return " ".join(printable.split())[:64] or otherwise[:64]


def _is_here(headers: Mapping[str, str], remote: str | None) -> bool:
    """Return whether a connection comes from this machine, and no proxy made it."""
    try:
        address = ip_address((remote or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback and not any(name in headers for name in _FORWARDED)


def _not_let_in(detail: str) -> Problem:
    return Problem(401, "Not let in", detail, headers=_CHALLENGE)


def wrong_key() -> Problem:
    """Return the problem of a key that is wrong, revoked or of another kind: nobody learns which."""
    return _not_let_in("This key or token is not valid here; see `pixi-persona keys list`.")


def _no_scope(scope: str) -> Problem:
    return Problem(
        403,
        "Not allowed",
        f"This needs the scope {scope}; make a key with it: pixi-persona keys add NAME --scopes {scope}",
    )
