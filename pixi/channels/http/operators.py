"""Operators in a browser: a link that lets one in once, a session in a cookie, and a word against forgery.

`pixi-persona serve` prints a link on a terminal. Whoever opens it first within ten minutes gets a session;
later one needs a key with the scope `operate`. The token of the link stands behind `#`, which browsers send
to no server, so that it stands in no log. The session's cookie is read by no script and sent from no other
site; besides, whatever changes something must bring the session's own word in a header, which another site
cannot know. Sessions are kept in memory: who stops the server ends them.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from msgspec import Struct

from pixi.channels.http.access import LOCAL, Access, Principal, Problem, digest_of
from pixi.channels.http.bodies import Done, SessionAnswer, SessionRequest
from pixi.channels.http.requests import decode_body, json_answer, read_body
from pixi.channels.http.visitors import HttpLimits

LINK_SECONDS = 600.0
"""Seconds for which a link lets somebody in."""

SESSION_SECONDS = 12 * 3_600.0
"""Seconds of a session."""

COOKIE = "pixi_studio"
COOKIE_PATH = "/api/studio"
CSRF_HEADER = "X-Pixi-CSRF"

_MOST_SESSIONS = 100
_READING = ("GET", "HEAD")


class OperatorSession(Struct, frozen=True):
    """One browser of an operator.

    Attributes:
        cookie: the value that the browser sends.
        csrf: the word that its page sends along where something is changed.
        person: who it is.
        digest: of the key that let them in; "": a link did.
        expires: on the clock of `Operators`.
    """

    cookie: str
    csrf: str
    person: Principal
    digest: str
    expires: float


@dataclass(eq=False)
class Operators:
    """Lets operators in, and knows them again.

    Args:
        access: tells whose a key is.
        limits: count requests with keys.
        identify: tells who sent a request, and counts a wrong key.
    """

    access: Access
    limits: HttpLimits
    identify: Callable[[web.Request], Awaitable[Principal]]

    def __post_init__(self) -> None:
        self._links: dict[str, float] = {}  # until when each link that was not used lets somebody in
        self._sessions: OrderedDict[str, OperatorSession] = OrderedDict()  # by the cookie, oldest first

    def new_link(self) -> str:
        """Return the token of a link that lets one browser in."""
        token = secrets.token_urlsafe(32)
        self._links[token] = time.monotonic() + LINK_SECONDS
        return token

    async def authenticate(self, request: web.Request) -> Principal:
        """Return the operator who sent a request, with a key or from a browser with a session.

        Raises:
            Problem: it is none, or a page of another site sent it.
        """
        if "Authorization" in request.headers:
            person = await self.identify(request)
            _require_operator(person)
            await self.limits.request(person)
            return person
        session = await self._session(request)
        word = request.headers.get(CSRF_HEADER, "")
        if request.method not in _READING and not hmac.compare_digest(word.encode(), session.csrf.encode()):
            raise Problem(403, "Not from the studio", f"The header {CSRF_HEADER} is missing or wrong.")
        return session.person

    async def enter(self, request: web.Request, network: str) -> web.StreamResponse:
        """Begin a session, by a link or by a key.

        Raises:
            Problem: 401, neither holds; 403, the key may not operate; 429, too many were tried.
        """
        await self.limits.knock(network)
        asked = decode_body(await read_body(request), SessionRequest)
        if asked.key:
            person = await self.access.identify({"Authorization": f"Bearer {asked.key}"}, None)
            _require_operator(person)
            session = self._open(person, digest_of(asked.key))
        else:
            self._use_link(asked.link)
            session = self._open(Principal(LOCAL, "operator", scopes=frozenset({"operate", "approve"})))
        answer = _session_answer(session)
        answer.set_cookie(
            COOKIE,
            session.cookie,
            path=COOKIE_PATH,
            httponly=True,
            samesite="Strict",
            # Before a proxy that speaks TLS, the browser alone tells how its page came.
            secure=request.secure or request.headers.get("Origin", "").startswith("https://"),
            max_age=int(SESSION_SECONDS),
        )
        return answer

    async def session(self, request: web.Request) -> web.StreamResponse:
        """Tell a page whose session its browser has."""
        return _session_answer(await self._session(request))

    async def leave(self, request: web.Request) -> web.StreamResponse:
        """End a session."""
        await self.authenticate(request)
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        answer = json_answer(Done())
        answer.del_cookie(COOKIE, path=COOKIE_PATH)
        return answer

    def _use_link(self, link: str) -> None:
        """Use a link up.

        Raises:
            Problem: 401, there is no such link any more.
        """
        expires = self._links.pop(link, None)
        if expires is None or expires <= time.monotonic():
            raise Problem(
                401,
                "Link is used",
                "A link lets one browser in, once, within ten minutes. Start `pixi-persona serve` again for "
                "a new one, or enter a key: pixi-persona keys add NAME --scopes operate",
            )

    def _open(self, person: Principal, digest: str = "") -> OperatorSession:
        expires = time.monotonic() + SESSION_SECONDS
        session = OperatorSession(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), person, digest, expires
        )
        self._sessions[session.cookie] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    async def _session(self, request: web.Request) -> OperatorSession:
        """Return the session of the browser that asks; one of a key lasts as long as the key.

        Raises:
            Problem: 401, it has none.
        """
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        if (
            session is None
            or session.expires <= time.monotonic()
            or (session.digest and not await self.access.holds(session.digest))
        ):
            raise Problem(
                401,
                "Not let in",
                "Open the link that `pixi-persona serve` prints on a terminal, or enter a key with the scope "
                "operate.",
                headers={"WWW-Authenticate": 'Bearer realm="pixi"'},
            )
        return session


def _require_operator(person: Principal) -> None:
    """See that somebody may operate. A key for some personas does not: it would show all of the service.

    Raises:
        Problem: 403, they may not.
    """
    person.require("operate")
    if person.personas:
        raise Problem(
            403,
            "Not allowed",
            "The key is for some personas alone; make one for all: "
            "pixi-persona keys add NAME --scopes operate",
        )


def _session_answer(session: OperatorSession) -> web.Response:
    return json_answer(SessionAnswer(session.person.name, session.csrf))
