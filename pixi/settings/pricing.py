"""What each model of the settings costs: by its own section, or by the table of prices."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pixi.core.deltas import Prices
from pixi.core.errors import ConfigError
from pixi.settings.sections import EmbeddingSettings, ModelSettings, Settings


def runs_here(model: ModelSettings | EmbeddingSettings) -> bool:
    """Whether the model runs in this process, rather than at a server."""
    return model.name == "local" or model.name.endswith(".gguf")


def priced(settings: Settings, stop: str | None) -> Settings:
    """The settings, with a price for each model that has one.

    Args:
        settings: as they were read.
        stop: where the month's dollars are set; None: nowhere. Then a price need not be known.

    Raises:
        ConfigError: a price must be known, and is not.
    """
    table, embedding = settings.prices, settings.embedding_model
    if embedding is not None:
        embedding = replace(embedding, prices=embedding.prices or table.get(embedding.name))
    known = replace(
        settings,
        model=_priced(settings.model, table),
        models={name: _priced(model, table) for name, model in settings.models.items()},
        helper_model=_priced(settings.helper_model, table),
        embedding_model=embedding,
    )
    if stop is not None and known.limits.month_dollars is not None:
        for title, model in _all(known):
            if model.prices is None and not runs_here(model):
                raise ConfigError(_unknown(stop, title, model.name))
    return known


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
