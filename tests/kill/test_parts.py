"""Real workers: one that stood still goes on in no old reply, and a message that they die of is given up."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.testing.discord import ApiCall
from tests.kill.ground import Ground, open_ground
from tests.kill.parts import Parts
from tests.kill.questions import PARTS, parts_of, wanted
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, Seen, Until, finish, stream
from tests.waiting import LIMIT, until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the program is forked, which this system cannot do"),
    pytest.mark.skipif(sys.platform == "darwin", reason="forks do not get along with Apple's frameworks"),
]

RECORD = ("turns", "messages", "lines", "commands", "effects", "leases")


@asynccontextmanager
async def rooms(folder: Path, postgres: Postgres) -> AsyncGenerator[tuple[Ground, str], None]:
    """Rooms with a store on a server, and its schema."""
    with postgres.schema() as schema:
        async with open_ground(folder, 1, postgres.url(schema)) as ground:
            yield ground, schema


async def test_a_worker_that_stood_still_records_nothing_and_begins_no_post(
    tmp_path: Path, postgres: Postgres
) -> None:
    """However long it stood: it was taken for dead, and another one went on."""

    def answer(seen: Seen) -> Reply:
        if requests:
            return reply(seen)
        requests.append(seen)
        return stream("[SEND: q0 one]\n", Until(go_on), "[SEND: q0 two]\n[REACT: 👍]\n", finish())

    async with rooms(tmp_path, postgres) as (ground, schema):
        reply, go_on, requests = ground.answer, asyncio.Event(), list[Seen]()
        ground.answer = answer  # type: ignore[method-assign]
        lives = [await ground.start("gateway"), await ground.launch("worker")]
        _, slow = lives
        try:
            await ground.ask(ground.rooms[0], 0, "plain")
            await ground.discord.wait_for(lambda: ground.said_about("q0"), timeout=LIMIT)
            slow.pause()
            lives.append(await ground.launch("worker"))
            await ground.settled("a worker that stands still")
            assert parts_of("q0", ground.posts(ground.rooms[0])) == [*PARTS]

            def record() -> list[object]:
                return [postgres.run_in(schema, f"SELECT * FROM {each} ORDER BY 1, 2") for each in RECORD]

            before, begun = record(), list[ApiCall]()
            ground.discord.before("POST", r"/messages$", begun.append)
            ground.discord.before("PUT", "/reactions/", begun.append)
            go_on.set()
            slow.go_on()
            log = tmp_path / "log.txt"
            await until(lambda: "another process took this one for dead" in log.read_text(encoding="utf-8"))
            assert (record(), begun) == (before, [])
            lives[-1].ask_to_end()
            await lives.pop().ended()
            await ground.ask(ground.rooms[0], 1, "plain")
            await ground.settled("its next question")
            await ground.end(*lives)
            assert ground.report.clean, ground.report
        finally:
            for life in lives:
                life.kill()


async def test_a_message_that_workers_die_of_is_begun_again_ever_later_and_all_others_are_answered(
    tmp_path: Path, postgres: Postgres
) -> None:
    def asked(seen: Seen) -> None:
        if len(deaths) < 3 and any(each.name == "q1" for each in wanted(seen.json()["messages"])):
            deaths.append(seen)
            for life in parts._lives["worker",]:
                life.kill()

    async with rooms(tmp_path, postgres) as (ground, _):
        deaths: list[Seen] = []
        parts = await Parts.begin(ground, workers=1)
        try:
            await ground.ask(ground.rooms[1], 0, "slow")
            await ground.discord.wait_for(lambda: ground.said_about("q0"), timeout=LIMIT)
            ground.when_asked = asked
            await ground.ask(ground.rooms[0], 0, "plain")
            await ground.settled("a message that workers die of")
            await parts.end()
        finally:
            for life in (each for same in parts._lives.values() for each in same):
                life.kill()
        assert len(deaths) == 3
        assert ground.report.clean, ground.report
        log = (tmp_path / "log.txt").read_text(encoding="utf-8")
        assert "(3 times on end; it is begun again in 4 s)" in log
