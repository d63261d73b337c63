"""`[STICKER: …]`: a command, which is known in those places that have stickers."""

from pixi.addons import stickers
from pixi.app.reach.part import Grounds
from pixi.settings import Settings


def part_on(grounds: Grounds) -> "Stickers":
    """The part."""
    return Stickers(grounds)


class Stickers:
    """Registers the command once; whether a server's stickers are told of follows the settings by itself."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._registered = False

    async def go_by(self, settings: Settings) -> None:
        """Register the command."""
        if not self._registered and settings.discord.stickers:
            stickers.setup(self._grounds.addon)
            self._registered = True

    async def close(self) -> None:
        """Nothing is open."""
