"""Looks at where the pictures of `[GIF: …]` come from, for `doctor`."""

import asyncio
from typing import TYPE_CHECKING

from pixi.core.errors import ConfigError

if TYPE_CHECKING:
    from pixi.settings import Settings


async def look_at_gifs(settings: "Settings") -> tuple[bool, str] | None:
    """Whether it is fine, and what it is or what to mend; None where no pictures are wanted.

    Of a service, one picture is searched for, to see whether it takes the key.
    """
    if settings.gifs.engine == "off":
        return None
    from pixi.app.reach.gifs import source_of
    from pixi.fetching.web import Web
    from pixi.web.gifs.folder import GifFolder
    from pixi.web.gifs.gifs import GifError

    try:
        async with Web() as web:
            source = source_of(settings.gifs, web)
            if isinstance(source, GifFolder):
                return _told_of_folder(await asyncio.to_thread(source.count), settings)
            await source.find("cat", "en")
    except (ConfigError, GifError) as error:
        return False, str(error)
    key = settings.sources.get("gifs.api_key", "code")
    return True, f"{source.service} takes the key, set by {key}; rated {settings.gifs.rating} at most"


def _told_of_folder(count: int, settings: "Settings") -> tuple[bool, str]:
    if not count:
        return (
            False,
            f"there is no picture in {settings.gifs.folder}: put some there, named by what they show",
        )
    return True, f"{count:,} {'picture' if count == 1 else 'pictures'} in {settings.gifs.folder}"
