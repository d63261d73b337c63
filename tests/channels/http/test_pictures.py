"""Pictures that pages draw: from this server alone, drawn anew, and only those that were shown."""

import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace
from PIL import Image as Pillow

from pixi.channels.http.pictures import ShownPictures
from pixi.core.message import Card, Image, Picture
from pixi.core.persona import Persona
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.served import PERSONAS, Served, served
from tests.channels.http.test_files import picture
from tests.servers.model_faults import speaking_tls, trusting
from tests.servers.staged_web import Stage, StagedWeb
from tests.servers.staged_web import served as pages

HOST = "https://pages.pixi-web.net"


@dataclass
class Elsewhere:
    """A server with pictures. `asked` are the headers of the requests that came."""

    web: StagedWeb
    stage: Stage
    asked: list[dict[str, str]]


@asynccontextmanager
async def elsewhere(body: bytes, kind: str = "image/png") -> AsyncIterator[Elsewhere]:
    asked: list[dict[str, str]] = []

    async def give(request: web.Request) -> web.Response:
        asked.append(dict(request.headers))
        return web.Response(body=body, content_type=kind)

    async def lead(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1/secret")

    async with pages({"/a.png": give, "/b.png": give, "/away.png": lead}, speaking_tls("named")) as port:
        stage = Stage(tls=trusting("named"))
        stage.put("pages.pixi-web.net", port, as_port=443)
        async with StagedWeb(stage) as fetching:
            yield Elsewhere(fetching, stage, asked)


@asynccontextmanager
async def shown_by(
    far: Elsewhere, *things: Card | Picture
) -> AsyncIterator[tuple[Served, list[dict[str, Any]]]]:
    """A talk in which a persona shows them; gives the events that tell so."""

    def setup(addon: Addon) -> None:
        @addon.command
        async def spot(context: Context, name: str) -> None:
            """show a spot"""
            for each in things:
                await (context.card(each) if isinstance(each, Card) else context.picture(each))

    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", commands=("spot",))}
    async with served("[SPOT: a]", "[SPOT: a]", addons=[setup], personas=personas, web=far.web) as here:
        async with here.stream("/api/chat", {"message": "hi", "conversation": "a"}) as events:
            told = [event async for event in events if event["event"] in ("card", "picture")]
        yield here, told


async def fetched(here: Served, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    async with here.http.get(here.url + path, headers=headers) as answer:
        return answer.status, await answer.read(), dict(answer.headers)


async def test_pictures_of_a_card_come_from_here_and_tell_nobody_who_looks() -> None:
    spots = [{"imageUrl": f"{HOST}/a.png", "link": f"{HOST}/b.png"}]
    data = {"spots": spots, "photo": "javascript:alert(1)"}
    bowl = Card("A", picture=f"{HOST}/b.png", type="spots_list", data=data)
    async with elsewhere(picture("PNG", 30)) as far, shown_by(far, bowl) as (here, (card,)):
        assert set(card["pictures"]) == {f"{HOST}/a.png", f"{HOST}/b.png"}
        assert card["data"] == data
        _, page = await here.get("/api/chat/a/messages")
        assert page["messages"][1]["pictures"] == card["pictures"]
        for path in card["pictures"].values():
            status, body, headers = await fetched(here, path, Cookie="a=b", Referer="https://x.example")
            assert (status, headers["Content-Type"]) == (200, "image/jpeg")
            assert Pillow.open(io.BytesIO(body)).size == (30, 30)
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "sandbox" in headers["Content-Security-Policy"]
        assert len(far.asked) == 2
        assert not {"Cookie", "Referer", "Authorization"} & {name for one in far.asked for name in one}
        await fetched(here, path)
        assert len(far.asked) == 2, "it is kept"


async def test_a_moving_picture_of_a_service_is_shown_by_its_file_also_after_a_reload() -> None:
    gif = Picture("a cat", "https://service.example/cat", "Service", address=f"{HOST}/a.png")
    frames = [Pillow.new("RGB", (20, 10), color) for color in ("red", "green", "blue")]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=80)
    async with elsewhere(file.getvalue(), "image/gif") as far, shown_by(far, gif) as (here, (event,)):
        _, body, headers = await fetched(here, event["pictures"]["https://service.example/cat"])
        assert headers["Content-Type"] == "image/webp"
        assert Pillow.open(io.BytesIO(body)).n_frames == 3  # type: ignore[attr-defined]
        (message,) = (await here.get("/api/chat/a/messages"))[1]["messages"][1:]
        assert message["pictures"] == event["pictures"]
        assert message["picture"] == {
            "text": "a cat",
            "link": "https://service.example/cat",
            "service": "Service",
        }
        _, answer = await here.post("/api/chat", {"message": "again", "conversation": "a"})
        (shown,) = answer["pictures"]
        assert answer["response"] == ""
        assert (shown["service"], shown["address"], shown["pictures"]) == (
            "Service",
            f"{HOST}/a.png",
            event["pictures"],
        )


async def test_a_picture_that_lies_nowhere_else_is_shown_from_here() -> None:
    words = "a [drawn] bowl"

    def setup(addon: Addon) -> None:
        @addon.command
        async def spot(context: Context, name: str) -> None:
            """show a spot"""
            await context.picture(Picture(words, file=Image("image/png", picture("PNG", 30))))

    async def is_bowl(here: Served, address: str) -> bool:
        async with here.http.get(address) as answer:
            return Pillow.open(io.BytesIO(await answer.read())).size == (30, 30)

    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", commands=("spot",))}
    async with served(*["[SPOT: a]"] * 4, "[SEND: ok]", addons=[setup], personas=personas) as here:
        answer = await here.say("hi", conversation="a")
        (shown,) = answer["pictures"]
        assert (shown["text"], "error" in answer) == (words, False)
        path = shown["pictures"][""]
        assert shown["address"] == here.url + path
        assert await is_bowl(here, here.url + path)
        _, page = await here.get("/api/chat/a/messages")
        assert page["messages"][1]["pictures"] == {"": path}
        told = {
            "id": "b",
            "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
        }
        async with here.http.post(f"{here.url}/api/chat", json=told) as streamed:
            (url,) = re.findall(r'"type":"file","url":"([^"]+)"', await streamed.text())
        assert await is_bowl(here, url)
        run = {"threadId": "c", "runId": "r", "messages": [{"id": "2", "role": "user", "content": "hi"}]}
        async with here.http.post(f"{here.url}/api/agui", json=run) as streamed:
            (url,) = re.findall(r'"address":"([^"]+)"', await streamed.text())
        assert await is_bowl(here, url)
        said = [{"role": "user", "content": "hi"}]
        _, chat = await here.post("/v1/chat/completions", {"model": "pixi", "messages": said})
        reply = chat["choices"][0]["message"]
        (url,) = re.findall(r"!\[a \\\[drawn\\\] bowl\]\((\S+)\)", reply["content"])
        assert await is_bowl(here, url)
        known = len(await here.backend.store.talks("web:local", "pixi", 10))
        said += [reply, {"role": "user", "content": "more"}]
        await here.post("/v1/chat/completions", {"model": "pixi", "messages": said})
        assert len(await here.backend.store.talks("web:local", "pixi", 10)) == known, "the talk goes on"


@pytest.mark.parametrize(("path", "body"), [("/api/chat/a/reset", {}), ("/api/me/forget", {"really": True})])
async def test_a_picture_that_lies_nowhere_else_is_forgotten_with_the_talk(
    path: str, body: dict[str, Any]
) -> None:
    def setup(addon: Addon) -> None:
        @addon.command
        async def spot(context: Context, name: str) -> None:
            """show a spot"""
            await context.picture(Picture("a bowl", file=Image("image/png", picture("PNG", 30))))

    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", commands=("spot",))}
    async with served("[SPOT: a]", "[SPOT: a]", addons=[setup], personas=personas) as here:
        drawn, never_drawn = [
            (await here.say(text, conversation="a"))["pictures"][0]["pictures"][""] for text in ("hi", "more")
        ]
        assert (await fetched(here, drawn))[0] == 200
        assert (await here.post(path, body))[0] == 200
        assert [(await fetched(here, each))[0] for each in (drawn, never_drawn)] == [404, 404]
        assert list(here.server._pictures._own) == []
        assert all(kept.image is None for kept in here.server._pictures._kept._kept.values())


async def test_nothing_is_fetched_that_was_not_shown_or_is_no_picture() -> None:
    inside = ["https://10.0.0.1/x.png", "https://localhost/x.png"]
    cards = (
        Card("A", picture=f"{HOST}/a.png"),
        Card("B", picture=f"{HOST}/away.png"),
        Card("C", picture="https://nobody.pixi-web.net/x.png"),
        Card("D", data={"image": inside}, type="spot_card"),
    )
    script = b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>"
    async with elsewhere(script) as far, shown_by(far, *cards) as (here, told):
        paths = [path for card in told for path in card["pictures"].values()]
        assert len(paths) == 5
        for path in [*paths, "/api/pictures/0123", "/api/pictures/https%3A%2F%2Fx.example%2Fa.png"]:
            assert (await fetched(here, path))[0] == 404
        assert "10.0.0.1" not in far.stage.dialled
        count = len(far.asked)
        await fetched(here, paths[0])
        assert len(far.asked) == count, "it is not tried again at once"


async def test_what_is_too_large_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.channels.http.pictures.MOST_BYTES", 100)
    card = Card("A", picture=f"{HOST}/a.png")
    async with elsewhere(picture("PNG", 500)) as far, shown_by(far, card) as (here, (told,)):
        (path,) = told["pictures"].values()
        assert (await fetched(here, path))[0] == 404


async def test_a_persona_has_a_face(tmp_path: Path) -> None:
    face = tmp_path / "face.png"
    face.write_bytes(picture("PNG", 1_100))
    personas = PERSONAS | {"edda": replace(PERSONAS["edda"], avatar=str(face))}
    async with served(personas=personas) as here:
        _, answer = await here.get("/api/personas")
        path = next(each["avatar"] for each in answer["personas"] if each["id"] == "edda")
        status, body, _ = await fetched(here, path)
        assert (status, Pillow.open(io.BytesIO(body)).size) == (200, (1_024, 1_024))


async def test_addresses_are_bounded_and_cannot_be_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.channels.http.pictures._NAMED", 3)
    async with served() as here:
        pictures = ShownPictures(StagedWeb(Stage()), here.backend.store)
        urls = [pictures.url(f"https://x.example/{n}.png") for n in range(5)]
        assert pictures.url("https://x.example/4.png") == urls[4]
        assert len(pictures._sources) == 3
        others = ShownPictures(StagedWeb(Stage()), here.backend.store)
        assert others.url("https://x.example/4.png") != urls[4]
