"""Reads the settings from all their sources; the stronger source wins, key by key."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pixi.core.errors import ConfigError
from pixi.core.limits import Limits
from pixi.settings import given as sources
from pixi.settings.check import check_key, is_section, known_keys
from pixi.settings.given import MODELS, Given
from pixi.settings.secret import Secret
from pixi.settings.sections import (
    DatabaseSettings,
    DiscordSettings,
    EmbeddingSettings,
    ModelSettings,
    PersonaSettings,
    ReplySettings,
    Settings,
    StoreSettings,
)
from pixi.settings.values import value_of


def load(
    config: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Read the settings.

    From the strongest: `overrides` (flags), the environment's `PIXI_SECTION__KEY`, the same in `.env`,
    the settings file, `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `DISCORD_TOKEN` (from the environment or
    `.env`), the defaults. A key in the environment does not choose a model: without `model.name` it is
    the bundled one, so that nobody's words leave the machine unasked. Where `base_url` was set for Pixi
    but no name, the name is empty, which stands for the one model that the server lists.

    `[helper_model]` without `name` and `base_url` of its own is `[model]` with its other keys on top;
    with one of them it takes only address and key from `[model]`, and the key only where the address is
    the same. Each `[models.NAME]` does as `[helper_model]`. `[embedding_model]` takes address and key alike.

    Args:
        config: the settings file; None: `PIXI_CONFIG`, or `pixi.toml` in the folder if it is there.
        environ: the environment; None: the process's.
        folder: where `pixi.toml`, `.env` and relative paths are looked up; None: the working directory.
        overrides: values by key, e.g. `{"model.name": "gpt-5-mini"}`; None as a value: not given.

    Raises:
        ConfigError: a file cannot be read, or a setting is unknown, of the wrong type or out of range.
    """
    folder = Path() if folder is None else folder
    variables = sources.variables_of(os.environ if environ is None else environ, folder)
    path = sources.settings_file(config, variables, folder)
    ambient = {given.key: given for given in sources.from_well_known(variables)}
    layers = [
        *(() if path is None else sources.from_file(path)),
        *sources.from_variables(variables.values(), known_keys()),
        *sources.from_overrides(overrides or {}),
    ]
    for given in layers:
        check_key(given)
    winners = ambient | {given.key: given for given in layers}
    values = {key: value_of(given, folder) for key, given in winners.items() if not is_section(key)}
    key = ambient.get("model.api_key")
    return _built(values, winners, path, folder, None if key is None else value_of(key, folder))


def _built(
    values: dict[str, Any],
    origins: dict[str, Given],
    path: Path | None,
    folder: Path,
    ambient_key: Secret | None,
) -> Settings:
    def section(name: str) -> dict[str, Any]:
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}

    model = section("model")
    address = origins.get("model.base_url")
    if "name" not in model and address is not None and address.source not in sources.WELL_KNOWN:
        model["name"] = ""
    main = ModelSettings(**model)
    persona = {"folder": folder / PersonaSettings().folder, **section("persona")}
    databases = {"folder": folder / DatabaseSettings().folder, **section("databases")}
    return Settings(
        model=main,
        models={
            name: _helper(section(f"{MODELS}.{name}"), main, ambient_key)
            for name in dict.fromkeys(key.split(".")[1] for key in values if key.startswith(f"{MODELS}."))
        },
        helper_model=_helper(section("helper_model"), main, ambient_key),
        embedding_model=_embedding(section("embedding_model"), main, ambient_key, origins),
        persona=PersonaSettings(**persona),
        reply=ReplySettings(**section("reply")),
        databases=DatabaseSettings(**databases),
        store=StoreSettings(**section("store")),
        discord=DiscordSettings(**section("discord")),
        limits=Limits(**section("limits")),
        addons=values.get("addons", ()),
        origin=path,
        sources={key: origins[key].source for key in values},
    )


def _helper(own: dict[str, Any], main: ModelSettings, ambient_key: Secret | None) -> ModelSettings:
    if "name" not in own and "base_url" not in own:
        return dataclasses.replace(main, **own)
    return ModelSettings(**{"name": "", **_address(own, main, ambient_key), **own})


def _embedding(
    own: dict[str, Any], main: ModelSettings, ambient_key: Secret | None, origins: Mapping[str, Given]
) -> EmbeddingSettings | None:
    if not own:
        return None
    if "name" not in own:
        place = next(given.place for key, given in origins.items() if key.startswith("embedding_model."))
        raise ConfigError(f"{place}: [embedding_model] needs a name; add it, or remove the section.")
    return EmbeddingSettings(**{**_address(own, main, ambient_key), **own})


def _address(own: Mapping[str, Any], main: ModelSettings, ambient_key: Secret | None) -> dict[str, Any]:
    """Server and key of a section that says little of them. One server's key is never sent to another."""
    base_url = own.get("base_url", main.base_url)
    if base_url == main.base_url:
        return {"base_url": base_url, "api_key": main.api_key}
    return {"base_url": base_url, "api_key": ambient_key if base_url == ModelSettings().base_url else None}
