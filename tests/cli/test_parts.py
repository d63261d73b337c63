"""`gateway` and `worker`: what must be there before they start, and what they say where it is not."""

import importlib.util
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.app.cluster import gateway
from pixi.app.cluster.gateway import ShardClaim
from pixi.cli.frame import run
from pixi.core.errors import ConfigError
from tests.servers.postgres import Postgres
from tests.waiting import LIMIT

TOKEN = "[discord]\ntoken = 'a.b.c'\n"
SERVER = "[store]\nurl = 'postgresql://nobody@127.0.0.1:1/none'\n"
MODEL = "[model]\nname = 'scripted'\nbase_url = 'http://127.0.0.1:1'\n"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCORD_TOKEN", raising=False)


@pytest.mark.parametrize("command", ["gateway", "worker"])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (MODEL + SERVER, "There is no token for Discord: set DISCORD_TOKEN"),
        (MODEL + TOKEN, "needs a PostgreSQL server"),
        (MODEL + TOKEN + SERVER, "no server answers there; start it"),
    ],
)
def test_what_is_missing_is_said(
    command: str, settings: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pixi.toml").write_text(settings)
    assert run([command]) == 2
    assert told in capsys.readouterr().err


def test_a_worker_needs_a_model_and_a_gateway_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pixi.toml").write_text(TOKEN + SERVER)
    assert run(["worker"]) == 2
    assert "No model is set" in capsys.readouterr().err
    assert run(["gateway"]) == 2
    assert "No model is set" not in capsys.readouterr().err


def test_the_missing_part_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pixi.toml").write_text(TOKEN + SERVER)
    there = importlib.util.find_spec
    monkeypatch.setattr(
        "pixi.cli.gateway.find_spec", lambda name: None if name == "procrastinate" else there(name)
    )
    assert run(["gateway"]) == 2
    assert "pip install 'pixi-persona[cluster]'" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "many", "1001"])
def test_a_worker_answers_one_conversation_at_least(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["worker", "--concurrency", count]) == 2
    assert "is no number from 1 to 1000" in capsys.readouterr().err


def test_a_queue_that_there_is_not_is_named_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("pixi.toml").write_text(f"{TOKEN}queues = ['sage']\n{MODEL}{SERVER}")
    assert run(["worker", "--queues", "main, baker"]) == 2
    assert "--queues: there is no queue 'baker', but main, sage." in capsys.readouterr().err
    assert run(["worker", "--queues", "main, sage"]) == 2
    assert "no server answers there" in capsys.readouterr().err


@asynccontextmanager
async def claimed(url: str, shards: tuple[tuple[int, ...], int] | None) -> AsyncGenerator[None, None]:
    claim = ShardClaim(url, "bot", shards)
    try:
        await claim.take()
        yield
    finally:
        await claim.release()


async def test_a_shard_has_one_gateway(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "_CLAIM_SECONDS", 0.0)
    url = postgres.url("claims")
    async with claimed(url, ((0, 1), 4)), claimed(url, ((2, 3), 4)):
        with pytest.raises(ConfigError, match="Another gateway runs this bot, with shard 1 of 4: end it"):
            async with claimed(url, ((1, 2), 4)):
                pass
        with pytest.raises(ConfigError, match="Another gateway runs this bot, with shards of 4: end it"):
            async with claimed(url, ((4, 5), 8)):
                pass
        with pytest.raises(ConfigError, match="Another gateway runs this bot: end it"):
            async with claimed(url, None):
                pass
    # The server gives locks free a moment after a connection is closed.
    monkeypatch.setattr(gateway, "_CLAIM_SECONDS", LIMIT)
    async with claimed(url, None):
        monkeypatch.setattr(gateway, "_CLAIM_SECONDS", 0.0)
        with pytest.raises(ConfigError, match="Another gateway runs this bot, with all shards"):
            async with claimed(url, ((0,), 4)):
                pass
    monkeypatch.setattr(gateway, "_CLAIM_SECONDS", LIMIT)
    async with claimed(url, ((1, 2), 4)):
        pass
