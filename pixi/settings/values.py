"""Checks settings and makes typed values of them: known keys, the type of each, the bounds of numbers.

An unknown key is an error that names the nearest. The types and the bounds are those of the fields in
`pixi.settings.sections`.
"""

import dataclasses
import json
import re
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from pixi.core.errors import ConfigError
from pixi.core.llm import Prices
from pixi.settings.secret import Secret
from pixi.settings.sections import DEFAULT_MODEL, SECTIONS, ModelSettings
from pixi.settings.sources import ADDON, INNER, MODELS, NAMED, PRICES, Faults, Given, section_and_key

_ALL_SECTIONS = tuple(dict.fromkeys((*SECTIONS, MODELS, PRICES, ADDON)))
_TOP_LEVEL = ("addons", *_ALL_SECTIONS)
_WHAT_EACH_IS = {
    MODELS: "each further model",
    "mcp": "each MCP server",
    "wiki": "each wiki",
    ADDON: "each addon",
}

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
    """Return the key whose type a key has: `model.name` for `models.fast.name` and `model.fallback.name`."""
    section, _, name = key.partition(".")
    usual = f"{_kind(section)}.{name.partition('.')[2]}" if section in NAMED else key
    return usual.replace(".fallback.", ".", 1)


def is_section(key: str) -> bool:
    """Return True if a key names a section rather than a value."""
    return key in _ALL_SECTIONS or (key.partition(".")[0] in NAMED and key.count(".") == 1)


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


def check_known(given: Given) -> None:
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
        raise ConfigError(f"{given.place}: there is no section [{section}]{nearest(section, _ALL_SECTIONS)}")
    else:
        check_in_section(key, section, f"[{section}]", given.place)


def check_in_section(key: str, section: str, title: str, place: str) -> None:
    """See that a section has a key. `title`: its header at that place.

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
            f"{given.place}: {_WHAT_EACH_IS[section]} is a section: write [{section}.NAME] and its keys."
        )
    _check_name(given, section, name)
    if section == ADDON:
        return
    check_in_section(key, _kind(section), f"[{section}.{name}]", given.place)
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
    if given.key in _ALL_SECTIONS:
        if given.value != {}:
            title = _title(given.key)
            raise ConfigError(f"{given.place}: {given.key} is a section; write {title} and its keys below.")
        return
    homes = [_title(name) for name, keys in known_keys().items() if given.key in keys]
    mend = f"; it belongs in {homes[0]}." if homes else nearest(given.key, _TOP_LEVEL)
    raise ConfigError(f"{given.place}: there is no setting {given.key!r}{mend}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of an error text about an unknown word: what was probably meant, or all known words."""
    names = [*known]
    if best := _closest(word, names):
        return f"; did you mean {best!r}?"
    return f". Known are: {', '.join(names)}." if names else "."


def _closest(word: str, known: Iterable[str]) -> str | None:
    from rapidfuzz import fuzz, process  # late: only a mistake needs it

    best = process.extractOne(word.lower(), list(known), scorer=fuzz.ratio, score_cutoff=60)
    return best[0] if best else None


_URLS = {
    "model.base_url": "https://api.openai.com/v1",
    "helper_model.base_url": "https://api.openai.com/v1",
    "embedding_model.base_url": "https://api.openai.com/v1",
    "discord.api_url": "https://discord.com/api/v10",
    "mcp.url": "https://mcp.example.org/mcp",
    "web_search.url": "http://localhost:8080",
    "wiki.url": "https://minecraft.wiki",
    "monitoring.traces": "http://localhost:4318",
}
"""Keys that must be an address, and one of its kind."""

_CONTACT = "web_pages.contact"
_MAY_BE_EMPTY = {
    *(
        "discord.api_url",
        "mcp.url",
        "web_search.url",
        "wiki.url",
        "wiki.about",
        "http.silence",
        "http.address_header",
        "monitoring.traces",
        _CONTACT,
    )
}
_SNOWFLAKES = range(1, 2**64)
"""Discord's ids: more than `msgspec.Meta` can bound."""

_DOLLARS = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
"""Price of a million tokens."""

_PRICE_NAMES = ("prompt", "completion", "cached")


def value_of(given: Given, folder: Path) -> Any:
    """Return the value, typed and checked. Paths are taken from `folder`.

    Raises:
        ConfigError: it is of the wrong type, out of range, or no address.
    """
    kind = _kind_of(given.key)
    converted = value_as(kind, given, folder)
    if converted == Secret(""):
        return None
    if _without_none(kind) is not Prices:
        _check_value(given, kind, converted)
    return converted


def value_as(kind: Any, given: Given, folder: Path) -> Any:
    """Return the value as that type. Paths are taken from `folder`.

    Raises:
        ConfigError: it is of another.
    """
    value = given.value.strip() if given.text and isinstance(given.value, str) else given.value
    if given.text and isinstance(value, str):
        value = _unpacked(value, kind)
    if _without_none(kind) is Prices:
        return _prices(given, value, kind)
    # Discord's ids are numbers that people like to write in quotes.
    lax = given.text or kind == tuple[int, ...]
    try:
        return msgspec.convert(value, kind, strict=not lax, dec_hook=_decoder(folder))
    except msgspec.ValidationError:
        raise _wrong(given, kind) from None


def _kind_of(key: str) -> Any:
    section, dot, name = section_and_key(usual_key(key))
    if section == PRICES:
        return Prices
    return get_type_hints(SECTIONS[section], include_extras=True)[name] if dot else tuple[Path, ...]


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (part for part in get_args(kind) if part is not types.NoneType)
    return kind


def _unpacked(text: str, kind: Any) -> object:
    """Return the list or table that a variable or flag says: in JSON, or a list as words between commas."""
    plain = _without_none(kind)
    shape = get_origin(plain)
    if (shape in (tuple, Mapping) or plain is Prices) and text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if shape is tuple:
        return [word.strip() for word in text.split(",") if word.strip()]
    return text


def _decoder(folder: Path) -> Callable[[type, object], object]:
    """Return the function by which msgspec makes a `Secret` or a path of text."""

    def convert(kind: type, value: object) -> object:
        if not isinstance(value, str):
            raise TypeError("text is wanted")
        if kind is Secret:
            return Secret(value.strip())
        if not value.strip():
            raise ValueError("a path is wanted")
        return folder / Path(value).expanduser()

    return convert


def _prices(given: Given, value: object, kind: Any) -> Prices:
    """Return a table of dollars; a cached token costs as much as any other where nothing else is said."""
    if not isinstance(value, dict):
        raise _wrong(given, kind)
    for name, each in value.items():
        if given.key.startswith(f"{PRICES}.") and isinstance(each, dict):  # TOML takes its dot for a section
            whole = f"{given.key.removeprefix(f'{PRICES}.')}.{name}"
            raise ConfigError(f'{given.place}: put the name of the model in quotes: "{whole}" = {{ … }}')
        if name not in _PRICE_NAMES:
            raise ConfigError(f"{given.place}: {given.key} has no key {name!r}{nearest(name, _PRICE_NAMES)}")
    try:
        told = msgspec.convert(value, dict[str, _DOLLARS])
    except msgspec.ValidationError:
        raise _wrong(given, kind) from None
    needed = {"prompt"} if given.key == "embedding_model.prices" else {"prompt", "completion"}
    if not needed <= told.keys():
        raise _wrong(given, kind)
    return Prices(told["prompt"], told.get("completion", 0.0), told.get("cached", told["prompt"]))


def _check_value(given: Given, kind: Any, value: Any) -> None:
    usual = usual_key(given.key)
    if kind == tuple[int, ...]:
        if not all(each in _SNOWFLAKES for each in value):
            raise _wrong(given, kind)
    elif value == "" and usual not in _MAY_BE_EMPTY:
        raise ConfigError(f"{given.place}: {given.key} is empty; give it a value or remove the line.")
    elif usual in _URLS and value and not _is_url(value):
        raise _wrong(given, f"an address such as {_URLS[usual]}")
    elif usual == _CONTACT and value and not _is_contact(value):
        raise _wrong(given, "a mail address or that of a web page, such as https://example.org/about-our-bot")
    elif isinstance(value, Secret) and not _is_header_text(value.reveal()):
        what = "token" if usual == "discord.token" else "key"
        raise ConfigError(
            f"{given.place}: {given.key} is not a {what}; copy it again, without spaces or quotes."
        )
    elif isinstance(value, Mapping):
        plain = {key: each.reveal() if isinstance(each, Secret) else each for key, each in value.items()}
        try:
            json.dumps(plain, allow_nan=False)
        except (TypeError, ValueError):
            raise _wrong(given, "a table of what JSON can say: texts, numbers, lists, tables") from None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_header_text(text: str) -> bool:
    """Return whether a server could be sent it as a key."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _is_contact(text: str) -> bool:
    """Return whether people can be reached there, and a header can say so in parentheses."""
    name, at, host = text.partition("@")
    is_mail = bool(name and at) and "." in host and not set(text) & set('/:,;"<>')
    return _is_header_text(text) and not set(text) & set("()\\") and (is_mail or _is_url(text))


def _wrong(given: Given, wanted: Any) -> ConfigError:
    words = wanted if isinstance(wanted, str) else _words_for(wanted)
    kind = wanted if given.key.startswith(f"{ADDON}.") else _kind_of(given.key)
    return ConfigError(f"{given.place}: {given.key}{_shown(given, kind)}; it must be {words}.")


def _shown(given: Given, kind: Any) -> str:
    """Return what was given, unless it may hold a secret."""
    text = json.dumps(given.value, ensure_ascii=False, default=str)
    if "Secret" in str(kind) or "@" in text:
        return " is wrong"
    return f" is {text if len(text) <= 60 else text[:57] + '…'}"


def words_for_key(key: str) -> str:
    """Describe the values that a setting takes, in the operator's words."""
    usual = usual_key(key)
    return "an address" if usual in _URLS else _words_for(_kind_of(key))


def _words_for(kind: Any) -> str:
    """Return a type in the operator's words."""
    kind = _without_none(kind)
    if get_origin(kind) is Annotated:
        plain, bounds = get_args(kind)
        return f"{_words_for(plain)} from {bounds.ge:,} to {bounds.le:,}"
    if get_origin(kind) is Literal:
        return f"one of {_choices(kind)}"
    if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Literal:
        return f"a list of any of {_choices(get_args(kind)[0])}"
    return {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text in quotes",
        Path: "a path in quotes",
        Secret: "text in quotes",
        tuple[int, ...]: "a list of ids such as [123456789012345678]",
        tuple[str, ...]: "a list of texts",
        tuple[Path, ...]: "a list of paths",
        tuple[ModelSettings, ...]: "a list of tables",
        Prices: "dollars for a million tokens, such as { prompt = 1.25, completion = 10, cached = 0.125 }, "
        "each from 0 to 1,000,000",
    }.get(kind, "a table")


def _choices(kind: Any) -> str:
    return ", ".join(json.dumps(choice) for choice in get_args(kind))


T = TypeVar("T")


def addon_settings(name: str, kind: type[T], given: Mapping[str, Given], folder: Path) -> T:
    """Return the settings of an addon.

    Args:
        name: of its section, e.g. `companion`.
        kind: a dataclass with defaults, whose fields are the keys.
        given: what stands in the section, by key.
        folder: from which paths are taken.

    Raises:
        ConfigError: a key is not known, or of another type. All that is wrong is told at once.
    """
    hints = get_type_hints(kind)
    faults = Faults()
    values: dict[str, object] = {}
    for key, each in given.items():
        with faults.noted():
            if key not in hints:
                raise ConfigError(f"{each.place}: [addon.{name}] has no key {key!r}{nearest(key, hints)}")
            values[key] = value_as(hints[key], each, folder)
    faults.tell()
    return kind(**values)
