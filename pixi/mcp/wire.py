"""Messages from an MCP server, sieved: what answers us goes on, and no flood of the rest does harm."""

import asyncio
import re
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from pixi.core.untrusted import prompt_name

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

MOST_BYTES = 8 * 2**20
"""Limit of one message. Pictures and pages are smaller; what is larger is refused, in words."""

LARGE = 256 * 1024
"""Bytes of a message: what is longer is read in a thread."""

_DEEPEST = 160  # levels of a message: the SDK's parser refuses a whole message for one value of 200
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SIGN = re.compile(_TEXT.pattern + rb"|[\[\]{}]", re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))

_WANTED = frozenset(
    {
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    }
)
"""Notifications that are heeded, of all that a server may tell unasked."""

_MOST_UNASKED = 2_000  # in a second, of what answers nothing: then it is made to wait
_MOST_RUBBISH = 1_000  # lines in a row that are no message: then nothing good will come
_MOST_PARTS = 1_000  # of one answer: each costs the SDK more to read than it weighs
_MOST_LISTED = 2_001  # tools on one page: one more than count
_MOST_OWED = 100  # requests of the server that wait to be answered, as it reads no answers


class ConnectionLog:
    """State of one connection, beside what the SDK knows.

    Attributes:
        ended: set once nothing more will come.
        remark: what was odd about the connection, to be told where it fails.
        asked: numbers of our requests that are not answered.
    """

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.remark = ""
        self.asked: set[RequestId] = set()
        self._owed = 0  # requests of the server that are not answered
        self._rubbish = 0  # lines in a row that are no message
        self._unasked = 0  # messages since `_since` that answer nothing
        self._since = 0.0  # on the loop's clock; counted anew after a second

    def end(self, remark: str = "") -> None:
        """End the connection: nothing more will come, or is wanted."""
        self.remark = remark or self.remark
        self.ended.set()

    async def passes(self, item: SessionMessage | Exception) -> bool:
        """Return True if a message is for the SDK; wait where too much comes that nobody asked for."""
        passes = False
        if isinstance(item, Exception):
            self._note_rubbish(item)
        else:
            self._rubbish = 0
            match item.message:
                case JSONRPCResponse(id=number) | JSONRPCError(id=number):
                    if self._was_asked(number):
                        if isinstance(item.message, JSONRPCResponse):
                            _shorten(item.message.result)
                        return True
                    self.remark = f"it answers what nobody asked (number {prompt_name(str(number))})"
                case JSONRPCNotification(method=method):
                    passes = method in _WANTED
                case JSONRPCRequest():
                    passes = self._may_ask()
        await self._slow_down()
        return passes

    def sent(self, message: SessionMessage) -> None:
        """Take note of what goes to the server."""
        match message.message:
            case JSONRPCRequest(id=number):
                self.asked.add(number)
            case JSONRPCResponse() | JSONRPCError():
                self._owed = max(0, self._owed - 1)

    def _was_asked(self, number: RequestId | None) -> bool:
        number = None if number is None else coerce_request_id(number)
        if number not in self.asked:
            return False
        self.asked.discard(number)
        return True

    def _note_rubbish(self, error: Exception) -> None:
        self._rubbish += 1
        self.remark = f"it writes what is no message of the protocol: {prompt_name(str(error))!r}"
        if self._rubbish == _MOST_RUBBISH:
            self.end()

    def _may_ask(self) -> bool:
        self._owed += 1
        if self._owed > _MOST_OWED:
            self.end("it asks without end and reads no answer")
        return self._owed <= _MOST_OWED

    async def _slow_down(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._since > 1:
            self._since, self._unasked = loop.time(), 0
        self._unasked += 1
        if self._unasked >= _MOST_UNASKED:
            await asyncio.sleep(max(0.0, self._since + 1 - loop.time()))


def shallow(message: bytes) -> bytes:
    """Replace by null what is nested too deeply to be read, so that the rest of the message can be."""
    if message.count(b"{") + message.count(b"[") <= _DEEPEST or not _is_deep(message):
        return message
    kept: list[bytes] = []
    depth = start = 0
    for sign in _SIGN.finditer(message):
        match sign[0]:
            case b"{" | b"[":
                depth += 1
                if depth == _DEEPEST + 1:
                    kept += (message[start : sign.start()], b"null")
            case b"}" | b"]":
                if depth == _DEEPEST + 1:
                    start = sign.end()
                depth -= 1
    return b"".join((*kept, message[start:])) if kept and depth == 0 else message


def _is_deep(message: bytes) -> bool:
    """Return True if brackets that are closed are nested too deeply.

    Few messages are, and to walk over one may cost as much as to parse it, or more. So all brackets of the
    innermost level are taken away at once, level by level: most messages have few levels.
    """
    brackets = _TEXT.sub(b"", message).translate(_SQUARE, _NO_BRACKETS)
    for _ in range(_DEEPEST):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):  # none are left, or the rest are of no whole message
            return False
        brackets = fewer
    return bool(brackets)


def _shorten(result: dict[str, Any]) -> None:
    """Cut lists that are long beyond all use."""
    match result:
        case {"content": list(parts)} if len(parts) > _MOST_PARTS:
            told = f"(and {len(parts) - _MOST_PARTS:,} more parts, which are left out)"
            parts[_MOST_PARTS:] = [{"type": "text", "text": told}]
        case {"tools": list(tools)}:
            del tools[_MOST_LISTED:]
        case _:
            pass


class FilteredStream(ObjectReceiveStream[SessionMessage | Exception]):
    """The stream from a server, of which only that goes on which `ConnectionLog` lets pass."""

    def __init__(self, inner: "ReadStream[SessionMessage | Exception]", wire: ConnectionLog) -> None:
        self._inner = inner
        self._wire = wire

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there will be none.
        """
        while not self._wire.ended.is_set():
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._wire.end()
                break
            if await self._wire.passes(item):
                return item
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()


class LoggedStream(ObjectSendStream[SessionMessage]):
    """The stream to a server, of which `ConnectionLog` takes note."""

    def __init__(self, inner: "WriteStream[SessionMessage]", wire: ConnectionLog) -> None:
        self._inner = inner
        self._wire = wire

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        self._wire.sent(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()
