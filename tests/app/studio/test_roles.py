"""Who gets into the studio: a table of everybody who can knock, by every route that there is."""

import re
from pathlib import Path

from pixi.app.studio import live, people, studio_routes, talks, usage
from pixi.channels.http.access import digest_of
from pixi.core.routes import AddonRoute
from pixi.store.kept import ApiKey
from tests.app.studio.desk import Desk, desk_in

SCREENS = [talks.routes, people.routes, people.memory_routes, live.queue_routes, usage.routes]
ORIGIN = "https://shop.example.org"
ROLES = ("nobody", "here", "wrong key", "chat key", "approving key", "visitor")
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
        case "visitor":
            public = f"pixi_pk_shop{'x' * 40}"
            key = ApiKey("site", digest_of(public), (), (), (ORIGIN,), signs="5a" * 32)
            assert await desk.service.store.add_key(key)
            status, admitted = await desk.ask(
                "POST", "/api/visitors", {}, Authorization=f"Bearer {public}", Origin=ORIGIN
            )
            assert status == 200, admitted
            return {"Authorization": f"Bearer {admitted['token']}", "Origin": ORIGIN}
        case _:
            raise AssertionError(role)


async def test_nobody_but_an_operator_gets_in(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [studio_routes], head=COMPANION) as desk:
        knocks = {role: await headers_of(role, desk) for role in ROLES}
        desk.headers = {}
        routes = studio_routes(desk.service)
        assert len(routes) > 20
        for route in routes:
            body: object = None if route.method == "GET" else {}
            for role, headers in knocks.items():
                status, refused = await desk.ask(route.method, path_in(route), body, **headers)
                assert status in (401, 403), (role, route.method, route.path, refused)
                assert set(refused) <= {"type", "title", "status", "detail", "instance", "errors"}


def path_in(route: AddonRoute) -> str:
    """A path of a route."""
    path = re.sub(r"\{\w+\}", "1", route.path)
    assert path.startswith("/api/studio/")
    return path


async def test_every_route_wants_the_scope_of_operators(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [studio_routes], head=COMPANION) as desk:
        assert {route.scope for route in studio_routes(desk.service)} == {"operate"}


async def test_a_key_that_may_operate_gets_in(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [studio_routes], head=COMPANION) as desk:
        for route in (each for each in studio_routes(desk.service) if not each.streams):
            body: object = None if route.method == "GET" else {}
            status, answer = await desk.ask(route.method, path_in(route), body)
            assert status not in (401, 403), (route.method, route.path, answer)


async def test_a_session_reads_and_changes_something_with_its_word_alone(tmp_path: Path) -> None:
    async with desk_in(tmp_path, SCREENS, head=COMPANION) as desk:
        door = f"{desk.url}/api/studio/session"
        async with desk.http.post(door, json={"link": desk.link}) as answer:
            assert answer.status == 200
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
            csrf = (await answer.json())["csrf"]
        desk.headers = {"Cookie": cookie}
        for route in (route for screen in SCREENS for route in screen(desk.service)):
            reads = route.method == "GET"
            body: object = None if reads else {}
            status, answer = await desk.ask(route.method, path_in(route), body)
            assert (status != 403) is reads, (route.method, route.path, answer)
            word = {"X-Pixi-CSRF": csrf}
            status, answer = await desk.ask(route.method, path_in(route), body, **word)
            assert status not in (401, 403), (route.method, route.path, answer)
        async with desk.http.post(door, json={"link": desk.link}) as answer:
            assert answer.status in (401, 403), "the link lets one browser in"
