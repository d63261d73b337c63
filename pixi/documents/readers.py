"""A small pool of processes that read files, so that no file can hurt the process that asks."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Self

from pixi.documents.confinement import Confinement
from pixi.documents.files import Documents, FileLimits, SetAside
from pixi.documents.process import FileOpener, ProcessLost, ReadingProcess
from pixi.documents.wire import MOST_FILES

_FIRST_BATCH = 16
_QUICK_SECONDS = 0.2
_SLOW_SECONDS = 1.0

_DEADLY = "ends the process that reads it; save it anew, or take it out"

_Outcome = tuple[Path, Documents | SetAside]


class Readers:
    """Reads files in processes of their own. An async context manager; what it started ends with it.

    The processes start when they are first needed, stay warm for a minute, and are replaced when they die.
    Calls may overlap; each waits its turn.
    """

    def __init__(self, *, workers: int = 2, limits: FileLimits | None = None) -> None:
        """Start nothing yet.

        Args:
            workers: processes.
            limits: of a file.
        """
        self._limits = limits or FileLimits()
        self._workers = workers
        self._processes: set[ReadingProcess] = set()  # all that run
        self._idle: list[ReadingProcess] = []  # those of them that nobody asks now
        self._opener = FileOpener()
        self._turns = asyncio.Semaphore(workers)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process; files that are being read are set aside. Calling it twice does no harm."""
        self._closed = True
        await asyncio.gather(*(process.close() for process in tuple(self._processes)))
        self._processes.clear()
        self._idle.clear()

    @property
    def running(self) -> bool:
        """Return whether any process runs."""
        return bool(self._processes)

    async def stop_idle(self) -> None:
        """End the processes that wait; others start when they are needed."""
        while self._idle:
            await self._end(self._idle.pop())

    async def read(self, path: Path) -> Documents:
        """Return the documents of a file; none for an empty file.

        Raises:
            SetAside: it was not read.
            ConfigError: no process that reads can be started.
        """
        # To its end, though there is one outcome: who leaves in the middle ends the process.
        async with aclosing(self._read_batch([path])) as handfuls:
            ((_, outcome),) = [single async for handful in handfuls for single in handful]
        if isinstance(outcome, SetAside):
            raise outcome
        return outcome

    async def read_many(self, paths: Iterable[Path]) -> AsyncGenerator[_Outcome, None]:
        """Yield each path once, as soon as it is done, with its documents or why there are none.

        Args:
            paths: taken as they are needed, on the event loop.

        Raises:
            ConfigError: no process that reads can be started.
        """
        todo = iter(paths)
        done: asyncio.Queue[Sequence[_Outcome] | None] = asyncio.Queue()
        room = asyncio.Semaphore(2 * self._workers)  # for handfuls that nobody has taken yet
        tasks = [asyncio.create_task(self._read_all(todo, done, room)) for _ in range(self._workers)]
        for task in tasks:
            task.add_done_callback(lambda _: done.put_nowait(None))
        try:
            ended = 0
            while ended < len(tasks):
                handful = await done.get()
                if handful is None:
                    ended += 1
                    continue
                room.release()
                for path, outcome in handful:
                    yield path, outcome
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def confinement(self) -> Confinement:
        """Return what the kernel refuses a process that reads.

        Raises:
            ConfigError: no process that reads can be started.
        """
        async with self._a_process() as process:
            return process.confinement

    async def _read_all(
        self,
        todo: Iterator[Path],
        done: "asyncio.Queue[Sequence[_Outcome] | None]",
        room: asyncio.Semaphore,
    ) -> None:
        """Read batch after batch: large ones where files are quickly read, small ones where they are not."""
        clock = asyncio.get_running_loop().time
        size = _FIRST_BATCH
        while batch := list(islice(todo, size)):
            begun = clock()
            async with aclosing(self._read_batch(batch)) as handfuls:
                async for handful in handfuls:
                    await room.acquire()
                    done.put_nowait(handful)
            taken = clock() - begun
            if taken < _QUICK_SECONDS:
                size = min(size * 2, MOST_FILES)
            elif taken > _SLOW_SECONDS:
                size = max(size // 2, 1)

    async def _read_batch(self, paths: Sequence[Path]) -> AsyncGenerator[Sequence[_Outcome], None]:
        """Yield every path with what came of it: those that cannot be opened, then the others in order.

        A process that dies is replaced, and what it left is asked for again, file by file: the file at which
        another one dies is to blame.
        """
        left = dict(enumerate(paths))
        alone = False
        while left and not self._closed:
            asked = list(left)[: 1 if alone else None]
            try:
                async with (
                    self._a_process() as process,
                    aclosing(process.ask([_encoded(left[number]) for number in asked])) as handfuls,
                ):
                    async for handful in handfuls:
                        yield [(left.pop(asked[number]), outcome) for number, outcome in handful]
            except ProcessLost as lost:
                if lost.spent or self._closed:
                    continue
                if lost.verdict is None and not alone:
                    alone = True
                    continue
                alone = False
                yield [(left.pop(next(iter(left))), lost.verdict or SetAside(_DEADLY))]
        if left:
            yield [
                (path, SetAside("was not read: reading was stopped", again=True)) for path in left.values()
            ]

    @asynccontextmanager
    async def _a_process(self) -> AsyncIterator[ReadingProcess]:
        """Give a process that nobody else asks meanwhile. Leaving it in the middle of an answer ends it."""
        async with self._turns:
            process = None
            while self._idle and process is None:
                process = self._idle.pop()
                if not process.usable:
                    await self._end(process)
                    process = None
            if process is None:
                process = await ReadingProcess.start(self._limits, self._opener)
                self._processes.add(process)
            try:
                yield process
            except BaseException:
                await self._end(process)
                raise
            if process.usable and not self._closed:
                self._idle.append(process)
            else:
                await self._end(process)

    async def _end(self, process: ReadingProcess) -> None:
        process.kill()
        await process.close()
        self._processes.discard(process)


def _encoded(path: Path) -> bytes:
    return os.fsencode(os.path.abspath(path))
