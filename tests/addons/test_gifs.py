"""`[GIF: …]` in a talk, over real sockets: there when it closes, quiet where there is nothing."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pixi.addons.pictures import Seeker, gifs_from
from pixi.core.events import Failed, Performed
from pixi.core.masking import SecretRedactor
from pixi.core.message import Abilities
from pixi.engine import Engine
from pixi.fetching.web import Web
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.commands import CameToNothing
from pixi.web.gif_sources import GifError, GifFolder, GifSource, Giphy, Klipy
from tests.engine.scene import PIXI, Scene
from tests.servers.scripted_gifs import KEY, ScriptedGifs, frames, gif_services, moving
from tests.waiting import until, within

DRAWS = Abilities(draws=True)
QUIET = 0.02  # seconds; ten times less than a person would be given


@pytest.fixture
async def services() -> AsyncIterator[ScriptedGifs]:
    async with gif_services() as services:
        yield services


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


@pytest.fixture
def klipy(services: ScriptedGifs, web: Web) -> Klipy:
    return Klipy(web, KEY, "pg", base=services.base)


@asynccontextmanager
async def talk_with(
    source: GifSource, model: ScriptedModel, channel: RecordingChannel | None = None
) -> AsyncGenerator[Scene, None]:
    """An engine with the command; at the end nothing of it may be left running."""
    engine = Engine(model=model, persona=PIXI, addons=[gifs_from(source)])
    before = asyncio.all_tasks()
    async with engine:
        yield Scene(engine, model, channel or RecordingChannel())
    left = [task for task in asyncio.all_tasks() - before if "ScriptedOpenAI" not in repr(task)]
    assert not left, left


def links(here: Scene) -> list[str]:
    return [picture.link for picture in here.channel.pictures]


def seen(channel: RecordingChannel, kind: type[object]) -> int:
    return sum(isinstance(event, kind) for event in channel.events)


async def test_a_picture_is_shown_by_the_page_of_its_service(klipy: Klipy, services: ScriptedGifs) -> None:
    async with talk_with(klipy, ScriptedModel("[GIF: excited cat]\n[SEND: me]", "x")) as here:
        await here.talk("hi", "more")
        (picture,) = here.channel.pictures
        assert picture.link.startswith("https://klipy.com/gifs/cat-")
        assert (picture.service, picture.file) == ("KLIPY", None)
        assert picture.words.startswith("excited cat ")
        assert services.fetched == []  # whoever shows links wants no file
        assert here.replies() == ["[GIF: excited cat]\n[SEND: me]"]
        assert "- [GIF: words] a moving picture" in str(here.model.requests[0].lines[0])


async def test_where_pictures_are_drawn_the_file_comes_along(services: ScriptedGifs, web: Web) -> None:
    giphy = Giphy(web, KEY, "pg", base=services.base)
    channel = RecordingChannel(abilities=DRAWS)
    async with talk_with(giphy, ScriptedModel("[GIF: cat]"), channel) as here:
        await here.talk("hi")
        (picture,) = channel.pictures
        assert picture.file is not None
        assert frames(picture.file.data) == 2
        assert picture.service == "GIPHY"


async def test_the_search_begins_while_the_command_is_still_being_written(
    klipy: Klipy, services: ScriptedGifs
) -> None:
    close = asyncio.Event()
    model = ScriptedModel(["[GIF: excited", " cat", close, "]"], piece=0)
    async with talk_with(klipy, model) as here:
        await here.say("hi")
        async with within("the search"):
            await services.asked.wait()
        assert here.channel.events == []
        services.until = asyncio.Event()  # another search would have no answer
        close.set()
        await here.engine.settled()
        assert len(here.channel.pictures) == 1
        assert services.words == ["excited cat"]


async def test_a_way_that_is_slow_to_open_holds_nothing_up(
    klipy: Klipy, services: ScriptedGifs, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def warm() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(klipy, "warm", warm)
    async with talk_with(klipy, ScriptedModel("[GIF: cat]")) as here:
        await here.talk("hi")
        assert len(here.channel.pictures) == 1
        assert begun.is_set()
        assert ended.is_set()


async def test_a_service_is_left_alone_as_long_as_it_says_whatever_else_goes_wrong(
    klipy: Klipy, services: ScriptedGifs
) -> None:
    seeker = Seeker(klipy, SecretRedactor())
    seeker.trouble(GifError("asked too often", rest=60.0))
    seeker.trouble(GifError("a picture is none"))
    context: Any = None
    with pytest.raises(CameToNothing):
        await seeker.seek(context, "cat")
    assert services.words == []


async def test_what_was_not_the_whole_is_looked_for_once_more_and_never_again(
    klipy: Klipy, services: ScriptedGifs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.addons.pictures.QUIET", QUIET)
    services.until = asyncio.Event()
    go_on, again = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(["[GIF: excited", go_on, " cat", again, " jumping]"], piece=0)
    async with talk_with(klipy, model) as here:
        await here.say("hi")
        await until(lambda: services.words == ["excited"])
        go_on.set()
        await asyncio.sleep(4 * QUIET)  # a pause again, after which nothing more is looked for
        assert services.words == ["excited"]
        again.set()
        await until(lambda: len(services.words) == 2)
        async with within("the end of the search"):
            await services.gone(0).wait()  # the first was broken off
        services.until.set()
        await here.engine.settled()
        assert services.words == ["excited", "excited cat jumping"]
        assert len(here.channel.pictures) == 1


async def test_it_is_looked_for_while_messages_before_it_are_still_posted(
    klipy: Klipy, services: ScriptedGifs
) -> None:
    channel = RecordingChannel()
    channel.hold = asyncio.Event()
    model = ScriptedModel("[SEND: one]\n[GIF: cat]\n[GIF: dog]\n[SEND: two]")
    async with talk_with(klipy, model, channel) as here:
        await here.say("hi")
        await until(lambda: sorted(services.words) == ["cat", "dog"])
        assert channel.sent == []
        channel.hold.set()
        await here.engine.settled()
        order = [type(event).__name__ for event in channel.events if not isinstance(event, Performed)]
        assert order == ["Sent", "Pictured", "Pictured", "Sent", "TurnEnded"]


async def test_what_stands_behind_waits_no_longer_than_patience_has(
    klipy: Klipy, services: ScriptedGifs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pixi.addons.pictures.PATIENCE", 0.3)
    services.until = asyncio.Event()  # never set
    async with talk_with(klipy, ScriptedModel("[GIF: cat]\n[SEND: ok]", "x")) as here:
        await here.talk("hi")  # or it would wait for ever
        assert here.channel.sent == ["ok"]
        async with within("the end of the search"):
            await services.gone(0).wait()
        assert caplog.text.count("no picture came within 0.3 seconds") == 1
        await here.talk("more")
        assert here.replies()[0] == "[SEND: ok]"


async def test_what_was_begun_for_a_reply_that_is_stopped_is_broken_off(
    klipy: Klipy, services: ScriptedGifs
) -> None:
    services.until, never = asyncio.Event(), asyncio.Event()
    async with talk_with(klipy, ScriptedModel(["[GIF: cat", never])) as here:
        await here.say("hi")
        async with within("the search"):
            await services.asked.wait()
        await here.engine.stop(here.channel.conversation)
        async with within("the end of the search"):
            await services.gone(0).wait()
        assert here.channel.pictures == []


@pytest.mark.parametrize(
    ("status", "told"),
    [(429, "was asked too often"), (503, "out of order (503)"), (401, "does not take the key")],
)
async def test_trouble_is_shown_to_nobody_and_told_to_the_log_once(
    status: int, told: str, *, klipy: Klipy, services: ScriptedGifs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    services.status = status
    model = ScriptedModel("[GIF: cat]\n[SEND: a]", "[GIF: dog]\n[GIF: cow]\n[SEND: b]", "x")
    async with talk_with(klipy, model) as here:
        await here.talk("hi", "again", "more")
        assert here.channel.sent[:2] == ["a", "b"]
        assert here.channel.pictures == []
        assert here.replies()[:2] == ["[SEND: a]", "[SEND: b]"]
        assert seen(here.channel, Failed) == seen(here.channel, Performed) == 0
        assert [end.finish for end in here.channel.ended] == ["stop"] * 3
        assert caplog.text.count(told) == 1
        assert KEY not in caplog.text
        assert len(services.words) == (1 if status == 429 else 3)  # who was asked too often is left alone


async def test_no_secret_is_looked_for(services: ScriptedGifs, klipy: Klipy) -> None:
    mask = SecretRedactor()
    mask.learn([KEY])
    engine = Engine(model=ScriptedModel(f"[GIF: cat {KEY}]"), persona=PIXI, addons=[gifs_from(klipy, mask)])
    async with engine:
        await Scene(engine, ScriptedModel(), RecordingChannel()).talk("hi")
    assert services.words == ["cat ***"]


async def test_what_is_not_found_is_shown_to_nobody(
    klipy: Klipy, services: ScriptedGifs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    services.titles = []
    async with talk_with(klipy, ScriptedModel("[GIF: xyzzy]\n[GIF]\n[SEND: a]", "x")) as here:
        await here.talk("hi", "more")
        assert here.replies() == ["[SEND: a]"]
        assert caplog.text.count("there is no picture of 'xyzzy'") == 1
        assert services.words == ["xyzzy"]


async def test_it_is_not_always_the_first_and_the_same_in_the_same_turn(
    klipy: Klipy, services: ScriptedGifs
) -> None:
    async def talk() -> list[str]:
        model = ScriptedModel(*["[GIF: happy cat]"] * 12)
        async with talk_with(klipy, model) as here:
            await here.talk(*map(str, range(12)))
            return links(here)

    once, again = await talk(), await talk()
    assert once == again
    assert len(set(once)) > 2
    assert set(once) <= {f"https://klipy.com/gifs/cat-{number}" for number in range(5)}


async def test_a_file_that_cannot_be_had_leaves_the_link(klipy: Klipy, services: ScriptedGifs) -> None:
    services.picture = b"no picture"
    channel = RecordingChannel(abilities=DRAWS)
    async with talk_with(klipy, ScriptedModel("[GIF: cat]"), channel) as here:
        await here.talk("hi")
        (picture,) = channel.pictures
        assert (picture.file, picture.service) == (None, "KLIPY")


async def test_a_folder_s_pictures_come_as_files_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "cat.gif").write_bytes(moving())
    (tmp_path / "cat 2.gif").write_text("liar")
    source: GifSource = GifFolder(tmp_path)
    model = ScriptedModel(*["[GIF: a cat]"] * 4, "[GIF: cow]\n[SEND: x]")
    async with talk_with(source, model) as here:
        await here.talk("1", "2", "3", "4", "5")
        assert [picture.words for picture in here.channel.pictures] == ["cat"] * 4
        assert {picture.link for picture in here.channel.pictures} == {""}
        files = [picture.file.data for picture in here.channel.pictures if picture.file]
        assert [frames(data) for data in files] == [2] * 4
        assert here.channel.sent == ["x"]
