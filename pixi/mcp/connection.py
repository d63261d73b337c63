"""A connection to an MCP server: its tools, their results, and faults in words."""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    AudioContent,
    BlobResourceContents,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Implementation,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolListChangedNotification,
)
from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from pixi.core.errors import PixiError
from pixi.core.message import Image
from pixi.core.untrusted import clipped, prompt_name
from pixi.mcp.offers import CallFailed, CallResult, ForeignTool, NotStarted, Program, Where
from pixi.mcp.transports import one_line_of, over_network, over_pipes
from pixi.mcp.wire import MOST_BYTES, ConnectionLog


class McpConnectionLost(PixiError):
    """A connection is missing or gone. The text says why, as a part of a sentence."""


FAULTS = (
    ExceptionGroup,
    MCPError,
    NotStarted,
    OSError,  # TimeoutError is one
    RuntimeError,  # how the SDK speaks of versions, and httpx2 of streams
    ValueError,  # ValidationError is one
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.SSEError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)
"""Errors of the SDK where a server is away, or is none."""


def in_words(error: BaseException, wire: ConnectionLog) -> str:
    """Tell why it did not work, in one line that names no class and no file of ours."""
    error = innermost(error)
    match error:
        case NotStarted():
            return str(error)
        case MCPError() if is_closed(error):
            return wire.remark or "it closed the connection"
        case _ if _timed_out(error):
            return _with(wire.remark, "it does not answer")
        case MCPError():
            return _with(wire.remark, f"it answers {one_line_of(error.message)!r}; is it an MCP server?")
        case ValidationError():
            return f"it sends what the protocol does not allow: {_first(error)}"
        case httpx2.HTTPStatusError():
            return wire.remark or f"it answers with HTTP {error.response.status_code}"
        case httpx2.TimeoutException():
            return "it cannot be reached in time"
        case httpx2.ConnectError():
            return "it cannot be reached; is it running there, and `url` right?"
        case httpx2.SSEError():
            return f"its stream of events cannot be read: {one_line_of(str(error)).rstrip('.')}"
        case _:
            said = one_line_of(str(error)) or type(error).__name__
            return _with(wire.remark, said)


def innermost(error: BaseException) -> BaseException:
    """Return the first that is in groups within groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_closed(error: MCPError) -> bool:
    """Return True if the connection ended. Servers use the same number for faults of their own."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed"


def _timed_out(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT)


def _with(remark: str, said: str) -> str:
    return f"{said}; {remark}" if remark and remark not in said else said


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"] if not isinstance(step, str) or step.isidentifier())
    return one_line_of(f"{place}: {fault['msg']}" if place else fault["msg"])


_LONGEST_WORDS = 1_500  # of a server that says what went wrong
_LONGEST_ADDRESS = 500


def called(server: str, result: CallToolResult) -> CallResult:
    """Return a result; a value that no text of it says already stands there as JSON.

    Raises:
        CallFailed: it is an error; holds the server's own words.
    """
    parts = [part for block in result.content if (part := _part(block)) != ""]
    if result.is_error:
        texts = "\n".join(part for part in parts if isinstance(part, str))
        said = clipped(texts, _LONGEST_WORDS) or "without a word why"
        raise CallFailed(f"{server} could not do it: {said}")
    structured = result.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(json.dumps(structured, ensure_ascii=False))
    if any(isinstance(part, Image) for part in parts):
        return parts
    return "\n".join(str(part) for part in parts or ["Done."])


def _says(part: str | Image, value: object) -> bool:
    """Return True if a text is that value as JSON, or the value in so many words."""
    if not isinstance(part, str):
        return False
    if isinstance(value, dict) and list(value) == ["result"] and part == value["result"]:
        return True  # how the SDK's servers wrap a plain text
    try:
        return bool(json.loads(part) == value)
    except (ValueError, RecursionError):
        return False


def _part(block: ContentBlock) -> str | Image:
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return _picture(block.data, block.mime_type)
        case AudioContent():
            return f"(a sound that you cannot hear: {prompt_name(block.mime_type)}, {_amount(block.data)})"
        case ResourceLink():
            return _link(block)
        case EmbeddedResource():
            return _resource(block.resource)


def _link(link: ResourceLink) -> str:
    about = clipped(" ".join((link.description or "").split()), _LONGEST_WORDS)
    told = f"(a link: {prompt_name(link.title or link.name)}, {_address(link.uri)}"
    kind = f", {prompt_name(link.mime_type)}" if link.mime_type else ""
    return f"{told}{kind}){f' {about}' if about else ''}"


def _resource(resource: TextResourceContents | BlobResourceContents) -> str | Image:
    if isinstance(resource, TextResourceContents):
        return f"({_address(resource.uri)})\n{resource.text}"
    kind = resource.mime_type or ""
    if kind.startswith("image/"):
        return _picture(resource.blob, kind)
    told = prompt_name(kind) or "of no known kind"
    return f"(a file: {_address(resource.uri)}, {told}, {_amount(resource.blob)})"


def _address(uri: str) -> str:
    return clipped("".join(uri.split()), _LONGEST_ADDRESS)


def _picture(data: str, kind: str) -> str | Image:
    try:
        return Image(kind, base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return "(a picture that cannot be read)"


def _amount(data: str) -> str:
    """Return the size of so much base64, in words."""
    size = len(data) * 3 // 4
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1_000:,} kB"


_MOST_PAGES = 100
_MOST_TOOLS = 2_000
_LIST_SECONDS = 20.0
_LISTEN_AGAIN_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
_WEDGED_SECONDS = 1.0  # more than a call may take: its question is not even taken

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


class Listing(Struct, frozen=True):
    """A server's list: its tools, and in a line each what is odd about the list."""

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
        McpConnectionLost: there is no connection, or no more.
    """
    wire = ConnectionLog()
    connection = McpConnection(name, wire)
    opened = over_pipes(where, wire) if isinstance(where, Program) else over_network(where, wire)
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
        name: of the server.
        client: the SDK's.
        stale: set whenever the list of tools has changed.
    """

    client: Client

    def __init__(self, name: str, wire: ConnectionLog) -> None:
        self.name = name
        self._wire = wire
        self.stale = asyncio.Event()

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
        """Return all tools, page by page.

        Raises:
            McpConnectionLost: it gives none.
        """
        if self.client.server_capabilities.tools is None:
            return Listing((), ("it offers no tools",))
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                return await self._pages()
        except FAULTS as error:
            inner = innermost(error)
            if isinstance(inner, MCPError) and is_closed(inner):
                # Why a program ended is known a moment after its pipes closed.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_WORDS_SECONDS):
                        await self._wire.ended.wait()
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
                    tools[tool.name] = _foreign(self.name, tool)
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
        """Call a tool; see `ToolServer`.

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
            raise CallFailed(f"{self.name} wants to ask a person something, which it cannot do here.")
        return called(self.name, answer)

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
                return f"{self.name} ended before it answered; it is being restarted. Try again in a moment."
            case _ if _timed_out(error):
                return f"{self.name} did not answer within {seconds:g} seconds."
            case MCPError() if error.message == "Session terminated":  # it was started anew
                self._wire.end("it has forgotten us")
                return f"{self.name} was restarted. Try again in a moment."
            case MCPError():
                return f"{self.name} refused: {one_line_of(error.message)}"
            case ValidationError():
                return f"{self.name} sent a result that the protocol does not allow."
            case _:
                return f"{self.name} could not be asked: {in_words(error, self._wire)}."


def _size(tool: Tool) -> int:
    """Estimate the size of a tool's description."""
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
