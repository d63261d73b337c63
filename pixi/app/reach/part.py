"""What each part of the reach is given, and what it does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.app.library import Library
    from pixi.engine.context import EngineSettings
    from pixi.toolbox.addon import Addon
    from pixi.toolbox.tools import Toolbox

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a part stands on.

    Attributes:
        addon: takes commands and tools.
        tools: those that were registered; from there they are taken away again.
        engine_settings: how the engine gives replies.
        library: has the agent that reads what is too long.
        report: told what a person should know, in one line: a server that cannot be started.
    """

    addon: "Addon"
    tools: "Toolbox"
    engine_settings: "EngineSettings"
    library: "Library"
    report: Tell


class Integration(Protocol):
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
