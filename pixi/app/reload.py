"""Settings and personas, read again while the program runs: what changed, and how it is applied."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.app.personas import folders_of, read_personas
from pixi.core.errors import ConfigError, PixiError
from pixi.core.persona import Persona
from pixi.documents.watching import WatchedPaths, changes
from pixi.settings import Settings
from pixi.settings.sources import FILE_NAME

if TYPE_CHECKING:
    from pixi.app.cluster.gateway import GatewayService
    from pixi.app.service import BotService

_log = logging.getLogger("pixi.settings")

_AT_START = frozenset(
    {
        "addons",
        "databases.folder",
        "databases.names",
        "discord.api_url",
        "discord.slash",
        "discord.stickers",
        "discord.token",
        "embedding_model",
        "gifs",
        "http",
        "monitoring",
        "store.url",
    }
)
"""Keys that only count when the program starts, and sections of which this holds for all keys."""

_NO_SETTINGS = {"origin", "sources"}


def changed_keys(before: Settings, after: Settings) -> tuple[str, ...]:
    """Return the keys whose values differ; of a further model that came or went, the section."""
    keys = tuple(_changed(before, after))
    # The helper has most of the main model's settings: what it has of them is not told twice.
    of_the_main_model = {f"helper_{key}" for key in keys}
    return tuple(key for key in keys if key not in of_the_main_model)


def _changed(before: Settings, after: Settings) -> Iterator[str]:
    for section in dataclasses.fields(Settings):
        if section.name in _NO_SETTINGS:
            continue
        old, new = getattr(before, section.name), getattr(after, section.name)
        if old == new:
            continue
        if isinstance(old, Mapping):
            for name in dict.fromkeys((*old, *new)):
                yield from _differing(f"{section.name}.{name}", old.get(name), new.get(name))
        else:
            yield from _differing(section.name, old, new)


def _differing(title: str, old: object, new: object) -> Iterator[str]:
    if type(old) is not type(new) or not dataclasses.is_dataclass(old):
        if old != new:
            yield title
        return
    for field in dataclasses.fields(old):
        if getattr(old, field.name) != getattr(new, field.name):
            yield f"{title}.{field.name}"


def _needs_restart(key: str) -> bool:
    return key in _AT_START or key.partition(".")[0] in _AT_START


def changed_personas(before: Mapping[str, Persona], after: Mapping[str, Persona]) -> str:
    """Name the personas that came, went or changed, by their files; "" if none did."""
    told = {
        "new": [name for name in after if name not in before],
        "changed": [name for name in after if name in before and before[name] != after[name]],
        "gone": [name for name in before if name not in after],
    }
    return "; ".join(f"{', '.join(names)} {what}" for what, names in told.items() if names)


class SettingsReloader:
    """Lets a service go by its settings and personas, whenever their files change.

    Args:
        service: goes by them.
        read: reads the settings again, as they were read at the start.
        folder: where the settings file and `.env` are looked for.
    """

    def __init__(
        self, service: "BotService | GatewayService", read: Callable[[], Settings], folder: Path
    ) -> None:
        self._service = service
        self._read = read
        self._folder = folder
        self._started = service.settings
        # The settings by which integrations were opened; None: those that had a fault opened some of them.
        self._extended: Settings | None = service.settings
        self._waiting: frozenset[str] = frozenset()  # keys that changed and need a restart
        self._reloading = asyncio.Lock()

    async def run(self) -> None:
        """Watch, until cancelled."""
        async with aclosing(changes(self._watched)) as changed:
            async for _ in changed:
                await self.reload()

    async def reload(self) -> str:
        """Read everything again, and log in a line each what changed, or why nothing did.

        Return why nothing did; "" where nothing stood in the way.
        """
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> str:
        service = self._service
        try:
            settings = await asyncio.to_thread(self._read)
            if settings.origin is None and service.settings.origin is not None:
                raise ConfigError(f"{service.settings.origin} is gone; put it back.")
            if settings != self._extended:  # also where those before a fault are back
                self._extended = None
                await service.extend(settings)
                self._extended = settings
            persona_set = await asyncio.to_thread(read_personas, settings, service.persona_set)
            persona_set = await service.admit(persona_set, service.persona_set)
            before, there = service.settings, service.persona_set
            if (settings, persona_set) == (before, there):
                return ""
            await service.change(settings, persona_set)
        except PixiError as error:
            why = " ".join(str(error).split())
            _log.warning("%s Until then everything stays as it was.", why)
            return why
        for fault in persona_set.faults:
            if fault not in there.faults:
                _log.warning("%s Until then the persona stays as it was, if there was one.", fault)
        self._tell(changed_keys(before, settings), changed_personas(there.personas, persona_set.personas))
        return ""

    def _tell(self, keys: tuple[str, ...], personas: str) -> None:
        if at_once := [key for key in keys if not _needs_restart(key)]:
            _log.info("settings changed: %s", ", ".join(at_once))
        if personas:
            _log.info("personas changed: %s", personas)
        waiting = frozenset(filter(_needs_restart, changed_keys(self._started, self._service.settings)))
        if waiting - self._waiting:
            _log.warning("a restart is needed for: %s", ", ".join(sorted(waiting)))
        self._waiting = waiting

    def _watched(self) -> WatchedPaths:
        settings = self._service.settings
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
        return WatchedPaths(tuple(files), folders, (settings.databases.folder,))


@asynccontextmanager
async def reloading(
    service: "BotService | GatewayService", read: Callable[[], Settings], folder: Path | None = None
) -> AsyncGenerator[None, None]:
    """Keep a service to what its files say, as long as the block lasts; see `SettingsReloader`."""
    reloader = SettingsReloader(service, read, folder or Path())
    service.reload = reloader.reload
    watching = asyncio.create_task(reloader.run())
    try:
        yield
    finally:
        service.reload = None
        watching.cancel()
        await asyncio.wait([watching])
