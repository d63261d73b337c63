"""The only door to files of documents: each is read by a process that cannot harm this one."""

from pixi.documents.files import SUFFIXES, Documents, FileLimits, SetAside, suffix_of

__all__ = ["SUFFIXES", "Documents", "FileLimits", "SetAside", "suffix_of"]
