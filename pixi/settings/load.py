"""Reads the settings from all their sources; the stronger source wins, key by key."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pixi.core.errors import ConfigError
from pixi.settings import given as sources
from pixi.settings.check import check_key, is_section, known_keys
from pixi.settings.fallback import address_for, is_list_of_models, server_for, tables_of, with_fallback
from pixi.settings.given import MODELS, Given
from pixi.settings.own_keys import with_own_keys
from pixi.settings.pricing import priced
from pixi.settings.searching import check_search
from pixi.settings.secret import Secret
from pixi.settings.sections import (
    DatabaseSettings,
    DiscordSettings,
    EmbeddingSettings,
    GifSettings,
    HistorySettings,
    LimitSettings,
    McpSettings,
    ModelSettings,
    PersonaSettings,
    ReplySettings,
    Settings,
    StoreSettings,
    WebPagesSettings,
    WebSearchSettings,
    WikiSettings,
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
    So does each table of `[[model.fallback]]`, `[[models.NAME.fallback]]` and `[[helper_model.fallback]]`
    from the section that it stands by. `api` goes along with the address. Anthropic and Gemini have keys of
    their own, `ANTHROPIC_API_KEY` and `GEMINI_API_KEY`.

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
    values = {
        key: tables_of(given, folder) if is_list_of_models(key) else value_of(given, folder)
        for key, given in winners.items()
        if not is_section(key)
    }
    key = ambient.get("model.api_key")
    ambient_key = None if key is None else value_of(key, folder)
    settings = _built(values, winners, path, folder, ambient_key)
    return with_own_keys(settings, variables, ambient_key)


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

    def names(kind: str) -> list[str]:
        return list(dict.fromkeys(key.split(".")[1] for key in values if key.startswith(f"{kind}.")))

    def titles(kind: str) -> list[str]:  # those without keys too
        return list(dict.fromkeys(key.split(".")[1] for key in origins if key.startswith(f"{kind}.")))

    model = section("model")
    address = origins.get("model.base_url")
    if "name" not in model and address is not None and address.source not in sources.WELL_KNOWN:
        model["name"] = ""
    fallback = model.pop("fallback", None)
    main = with_fallback(ModelSettings(**model), fallback, ambient_key)
    persona = {"folder": folder / PersonaSettings().folder, **section("persona")}
    databases = {"folder": folder / DatabaseSettings().folder, **section("databases")}
    settings = Settings(
        model=main,
        models={name: _helper(section(f"{MODELS}.{name}"), main, ambient_key) for name in names(MODELS)},
        helper_model=_helper(section("helper_model"), main, ambient_key),
        embedding_model=_embedding(section("embedding_model"), main, ambient_key, origins),
        persona=PersonaSettings(**persona),
        reply=ReplySettings(**section("reply")),
        history=HistorySettings(**section("history")),
        databases=DatabaseSettings(**databases),
        store=StoreSettings(**section("store")),
        discord=DiscordSettings(**section("discord")),
        limits=LimitSettings(**section("limits")),
        prices=section(sources.PRICES),
        mcp={name: McpSettings(**section(f"mcp.{name}")) for name in titles("mcp")},
        web_search=WebSearchSettings(**section("web_search")),
        web_pages=WebPagesSettings(**section("web_pages")),
        wiki={name: WikiSettings(**section(f"wiki.{name}")) for name in titles("wiki")},
        gifs=GifSettings(**{"folder": folder / GifSettings().folder, **section("gifs")}),
        addons=values.get("addons", ()),
        origin=path,
        sources={key: origins[key].source for key in values},
    )
    check_search(settings, origins)
    stop = origins.get("limits.month_dollars")
    return priced(settings, None if stop is None else stop.place)


def _helper(own: dict[str, Any], main: ModelSettings, ambient_key: Secret | None) -> ModelSettings:
    fallback = own.pop("fallback", None)
    if "name" not in own and "base_url" not in own:
        helper = dataclasses.replace(main, **{**server_for(own, main, ambient_key), **own})
    else:
        helper = ModelSettings(**{"name": "", **server_for(own, main, ambient_key), **own})
    return with_fallback(helper, fallback, ambient_key)


def _embedding(
    own: dict[str, Any], main: ModelSettings, ambient_key: Secret | None, origins: Mapping[str, Given]
) -> EmbeddingSettings | None:
    if not own:
        return None
    if "name" not in own:
        place = next(given.place for key, given in origins.items() if key.startswith("embedding_model."))
        raise ConfigError(f"{place}: [embedding_model] needs a name; add it, or remove the section.")
    return EmbeddingSettings(**{**address_for(own, main, ambient_key), **own})
