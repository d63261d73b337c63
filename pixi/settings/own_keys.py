"""The keys of providers that have a variable of their own: each is sent to that provider alone."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from pixi.core.providers import key_name_of
from pixi.settings.given import Variable
from pixi.settings.secret import Secret
from pixi.settings.sections import ModelSettings, Settings

_OPENAI = "OPENAI_API_KEY"
_OPENAIS_HOST = "api.openai.com"
_APIS: Mapping[str, str] = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}


def is_openais(base_url: str) -> bool:
    """Whether an address is OpenAI's. What is left there and speaks another's API is at that other's."""
    return urlsplit(base_url).hostname == _OPENAIS_HOST


def server_of(base_url: str, api: str) -> str:
    """What tells whose server a model is at: one server's key is never sent to another."""
    return api if api in _APIS and is_openais(base_url) else base_url


def key_name(model: ModelSettings) -> str:
    """The variable that is for the key of a model's server."""
    return _APIS.get(model.api) or key_name_of(urlsplit(model.base_url).hostname or "")


def with_own_keys(
    settings: Settings, variables: Mapping[str, Variable], ambient_key: Secret | None
) -> Settings:
    """The settings, with its own key for each model whose provider has a variable for it.

    Args:
        settings: as they were read.
        variables: those that are set.
        ambient_key: what `OPENAI_API_KEY` says: it is for any server that is named, and for no other.
    """

    def keyed(model: ModelSettings) -> ModelSettings:
        stand_ins = tuple(map(keyed, model.fallback))
        name = key_name(model)
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
