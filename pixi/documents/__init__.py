"""The only door to files of documents: each is read by a process that cannot harm this one."""

from typing import TYPE_CHECKING

from pixi.documents.files import SUFFIXES, Documents, FileLimits, SetAside, suffix_of

if TYPE_CHECKING:
    from pixi.documents.readers import Readers

__all__ = ["SUFFIXES", "Documents", "FileLimits", "Readers", "SetAside", "suffix_of"]


def __getattr__(name: str) -> object:
    # Looked up when first used: the processes that read need what is in this room, but not what starts them.
    if name == "Readers":
        from pixi.documents.readers import Readers

        return Readers
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
