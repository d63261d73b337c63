"""Anthropic's Messages API.

This provider caches only what is marked: the last static block is, and the newest block of the talk, up to
which the next request will be the same. So is the newest of the request before: from a mark the provider
looks back some twenty blocks at most, and a round may have more.

The blocks of a reply are kept as they came: some of them the server wants back. A server that searches may
pause, and is then asked to go on from what it has written (`MessageReader.more`).
"""

import base64
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import assert_never

import msgspec
import yarl

from pixi.core.llm import Cited, Finished, Request, ToolCall, ToolLine, ToolSchema, Usage
from pixi.core.message import Image
from pixi.models import faults
from pixi.models.dialects.dialect import Dialect, ProviderState, ReplyReader, merged
from pixi.models.dialects.prompt import (
    AlternatingTurns,
    JsonObject,
    Piece,
    Quirk,
    Side,
    Style,
    alternating_turns,
    object_in,
    tool_form,
)
from pixi.models.faults import Complaint, ErrorField, Server

_VERSION = "2026-10-21"
_WEB_SEARCH = "web_search_20250305"  # the version that every model with a search knows
_MOST_TOKENS = 8192  # of a reply, where the settings name no other: the API wants a number
_MOST_LISTED = 1000
_MOST_PAUSES = 8  # then what it has come to is the reply
_THOUGHTS = ("thinking", "redacted_thinking")
_CACHED: JsonObject = {"cache_control": {"type": "ephemeral"}}
_NAMELESS = "no reason is told"


class AnthropicCallState(msgspec.Struct, frozen=True):
    """State of a call that the provider wants back.

    Attributes:
        blocks: what came beside the calls of that reply: its thoughts, and its own searches.
        tools: those that were offered: what was thought is good only where they are the same.
    """

    blocks: Sequence[JsonObject]
    tools: Sequence[JsonObject]


StateOf = Callable[[str], AnthropicCallState | None]


class Anthropic(Dialect):
    """The Messages API.

    A reply has at most `max_tokens`, 8192 where the settings name none: the API wants a number. Whether the
    model thinks is its own matter, unless `extra_body` says: `{ thinking = { type = "adaptive" } }`. What it
    thought before it called tools goes back to it with those calls while the turn lasts, and what it found on
    the web for as long as it is remembered here.
    """

    name = "anthropic"
    serves = "messages"
    base_url = "https://api.anthropic.com"
    key_name = "ANTHROPIC_API_KEY"
    takes_temperature = False  # since its version of October 2026

    def __init__(self) -> None:
        self._kept: ProviderState[AnthropicCallState] = ProviderState()

    def address(self, base: yarl.URL, model: str) -> yarl.URL:
        """Return where a reply is asked for."""
        return _versioned(base) / "messages"

    def listing(self, base: yarl.URL) -> yarl.URL:
        """Return where the models of a server are asked for."""
        return _versioned(base) / "models" % {"limit": _MOST_LISTED}

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that authenticate, and name the version of the API."""
        return {**super().headers(key), "anthropic-version": _VERSION}

    def search_tool(self, host: str) -> str:
        """Return the type of the provider's own search."""
        return _WEB_SEARCH

    def fields(self, request: Request, style: Style, quirks: Collection[Quirk]) -> JsonObject:
        """Return the fields of the body of a request."""
        return message_fields(request, style, quirks, self._kept.get)

    def reader(self, server: Server, fields: JsonObject) -> "MessageReader":
        """Make the reader of a reply."""
        return MessageReader(server, fields, self._kept)


def _versioned(base: yarl.URL) -> yarl.URL:
    return base if base.name == "v1" else base / "v1"


def message_fields(request: Request, style: Style, quirks: Collection[Quirk], kept: StateOf) -> JsonObject:
    """Return the fields of a request for a streamed reply, with those of `extra_body` on top.

    Args:
        kept: what the provider wants back for the call of that id.
    """
    form = tool_form(style, quirks)
    talk = alternating_turns(request, form, vision=style.vision and Quirk.NO_PICTURES not in quirks)
    tools = [_tool(tool) for tool in request.tools] if form == "native" else []
    fields: JsonObject = {"model": style.model, "max_tokens": style.max_tokens or _MOST_TOKENS}
    own = any(tool.name == "web_search" for tool in request.tools)  # which takes its place
    if request.search and style.search and Quirk.NO_SEARCH not in quirks and not own:
        tools.append({"type": style.search, "name": "web_search", "max_uses": 5})
    if not request.tools and (called := _called(talk, kept)):
        # A talk with calls in it is refused where no tools are offered.
        tools = called
        fields["tool_choice"] = {"type": "none"}
    if talk.system:
        fields["system"] = [{"type": "text", "text": talk.system} | _CACHED]
    elif tools:
        tools[-1] = tools[-1] | _CACHED
    if tools:
        fields["tools"] = tools
    fields["messages"] = _messages(talk.sides, kept)
    fields["stream"] = True
    if request.schema is not None and Quirk.NO_SCHEMA not in quirks:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
    return merged(fields, style.extra_body)


def _tools_in(fields: JsonObject) -> list[JsonObject]:
    """Return the tools that a request offered, without the mark of the cache."""
    offered = fields.get("tools", [])
    assert isinstance(offered, list)
    return [{name: told for name, told in tool.items() if name not in _CACHED} for tool in offered]


def _tool(tool: ToolSchema) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _called(talk: AlternatingTurns, kept: StateOf) -> list[JsonObject]:
    """Return the tools of a talk in which some were called: those of the last call, or their names alone."""
    calls = [call for side in talk.sides for call in side.calls]
    if calls and (state := kept(calls[-1].id)) is not None:
        return list(state.tools)
    return [
        {"name": name, "input_schema": {"type": "object"}} for name in dict.fromkeys(c.name for c in calls)
    ]


def _messages(sides: Sequence[Side], kept: StateOf) -> list[JsonObject]:
    messages: list[JsonObject] = []
    turn_begins = max((at for at, side in enumerate(sides) if _is_said(side)), default=0)
    newest = len(sides) - 1
    asked_before = max((at for at in range(newest) if sides[at].role == "user"), default=newest)
    for at, side in enumerate(sides):
        blocks = [*_kept_blocks(side, kept, thoughts=at > turn_begins), *map(_block, side.pieces)]
        if at in (asked_before, newest):
            blocks[-1] = blocks[-1] | _CACHED
        messages.append({"role": "user" if side.role == "user" else "assistant", "content": blocks})
    return messages


def _is_said(side: Side) -> bool:
    """Return True if somebody said something: the model's turn begins after it."""
    return side.role == "user" and any(isinstance(piece, str) for piece in side.pieces)


def _kept_blocks(side: Side, kept: StateOf, *, thoughts: bool) -> list[JsonObject]:
    """Return what the provider wants back with the calls of a side: the same for all that came together.

    Thoughts are wanted while the turn lasts. Of an earlier one they are of no use, and refused where the talk
    before them is not what it was, as when its window has moved on.
    """
    blocks: list[JsonObject] = []
    for call in side.calls:
        state = kept(call.id)
        for block in state.blocks if state else ():
            if block not in blocks and (thoughts or block.get("type") not in _THOUGHTS):
                blocks.append(block)
    return blocks


def _block(piece: Piece) -> JsonObject:
    match piece:
        case str(text):
            return {"type": "text", "text": text}
        case Image():
            return _picture(piece)
        case ToolCall(call_id, name, arguments):
            return {"type": "tool_use", "id": _id(call_id), "name": name, "input": object_in(arguments)}
        case ToolLine(call_id, _, text, images):
            content: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
            content += map(_picture, images)
            return {"type": "tool_result", "tool_use_id": _id(call_id), "content": content}
        case _:
            assert_never(piece)


def _picture(image: Image) -> JsonObject:
    data = base64.b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def _id(call_id: str) -> str:
    """Return the id of a call as it is taken here: it may have been another provider's."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", call_id) or "_"


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


class AnthropicEvent(msgspec.Struct, gc=False):
    """An event; those of other types have nothing that is looked at."""

    type: str = ""
    index: int = -1
    content_block: JsonObject | None = None
    delta: _Delta | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: ErrorField | str | None = None


class _Block(msgspec.Struct):
    """A block of the reply, as it has come so far."""

    fields: JsonObject
    pieces: list[str] = msgspec.field(default_factory=list)  # of its text, its thought or its input
    citations: list[JsonObject] = msgspec.field(default_factory=list)

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    @property
    def arguments(self) -> str:
        """Return the input of a call, as the JSON text that came."""
        return "".join(self.pieces) or json.dumps(self.fields.get("input") or {}, ensure_ascii=False)

    def whole(self) -> JsonObject:
        """Return the block as the server takes it back."""
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


class MessageReader(ReplyReader[AnthropicEvent]):
    """Reads the events of a Messages stream; see `ReplyReader`.

    Args:
        fields: of the request.
        kept: takes what the server wants back with its calls.
    """

    def __init__(self, server: Server, fields: JsonObject, kept: ProviderState[AnthropicCallState]) -> None:
        super().__init__(server, AnthropicEvent)
        self._fields = fields
        self._kept = kept
        # Of the present response, by the server's numbers; emptied at each pause.
        self._blocks: dict[int, _Block] = {}
        self._counts = _Usage()
        self._stop_reason = ""
        self._stop_details: JsonObject = {}
        # Of the responses before the last pause.
        self._written: list[JsonObject] = []
        self._used = Usage()
        self._pauses = 0
        # Of the whole reply.
        self._cited: set[str] = set()
        self._spoke = False

    def more(self) -> JsonObject | None:
        """Return the fields of the request that lets a server which paused go on from what it has said."""
        if self._stop_reason != "pause_turn" or self._pauses == _MOST_PAUSES:
            return None
        self._pauses += 1
        self._written += self._whole_blocks()
        self._used += self._counted()
        self._blocks, self._counts, self._stop_reason = {}, _Usage(), ""
        self.ended = self.done = False
        messages = self._fields["messages"]
        assert isinstance(messages, list)
        return self._fields | {"messages": [*messages, {"role": "assistant", "content": self._written}]}

    def _finish(self) -> None:
        calls = [
            ToolCall(str(block.fields.get("id", "")), str(block.fields.get("name", "")), block.arguments)
            for _, block in sorted(self._blocks.items())
            if block.type == "tool_use"
        ]
        if self._stop_reason == "refusal" and not self._spoke and not calls:
            told = self._stop_details.get("explanation") or self._stop_details.get("category") or _NAMELESS
            raise faults.declined(self._server, Complaint(0, str(told), "refusal"))
        wanted = [
            block
            for block in (*self._written, *self._whole_blocks())
            if block.get("type") not in ("text", "tool_use")
        ]
        self._kept.keep([call.id for call in calls], AnthropicCallState(wanted, _tools_in(self._fields)))
        cut = self._stop_reason in ("max_tokens", "model_context_window_exceeded")
        self._deltas += [*calls, Finished("length" if cut else "stop", self._used + self._counted())]

    def _whole_blocks(self) -> list[JsonObject]:
        """Return the reply so far as the server takes it back. A text without a word is none."""
        blocks = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return [block for block in blocks if block.get("type") != "text" or block.get("text")]

    def _take(self, event: AnthropicEvent) -> None:
        match event.type:
            case "content_block_delta" if event.delta is not None:
                self._take_delta(event.index, event.delta)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                self._blocks[event.index] = _Block(event.content_block)
                self._hold(len(str(event.content_block)))
            case "message_delta" if event.delta is not None:
                self._count(event.usage)
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                self._stop_details = event.delta.stop_details or self._stop_details
                self.ended = bool(self._stop_reason)
            case "message_stop":
                self.done = True
            case _:
                if event.error:
                    self._complain(event.error)
                return
        self.understood += 1

    def _take_delta(self, index: int, delta: _Delta) -> None:
        block = self._blocks.get(index)
        if block is None:
            return
        if delta.text:
            self._spoke = True
            block.pieces.append(delta.text)
            self._say(delta.text)
        elif delta.thinking:
            block.pieces.append(delta.thinking)
            self._think(delta.thinking)
        else:
            if delta.signature:
                block.fields["signature"] = delta.signature
            if delta.partial_json:
                block.pieces.append(delta.partial_json)
            self._hold(len(delta.signature or delta.partial_json or ""))
            if delta.citation is not None:
                block.citations.append(delta.citation)
                self._cite(delta.citation)

    def _cite(self, citation: JsonObject) -> None:
        url = citation.get("url")
        if isinstance(url, str) and url and url not in self._cited:
            self._cited.add(url)
            self._add(Cited(url, str(citation.get("title") or "")))

    def _count(self, told: _Usage | None) -> None:
        for name in _Usage.__struct_fields__ if told is not None else ():
            if (count := getattr(told, name)) is not None:
                setattr(self._counts, name, count)

    def _counted(self) -> Usage:
        """Return the counts. Here those of a prompt are told in three parts, by how they met the cache."""
        counts = self._counts
        cached = counts.cache_read_input_tokens or 0
        searches = counts.server_tool_use or _Searches()
        return Usage(
            prompt_tokens=(counts.input_tokens or 0) + (counts.cache_creation_input_tokens or 0) + cached,
            cached_tokens=cached,
            completion_tokens=counts.output_tokens or 0,
            searches=searches.web_search_requests or 0,
        )
