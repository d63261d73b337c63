"""The server: aiohttp's, with what every request goes through before it is answered.

In this order: headers that every answer has; problems, which are answered in the form of the path; the name
that the server is called by (a page of another site can make a browser call this machine by a name of its
own); and the page that calls. The pages of publishable keys call as visitors and as nobody else: in the
operator's own browser they would else be the person at this machine. Nothing that breaks inside is told to a
client.

A client that goes away ends nothing: aiohttp does not cancel handlers. When the server stops, open streams
end at once, and the turns that they showed are finished or left on record by the engine.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from pixi.channels.engine import HttpBackend
from pixi.channels.http.access import PLAIN, VISITING, Access, Problem
from pixi.channels.http.api import Api
from pixi.channels.http.attachments import Attachments
from pixi.channels.http.completions import Completions
from pixi.channels.http.files import Files
from pixi.channels.http.history import TalkHistory
from pixi.channels.http.jwt import ForwardedUsers, HostTokens
from pixi.channels.http.pages import PUBLIC_PATHS, page_routes
from pixi.channels.http.peers import Peers
from pixi.channels.http.pictures import ShownPictures
from pixi.channels.http.routes import Route, routes_of, routes_of_addons
from pixi.channels.http.talks import Talks
from pixi.channels.http.visitors import HttpLimits, Visitors
from pixi.core.errors import PixiError
from pixi.core.routes import AddonRoute
from pixi.fetching.web import Web
from pixi.settings.rules import HttpRules, cannot_listen, is_own, origin_of, url_of

_MALFORMED = (HttpProcessingError, web.RequestPayloadError)

_log = logging.getLogger("pixi.http")
_wire_log = logging.getLogger("pixi.http.wire")  # of aiohttp, but for what is wrong with what strangers send
_wire_log.addFilter(lambda record: not isinstance((record.exc_info or (0, 0))[1], _MALFORMED))

SILENT_SECONDS = 20.0
"""Seconds for which a connection may be open without a whole request. aiohttp keeps it for ever."""

_KEPT_SECONDS = 630.0  # between two requests; balancers keep connections for ten minutes at most
_SHUTDOWN_SECONDS = 3.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::[0-9]{1,5})?")  # a name, and a port
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_ALLOWED_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, "
    "X-Pixi-Conversation, X-Pixi-Errors, X-Pixi-Protocol, "
    # What the SDK of OpenAI sends from a page.
    "X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, "
    "X-Stainless-Package-Version, X-Stainless-Poll-Helper, X-Stainless-Retry-Count, X-Stainless-Runtime, "
    "X-Stainless-Runtime-Version, X-Stainless-Timeout"
)
_ALLOWED_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
_TOLD_HEADERS = "Retry-After, RateLimit, RateLimit-Policy, X-Vercel-AI-UI-Message-Stream"
_VISITORS_PATH = "/api/visitors"


class HttpServer:
    """Serves talks over HTTP, until it is closed.

    Args:
        backend: answers.
        rules: of the operator.
        files: the folder for files that people send, see `files_folder`.
        tokens: checks tokens of a host application; None: there are none.
        user: the claim of such a token that names the person.
        forwarded: checks who Open WebUI says that it speaks for; None: it is believed without proof.
        routes: that addons bring.
        web_of_strangers: fetches files and pictures by their addresses; None: one of its own.

    Attributes:
        limits: on how often people may ask.

    Raises:
        ConfigError: one of these routes is taken.
    """

    def __init__(
        self,
        backend: HttpBackend,
        rules: HttpRules,
        *,
        files: Path,
        tokens: HostTokens | None = None,
        user: str = "sub",
        forwarded: ForwardedUsers | None = None,
        routes: Sequence[AddonRoute] = (),
        web_of_strangers: Web | None = None,
    ) -> None:
        self._backend = backend
        self._rules = rules
        self._files = Files(backend.store, files, rules)
        self.limits = limits = HttpLimits(rules)
        fetching = web_of_strangers or Web()
        self._pictures = ShownPictures(fetching, backend.store)
        self._talks = Talks(backend, rules, limits, Attachments(self._files, rules, fetching))
        self._talks.channels.keep = self._pictures.keep
        self._talks.channels.forgotten = self._pictures.forget
        visitors = Visitors(backend.store.key_of)
        access = Access(
            backend.store.key_of,
            local=rules.local,
            jwt=None if tokens is None else tokens.verified,
            jwt_user=user,
            visitor=visitors.verified,
        )
        self._api = api = Api(
            backend, self._talks, access, rules, visitors, limits, self._files, self._pictures
        )
        table = routes_of(api, TalkHistory(api))
        table += Completions(api, forwarded).routes()
        table += routes_of_addons(api, routes, table)
        api.describe = cache(partial(_described, table))
        self._hosts = {*_LOOPBACK, *(host.lower() for host in rules.allowed_hosts)}
        self._origins = {origin_of(origin) or origin for origin in rules.allowed_origins}
        self._spoke: set[web.RequestHandler] = set()  # connections on which a request came
        # Origins of publishable keys, as of the last request from elsewhere.
        self._visitor_origins: set[str] = set()
        self._app = web.Application(
            middlewares=[_answer_problems, self._guard], client_max_size=rules.max_body_bytes
        )
        for each in table:
            # An answer to HEAD has no body, and what a stream wrote would be taken for the next answer.
            options = {"allow_head": False} if each.method == "GET" and each.streams else {}
            self._app.router.add_routes([web.route(each.method, each.path, each.handler, **options)])
        self._app.router.add_routes(page_routes(visitors, backend))
        self._app.on_response_prepare.append(self._add_headers)

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncGenerator[str, None]:
        """Serve at an address as long as the block lasts; gives the address as a URL.

        Raises:
            ConfigError: it cannot be listened there.
        """
        self._hosts.add(f"[{host}]" if ":" in host else host.lower())
        runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=_wire_log,
            keepalive_timeout=_KEPT_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        await runner.setup()
        assert runner.server is not None  # it is set up
        sweeping = [
            asyncio.create_task(self._files.keep_swept()),
            asyncio.create_task(self._drop_silent(runner.server)),
        ]
        try:
            site = web.TCPSite(runner, host, port)
            try:
                await site.start()
            except (OSError, UnicodeError) as error:
                raise cannot_listen(f"serve --host {host} --port {port}", error) from None
            yield url_of(host, runner.addresses[0][1])
        finally:
            for task in sweeping:
                task.cancel()
            await asyncio.wait(sweeping)
            await self._pictures.close()
            self._api.closing.set()
            await self._talks.close()
            await runner.cleanup()

    async def _drop_silent(self, server: web.Server) -> None:
        """Drop connections again and again that say nothing: each takes one of the few that there can be."""
        before: set[web.RequestHandler] = set()
        while True:
            await asyncio.sleep(SILENT_SECONDS)
            there = set(server.connections)
            self._spoke &= there
            silent = there - self._spoke
            for connection in silent & before:
                if connection.transport is not None:
                    connection.transport.abort()
            before = silent

    @property
    def peers(self) -> Peers:
        """Return the other servers on the same store. Somebody has to connect them."""
        return self._talks.peers

    def new_link(self) -> str:
        """Return the path of a link that lets one browser into the studio, once."""
        return f"/studio#link={self._api.operators.new_link()}"

    async def resume(self) -> None:
        """Finish what an earlier process left half-done; returns when that is done."""
        try:
            await self._talks.resume()
        except PixiError as error:
            _log.warning("what an earlier process left could not be finished: %s", error)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests by an unknown name, or from an unknown page; answer the preflights of pages."""
        self._spoke.add(request.protocol)
        host = _HOST.fullmatch(request.headers.get("Host", "").lower())
        if host is None or host[1] not in self._hosts:
            raise Problem(421, "Wrong host", "The server is not called that; see [http] allowed_hosts.")
        origin = request.headers.get("Origin")
        is_foreign = origin is not None and not is_own(origin, request.headers.get("Host", ""))
        if origin is not None and is_foreign and not request.path.startswith(PUBLIC_PATHS):
            await self._check_origin(request, origin)
        if request.method == "OPTIONS":
            return web.Response(
                status=204,
                headers={
                    "Access-Control-Allow-Methods": _ALLOWED_METHODS,
                    "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
                    "Access-Control-Max-Age": "600",
                },
            )
        return await handler(request)

    async def _check_origin(self, request: web.Request, origin: str) -> None:
        """See that pages of an origin may call, and that visitors' pages call for visitors.

        Raises:
            Problem: 403, they may not.
        """
        if origin in self._origins:
            return
        keys = await self._backend.store.keys()
        self._visitor_origins = {each for key in keys if key.revoked is None for each in key.origins}
        if origin not in self._visitor_origins:
            raise Problem(
                403,
                "Wrong origin",
                "Pages of that origin may not call; see [http] allowed_origins, and `pixi-persona keys add "
                "--publishable` for pages with visitors.",
            )
        if request.method == "OPTIONS" or request.path == _VISITORS_PATH:
            return
        scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip().startswith(VISITING):
            raise Problem(
                403,
                "Only visitors",
                f"Pages of that origin call with the token of a visitor, which POST {_VISITORS_PATH} gives; "
                "see [http] allowed_origins for other pages.",
            )

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers that every answer has."""
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        origin = request.headers.get("Origin", "")
        response.headers["Vary"] = ", ".join(
            dict.fromkeys(["Origin", response.headers.get("Vary", "Origin")])
        )
        if origin in self._origins or origin in self._visitor_origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = _TOLD_HEADERS


@web.middleware
async def _answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what goes wrong, in the form that the clients of the path read."""
    try:
        return await handler(request)
    except Problem as problem:
        return _problem_response(request, problem)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        detail = {
            404: "There is nothing here. /openapi.json lists what there is.",
            405: f"This path takes {allowed.get('Allow', 'other methods')}.",
            413: "The body is too long; [http] max_body_bytes sets the limit.",
        }.get(error.status, "The request cannot be understood.")
        code = "unknown_url" if error.status == 404 else ""
        return _problem_response(request, Problem(error.status, "", detail, headers=allowed, code=code))
    except web.RequestPayloadError:
        detail = "The body is cut, or not packed as its Content-Encoding says: send it as it is."
        answer = _problem_response(request, Problem(400, "Bad body", detail))
        answer.force_close()  # where the next request would begin is not known
        return answer
    except PixiError as error:
        _log.warning("%s %s: %s", request.method, request.path, error)
        return _problem_response(
            request, Problem(503, "Not now", "The persona cannot be reached just now. Try again later.")
        )
    except ConnectionError:
        raise
    except Exception:
        _log.exception("%s %s broke", request.method, request.path)
        return _problem_response(
            request, Problem(500, "Broken", "Something broke inside; the server's log tells what.")
        )


def _problem_response(request: web.Request, problem: Problem) -> web.Response:
    below_api = (
        request.path.startswith(("/api/", "/healthz", "/readyz", "/metrics", "/openapi.json"))
        or request.path == "/api"
    )
    if request.get(PLAIN):
        body, kind = problem.detail.encode(), "text/plain"
    elif below_api:
        body, kind = problem.body(), "application/problem+json"
    else:
        body, kind = problem.openai_body(), "application/json"
    return web.Response(status=problem.status, body=body, content_type=kind, headers=problem.headers)


def _described(table: Sequence[Route]) -> bytes:
    """Return the description of these routes as JSON. Only who asks for it waits for its parts."""
    from pixi.channels.http.openapi import document

    return msgspec.json.encode(document(table, version("pixi-persona")))
