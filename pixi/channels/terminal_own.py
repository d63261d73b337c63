"""What is kept of whoever sits at the terminal: the lines typed before, and all else that is their own."""

import asyncio
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

ASK_FORGET = (
    "Everything that you ever said here would go, and what is remembered of you. "
    "Write /forget me yes to do it."
)


class Keeping(Protocol):
    """What keeps something of people: the engine."""

    async def forget(self, person: str) -> int:
        """Forget a person everywhere; gives how many conversations changed."""
        ...

    async def export(self, person: str) -> dict[str, Any]:
        """All that is kept of a person, as plain data."""
        ...


class Typed(FileHistory):
    """What the person typed before, in a file."""

    def forget(self) -> None:
        """Keep nothing of it, in memory or in the file."""
        self._loaded_strings = []
        os.truncate(self.filename, 0)


def history_in(folder: Path) -> History:
    """What the person wrote before, kept in `folder`; only for this time where that cannot be written."""
    file = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.open("a").close()
    except OSError:
        return InMemoryHistory()
    return Typed(file)


async def forgotten(keeping: Keeping, person: str, history: History) -> str:
    """Forget a person; tells them so.

    Raises:
        StoreError: it could not be forgotten.
    """
    count = await keeping.forget(person)
    if isinstance(history, Typed):
        try:
            history.forget()
        except OSError as error:
            return (
                f"You are forgotten, but for the lines in {history.filename!r}: {error.strerror}. Delete it."
            )
    return f"You are forgotten. Conversations that changed: {count}"


async def exported(keeping: Keeping, person: str) -> str:
    """Write what is kept of a person to a file that nobody else may read; tells them where.

    Raises:
        StoreError: it could not be read.
    """
    return await asyncio.to_thread(_written, json.dumps(await keeping.export(person), indent=2))


def _written(text: str) -> str:
    path = Path(f"pixi-export-{datetime.now():%Y%m%d-%H%M%S}.json").absolute()
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return f"Everything that is kept of you is in {path}, which nobody else may read."
