"""Which door leads to a model at a server: that of the API which the server is spoken with."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError
from pixi.models.model import Traits
from pixi.settings import ModelSettings, Settings
from pixi.settings.own_keys import is_openais, key_name
from pixi.settings.pricing import runs_here
from pixi.settings.sampling import TITLES, Sampler

if TYPE_CHECKING:
    from pixi.models.breaker import Breakers
    from pixi.models.deadlines import Deadlines
    from pixi.models.dialects.dialect import Dialect
    from pixi.models.faults import Retries
    from pixi.models.server_model import ServerModel

Api = Literal["chat", "responses", "anthropic", "gemini"]

_OPENAI = "api.openai.com"
_SEARCHING: Mapping[str, Api] = {
    _OPENAI: "responses",
    "api.x.ai": "responses",
    "openrouter.ai": "responses",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}
"""The hosts that search the web by themselves, and the API in which they do."""

_NO_KEY = """\
There is no key for the model {!r} at {}: set {} in the
environment or in .env. Without --model and model.name the bundled model answers, with no key."""


def wants_native(settings: Settings) -> bool:
    """Whether providers are to search the web by themselves, where they can."""
    return settings.web_search.engine == "native"


def api_of(chosen: ModelSettings, *, native: bool) -> Api:
    """What a model's server is spoken with. `native`: it is to search the web by itself, if it can."""
    if chosen.api != "auto":
        return chosen.api
    return _SEARCHING.get(_host(chosen), "chat") if native else "chat"


def searches(chosen: ModelSettings, *, native: bool = True) -> bool:
    """Whether a model's provider is asked to search the web by itself where that is wanted."""
    return native and not runs_here(chosen) and api_of(chosen, native=True) != "chat"


def door_to(
    chosen: ModelSettings,
    name: str,
    *,
    native: bool,
    deadlines: "Deadlines",
    retries: "Retries | None" = None,
    breakers: "Breakers | None" = None,
) -> "ServerModel":
    """The door to a model at a server.

    Args:
        chosen: the model's settings.
        name: its id there.
        native: it is to search the web by itself, if it can.
        deadlines, retries, breakers: as every door takes them.

    Raises:
        ConfigError: there is no key for it, or an address is none.
    """
    if chosen.api_key is None and is_openais(chosen.base_url):
        place = next((host for host, api in _SEARCHING.items() if api == chosen.api), _OPENAI)
        raise ConfigError(_NO_KEY.format(chosen.name, place, key_name(chosen)))
    from pixi.models.llama import SMALL_MAX_TOKENS, SMALL_SAMPLING
    from pixi.models.server_model import ServerModel

    api = api_of(chosen, native=native)
    is_own = api in ("anthropic", "gemini")
    return ServerModel(
        name,
        _dialect(api),
        base_url=None if is_own and is_openais(chosen.base_url) else chosen.base_url,
        api_key=chosen.api_key.reveal() if chosen.api_key else None,
        traits=traits_of(chosen, native=native),
        temperature=chosen.temperature,
        max_tokens=chosen.max_tokens,
        extra_body=_body_fields(chosen, native=native),
        tools=chosen.tools,
        grammar=chosen.grammar if api == "chat" else "off",
        tiny_style={**SMALL_SAMPLING, "max_tokens": SMALL_MAX_TOKENS},
        search=searches(chosen, native=native),
        learns=api == "chat",
        deadlines=deadlines,
        retries=retries,
        breakers=breakers,
    )


def _dialect(api: Api) -> "Dialect":
    match api:
        case "chat":
            from pixi.models.dialects.chat import Chat

            return Chat()
        case "responses":
            from pixi.models.dialects.responses import Responses

            return Responses()
        case "anthropic":
            from pixi.models.dialects.anthropic import Anthropic

            return Anthropic()
        case "gemini":
            from pixi.models.dialects.gemini import Gemini

            return Gemini()


def _body_fields(chosen: ModelSettings, *, native: bool) -> dict[str, object]:
    """The fields that are added to each request: how the model samples, and `extra_body`.

    Raises:
        ConfigError: it is to sample in a way that its server's API has no words for.
    """
    api = api_of(chosen, native=native)
    sampler: Sampler = "openai" if api == "chat" and is_openais(chosen.base_url) else api
    if unknown := chosen.not_known_to(sampler):
        raise ConfigError(
            f"The model {chosen.name!r} is asked by {TITLES[sampler]}, which knows no {', '.join(unknown)}: "
            "remove that from the model's section."
        )
    return chosen.fields_for(sampler, chosen.extra_body)


def traits_of(chosen: ModelSettings, *, native: bool) -> Traits:
    """What is known of a model at a server from its settings alone."""
    context = chosen.context_tokens or Traits().context_tokens
    return Traits(
        context,
        vision=chosen.vision,
        prices=chosen.prices,
        searches=searches(chosen, native=native),
        parameters=chosen.parameters,
    )


def _host(chosen: ModelSettings) -> str:
    return urlsplit(chosen.base_url).hostname or ""
