"""`[[model.fallback]]`: the tables of a list of models, and what they have of the section they stand by."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pixi.core.errors import ConfigError
from pixi.settings.check import check_in, usual_key
from pixi.settings.given import Faults, Given
from pixi.settings.own_keys import server_of
from pixi.settings.secret import Secret
from pixi.settings.sections import ModelSettings
from pixi.settings.values import value_of

_KEY = "fallback"
_SECTIONS = ("model", "helper_model")  # and each `[models.NAME]`, as `model`
_PATIENCE = ("first_seconds", "gap_seconds")  # how long people are to wait: no matter for which model


def is_list_of_models(key: str) -> bool:
    """Whether it names a list of models, such as `model.fallback`."""
    section, _, name = usual_key(key).partition(".")
    return section in _SECTIONS and name == _KEY


def tables_of(given: Given, folder: Path) -> tuple[dict[str, Any], ...]:
    """The tables of a list, typed and checked, each with the keys that it sets. See `value_of`.

    Raises:
        ConfigError: it is no list, tables name no model, or keys or values of them are wrong: all is told.
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
    """The model with its list. None for `tables`: the list stays as it is.

    A table has address, key and patience of the model, unless it sets them; the key only where the address is
    the same, so that it is never sent to another server.
    """
    if tables is None:
        return model
    return dataclasses.replace(
        model, fallback=tuple(_stand_in(table, model, ambient_key) for table in tables)
    )


def address_for(
    own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None, api: str = "auto"
) -> dict[str, Any]:
    """Server and key of a section that says little of them, and speaks `api`.

    One server's key is never sent to another.
    """
    base_url = own.get("base_url", main.base_url)
    if server_of(base_url, api) == server_of(main.base_url, main.api):
        return {"base_url": base_url, "api_key": main.api_key}
    return {"base_url": base_url, "api_key": ambient_key if base_url == ModelSettings().base_url else None}


def server_for(own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None) -> dict[str, Any]:
    """Server, key and what that server speaks, of a model that says little of them."""
    stays = own.get("base_url", main.base_url) == main.base_url
    api = own.get("api", main.api if stays else ModelSettings().api)
    return {**address_for(own, main, ambient_key, api), "api": api}


def _stand_in(own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None) -> ModelSettings:
    patience = {key: getattr(main, key) for key in _PATIENCE}
    return ModelSettings(**{"name": "", **server_for(own, main, ambient_key), **patience, **own})


def _unpacked(given: Given) -> object:
    """The list; of a variable or flag, what its text says in JSON."""
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
            check_in(section, header, name, where)
            if name == _KEY:
                raise ConfigError(f"{where}: a fallback has none of its own; write each model as a {header}.")
            own[name] = value_of(Given(f"{given.key}.{name}", value, given.source, where), folder)
    if "name" not in table and "base_url" not in table:
        with faults.noted():
            raise ConfigError(f"{place}: {header} names no model; give it a name or a base_url.")
    return own
