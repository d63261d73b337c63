"""Models that stand by another, in a service over real sockets: who answers, what is told, what is shared."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from pixi.app.models import open_model
from pixi.app.reload import SettingsReloader
from pixi.app.service import BotService
from pixi.core.errors import ConfigError, ModelError
from pixi.core.events import Failed
from pixi.core.llm import Finished, Request, Text, UserLine
from pixi.models.breaker import Breakers
from pixi.models.fallback import FallbackModel
from pixi.models.model import LazyModel, Traits
from pixi.models.weights import cached, installed
from pixi.settings import ModelSettings
from pixi.testing import RecordingChannel
from tests.app.scene import address, hello, message, reading, service_in, settings_file
from tests.servers.model_faults import closed_port
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, answer, error, finish, stream, usage

REMOVED = error(404, "The model does not exist", code="model_not_found")


class Scene:
    """A service whose model has another behind it."""

    def __init__(self, service: BotService, log: pytest.LogCaptureFixture) -> None:
        self.service = service
        self._log = log
        self._messages = 0
        self.channel = RecordingChannel()

    async def said(self) -> str:
        """What is answered now."""
        self._messages += 1
        before = len(self.channel.sent)
        await self.service.receive(message(self._messages), self.channel)
        await self.service.engine.settled()
        return "".join(self.channel.sent[before:])

    @property
    def failures(self) -> list[str]:
        return [event.text for event in self.channel.events if isinstance(event, Failed)]

    @property
    def told(self) -> list[str]:
        """What the log has of models since it was asked last."""
        told = [record.message for record in self._log.records if record.name == "pixi.models"]
        self._log.clear()
        return told


@asynccontextmanager
async def scene_in(folder: Path, log: pytest.LogCaptureFixture) -> AsyncGenerator[Scene, None]:
    log.set_level("INFO", "pixi")
    before = asyncio.all_tasks()
    async with service_in(folder) as service:
        yield Scene(service, log)
    assert not asyncio.all_tasks() - before


def behind(server: ScriptedOpenAI, name: str = "second", more: str = "") -> str:
    return f'[[model.fallback]]\nname = "{name}"\nbase_url = "{server.base_url}"\n{more}'


def until_told(gone: Callable[[], bool]) -> Callable[[Seen], Reply]:
    """A server whose model is there until it is gone."""
    return lambda seen: REMOVED if gone() else hello(seen)


async def test_a_model_that_is_removed_while_it_talks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = False
    async with ScriptedOpenAI(choose=until_told(lambda: gone)) as one, ScriptedOpenAI(choose=hello) as two:
        settings_file(tmp_path, one, behind(two))
        async with scene_in(tmp_path, caplog) as scene:
            assert await scene.said() == "first"
            gone = True
            assert await scene.said() == "second"
            (line,) = scene.told
            assert line.startswith("second answers instead of first: 127.0.0.1:")
            assert "has no model 'first'" in line
            assert await scene.said() == "second"
            assert scene.told == []
            assert len(one.requests) == 2, "it rests"
        assert scene.failures == []
    asked = two.requests[0].json()["messages"]
    assert any("first" in str(each["content"]) for each in asked), "the talk goes on where it was"


async def test_who_wrote_is_on_record_and_paid_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    answers = stream("[SEND: hi]", finish(), usage(1_000_000, 100_000))
    prices = "prices = {{ prompt = {0}, completion = {1} }}\n"
    async with ScriptedOpenAI(answers, REMOVED) as one, ScriptedOpenAI(answers) as two:
        (tmp_path / "pixi.toml").write_text(
            f'[model]\nname = "first"\nbase_url = "{one.base_url}"\n{prices.format(100, 1000)}'
            f'[store]\nurl = "sqlite:///{tmp_path}/pixi.db"\n{behind(two, more=prices.format(1, 2))}'
        )
        async with scene_in(tmp_path, caplog) as scene:
            await scene.said()
            await scene.said()
            turns = await scene.service.store.turns(address(), 5)
    assert [(turn.model, turn.cost) for turn in turns] == [("first", 200.0), ("second", 1.2)]
    reports = [vars(each)["fields"] for each in caplog.records if each.name == "pixi.turns"]
    assert [(each["model"], each["cost"]) for each in reports] == [("first", 200.0), ("second", 1.2)]


async def test_no_key_goes_to_the_next_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedOpenAI(REMOVED) as one, ScriptedOpenAI(choose=hello) as two:
        settings_file(tmp_path, one, behind(two))
        (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-canary\n")
        async with scene_in(tmp_path, caplog) as scene:
            assert await scene.said() == "second"
    assert one.requests[0].headers["authorization"] == "Bearer sk-canary"
    assert "sk-canary" not in str(two.requests)


async def test_a_list_changes_while_it_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedOpenAI(REMOVED) as one, ScriptedOpenAI(choose=hello) as two:
        settings_file(tmp_path, one, behind(two))
        async with scene_in(tmp_path, caplog) as scene:
            reloading = SettingsReloader(scene.service, reading(tmp_path), tmp_path)
            assert await scene.said() == "second"
            settings_file(tmp_path, one, behind(two, "third"))
            await reloading.reload()
            assert "settings changed: model.fallback" in caplog.messages
            assert await scene.said() == "third"
            settings_file(tmp_path, one, "[[model.fallback]]\nnmae = 1\n")
            await reloading.reload()
            assert "[[model.fallback]] has no key 'nmae'" in caplog.messages[-1]
            assert await scene.said() == "third"
            before = scene.service.model
            settings_file(tmp_path, one, behind(two, "third") + "[limits]\nseconds = 99\n")
            await reloading.reload()
            assert scene.service.model is not before, "it may take another time now"
            settings_file(tmp_path, one)
            await reloading.reload()
            assert not isinstance(scene.service.model, FallbackModel)


async def test_models_at_one_server_share_its_breaker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.models.faults.Retries.backoff", lambda *_: 0.0)
    async with ScriptedOpenAI(choose=hello) as server:
        nobody = f"http://127.0.0.1:{closed_port()}/v1"
        tables = f'[models.{{0}}]\nname = "{{0}}"\nbase_url = "{nobody}"\n'
        settings_file(tmp_path, server, tables.format("a") + tables.format("b"))
        async with scene_in(tmp_path, caplog) as scene:
            pool = scene.service._models
            for name in ("a", "b"):
                await pool.want(name)
            for _ in range(3):
                with pytest.raises(ModelError, match="Nothing answers"):
                    await anext(pool.get("a").stream(Request((UserLine("hi"),))))
            with pytest.raises(ModelError, match="has not answered for"):
                await anext(pool.get("b").stream(Request((UserLine("hi"),))))


# Opening.


async def opened(first: ModelSettings, *others: ModelSettings, seconds: float = 5.0) -> FallbackModel:
    from dataclasses import replace

    model = await open_model(replace(first, fallback=others), seconds, lambda _: None, Breakers())
    assert isinstance(model, FallbackModel)
    return model


async def said(model: FallbackModel) -> str:
    stream = model.stream(Request((UserLine("mo: hi"),)))
    return "".join([delta.text async for delta in stream if isinstance(delta, Text)])


async def test_the_window_fits_the_smallest_at_a_server() -> None:
    def at(context: int | None, name: str = "m") -> ModelSettings:
        return ModelSettings(name, base_url="http://127.0.0.1:1/v1", context_tokens=context)

    sizes = [
        ((at(32_000), at(16_000), at(64_000)), 16_000),
        ((at(32_000), at(None)), Traits().context_tokens),
        ((at(32_000), at(4_000, "local")), 32_000),
    ]
    for listed, tokens in sizes:
        model = await opened(*listed)
        assert model.traits.context_tokens == tokens
        await model.close()


async def test_a_first_model_without_a_name_may_be_away_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nobody = ModelSettings("", base_url=f"http://127.0.0.1:{closed_port()}/v1")
    async with ScriptedOpenAI(choose=hello) as server:
        model = await opened(nobody, ModelSettings("second", base_url=server.base_url))
        assert isinstance(model.first, LazyModel)
        assert model.name.startswith("the model at 127.0.0.1:")
        assert "is asked later: Nothing answers at" in caplog.text
        assert await said(model) == "[SEND: second]"
        await model.close()


async def test_the_only_model_of_a_server_is_asked_for_when_it_is_wanted() -> None:
    listing = answer(200, {"object": "list", "data": [{"id": "only"}]})

    def choose(seen: Seen) -> Reply:
        return listing if seen.path == "/v1/models" else hello(seen)

    async with ScriptedOpenAI(REMOVED) as one, ScriptedOpenAI(choose=choose) as two:
        model = await opened(
            ModelSettings("first", base_url=one.base_url), ModelSettings("", base_url=two.base_url)
        )
        assert two.requests == []
        assert await said(model) == "[SEND: only]"
        await model.close()


async def test_only_the_last_of_a_list_waits_as_long_as_it_is_asked_to() -> None:
    def slow(seconds: str) -> ScriptedOpenAI:
        return ScriptedOpenAI(error(429, "Slow", retry_after=seconds), stream("hi"))

    async with slow("3") as one, slow("3") as two, slow("0.05") as three:
        settings = [ModelSettings("m", base_url=each.base_url) for each in (one, two, three)]
        model = await opened(*settings)
        assert await said(model) == "hi"
        assert [len(each.requests) for each in (one, two, three)] == [1, 1, 2]
        await model.close()


async def test_what_can_be_seen_to_be_wrong_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ModelSettings("first", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="There is no key for the model 'gpt'"):
        await opened(here, ModelSettings("gpt"))
    with pytest.raises(ConfigError, match=r"gone\.gguf"):
        await opened(here, ModelSettings(str(tmp_path / "gone.gguf")))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="need llama"):
        await opened(here, ModelSettings("local"))


@pytest.mark.skipif(
    find_spec("xllamacpp") is None or (installed() or cached()) is None,
    reason="needs the extra `local` and the weights",
)
async def test_the_bundled_model_steps_in_when_it_is_wanted() -> None:
    # Few words: a busy machine is slow to read.
    local = ModelSettings("local", context_tokens=512, max_tokens=8)
    async with ScriptedOpenAI(REMOVED) as server:
        model = await opened(ModelSettings("first", base_url=server.base_url), local, seconds=60)
        assert model.traits == Traits(reads_long=True)
        *words, finished = [delta async for delta in model.stream(Request((UserLine("mo: hi"),)))]
        assert words
        assert isinstance(finished, Finished)
        assert finished.model.startswith("SmolLM2")
        assert finished.usage.completion_tokens > 0
        await model.close()
        with pytest.raises(ModelError, match="is closed"):
            await said(model)
        await model.close()  # the door to the server has opened again for this
