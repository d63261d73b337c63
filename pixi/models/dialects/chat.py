"""Chat completions: the API that most servers speak.

A body is the same to the byte for the same lines: each request is the one before plus a tail, so that the
server's prefix cache hits all of it.
"""

import json
from collections.abc import Collection
from typing import Literal, assert_never

import msgspec
import yarl

from pixi.core.errors import ModelError
from pixi.core.llm import (
    AssistantLine,
    Finished,
    Line,
    PromptProgress,
    Request,
    SystemLine,
    ToolCall,
    ToolLine,
    ToolSchema,
    Usage,
    UserLine,
)
from pixi.core.message import Image
from pixi.models.dialects.dialect import Dialect, ReplyReader, distinct_id
from pixi.models.dialects.prompt import (
    GrammarField,
    JsonObject,
    Quirk,
    Style,
    data_url,
    json_object,
    plain,
    tool_form,
    unseen,
)
from pixi.models.faults import ErrorField, Server

_MOST_TOKENS = 999_999_999  # of a prompt


class Chat(Dialect):
    """Chat completions, streamed."""

    name = "chat"
    serves = "chat completions"
    ends_in = "/v1"

    def address(self, base: yarl.URL, model: str) -> yarl.URL:
        """Return where a reply is asked for."""
        return base / "chat" / "completions"

    def fields(self, request: Request, style: Style, quirks: Collection[Quirk]) -> JsonObject:
        """Return the fields of the body of a request."""
        return chat_fields(request, style, quirks)

    def reader(self, server: Server, fields: JsonObject) -> "ChatReader":
        """Make the reader of a reply."""
        return ChatReader(server)


def chat_fields(request: Request, style: Style, quirks: Collection[Quirk] = ()) -> JsonObject:
    """Return the fields of a request for a streamed reply."""
    form = tool_form(style, quirks)
    vision = style.vision and Quirk.NO_PICTURES not in quirks
    fields: JsonObject = {
        "model": style.model,
        "messages": messages(request, form, vision=vision, alternate=Quirk.ALTERNATE in quirks),
        "stream": True,
    }
    if Quirk.NO_USAGE not in quirks:
        fields["stream_options"] = {"include_usage": True}
    if style.progress and Quirk.NO_PROGRESS not in quirks:
        fields["return_progress"] = True  # llama.cpp's; others know no such field
    native_tools = form == "native" and bool(request.tools)
    if native_tools:
        fields["tools"] = [_native_tool(tool) for tool in request.tools]
        if Quirk.NO_PARALLEL not in quirks:
            fields["parallel_tool_calls"] = True
    if style.temperature is not None and Quirk.NO_TEMPERATURE not in quirks:
        fields["temperature"] = style.temperature
    if style.max_tokens is not None:
        renamed = Quirk.COMPLETION_TOKENS in quirks
        fields["max_completion_tokens" if renamed else "max_tokens"] = style.max_tokens
    if request.grammar and (form == "off" or not request.tools):
        fields.update(_grammar(request.grammar, style.grammar))
    elif request.schema is not None and Quirk.NO_SCHEMA not in quirks:
        form_of_reply = {"name": "reply", "strict": True, "schema": request.schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": form_of_reply}
    return fields | dict(style.extra_body)


def messages(
    request: Request, form: Literal["native", "text", "off"], *, vision: bool, alternate: bool = False
) -> list[JsonObject]:
    """Return the `messages` of a request.

    Args:
        form: where it is not `native`, calls and results of the past are written in the text form.
        vision: show pictures.
        alternate: join messages of the same role that stand next to each other.
    """
    written = [_message(line, vision) for line in plain(request, form)]
    return _alternating(written) if alternate else written


def _message(line: Line, vision: bool) -> JsonObject:
    match line:
        case SystemLine(text):
            return {"role": "system", "content": text}
        case UserLine(text, images):
            return {"role": "user", "content": _content(text, images, vision)}
        case AssistantLine(text, ()):
            return {"role": "assistant", "content": text}
        case AssistantLine(text, calls):
            asked = [_native_call(call) for call in calls]
            return {"role": "assistant", "content": text or None, "tool_calls": asked}
        case ToolLine(call_id, _, text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case _:
            assert_never(line)


def _content(text: str, images: tuple[Image, ...], vision: bool) -> str | list[JsonObject]:
    if not images:
        return text
    if not vision:
        return unseen(text, images)
    parts: list[JsonObject] = [{"type": "text", "text": text}] if text else []
    parts += [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return parts


def _native_call(call: ToolCall) -> JsonObject:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": json_object(call.arguments)},
    }


def _native_tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _alternating(written: list[JsonObject]) -> list[JsonObject]:
    joined: list[JsonObject] = []
    for message in written:
        before = joined[-1] if joined else {}
        theirs, ours = before.get("content"), message["content"]
        alike = before.get("role") == message["role"] != "tool" and "tool_calls" not in before | message
        if not alike:
            joined.append(message)
        elif isinstance(theirs, str) and isinstance(ours, str):
            joined[-1] = before | {"content": f"{theirs}\n\n{ours}"}
        else:
            joined[-1] = before | {"content": [*_as_parts(theirs), *_as_parts(ours)]}
    return joined


def _as_parts(content: object) -> list[object]:
    """Return what a message says, in parts as they stand beside pictures."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _grammar(grammar: str, where: GrammarField) -> JsonObject:
    match where:
        case "off":
            return {}
        case "llama.cpp":
            return {"grammar": grammar}
        case "vllm":
            return {"structured_outputs": {"grammar": grammar}}
        case _:
            assert_never(where)


class FunctionPiece(msgspec.Struct, gc=False):
    """A piece of a call's function. Some servers send the arguments as an object, not as its text."""

    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallPiece(msgspec.Struct, gc=False):
    """A piece of a call, as it stands in a chunk."""

    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None


class _Call(msgspec.Struct):
    order: int
    id: str
    name: str = ""
    arguments: list[str] = msgspec.field(default_factory=list)

    def is_whole(self) -> bool:
        """Return True if the arguments so far are a JSON value: what comes next is not their rest."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class CallAssembler:
    """Puts the pieces of the calls of one reply together."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def add(self, piece: CallPiece) -> int:
        """Take the next piece, in the order of the stream; return how many characters it has."""
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
        return len(name) + len(arguments or "")

    def close(self) -> list[ToolCall]:
        """End the reply; give its calls by index, each with an id that no other has."""
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
        """Return the call that a piece belongs to; begin it with its first piece."""
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


class _Part(msgspec.Struct, gc=False):
    """A part of a content that comes as a list."""

    text: str | None = None
    thinking: "str | list[_Part] | None" = None


class _Piece(msgspec.Struct, gc=False):
    """`delta` of a stream; `message` of a server that answers whole."""

    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallPiece] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Piece | None = None
    message: _Piece | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _UsageField(msgspec.Struct, gc=False):
    """Token counts; where the cached ones stand is each provider's own choice."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None


class _Timings(msgspec.Struct, gc=False):
    """llama.cpp's own counts: `prompt_n` were evaluated, `cache_n` were not."""

    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0


class Chunk(msgspec.Struct, gc=False):
    """An event. With a `message` at this level it is an error in an older form, with its code and type."""

    choices: list[_Choice] | None = None
    usage: _UsageField | None = None
    timings: _Timings | None = None
    prompt_progress: object = None
    error: ErrorField | str | None = None
    message: str | None = None
    code: str | int | None = None
    type: str | None = None


class ChatReader(ReplyReader[Chunk]):
    """Reads the events of a chat-completions stream; see `ReplyReader`."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, Chunk)
        self._reason = ""
        self._calls = CallAssembler()
        self._usage: _UsageField | None = None
        self._timings: _Timings | None = None

    def _finish(self) -> None:
        if self._reason == "error":
            raise ModelError(f"{self._server.place} failed in the middle of its reply.")
        self._deltas += self._calls.close()
        self._deltas.append(Finished("length" if self._reason == "length" else "stop", self._counted()))

    def _take(self, event: Chunk) -> None:
        choices = event.choices
        if event.prompt_progress is not None:  # no event of a reply: one that ends here is none
            self.progress = _progress_in(event.prompt_progress)
        elif choices is not None or event.usage is not None:
            self.understood += 1
        if choices:
            choice = choices[0]
            piece = choice.delta or choice.message
            if piece is not None:
                if thought := piece.reasoning_content or piece.reasoning:
                    self._think(thought)
                content = piece.content
                if isinstance(content, str):
                    if content:
                        self._say(content)
                elif content:
                    self._take_parts(content)
                for call in piece.tool_calls or ():
                    self._hold(self._calls.add(call))
            if choice.finish_reason:
                self._reason = choice.finish_reason
                self.ended = True
        elif event.message and not event.error:
            self._complain(ErrorField(event.message, event.type, event.code))
        if event.usage is not None:
            self._usage = event.usage
        if event.timings is not None:
            self._timings = event.timings
        if event.error:
            self._complain(event.error)

    def _take_parts(self, parts: list[_Part]) -> None:
        for part in parts:
            thinking = part.thinking
            if isinstance(thinking, list):
                thinking = "".join(inner.text or "" for inner in thinking)
            if thinking:
                self._think(thinking)
            if part.text:
                self._say(part.text)

    def _counted(self) -> Usage:
        usage = self._usage or _UsageField()
        timings = self._timings or _Timings()
        details = usage.prompt_tokens_details or _PromptDetails()
        cached = (details.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens, timings.cache_n)
        return Usage(
            prompt_tokens=usage.prompt_tokens or timings.cache_n + timings.prompt_n,
            cached_tokens=max(count or 0 for count in cached),
            completion_tokens=usage.completion_tokens or timings.predicted_n,
        )


def _progress_in(told: object) -> PromptProgress | None:
    """Return how far llama.cpp has read a prompt: tokens in all, and those read or in its cache.

    None where what it tells cannot be: with a number beyond all prompts nothing can be reckoned.
    """
    match told:
        case {"processed": int(done), "total": int(total)} if 0 <= done <= total <= _MOST_TOKENS:
            return PromptProgress(done, total)
        case _:
            return None
