"""What only the whole bot shows: an addon that holds everybody up, a server that comes and goes."""

from pathlib import Path

import pytest

from pixi.testing.discord import ApiCall, DropConnection
from tests.end_to_end.bot import scene
from tests.servers.scripted_openai import Reply, Reset, error

pytestmark = pytest.mark.nightly

SLOW = '''\
import time


def setup(addon):
    @addon.command
    async def wave(context):
        """wave"""
        time.sleep(0.5)
'''


async def test_an_addon_that_blocks_is_named_to_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.app.health.STILL_SECONDS", 0.1)
    monkeypatch.setattr("pixi.app.health._PAUSE", 0.02)
    addon = tmp_path / "slow.py"
    addon.write_text(SLOW)
    async with scene(tmp_path, "[WAVE]\n[SEND: done]") as here, here.bot(addons=[str(addon)]):
        await here.ask()
        await here.said("done")
        lines = [record.getMessage() for record in caplog.records if record.name == "pixi.app"]
        assert any(f"`wave` ({addon}:8) holds everybody up" in line for line in lines), lines

        await here.ask("again")
        await here.said("done", "done")


async def test_a_model_server_that_is_down_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    down = Reply((Reset(),))
    async with scene(tmp_path, down, down, down, "[SEND: hello]") as here, here.bot() as service:
        await here.ask()
        await here.said("oops, my head")
        await here.answered(service, 3)
        told = [line for line in caplog.messages if "broke the connection off" in line]
        assert len(told) == 1

        await here.ask("again")
        await here.said("oops, my head", "hello")


async def test_a_discord_that_drops_every_second_request(tmp_path: Path) -> None:
    numbers = iter(range(1_000))

    def drops(_: ApiCall) -> None:
        if next(numbers) % 2 == 0:
            raise DropConnection

    async with scene(tmp_path, "[SEND: one]\n[SEND: two]\n[SEND: three]") as here, here.bot() as service:
        here.discord.before("POST", "/messages$", drops)
        await here.ask()
        await here.said("one", "two", "three")
        await here.answered(service, 1)


async def test_both_at_once(tmp_path: Path) -> None:
    """The model is gone and Discord refuses: nothing can be said to anybody, and the bot lives on."""
    dead = error(401, "Incorrect API key")
    async with scene(tmp_path, dead, "[SEND: hello]") as here, here.bot() as service:
        refused = here.discord.fail("POST", "/messages$", 403, 50013)
        await here.ask()
        await here.answered(service, 1)
        await here.discord.idle()
        assert here.posts() == []
        assert len(refused.hits) == 1

        refused.remove()
        await here.ask("again")
        await here.said("hello")
