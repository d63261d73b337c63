"""Reads the settings from all their sources; the stronger source wins, key by key."""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pixi.core.errors import ConfigError
from pixi.settings import sources
from pixi.settings.model_choice import (
    address_for,
    check_prices,
    is_list_of_models,
    server_for,
    tables_of,
    with_fallback,
    with_own_keys,
    with_prices,
)
from pixi.settings.rules import origin_of
from pixi.settings.secret import Secret
from pixi.settings.sections import (
    SECTIONS,
    EmbeddingSettings,
    HttpSettings,
    JwtSettings,
    ModelSettings,
    Settings,
)
from pixi.settings.sources import MODELS, Faults, Given
from pixi.settings.values import check_known, is_section, known_keys, nearest, sections_of, value_of

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SHORTEST_SECRET = 32  # characters: RFC 7518 wants as many bits as the signature has
_JWT = ("issuer", "audience", "keys")
_PLAIN = ["reply", "history", "store", "discord", "limits", "web_search", "web_pages", "studio", "monitoring"]
"""Sections that are made of their keys and of nothing else."""


def load(
    config: Path | Mapping[str, object] | None = None,
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
        config: the settings file, or what would stand in it: `{"model": {"name": "gpt-5-mini"}}`; None:
            `PIXI_CONFIG`, or `pixi.toml` in the folder if it is there.
        environ: the environment; None: the process's.
        folder: where `pixi.toml`, `.env` and relative paths are looked up; None: the working directory.
        overrides: values by key, e.g. `{"model.name": "gpt-5-mini"}`; None as a value: not given.

    Raises:
        ConfigError: a file cannot be read, or settings are unknown, of the wrong type, out of range, or
            cannot hold together. All that is wrong is told at once, each with its place and mend.
    """
    folder = Path() if folder is None else folder
    faults = Faults()
    variables = sources.variables_of(os.environ if environ is None else environ, folder, faults)
    given_tables = config if isinstance(config, Mapping) else None
    path = None if isinstance(config, Mapping) else sources.settings_file(config, variables, folder)
    ambient = {given.key: given for given in sources.from_well_known(variables)}
    layers: list[Given] = []
    with faults.noted():
        layers.extend(sources.from_tables(given_tables or {}) if path is None else sources.from_file(path))
    layers.extend(sources.from_variables(variables.values(), known_keys(), faults))
    layers.extend(sources.from_overrides(overrides or {}))
    winners = ambient | {given.key: given for given in layers}
    values: dict[str, Any] = {}
    for given in winners.values():
        with faults.noted(*sections_of(given.key)):
            check_known(given)
            if not is_section(given.key) and not given.key.startswith(f"{sources.ADDON}."):
                read = tables_of if is_list_of_models(given.key) else value_of
                values[given.key] = read(given, folder)
    ambient_key = None
    if (key := ambient.get("model.api_key")) is not None:
        with faults.noted("model"):
            ambient_key = value_of(key, folder)
    settings = _built(values, winners, faults, path=path, folder=folder, ambient_key=ambient_key)
    faults.tell()
    return with_own_keys(settings, variables, ambient_key)


def _built(
    values: dict[str, Any],
    origins: dict[str, Given],
    faults: Faults,
    *,
    path: Path | None,
    folder: Path,
    ambient_key: Secret | None,
) -> Settings:
    """Build the settings of the values that could be read, and check them together.

    A check is left out where a value of its section is wrong already: a mistake is told once.
    """

    def section(name: str) -> dict[str, Any]:
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}

    def names(kind: str) -> list[str]:
        return list(dict.fromkeys(key.split(".")[1] for key in values if key.startswith(f"{kind}.")))

    def titles(kind: str) -> list[str]:  # sections without keys too
        return list(dict.fromkeys(key.split(".")[1] for key in origins if key.startswith(f"{kind}.")))

    model = section("model")
    address = origins.get("model.base_url")
    if "name" not in model and address is not None and address.source not in sources.WELL_KNOWN:
        model["name"] = ""
    fallback = model.pop("fallback", None)
    main = with_fallback(ModelSettings(**model), fallback, ambient_key)
    plain: dict[str, Any] = {name: SECTIONS[name](**section(name)) for name in _PLAIN}
    for name in ("persona", "databases", "gifs"):
        kind = SECTIONS[name]
        plain[name] = kind(**{"folder": folder / kind().folder, **section(name)})
    for name in ("mcp", "wiki"):
        plain[name] = {title: SECTIONS[name](**section(f"{name}.{title}")) for title in titles(name)}
    settings = Settings(
        model=main,
        models={name: _helper(section(f"{MODELS}.{name}"), main, ambient_key) for name in names(MODELS)},
        helper_model=_helper(section("helper_model"), main, ambient_key),
        embedding_model=_embedding(section("embedding_model"), main, ambient_key),
        prices=section(sources.PRICES),
        http=_http_of(section("http"), section("http.jwt"), folder),
        addons=values.get("addons", ()),
        addon={name: _given(origins, f"{sources.ADDON}.{name}.") for name in titles(sources.ADDON)},
        origin=path,
        sources={key: origins[key].source for key in values},
        **plain,
    )
    faults.check(["embedding_model"], lambda: _check_embedding(settings, origins))
    faults.check(["web_search", "mcp", "limits"], lambda: _check_search(settings, origins))
    faults.check(["http"], lambda: _check_http(settings.http, origins))
    priced_ones = with_prices(settings)
    if stop := origins.get("limits.month_dollars"):
        priced = ["limits", "model", MODELS, "helper_model", "embedding_model", sources.PRICES]
        faults.check(priced, lambda: check_prices(priced_ones, stop.place))
    return priced_ones


def _check_embedding(settings: Settings, origins: Mapping[str, Given]) -> None:
    given = list(_given(origins, "embedding_model.").values())
    if given and settings.embedding_model is None:
        raise ConfigError(f"{given[0].place}: [embedding_model] needs a name; add it, or remove the section.")


def _check_search(settings: Settings, origins: Mapping[str, Given]) -> None:
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


def _given(origins: Mapping[str, Given], prefix: str) -> dict[str, Given]:
    """Return the values that were given under a prefix, by the rest of their keys."""
    return {key.removeprefix(prefix): given for key, given in origins.items() if key.startswith(prefix)}


def _helper(own: dict[str, Any], main: ModelSettings, ambient_key: Secret | None) -> ModelSettings:
    fallback = own.pop("fallback", None)
    if "name" not in own and "base_url" not in own:
        helper = dataclasses.replace(main, **{**server_for(own, main, ambient_key), **own})
    else:
        helper = ModelSettings(**{"name": "", **server_for(own, main, ambient_key), **own})
    return with_fallback(helper, fallback, ambient_key)


def _embedding(
    own: dict[str, Any], main: ModelSettings, ambient_key: Secret | None
) -> EmbeddingSettings | None:
    if "name" not in own:
        return None
    return EmbeddingSettings(**{**address_for(own, main, ambient_key), **own})


def _http_of(server: Mapping[str, Any], jwt: Mapping[str, Any], folder: Path) -> HttpSettings:
    """Build `[http]` with `[http.jwt]`: origins as browsers send them, a file of keys by its whole path."""
    tokens = JwtSettings(**jwt)
    if tokens.keys and "://" not in tokens.keys:
        tokens = replace(tokens, keys=str(folder / Path(tokens.keys).expanduser()))
    plain = {key: value for key, value in server.items() if not key.startswith("jwt.")}
    settings = HttpSettings(**{"files": folder / HttpSettings().files, **plain}, jwt=tokens)
    return replace(settings, allowed_origins=tuple(origin_of(one) or one for one in settings.allowed_origins))


def _check_http(settings: HttpSettings, origins: Mapping[str, Given]) -> None:
    """See that the lists hold what they are for, and that nothing of `[http.jwt]` is missing.

    Raises:
        ConfigError: they do not, or something is; the text says where, and what to write.
    """
    if not _is_host(settings.host) and not _is_host(f"[{settings.host}]"):
        place = origins["http.host"].place
        raise ConfigError(f"{place}: http.host is no name and no address; write 127.0.0.1 or 0.0.0.0.")
    for key, fits, example in (
        ("allowed_hosts", _is_host, "chat.example.org"),
        ("allowed_origins", origin_of, "https://example.org"),
        ("conversation_headers", _HEADER.fullmatch, "X-Conversation-Id"),
    ):
        for each in getattr(settings, key):
            if not fits(each):
                told = each if len(each) <= 60 else f"{each[:57]}…"
                raise ConfigError(
                    f"{origins[f'http.{key}'].place}: {told!r} has no place in http.{key}; "
                    f"write each as {example!r} is written."
                )
    if settings.address_header and not _HEADER.fullmatch(settings.address_header):
        raise ConfigError(
            f"{origins['http.address_header'].place}: http.address_header is no name of a header; write "
            '"X-Forwarded-For", or what your proxy sets.'
        )
    secret = settings.open_webui_secret
    if secret is not None and len(secret.reveal()) < _SHORTEST_SECRET:
        raise ConfigError(
            f"{origins['http.open_webui_secret'].place}: http.open_webui_secret is too short to sign with; "
            f"give it and Open WebUI {_SHORTEST_SECRET} characters or more, such as `openssl rand -hex 32` "
            "writes."
        )
    _check_jwt(settings.jwt, origins)


def _check_jwt(jwt: JwtSettings, origins: Mapping[str, Given]) -> None:
    given = list(_given(origins, "http.jwt.").values())
    missing = [key for key in _JWT if not getattr(jwt, key)]
    if given and missing:
        raise ConfigError(
            f"{given[0].place}: [http.jwt] needs {' and '.join(missing)}; add that, or remove the section."
        )
    if "://" in jwt.keys and not jwt.keys.startswith("https://"):
        raise ConfigError(
            f"{origins['http.jwt.keys'].place}: http.jwt.keys must be an address that begins with https://, "
            "or the path of a file."
        )


def _is_host(text: str) -> bool:
    return origin_of(f"http://{text}") is not None
