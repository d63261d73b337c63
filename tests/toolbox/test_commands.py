"""A function becomes a command by its name, its docstring and its second parameter."""

from typing import Any

import pytest

from pixi.core.errors import ConfigError
from pixi.toolbox.commands import CommandRegistry, command_from
from pixi.toolbox.context import Context


async def wave(context: Context, how: str) -> None:
    """wave at the person,
    with a hand

    More about waving.
    """


async def bow(context: Context) -> None:
    """bow"""


def not_async(context: Context, text: str) -> None:
    """nothing"""


async def silent(context: Context, text: str) -> None:
    pass


async def greedy(context: Context, one: str, two: str) -> None:
    """too much"""


async def starred(context: Context, *texts: str) -> None:
    """too much"""


async def loud(context: Context, text: str, *, volume: int = 0) -> None:
    """too much"""


async def demanding(context: Context, text: str, *, to: int) -> None:
    """too much"""


def test_what_is_made_of_a_function() -> None:
    command = command_from(wave, aliases=("Greet",))
    assert (command.name, command.argument, command.aliases) == ("wave", "how", ("greet",))
    assert command.description == "wave at the person, with a hand"
    assert command_from(bow).argument == ""
    assert command_from(bow, name="Bow_Down").name == "bow_down"


@pytest.mark.parametrize(
    ("function", "names", "mend"),
    [
        (not_async, {}, "async def not_async"),
        (silent, {}, "docstring"),
        (greedy, {}, "at most one argument"),
        (starred, {}, "at most one argument"),
        (loud, {}, r"\*, to: int = 0"),
        (demanding, {}, r"\*, to: int = 0"),
        (wave, {"name": "two words"}, "letters, digits and _"),
        (wave, {"aliases": ("a:b",)}, "letters, digits and _"),
    ],
)
def test_what_cannot_be_a_command(function: Any, names: dict[str, Any], mend: str) -> None:
    with pytest.raises(ConfigError, match=mend):
        command_from(function, **names)


async def test_a_command_that_can_be_about_an_earlier_message_is_told_which() -> None:
    told: list[tuple[object, ...]] = []

    async def point(context: Context, how: str, *, to: int = 0) -> None:
        """point at a message"""
        told.append((how, to))

    async def look(context: Context, *, to: int = 0) -> None:
        """look at a message"""
        told.append((to,))

    async def wave(context: Context, how: str) -> None:
        """wave"""
        told.append((how,))

    nobody: Any = None
    for function in (point, look, wave):
        command = command_from(function)
        assert command.targeted == (function is not wave)
        await command.perform(nobody, "so", target=3)
        await command.perform(nobody, "so")
    assert told == [("so", 3), ("so", 0), (3,), (0,), ("so",), ("so",)]


def test_names_are_taken_once() -> None:
    registry = CommandRegistry()
    registry.add(command_from(wave, aliases=("greet",)))
    with pytest.raises(ConfigError, match="'greet' is taken"):
        registry.add(command_from(bow, name="greet"))
    with pytest.raises(ConfigError, match="'wave' is taken"):
        registry.add(command_from(bow, aliases=("wave",)))
    registry.add(command_from(bow))
    assert registry.names() == {"wave": ("greet",), "bow": ()}
    assert len(registry) == 2
    assert registry.get("greet") is None


async def test_what_happens_when_it_opens_is_checked_too() -> None:
    command = command_from(wave)
    with pytest.raises(ConfigError, match="async def"):
        command.on_open(not_async)  # type: ignore[arg-type]

    @command.on_open
    async def opened(context: Context) -> None: ...

    assert command.opened is opened
