"""The built-in integrations that bring commands: `[GIF: …]` and `[STICKER: …]`."""

import asyncio

from pixi.addons import pictures
from pixi.addons.pictures import gifs_from
from pixi.app.integrations import Integrations
from pixi.core.errors import ConfigError
from pixi.fetching.web import Web
from pixi.settings import GifSettings, Settings
from pixi.web.gif_sources import GIPHY, KLIPY, GifFolder, GifSource, Giphy, Klipy

GIF_BASES = {"klipy": KLIPY, "giphy": GIPHY}
"""Addresses of the services that have GIFs."""


async def apply_gifs(integrations: Integrations, settings: Settings) -> None:
    """Register the command, where there is a source of pictures.

    Raises:
        ConfigError: there is no key, or no folder.
    """
    source = gif_source_of(settings.gifs, integrations.once("web", Web))
    if isinstance(source, GifFolder) and not await asyncio.to_thread(source.count):
        integrations.report(
            f"gifs.folder: there is no picture in {settings.gifs.folder}: nobody is told of [GIF: …]. "
            "Put some there, and start again."
        )
        return
    gifs_from(source, integrations.tools.mask)(integrations.addon)


def gif_source_of(settings: GifSettings, web: Web) -> GifSource:
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
    return door(web, settings.api_key.reveal(), settings.rating, base=GIF_BASES[settings.engine])


async def apply_stickers(integrations: Integrations, settings: Settings) -> None:
    """Register the command; whether a server's stickers are told of follows the settings by itself."""
    pictures.setup(integrations.addon)
