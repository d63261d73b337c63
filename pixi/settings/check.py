"""Which settings there are: a key that nobody knows is an error that names the nearest."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from pixi.core.errors import ConfigError
from pixi.settings.given import MODELS, PRICES, Given
from pixi.settings.sections import (
    DEFAULT_MODEL,
    DatabaseSettings,
    DiscordSettings,
    EmbeddingSettings,
    HistorySettings,
    LimitSettings,
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
    "history": HistorySettings,
    "databases": DatabaseSettings,
    "store": StoreSettings,
    "discord": DiscordSettings,
    "limits": LimitSettings,
}
"""All but `[models.NAME]`, of which there can be any number, and `[prices]`, whose keys are models' names."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def known_keys() -> dict[str, list[str]]:
    """The keys of each section."""
    return {name: [field.name for field in dataclasses.fields(kind)] for name, kind in SECTIONS.items()}


def usual_key(key: str) -> str:
    """The key that another follows: `model.name` for `models.fast.name` and for `model.fallback.name`."""
    section, _, name = key.partition(".")
    usual = f"model.{name.partition('.')[2]}" if section == MODELS else key
    return usual.replace(".fallback.", ".", 1)


def is_section(key: str) -> bool:
    """Whether it names a section rather than a value."""
    return key in (*SECTIONS, MODELS, PRICES) or (key.startswith(f"{MODELS}.") and key.count(".") == 1)


def check_key(given: Given) -> None:
    """See that there is such a setting.

    Raises:
        ConfigError: there is none; the text names the nearest.
    """
    section, dot, key = given.key.partition(".")
    if not dot:
        _check_top_level(given)
    elif section == MODELS:
        _check_named_model(given, *key.partition("."))
    elif section == PRICES:
        pass  # any name is a model's
    elif section not in SECTIONS:
        raise ConfigError(
            f"{given.place}: there is no section [{section}]{nearest(section, (*SECTIONS, MODELS, PRICES))}"
        )
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
        homes = [f"[{name}]" for name in keys if key in keys[name]]
        mend = f"; it belongs in {homes[0]}." if homes else nearest(key, keys[section])
        raise ConfigError(f"{place}: {title} has no key {key!r}{mend}")


def _check_named_model(given: Given, name: str, dot: str, key: str) -> None:
    if not dot:
        if given.value == {}:  # a section without keys: the same as [model]
            _check_name(given, name)
            return
        raise ConfigError(
            f"{given.place}: each further model is a section: write [models.NAME] and its keys."
        )
    _check_name(given, name)
    _check_in("model", f"{MODELS}.{name}", key, given)


def _check_name(given: Given, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{given.place}: [{MODELS}.{name[:40]}] cannot be chosen by that name; "
            "it must be small letters, digits, - and _."
        )
    if name == DEFAULT_MODEL:
        raise ConfigError(
            f"{given.place}: the model called {name!r} is [model] itself; name this one otherwise."
        )


def _check_top_level(given: Given) -> None:
    if given.key == "addons":
        return
    if given.key in (*SECTIONS, MODELS, PRICES):
        if given.value != {}:
            title = f"{MODELS}.NAME" if given.key == MODELS else given.key
            raise ConfigError(f"{given.place}: {given.key} is a section; write [{title}] and its keys below.")
        return
    homes = [f"[{name}]" for name, keys in known_keys().items() if given.key in keys]
    known = ["addons", *SECTIONS, MODELS, PRICES]
    mend = f"; it belongs in {homes[0]}." if homes else nearest(given.key, known)
    raise ConfigError(f"{given.place}: there is no setting {given.key!r}{mend}")


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error text about an unknown word: what was probably meant, or all that is known."""
    # Imported here: only a mistake needs it.
    from rapidfuzz import fuzz, process

    best = process.extractOne(word.lower(), list(known), scorer=fuzz.ratio, score_cutoff=60)
    return f"; did you mean {best[0]!r}?" if best else f". Known are: {', '.join(known)}."
