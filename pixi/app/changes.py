"""What differs between two readings of settings and personas, in words for an operator; never a value."""

import dataclasses
from collections.abc import Iterator, Mapping

from pixi.core.persona import Persona
from pixi.settings import EmbeddingSettings, GifSettings, HttpSettings, Settings

NEED_RESTART = frozenset(
    {
        "addons",
        "databases.folder",
        "databases.names",
        "discord.api_url",
        "discord.slash",
        "discord.stickers",
        "discord.token",
        "embedding_model",
        *(f"embedding_model.{field.name}" for field in dataclasses.fields(EmbeddingSettings)),
        *(f"gifs.{field.name}" for field in dataclasses.fields(GifSettings)),
        *(f"http.{field.name}" for field in dataclasses.fields(HttpSettings)),
        "store.url",
    },
)
"""Keys that only count when the program starts."""

_NO_SETTINGS = {"origin", "sources"}


def changed_keys(before: Settings, after: Settings) -> tuple[str, ...]:
    """The keys whose values differ; of a further model that came or went, the section."""
    keys = tuple(_changed(before, after))
    # What the helper has of the main model is not told twice.
    return tuple(
        key for key in keys if key.removeprefix("helper_") == key or key.removeprefix("helper_") not in keys
    )


def _changed(before: Settings, after: Settings) -> Iterator[str]:
    for section in dataclasses.fields(Settings):
        if section.name in _NO_SETTINGS:
            continue
        old, new = getattr(before, section.name), getattr(after, section.name)
        if old == new:
            continue
        if isinstance(old, Mapping):
            for name in dict.fromkeys((*old, *new)):
                yield from _differing(f"{section.name}.{name}", old.get(name), new.get(name))
        else:
            yield from _differing(section.name, old, new)


def _differing(title: str, old: object, new: object) -> Iterator[str]:
    if type(old) is not type(new) or not dataclasses.is_dataclass(old):
        if old != new:
            yield title
        return
    for field in dataclasses.fields(old):
        if getattr(old, field.name) != getattr(new, field.name):
            yield f"{title}.{field.name}"


def changed_personas(before: Mapping[str, Persona], after: Mapping[str, Persona]) -> str:
    """Which personas came, went or are others now, by the names of their files; "" if none."""
    told = {
        "new": [name for name in after if name not in before],
        "changed": [name for name in after if name in before and before[name] != after[name]],
        "gone": [name for name in before if name not in after],
    }
    return "; ".join(f"{', '.join(names)} {what}" for what, names in told.items() if names)
