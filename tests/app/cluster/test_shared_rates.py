"""Rates over all processes: no more is allowed than by one, whoever dies, and whatever a clock shows."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import psycopg
import pytest

from pixi.app.cluster import shared_rates
from pixi.app.cluster.shared_rates import (
    AWAY_SECONDS,
    HOLD_SECONDS,
    TABLE,
    SharedRates,
    connect_unsynced,
    sharing,
)
from pixi.channels.discord import requests
from pixi.channels.discord.gateway.client import Client
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import find_server
from pixi.channels.http.access import Principal, Problem
from pixi.channels.http.visitors import HttpLimits
from pixi.cli.discord import stay_on_discord
from pixi.core.spending import Rate, RateKey
from pixi.settings import load
from pixi.settings.rules import HttpRules
from pixi.store.postgres.address import Address, read_address
from pixi.store.rates import Rates
from pixi.testing.discord import LoopbackDiscord
from tests.held_clock import hold
from tests.servers.postgres import Postgres
from tests.waiting import LIMIT, until

KEY: RateKey = ("draw", "person", "discord", "7")


class Counting:
    """Rates of one process, with a clock that the test moves, and a count of its statements."""

    def __init__(self, database: "Database", now: float = 0.0) -> None:
        self._database = database
        self.now = now
        self.asked = 0
        self.is_away = False
        self.rates = SharedRates(self.session, database.address, lambda: self.now)

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[psycopg.AsyncConnection[Any], None]:
        self.asked += 1
        if self.is_away:
            raise psycopg.OperationalError("the server is away")
        yield self._database.session

    async def use(self, times: int, rate: Rate, key: RateKey = KEY) -> int:
        """Use so often, and return how often that was allowed."""
        return [await self.rates.use({key: rate}) for _ in range(times)].count(0.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No database is taken for away on a slow machine."""
    monkeypatch.setattr(shared_rates, "_ANSWER_SECONDS", LIMIT)


@dataclass
class Database:
    address: Address
    session: psycopg.AsyncConnection[Any]

    async def pass_on(self, seconds: float, *processes: Counting) -> None:
        """Let time pass for the database and for processes."""
        passed = f"UPDATE {TABLE} SET ends = ARRAY(SELECT each - {seconds} FROM unnest(ends) AS each)"
        await self.session.execute(passed.encode())
        for process in processes:
            process.now += seconds
            if (known := process.rates._slices.get(KEY)) is not None:
                known.ends -= seconds


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    with postgres.schema() as schema:
        address = read_address(postgres.url(schema))
        async with await psycopg.AsyncConnection.connect(address.conninfo, autocommit=True) as session:
            await session.execute(
                f"CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}".encode()
            )
            yield Database(address, session)


@pytest.fixture
def two(database: Database) -> tuple[Counting, Counting]:
    return Counting(database, now=5.0), Counting(database, now=1e9)


@pytest.mark.parametrize("rate", [Rate(1, 60), Rate(3, 60), Rate(45, 60), Rate(45, 1_000), Rate(5_000, 60)])
async def test_two_processes_may_do_together_what_one_may(
    two: tuple[Counting, Counting], database: Database, rate: Rate
) -> None:
    first, second = two
    allowed = 0
    while used := await first.use(2, rate) + await second.use(1, rate):
        allowed += used
    assert allowed == rate.times
    await database.pass_on(rate.seconds + HOLD_SECONDS, first, second)
    assert await first.use(1, rate) == 1, "the window has turned"


async def test_a_busy_process_asks_once_for_several_uses_and_gets_all_there_are(database: Database) -> None:
    process, rate = Counting(database), Rate(450, 100.0)
    assert await process.use(600, rate) == 450
    assert process.asked < 60
    assert await process.use(100, rate) == 0
    assert process.asked < 60, "whoever was refused does not ask again at once"


async def test_a_quiet_process_holds_its_slice_for_seconds_and_gives_the_rest_back(
    two: tuple[Counting, Counting], database: Database
) -> None:
    quiet, other = two
    rate = Rate(60, 60.0)
    assert await quiet.use(1, rate) == 1
    await database.pass_on(HOLD_SECONDS - 1, quiet, other)
    assert await quiet.use(1, rate) == 1
    assert quiet.asked == 1
    await database.pass_on(2.0, quiet, other)
    assert await quiet.use(1, rate) == 1
    assert quiet.asked == 2
    assert await other.use(100, rate) == 60 - 2 - 5, "two were used, and a slice is held"


async def test_the_slice_of_a_process_that_died_comes_back_when_the_window_has_turned(
    two: tuple[Counting, Counting], database: Database
) -> None:
    dies, lives = two
    rate = Rate(60, 60.0)
    assert await dies.use(1, rate) == 1
    assert await lives.use(100, rate) == 55
    await database.pass_on(59.0, lives)
    assert await lives.use(100, rate) == 0
    await database.pass_on(1.0 + HOLD_SECONDS, lives)
    assert await lives.use(100, rate) == 60


async def test_uses_count_within_any_stretch_and_not_by_the_minute(
    two: tuple[Counting, Counting], database: Database
) -> None:
    first, second = two
    rate = Rate(3, 60.0)
    assert await first.use(1, rate) == 1
    await database.pass_on(50.0, first, second)
    assert await second.use(3, rate) == 2
    await database.pass_on(10.0, first, second)
    assert await first.use(3, rate) == 1
    wait = await first.rates.use({KEY: rate})
    assert 20 < wait <= 50, "until the second one leaves the window"


async def test_what_another_rate_refuses_is_not_used(two: tuple[Counting, Counting]) -> None:
    here, there = two
    guild: RateKey = ("draw", "guild", "9")
    assert await there.use(1, Rate(1, 60), guild) == 1
    for _ in range(5):
        assert await here.rates.use({KEY: Rate(2, 600), guild: Rate(1, 60)}) > 0
    assert await here.use(3, Rate(2, 600)) == 2


async def test_without_the_database_each_process_goes_by_a_share_and_says_so_once(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pixi.queue")
    process, rate = Counting(database), Rate(40, 600)
    process.is_away = True
    first = await asyncio.gather(*(process.rates.use({KEY: rate}) for _ in range(4)))
    assert first == [0.0] * 4
    assert process.asked == 1, "whoever waited behind the first does not ask either"
    assert await process.use(50, rate) == 6
    process.now += AWAY_SECONDS
    assert await process.use(50, rate) == 0
    assert process.asked == 2, "a database that is away is not asked each time"
    (told,) = caplog.messages
    assert told.startswith("rates cannot be counted over all processes (the server is away)")
    process.is_away = False
    process.now += AWAY_SECONDS
    assert await process.use(50, rate) == 40
    assert caplog.messages[1:] == ["rates are counted over all processes again"]


async def test_a_database_that_stands_still_is_not_waited_for_and_then_asked_by_a_new_connection(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_rates, "AWAY_SECONDS", 0.0)
    rates, rate = Rates(), Rate(1, 1_000.0)
    with postgres.schema() as schema:
        postgres.run_in(schema, "SELECT 1")  # which makes it
        async with sharing(rates, postgres.url(schema)):
            assert rates.shared is not None
            assert await rates.shared({KEY: rate}) == 0.0
            with postgres.frozen(), monkeypatch.context() as patch:
                clock = hold(patch)
                began = clock.time()
                assert await rates.shared({("draw", "guild", "9"): rate}) == 0.0, "by its share"
                assert clock.time() - began <= shared_rates._ANSWER_SECONDS
            assert await rates.shared({KEY: rate}) > 0, "a new connection knows of the first use"


async def test_a_connection_that_cannot_be_set_up_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = AsyncMock()
    made.execute.side_effect = asyncio.CancelledError
    monkeypatch.setattr(psycopg.AsyncConnection, "connect", AsyncMock(return_value=made))
    with pytest.raises(asyncio.CancelledError):
        await connect_unsynced("", "")
    made.close.assert_awaited_once_with()


async def test_a_slice_is_held_no_longer_than_its_window(
    two: tuple[Counting, Counting], database: Database
) -> None:
    dies, lives = two
    rate = Rate(20, 1.0)
    assert await dies.use(1, rate) == 1
    await database.pass_on(2.0, lives)
    assert await lives.use(100, rate) >= 20


async def test_of_many_who_wait_for_the_first_answer_one_hears_that_there_are_no_uses(
    two: tuple[Counting, Counting],
) -> None:
    first, second = two
    rate = Rate(1, 60.0)
    assert await first.use(1, rate) == 1
    waits = await asyncio.gather(*(second.rates.use({KEY: rate}) for _ in range(9)))
    assert all(waits)
    assert second.asked == 1


async def test_keys_that_are_over_are_cleared_away(database: Database) -> None:
    async def kept() -> object:
        return await (await database.session.execute(f"SELECT count(*) FROM {TABLE}".encode())).fetchone()

    first = Counting(database)
    for each in range(5):
        await first.use(1, Rate(1, 60), ("draw", str(each)))
    assert await kept() == (5,)
    await database.pass_on(60.0)
    await Counting(database).use(1, Rate(1, 60))  # the first slice of a process clears
    assert await kept() == (1,)


async def test_people_may_ask_all_servers_together_as_often_as_one(two: tuple[Counting, Counting]) -> None:
    servers = []
    for process in two:
        servers.append(HttpLimits(HttpRules(requests_per_minute=5), lambda: 0.0))
        servers[-1].share(process.rates.use)
    ana = Principal("web:app:ana", "ana")
    for number in range(5):
        await servers[number % 2].request(ana)
    for server in servers:
        with pytest.raises(Problem) as caught:
            await server.request(ana)
        assert caught.value.status == 429
        assert 0 < int(caught.value.headers["Retry-After"]) <= 60
        await server.request(Principal("web:app:bo", "bo"))


async def test_two_processes_of_a_bot_keep_within_what_discord_takes_from_both(
    two: tuple[Counting, Counting], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_WINDOW_SECONDS", 60.0)
    monkeypatch.setattr(requests, "_LOOK_SECONDS", 0.01)
    statuses: Counter[int] = Counter()
    async with LoopbackDiscord() as discord:
        room = discord.guild("Pancake House").channel("kitchen")
        server = await find_server(discord.api_url, discord.token)
        discord.limit_everything(45, 60.0)
        with patched(server):
            clients = []
            for process in two:
                rates = Rates()
                rates.shared = process.rates.use
                pacer = requests.RequestPacer(rates, discord.token, lambda: 50)
                clients.append(Client(None, statuses, pacer.wait))
                await clients[-1].login(discord.token)
            made = sum(statuses.values())
            waiting = [
                asyncio.create_task(client.http.send_typing(room.id))
                for _ in range(45 - made // 2)
                for client in clients
            ]
            await until(lambda: sum(statuses.values()) >= 45)
            discord.limit_everything(45, 60.0)  # its window turns, and then ours
            await database.pass_on(60.0 + HOLD_SECONDS, *two)
            await asyncio.gather(*waiting)
            for client in clients:
                await client.close()
        assert not [call for call in discord.requests if call.status == 429]
    assert set(statuses) == {200, 204}
    assert all(process.asked < 30 for process in two), "most requests are spent from a slice"


async def test_processes_that_run_a_bot_whole_share_its_requests_and_ask_seldom(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Running:
        def __init__(self, _: object, *, rates: Rates, **more: object) -> None:
            self._rates = rates

        async def run(self) -> None:
            first = await self._rates.use(rate)
            await both.wait()
            allowed.append([first, *[await self._rates.use(rate) for _ in range(450)]].count(0.0))

    async def counted(self: SharedRates, *given: Any) -> None:
        asked.append(given)
        await take(self, *given)

    monkeypatch.setattr(shared_rates, "HOLD_SECONDS", 1_000.0)  # no slice ends while this runs
    rate = {KEY: Rate(450, 10_000.0)}
    both = asyncio.Barrier(2)
    allowed: list[int] = []
    asked: list[object] = []
    take = SharedRates._take
    monkeypatch.setattr(SharedRates, "_take", counted)
    monkeypatch.setattr("pixi.channels.discord.bot.Bot", Running)
    with postgres.schema() as schema:
        postgres.run_in(schema, "SELECT 1")  # which makes it
        settings = load(
            environ={"DISCORD_TOKEN": "token"}, folder=tmp_path, overrides={"store.url": postgres.url(schema)}
        )
        services = [Mock(settings=settings) for _ in range(2)]
        for service in services:
            service.engine.tools.rates = Rates()
        await asyncio.gather(*map(stay_on_discord, services))
    assert all(allowed)
    assert sum(allowed) == 450
    assert len(asked) < 120
    assert all(service.engine.tools.rates.shared is None for service in services)
