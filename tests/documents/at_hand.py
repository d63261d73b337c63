"""Reads a file in this very process: what the readers make of it, without what keeps them apart."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from pixi.documents import Documents, FileLimits, SetAside
from pixi.documents.files import Section, open_regular, original_of
from pixi.documents.formats import read_documents
from pixi.documents.readers import Readers
from pixi.documents.wire import DocumentCleaner


def read(path: Path, limits: FileLimits | None = None) -> Documents:
    limits = limits or FileLimits()
    notes: list[str] = []
    name = os.fsencode(path)
    original = original_of(open_regular(name, limits), name, limits)
    with original.file:
        documents = list(DocumentCleaner(limits).tidied(read_documents(original, notes.append)))
    return Documents(documents, "; ".join(notes))


class ReadersAtHand(Readers):
    """Readers that start no process; `running` tells whether they were asked for any file."""

    running = False

    async def read_many(
        self, paths: Iterable[Path]
    ) -> AsyncGenerator[tuple[Path, Documents | SetAside], None]:
        for path in paths:
            self.running = True
            try:
                outcome: Documents | SetAside = await asyncio.to_thread(read, path)
            except SetAside as fault:
                outcome = fault
            except (OSError, ValueError) as error:
                outcome = SetAside(f"is broken ({error})")
            yield path, outcome


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def sections(documents: Documents) -> tuple[Section, ...]:
    """Those of the one document that there is."""
    (document,) = documents
    return document.sections


def check_lines(documents: Documents, text: str) -> None:
    """Every section stands in the file where it says."""
    lines = text.split("\n")
    for section in sections(documents):
        below = section.text.split("\n")
        at = section.line - 1
        assert [line.strip() for line in below] == [line.strip() for line in lines[at : at + len(below)]]
