"""The catalogue: open models that fit a persona and can be fetched, and the `.gguf` files that are here."""

from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from pixi.models.weights import cache_folder


class CatalogueModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model that can be fetched. Sizes are approximate until the hub was asked.

    Attributes:
        name: what people call it by.
        repository: at the hub, as `owner/name`.
        file: the `.gguf` file in the repository.
        parameters: in billions.
        languages: codes of those that the model's card names.
        licence: its SPDX name.
        bytes: approximate size on disk.
        memory_bytes: approximate memory that a talk needs.
        source: the address where all of this stands.
    """

    name: str
    repository: str
    file: str
    parameters: float
    languages: tuple[str, ...]
    licence: str
    bytes: int
    memory_bytes: int
    source: str

    @property
    def path(self) -> Path:
        """Where the file is kept, once it was fetched."""
        return cache_folder() / self.file

    @property
    def fetched(self) -> bool:
        """Return True if the file is here, whole."""
        return self.path.is_file()


class _Catalogue(msgspec.Struct):
    model: tuple[CatalogueModel, ...]


@cache
def catalogue() -> tuple[CatalogueModel, ...]:
    """Return the models of the catalogue, the smallest first; the first is the one to begin with."""
    text = resources.files("pixi.models").joinpath("catalogue.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=_Catalogue).model


def find_in_catalogue(name: str) -> CatalogueModel | None:
    """Return the model of that name, in upper or lower case; None where there is none."""
    return next((model for model in catalogue() if model.name == name.casefold()), None)


def cached_files() -> tuple[Path, ...]:
    """Return the `.gguf` files in the cache, by name. Downloads that are not whole have another ending."""
    return tuple(sorted(cache_folder().glob("*.gguf")))
