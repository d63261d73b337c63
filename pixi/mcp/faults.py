"""What goes wrong between us and an MCP server, as one plain line."""

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from pydantic import ValidationError

from pixi.core.errors import PixiError
from pixi.mcp.pipes import one_line_of
from pixi.mcp.process import NotStarted
from pixi.mcp.wire import ConnectionLog


class McpConnectionLost(PixiError):
    """There is no connection, or no more. The text says why, as a part of a sentence."""


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
"""What the SDK raises where a server is away, or is none."""


def in_words(error: BaseException, wire: ConnectionLog) -> str:
    """Why it did not work, in one line that names no class and no file of ours."""
    error = innermost(error)
    match error:
        case NotStarted():
            return str(error)
        case MCPError() if is_closed(error):
            return wire.remark or "it closed the connection"
        case MCPError() if error.code == REQUEST_TIMEOUT:
            return _with(wire.remark, "it does not answer")
        case MCPError():
            return _with(wire.remark, f"it answers {one_line_of(error.message)!r}; is it an MCP server?")
        case TimeoutError():
            return _with(wire.remark, "it does not answer")
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
    """The first that is in groups within groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_closed(error: MCPError) -> bool:
    """Return True if the connection ended. Servers use the same number for faults of their own."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed"


def _with(remark: str, said: str) -> str:
    return f"{said}; {remark}" if remark and remark not in said else said


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"] if not isinstance(step, str) or step.isidentifier())
    return one_line_of(f"{place}: {fault['msg']}" if place else fault["msg"])
