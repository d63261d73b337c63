"""Who gets into the studio: a table of everybody who can knock, by every route that there is."""

import re
from pathlib import Path
from typing import Any

import pytest

from pixi.app.studio import memory, people, queue, talks, usage
from pixi.channels.http.access import digest_of
from pixi.core.routes import AddonRoute
from pixi.store.kept import ApiKey
from tests.app.studio.desk import Desk, desk_in

SCREENS = [talks.routes, people.routes, memory.routes, queue.routes, usage.routes]
ORIGIN = "https://shop.example.org"
ROLES = ("nobody", "here", "wrong key", "chat key", "approving key", "user by key", "visitor")
COMPANION = 'addons = ["companion"]\n'


async def headers_of(role: str, desk: Desk) -> dict[str, str]:
    """What somebody sends; `here` is a program on this machine that sends no key."""
    match role:
        case "nobody":  # a proxy's headers: they come from elsewhere
            return {"Authorization": "", "X-Forwarded-For": "192.0.2.7"}
        case "here":
            return {}
        case "wrong key":
            return {"Authorization": "Bearer pixi_sk_wrong"}
        case "chat key":
            return await desk.key("talks", "chat")
        case "approving key":
            return await desk.key("approves", "chat", "chat:on-behalf", "approve")
        case "user by key":  # what a key may as a whole is not lent to the users whom it names
            return await desk.key("app", "chat", "chat:on-behalf", "approve", "operate")
        case "visitor":
            public = f"pixi_pk_shop{'x' * 40}"
            key = ApiKey("site", digest_of(public), (), (), (ORIGIN,), signs="5a" * 32)
            assert await desk.house.store.add_key(key)
            status, admitted = await desk.ask(
                "POST", "/api/visitors", {}, Authorization=f"Bearer {public}", Origin=ORIGIN
            )
            assert status == 200, admitted
            return {"Authorization": f"Bearer {admitted['token']}", "Origin": ORIGIN}
        case _:
            raise AssertionError(role)


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_but_an_operator_gets_in(tmp_path: Path, role: str) -> None:
    async with desk_in(tmp_path, SCREENS, head=COMPANION) as desk:
        routes = [
            route
            for screen in SCREENS
            for route in screen(desk.house)
            if not (role == "user by key" and "userId" not in _fields(route.request))
        ]
        assert routes
        knocks = await headers_of(role, desk)
        desk.headers = {}
        for route in routes:
            path = re.sub(r"\{\w+\}", "1", route.path)
            assert path.startswith("/api/studio/")
            body = body_of(route, {"userId": "7"} if role == "user by key" else {})
            status, refused = await desk.ask(route.method, path, body, **knocks)
            assert status in (401, 403), (role, route.method, path, refused)
            assert set(refused) <= {"type", "title", "status", "detail", "instance", "errors"}


def body_of(route: AddonRoute, more: dict[str, str]) -> dict[str, Any] | None:
    """A body that fits, so that nobody is turned away for that."""
    if route.method == "GET":
        return None
    return more | ({"name": "Mo"} if route.request is people.ForgetRequest else {})


def _fields(request: type | None) -> tuple[str, ...]:
    return getattr(request, "__struct_fields__", ())


async def test_a_key_that_may_operate_gets_in(tmp_path: Path) -> None:
    async with desk_in(tmp_path, SCREENS, head=COMPANION) as desk:
        for route in (route for screen in SCREENS for route in screen(desk.house)):
            path = re.sub(r"\{\w+\}", "1", route.path)
            status, answer = await desk.ask(route.method, path, body_of(route, {}))
            assert status not in (401, 403), (route.method, path, answer)


async def test_every_route_wants_the_scope_of_operators(tmp_path: Path) -> None:
    async with desk_in(tmp_path, SCREENS, head=COMPANION) as desk:
        routes = [route for screen in SCREENS for route in screen(desk.house)]
        assert len(routes) == 16
        assert {route.scope for route in routes} == {"operate"}
