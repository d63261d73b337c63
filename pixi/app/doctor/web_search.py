"""Looks at the search of the web for `doctor`: who searches, and whether they can."""

from typing import TYPE_CHECKING

from pixi.core.errors import ConfigError

if TYPE_CHECKING:
    from pixi.settings import Settings

_TRIED = "pancakes"
"""What a server of one's own is asked for. DuckDuckGo is left alone."""


async def look_at_web_search(settings: "Settings") -> tuple[bool, str] | None:
    """Whether it is fine, and who searches or what to mend; None: nobody is to search."""
    search = settings.web_search
    price = "" if search.price is None else f", ${search.price:g} a search"
    try:
        match search.engine:
            case "off":
                return None
            case "native":
                return True, _by_the_model(settings) + price
            case "duckduckgo":
                return True, f"by DuckDuckGo{_ddgs()}{price}"
            case "mcp":
                return True, f"by the tool {search.tool} of an MCP server{price}"
            case "searxng":
                return await _at_server(search.url, price, settings.web_pages.contact)
    except ConfigError as error:
        return False, str(error)


def _by_the_model(settings: "Settings") -> str:
    from pixi.app.doors import searches

    model = settings.model.name
    if searches(settings.model):
        return f"by the provider of {model}, within its reply"
    return f"{model} cannot search by itself: by DuckDuckGo{_ddgs()}"


def _ddgs() -> str:
    """The library's version.

    Raises:
        ConfigError: it is not there.
    """
    from importlib.metadata import version

    from pixi.web.search.duckduckgo import require_ddgs

    require_ddgs()
    return f", through ddgs {version('ddgs')}"


async def _at_server(url: str, price: str, contact: str) -> tuple[bool, str]:
    from pixi.fetching.web import Web
    from pixi.web.search.searching import SearchError
    from pixi.web.search.searxng import SearXNG

    async with Web() as web:
        web.contact = contact
        try:
            found = await SearXNG(web, url).search(_TRIED, 3, "en")
        except SearchError as error:
            return False, str(error)
    if not found:
        return False, f"{url} finds nothing for {_TRIED!r}; see which engines it has"
    return True, f"by the SearXNG server at {url}{price}"
