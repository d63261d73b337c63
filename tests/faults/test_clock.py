"""A wall clock that jumps, both ways: nobody waits for it, and nothing is lost by it."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from pixi.core.spending import Rate, UsageScope
from pixi.testing import RecordingChannel
from pixi.testing.discord import users as ids_of_discord
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.end_to_end.bot import scene as on_discord
from tests.faults.promise import in_turn, trouble
from tests.faults.test_store import PATIENT
from tests.servers.scripted_openai import Until, call, finish, stream
from tests.waiting import until

pytestmark = pytest.mark.nightly

HOUR, DAY = 3_600.0, 86_400.0
JUMPS = [
    pytest.param(-HOUR, id="an hour back"),
    pytest.param(HOUR, id="an hour on"),
    *(-DAY, DAY, 40 * 365 * DAY),
]


class WallClock:
    """The clock of the computer, which somebody sets."""

    def __init__(self) -> None:
        self.off = 0.0
        self.real = time.time

    def time(self) -> float:
        """Seconds since the epoch, as far as this computer knows."""
        return self.real() + self.off

    def now(self) -> datetime:
        """The time that messages are stamped with."""
        return datetime.fromtimestamp(self.time(), UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    """The wall clock of everything here but Discord, which has its own."""
    clock = WallClock()
    monkeypatch.setattr(ids_of_discord, "time", SimpleNamespace(time=clock.real))
    monkeypatch.setattr(time, "time", clock.time)
    return clock


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_jump_in_the_middle_of_a_reply(tmp_path: Path, clock: WallClock, jump: float) -> None:
    gate = asyncio.Event()
    reply = stream("[SEND: one]\n", Until(gate), "[SEND: two]", finish())
    channel = RecordingChannel(paced=True)
    async with trouble(
        tmp_path, in_turn(reply), deadlines=PATIENT, channel=channel, clock=clock.now
    ) as scene:
        asking = asyncio.create_task(scene.ask("hello"))
        await until(lambda: channel.sent == ["one"])
        clock.off = jump
        gate.set()
        await asking  # within the limit of all tests: it keeps its pace by another clock
        assert channel.sent == ["one", "two"]
        assert scene.notices == []
        clock.off = 0.0
        await scene.lives_on("one", "two")


@pytest.mark.parametrize("jump", JUMPS)
async def test_how_often_a_tool_was_used_is_counted_by_another_clock(
    tmp_path: Path, clock: WallClock, jump: float
) -> None:
    used: list[float] = []

    def setup(addon: Addon) -> None:
        @addon.tool(writes=True, per_person=Rate(1, HOUR))
        async def order(context: Context) -> str:
            """Order."""
            used.append(time.time())
            return "ordered"

    calls = stream(call("order", "{}", index=0), finish("tool_calls"))
    done = stream("[SEND: done]", finish())
    async with trouble(
        tmp_path, in_turn(calls, done, calls, done), addons=[setup], tools=("order",)
    ) as scene:
        await scene.ask("order!")
        clock.off = jump
        await scene.ask("again!")
        assert scene.channel.sent == ["done", "done"]
        assert len(used) == 1
        assert "used too often" in str(scene.server.requests[-1].json())
        (deed,) = await scene.store.audit(10)
        assert deed.outcome == "done"
        assert deed.seconds is not None
        assert 0 <= deed.seconds < 5
        await scene.lives_on("done")


@pytest.mark.parametrize(
    ("jump", "answered"),
    [
        (-HOUR, True),
        (0.0, True),
        (600.0, True),
        (2 * HOUR, False),
    ],
)
async def test_what_came_while_it_was_away_is_as_old_as_the_clock_says(
    tmp_path: Path, clock: WallClock, jump: float, answered: bool
) -> None:
    """A clock that is wrong by hours makes old of new, and no more: later messages are answered."""
    async with on_discord(tmp_path, "[SEND: hello]") as here:
        async with here.bot():
            await here.ask("first")
            await here.said("hello")
        await here.ask("missed")
        clock.off = jump
        async with here.bot() as service:
            if answered:
                await here.said("hello", "hello")
            await here.ask("later")
            await until(lambda: "later" in here.whole())
            await service.engine.settled()
            await here.discord.idle()
            assert here.posts() == ["hello"] * (3 if answered else 2)
            assert "missed" in here.whole()


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
async def test_a_bot_whose_clock_jumps_talks_on(tmp_path: Path, clock: WallClock, jump: float) -> None:
    async with on_discord(tmp_path, "[SEND: hello]") as here, here.bot() as service:
        await here.ask("before")
        await here.said("hello")
        clock.off = jump
        await here.ask("after")
        await here.said("hello", "hello")
        status = await service.status(UsageScope())
        assert 0 <= status.up_seconds < 60
        clock.off = 0.0
        await here.ask("and then")
        await here.said("hello", "hello", "hello")
