"""What each model of the settings costs: by its own section, or by the table of prices."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pixi.core.deltas import Prices
from pixi.core.errors import ConfigError
from pixi.settings.sections import EmbeddingSettings, ModelSettings, Settings


def runs_here(model: ModelSettings | EmbeddingSettings) -> bool:
    """Whether the model runs in this process, rather than at a server."""
    return model.name == "local" or model.name.endswith(".gguf")


def with_prices(settings: Settings) -> Settings:
    """The settings, with a price for each model that has one."""
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
        settings: with their prices.
        stop: where the month's dollars are set.

    Raises:
        ConfigError: prices are not known.
    """
    if settings.limits.month_dollars is None:
        return
    unknown: dict[str, str] = {}  # a model that several sections name is one mistake
    for title, model in _all(settings):
        if model.prices is None and not runs_here(model):
            unknown.setdefault(model.name, _unknown(stop, title, model.name))
    if unknown:
        raise ConfigError(*unknown.values())


def _priced(model: ModelSettings, table: Mapping[str, Prices]) -> ModelSettings:
    own = model.prices or table.get(model.name)
    return replace(model, prices=own, fallback=tuple(_priced(each, table) for each in model.fallback))


def _all(settings: Settings) -> Iterator[tuple[str, ModelSettings | EmbeddingSettings]]:
    """Every model, with the title of its section."""
    sections = {"model": settings.model} | {f"models.{name}": each for name, each in settings.models.items()}
    for title, model in (sections | {"helper_model": settings.helper_model}).items():
        yield f"[{title}]", model
        yield from ((f"[[{title}.fallback]]", each) for each in model.fallback)
    if settings.embedding_model is not None:
        yield "[embedding_model]", settings.embedding_model


def _unknown(place: str, title: str, name: str) -> str:
    if not name:
        return (
            f"{place}: month_dollars needs the price of each model, and {title} names none; "
            "give it a name and prices = { prompt = …, completion = … }, with 0 if it costs nothing."
        )
    return (
        f"{place}: month_dollars needs the price of each model, and none is known for {title} {name!r}; "
        f'add "{name}" = {{ prompt = …, completion = … }} to [prices], with 0 if it costs nothing.'
    )
