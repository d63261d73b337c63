"""The search of the web of `[web_search]`: the tool, whoever searches behind it, and what a search costs."""

import logging

from pixi.addons.mcp_search import McpSearch
from pixi.addons.web_search import SOURCE, OwnSearch, Way, web_search_tool
from pixi.app.doors import searches
from pixi.app.reach.part import Grounds
from pixi.fetching.web import Web
from pixi.settings import ModelSettings, Settings, WebSearchSettings
from pixi.web.search.duckduckgo import DuckDuckGo, require_ddgs
from pixi.web.search.searxng import SearXNG

_log = logging.getLogger("pixi.web")


def part_on(grounds: Grounds) -> "WebSearch":
    """The part, on an engine."""
    return WebSearch(grounds)


class WebSearch:
    """The tool that searches.

    Args:
        grounds: what it stands on.
    """

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._web = Web()
        self._known: tuple[WebSearchSettings, bool] | None = None
        self._told: set[str] = set()

    async def go_by(self, settings: Settings) -> None:
        """Register the tool as the settings want it.

        Raises:
            ConfigError: a library is missing.
        """
        self._web.contact = settings.web_pages.contact
        wanted = settings.web_search
        grounds = self._grounds
        grounds.engine_settings.search_price = wanted.price if wanted.engine == "native" else None
        if wanted.engine == "native":
            self._look_at(settings.model)
        elif wanted.engine == "duckduckgo":
            require_ddgs()
        if (wanted, settings.web_pages.read) == self._known:
            return
        grounds.tools.remove(SOURCE)
        grounds.tools.announce(SOURCE)
        if wanted.engine != "off":
            web_search_tool(
                self._way(wanted),
                grounds.tools.mask,
                results=wanted.results,
                price=_price(wanted),
                personas=wanted.personas,
                reads_pages=settings.web_pages.read,
            )(grounds.addon)
        self._known = (wanted, settings.web_pages.read)

    async def close(self) -> None:
        """Give back the connections."""
        await self._web.close()

    def _way(self, wanted: WebSearchSettings) -> Way:
        if wanted.engine == "mcp":
            return McpSearch(self._grounds.tools, wanted.tool)
        if wanted.engine == "searxng":
            return OwnSearch(SearXNG(self._web, wanted.url))
        return OwnSearch(DuckDuckGo())

    def _look_at(self, model: ModelSettings) -> None:
        """Say once where the model cannot search by itself, so that another must."""
        if searches(model):
            return
        require_ddgs()
        if model.name not in self._told:
            self._told.add(model.name)
            _log.warning(
                "%s cannot search the web by itself; DuckDuckGo is asked in its place ([web_search])",
                model.name,
            )


def _price(wanted: WebSearchSettings) -> float | None:
    """Of one search by the tool. Nobody pays for DuckDuckGo, nor for a server of one's own."""
    if wanted.engine == "native":
        return 0.0  # the tool asks DuckDuckGo then
    return 0.0 if wanted.price is None and wanted.engine != "mcp" else wanted.price
