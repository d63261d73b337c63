"""The events of a Messages stream, read into structs, and the deltas that they make together.

Sans-IO: payloads in, deltas out. The blocks are kept as they came besides: some of them the server wants
back.
"""

import json
from dataclasses import dataclass, field

import msgspec

from pixi.core.deltas import Cited, Delta, Finished, Text, Usage
from pixi.core.language import Thought
from pixi.core.lines import ToolCall
from pixi.models import faults
from pixi.models.complaint import Complaint
from pixi.models.faults import Server
from pixi.models.packaged.sides import object_in
from pixi.models.render import JsonObject

_NAMELESS = "no reason is told"


class _Delta(msgspec.Struct, gc=False):
    """`delta` of a block, or of the message."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: JsonObject | None = None
    stop_reason: str | None = None
    stop_details: JsonObject | None = None


class _Searches(msgspec.Struct, gc=False):
    web_search_requests: int | None = None


class _Usage(msgspec.Struct, gc=False):
    """Token counts. Each that is told again is the whole up to there."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    server_tool_use: _Searches | None = None


class _Message(msgspec.Struct, gc=False):
    usage: _Usage | None = None


class Event(msgspec.Struct, gc=False):
    """One event; those of other types have nothing that is looked at."""

    type: str = ""
    index: int = -1
    content_block: JsonObject | None = None
    delta: _Delta | None = None
    message: _Message | None = None
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(Event).decode


@dataclass(slots=True)
class _Block:
    """A block of the reply, as it has come so far."""

    fields: JsonObject
    pieces: list[str] = field(default_factory=list)  # of its text, its thought or its input
    citations: list[JsonObject] = field(default_factory=list)

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    @property
    def arguments(self) -> str:
        """The input of a call, as the JSON text that came."""
        return "".join(self.pieces) or json.dumps(self.fields.get("input") or {}, ensure_ascii=False)

    def whole(self) -> JsonObject:
        """The block as the server takes it back."""
        whole = dict(self.fields)
        joined = "".join(self.pieces)
        match self.type:
            case "text":
                whole["text"] = str(whole.get("text") or "") + joined
                if self.citations:
                    whole["citations"] = self.citations
            case "thinking":
                whole["thinking"] = str(whole.get("thinking") or "") + joined
            case "tool_use" | "server_tool_use":
                whole["input"] = object_in(self.arguments)
        return whole


class MessageAssembler:
    """Makes deltas of the payloads of one stream. See `pixi.models.packaged.watched.Assembler`.

    Attributes:
        ended: the server said why its reply ended.
        done: the end mark came; nothing that follows is read.
        understood: events of a Messages stream that were read.
        unseen: pieces of what no delta shows yet: content all the same.
        held: characters that are held until the end, about.
    """

    def __init__(self, server: Server) -> None:
        self.ended = False
        self.done = False
        self.understood = 0
        self.unseen = 0
        self.held = 0
        self._server = server
        self._blocks: dict[int, _Block] = {}
        self._cited: set[str] = set()
        self._spoke = False
        self._stop_reason = ""
        self._stop_details: JsonObject = {}
        self._counts = _Usage()

    @property
    def paused(self) -> bool:
        """The server wants to be asked to go on, with what it wrote so far."""
        return self._stop_reason == "pause_turn"

    def blocks(self) -> list[JsonObject]:
        """The reply so far as the server takes it back. A text without a word is none."""
        blocks = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return [block for block in blocks if block.get("type") != "text" or block.get("text")]

    def feed(self, piece: list[bytes]) -> list[Delta]:
        """Take the payloads of one read; gives their text and reasoning, in order, joined."""
        deltas: list[Delta] = []
        for payload in piece:
            try:
                event = _decode(payload)
            except (ValueError, RecursionError):
                continue  # of a type with other fields, or broken
            for delta in self._take(event):
                _add(deltas, delta)
        return deltas

    def close(self) -> list[Delta]:
        """The stream is over; gives the tool calls, whole, and `Finished`.

        Raises:
            ModelError: the model declined to answer, and had said nothing.
        """
        calls = [
            ToolCall(str(block.fields.get("id", "")), str(block.fields.get("name", "")), block.arguments)
            for _, block in sorted(self._blocks.items())
            if block.type == "tool_use"
        ]
        if self._stop_reason == "refusal" and not self._spoke and not calls:
            told = self._stop_details.get("explanation") or self._stop_details.get("category") or _NAMELESS
            raise faults.declined(self._server, Complaint(0, str(told), "refusal"))
        cut = self._stop_reason in ("max_tokens", "model_context_window_exceeded")
        return [*calls, Finished("length" if cut else "stop", self._counted())]

    def _take(self, event: Event) -> list[Delta]:
        match event.type:
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                self._blocks[event.index] = _Block(event.content_block)
                self._hold(str(event.content_block))
            case "content_block_delta" if event.delta is not None:
                self.understood += 1
                return self._take_delta(event.index, event.delta)
            case "message_delta" if event.delta is not None:
                self._count(event.usage)
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                self._stop_details = event.delta.stop_details or self._stop_details
                self.ended = bool(self._stop_reason)
            case "message_stop":
                self.done = True
            case _:
                return []
        self.understood += 1
        return []

    def _take_delta(self, index: int, delta: _Delta) -> list[Delta]:
        block = self._blocks.get(index)
        if block is None:
            return []
        if delta.text:
            self._spoke = True
            block.pieces.append(delta.text)
            return [Text(delta.text)]
        if delta.thinking:
            block.pieces.append(delta.thinking)
            return [Thought(delta.thinking)]
        if delta.signature:
            block.fields["signature"] = delta.signature
        if delta.partial_json:
            block.pieces.append(delta.partial_json)
        self._hold(delta.signature or delta.partial_json or "")
        if delta.citation is not None:
            block.citations.append(delta.citation)
            return self._cite(delta.citation)
        return []

    def _cite(self, citation: JsonObject) -> list[Delta]:
        url = citation.get("url")
        if not isinstance(url, str) or not url or url in self._cited:
            return []
        self._cited.add(url)
        return [Cited(url, str(citation.get("title") or ""))]

    def _hold(self, text: str) -> None:
        self.unseen += 1
        self.held += 100 + len(text)

    def _count(self, told: _Usage | None) -> None:
        for name in _Usage.__struct_fields__ if told is not None else ():
            if (count := getattr(told, name)) is not None:
                setattr(self._counts, name, count)

    def _counted(self) -> Usage:
        """Here the tokens of a prompt are told in three parts, by how they met the cache."""
        counts = self._counts
        cached = counts.cache_read_input_tokens or 0
        searches = counts.server_tool_use or _Searches()
        return Usage(
            prompt_tokens=(counts.input_tokens or 0) + (counts.cache_creation_input_tokens or 0) + cached,
            cached_tokens=cached,
            completion_tokens=counts.output_tokens or 0,
            searches=searches.web_search_requests or 0,
        )


def _add(deltas: list[Delta], delta: Delta) -> None:
    """Add a delta; text, or a thought, that follows its like is joined with it."""
    match deltas[-1] if deltas else None, delta:
        case Text(before), Text(text):
            deltas[-1] = Text(before + text)
        case Thought(before), Thought(text):
            deltas[-1] = Thought(before + text)
        case _:
            deltas.append(delta)
