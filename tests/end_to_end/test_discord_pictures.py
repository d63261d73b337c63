"""`[GIF: …]` and `[STICKER: …]` with the whole bot: services, folder, faces, and what the prompt says."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from pixi.app import command_integrations
from pixi.core.errors import ConfigError
from tests.end_to_end.bot import PERSONA, scene
from tests.servers.scripted_gifs import KEY, frames, gif_services, moving
from tests.servers.scripted_openai import Until
from tests.waiting import within

PAUSED = PERSONA.replace("pace: off", "pace: brisk")


@pytest.mark.parametrize("engine", ["klipy", "giphy"])
@pytest.mark.parametrize("faces", ["off", "webhook"])
async def test_a_service_s_picture_is_posted_in_its_place(
    engine: str, faces: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reply = "[SEND: look]\n[GIF: excited cat]\n[SEND: me, today]"
    async with gif_services() as services, scene(tmp_path, reply, "[SEND: bye]") as here:
        monkeypatch.setitem(command_integrations.GIF_BASES, engine, services.base)
        async with here.bot(gifs__engine=engine, gifs__api_key=KEY, discord__faces=faces) as service:
            await here.ask("how are you?")
            await here.discord.wait_for(lambda: len(here.posts()) == 3)
            first, link, last = here.posts()
            assert (first, last) == ("look", "me, today")
            page = {"klipy": "https://klipy.com/gifs/cat-", "giphy": "https://giphy.com/gifs/Abc"}[engine]
            assert link.startswith(page)
            await here.answered(service, 1)
            await here.ask("and now?")
            await here.answered(service, 2)
            assert {"role": "assistant", "content": reply} in here.prompt()
            assert "- [GIF: words] a moving picture" in here.prompt()[0]["content"]
        assert KEY not in caplog.text + here.whole()
        assert KEY not in (tmp_path / "pixi.db").read_bytes().decode("latin-1")


async def test_it_is_looked_for_while_the_persona_still_types_what_stands_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        gif_services() as services,
        scene(tmp_path, "[SEND: wait, i have just the thing]\n[GIF: cat]", personas={"pixi": PAUSED}) as here,
    ):
        monkeypatch.setitem(command_integrations.GIF_BASES, "klipy", services.base)
        async with here.bot(gifs__engine="klipy", gifs__api_key=KEY):
            await here.ask()
            async with within("a search"):
                await services.asked.wait()
            assert here.posts() == []
            await here.discord.wait_for(lambda: len(here.posts()) == 2)


async def test_a_folder_s_picture_is_attached_and_moves(tmp_path: Path) -> None:
    (tmp_path / "gifs").mkdir()
    (tmp_path / "gifs" / "excited cat.gif").write_bytes(moving())
    async with scene(tmp_path, "[GIF: cat]") as here, here.bot(gifs__engine="folder"):
        await here.ask()
        await here.discord.wait_for(lambda: here.room.messages[-1].attachments)
        (attached,) = here.room.messages[-1].attachments
        assert frames(attached.data) == 2
        assert attached.upload.description == "excited cat"


async def test_an_empty_folder_is_told_of_and_nobody_else_is(tmp_path: Path) -> None:
    (tmp_path / "gifs").mkdir()
    async with scene(tmp_path, "[GIF: cat]\n[SEND: ok]") as here, here.bot(gifs__engine="folder"):
        await here.ask()
        await here.said("ok")
        assert "GIF" not in here.prompt()[0]["content"]
        assert any("there is no picture in" in line for line in here.told)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"gifs__engine": "klipy"}, "gifs.api_key: .* needs a key: write PIXI_GIFS__API_KEY="),
        ({"gifs__engine": "folder"}, "gifs.folder: .* there is no such folder; make it, or name another"),
    ],
)
async def test_what_cannot_hold_is_told_at_the_start(
    wanted: dict[str, Any], told: str, tmp_path: Path
) -> None:
    async with scene(tmp_path, "x") as here:
        with pytest.raises(ConfigError, match=told):
            async with here.bot(**wanted):
                pass


async def test_a_sticker_is_known_only_in_a_server_that_has_some(tmp_path: Path) -> None:
    async with scene(tmp_path, "[STICKER: big wave]\n[SEND: hi]") as here:
        wave = here.guild.sticker("Big_Wave", "somebody waves")
        async with here.bot(discord__stickers=True):
            await here.ask()
            await here.discord.wait_for(lambda: len(here.posts()) == 2)
            assert here.room.messages[1].stickers == [wave.item]
            assert (
                "- [STICKER: name] a sticker of this server in the chat, by its name: Big Wave"
                in (here.prompt()[0]["content"])
            )
            direct = here.discord.dm(here.mo)
            await direct.say(here.mo, "and here?")
            await here.said("hi", room=direct)
            assert "STICKER" not in here.prompt()[0]["content"]


async def test_without_the_setting_nobody_knows_of_stickers(tmp_path: Path) -> None:
    async with scene(tmp_path, "[STICKER: wave]\n[SEND: hi]") as here:
        here.guild.sticker("wave")
        async with here.bot():
            await here.ask()
            await here.said("hi")
            assert "STICKER" not in here.prompt()[0]["content"]


async def test_a_reply_that_is_given_up_leaves_no_search_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gif_services() as services, scene(tmp_path, ["[GIF: cat", Until(asyncio.Event())]) as here:
        services.until = asyncio.Event()
        monkeypatch.setitem(command_integrations.GIF_BASES, "klipy", services.base)
        async with here.bot(gifs__engine="klipy", gifs__api_key=KEY) as service:
            await here.ask()
            async with within("a search"):
                await services.asked.wait()
            assert await service.engine.stop(here.address())
            async with within("the end of the search"):
                await services.gone(0).wait()
            assert here.posts() == []
