"""Integrations that bring commands alone: `[GIF: …]` and `[STICKER: …]`."""

import asyncio

from pixi.addons import pictures
from pixi.addons.pictures import gifs_from
from pixi.app.integrations import IntegrationContext
from pixi.core.errors import ConfigError
from pixi.fetching.web import Web
from pixi.settings import GifSettings, Settings
from pixi.web.gif_sources import GIPHY, KLIPY, GifFolder, GifSource, Giphy, Klipy

BASES = {"klipy": KLIPY, "giphy": GIPHY}
"""Addresses of the services."""


class GifIntegration:
    """Registers the command once: other settings count from the next start."""

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._web = Web()
        self._registered = False

    async def apply(self, settings: Settings) -> None:
        """Register the command, where there is a source of pictures.

        Raises:
            ConfigError: there is no key, or no folder.
        """
        self._web.contact = settings.web_pages.contact
        if self._registered or settings.gifs.engine == "off":
            return
        source = source_of(settings.gifs, self._web)
        if isinstance(source, GifFolder) and not await asyncio.to_thread(source.count):
            self._context.report(
                f"gifs.folder: there is no picture in {settings.gifs.folder}: nobody is told of [GIF: …]. "
                "Put some there, and start again."
            )
            return
        gifs_from(source, self._context.tools.mask)(self._context.addon)
        self._registered = True

    async def close(self) -> None:
        """Close the connections. Calling it twice does no harm."""
        await self._web.close()


def source_of(settings: GifSettings, web: Web) -> GifSource:
    """Return the source that the settings name.

    Raises:
        ConfigError: it is a service, and there is no key for it.
    """
    if settings.engine == "folder":
        return GifFolder(settings.folder)
    if settings.api_key is None:
        raise ConfigError(
            f'gifs.api_key: engine = "{settings.engine}" needs a key: write PIXI_GIFS__API_KEY=… in .env '
            '(docs/gifs.md says where to get one), or engine = "off".'
        )
    door = Klipy if settings.engine == "klipy" else Giphy
    return door(web, settings.api_key.reveal(), settings.rating, base=BASES[settings.engine])


class StickerIntegration:
    """Registers the command once; whether a server's stickers are told of follows the settings by itself."""

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._registered = False

    async def apply(self, settings: Settings) -> None:
        """Register the command."""
        if not self._registered and settings.discord.stickers:
            pictures.setup(self._context.addon)
            self._registered = True

    async def close(self) -> None:
        """Do nothing: nothing is open."""
