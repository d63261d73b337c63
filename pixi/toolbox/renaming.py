"""Leads arguments back from the names that a model was told to those of the tool itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """How arguments that follow the new schema become those of the stranger's own.

    Attributes:
        names: of an object's properties, the new to the real ones.
        inner: of properties, by their new names.
        items: of a list.
        choices: one of these, whichever knows most of the names.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, "Shape"] = field(default_factory=dict)
    items: "Shape | None" = None
    choices: tuple["Shape", ...] = ()

    def real(self, value: Any) -> Any:
        """The value as its own schema wants it."""
        match value:
            case dict():
                shape = max((self, *self.choices), key=lambda each: len(each.names.keys() & value.keys()))
                return {
                    shape.names.get(name, name): shape.inner[name].real(each) if name in shape.inner else each
                    for name, each in value.items()
                }
            case list():
                items = next((each.items for each in (self, *self.choices) if each.items), None)
                return [items.real(each) for each in value] if items else value
            case _:
                return value

    def place(self, path: Iterable[str | int]) -> str:
        """Where something is in the real arguments, by the new names: `filter.user_id[2]`."""
        place, shapes = "", [self]
        for part in path:
            if isinstance(part, int):
                place += f"[{part}]"
                shapes = [each.items for shape in shapes for each in (shape, *shape.choices) if each.items]
            else:
                known = [each for shape in shapes for each in (shape, *shape.choices)]
                new = next((n for each in known for n, real in each.names.items() if real == part), part)
                place += f".{new}" if place else new
                shapes = [each.inner[new] for each in known if new in each.inner]
        return place or "arguments"
