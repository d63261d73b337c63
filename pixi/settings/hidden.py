"""What among the settings nobody may read: keys, tokens, and passwords in addresses."""

import dataclasses
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

from pixi.settings.secret import Secret

_SHORTEST = 6
"""Shorter ones are placeholders such as `none`, which would make holes into ordinary words."""


def secrets_in(settings: object) -> frozenset[str]:
    """The texts of all secrets in settings, or in a part of them."""
    return frozenset(text for text in _walk(settings) if len(text) >= _SHORTEST)


def _walk(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, str):
        yield from _passwords(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _walk(inner)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _walk(getattr(value, field.name))


def _passwords(text: str) -> Iterator[str]:
    """The password in an address, as it is written and as it is meant."""
    if "@" not in text or "://" not in text:
        return
    try:
        password = urlsplit(text).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
