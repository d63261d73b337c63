"""What a process holds: its tasks, threads and open files, before and after."""

import asyncio
import os
import threading
from dataclasses import dataclass
from typing import Any, Self

from tests.waiting import until

_FOLDERS = ("/proc/self/fd", "/dev/fd")
_POOLS = ("asyncio_", "AnyIO worker")  # threads that wait for more work, and go with the loop


@dataclass(frozen=True, slots=True)
class Ground:
    """What is held at a moment. Open files are sockets too; of them, what cannot be told is left out."""

    tasks: frozenset[asyncio.Task[Any]]
    threads: frozenset[threading.Thread]
    files: frozenset[str]

    @classmethod
    def now(cls) -> Self:
        """What is held now."""
        threads = (each for each in threading.enumerate() if not each.name.startswith(_POOLS))
        return cls(frozenset(asyncio.all_tasks()), frozenset(threads), frozenset(_open_files()))

    async def is_left_as_it_was(self, *, without: frozenset[str] = frozenset()) -> None:
        """Wait until nothing more is held than at this moment.

        `without`: files that belong to somebody else.
        """

        def left_behind() -> list[object]:
            now = Ground.now()
            mine = {task for task in (asyncio.current_task(),) if task}
            tasks = now.tasks - self.tasks - mine
            return [
                *(task for task in tasks if not task.done() and not _is_servers(task)),
                *(now.threads - self.threads),
                *(now.files - self.files - without),
            ]

        try:
            await until(lambda: not left_behind(), "an end of what it held")
        except AssertionError:
            raise AssertionError(f"left behind: {left_behind()}") from None


def _is_servers(task: asyncio.Task[Any]) -> bool:
    """Whether it answers a request at the far end: the servers that tests talk to run here too."""
    return str(getattr(task.get_coro(), "__qualname__", "")).startswith("RequestHandler.")


def _open_files() -> list[str]:
    """Each as its number and what it leads to."""
    folder = next((each for each in _FOLDERS if os.path.isdir(each)), "")
    found = []
    for number in os.listdir(folder) if folder else ():
        try:
            found.append(f"{number} {os.readlink(f'{folder}/{number}')}")
        except OSError:  # the one by which the folder was read
            continue
    return found
