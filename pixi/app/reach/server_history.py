"""What was written in a Discord server, as tools: there while the settings want it."""

from pixi.addons.server_history import SOURCE, setup
from pixi.app.reach.part import Grounds, Integration
from pixi.core.errors import ConfigError
from pixi.settings import Settings


class ServerHistory:
    """The tools that look a server's history up."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._open = False
        self._grounds.tools.announce(SOURCE)  # a persona that names it goes without, where it is off

    async def go_by(self, settings: Settings) -> None:
        """Register them, or take them away.

        Raises:
            ConfigError: the name of one is taken.
        """
        wanted = settings.discord.read_history
        if wanted and not self._open:
            try:
                setup(self._grounds.addon)
            except ConfigError:  # an addon has a tool of that name
                self._grounds.tools.remove(SOURCE)
                raise
        elif self._open and not wanted:
            self._grounds.tools.remove(SOURCE)
        self._open = wanted

    async def close(self) -> None:
        """Take them away."""
        if self._open:
            self._grounds.tools.remove(SOURCE)
        self._open = False


def part_on(grounds: Grounds) -> Integration:
    """The part, which opens as the settings want."""
    return ServerHistory(grounds)
