"""The Discord bot with its store on a PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.bot import scene
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.nightly


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.schema() as schema:
        yield postgres.url(schema)


async def test_talks_are_kept_there(tmp_path: Path, url: str) -> None:
    async with scene(tmp_path, "[SEND: one]", "[SEND: two]") as here:
        for texts in (["one"], ["one", "two"]):
            async with here.bot(store__url=url):
                await here.ask()
                await here.said(*texts)
        assert "[SEND: one]" in here.whole()
    assert not list(tmp_path.glob("*.db")), "nothing is kept in a file"


async def test_a_server_that_is_started_again_while_people_talk(
    tmp_path: Path, postgres: Postgres, url: str
) -> None:
    async with scene(tmp_path, "[SEND: one]\n[SEND: two]", "[SEND: three]") as here:
        async with here.bot(store__url=url) as service:
            await here.ask()
            await here.said("one", "two")
            postgres.stop()
            await here.ask("are you there?")
            postgres.start()
            await here.said("one", "two", "three")
            await here.answered(service, 2)
        assert not any("store" in told for told in here.told), "nobody noticed"
