"""The Discord bot with its store on a PostgreSQL server."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.bot import scene
from tests.end_to_end.program import SECONDS, piped
from tests.servers.loopback_discord import LoopbackDiscord
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.schema() as schema:
        yield postgres.url(schema)


def counting(seen: Seen) -> Reply:
    """Says how many replies it was told that it gave."""
    said = [line for line in seen.json()["messages"] if line["role"] == "assistant"]
    return stream(f"[SEND: reply {len(said)}]", finish(), usage(100, 20))


async def test_the_program_keeps_its_talks_there(tmp_path: Path, url: str) -> None:
    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=counting) as model:
        room, mo = discord.guild("House").channel("general"), discord.person("Mo")
        (tmp_path / "pixi.toml").write_text(
            f'[model]\nname = "small"\nbase_url = "{model.base_url}"\n[reply]\npace = "off"\n'
            f'[discord]\napi_url = "{discord.api_url}"\n'
        )
        environ = {"DISCORD_TOKEN": discord.token, "PIXI_STORE__URL": url}
        said: list[str] = []
        for number in range(2):
            async with piped(tmp_path, "discord", environ=environ) as program:
                await discord.ready(timeout=SECONDS)
                for reply in (2 * number, 2 * number + 1):
                    await room.say(mo, f"{discord.bot.mention} hi")
                    said.append(f"reply {reply}")
                    await discord.wait_for(lambda: room.texts == said, SECONDS)
                program.process.send_signal(signal.SIGTERM)
                ended = await program.end()
                assert ended.code == 128 + signal.SIGTERM
                assert "Traceback" not in ended.err
                assert "secret" not in ended.err
    assert not list(tmp_path.glob("*.db")), "nothing is kept in a file"


async def test_a_server_that_is_started_again_while_people_talk(
    tmp_path: Path, postgres: Postgres, url: str
) -> None:
    async with scene(tmp_path, "[SEND: one]\n[SEND: two]", "[SEND: three]") as here:
        async with here.bot(store__url=url) as house:
            await here.ask()
            await here.said("one", "two")
            postgres.stop()
            await here.ask("are you there?")
            postgres.start()
            await here.said("one", "two", "three")
            await here.answered(house, 2)
        assert not any("store" in told for told in here.told), "nobody noticed"
