"""Lanes: work that is done in order where it belongs together, and side by side where it does not."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

Job = Callable[[], Awaitable[None]]


class ChannelQueues:
    """One task for each channel in which something is to be done, for as long as there is.

    Args:
        broken: is told of what a job raised; the next job of its lane follows all the same.
    """

    def __init__(self, broken: Callable[[BaseException], None]) -> None:
        self._broken = broken
        self._waiting: dict[int, deque[tuple[int, Job]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._gates: dict[int, asyncio.Event] = {}  # of groups whose lanes stand still
        self._closed = False

    def put(self, lane: int, job: Job, *, group: int = 0, first: bool = False) -> None:
        """Have something done in its turn, or before everything else that waits in that lane."""
        if self._closed:
            return
        queue = self._waiting.setdefault(lane, deque())
        if first:
            queue.appendleft((group, job))
        else:
            queue.append((group, job))
        if lane not in self._tasks:
            self._begin(lane)

    def hold(self, group: int) -> None:
        """Let the lanes of a group stand still until `release`."""
        self._gates.setdefault(group, asyncio.Event())

    def release(self, group: int) -> None:
        """Let them go on."""
        if gate := self._gates.pop(group, None):
            gate.set()

    @property
    def idle(self) -> bool:
        """Nothing is being done, and nothing waits."""
        return not self._tasks

    async def close(self, seconds: float) -> None:
        """Drop what waits, and let what was begun end within this time; then it is cancelled."""
        self._closed = True
        for queue in self._waiting.values():
            queue.clear()
        for group in list(self._gates):
            self.release(group)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _begin(self, lane: int) -> None:
        task = asyncio.create_task(self._run(lane))
        self._tasks[lane] = task
        task.add_done_callback(lambda ended: self._ended(lane, ended))

    async def _run(self, lane: int) -> None:
        queue = self._waiting[lane]
        while queue:
            if gate := self._gates.get(queue[0][0]):
                await gate.wait()  # meanwhile another job may have come first
                continue
            _, job = queue.popleft()
            await job()

    def _ended(self, lane: int, task: asyncio.Task[None]) -> None:
        del self._tasks[lane]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)
        if self._waiting[lane] and not self._closed:
            self._begin(lane)
        else:
            del self._waiting[lane]
