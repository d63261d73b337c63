"""An MCP server as long as it is wanted: started, listed, called, restarted when it dies."""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from pixi.core.errors import ConfigError, Reporter
from pixi.core.untrusted import prompt_name
from pixi.mcp.offers import (
    Broken,
    CallFailed,
    CallResult,
    Closed,
    ForeignTool,
    LockFile,
    NotStarted,
    Program,
    Ready,
    Starting,
    State,
    Waiting,
    Where,
    compare_with_approved,
    visible,
)

if TYPE_CHECKING:
    from pixi.mcp.connection import Listing, McpConnection

_log = logging.getLogger("pixi.mcp")

_CLOSING_SECONDS = 4.0  # a program has had its time to leave by then
_MOST_NAMES = 10  # told at once
_MOST_LINES = 50  # told of one server at all: the words of some are another each time


@dataclass(frozen=True, slots=True)
class McpTimeouts:
    """Timeouts and pauses, in seconds.

    Attributes:
        start: to be connected; a program may have to be fetched first.
        first_pause, longest_pause: before it is started again; each pause is twice the last one.
        lived: after so long it counts as well again, and the pauses begin anew.
        list_pause: between two looks at a list of tools; longer and longer where it keeps changing.
    """

    start: float = 60.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    lived: float = 60.0
    list_pause: float = 1.0


class McpServer:
    """An MCP server. All that opens and closes it happens in one task, which `start` makes.

    Args:
        name: of its section.
        where: it is.
        lock: says what it was approved to run and to offer.
        offered: awaited with each list of tools that may be offered, before `state` tells of it.
        changed: told whenever `state` is another one.
        tell: told in a line what an operator should know.
        patience: how long things may take.

    Attributes:
        name: of its section.
        state: how it is doing.
        tools: those that may be offered, also while it is away.
    """

    def __init__(
        self,
        name: str,
        where: Where,
        lock: LockFile,
        *,
        tell: Reporter,
        offered: "Callable[[McpServer], Awaitable[None]] | None" = None,
        changed: "Callable[[McpServer], None] | None" = None,
        patience: McpTimeouts = McpTimeouts(),
    ) -> None:
        self.name = name
        self.where = where
        self._lock = lock
        self._offered = offered
        self._changed = changed
        self._tell = tell
        self._patience = patience
        self.state: State = Starting()
        self.tools: tuple[ForeignTool, ...] = ()
        self._connection: McpConnection | None = None  # while tools can be called
        self._listing: Listing | None = None  # the last that the server gave
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # set for good by the first state after `Starting`
        self._look = asyncio.Event()  # the lock file changed
        self._told: set[str] = set()  # lines: each is told once
        self._is_new = False  # nothing of it was approved yet

    def start(self) -> None:
        """Start it. Returns at once; `settled` waits."""
        self._task = asyncio.create_task(self._live(), name=f"mcp.{self.name}")
        self._task.add_done_callback(self._note_end)

    async def settled(self) -> None:
        """Wait until it is known how it does: it is ready, or cannot be."""
        await self._settled.wait()

    async def close(self) -> None:
        """End it. Calling it twice does no harm."""
        task = self._task
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSING_SECONDS)
        self._become(Closed())

    def look_again(self) -> None:
        """Read the lock file again: it changed, and what waits for consent may have it now."""
        self._look.set()

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        """Call a tool by the server's own name for it. Cancelling it cancels it at the server.

        Raises:
            CallFailed: there is no result; says why, and whether to try again.
        """
        connection = self._connection
        if connection is None:
            raise CallFailed(self._absence())
        if not any(each.name == tool for each in self.tools):
            raise CallFailed(f"{self.name} has no such tool any more.")
        return await connection.call(tool, arguments, seconds)

    def _absence(self) -> str:
        match self.state:
            case Starting() | Ready():
                return f"{self.name} is being started. Try again in a moment."
            case Broken(again_at=again_at):
                left = max(1, round(again_at - asyncio.get_running_loop().time()))
                return f"{self.name} is being restarted; try again in {left} s."
            case Waiting():
                return f"{self.name} waits for the consent of whoever runs this program."
            case Closed():
                return f"{self.name} was closed."
            case state:
                assert_never(state)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._connection = None
        self._become(Closed())
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("mcp.%s ended with %s", self.name, type(error).__name__, exc_info=error)
            self._tell(f"MCP server {self.name} cannot be used any more: {type(error).__name__}. Start anew.")

    # Run by the one task.

    async def _live(self) -> None:
        loop, pause = asyncio.get_running_loop(), self._patience.first_pause
        while True:
            await self._consent()
            self._become(Starting())
            began = loop.time()
            why = await self._connect()
            if loop.time() - began >= self._patience.lived:
                pause = self._patience.first_pause
            self._become(Broken(why, loop.time() + pause))
            self._tell_once(f"MCP server {self.name}: {why}; it is tried again.")
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._patience.longest_pause)

    async def _consent(self) -> None:
        """Wait until it may be run."""
        while (refusal := await self._refusal()) is not None:
            self._become(Waiting(refusal))
            self._tell_once(refusal)
            await self._look.wait()
            self._look.clear()

    async def _refusal(self) -> str | None:
        try:
            approved = await self._lock.approved(self.name)
        except ConfigError as error:
            return str(error)
        self._is_new = approved is None
        if approved is not None and approved.mark != self.where.mark:
            return (
                f"MCP server {self.name} is not started: approved was {visible(approved.shown)}, and now "
                f"it is {self.where.shown}. If that is meant: pixi-persona approve {self.name}"
            )
        return None

    async def _connect(self) -> str:
        """Connect, and stay until the connection is lost; gives the reason why."""
        try:
            if isinstance(self.where, Program):
                await asyncio.to_thread(self.where.executable)
        except NotStarted as error:
            return str(error)
        if self._is_new:
            self._tell_once(f"MCP server {self.name} is used for the first time: {self.where.shown}")
        # Imported in a thread: the SDK takes a second.
        await asyncio.to_thread(importlib.import_module, "pixi.mcp.connection")
        from pixi.mcp.connection import McpConnectionLost, connected

        try:
            async with connected(self.name, self.where, self._patience.start) as connection:
                self._listing = await connection.list()
                await self._offer(self._listing, connection)
                await self._attend(connection)
                return connection.why_ended
        except McpConnectionLost as lost:
            return str(lost)
        finally:
            self._connection = None

    async def _attend(self, connection: "McpConnection") -> None:
        """Follow its list of tools until it ends; one that never rests is read less and less often."""
        loop, pause, again_at = asyncio.get_running_loop(), self._patience.list_pause, 0.0
        while True:
            if (left := again_at - loop.time()) > 0:
                await _any_of(connection.ended, self._look, seconds=left)
            else:
                await _any_of(connection.ended, connection.stale, self._look)
            if connection.ended.is_set():
                return
            rested = loop.time() - again_at
            if connection.stale.is_set() and rested >= 0:
                connection.stale.clear()
                self._listing = await connection.list()
                restless = rested < pause
                pause = (
                    min(2 * pause, self._patience.longest_pause) if restless else self._patience.list_pause
                )
                again_at = loop.time() + pause
            elif not self._look.is_set():
                continue
            self._look.clear()
            if self._listing is not None:
                await self._offer(self._listing, connection)

    async def _offer(self, listing: "Listing", connection: "McpConnection") -> None:
        """Offer of a list what was approved, or is new; what is new is approved by that."""
        try:
            approved = await self._lock.approved(self.name)
            # In a thread: a list may be long.
            offered = await asyncio.to_thread(compare_with_approved, approved, listing.tools)
            await self._lock.remember(self.name, self.where, offered.fit)
        except ConfigError as error:
            self._tell_once(str(error))
            offered = compare_with_approved(None, ())
        else:
            if approved is not None and offered.new:
                self._tell_once(f"MCP server {self.name} has new tools: {_names(offered.new)}")
        for remark in listing.remarks:
            self._tell_once(f"MCP server {self.name}: {remark}.")
        if offered.beyond:
            self._tell_once(
                f"MCP server {self.name}: it has named so many tools by now that new ones are left "
                f"out. If that is meant, take what is kept of it out of {self._lock.path}."
            )
        if offered.changed:
            names = _names(tool.name for tool in offered.changed)
            self._tell_once(
                f"MCP server {self.name}: left out is what it describes otherwise than approved: {names}. "
                f"If that is meant: pixi-persona approve {self.name}"
            )
        self._connection, self.tools = connection, offered.fit
        if self._offered is not None:
            await self._offered(self)
        self._become(Ready(offered.fit, offered.changed))

    def _become(self, state: State) -> None:
        before, self.state = self.state, state
        if not isinstance(state, Starting):
            self._settled.set()
        if state != before and self._changed is not None:
            self._changed(self)

    def _tell_once(self, line: str) -> None:
        if line not in self._told and len(self._told) < _MOST_LINES:
            self._told.add(line)
            self._tell(line)


def _names(names: Iterable[str]) -> str:
    """Return the first of strangers' names, on one line, and how many more there are."""
    shown = [prompt_name(name) for name in names]
    more = len(shown) - _MOST_NAMES
    return ", ".join(shown[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


async def _any_of(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, or so long."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
