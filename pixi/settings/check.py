"""Known keys of the settings: an unknown one is an error that names the nearest."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from pixi.core.errors import ConfigError
from pixi.settings.sections import DEFAULT_MODEL, SECTIONS, Settings
from pixi.settings.sources import ADDON, INNER, MODELS, NAMED, PRICES, Given, section_and_key

_ALL = (*dict.fromkeys((*SECTIONS, MODELS, PRICES, ADDON)),)
_TOP_LEVEL = ("addons", *_ALL)
_EXAMPLES = {MODELS: "each further model", "mcp": "each MCP server", "wiki": "each wiki", ADDON: "each addon"}

_FROM_THE_FILE = ("command", "args", "folder")
"""Keys of `[mcp.NAME]` not to be set by a variable: its author must not choose what is run."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def known_keys() -> dict[str, list[str]]:
    """Return the keys of each section, without the sections within it."""
    return {
        name: [field.name for field in dataclasses.fields(kind) if f"{name}.{field.name}" not in INNER]
        for name, kind in SECTIONS.items()
    }


def usual_key(key: str) -> str:
    """The key that another follows: `model.name` for `models.fast.name` and for `model.fallback.name`."""
    section, _, name = key.partition(".")
    usual = f"{_kind(section)}.{name.partition('.')[2]}" if section in NAMED else key
    return usual.replace(".fallback.", ".", 1)


def is_section(key: str) -> bool:
    """Return whether it names a section rather than a value."""
    return key in _ALL or (key.partition(".")[0] in NAMED and key.count(".") == 1)


def sections_of(key: str) -> tuple[str, ...]:
    """Return the section that a key is in; where there is no such section, those that may be meant."""
    section, dot, _ = key.partition(".")
    if section in _TOP_LEVEL:
        return (section,)
    homes = () if dot else tuple(name for name, keys in known_keys().items() if key in keys)
    return homes or (_closest(section, _TOP_LEVEL) or section,)


def _kind(named: str) -> str:
    """Return the section whose keys one of `NAMED` has."""
    return "model" if named == MODELS else named


def check_key(given: Given) -> None:
    """See that there is such a setting.

    Raises:
        ConfigError: there is none; the text names the nearest.
    """
    section, dot, key = section_and_key(given.key)
    if not dot or given.key in INNER:
        _check_top_level(given)
    elif section in NAMED:
        _check_named(given, section, *key.partition("."))
    elif section == PRICES:
        pass  # any name is a model's
    elif section not in SECTIONS:
        raise ConfigError(f"{given.place}: there is no section [{section}]{nearest(section, _ALL)}")
    else:
        _check_in(section, section, key, given)


def _check_in(section: str, title: str, key: str, given: Given) -> None:
    check_in(section, f"[{title}]", key, given.place)


def check_in(section: str, title: str, key: str, place: str) -> None:
    """See that a section has a key. `title`: what the section is called there.

    Raises:
        ConfigError: it has none; the text names the nearest, or the section where it belongs.
    """
    keys = known_keys()
    if key not in keys[section]:
        homes = [_title(name) for name in keys if key in keys[name]]
        mend = f"; it belongs in {homes[0]}." if homes else nearest(key, keys[section])
        raise ConfigError(f"{place}: {title} has no key {key!r}{mend}")


def _title(section: str) -> str:
    return f"[{section}.NAME]" if section in NAMED else f"[{section}]"


def _check_named(given: Given, section: str, name: str, dot: str, key: str) -> None:
    if not dot:
        if given.value == {}:  # a section without keys: the same as [model], or all defaults
            _check_name(given, section, name)
            return
        raise ConfigError(
            f"{given.place}: {_EXAMPLES[section]} is a section: write [{section}.NAME] and its keys."
        )
    _check_name(given, section, name)
    if section == ADDON:
        return
    _check_in(_kind(section), f"{section}.{name}", key, given)
    if section == "mcp" and key in _FROM_THE_FILE and given.text:
        raise ConfigError(
            f"{given.place}: what a server runs is taken from the settings file alone; write {key} there, "
            f"under [mcp.{name}]."
        )


def _check_name(given: Given, section: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{given.place}: [{section}.{name[:40]}] cannot be chosen by that name; "
            "it must be small letters, digits, - and _."
        )
    if section == MODELS and name == DEFAULT_MODEL:
        raise ConfigError(
            f"{given.place}: the model called {name!r} is [model] itself; name this one otherwise."
        )


def _check_top_level(given: Given) -> None:
    if given.key == "addons":
        return
    if given.key in _ALL:
        if given.value != {}:
            title = _title(given.key)
            raise ConfigError(f"{given.place}: {given.key} is a section; write {title} and its keys below.")
        return
    homes = [_title(name) for name, keys in known_keys().items() if given.key in keys]
    mend = f"; it belongs in {homes[0]}." if homes else nearest(given.key, _TOP_LEVEL)
    raise ConfigError(f"{given.place}: there is no setting {given.key!r}{mend}")


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error text about an unknown word: what was probably meant, or all that is known."""
    names = [*known]
    if best := _closest(word, names):
        return f"; did you mean {best!r}?"
    return f". Known are: {', '.join(names)}." if names else "."


def _closest(word: str, known: Iterable[str]) -> str | None:
    # Imported here: only a mistake needs it.
    from rapidfuzz import fuzz, process

    best = process.extractOne(word.lower(), list(known), scorer=fuzz.ratio, score_cutoff=60)
    return best[0] if best else None


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
