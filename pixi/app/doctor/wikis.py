"""Looks at the wikis for `doctor`: whether each can be asked."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixi.settings import Settings, WikiSettings

_SECONDS = 20.0
"""How long one wiki may take to be found."""


async def look_at_wikis(settings: "Settings") -> AsyncIterator[tuple[bool, str, str]]:
    """For each wiki its section, whether it is fine, and what it is or what stands in the way."""
    import asyncio

    from pixi.fetching.web import Web
    from pixi.web.wikis.api import WikiApi, WikiError
    from pixi.web.wikis.wikipedia import wikipedia_in

    async def look_at(name: str, wanted: "WikiSettings") -> tuple[bool, str, str]:
        url = wanted.url or wikipedia_in("en")[0]
        section = f"wiki.{name}"
        try:
            async with asyncio.timeout(_SECONDS):
                site = await WikiApi(web, url, trusted=bool(wanted.url)).site()
        except TimeoutError:
            return False, section, f"{url} took longer than {_SECONDS:g} seconds"
        except WikiError as error:
            return False, section, str(error)
        told = "; each persona asks the one in its language"
        if not web.contact:
            told += "; set `contact` in [web_pages], as Wikipedia wants to know who asks"
        return True, section, f"{site.name} at {site.api}{'' if wanted.url else told}"

    async with Web() as web:
        web.contact = settings.web_pages.contact
        for found in await asyncio.gather(*(look_at(*wiki) for wiki in settings.wiki.items())):
            yield found
