"""The assembling of tool calls that come in pieces, by index or by id, or with neither."""

import json
import secrets
from dataclasses import dataclass, field

import msgspec

from pixi.core.lines import ToolCall

_PIECE_SIZE = 100  # of a piece without a word in it


class FunctionPiece(msgspec.Struct, gc=False):
    """A piece of a call's function. Some servers send the arguments as an object, not as its text."""

    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallPiece(msgspec.Struct, gc=False):
    """A piece of a call, as it stands in a chunk."""

    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None


@dataclass(slots=True)
class _Call:
    order: int
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def is_whole(self) -> bool:
        """The arguments so far are a JSON value: what comes next is not their rest."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class CallAssembler:
    """Puts the pieces of the calls of one reply together.

    Attributes:
        size: characters that are held, about.
    """

    def __init__(self) -> None:
        self.size = 0
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def add(self, piece: CallPiece) -> None:
        """Take the next piece, in the order of the stream."""
        function = piece.function or FunctionPiece()
        name = function.name or ""
        call = self._belonging(piece.index, piece.id or "", name)
        if name != call.name and not call.arguments:
            # Most send the name once, some with every piece, a few in pieces of its own.
            call.name += name
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        if arguments:
            call.arguments.append(arguments)
        self.size += _PIECE_SIZE + len(name) + len(arguments or "")

    def close(self) -> list[ToolCall]:
        """The reply is over; gives its calls by index, each with an id that no other has."""
        taken: set[str] = set()
        calls = []
        for call in sorted(self._calls, key=lambda call: call.order):
            if not call.name and not call.arguments:
                continue
            call.id = distinct_id(call.id, taken)
            # A call without parameters often comes with nothing at all where `{}` is meant.
            calls.append(ToolCall(call.id, call.name, "".join(call.arguments) or "{}"))
        return calls

    def _belonging(self, index: int | None, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to; begins it where it is the first of its pieces."""
        last = self._calls[-1] if self._calls else None
        current = last if index is None else self._by_index.get(index)
        if call_id:
            known = self._by_id.get(call_id)
            if known is not None and (known is current or index is None or not name):
                return known
            if current is not None and not current.id and not (name and current.name):
                current.id = call_id
                self._by_id[call_id] = current
                return current
            # The same index with another id is another call: there are servers that number all calls 0.
            return self._begin(index, call_id)
        if current is None:
            return self._begin(index, "")
        if name and current.name and (current.is_whole() or (index is None and not current.arguments)):
            return self._begin(index, "")
        return current

    def _begin(self, index: int | None, call_id: str) -> _Call:
        call = _Call(order=len(self._calls) if index is None else index, id=call_id)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        return call


def distinct_id(call_id: str, taken: set[str]) -> str:
    """The id of a call, or a new one where it has none or another call has it too; now it is taken."""
    if not call_id or call_id in taken:
        # Nine letters and digits: the strictest form that a server in use asks for.
        call_id = secrets.token_hex(5)[:9]
    taken.add(call_id)
    return call_id
