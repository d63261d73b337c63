"""What each part of the reach is given, and what it does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.app.library import Library
    from pixi.engine.engine import Engine

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a part stands on.

    Attributes:
        engine: its `addon` takes commands and tools, from its `tools` they are taken away again.
        library: has the agent that reads what is too long.
        report: told what a person should know, in one line: a server that cannot be started.
    """

    engine: "Engine"
    library: "Library"
    report: Tell


class Part(Protocol):
    """One way out of the chat, as the settings want it."""

    async def go_by(self, settings: Settings) -> None:
        """Bring tools and commands in line with the settings; called at the start, and when they changed.

        It does not wait for what may take long: that joins when it is there. What cannot be had is reported,
        and leaves the rest as it is.

        Raises:
            ConfigError: the settings cannot hold.
        """
        ...

    async def close(self) -> None:
        """Give back all that was opened. Calling it twice does no harm."""
        ...
