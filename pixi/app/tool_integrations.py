"""The built-in integrations that bring tools: web pages, web search, wikis, a Discord server's history."""

import logging
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

from pixi.addons import server_history
from pixi.addons.web import (
    PAGES_SOURCE,
    SEARCH_SOURCE,
    EngineSearch,
    McpSearch,
    ReadLimits,
    SearchBackend,
    web_pages,
    web_search_tool,
)
from pixi.addons.wiki import WikiOf, source_of, tool_names, wiki_tools
from pixi.app.integrations import Integrations
from pixi.app.models import searches
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.fetching.web import Web
from pixi.settings import Settings, WebSearchSettings, WikiSettings
from pixi.toolbox.addon import Addon
from pixi.web.pages import PageLimits, WebPageReader
from pixi.web.search_engines import DuckDuckGo, SearXNG, require_ddgs
from pixi.web.wiki import Wiki, wikipedia_in

_log = logging.getLogger("pixi.web")


async def apply_pages(integrations: Integrations, settings: Settings) -> None:
    """Register the tool `read_page`, or take it away.

    Raises:
        ConfigError: what reads pages is not installed.
    """
    wanted = settings.web_pages
    if not wanted.read:
        integrations.bring(PAGES_SOURCE)
        return
    require_page_reader()
    # Its own connections: hosts that hang, of which there are many, hold up nothing else.
    web = integrations.once("web of pages", Web)
    web.contact = wanted.contact
    pages = integrations.once("pages", lambda: WebPageReader(web, PageLimits()))
    pages.limits = PageLimits(wanted.robots, round(wanted.megabytes * 1_000_000), wanted.seconds)
    portion = ReadLimits(wanted.characters, settings.limits.tool_result_bytes, wanted.personas)
    setup = web_pages(pages, integrations.library.reader, integrations.tools.mask, portion)
    integrations.bring(PAGES_SOURCE, portion, setup)


def require_page_reader() -> None:
    """See that the libraries which read pages are installed.

    Raises:
        ConfigError: they are not.
    """
    if any(find_spec(name) is None for name in ("trafilatura", "protego")):
        raise ConfigError('[web_pages] read = true needs `pip install "pixi-persona[web]"`.')


async def apply_search(integrations: Integrations, settings: Settings) -> None:
    """Register the tool that searches as the settings want it, or take it away.

    Raises:
        ConfigError: a library is missing.
    """
    wanted = settings.web_search
    is_native = wanted.engine == "native"
    cannot = settings.model.name if is_native and not searches(settings.model) else None
    integrations.engine_settings.search_price = wanted.price if is_native else None
    if cannot is not None or wanted.engine == "duckduckgo":
        require_ddgs()
    if cannot is not None and cannot != integrations.cannot_search:
        _log.warning(
            "%s cannot search the web by itself; DuckDuckGo is asked in its place ([web_search])", cannot
        )
    integrations.cannot_search = cannot

    def setup(addon: Addon) -> None:
        web_search_tool(
            _backend(integrations, wanted),
            integrations.tools.mask,
            results=wanted.results,
            price=_price(wanted),
            personas=wanted.personas,
            reads_pages=settings.web_pages.read,
        )(addon)

    integrations.tools.announce(SEARCH_SOURCE)
    key = None if wanted.engine == "off" else (wanted, settings.web_pages.read, cannot)
    integrations.bring(SEARCH_SOURCE, key, setup)


def _backend(integrations: Integrations, wanted: WebSearchSettings) -> SearchBackend:
    if wanted.engine == "mcp":
        return McpSearch(integrations.tools, wanted.tool)
    if wanted.engine == "searxng":
        return EngineSearch(SearXNG(integrations.once("web", Web), wanted.url))
    return EngineSearch(DuckDuckGo())


def _price(wanted: WebSearchSettings) -> float | None:
    """Return the price of one search. Nobody pays for DuckDuckGo, nor for a server of one's own."""
    if wanted.engine == "native":
        return 0.0  # the tool asks DuckDuckGo then
    return 0.0 if wanted.price is None and wanted.engine != "mcp" else wanted.price


async def apply_wikis(integrations: Integrations, settings: Settings) -> None:
    """Register the tools of wikis that came or changed, and take away those of others.

    Raises:
        ConfigError: the tools of two would be called the same, or as another tool is.
    """
    _check_names(settings.wiki)
    web = integrations.once("web", Web)
    named = {source_of(name) for name in settings.wiki}
    for source in integrations.sources:
        if source.startswith(source_of("")) and source not in named:
            integrations.bring(source)
    for name, wanted in settings.wiki.items():
        setup = wiki_tools(
            name,
            _wiki_of(web, wanted),
            integrations.library.reader,
            integrations.tools.mask,
            about=_about(name, wanted),
            personas=wanted.personas,
        )
        integrations.bring(source_of(name), wanted, setup)


def _wiki_of(web: Web, wanted: WikiSettings) -> WikiOf:
    """Return what gives the wiki of a persona: Wikipedia in its language, the same one each time."""
    if wanted.url:
        wiki = Wiki(web, wanted.url, trusted=True)
        return lambda _: wiki

    @cache
    def wikipedia(url: str, variant: str) -> Wiki:
        return Wiki(web, url, trusted=False, variant=variant)

    def wikipedia_of(persona: Persona) -> Wiki:
        return wikipedia(*wikipedia_in(persona.language))

    return wikipedia_of


def _about(name: str, wanted: WikiSettings) -> str:
    """Return what the model is told of the tool."""
    if wanted.about:
        return f"the wiki {name}: {wanted.about}"
    return f"the wiki {name}" if wanted.url else "Wikipedia, the encyclopedia"


def _check_names(wikis: Iterable[str]) -> None:
    called: dict[tuple[str, str], str] = {}
    for name in wikis:
        other = called.setdefault(tool_names(name), name)
        if other != name:
            raise ConfigError(
                f"[wiki.{other}] and [wiki.{name}]: their tools would both be called {tool_names(name)[0]}; "
                "rename one of them."
            )


async def apply_history(integrations: Integrations, settings: Settings) -> None:
    """Register the tools that look a server's history up, or take them away.

    Raises:
        ConfigError: the name of one is taken.
    """
    # A persona that names it goes without, where it is off.
    integrations.tools.announce(server_history.SOURCE)
    integrations.bring(server_history.SOURCE, settings.discord.read_history or None, server_history.setup)
