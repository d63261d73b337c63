"""A port for health checks: whether replies can be begun, and why not; and who may not listen there."""

import asyncio
import logging
import socket
from pathlib import Path

import aiohttp
import pytest

from pixi.core.errors import ConfigError, StoreError
from tests.app.watched import port_of, talk, watched
from tests.waiting import until

PORT = "[monitoring]\nport = 0\n"


async def asked(url: str, path: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(url + path, headers=headers) as answer:
        return answer.status, (await answer.text()).strip()


async def test_it_is_ready_until_it_is_told_to_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pixi.app")
    async with watched(tmp_path, PORT) as service:
        url = port_of(caplog)
        assert await asked(url, "/healthz") == await asked(url, "/readyz") == (200, "ok")
        await talk(service, "hi")
        await service.engine.drain(1.0)
        assert await asked(url, "/healthz") == (200, "ok")
        status, why = await asked(url, "/readyz")
        assert (status, "about to end" in why) == (503, True)


async def test_it_is_not_ready_without_its_store_or_its_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "pixi.app")
    async with watched(tmp_path, PORT) as service:
        url = port_of(caplog)
        (server,) = service.breakers.open
        breaker = service.breakers.of(server)
        breaker._open(5.0)
        assert await asked(url, "/readyz") == (503, "The model's server does not answer.")
        breaker._close()
        assert await asked(url, "/readyz") == (200, "ok")

        async def broken(digest: str) -> None:
            raise StoreError("the disk is gone: /home/mo/pixi.db")

        monkeypatch.setattr(service.store, "key_of", broken)
        assert await asked(url, "/readyz") == (503, "The store does not answer.")


async def test_a_model_that_has_a_stand_in_can_be_away(tmp_path: Path) -> None:
    stand_in = '[[model.fallback]]\nname = "second"\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "x"\n'
    async with watched(tmp_path, stand_in) as service:
        first, second = service.breakers.open
        for place in (first, second):
            assert await service.unready() == ""
            service.breakers.of(place)._open(5.0)
        assert await service.unready() != ""


async def test_other_computers_names_and_other_paths_lead_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pixi.app")
    async with watched(tmp_path, PORT):
        url = port_of(caplog)
        assert (await asked(url, "/metrics", Host="evil.example"))[0] == 421
        assert (await asked(url, "/metrics", Host="evil.example:80"))[0] == 421
        for name in ("localhost", "127.0.0.1:9464", "[::1]:9464"):
            assert (await asked(url, "/healthz", Host=name))[0] == 200
        assert (await asked(url, "/api/personas"))[0] == 404


async def test_a_port_that_is_taken_is_told_with_the_mend(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"\[monitoring\] .*port = {port}: cannot listen there .*choose"
        ):
            async with watched(tmp_path, f"[monitoring]\nport = {port}\n"):
                pass
    with pytest.raises(ConfigError, match="there is no such host"):
        async with watched(tmp_path, '[monitoring]\nport = 0\nhost = "nowhere.invalid"\n'):
            pass


async def test_a_conversation_waits_until_its_turn_begins(tmp_path: Path) -> None:
    async with watched(tmp_path, "[reply]\ngather_seconds = 0.2\n") as service:
        engine = service.engine
        speaking = asyncio.create_task(talk(service, "hi"))
        await until(lambda: engine.talking)
        assert engine.waiting_replies == 1
        await until(lambda: engine.talking and not engine.waiting_replies)
        await speaking
        assert (engine.talking, engine.waiting_replies) == (0, 0)
