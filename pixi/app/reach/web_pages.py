"""Pages of the web, as `[web_pages]` wants them: the tool that reads them comes and goes with it."""

from importlib.util import find_spec

from pixi.addons.web_pages import SOURCE, Portion, web_pages
from pixi.app.reach.part import Grounds
from pixi.core.errors import ConfigError
from pixi.fetching.web import Web
from pixi.settings import Settings
from pixi.web.pages import PageLimits, WebPageReader


def part_on(grounds: Grounds) -> "WebPages":
    """The part, on an engine."""
    return WebPages(grounds)


class WebPages:
    """The tool `read_page`.

    Args:
        grounds: what it stands on.
    """

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._web = Web()
        self._pages = WebPageReader(self._web, PageLimits())
        self._portion: Portion | None = None

    async def go_by(self, settings: Settings) -> None:
        """Register the tool as it is wanted now, or take it away.

        Raises:
            ConfigError: what reads pages is not installed.
        """
        self._web.contact = settings.web_pages.contact
        wanted = settings.web_pages
        grounds = self._grounds
        if not wanted.read:
            grounds.tools.remove(SOURCE)
            self._portion = None
            return
        check_installed()
        self._pages.limits = PageLimits(wanted.robots, round(wanted.megabytes * 1_000_000), wanted.seconds)
        portion = Portion(wanted.characters, settings.limits.tool_result_bytes, wanted.personas)
        if portion != self._portion:
            grounds.tools.remove(SOURCE)
            web_pages(self._pages, self._grounds.library.reader, grounds.tools.mask, portion)(grounds.addon)
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
