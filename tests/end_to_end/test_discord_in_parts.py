"""A gateway and workers on one PostgreSQL server, in one process, against the loopback Discord."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest

from pixi.app.cluster import worker as worker_module
from pixi.app.cluster.gateway import GatewayService, Recorder, open_gateway
from pixi.app.cluster.queue import open_queue
from pixi.app.cluster.worker import Worker, open_worker
from pixi.app.service import open_service
from pixi.channels.discord.bot import Bot
from pixi.channels.discord.gateway import client
from pixi.store.kept import ChannelConfig
from pixi.testing.discord import Permission
from tests.end_to_end.bot import EDDA, PERSONA, Scene, scene
from tests.end_to_end.test_discord_tools import BAKER, EMAIL, TOOLS, calls, question
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Hang, Until
from tests.waiting import until

WREN = EDDA.replace("Edda", "Wren").replace("edda", "wren")


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.schema() as schema:
        yield postgres.url(schema)


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None, None]:
    """Do it until the block is left, as until a signal."""
    running = asyncio.create_task(work)
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def gateway(here: Scene, url: str) -> AsyncGenerator[GatewayService, None]:
    settings = here.settings(store__url=url)
    async with open_gateway(settings, here.told.append) as opened:
        bot = Bot(opened, token=here.discord.token, api_url=here.discord.api_url, tell=here.told.append)
        with mock.patch.multiple(client, _LAST_GUILD=0.02, _BETWEEN_SESSIONS=0.0):
            async with opened.heeding(bot), beside(bot.run()):
                await here.discord.ready(1)
                yield opened


@asynccontextmanager
async def worker(here: Scene, url: str, **overrides: object) -> AsyncGenerator[Worker, None]:
    settings = here.settings(store__url=url, **overrides)
    async with (
        open_service(settings, report=here.told.append) as service,
        open_queue(url) as queue,
        open_worker(service, queue, token=here.discord.token, tell=here.told.append) as it,
        beside(it.run(concurrency=8)),
    ):
        yield it


async def registered(here: Scene) -> None:
    await here.discord.wait_for(lambda: len(here.discord.commands) == 11)


async def test_a_gateway_hears_and_a_worker_answers(tmp_path: Path, url: str) -> None:
    async with scene(tmp_path, "[SEND: one][REACT: 👍]", "[SEND: @Mo two]") as here:
        async with gateway(here, url) as hearing, worker(here, url):
            assert await hearing.unready() == ""
            await here.ask()
            await here.said("one")
            await here.ask("and?")
            await here.said("one", f"{here.mo.mention} two")
        assert len(here.asked) == 2
        assert here.told[0].startswith("Connected as")


async def test_a_worker_speaks_in_threads_and_direct_messages(tmp_path: Path, url: str) -> None:
    async with scene(tmp_path, "[SEND: here]") as here, gateway(here, url), worker(here, url):
        starter = await here.room.say(here.mo, "pans")
        thread = here.guild.thread(here.room, "Pans", starter=starter)
        await here.ask(room=thread)
        await here.said("here", room=thread)
        letters = here.discord.dm(here.mo)
        await letters.say(here.mo, "hi")
        await here.said("here", room=letters)


async def test_slash_commands_reach_the_worker(tmp_path: Path, url: str) -> None:
    gate = asyncio.Event()
    personas = {"pixi": PERSONA, "edda": EDDA}
    async with scene(
        tmp_path, ["[SEND: one]\n", Until(gate), Hang()], "[SEND: two]", "[SEND: three]", personas=personas
    ) as here:
        boss = here.discord.person("Boss", permissions=Permission.MANAGE_GUILD | Permission.MANAGE_MESSAGES)
        async with gateway(here, url), worker(here, url):
            await registered(here)
            await here.ask()
            await here.said("one")
            begun = await here.discord.slash(here.mo, here.room, "stop")
            assert await begun.answered() == "Stopped."
            begun = await here.discord.slash(here.mo, here.room, "stop")
            assert await begun.answered() == "Nothing is being written here."
            begun = await here.discord.slash(boss, here.room, "persona", {"name": "edda"})
            told = await begun.answered()
            await here.ask("who is there?")
            await here.said("one", told, "two")
            assert "You are Edda" in here.whole()
            begun = await here.discord.slash(boss, here.room, "reset")
            forgotten = await begun.answered()
            gate.set()
            await here.ask("again?")
            await here.said("one", told, "two", forgotten, "three")
            assert "who is there?" not in here.whole()


async def test_who_is_forgotten_in_another_process_is_forgotten_by_a_gateway(
    tmp_path: Path, url: str
) -> None:
    async with scene(tmp_path, "[SEND: a]", "[SEND: b]", "[SEND: c]") as here:
        bo, kitchen = here.discord.person("Bo"), here.guild.channel("kitchen")
        async with gateway(here, url) as hearing, worker(here, url), open_queue(url) as queue:
            await here.ask(by=bo)
            await here.said("a")
            await here.room.say(here.mo, "I like strawberries")  # is kept to tell of it with the next message
            await here.ask(by=bo, room=kitchen)
            await here.said("b", room=kitchen)
            hearing_of_it = asyncio.Event()

            async def heard(signal: str, text: str) -> None:
                hearing_of_it.set()

            async with queue.hearing(heard):
                await Recorder(hearing.store, queue).forget(str(here.mo.id))
                await hearing_of_it.wait()
            await here.ask(by=bo)
            await here.said("a", "c")
        assert "strawberries" not in here.whole()


async def test_a_persona_that_a_worker_lacks_is_left_to_another(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_OTHERS", 10_000)
    monkeypatch.setattr(worker_module, "_OTHERS_SECONDS", 0.1)
    async with scene(tmp_path, "[SEND: ahoy]", personas={"pixi": PERSONA, "wren": WREN}) as here:
        file, aside = tmp_path / "personas" / "wren.md", tmp_path / "wren.md"
        async with gateway(here, url) as hearing:
            await hearing.set_place(here.address(persona=""), ChannelConfig(personas=("wren",)))
            file.rename(aside)
            async with worker(here, url):
                aside.rename(file)
                await here.ask()
                await until(lambda: "persona 'wren' cannot answer on this worker" in caplog.text)
                async with worker(here, url):
                    await here.said("ahoy")
        assert "You are Wren" in here.whole()


async def test_a_person_agrees_by_a_click_that_the_gateway_hears(tmp_path: Path, url: str) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    scripts = (calls("send_email", **EMAIL), "[SEND: sent]")
    async with (
        scene(tmp_path, *scripts, personas={"pixi": BAKER}) as here,
        gateway(here, url),
        worker(here, url, addons=[str(tmp_path / "tools.py")]),
    ):
        await here.ask()
        asked = await question(here)
        yes, no = asked.buttons.values()
        other = here.discord.person("Bo")
        begun = await here.discord.press(other, asked, yes)
        await begun.responded()
        begun = await here.discord.press(here.mo, asked, yes)
        await begun.responded()
        await here.discord.wait_for(lambda: "sent" in here.posts())
        assert (tmp_path / "outbox").read_text().count("pancakes") == 1
        await until(lambda: not asked.buttons)
        begun = await here.discord.press(here.mo, asked, no)
        await begun.responded()
