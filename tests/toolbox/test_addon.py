"""The door of addons, and the border to what others wrote."""

import pytest

from pixi.core.errors import ChannelError
from pixi.core.language import BUILT_IN
from pixi.toolbox.addon import Addon, basics
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.context import Context
from pixi.toolbox.foreign import ForeignError, foreign
from pixi.toolbox.tools import Toolbox


def test_both_forms_of_both_decorators() -> None:
    commands, tools = CommandRegistry(), Toolbox()
    addon = Addon(commands, tools)

    @addon.command
    async def plain(context: Context) -> None:
        """one"""

    @addon.command(name="other", aliases=("another",))
    async def named(context: Context, text: str) -> None:
        """two"""

    @addon.tool
    async def first(context: Context) -> None:
        """three"""

    @addon.tool(timeout=2)
    async def second(context: Context) -> None:
        """four"""

    assert commands.names() == {"plain": (), "other": ("another",)}
    assert [(tool.name, tool.timeout) for tool in tools] == [("first", 20.0), ("second", 2)]


def test_the_built_in_commands_come_by_the_same_door() -> None:
    commands = CommandRegistry()
    basics(Addon(commands, Toolbox()))
    assert dict(commands.names()) == dict(BUILT_IN)
    send = commands.get("send")
    assert send is not None
    assert send.opened is not None


def test_what_a_foreign_function_raises_gets_a_name_and_loses_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        pytest.raises(ForeignError, match=r"^command 'wave' failed with KeyError\.$") as caught,
        foreign("command 'wave'"),
    ):
        raise KeyError("token-123")
    assert isinstance(caught.value.__cause__, KeyError)
    assert "KeyError" in caplog.text
    assert "token-123" not in caplog.text


def test_what_is_raised_on_purpose_passes() -> None:
    with pytest.raises(ChannelError, match="gone"), foreign("command 'wave'"):
        raise ChannelError("gone")


def test_one_guard_serves_many_functions() -> None:
    guard = foreign("what looks on")
    for _ in range(2):
        with pytest.raises(ForeignError), guard:
            raise ValueError
