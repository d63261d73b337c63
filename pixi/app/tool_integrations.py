"""Integrations that bring tools: pages of the web, its search, wikis, and the history of a Discord server."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec

from pixi.addons import server_history, web_pages, web_search
from pixi.addons.web_pages import ReadLimits
from pixi.addons.web_search import EngineSearch, McpSearch, SearchBackend
from pixi.addons.wiki import WikiOf, source_of, tool_names, wiki_tools
from pixi.app.integrations import IntegrationContext
from pixi.app.models import searches
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.fetching.web import Web
from pixi.settings import ModelSettings, Settings, WebSearchSettings, WikiSettings
from pixi.web.pages import PageLimits, WebPageReader
from pixi.web.search_engines import DuckDuckGo, SearXNG, require_ddgs
from pixi.web.wiki import Wiki, wikipedia_in

_log = logging.getLogger("pixi.web")


class PagesIntegration:
    """The tool `read_page`.

    Args:
        context: what it stands on.
    """

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._web = Web()
        self._pages = WebPageReader(self._web, PageLimits())
        self._portion: ReadLimits | None = None

    async def apply(self, settings: Settings) -> None:
        """Register the tool as it is wanted now, or take it away.

        Raises:
            ConfigError: what reads pages is not installed.
        """
        self._web.contact = settings.web_pages.contact
        wanted = settings.web_pages
        context = self._context
        if not wanted.read:
            context.tools.remove(web_pages.SOURCE)
            self._portion = None
            return
        check_installed()
        self._pages.limits = PageLimits(wanted.robots, round(wanted.megabytes * 1_000_000), wanted.seconds)
        portion = ReadLimits(wanted.characters, settings.limits.tool_result_bytes, wanted.personas)
        if portion != self._portion:
            context.tools.remove(web_pages.SOURCE)
            web_pages.web_pages(self._pages, self._context.library.reader, context.tools.mask, portion)(
                context.addon
            )
            self._portion = portion

    async def close(self) -> None:
        """Give back the connections, and end what reads."""
        await self._pages.close()
        await self._web.close()


def check_installed() -> None:
    """See that what reads pages is here.

    Raises:
        ConfigError: it is not.
    """
    if any(find_spec(name) is None for name in ("trafilatura", "protego")):
        raise ConfigError('[web_pages] read = true needs `pip install "pixi-persona[web]"`.')


class SearchIntegration:
    """The tool that searches.

    Args:
        context: what it stands on.
    """

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._web = Web()
        self._known: tuple[WebSearchSettings, bool] | None = None
        self._told: set[str] = set()

    async def apply(self, settings: Settings) -> None:
        """Register the tool as the settings want it.

        Raises:
            ConfigError: a library is missing.
        """
        self._web.contact = settings.web_pages.contact
        wanted = settings.web_search
        context = self._context
        context.engine_settings.search_price = wanted.price if wanted.engine == "native" else None
        if wanted.engine == "native":
            self._look_at(settings.model)
        elif wanted.engine == "duckduckgo":
            require_ddgs()
        if (wanted, settings.web_pages.read) == self._known:
            return
        context.tools.remove(web_search.SOURCE)
        context.tools.announce(web_search.SOURCE)
        if wanted.engine != "off":
            web_search.web_search_tool(
                self._way(wanted),
                context.tools.mask,
                results=wanted.results,
                price=_price(wanted),
                personas=wanted.personas,
                reads_pages=settings.web_pages.read,
            )(context.addon)
        self._known = (wanted, settings.web_pages.read)

    async def close(self) -> None:
        """Give back the connections."""
        await self._web.close()

    def _way(self, wanted: WebSearchSettings) -> SearchBackend:
        if wanted.engine == "mcp":
            return McpSearch(self._context.tools, wanted.tool)
        if wanted.engine == "searxng":
            return EngineSearch(SearXNG(self._web, wanted.url))
        return EngineSearch(DuckDuckGo())

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
    """Return the price of one search. Nobody pays for DuckDuckGo, nor for a server of one's own."""
    if wanted.engine == "native":
        return 0.0  # the tool asks DuckDuckGo then
    return 0.0 if wanted.price is None and wanted.engine != "mcp" else wanted.price


class WikiIntegration:
    """The tools of all wikis.

    Args:
        context: what it stands on.
    """

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._web = Web()
        self._wikipedias: dict[str, Wiki] = {}
        self._known: dict[str, WikiSettings] = {}

    async def apply(self, settings: Settings) -> None:
        """Register the tools of wikis that came or changed, and take away those of others.

        Raises:
            ConfigError: the tools of two would be called the same, or as another tool is.
        """
        self._web.contact = settings.web_pages.contact
        _check_names(settings.wiki)
        context = self._context
        for name in [name for name, known in self._known.items() if settings.wiki.get(name) != known]:
            context.tools.remove(source_of(name))
            del self._known[name]
        for name, wanted in settings.wiki.items():
            if name not in self._known:
                setup = wiki_tools(
                    name,
                    self._wiki_of(wanted),
                    self._context.library.reader,
                    context.tools.mask,
                    about=_about(name, wanted),
                    personas=wanted.personas,
                )
                context.tools.remove(source_of(name))  # what an earlier try may have left
                setup(context.addon)
                self._known[name] = wanted

    async def close(self) -> None:
        """Give back the connections."""
        await self._web.close()

    def _wiki_of(self, wanted: WikiSettings) -> WikiOf:
        if wanted.url:
            wiki = Wiki(self._web, wanted.url, trusted=True)
            return lambda _: wiki
        return self._wikipedia_of

    def _wikipedia_of(self, persona: Persona) -> Wiki:
        """Wikipedia in the persona's language, the same one each time."""
        url, variant = wikipedia_in(persona.language)
        key = f"{url} {variant}"
        if key not in self._wikipedias:
            self._wikipedias[key] = Wiki(self._web, url, trusted=False, variant=variant)
        return self._wikipedias[key]


def _about(name: str, wanted: WikiSettings) -> str:
    """Return what the model is told of the tool."""
    if wanted.about:
        return f"the wiki {name}: {wanted.about}"
    return f"the wiki {name}" if wanted.url else "Wikipedia, the encyclopedia"


def _check_names(wikis: Mapping[str, WikiSettings]) -> None:
    called: dict[tuple[str, str], str] = {}
    for name in wikis:
        other = called.setdefault(tool_names(name), name)
        if other != name:
            raise ConfigError(
                f"[wiki.{other}] and [wiki.{name}]: their tools would both be called {tool_names(name)[0]}; "
                "rename one of them."
            )


class HistoryIntegration:
    """The tools that look a server's history up."""

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._open = False
        self._context.tools.announce(
            server_history.SOURCE
        )  # a persona that names it goes without, where it is off

    async def apply(self, settings: Settings) -> None:
        """Register them, or take them away.

        Raises:
            ConfigError: the name of one is taken.
        """
        wanted = settings.discord.read_history
        if wanted and not self._open:
            try:
                server_history.setup(self._context.addon)
            except ConfigError:  # an addon has a tool of that name
                self._context.tools.remove(server_history.SOURCE)
                raise
        elif self._open and not wanted:
            self._context.tools.remove(server_history.SOURCE)
        self._open = wanted

    async def close(self) -> None:
        """Take them away."""
        if self._open:
            self._context.tools.remove(server_history.SOURCE)
        self._open = False
