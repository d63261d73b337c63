"""`discord --rehearse`: what is typed becomes what people do, and what the bot does is told."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pixi.channels.discord.gateway import client
from pixi.channels.discord.slash.commands import SlashCommands
from pixi.cli import frame, rehearsing
from pixi.core.errors import Reporter
from pixi.settings import Settings, load
from pixi.testing.discord import LoopbackDiscord
from tests.end_to_end.bot import EDDA, PERSONA
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream
from tests.waiting import until

SCRIPT: tuple[tuple[str, ...], ...] = (
    ("/reply too soon", "The bot has said nothing yet."),
    ("Mary Ann Smith: nobody is meant",),
    (
        "Ann: @Pixi hello \x1b[2J",
        "#general · Pixi reacts 🥞 to “@Pixi hello [2J”",
        "#general · Pixi › hey @Ann",
    ),
    ("/reply and?", "#general · Pixi reacts 🥞 to “and?”", "#general · Pixi › hey @Ann"),
    ("/why", "│ Why Pixi said that"),
    ("/persona name=edda", "Ann may not use 'persona'. Mo may: Mo: /persona name=edda"),
    ("/", "Name a command behind the slash, such as /status."),
    ("#", "Name the channel: #kitchen."),
    ("/persona name='edda", "A quotation mark in that line has no second one."),
    ("/press nothing", "There is no button 'nothing'; there are none."),
    ("#kitchen",),
    ("mo: /help",),
    ("/persona nam=edda", "There is no option 'nam'; there are name, how, home."),
    ("/persona name=edda", "#kitchen · Pixi › **Edda** speaks here from now on."),
    (
        "@Mary Ann Smith are you here? @pixi",
        "#kitchen · Pixi reacts 🥞 to “@Mary Ann Smith are you here? @Pixi”",
    ),
    ("/dm",),
    ("hi", "direct message · Pixi reacts 🥞 to “hi”"),
    ("/react 🐈",),
    ("/nonsense", "There is no command 'nonsense'; there are export, forget, help,"),
    ("/quit",),
    ("never",),
)
"""Lines that are typed, each with what is told before the next one is typed."""


async def test_a_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "personas").mkdir()
    for name, text in {"pixi": PERSONA, "edda": EDDA}.items():
        (tmp_path / "personas" / f"{name}.md").write_text(text, encoding="utf-8")
    told: list[str] = []

    def told_since(line: str, at: int) -> bool:
        return line in "\n".join(told[at:])

    @asynccontextmanager
    async def terminal() -> AsyncGenerator[tuple[rehearsing.Lines, Reporter, bool], None]:
        async def lines(prompt: Callable[[], str]) -> AsyncGenerator[str, None]:
            for line, *answers in SCRIPT:
                prompts.append(prompt())
                at = len(told)  # answers may come in another order on a busy machine
                yield line
                for each in answers:
                    await until(partial(told_since, each, at), each)

        yield lines, told.append, True

    prompts: list[str] = []
    monkeypatch.setattr(rehearsing, "_terminal", terminal)
    monkeypatch.setattr(rehearsing, "_QUIET_SECONDS", 0.05)

    async with ScriptedOpenAI(stream("[REACT: 🥞]", "[SEND: hey @Ann]", finish())) as server:
        model = {"model.name": "m", "model.base_url": server.base_url}
        settings = load(environ={}, folder=tmp_path, overrides=model | {"discord.allowed_users": [1]})
        with mock.patch.multiple(client, _LAST_GUILD=0.02, _BETWEEN_SESSIONS=0.0):
            assert await rehearsing.rehearse(settings, (), "Mo") == 0
    shown = "\n".join(told)
    assert "only the person who asked sees this" in shown
    assert "\x1b" not in shown
    assert max(map(len, rehearsing.HELP.format(bot="The Night Owl", me="Mo").splitlines()[1:])) < 80
    assert prompts[0] == "Mo in #general › "
    assert prompts[-1] == "Mo in direct message › "
    assert not list(tmp_path.glob("*.db"))


async def test_slash_commands_that_do_not_come_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def terminal() -> AsyncGenerator[tuple[rehearsing.Lines, Reporter, bool], None]:
        async def lines(prompt: Callable[[], str]) -> AsyncGenerator[str, None]:
            yield "/quit"

        yield lines, told.append, True

    told: list[str] = []
    monkeypatch.setattr(rehearsing, "_terminal", terminal)
    monkeypatch.setattr(rehearsing, "_SLASH_SECONDS", 0.0)
    monkeypatch.setattr(SlashCommands, "sync", mock.AsyncMock())
    settings = load(
        environ={}, folder=tmp_path, overrides={"model.name": "m", "model.base_url": "http://127.0.0.1:9"}
    )
    with mock.patch.multiple(client, _LAST_GUILD=0.02, _BETWEEN_SESSIONS=0.0):
        assert await rehearsing.rehearse(settings, (), "Mo") == 0
    assert any("slash commands are not there yet" in line for line in told)


async def test_that_the_bot_types_is_told_once_until_it_has_written() -> None:
    discord, told = LoopbackDiscord(), list[str]()
    rehearsal = rehearsing.Rehearsal(discord, "Mo", told.append)
    await rehearsal.enter("hello")
    (room,) = discord.world.channels.values()
    for _ in range(2):
        await room.start_typing(discord.bot)
        rehearsal.look()
    await room.start_typing(discord.bot)
    await room.say(discord.bot, "hi")
    rehearsal.look()
    await room.start_typing(discord.bot)
    rehearsal.look()
    typing = "#general · Pixi is typing …"
    assert told == [typing, "#general · Pixi › hi", typing]


async def test_ctrl_c_clears_a_line_that_is_begun_and_leaves_at_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", mock.Mock(isatty=lambda: True))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        async with rehearsing._terminal() as (lines, _, by_turns):
            assert not by_turns
            keys.send_text("half a line\x03hi\r")
            typed = lines(lambda: "Mo › ")
            assert await anext(typed) == "hi"
            keys.send_text("\x03")
            assert [line async for line in typed] == []


def test_no_token_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIXI_MODEL__NAME", "m")
    asked: list[str] = []

    async def rehearse(settings: Settings, addons: object, me: str) -> int:
        asked.append(settings.model.name)
        return 0

    monkeypatch.setattr(rehearsing, "rehearse", rehearse)
    assert frame.run(["discord", "--rehearse"]) == 0
    assert asked == ["m"]
