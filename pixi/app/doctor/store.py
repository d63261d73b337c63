"""Looks at the store for `doctor`: whether it opens and is whole, and what lies beside it."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.errors import ConfigError, PixiError, StoreError

if TYPE_CHECKING:
    from pixi.store.sql import SqlStore

Found = tuple[bool, str]
"""Whether it is fine, and what it is, with its mend."""


async def look_at_store(url: str) -> AsyncIterator[Found]:
    """What is found, and whether that is fine. A missing file is not made."""
    from pixi.store.opening import file_of, is_postgres, open_existing

    told: list[str] = []
    try:
        store = await open_existing(url, told.append)
        if store is not None:
            name, trouble = store.name, await _trouble(store)
            again = await open_existing(url, told.append) if trouble else None
            if again is not None:  # a file is set aside by now, as any start would have done
                await again.close()
            if not told:
                yield not trouble, trouble or f"{name} is whole"
        elif is_postgres(url):
            from pixi.store.postgres.address import read_address

            yield True, f"{read_address(url)}: its tables will be made at the first talk"
        elif (path := file_of(url)) is None:
            yield True, "in memory: talks are forgotten at the end"
        else:
            yield _store_to_be_made(path)
    except PixiError as error:
        yield False, str(error)
    for line in told:
        yield False, line
    for finding in _beside_the_store(url):
        yield finding


async def _trouble(store: "SqlStore") -> str:
    """What is wrong with a store; "" where it is whole. Then it is closed."""
    try:
        await store.check()
    except StoreError as error:
        return str(error)
    finally:
        await store.close()
    return ""


def _beside_the_store(url: str) -> Iterator[Found]:
    """Files that were set aside, and a file that others may read."""
    from pixi.store.opening import file_of, is_postgres
    from pixi.store.sqlite.damage import set_aside_before

    try:
        path = None if is_postgres(url) else file_of(url)
    except ConfigError:
        return  # which was told
    if path is None:
        return
    for file in set_aside_before(path):
        yield True, f"{file} was set aside because it is damaged; delete it when you have what you need"
    if os.name == "posix" and path.is_file() and path.stat().st_mode & 0o077:
        yield False, f"others on this machine may read {path}: chmod 600 {path}"


def _store_to_be_made(path: Path) -> Found:
    if not path.parent.is_dir():
        return False, f"there is no folder {path.parent}; make it."
    if not os.access(path.parent, os.W_OK):
        return False, f"the folder {path.parent} may not be written; mend its permissions."
    return True, f"{path} will be made at the first talk"
