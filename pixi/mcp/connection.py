"""One connection to an MCP server: opened, listed, called and closed by way of the official SDK."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    Tool,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter, ValidationError

from pixi.core.errors import PixiError
from pixi.mcp.faults import FAULTS, McpConnectionLost, in_words, innermost, is_closed
from pixi.mcp.network import reached
from pixi.mcp.offers import CallFailed, CallResult, ForeignTool
from pixi.mcp.pipes import one_line_of, piped
from pixi.mcp.process import NotStarted
from pixi.mcp.results import called
from pixi.mcp.where import Program, Where
from pixi.mcp.wire import MOST_BYTES, ConnectionLog

_MOST_PAGES = 100
_MOST_TOOLS = 2_000
_LIST_SECONDS = 20.0
_LISTEN_AGAIN_SECONDS = 10.0
_WEDGED_SECONDS = 1.0  # more than a call may take: its question is not even taken

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server lists: its tools, and in a line each what is odd about the list."""

    tools: tuple[ForeignTool, ...]
    remarks: tuple[str, ...] = ()


@asynccontextmanager
async def connected(name: str, where: Where, seconds: float) -> "AsyncGenerator[McpConnection]":
    """Connect to a server as long as the block lasts. One task opens and closes it.

    Args:
        name: of the server.
        where: it is.
        seconds: it may take to be connected.

    Raises:
        Lost: there is no connection, or no more.
    """
    wire = ConnectionLog()
    connection = McpConnection(name, wire)
    opened = piped(where, wire) if isinstance(where, Program) else reached(where, wire)
    client = Client(
        opened,
        cache=None,
        client_info=Implementation(name="pixi-persona", version="1"),
        message_handler=connection.hear,
    )
    try:
        async with asyncio.timeout(seconds) as limit:
            async with client:
                limit.reschedule(None)
                wire.remark = ""
                connection.client = client
                listening = asyncio.create_task(connection.listen())
                try:
                    yield connection
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
    except FAULTS as error:
        inner = innermost(error)
        if isinstance(inner, PixiError) and not isinstance(inner, NotStarted):
            raise inner from None  # of whoever uses the connection
        raise McpConnectionLost(in_words(error, wire)) from error


class McpConnection:
    """An open connection.

    Attributes:
        client: the SDK's.
        stale: set whenever the list of tools has changed.
    """

    client: Client

    def __init__(self, name: str, wire: ConnectionLog) -> None:
        self._name = name
        self._wire = wire
        self.stale = asyncio.Event()

    @property
    def name(self) -> str:
        """Of the server."""
        return self._name

    @property
    def ended(self) -> asyncio.Event:
        """Set once the server is gone, as far as that is noticed."""
        return self._wire.ended

    @property
    def why_ended(self) -> str:
        """A part of a sentence."""
        return self._wire.remark or "it closed the connection"

    async def hear(self, message: IncomingMessage) -> None:
        """Take note of what the server tells unasked."""
        if isinstance(message, ToolListChangedNotification):
            self.stale.set()

    async def listen(self) -> None:
        """Ask to be told of changes, where the server's protocol wants to be asked."""
        tools = self.client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            try:
                async with self.client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self.stale.set()
            except ListenNotSupportedError:
                return  # it tells unasked
            except (*FAULTS, SubscriptionLost):
                pass  # it is asked again; should the connection itself be gone, its owner finds out
            await asyncio.sleep(_LISTEN_AGAIN_SECONDS)
            self.stale.set()

    async def list(self) -> Listing:
        """All tools, page by page.

        Raises:
            Lost: it gives none.
        """
        if self.client.server_capabilities.tools is None:
            return Listing((), ("it offers no tools",))
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                return await self._pages()
        except FAULTS as error:
            raise McpConnectionLost(
                f"its list of tools cannot be had: {in_words(error, self._wire)}"
            ) from error

    async def _pages(self) -> Listing:
        tools: dict[str, ForeignTool] = {}
        remarks: dict[str, None] = {}
        cursor: str | None = None
        size = 0
        for _ in range(_MOST_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            for tool in page.tools:
                if tool.name in tools:
                    remarks[f"it has two tools called {one_line_of(tool.name)!r}; the first counts"] = None
                elif len(tools) < _MOST_TOOLS and (size := size + _size(tool)) <= MOST_BYTES:
                    tools[tool.name] = _foreign(self._name, tool)
                elif size > MOST_BYTES:
                    remarks[
                        f"its list of tools has more than {MOST_BYTES // 2**20} MB; the first ones count"
                    ] = None
                else:
                    remarks[f"it lists more than {_MOST_TOOLS:,} tools; the first ones count"] = None
            if page.next_cursor is None or len(tools) == _MOST_TOOLS or size > MOST_BYTES:
                break
            cursor = page.next_cursor
        else:
            remarks["its list of tools does not end; the first ones count"] = None
        return Listing(tuple(tools.values()), tuple(remarks))

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        """Call a tool; see `Caller`.

        Raises:
            CallFailed: there is no result.
        """
        try:
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, TypeError, RecursionError):
            raise CallFailed("The arguments hold what cannot be sent.") from None
        try:
            async with asyncio.timeout(seconds + _WEDGED_SECONDS):
                answer = await self._ask(tool, arguments, seconds)
        except FAULTS as error:
            raise CallFailed(self._why_failed(error, seconds)) from error
        if isinstance(answer, InputRequiredResult):
            raise CallFailed(f"{self._name} wants to ask a person something, which it cannot do here.")
        return called(self._name, answer)

    async def _ask(
        self, tool: str, arguments: Mapping[str, Any], seconds: float
    ) -> CallToolResult | InputRequiredResult:
        # Not `call_tool`, which would check the answer against a schema of the server's own choice: such a
        # schema may hold patterns that take for ever.
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        return await self.client.session.send_request(request, _ANSWER, request_read_timeout_seconds=seconds)

    def _why_failed(self, error: BaseException, seconds: float) -> str:
        match error:
            case MCPError() if is_closed(error):
                self._wire.end()
                return f"{self._name} ended before it answered; it is being restarted. Try again in a moment."
            case TimeoutError():
                return f"{self._name} did not answer within {seconds:g} seconds."
            case MCPError() if error.code == REQUEST_TIMEOUT:
                return f"{self._name} did not answer within {seconds:g} seconds."
            case MCPError() if error.message == "Session terminated":  # it was started anew
                self._wire.end("it has forgotten us")
                return f"{self._name} was restarted. Try again in a moment."
            case MCPError():
                return f"{self._name} refused: {one_line_of(error.message)}"
            case ValidationError():
                return f"{self._name} sent a result that the protocol does not allow."
            case _:
                return f"{self._name} could not be asked: {in_words(error, self._wire)}."


def _size(tool: Tool) -> int:
    """How much there is of it, about."""
    return (
        len(json.dumps(tool.input_schema))
        + len(tool.name)
        + len(tool.title or "")
        + len(tool.description or "")
    )


def _foreign(server: str, tool: Tool) -> ForeignTool:
    hints = tool.annotations
    return ForeignTool(
        server,
        tool.name,
        tool.title or (hints.title if hints else None) or "",
        tool.description or "",
        tool.input_schema,
        reads=bool(hints and hints.read_only_hint),
        destroys=hints is None or hints.destructive_hint is not False,
    )
