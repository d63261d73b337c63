"""Settings and personas are read again while a bot runs; a wrong file changes nothing but for one line."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pixi.app.reload import SettingsReloader, reloading
from pixi.app.service import BotService
from pixi.core.llm import Request, UserLine
from pixi.documents import watching
from pixi.store.kept import ChannelConfig
from pixi.testing import RecordingChannel
from tests.app.scene import BOT, CHANNEL, hello, message, persona_file, reading, service_in, settings_file
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Tell, Until, answer
from tests.waiting import until

HERE = f"discord:{BOT}:{CHANNEL}:"


class Scene:
    """A service whose files a test changes."""

    def __init__(
        self, folder: Path, server: ScriptedOpenAI, service: BotService, log: pytest.LogCaptureFixture
    ) -> None:
        self.folder = folder
        self.server = server
        self.service = service
        self._log = log
        self._reloading = SettingsReloader(service, reading(folder), folder)
        self._messages = 0

    def settings(self, more: str = "", *, name: str = "first") -> None:
        settings_file(self.folder, self.server, more, name=name)

    async def look(self) -> list[str]:
        """Let it look at its files; gives what it told."""
        self._log.clear()
        await self._reloading.reload()
        return [
            f"{record.levelname}: {record.message}".replace(f"{self.folder}/", "")
            for record in self._log.records
            if record.name == "pixi.settings"
        ]

    async def said(self, persona: str = "pixi") -> str:
        """What is answered now."""
        self._messages += 1
        channel = RecordingChannel()
        await self.service.receive(message(self._messages, persona=persona), channel)
        await self.service.engine.settled()
        return channel.sent[0]

    @property
    def prompt(self) -> str:
        """What stood first in the last request."""
        return str(self.server.requests[-1].json()["messages"][0]["content"])


@pytest.fixture
async def scene(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncGenerator[Scene, None]:
    caplog.set_level("INFO", "pixi")
    persona_file(tmp_path, "wren")
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            yield Scene(tmp_path, server, service, caplog)


async def test_rules_limits_and_replies_hold_at_once_and_at_the_start(scene: Scene, tmp_path: Path) -> None:
    more = '[discord]\nbots = true\n[limits]\nmessages = 1\n[reply]\nprose = "drop"\n'
    scene.settings(f"{more}gather_messages = 3\nwaiting_messages = 20\n")
    (told,) = await scene.look()
    assert told == (
        "INFO: settings changed: reply.prose, reply.gather_messages, reply.waiting_messages, "
        "discord.bots, limits.messages"
    )
    async with service_in(tmp_path) as begun:
        for service in (scene.service, begun):
            assert service.rules.bots is True
            now = service.engine.settings
            assert (now.limits.messages, now.prose) == (1, "drop")
            assert (now.gather_messages, now.waiting_messages) == (3, 20)


WRONG = (
    ("[discord]\nbots = 3\n", "pixi.toml, line 7: discord.bots is 3; it must be true or false."),
    ("[limits\n", "pixi.toml is not valid TOML"),
    ('[persona]\ndefault = "wrne"\n', "there is no persona `wrne`"),
    ('[persona]\nfolder = "gone"\n', "gone: there is no such folder of personas"),
)


async def test_a_wrong_settings_file_or_none_keeps_the_old_ones(scene: Scene) -> None:
    assert await scene.look() == []
    before = scene.service.settings
    for wrong, told in WRONG:
        scene.settings(wrong, name="other")
        (line,) = await scene.look()
        assert line.startswith("WARNING: ")
        assert told in line
        assert line.endswith("Until then everything stays as it was.")
    (scene.folder / "pixi.toml").unlink()
    assert await scene.look() == [
        "WARNING: pixi.toml is gone; put it back. Until then everything stays as it was."
    ]
    assert scene.service.settings is before
    assert await scene.said() == "first"
    # And mended, it holds.
    scene.settings("[discord]\nbots = true\n")
    assert await scene.look() == ["INFO: settings changed: discord.bots"]
    (scene.folder / "pixi.toml").touch()
    assert await scene.look() == []


async def test_another_model_or_time_holds_for_the_next_reply(scene: Scene) -> None:
    assert await scene.said() == "first"
    slow = scene.service.role(f"{HERE}pixi").model
    scene.settings(name="newer")
    assert await scene.look() == ["INFO: settings changed: model.name"]
    assert await scene.said() == "newer"
    assert [delta async for delta in slow.stream(Request((UserLine("hi"),)))], "open for who has it"
    before = scene.service.role(f"{HERE}pixi").model
    scene.settings("[limits]\nseconds = 300\n", name="newer")
    assert await scene.look() == ["INFO: settings changed: limits.seconds"]
    assert scene.service.role(f"{HERE}pixi").model is not before
    assert await scene.said() == "newer"


async def test_a_model_that_cannot_be_opened_changes_nothing(scene: Scene) -> None:
    (scene.folder / "pixi.toml").write_text('[model]\nname = "gpt"\n[discord]\nbots = true\n')
    (line,) = await scene.look()
    assert "There is no key for the model 'gpt'" in line
    assert scene.service.rules.bots is False
    assert await scene.said() == "first"


async def test_further_models_come_change_and_go(scene: Scene) -> None:
    await scene.service.set_place(HERE, ChannelConfig(model="fast"))
    assert await scene.said() == "first"
    scene.settings('[models.fast]\nname = "quick"\n')
    assert await scene.look() == ["INFO: settings changed: models.fast"]
    assert scene.service.models == ("default", "fast")
    assert await scene.said() == "quick"
    scene.settings('[models.fast]\nname = "quicker"\n')
    assert await scene.look() == ["INFO: settings changed: models.fast.name"]
    assert await scene.said() == "quicker"
    scene.settings()
    assert await scene.look() == ["INFO: settings changed: models.fast"]
    assert await scene.said() == "first"


async def test_while_another_model_is_opened_the_one_before_answers(scene: Scene) -> None:
    listing, may_list = asyncio.Event(), asyncio.Event()
    one = answer(200, {"object": "list", "data": [{"id": "listed"}]})
    async with ScriptedOpenAI(Reply((Tell(listing), Until(may_list), *one.steps))) as slow:
        (scene.folder / "pixi.toml").write_text(f'[model]\nbase_url = "{slow.base_url}"\n')
        looking = asyncio.create_task(scene.look())
        await listing.wait()
        assert await scene.said() == "first"
        assert not scene.service.sees(f"{HERE}pixi")
        may_list.set()
        await looking
        assert scene.service.role(f"{HERE}pixi").model.name == "listed"


async def test_personas_come_change_and_go(scene: Scene) -> None:
    persona_file(scene.folder, "wren", "---\nname: Wren\n---\n\nYou are Wren, a small bird.\n")
    persona_file(scene.folder, "heron")
    assert await scene.look() == ["INFO: personas changed: heron new; wren changed"]
    await scene.said("wren")
    assert "a small bird" in scene.prompt
    (scene.folder / "personas" / "wren.md").unlink()
    assert await scene.look() == ["INFO: personas changed: wren gone"]
    assert "wren" not in scene.service.personas


async def test_a_broken_persona_stays_as_it_was_and_the_others_change(scene: Scene) -> None:
    persona_file(scene.folder, "wren", "---\nnmae: Wren\n---\nHello.")
    persona_file(scene.folder, "heron")
    broken, changed = await scene.look()
    assert broken.startswith("WARNING: personas/wren.md:2: unknown key `nmae`")
    assert broken.endswith("Until then the persona stays as it was, if there was one.")
    assert changed == "INFO: personas changed: heron new"
    await scene.said("wren")
    assert "You are Wren." in scene.prompt
    assert await scene.look() == [], "it is told once"


async def test_a_persona_that_names_a_tool_that_is_not_there_stays_as_it_was(scene: Scene) -> None:
    persona_file(scene.folder, "wren", "---\nname: Wren\ntools: [sing]\n---\n\nYou sing.\n")
    (line,) = await scene.look()
    assert line.startswith("WARNING: persona 'Wren' (")
    assert "no tool 'sing'; remove it, or load the addon that brings it." in line
    await scene.said("wren")
    assert "You are Wren." in scene.prompt
    assert await scene.look() == [], "it is told once"
    scene.settings('[persona]\ndefault = "wren"\n')
    await scene.look()
    assert scene.service.personas[scene.service.default_persona].tools == ()


async def test_the_default_persona_stays_when_its_file_breaks(scene: Scene) -> None:
    scene.settings('[persona]\ndefault = "wren"\n')
    await scene.look()
    assert scene.service.default_persona == "wren"
    path = persona_file(scene.folder, "wren", "---\nname: [\n---\nHello.")
    (line,) = await scene.look()
    assert "wren.md" in line
    path.unlink()
    assert len(await scene.look()) == 1
    await scene.said()
    assert scene.service.personas["wren"].name == "Wren"


async def test_what_brings_a_command_counts_from_the_next_start(scene: Scene) -> None:
    (scene.folder / "gifs").mkdir()
    (scene.folder / "gifs" / "cat.gif").write_bytes(b"GIF89a")
    scene.settings('[gifs]\nengine = "folder"\n[discord]\nstickers = true\n')
    assert await scene.look() == ["WARNING: a restart is needed for: discord.stickers, gifs.engine"]
    await scene.said()
    assert "[GIF" not in scene.prompt
    async with service_in(scene.folder) as again:
        channel = RecordingChannel()
        await again.receive(message(99), channel)
        await again.engine.settled()
        assert "[GIF: words]" in scene.prompt
        assert "[STICKER" not in scene.prompt  # there are none here


async def test_what_needs_a_restart_is_said_once_and_shows_no_secret(scene: Scene) -> None:
    (scene.folder / ".env").write_text("DISCORD_TOKEN=canary-token-1\nOPENAI_API_KEY=canary-key-1\n")
    told = await scene.look()
    assert told == [
        "INFO: settings changed: model.api_key",
        "WARNING: a restart is needed for: discord.token",
    ]
    scene.settings('[discord]\napi_url = "http://127.0.0.1:1/api"\n')
    assert await scene.look() == ["WARNING: a restart is needed for: discord.api_url, discord.token"]
    assert await scene.look() == []
    scene.settings("[http]\nport = 9000\nlocal = false\n")
    assert await scene.look() == ["WARNING: a restart is needed for: discord.token, http.local, http.port"]


async def test_real_files_are_watched_until_the_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_QUIET_SECONDS", 0.05)
    async with reloading(scene.service, reading(scene.folder), scene.folder):
        persona_file(scene.folder, "heron")
        await until(lambda: "heron" in scene.service.personas, "the persona")
        scene.settings(name="newer")
        await until(lambda: scene.service.settings.model.name == "newer", "the other model")
        assert await scene.said() == "newer"
    scene.settings(name="late")
    await asyncio.sleep(0.2)
    assert scene.service.settings.model.name == "newer"
