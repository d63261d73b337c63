"""MCP servers of a service: their tools come with the settings, change with them, and wait for nobody."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.app import mcp_integration
from pixi.app.service import BotService, open_service
from pixi.core.errors import ConfigError
from pixi.core.events import ToolAnswered
from pixi.mcp.offers import FILE_NAME
from pixi.settings import McpSettings, load
from pixi.settings.secret import Secret, secrets_in
from pixi.testing import RecordingChannel
from tests.app.scene import message, reading, settings_file
from tests.mcp.scene import ROGUE, alive, eventually, started
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, call, finish, stream


def section(way: str, notes: Path, *, name: str = "baker", more: str = "") -> str:
    args = json.dumps(["-I", "-S", str(ROGUE), way, str(notes)])
    return f'\n[mcp.{name}]\ncommand = "{sys.executable}"\nargs = {args}\n{more}'


def uses_tools(seen: Seen) -> Reply:
    """A model that calls the baker's tool, once, where it has it."""
    body = seen.json()
    offered = [each["function"]["name"] for each in body.get("tools", ())]
    if body["messages"][-1]["role"] == "tool" or "baker_echo" not in offered:
        return stream("[SEND: so.]", finish())
    return stream(call("baker_echo", '{"text": "pancake"}', index=0, call_id="1"), finish("tool_calls"))


class Scene:
    """A service whose settings a test writes."""

    def __init__(self, folder: Path, server: ScriptedOpenAI) -> None:
        self.folder = folder
        self.server = server
        self.notes = folder / "notes"
        self.lines: list[str] = []

    def settings(self, more: str) -> None:
        settings_file(self.folder, self.server, more)

    @asynccontextmanager
    async def service(self) -> AsyncGenerator[BotService, None]:
        async with open_service(reading(self.folder)(), report=self.lines.append) as service:
            yield service

    async def change(self, service: BotService, more: str) -> None:
        """Let the service go by other settings, as a reload does."""
        self.settings(more)
        settings = reading(self.folder)()
        await service.extend(settings)
        await service.change(settings, service.persona_set)

    async def answers(self, service: BotService, number: int) -> list[tuple[bool, str]]:
        """What tools answered to the model in a turn."""
        channel = RecordingChannel()
        await service.receive(message(number), channel)
        await service.engine.settled()
        return [(event.ok, event.result) for event in channel.events if isinstance(event, ToolAnswered)]


def tools(service: BotService) -> list[str]:
    return [tool.name for tool in service.engine.tools if tool.source.startswith("mcp:")]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene, None]:
    async with ScriptedOpenAI(choose=uses_tools) as server:
        yield Scene(tmp_path, server)


async def test_a_tool_of_a_server_is_called(scene: Scene) -> None:
    scene.settings(section("well", scene.notes))
    async with scene.service() as service:
        await eventually(lambda: tools(service) == ["baker_echo"])
        assert await scene.answers(service, 1) == [(True, "pancake")]
        assert (scene.folder / FILE_NAME).exists()
        assert len(scene.lines) == 1
        assert str(ROGUE) in scene.lines[0]
    await eventually(lambda: not any(map(alive, started(scene.notes))))


async def test_a_server_cannot_take_a_name_of_ours_and_hold_up_the_start(scene: Scene) -> None:
    notes = scene.folder / "described"
    notes.write_text("Says it.\nsearch\n")
    searches = '\n[web_search]\nengine = "duckduckgo"\n'
    scene.settings(section("described", notes, name="web"))
    async with scene.service() as service:
        await eventually(lambda: tools(service) == ["web_echo", "web_search"])
        await scene.change(service, section("described", notes, name="web") + searches)
        web_search = service.engine.tools.get("web_search")
        assert web_search is not None
        assert web_search.source == "web_search"
        named = tools(service)
        assert len(named) == 2
    scene.settings(section("described", notes, name="web") + searches)
    async with scene.service() as service:
        await eventually(lambda: tools(service) == named)


async def test_settings_without_servers_are_taken_again_after_some_that_cannot_hold(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ConfigError("no SDK")

    scene.settings("")
    async with scene.service() as service:
        with monkeypatch.context() as patch:
            patch.setattr(mcp_integration, "require_sdk", missing)
            with pytest.raises(ConfigError, match="no SDK"):
                await scene.change(service, section("well", scene.notes))
            await scene.change(service, "")
        await scene.change(service, section("well", scene.notes))
        await eventually(lambda: tools(service) == ["baker_echo"])


async def test_secrets_of_a_server_are_hidden_in_what_it_answers(scene: Scene) -> None:
    scene.settings(section("well", scene.notes, more='env = { TOKEN = "pancake" }'))
    async with scene.service() as service:
        await eventually(lambda: tools(service) == ["baker_echo"])
        ((ok, said),) = await scene.answers(service, 1)
        assert ok
        assert "pancake" not in said


async def test_one_that_is_dead_holds_nobody_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.app.mcp_integration._GRACE_SECONDS", 0.05)
    monkeypatch.setattr("pixi.mcp.transports._POLITE_SECONDS", 0.05)
    scene.settings(section("deaf", scene.notes) + '\n[mcp.gone]\ncommand = "nonesuch-server"\n')
    async with scene.service() as service:
        await eventually(lambda: any(map(alive, started(scene.notes))))  # it is still waited for
        assert tools(service) == []
        assert await scene.answers(service, 1) == []
    assert any("there is no program 'nonesuch-server' here" in line for line in scene.lines)


async def test_a_server_comes_changes_and_goes_with_the_settings(scene: Scene) -> None:
    scene.settings("")
    async with scene.service() as service:
        assert tools(service) == []
        await scene.change(service, section("well", scene.notes))
        await eventually(lambda: tools(service) == ["baker_echo"])
        await scene.change(service, section("well", scene.notes, more="tools = []"))
        assert tools(service) == []
        assert len(started(scene.notes)) == 1  # what it runs is the same
        await scene.change(service, section("well", scene.notes, name="other"))
        await eventually(lambda: tools(service) == ["other_echo"])
        await scene.change(service, "")
        assert tools(service) == []
        await eventually(lambda: not any(map(alive, started(scene.notes))))


async def test_settings_that_cannot_hold_change_nothing(scene: Scene) -> None:
    scene.settings(section("well", scene.notes))
    async with scene.service() as service:
        await eventually(lambda: tools(service) == ["baker_echo"])
        with pytest.raises(ConfigError, match=r"\[mcp\.baker\] has a command and a url"):
            await scene.change(service, section("well", scene.notes, more='url = "http://127.0.0.1/"'))
        assert tools(service) == ["baker_echo"]


async def test_what_was_approved_elsewhere_is_taken_up(scene: Scene) -> None:
    scene.settings(section("well", scene.folder / "elsewhere"))
    async with scene.service() as service:
        await eventually(lambda: tools(service) == ["baker_echo"])
    scene.settings(section("well", scene.notes))
    scene.lines.clear()
    async with scene.service() as service:
        await eventually(lambda: len(scene.lines) == 1)
        assert "pixi-persona approve baker" in scene.lines[0]
        assert tools(service) == []
        settings = reading(scene.folder)()
        where = mcp_integration.server_addresses(settings)["baker"]
        await mcp_integration.lock_of(settings).approve("baker", where, ())  # as another process does
        await eventually(lambda: tools(service) == ["baker_echo"])
        assert await scene.answers(service, 1) == [(True, "pancake")]


async def test_tools_stay_while_a_server_is_away(scene: Scene) -> None:
    scene.settings(section("die", scene.notes))
    async with scene.service() as service:
        await eventually(lambda: tools(service) == ["baker_echo"])
        ((ok, said),) = await scene.answers(service, 1)
        assert (ok, said) == (
            False,
            "baker ended before it answered; it is being restarted. Try again in a moment.",
        )
        ((ok, said),) = await scene.answers(service, 2)
        assert not ok
        assert "baker is being " in said or "baker ended before" in said
        assert tools(service) == ["baker_echo"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "[mcp.x] has neither a command nor a url: add one of them."),
        ('type = "sse"', "[mcp.x] has neither a command nor a url: add one of them; type is about a url."),
        ('command = "x"\nurl = "http://x"', "[mcp.x] has a command and a url"),
        ('url = "http://x"\nargs = ["x"]', "[mcp.x] args is for a server with a command"),
        ('command = "x"\nheaders = { A = "b" }', "[mcp.x] headers is for a server with a url"),
        (
            'url = "http://x"\nheaders = { A = "canary\\nB: c" }',
            "[mcp.x] headers: 'A' holds what no header may",
        ),
    ],
)
def test_sections_that_cannot_hold(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "pixi.toml").write_text(f"[mcp.x]\n{text}\n")
    settings = load(environ={}, folder=tmp_path)
    with pytest.raises(ConfigError) as refused:
        mcp_integration.server_addresses(settings)
    assert str(refused.value).startswith(why)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("key", ["command", "args", "folder"])
def test_what_is_run_comes_from_the_settings_file_alone(tmp_path: Path, key: str) -> None:
    name = f"PIXI_MCP__X__{key.upper()}"
    with pytest.raises(ConfigError, match=rf"^{name}: what a server runs is taken from the settings file"):
        load(environ={name: "/bin/sh"}, folder=tmp_path)
    (tmp_path / ".env").write_text(f"{name}=/bin/sh\n")
    with pytest.raises(ConfigError, match=r"line 1: .* taken from the settings file alone; write"):
        load(environ={}, folder=tmp_path)


def test_secrets_come_from_elsewhere_and_do_not_print(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text('[mcp.x]\nurl = "https://example.org/mcp"\n')
    settings = load(environ={"PIXI_MCP__X__HEADERS": '{"Authorization": "canary"}'}, folder=tmp_path)
    assert "canary" not in repr(settings)
    assert "canary" not in repr(mcp_integration.server_addresses(settings))


def test_a_token_is_a_secret_without_the_word_before_it_too() -> None:
    its = McpSettings(url="https://example.org", headers={"Authorization": Secret("Bearer canary-1")})
    assert secrets_in(its) == {"Bearer canary-1", "canary-1"}


async def test_without_the_sdk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_integration, "find_spec", lambda name: None)
    scene.settings(section("well", scene.notes))
    with pytest.raises(ConfigError, match=r'needs the MCP SDK: pip install "pixi-persona\[mcp\]"'):
        async with scene.service():
            pass
