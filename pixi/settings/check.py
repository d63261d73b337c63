"""From a value that somebody gave to the value of a setting, or one line that says what is wrong with it."""

import dataclasses
import json
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from pixi.core.errors import ConfigError
from pixi.core.limits import Limits
from pixi.settings.given import Given
from pixi.settings.secret import Secret
from pixi.settings.sections import (
    DatabaseSettings,
    DiscordSettings,
    EmbeddingSettings,
    ModelSettings,
    PersonaSettings,
    ReplySettings,
    StoreSettings,
)

SECTIONS: Mapping[str, type] = {
    "model": ModelSettings,
    "helper_model": ModelSettings,
    "embedding_model": EmbeddingSettings,
    "persona": PersonaSettings,
    "reply": ReplySettings,
    "databases": DatabaseSettings,
    "store": StoreSettings,
    "discord": DiscordSettings,
    "limits": Limits,
}

_MODEL_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 5),
    "max_tokens": (1, 1_000_000),
    "context_tokens": (512, 100_000_000),
    "first_seconds": (0.01, 3_600),
    "gap_seconds": (0.01, 3_600),
}
RANGES: Mapping[str, tuple[float, float]] = {
    **{f"model.{key}": bounds for key, bounds in _MODEL_RANGES.items()},
    **{f"helper_model.{key}": bounds for key, bounds in _MODEL_RANGES.items()},
    "limits.commands": (1, 1_000),
    "limits.messages": (1, 1_000),
    "limits.reactions": (0, 1_000),
    "limits.argument_characters": (1, 1_000_000),
    "limits.reply_characters": (1, 10_000_000),
    "limits.tool_steps": (0, 1_000),
    "limits.tool_calls": (1, 1_000),
    "limits.tool_seconds": (0.01, 3_600),
    "limits.tool_result_bytes": (64, 100_000_000),
    "limits.seconds": (0.1, 86_400),
    "limits.restarts": (0, 100),
}
"""The least and the most that each number may be."""

_URLS = {"model.base_url", "helper_model.base_url", "embedding_model.base_url", "discord.api_url"}
_MAY_BE_EMPTY = {"discord.api_url"}


def known_keys() -> dict[str, list[str]]:
    """The keys of each section."""
    return {name: [field.name for field in dataclasses.fields(kind)] for name, kind in SECTIONS.items()}


def check_key(given: Given) -> None:
    """See that there is such a setting.

    Raises:
        ConfigError: there is none; the text names the nearest.
    """
    section, dot, key = given.key.partition(".")
    if not dot:
        _check_top_level(given)
    elif section not in SECTIONS:
        raise ConfigError(f"{given.place}: there is no section [{section}]{_nearest(section, SECTIONS)}")
    elif key not in known_keys()[section]:
        homes = [f"[{name}]" for name, keys in known_keys().items() if key in keys]
        mend = f"; it belongs in {homes[0]}." if homes else _nearest(key, known_keys()[section])
        raise ConfigError(f"{given.place}: [{section}] has no key {key!r}{mend}")


def _check_top_level(given: Given) -> None:
    if given.key == "addons":
        return
    if given.key in SECTIONS:
        if given.value != {}:
            raise ConfigError(
                f"{given.place}: {given.key} is a section; write [{given.key}] and its keys below."
            )
        return
    homes = [f"[{name}]" for name, keys in known_keys().items() if given.key in keys]
    mend = f"; it belongs in {homes[0]}." if homes else _nearest(given.key, ["addons", *SECTIONS])
    raise ConfigError(f"{given.place}: there is no setting {given.key!r}{mend}")


def _nearest(word: str, known: Iterable[str]) -> str:
    # Imported here: only a mistake needs it.
    from rapidfuzz import fuzz, process

    best = process.extractOne(word.lower(), list(known), scorer=fuzz.ratio, score_cutoff=60)
    return f"; did you mean {best[0]!r}?" if best else f". Known are: {', '.join(known)}."


def value_of(given: Given, folder: Path) -> Any:
    """The value, typed and checked. Paths are taken from `folder`.

    Raises:
        ConfigError: it is of the wrong type, out of range, or no address.
    """
    kind = _kind_of(given.key)
    value = given.value.strip() if given.text and isinstance(given.value, str) else given.value
    if given.text and isinstance(value, str):
        value = _unpacked(value, kind)
    # Discord's ids are numbers that people like to write in quotes.
    lax = given.text or kind == tuple[int, ...]
    try:
        converted = msgspec.convert(value, kind, strict=not lax, dec_hook=_hook(folder))
    except msgspec.ValidationError:
        raise _wrong(given, kind) from None
    if converted == Secret(""):
        return None
    _check_value(given, kind, converted)
    return converted


def _kind_of(key: str) -> Any:
    section, dot, name = key.partition(".")
    return get_type_hints(SECTIONS[section])[name] if dot else tuple[Path, ...]


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not types.NoneType)
    return kind


def _unpacked(text: str, kind: Any) -> object:
    """Text of a variable or flag for a list or a table: JSON, or for a list words with commas between."""
    shape = get_origin(_without_none(kind))
    if shape in (tuple, Mapping) and text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [word.strip() for word in text.split(",") if word.strip()] if shape is tuple else text


def _hook(folder: Path) -> Callable[[type, object], object]:
    """How msgspec makes our own types of text."""

    def convert(kind: type, value: object) -> object:
        if not isinstance(value, str):
            raise TypeError("text is wanted")
        if kind is Secret:
            return Secret(value.strip())
        if not value.strip():
            raise ValueError("a path is wanted")
        return folder / Path(value).expanduser()

    return convert


def _check_value(given: Given, kind: Any, value: Any) -> None:
    if given.key in RANGES and value is not None:
        low, high = RANGES[given.key]
        if not low <= value <= high:
            raise _wrong(given, kind)
    elif value == "" and given.key not in _MAY_BE_EMPTY:
        raise ConfigError(f"{given.place}: {given.key} is empty; give it a value or remove the line.")
    elif given.key in _URLS and value and not _is_url(value):
        raise _wrong(given, "an address such as https://api.openai.com/v1")
    elif isinstance(value, Secret) and not _is_header_text(value.reveal()):
        raise ConfigError(
            f"{given.place}: {given.key} is not a key; copy it again, without spaces or quotes."
        )
    elif isinstance(value, Mapping):
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise _wrong(given, "a table of what JSON can say: texts, numbers, lists, tables") from None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_header_text(text: str) -> bool:
    """Whether a server could be sent it as a key."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _wrong(given: Given, wanted: Any) -> ConfigError:
    words = wanted if isinstance(wanted, str) else _words_for(given.key, wanted)
    return ConfigError(f"{given.place}: {given.key}{_shown(given)}; it must be {words}.")


def _shown(given: Given) -> str:
    """What was given, unless it may hold a secret."""
    text = json.dumps(given.value, ensure_ascii=False, default=str)
    if _without_none(_kind_of(given.key)) is Secret or "@" in text:
        return " is wrong"
    return f" is {text if len(text) <= 60 else text[:57] + '…'}"


def _words_for(key: str, kind: Any) -> str:
    """A type in the operator's words."""
    kind = _without_none(kind)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(json.dumps(choice) for choice in get_args(kind))
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text in quotes",
        Path: "a path in quotes",
        Secret: "text in quotes",
        tuple[int, ...]: "a list of ids",
        tuple[str, ...]: "a list of texts",
        tuple[Path, ...]: "a list of paths",
    }.get(kind, "a table")
    if key in RANGES:
        low, high = RANGES[key]
        words += f" from {low:,} to {high:,}"
    return words
