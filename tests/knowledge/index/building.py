"""Entries for the tests of the index, made of titles and texts."""

from collections.abc import Mapping
from pathlib import Path

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry, Found
from pixi.knowledge.index import Index


def entry(number: int, text: str, title: str = "", *, path: str = "a.md") -> Entry:
    return Entry(number, path, "", title or f"entry {number}", (Section(text, line=1),), "")


def index_of(folder: Path, texts: Mapping[int, str]) -> Index:
    index = Index.open(folder)
    index.change([entry(number, text) for number, text in texts.items()], [])
    return index


def ids(found: Found) -> list[int]:
    return [hit.source.entry for hit in found.hits]
