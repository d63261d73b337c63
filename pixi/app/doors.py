"""Which door leads to a model at a server: that of the API which the server is spoken with."""

import importlib.util
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError
from pixi.models.model import Model, Traits
from pixi.models.sampling import TITLES, Sampler
from pixi.settings import ModelSettings, Settings
from pixi.settings.own_keys import is_openais, key_name
from pixi.settings.pricing import runs_here

if TYPE_CHECKING:
    from pixi.models.breaker import Breakers
    from pixi.models.deadlines import Deadlines
    from pixi.models.faults import Retries
    from pixi.settings.sections import ToolForm

_log = logging.getLogger("pixi.models")

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

_MODULES: Mapping[Api, str] = {
    "chat": "pixi.models.chat.door",
    "responses": "pixi.models.responses.door",
    "anthropic": "pixi.models.anthropic.door",
    "gemini": "pixi.models.gemini.door",
}
_PACKAGES: Mapping[Api, str] = {"anthropic": "anthropic", "gemini": "google.genai"}

_NO_KEY = """\
There is no key for the model {!r} at {}: set {} in the
environment or in .env. Without --model and model.name the bundled model answers, with no key."""


class Door(Model, Protocol):
    """A model at a server, which can also tell what others it has."""

    async def models(self) -> list[str]:
        """The ids of the models that the server lists.

        Raises:
            ModelError: it could not be asked.
        """
        ...


def wants_native(settings: Settings) -> bool:
    """Whether providers are to search the web by themselves, where they can."""
    return settings.web_search.engine == "native"


def api_of(chosen: ModelSettings, *, native: bool) -> Api:
    """What a model's server is spoken with. `native`: it is to search the web by itself, if it can."""
    if chosen.api != "auto":
        return chosen.api
    api = _SEARCHING.get(_host(chosen), "chat") if native else "chat"
    return api if is_installed(api) else "chat"


def searches(chosen: ModelSettings, *, native: bool = True) -> bool:
    """Whether a model's provider is asked to search the web by itself where that is wanted."""
    return native and not runs_here(chosen) and api_of(chosen, native=True) != "chat"


def modules_of(chosen: ModelSettings, *, native: bool) -> tuple[str, ...]:
    """Where the door to a model stands, and the package that it needs, if any: their import takes a while."""
    api = api_of(chosen, native=native)
    package = _PACKAGES.get(api)
    return (_MODULES[api], package) if package and is_installed(api) else (_MODULES[api],)


def door_to(
    chosen: ModelSettings,
    name: str,
    *,
    native: bool,
    deadlines: "Deadlines",
    retries: "Retries | None" = None,
    breakers: "Breakers | None" = None,
) -> Door:
    """The door to a model at a server.

    Args:
        chosen: the model's settings.
        name: its id there.
        native: it is to search the web by itself, if it can.
        deadlines, retries, breakers: as every door takes them.

    Raises:
        ConfigError: there is no key for it, a package is missing, or an address is none.
    """
    if chosen.api_key is None and is_openais(chosen.base_url):
        place = next((host for host, api in _SEARCHING.items() if api == chosen.api), _OPENAI)
        raise ConfigError(_NO_KEY.format(chosen.name, place, key_name(chosen)))
    common: _Common = {
        "api_key": chosen.api_key.reveal() if chosen.api_key else None,
        "traits": traits_of(chosen, native=native),
        "temperature": chosen.temperature,
        "max_tokens": chosen.max_tokens,
        "extra_body": _body_fields(chosen, native=native),
        "tools": chosen.tools,
        "deadlines": deadlines,
        "retries": retries,
        "breakers": breakers,
        "search": searches(chosen, native=native),
    }
    api = api_of(chosen, native=native)
    match api:
        case "chat":
            from pixi.models.chat.door import OpenAIChat
            from pixi.models.llama import SMALL_MAX_TOKENS, SMALL_SAMPLING

            return OpenAIChat(
                name,
                base_url=chosen.base_url,
                grammar=chosen.grammar,
                tiny_style={**SMALL_SAMPLING, "max_tokens": SMALL_MAX_TOKENS},
                learns=True,
                **common,
            )
        case "responses":
            from pixi.models.responses.door import Responses

            return Responses(name, base_url=chosen.base_url, **common)
        case "anthropic":
            from pixi.models.anthropic.door import AnthropicMessages

            return AnthropicMessages(name, base_url=_own_address(chosen), **common)
        case "gemini":
            from pixi.models.gemini.door import Gemini

            return Gemini(name, base_url=_own_address(chosen), **common)


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


class _Common(TypedDict):
    """What all doors take."""

    api_key: str | None
    traits: Traits
    temperature: float | None
    max_tokens: int | None
    extra_body: Mapping[str, object]
    tools: "ToolForm"
    deadlines: "Deadlines"
    retries: "Retries | None"
    breakers: "Breakers | None"
    search: bool


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


async def learn_of(door: Door) -> None:
    """Have a server nearby asked what model it serves, so that already the first prompt is written for it."""
    from pixi.models.server_model import ServerModel

    if isinstance(door, ServerModel):
        await door.learn()


def tell_of_missing(chosen: ModelSettings) -> None:
    """Say where a package is all that a provider's own search lacks."""
    own = _SEARCHING.get(_host(chosen))
    if chosen.api == "auto" and own and not is_installed(own):
        _log.warning(
            '%s would search the web by itself with: pip install "pixi-persona[%s]"', chosen.name, own
        )


def _own_address(chosen: ModelSettings) -> str | None:
    """The address that was set; None where it is still OpenAI's, which is nobody else's."""
    return None if is_openais(chosen.base_url) else chosen.base_url


def _host(chosen: ModelSettings) -> str:
    return urlsplit(chosen.base_url).hostname or ""


def is_installed(api: Api) -> bool:
    """Return True if the package that an API needs is there, or if it needs none."""
    try:
        return api not in _PACKAGES or importlib.util.find_spec(_PACKAGES[api]) is not None
    except ModuleNotFoundError:  # nor what it is a part of
        return False
