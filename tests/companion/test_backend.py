"""A host app that is slow, down, or answers nonsense: a clear word, nothing twice, no word of its own."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import resources

import pytest
from aiohttp import web

from pixi.companion.addon import CompanionSettings, setup
from pixi.companion.backend import CompanionBackend, companion_host
from pixi.companion.data import (
    AlreadyDecided,
    CompanionError,
    NewDraft,
    NewTricklist,
    NotFound,
    SpotSearch,
    Unavailable,
    Uncertain,
)
from pixi.companion.routes import ROUTES, description
from pixi.core.errors import ConfigError
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox
from tests.companion.conftest import tables
from tests.servers.staged_web import Handler, served

DRAFT = NewDraft("Quizzical Nook", "diy", "Wexcombe")
KEY = "s3cret-key"


@asynccontextmanager
async def app(answer: Handler, seconds: float = 8.0) -> AsyncGenerator[CompanionBackend, None]:
    """A host app that answers everything so."""
    async with served({"/{rest:.*}": answer}) as port:
        backend = CompanionBackend(f"http://127.0.0.1:{port}", KEY, seconds=seconds)
        try:
            yield backend
        finally:
            await backend.close()


def saying(status: int, body: bytes | str, kind: str = "application/json", **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        data = body.encode() if isinstance(body, str) else body
        return web.Response(status=status, body=data, content_type=kind, headers=headers)

    return answer


PROBLEM = '{"detail": "The list is full.\\n\\u001b[31m[SEND: x]"}'


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (saying(200, "<html>Sign in</html>", "text/html"), Unavailable, "something that is not understood"),
        (saying(200, '{"spots": ['), Unavailable, "not understood"),
        (saying(200, '{"spots": [{"_id": 5}]}'), Unavailable, "not understood"),
        (
            saying(200, '{"spots": [{"_id": "a", "name": "A", "type": "moon"}]}'),
            Unavailable,
            "not understood",
        ),
        (saying(200, b"[" * 100_000), Unavailable, "not understood"),
        (saying(200, b"x" * 3_000_000), Unavailable, "answers more than can be read"),
        (saying(302, "", Location="http://127.0.0.1:9/"), Unavailable, r"trouble of its own \(status 302\)"),
        (saying(500, "Traceback: canary"), Unavailable, r"trouble of its own \(status 500\)"),
        (saying(401, ""), Unavailable, "does not let the companion in"),
        (saying(429, ""), Unavailable, "asked too often"),
        (saying(422, PROBLEM), CompanionError, r"^The list is full. \[31m\[SEND: x\]$"),
        (saying(409, PROBLEM), AlreadyDecided, "The list is full"),
        (saying(404, "canary"), NotFound, "^There is nothing of that id.$"),
        (saying(422, '{"detail": "' + "x" * 5_000 + '"}'), CompanionError, "^x{300}$"),
    ],
    ids=range(14),
)
async def test_what_it_answers_is_a_clear_word(answer: Handler, kind: type[Exception], told: str) -> None:
    async with app(answer) as backend:
        with pytest.raises(kind, match=told) as error:
            await backend.search_spots(SpotSearch("x"))
    assert KEY not in str(error.value)
    assert "canary" not in str(error.value)


async def test_an_app_that_is_down_is_told() -> None:
    backend = CompanionBackend("http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await backend.search_spots(SpotSearch("x"))
    await backend.close()


async def test_an_app_that_does_not_answer_is_told() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        await asyncio.Event().wait()
        raise AssertionError

    async with app(answer, seconds=0.3) as backend:
        with pytest.raises(Unavailable, match=r"took longer than 0\.3 seconds"):
            await backend.spot("a")
    assert asked == ["/api/spots/a"] * 2


async def test_a_write_whose_answer_is_lost_is_asked_once_more_by_the_same_key_and_done_once() -> None:
    keys: list[str] = []

    async with tables() as kept, companion_host(kept, KEY) as url:
        whole = CompanionBackend(url, KEY)

        async def losing(request: web.Request) -> web.StreamResponse:
            keys.append(request.headers["Idempotency-Key"])
            made = await whole.create_draft("web:app:7", DRAFT, "k")
            if len(keys) == 1:
                assert request.transport
                request.transport.close()  # it is done, and nobody hears of it
            body = {"_id": made.id, "name": made.name, "type": made.kind, "status": made.status}
            return web.json_response(body)

        async with app(losing) as backend:
            draft = await backend.create_draft("web:app:7", DRAFT, "k")
        assert [each.id for each in await kept.drafts()] == [draft.id]
        assert len(keys) == 2
        assert keys[0] == keys[1]
        await whole.close()


@pytest.mark.parametrize(
    ("times", "after"), [(2, "close"), (2, "wait"), (1, "html"), (1, "500"), (1, "504"), (1, "long")]
)
async def test_of_a_write_whose_answer_is_lost_for_good_nobody_knows_whether_it_was_done(
    times: int, after: str
) -> None:
    keys: list[str] = []

    async def losing(request: web.Request) -> web.StreamResponse:
        keys.append(request.headers["Idempotency-Key"])
        match after:
            case "close":
                assert request.transport
                request.transport.close()
            case "wait":
                await asyncio.Event().wait()
            case "html" | "long":
                return web.Response(text="<p>" * (1 if after == "html" else 1_000_000))
        return web.Response(status=int(after) if after.isdigit() else 200)

    async with app(losing, seconds=0.3 if after == "wait" else 8.0) as backend:
        with pytest.raises(
            Uncertain, match=r"Nobody knows whether it was done\. .* do not do it again by you"
        ):
            await backend.create_draft("web:app:7", DRAFT, "k")
    assert keys == [keys[0]] * times


@pytest.mark.parametrize("status", [302, 401, 429, 503])
async def test_what_an_app_did_not_take_up_was_not_done(status: int) -> None:
    async with app(saying(status, "")) as backend:
        with pytest.raises(Unavailable):
            await backend.create_draft("web:app:7", DRAFT, "k")
    backend = CompanionBackend("http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await backend.create_draft("web:app:7", DRAFT, "k")
    await backend.close()


async def test_what_was_made_may_be_told_so() -> None:
    made = '{"_id": "a", "name": "Quizzical Nook", "type": "diy", "status": "pending_approval"}'
    async with app(saying(201, made)) as backend:
        assert (await backend.create_draft("web:app:7", DRAFT, "k")).id == "a"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (CompanionSettings("https://app.example", "canary\r\nX: y"), "key is not a key"),
        (CompanionSettings("https://mo:canary@app.example"), "data is no address of an app"),
        (CompanionSettings("canary"), "data is no address of an app"),
    ],
    ids=range(3),
)
def test_an_address_or_a_key_that_is_none_is_told_and_not_shown(
    settings: CompanionSettings, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        setup(Addon(CommandRegistry(), Toolbox(), None, lambda name, kind: settings))
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("person", "known_as"),
    [
        ("web:app:66f0", "66f0"),
        ("web:jwt:a:b", "a:b"),
        ("web:jwt:discord:7", "web:jwt:discord:7"),
        ("web:app:web:local", "web:app:web:local"),
        ("web:visitor:shop:x", "web:visitor:shop:x"),
        ("web:app", "web:app"),
        ("discord:7", "discord:7"),
        ("web:local", "web:local"),
    ],
)
async def test_an_app_knows_its_own_people_by_its_own_ids(person: str, known_as: str) -> None:
    async with tables() as kept, companion_host(kept) as url:
        backend = CompanionBackend(url, app_keys=("app",))
        ollie = (await backend.search_tricks("ollie"))[0]
        new = NewTricklist("L", "skateboard", (ollie.id,), "Kit")
        made = await backend.create_tricklist(person, new, "k")
        draft = await backend.create_draft(person, DRAFT, "k")
        assert await kept.tricklists(known_as) == (made,)
        assert draft.submitted_by == known_as
        await backend.close()


@pytest.mark.parametrize("made_up", ["../../admin", "a/b?c=d", "..", "%2e%2e", "a b\r\nX: y"])
async def test_an_id_is_never_another_path(made_up: str) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.raw_path)
        return web.Response(status=404)

    async with app(answer) as backend:
        assert await backend.spot(made_up) is None
    assert [path for path in asked if not path.startswith("/api/spots/") or path.count("/") != 3] == []


def test_the_description_that_ships_is_that_of_the_routes() -> None:
    shipped = json.loads(resources.files("pixi.companion").joinpath("openapi.json").read_text("utf-8"))
    assert shipped == json.loads(json.dumps(description()))
    assert {(method.lower(), path) for method, path, *_ in ROUTES} == {
        (method, path) for path, methods in shipped["paths"].items() for method in methods
    }
