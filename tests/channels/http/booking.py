"""A persona that asks before it acts."""

from typing import Any

from pixi.core.llm import ToolCall
from pixi.core.persona import Persona
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.served import PERSONAS

CALLED = [ToolCall("1", "book", '{"day": "monday"}')]
"""What the model calls."""


def booking() -> tuple[Any, Any, list[str]]:
    """A tool that asks first, personas that have it, and what was done."""
    done: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.tool(writes=True, approval=True)
        async def book(context: Context, day: str) -> str:
            """Book a table.

            Args:
                day: which one.
            """
            done.append(day)
            return "booked"

    return setup, PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", tools=("book",))}, done
