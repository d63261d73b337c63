"""Reads settings and personas again while a bot runs; what is wrong leaves everything as it was."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from pixi.app.cast import folders_of, read_cast
from pixi.app.changes import NEED_RESTART, changed_keys, changed_personas
from pixi.app.household import Household
from pixi.app.watching import Watched, changes
from pixi.core.errors import ConfigError, PixiError
from pixi.settings import Settings
from pixi.settings.given import FILE_NAME

_log = logging.getLogger("pixi.settings")


class Reloading:
    """Keeps a house to what its files say.

    Args:
        house: what goes by them.
        read: reads the settings again, as they were read at the start.
        folder: where the settings file and `.env` are looked for.
    """

    def __init__(self, house: Household, read: Callable[[], Settings], folder: Path) -> None:
        self._house = house
        self._read = read
        self._folder = folder
        self._started = house.settings
        self._waiting: frozenset[str] = frozenset()  # keys that changed and need a restart
        self._looking = asyncio.Lock()

    async def run(self) -> None:
        """Watch, until cancelled."""
        async with aclosing(changes(self._watched)) as changed:
            async for _ in changed:
                await self.look()

    async def look(self) -> str:
        """Read everything again, and tell in a line each what changed or why nothing did.

        Return why nothing did; "" where nothing stood in the way.
        """
        async with self._looking:
            return await self._look()

    async def _look(self) -> str:
        house = self._house
        try:
            settings = await asyncio.to_thread(self._read)
            if settings.origin is None and house.settings.origin is not None:
                raise ConfigError(f"{house.settings.origin} is gone; put it back.")
            if settings != house.settings:
                await house.extend(settings)
            cast = await asyncio.to_thread(read_cast, settings, house.cast)
            cast = await house.admit(cast, house.cast)
            before, there = house.settings, house.cast
            if (settings, cast) == (before, there):
                return ""
            await house.change(settings, cast)
        except PixiError as error:
            why = " ".join(str(error).split())
            _log.warning("%s Until then everything stays as it was.", why)
            return why
        for fault in cast.faults:
            if fault not in there.faults:
                _log.warning("%s Until then the persona stays as it was, if there was one.", fault)
        self._tell(changed_keys(before, settings), changed_personas(there.personas, cast.personas))
        return ""

    def _tell(self, keys: tuple[str, ...], personas: str) -> None:
        at_once = [key for key in keys if key not in NEED_RESTART]
        if at_once:
            _log.info("settings changed: %s", ", ".join(at_once))
        if personas:
            _log.info("personas changed: %s", personas)
        waiting = NEED_RESTART.intersection(changed_keys(self._started, self._house.settings))
        if waiting - self._waiting:
            _log.warning("a restart is needed for: %s", ", ".join(sorted(waiting)))
        self._waiting = waiting

    def _watched(self) -> Watched:
        settings = self._house.settings
        origin = settings.origin or self._folder / FILE_NAME
        own = settings.persona.folder
        try:
            folders = folders_of(settings)
        except ConfigError:  # it was there at the start, and may come back
            folders = (own,)
        outside = Path(settings.persona.default).expanduser()
        files = [origin, self._folder / ".env"]
        if outside.suffix.lower() == ".md":
            files.append(outside)
        return Watched(tuple(files), folders, (settings.databases.folder,))


@asynccontextmanager
async def reloading(
    house: Household, read: Callable[[], Settings], folder: Path | None = None
) -> AsyncGenerator[None, None]:
    """Keep a house to what its files say, as long as the block lasts; see `Reloading`."""
    it = Reloading(house, read, folder or Path())
    house.look = it.look
    watching = asyncio.create_task(it.run())
    try:
        yield
    finally:
        house.look = None
        watching.cancel()
        await asyncio.wait([watching])
