"""Whether the settings of `[web_search]` can hold together."""

from collections.abc import Mapping

from pixi.core.errors import ConfigError
from pixi.settings.check import nearest
from pixi.settings.given import Given
from pixi.settings.sections import Settings


def check_search(settings: Settings, origins: Mapping[str, Given]) -> None:
    """See that whoever is to search can be asked, and that it is known what a search costs where that counts.

    Raises:
        ConfigError: it cannot; the text names the mend.
    """
    search = settings.web_search
    faults: list[str] = []
    given = origins.get("web_search.engine")
    place = given.place if given is not None else "[web_search]"
    if search.engine == "searxng" and not search.url:
        faults.append(
            f'{place}: engine = "searxng" needs the address of your server; '
            'add url = "http://localhost:8080" to [web_search].'
        )
    if search.engine == "mcp" and (fault := _tool_fault(settings, place, origins)):
        faults.append(fault)
    stop = origins.get("limits.month_dollars")
    if (
        settings.limits.month_dollars is not None
        and search.engine in ("native", "mcp")
        and search.price is None
    ):
        where = stop.place if stop is not None else "[limits]"
        faults.append(
            f"{where}: month_dollars needs the price of each search of the web; "
            "add price = … (dollars for one) to [web_search], with 0 if it costs nothing."
        )
    if faults:
        raise ConfigError(*faults)


def _tool_fault(settings: Settings, place: str, origins: Mapping[str, Given]) -> str:
    """Say what is wrong with the tool that is to search; "" where nothing is."""
    tool = settings.web_search.tool
    if not tool:
        return (
            f'{place}: engine = "mcp" needs the tool that searches; add tool = "SERVER.TOOL" to [web_search].'
        )
    place = origins["web_search.tool"].place
    server, dot, name = tool.partition(".")
    if not dot or not server or not name:
        return f'{place}: web_search.tool is {tool!r}; write the MCP server and its tool, as "SERVER.TOOL".'
    if server not in settings.mcp:
        mend = nearest(server, settings.mcp) if settings.mcp else f"; add a section [mcp.{server}]."
        return f"{place}: web_search.tool names the MCP server {server!r}, which is not there{mend}"
    return ""
