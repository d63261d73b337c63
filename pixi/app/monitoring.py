"""A port for metrics and health checks of a program that stays.

It is for programs that serve nothing else over HTTP, and for operators who want these figures apart from what
people reach. It knows three paths and no key. Nothing there is a word, a name or an id of a person;
but what models cost is nobody's business either, so that it listens on this machine alone unless the
settings name another address. There, it answers to addresses and to `localhost`, not to other names: a page
in the operator's browser could make one of its own lead here.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from pixi.settings.rules import cannot_listen, url_of

if TYPE_CHECKING:
    from pixi.app.cluster.gateway import GatewayService
    from pixi.app.service import BotService

_log = logging.getLogger("pixi.app")


@asynccontextmanager
async def monitoring_port(service: "BotService | GatewayService") -> AsyncGenerator[None, None]:
    """Open the port of `[monitoring]`, if there is one, until the block is left. From then on turns count.

    Raises:
        ConfigError: the port is taken, or there is no such address.
    """
    host, port = service.settings.monitoring.host, service.settings.monitoring.port
    if port is None:
        yield
        return
    from aiohttp import web

    from pixi.models.connections import is_loopback

    here = is_loopback(host)
    service.metrics.begin()

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if here and not _is_address(request.host):
            raise web.HTTPMisdirectedRequest(text="Ask for this by the address 127.0.0.1, or as localhost.\n")
        return await handler(request)

    async def metrics(request: web.Request) -> web.Response:
        body, kind = await service.metrics.rendered(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        why = await service.unready()
        return web.Response(text=f"{why or 'ok'}\n", status=503 if why else 200)

    app = web.Application(middlewares=[guard])
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, UnicodeError) as error:
            raise cannot_listen(f"[monitoring] host = {host}, port = {port}", error) from None
        _log.info("metrics and health checks at %s", url_of(host, runner.addresses[0][1]))
        yield
    finally:
        await runner.cleanup()


def _is_address(host: str) -> bool:
    """Return whether a `Host` header names an address and no other computer's name."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name == "localhost":
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
