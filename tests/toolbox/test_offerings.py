"""What addons bring besides commands and tools: settings, tables, routes, and what they notice."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pixi.addons.loading import AddonSource, is_shipped, load_addon, named, personas_of
from pixi.app.addons import load_all
from pixi.channels.http.jwt import HostTokens
from pixi.companion.addon import CompanionSettings
from pixi.core.errors import ConfigError, PixiError
from pixi.core.llm import UserLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.routes import AddonRoute, Caller, RouteError, RouteWrites
from pixi.models.model import Traits
from pixi.settings import load
from pixi.settings.secret import Secret, secrets_in
from pixi.store.sqlite import SqliteStore
from pixi.store.tables import Schema
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon, AddonExtras
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.context import Context, Notice
from pixi.toolbox.tools import Toolbox
from tests.channels.http.served import served
from tests.channels.http.test_jwt import AUDIENCE, ISSUER, RSA, jwks, token
from tests.engine.scene import scene

BOOKS = Schema("books", (("CREATE TABLE books_wishes (person {text} NOT NULL, title {text} NOT NULL)",),))


@dataclass(frozen=True)
class BookSettings:
    shelf: str = "main"
    most: int = 5
    key: Secret | None = None


class Wish(msgspec.Struct):
    title: str
    userId: str | None = None


class Wishes(msgspec.Struct):
    titles: list[str]


def library(seen: list[BookSettings] | None = None) -> Callable[[Addon], None]:
    """An addon that brings one of each."""

    def setup(addon: Addon) -> None:
        settings = addon.settings("books", BookSettings)
        if seen is not None:
            seen.append(settings)
        tables = addon.tables(BOOKS)

        @addon.tool(source="books")
        async def wished(context: Context) -> list[str]:
            """List wishes."""
            return await titles(context.message.author.id)

        async def titles(person: str) -> list[str]:
            return await tables.read(
                lambda db: [
                    title
                    for (title,) in db.execute("SELECT title FROM books_wishes WHERE person = ?", (person,))
                ]
            )

        async def wish(caller: Caller, body: Wish) -> Wishes:
            if body.title == "none":
                raise RouteError(409, "No such book", "Wish for another.")
            if body.title == "broken":
                raise ValueError("canary")
            await tables.write(
                lambda db: db.execute("INSERT INTO books_wishes VALUES (?, ?)", (caller.person, body.title))
            )
            return Wishes(await titles(caller.person))

        async def found(message: Message) -> Sequence[str]:
            if "broken" in message.text:
                raise ValueError("canary")
            return ["It is on the shelf."] if "Emma" in message.text else []

        addon.route(AddonRoute("POST", "/api/books", wish, "Wish for a book", "chat", Wish, Wishes))
        addon.notice(Notice("books", found))

    return setup


def loaded(setup: Callable[[Addon], None]) -> AddonExtras:
    brought = AddonExtras()
    load_addon(AddonSource("books", lambda: setup), CommandRegistry(), Toolbox(), brought)
    return brought


async def test_a_route_of_an_addon_is_like_any_other() -> None:
    brought = loaded(library())
    store = await SqliteStore.open(":memory:")
    await store.open_tables(brought.tables[0])
    async with served(store=store, routes=brought.routes) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        assert await here.post("/api/books", {"title": "Emma", "userId": "7"}, **key) == (
            200,
            {"titles": ["Emma"]},
        )
        assert (await here.post("/api/books", {"title": "Persuasion"}, **key))[1] == {
            "titles": ["Persuasion"]
        }
        assert (await here.post("/api/books", {"title": 5}, **key))[0] == 422
        status, problem = await here.post("/api/books", {"title": "none"}, **key)
        assert (status, problem["title"], problem["detail"]) == (409, "No such book", "Wish for another.")
        status, problem = await here.post("/api/books", {"title": "broken"}, **key)
        assert status == 500
        assert "canary" not in str(problem)
        assert (await here.post("/api/books", {"title": "x"}, Authorization="Bearer pixi_sk_no"))[0] == 401
        _, description = await here.get("/openapi.json")
        assert description["paths"]["/api/books"]["post"]["summary"] == "Wish for a book"
    await store.close()


async def test_a_user_s_own_token_decides_nothing_for_others(tmp_path: Path) -> None:
    async def answer(caller: Caller, body: object) -> None: ...

    (tmp_path / "keys.json").write_text(jwks(one=RSA))
    tokens = HostTokens(ISSUER, AUDIENCE, str(tmp_path / "keys.json"))
    routes = [AddonRoute("GET", f"/api/{scope}", answer, "x", scope) for scope in ("chat", "approve")]
    async with served(routes=routes, tokens=tokens) as here:
        own = {"Authorization": f"Bearer {token()}"}
        assert (await here.get("/api/chat", **own))[0] == 200
        status, problem = await here.get("/api/approve", **own)
        assert (status, "a key with the scope approve" in problem["detail"]) == (403, True)
        for let_in in (await here.key("staff", "chat", "approve"), {}):
            assert await here.get("/api/approve", **let_in) == (200, {"done": True})
        assert (await here.get("/api/approve", Via="1.1 proxy"))[0] == 401


@pytest.mark.parametrize("path", ["/api/chat", "/api/chat/{name}/stop"])
async def test_a_route_of_the_server_is_not_taken(path: str) -> None:
    async def answer(caller: Caller, body: object) -> None: ...

    route = AddonRoute("POST", path, answer, "x")
    with pytest.raises(ConfigError, match="is taken"):
        async with served(routes=[route]):
            pass


async def test_what_a_route_changes_is_put_on_record_with_what_came_of_it() -> None:
    async def answer(caller: Caller, asked: Wish) -> None:
        match asked.title:
            case "broken":
                raise ValueError("canary")
            case status if status.isdigit():
                raise RouteError(int(status), "Refused", "x")

    def setup(addon: Addon) -> None:
        writes = RouteWrites("wish", 4, 60.0)
        addon.route(AddonRoute("POST", "/api/books", answer, "Wish", request=Wish, writes=writes))

    store = await SqliteStore.open(":memory:")
    async with served(store=store, routes=loaded(setup).routes) as here:
        for title, status in (("Emma", 200), ("422", 422), ("503", 503), ("504", 504), ("broken", 500)):
            assert (await here.post("/api/books", {"title": title}))[0] == status
        kept = [(each.deed.person, each.deed.tool, each.outcome) for each in await store.audit(9)]
        outcomes = ("done", "failed", "failed", "unknown", "unknown")
        assert kept == [("web:local", "wish", outcome) for outcome in outcomes]
        assert [(await here.post("/api/books", {"title": each}))[0] for each in "ab"] == [200, 429]
    await store.close()


def test_a_stream_is_not_put_on_record() -> None:
    async def follow(caller: Caller, asked: object) -> AsyncGenerator[Mapping[str, Any], None]:
        yield {}

    with pytest.raises(ConfigError, match="a stream is not put on record"):
        AddonRoute("GET", "/api/x", follow, "x", streams=True, writes=RouteWrites("x", 1, 60.0))


@pytest.mark.parametrize("path", ["/v1/x", "books", "/", "/apis"])
def test_a_route_stands_below_api(path: str) -> None:
    async def answer(caller: Caller, body: object) -> None: ...

    with pytest.raises(ConfigError, match="below /api/"):
        AddonRoute("POST", path, answer, "x")


def test_an_addon_that_fails_brings_nothing() -> None:
    def setup(addon: Addon) -> None:
        library()(addon)
        raise ValueError("no")

    brought, tools = AddonExtras(), Toolbox()
    with pytest.raises(PixiError):
        load_addon(AddonSource("books", lambda: setup), CommandRegistry(), tools, brought)
    assert (brought.tables, brought.routes, tools.notices, list(tools)) == ([], [], [], [])


async def test_what_an_addon_notices_is_told_to_a_persona_that_has_its_tools() -> None:
    for persona, traits, told in (
        (Persona("Pixi", "x", tools=("books",)), Traits(), True),
        (Persona("Pixi", "x"), Traits(), False),
        (Persona("Pixi", "x", tools=("books",)), Traits(small=True), False),
    ):
        model = ScriptedModel("[SEND: a]", "[SEND: b]", "[SEND: c]", traits=traits)
        async with scene(model, persona=persona, addons=[library()]) as here:
            await here.talk("have you Emma?")
            line = here.history()[-1]
            assert isinstance(line, UserLine)
            block = 'you are told by books of "Mo" (id author:Mo):\n> It is on the shelf.\n'
            assert (block in line.text) == told
            await here.talk("and broken?", "and others?")
            assert here.channel.sent == ["a", "b", "c"]


def settings_of(folder: Path, text: str, **environ: str) -> Any:
    (folder / "pixi.toml").write_text(text)
    return load(folder=folder, environ=environ)


def read_of(folder: Path, text: str, **environ: str) -> BookSettings:
    """What the addon reads."""
    from pixi.app.addons import AddonSettingsReader

    read: BookSettings = AddonSettingsReader(settings_of(folder, text, **environ), Toolbox())(
        "books", BookSettings
    )
    return read


def test_an_addon_has_settings_of_its_own(tmp_path: Path) -> None:
    assert read_of(tmp_path, "") == BookSettings()
    text = '[addon.books]\nshelf = "attic"\n'
    found = read_of(tmp_path, text, PIXI_ADDON__BOOKS__MOST="7", PIXI_ADDON__BOOKS__KEY="s3cret-key")
    assert (found.shelf, found.most) == ("attic", 7)
    assert found.key
    assert found.key.reveal() == "s3cret-key"


def test_a_key_of_an_addon_is_hidden_though_it_is_plain_text(tmp_path: Path) -> None:
    from pixi.app.addons import AddonSettingsReader

    settings = settings_of(tmp_path, '[addon.companion]\nkey = "canary-key"\ndata = "https://a.example"\n')
    assert "canary-key" in secrets_in(settings)
    assert "canary-key" not in repr(settings)
    toolbox = Toolbox()
    AddonSettingsReader(settings, toolbox)("companion", CompanionSettings)
    assert toolbox.mask.hide("by canary-key from addon.companion.key") == "by *** from addon.companion.key"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[addon.books]\nshelve = 1\n",
            r"line 2: \[addon.books\] has no key 'shelve'; did you mean 'shelf'\?",
        ),
        ('[addon.books]\nmost = "many"\n', r'line 2: addon.books.most is "many"; it must be a whole number'),
        ("[addon.books]\nkey = 5\n", r"line 2: addon.books.key is wrong; it must be"),
    ],
)
def test_a_setting_that_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_of(tmp_path, text)


def test_a_section_that_no_addon_reads_is_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    settings = settings_of(tmp_path, "[addon.books]\nshelf = 'a'\n")
    load_all(settings, (), CommandRegistry(), Toolbox(), told.append)
    assert told == ["[addon.books] is read by no addon: name the addon in `addons`, or remove the section."]


def test_a_name_that_is_nearly_one_s_is_told_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PixiError, match="do you mean 'companion', which comes along"):
        load_addon(named(tmp_path / "companio"), CommandRegistry(), Toolbox())


def test_an_addon_that_comes_along_goes_by_its_name(tmp_path: Path) -> None:
    assert is_shipped(tmp_path / "companion")
    assert named(tmp_path / "companion").name == "companion"
    (folder,) = personas_of([tmp_path / "companion", tmp_path / "books.py"])
    assert [path.name for path in folder.iterdir()] == ["kit.md"]
    (tmp_path / "companion").write_text("a file of the operator's own")
    assert not is_shipped(tmp_path / "companion")
