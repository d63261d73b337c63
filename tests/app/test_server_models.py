"""Which API a model is asked by: by what its settings say, and by what its host can."""

import asyncio
import gc
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pixi.app.models import api_of, open_model, searches, server_model_of
from pixi.app.reload import SettingsReloader
from pixi.core.errors import ConfigError
from pixi.models.breaker import Breakers
from pixi.models.deadlines import Deadlines
from pixi.settings import ModelSettings
from pixi.settings.secret import Secret
from pixi.settings.sections import ApiForm
from pixi.testing import RecordingChannel
from tests.app.scene import message, reading, service_in, settings_file
from tests.servers import scripted_anthropic as claude
from tests.servers import scripted_gemini as google
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, answer, finish, stream
from tests.servers.scripted_responses import responses
from tests.waiting import within

HOSTS = {
    "https://api.openai.com/v1": "responses",
    "https://api.x.ai/v1": "responses",
    "https://openrouter.ai/api/v1": "responses",
    "https://api.anthropic.com/v1": "anthropic",
    "https://generativelanguage.googleapis.com/v1beta/openai": "gemini",
    "https://api.deepseek.example/v1": "chat",
    "http://127.0.0.1:8080/v1": "chat",
    "https://api.openai.com.evil.example/v1": "chat",
}
APIS: tuple[ApiForm, ...] = ("chat", "responses", "anthropic", "gemini")


def model_at(base_url: str, api: ApiForm = "auto") -> ModelSettings:
    return replace(ModelSettings(), name="m", base_url=base_url, api_key=Secret("k"), api=api)


@pytest.mark.parametrize(("base_url", "api"), HOSTS.items())
async def test_a_host_that_searches_is_spoken_with_so_where_that_is_wanted(base_url: str, api: str) -> None:
    chosen = model_at(base_url)
    assert api_of(chosen, native=False) == "chat"
    assert not searches(chosen, native=False)
    assert api_of(chosen, native=True) == api
    assert searches(chosen) == (api != "chat")
    model = server_model_of(chosen, "m", native=True, deadlines=Deadlines())
    assert f"'{api}'" in repr(model)
    assert model.traits.searches == (api != "chat")
    await model.close()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("native", [False, True])
async def test_what_the_settings_say_holds_at_any_host(api: ApiForm, native: bool) -> None:
    chosen = model_at("https://models.example/v1", api)
    model = server_model_of(chosen, "m", native=native, deadlines=Deadlines())
    assert f"'{api}'" in repr(model)
    assert model.traits.searches == (native and api != "chat")
    await model.close()


@pytest.mark.parametrize("api", ["anthropic", "gemini"])
async def test_openais_address_is_nobody_elses(api: ApiForm) -> None:
    model = server_model_of(model_at(ModelSettings().base_url, api), "m", native=False, deadlines=Deadlines())
    assert "api.openai.com" not in repr(model)
    await model.close()


def test_a_model_that_runs_here_searches_nothing() -> None:
    assert not searches(ModelSettings())


def test_openai_wants_a_key() -> None:
    chosen = replace(model_at("https://api.openai.com/v1", "responses"), api_key=None)
    with pytest.raises(ConfigError, match=r"no key for the model 'm' at api\.openai\.com"):
        server_model_of(chosen, "m", native=False, deadlines=Deadlines())


def either(seen: Seen) -> Reply:
    """A server that speaks both ways, and lists its one model."""
    if seen.method == "GET":
        return answer(200, {"data": [{"id": "listed"}]})
    return responses("[SEND: hi]") if seen.path.endswith("/responses") else stream("[SEND: hi]", finish())


_CHATS = """
import sys
from pixi.cli import main
sys.argv = ["pixi-persona", "chat", "--json"]
code = main()
foreign = {"ddgs", "httpx2", "mcp", "openai", "pixi.store.copying", "trafilatura"}
print(sorted(foreign & sys.modules.keys()))
sys.exit(code)
"""


@pytest.mark.nightly
async def test_a_chat_at_a_chat_server_imports_nothing_of_the_others(tmp_path: Path) -> None:
    """Nor what searches and reads the web, asks other servers, copies stores, as long as nobody wants it."""
    async with ScriptedOpenAI(stream("[SEND: hi]", finish())) as server:
        model = f'[model]\nname = "m"\nbase_url = "{server.base_url}"\n'
        (tmp_path / "pixi.toml").write_text(f'{model}[web_search]\nengine = "native"\n')
        environ = os.environ | {"PIXI_STORE__URL": ":memory:", "XDG_CACHE_HOME": str(tmp_path)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _CHATS), cwd=tmp_path, env=environ, stdin=-1, stdout=-1, stderr=-1
        )
        told, faults = await process.communicate(b"hi\n")
    *events, imported = told.decode().splitlines()
    assert '"text": "hi"' in events[1], faults.decode()
    assert imported == "[]"


async def test_the_search_is_switched_on_and_off_while_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[list[str]] = []
    async with ScriptedOpenAI(choose=either) as server:

        def settings(engine: str) -> None:
            settings_file(tmp_path, server, f'[web_search]\nengine = "{engine}"\n')
            path = tmp_path / "pixi.toml"
            path.write_text(path.read_text().replace("[model]\n", '[model]\napi = "responses"\n'))

        settings("off")
        async with service_in(tmp_path) as service:
            reloading = SettingsReloader(service, reading(tmp_path), tmp_path)
            for number, engine in enumerate(("native", "duckduckgo", "native"), start=1):
                settings(engine)
                await reloading.reload()
                await service.receive(message(number), RecordingChannel())
                await service.engine.settled()
                tools = server.requests[-1].json().get("tools", [])
                asked.append([tool.get("name", tool["type"] + "!") for tool in tools])
        assert {seen.path for seen in server.requests} == {"/v1/responses"}
    assert [[name for name in names if "web" in name] for names in asked] == [
        ["web_search!"],
        ["web_search"],
        ["web_search!"],
    ]
    assert not [line for line in caplog.messages if "cannot search" in line]


async def test_a_model_without_a_name_is_found_whatever_it_is_spoken_with(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=either) as server:
        (tmp_path / "pixi.toml").write_text(
            f'[model]\napi = "responses"\nbase_url = "{server.base_url}"\n'
            f'[store]\nurl = "sqlite:///{tmp_path}/pixi.db"\n[web_search]\nengine = "native"\n'
        )
        async with service_in(tmp_path) as service:
            channel = RecordingChannel()
            await service.receive(message(1), channel)
            await service.engine.settled()
        assert server.requests[-1].json()["model"] == "listed"
    assert channel.sent == ["hi"]


@pytest.mark.parametrize(
    ("api", "listing"), [("anthropic", claude.models("a")), ("gemini", google.models("a"))]
)
async def test_who_only_asked_for_names_is_closed(api: ApiForm, listing: Reply) -> None:
    async with ScriptedOpenAI(listing) as server:
        chosen = replace(model_at(server.base_url, api), name="")
        model = await open_model(chosen, 30.0, print, Breakers())
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()
        gc.collect()  # what was left open would warn of it now
        assert model.name == "a"
        await model.close()
