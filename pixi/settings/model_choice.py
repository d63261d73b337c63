"""Models of the settings: where each runs, its prices, the key of its server, and its fallbacks."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError
from pixi.core.llm import Prices
from pixi.core.providers import key_name_of
from pixi.settings.secret import Secret
from pixi.settings.sections import EmbeddingSettings, ModelSettings, Settings
from pixi.settings.sources import Faults, Given, Variable
from pixi.settings.values import check_in_section, usual_key, value_of


def runs_here(model: ModelSettings | EmbeddingSettings) -> bool:
    """Return whether Pixi runs the model itself, rather than asks a server."""
    return model.name == "local" or model.name.endswith(".gguf")


def with_prices(settings: Settings) -> Settings:
    """Return the settings with the prices of `[prices]` at each model that has none of its own."""
    table, embedding = settings.prices, settings.embedding_model
    if embedding is not None:
        embedding = replace(embedding, prices=embedding.prices or table.get(embedding.name))
    return replace(
        settings,
        model=_priced(settings.model, table),
        models={name: _priced(model, table) for name, model in settings.models.items()},
        helper_model=_priced(settings.helper_model, table),
        embedding_model=embedding,
    )


def check_prices(settings: Settings, stop: str) -> None:
    """See that the price of each model is known, where the month's dollars are limited.

    Args:
        settings: as `with_prices` returns them.
        stop: the place where the month's dollars are set, for the error text.

    Raises:
        ConfigError: a price is not known.
    """
    if settings.limits.month_dollars is None:
        return
    unknown: dict[str, str] = {}  # a model that several sections name is one mistake
    for title, model in _all_models(settings):
        if model.prices is None and not runs_here(model):
            unknown.setdefault(model.name, _unknown_price(stop, title, model.name))
    if unknown:
        raise ConfigError(*unknown.values())


def _priced(model: ModelSettings, table: Mapping[str, Prices]) -> ModelSettings:
    own = model.prices or table.get(model.name)
    return replace(model, prices=own, fallback=tuple(_priced(each, table) for each in model.fallback))


def _all_models(settings: Settings) -> Iterator[tuple[str, ModelSettings | EmbeddingSettings]]:
    """Yield every model, with the title of its section."""
    further = {f"models.{name}": model for name, model in settings.models.items()}
    for title, model in {"model": settings.model, **further, "helper_model": settings.helper_model}.items():
        yield f"[{title}]", model
        yield from ((f"[[{title}.fallback]]", each) for each in model.fallback)
    if settings.embedding_model is not None:
        yield "[embedding_model]", settings.embedding_model


def _unknown_price(place: str, title: str, name: str) -> str:
    if not name:
        return (
            f"{place}: month_dollars needs the price of each model, and {title} names none; "
            "give it a name and prices = { prompt = …, completion = … }, with 0 if it costs nothing."
        )
    return (
        f"{place}: month_dollars needs the price of each model, and none is known for {title} {name!r}; "
        f'add "{name}" = {{ prompt = …, completion = … }} to [prices], with 0 if it costs nothing.'
    )


_OPENAI = "OPENAI_API_KEY"
_OPENAIS_HOST = "api.openai.com"
_APIS: Mapping[str, str] = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}


def is_openais(base_url: str) -> bool:
    """Return whether an address is OpenAI's, the default. With another maker's API it stands for theirs."""
    return urlsplit(base_url).hostname == _OPENAIS_HOST


def server_of(base_url: str, api: str) -> str:
    """Return a text that tells servers apart: the key of one is never sent to another."""
    return api if api in _APIS and is_openais(base_url) else base_url


def key_name(model: ModelSettings) -> str:
    """Return the environment variable that holds the key of a model's server."""
    return _APIS.get(model.api) or key_name_of(urlsplit(model.base_url).hostname or "")


def with_own_keys(
    settings: Settings, variables: Mapping[str, Variable], ambient_key: Secret | None
) -> Settings:
    """Return the settings, with its own key for each model whose provider has a variable for it.

    Args:
        settings: as they were read.
        variables: those that are set.
        ambient_key: what `OPENAI_API_KEY` says: it is for any server that is named, and for no other.
    """

    def keyed(model: ModelSettings) -> ModelSettings:
        stand_ins = tuple(map(keyed, model.fallback))
        name = key_name(model)
        # A key that the settings give to this model stays.
        if name == _OPENAI or model.api_key not in (None, ambient_key):
            return replace(model, fallback=stand_ins)
        key = None if is_openais(model.base_url) else model.api_key
        if (own := variables.get(name)) is not None and own.value.strip():
            key = Secret(own.value.strip())
        return replace(model, api_key=key, fallback=stand_ins)

    model = keyed(settings.model)
    sources = dict(settings.sources)
    if model.api_key != settings.model.api_key:
        sources.pop("model.api_key", None)
        if model.api_key is not None:
            sources["model.api_key"] = key_name(model)
    return replace(
        settings,
        model=model,
        sources=sources,
        models={name: keyed(model) for name, model in settings.models.items()},
        helper_model=keyed(settings.helper_model),
    )


_FALLBACK = "fallback"
_PATIENCE = ("first_seconds", "gap_seconds")  # people's patience: no matter for which model


def is_list_of_models(key: str) -> bool:
    """Return whether a key names a list of models, such as `model.fallback` or `models.fast.fallback`."""
    return usual_key(key) in (f"model.{_FALLBACK}", f"helper_model.{_FALLBACK}")


def tables_of(given: Given, folder: Path) -> tuple[dict[str, Any], ...]:
    """Return the tables of a list of models, each with the keys that it sets, typed and checked.

    Raises:
        ConfigError: there is no list, a table names no model, or keys or values are wrong; all is told.
    """
    header = f"[[{given.key}]]"
    listed = _unpacked(given)
    if isinstance(listed, dict):
        raise ConfigError(
            f"{given.place}: several models can stand in a list: write {header}, in two brackets."
        )
    if not isinstance(listed, list) or not all(isinstance(table, dict) for table in listed):
        raise ConfigError(
            f"{given.place}: {given.key} is a list of models: write {header} and its keys below."
        )
    if not listed:
        raise ConfigError(f"{given.place}: {given.key} is empty; name a model in it, or remove it.")
    faults = Faults()
    tables = tuple(_table(given, number, table, folder, faults) for number, table in enumerate(listed))
    faults.tell()
    return tables


def with_fallback(
    model: ModelSettings, tables: Iterable[Mapping[str, Any]] | None, ambient_key: Secret | None
) -> ModelSettings:
    """Return the model with its fallbacks. `tables`: None: the fallbacks stay as they are.

    A table takes address, key and patience from the model, unless it sets them; the key only where the
    address is the same, so that it is never sent to another server.
    """
    if tables is None:
        return model
    return dataclasses.replace(
        model, fallback=tuple(_stand_in(table, model, ambient_key) for table in tables)
    )


def address_for(
    own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None, api: str = "auto"
) -> dict[str, Any]:
    """Return the address and the key of a section: its own, or those of the main model.

    One server's key is never sent to another.

    Args:
        own: the keys that the section sets.
        main: the model of `[model]`.
        ambient_key: what `OPENAI_API_KEY` says.
        api: the API of the section.
    """
    base_url = own.get("base_url", main.base_url)
    if server_of(base_url, api) == server_of(main.base_url, main.api):
        return {"base_url": base_url, "api_key": main.api_key}
    return {"base_url": base_url, "api_key": ambient_key if base_url == ModelSettings().base_url else None}


def server_for(own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None) -> dict[str, Any]:
    """Return address, key and API of a model's section; see `address_for`."""
    stays = own.get("base_url", main.base_url) == main.base_url
    api = own.get("api", main.api if stays else ModelSettings().api)
    return {**address_for(own, main, ambient_key, api), "api": api}


def _stand_in(own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None) -> ModelSettings:
    patience = {key: getattr(main, key) for key in _PATIENCE}
    return ModelSettings(**{"name": "", **server_for(own, main, ambient_key), **patience, **own})


def _unpacked(given: Given) -> object:
    """Return the list; of a variable or flag, the value of its JSON text."""
    if not isinstance(given.value, str):
        return given.value
    try:
        return json.loads(given.value)
    except ValueError:
        return given.value


def _table(
    given: Given, number: int, table: Mapping[str, object], folder: Path, faults: Faults
) -> dict[str, Any]:
    section, header = usual_key(given.key).partition(".")[0], f"[[{given.key}]]"
    place = given.inner.get(str(number), given.place)
    own: dict[str, Any] = {}
    for name, value in table.items():
        where = given.inner.get(f"{number}.{name}", place)
        with faults.noted():
            check_in_section(name, section, header, where)
            if name == _FALLBACK:
                raise ConfigError(f"{where}: a fallback has none of its own; write each model as a {header}.")
            own[name] = value_of(Given(f"{given.key}.{name}", value, given.source, where), folder)
    if "name" not in table and "base_url" not in table:
        with faults.noted():
            raise ConfigError(f"{place}: {header} names no model; give it a name or a base_url.")
    return own
