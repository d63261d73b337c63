"""The settings of addons: each `[addon.NAME]`, checked by the type that the addon says."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, get_type_hints

from pixi.core.errors import ConfigError
from pixi.settings.check import nearest
from pixi.settings.given import Faults, Given
from pixi.settings.values import value_as

T = TypeVar("T")


def addon_settings(name: str, kind: type[T], given: Mapping[str, Given], folder: Path) -> T:
    """Return the settings of an addon.

    Args:
        name: of its section, e.g. `companion`.
        kind: a dataclass with defaults, whose fields are the keys.
        given: what stands in the section, by key.
        folder: from which paths are taken.

    Raises:
        ConfigError: a key is not known, or of another type. All that is wrong is told at once.
    """
    hints = get_type_hints(kind)
    faults = Faults()
    values: dict[str, object] = {}
    for key, each in given.items():
        with faults.noted():
            if key not in hints:
                raise ConfigError(f"{each.place}: [addon.{name}] has no key {key!r}{nearest(key, hints)}")
            values[key] = value_as(hints[key], each, folder)
    faults.tell()
    return kind(**values)
