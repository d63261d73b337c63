"""The Responses API: OpenAI's, and that of those who speak as it does (xAI, OpenRouter).

Nothing is kept at the server (`store`), so each request holds the whole talk: the one before plus a tail.
What the persona is told is an item like the others: there are servers that know no `instructions`, and it
is cached as well. A server that does not stream answers with one `response` object; it is read as what such
a stream would have come to.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, assert_never

import msgspec
import yarl

from pixi.core.llm import (
    AssistantLine,
    Cited,
    Finished,
    Line,
    Request,
    SystemLine,
    ToolCall,
    ToolLine,
    ToolSchema,
    Usage,
    UserLine,
)
from pixi.core.message import Image
from pixi.models.dialects.dialect import Dialect, ProviderState, ReplyReader, distinct_id
from pixi.models.dialects.prompt import (
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

_MOST_CITED = 100
_SEARCHES = ("web_search_call", "openrouter:web_search")

Sealed = ProviderState[tuple[JsonObject, ...]]
"""Stretches of reasoning that only the server can read, by the calls that they led to."""

Thoughts = Callable[[ToolCall], Sequence[JsonObject]]
"""The reasoning that led to a call, sealed, as its server handed it out."""


class Responses(Dialect):
    """The Responses API.

    A provider may search the web while it writes, where a request allows that. A reasoning model's thoughts
    between the rounds of tools, which only its server can read, are handed back to it.
    """

    name = "responses"
    serves = "Responses API"
    ends_in = "/v1"

    def __init__(self) -> None:
        self._sealed = Sealed()

    def address(self, base: yarl.URL, model: str) -> yarl.URL:
        """Return where a reply is asked for."""
        return base / "responses"

    def search_tool(self, host: str) -> str:
        """Return the name of the search of a host."""
        return "openrouter:web_search" if f".{host}".endswith(".openrouter.ai") else "web_search"

    def fields(self, request: Request, style: Style, quirks: Collection[Quirk]) -> JsonObject:
        """Return the fields of the body of a request."""
        return response_fields(request, style, quirks, self._thoughts)

    def reader(self, server: Server, fields: JsonObject) -> "ResponseReader":
        """Make the reader of a reply."""
        return ResponseReader(server, self._sealed)

    def _thoughts(self, call: ToolCall) -> Sequence[JsonObject]:
        return self._sealed.get(call.id) or ()


def nothing(_: ToolCall) -> Sequence[JsonObject]:
    """Hand no reasoning back: documented as allowed, the model then thinks again."""
    return ()


def response_fields(
    request: Request, style: Style, quirks: Collection[Quirk] = (), thoughts: Thoughts = nothing
) -> JsonObject:
    """Return the fields of a request for a streamed reply."""
    form = tool_form(style, quirks)
    vision = style.vision and Quirk.NO_PICTURES not in quirks
    handed_back = nothing if Quirk.NO_REASONING in quirks else thoughts
    fields: JsonObject = {
        "model": style.model,
        "input": items(request, form, vision=vision, thoughts=handed_back),
        "stream": True,
        "store": False,
    }
    tools = [_native_tool(tool) for tool in request.tools] if form == "native" else []
    if request.search and style.search and Quirk.NO_SEARCH not in quirks:
        tools.append({"type": style.search})
    if tools:
        fields["tools"] = tools
    if style.temperature is not None and Quirk.NO_TEMPERATURE not in quirks:
        fields["temperature"] = style.temperature
    if style.max_tokens is not None:
        fields["max_output_tokens"] = style.max_tokens
    if request.schema is not None and Quirk.NO_SCHEMA not in quirks:
        form_of_reply = {"type": "json_schema", "name": "reply", "strict": True, "schema": request.schema}
        fields["text"] = {"format": form_of_reply}
    return fields | dict(style.extra_body)


def items(
    request: Request, form: Literal["native", "text", "off"], *, vision: bool, thoughts: Thoughts = nothing
) -> list[JsonObject]:
    """Return the `input` of a request.

    Args:
        form: where it is not `native`, calls and results of the past are written in the text form.
        vision: show pictures.
        thoughts: what is handed back with the calls.
    """
    return [item for line in plain(request, form) for item in _items(line, vision, thoughts)]


def _items(line: Line, vision: bool, thoughts: Thoughts) -> Iterator[JsonObject]:
    match line:
        case SystemLine(text):
            yield {"role": "system", "content": text}
        case UserLine(text, images):
            yield {"role": "user", "content": _content(text, images, vision)}
        case AssistantLine(text, calls):
            if text or not calls:
                yield {"role": "assistant", "content": text}
            if calls:
                yield from thoughts(calls[0])
            yield from map(_call, calls)
        case ToolLine(call_id, _, text):
            yield {"type": "function_call_output", "call_id": call_id, "output": text}
        case _:
            assert_never(line)


def _content(text: str, images: Sequence[Image], vision: bool) -> str | list[JsonObject]:
    if not images:
        return text
    if not vision:
        return unseen(text, images)
    parts: list[JsonObject] = [{"type": "input_text", "text": text}] if text else []
    parts += [{"type": "input_image", "image_url": data_url(image), "detail": "auto"} for image in images]
    return parts


def _call(call: ToolCall) -> JsonObject:
    arguments = json_object(call.arguments)
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _native_tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        # Left out it is true here: then each parameter would have to be required.
        "strict": False,
    }


class Annotation(msgspec.Struct, gc=False):
    """A mark in the text; `url_citation` is the one that is read."""

    type: str = ""
    url: str | None = None
    title: str | None = None


class Part(msgspec.Struct, gc=False):
    """A part of a message or of the reasoning."""

    text: str | None = None
    refusal: str | None = None
    annotations: list[Annotation] | None = None


class Action(msgspec.Struct, gc=False):
    """An action of a search: `search`, or a look into a page."""

    type: str = ""


class Item(msgspec.Struct, gc=False):
    """An action of the model: a message, a call, a search, a stretch of reasoning."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, object] | None = None
    action: Action | None = None
    encrypted_content: str | None = None


class InputDetails(msgspec.Struct, gc=False):
    """Parts of the prompt's tokens."""

    cached_tokens: int | None = None


class ServerTools(msgspec.Struct, gc=False):
    """OpenRouter's own counts."""

    web_search_requests: int | None = None


class UsageField(msgspec.Struct, gc=False):
    """Token counts."""

    input_tokens: int | None = None
    output_tokens: int | None = None  # those of the reasoning are among them
    input_tokens_details: InputDetails | None = None
    server_tool_use: ServerTools | None = None


class Incomplete(msgspec.Struct, gc=False):
    """Why a reply was cut."""

    reason: str | None = None


class Response(msgspec.Struct, gc=False):
    """A whole response, as it stands in the events at the beginning and the end of a stream."""

    object: str = ""
    status: str | None = None
    output: list[Item] | None = None
    usage: UsageField | None = None
    error: ErrorField | str | None = None
    incomplete_details: Incomplete | None = None


class ResponseEvent(Response, gc=False):
    """An event. Without a `type` it is a response by itself, or an error."""

    type: str = ""
    delta: str | None = None
    item_id: str | None = None
    output_index: int | None = None
    item: Item | None = None
    annotation: Annotation | None = None
    arguments: str | None = None
    response: Response | None = None
    message: str | None = None
    code: str | int | None = None
    param: str | None = None


class _Call(msgspec.Struct):
    """A call as far as it came. `item` is what its stream calls it, `id` what its answer will."""

    item: str
    id: str = ""
    name: str = ""
    pieces: list[str] = msgspec.field(default_factory=list)
    whole: str = ""


class ResponseReader(ReplyReader[ResponseEvent]):
    """Reads the events of a stream of the Responses API; see `ReplyReader`.

    Args:
        sealed: takes the reasoning that the server wants back with the answers to its calls.
    """

    def __init__(self, server: Server, sealed: Sealed) -> None:
        super().__init__(server, ResponseEvent)
        self._sealed = sealed
        self._reason = ""  # why the reply ended
        self._thoughts: list[JsonObject] = []  # sealed reasoning since the last message or search
        # The calls in their order; an event names one by its id or its number, or both.
        self._calls: list[_Call] = []
        self._by_item: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._searches: dict[str, bool] = {}  # by id; whether it was one, and not a look into a page
        self._cited: dict[str, None] = {}
        self._said = False
        self._apart = False  # what is said next is another message
        self._usage = UsageField()

    def _finish(self) -> None:
        taken: set[str] = set()
        for call in self._calls:
            call_id = distinct_id(call.id, taken)
            self._deltas.append(ToolCall(call_id, call.name, call.whole or "".join(call.pieces) or "{}"))
        if self._thoughts:
            self._sealed.keep(taken, tuple(self._thoughts))
        cut = self._reason == "max_output_tokens"
        self._deltas.append(Finished("length" if cut else "stop", self._counted()))

    def _take(self, event: ResponseEvent) -> None:
        self.understood += 1
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._say_more(event.delta or "")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._think(event.delta or "")
            case "response.function_call_arguments.delta":
                self._call(event.item_id, event.output_index).pieces.append(event.delta or "")
                self._hold(len(event.delta or ""))
            case "response.function_call_arguments.done":
                self._call(event.item_id, event.output_index).whole = event.arguments or ""
            case "response.output_text.annotation.added":
                self._cite(event.annotation)
            case "response.output_item.added":
                self._begin(event.item or Item(), event.output_index)
            case "response.output_item.done":
                self._end(event.item or Item(), event.output_index)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._complete(event.response or Response(), event.type)
            case "" if event.object == "response":
                self._complete(event, f"response.{event.status}")
            case kind if kind.startswith("response.web_search_call."):
                self._searches.setdefault(event.item_id or "", True)
                self._hold(0)
            case kind if event.error or kind == "error" or (not kind and event.message):
                self.understood -= 1
                self._complain(event.error or ErrorField(event.message, None, event.code, event.param))
            case kind if not kind.startswith("response."):
                self.understood -= 1  # a ping, or another API

    def _say_more(self, text: str) -> None:
        if not text:
            return
        if self._apart and self._said:
            text = f"\n{text}"
        self._apart, self._said = False, True
        self._say(text)

    def _cite(self, annotation: Annotation | None) -> None:
        if annotation is None or annotation.type != "url_citation" or not annotation.url:
            return
        if annotation.url not in self._cited and len(self._cited) < _MOST_CITED:
            self._cited[annotation.url] = None
            title = annotation.title or ""
            # There are servers that number their sources where titles should stand.
            self._add(Cited(annotation.url, "" if title.isdecimal() else title))

    def _call(self, item: str | None, index: int | None) -> _Call:
        """Return the call that an event is about, by its id or its number; begin it with its first event."""
        call = self._by_item.get(item or "")
        if call is None and index is not None:
            call = self._by_index.get(index)
            if call is not None and item and call.item:
                call = None  # there are servers that number all calls 0
        if call is None:
            call = _Call(item or "")
            self._calls.append(call)
        if item:
            call.item = item
            self._by_item[item] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _begin(self, item: Item, index: int | None) -> None:
        """Take note that the model begins to do something: a sign of work."""
        self._hold(0)
        if item.type == "message":
            self._apart = True
        elif item.type == "function_call":
            call = self._call(item.id, index)
            call.id, call.name = item.call_id or item.id or "", item.name or ""
        elif item.type in _SEARCHES:
            self._searches.setdefault(item.id or "", True)

    def _end(self, item: Item, index: int | None) -> None:
        """Take what the model did, of which all is known."""
        self._hold(0)
        if item.type == "function_call":
            call = self._call(item.id, index)
            call.id, call.name = item.call_id or call.id or item.id or "", item.name or call.name
            arguments = item.arguments
            if isinstance(arguments, dict):
                arguments = msgspec.json.encode(arguments).decode()
            call.whole = arguments or call.whole
        elif item.type in _SEARCHES:
            looked = item.action is not None and item.action.type not in ("", "search")
            self._searches[item.id or ""] = not looked and item.status != "failed"
        elif item.type == "reasoning" and item.encrypted_content:
            summary = [{"type": "summary_text", "text": part.text or ""} for part in item.summary or ()]
            sealed = item.encrypted_content
            named = {"id": item.id} if item.id else {}
            self._thoughts.append(
                {"type": "reasoning", **named, "summary": summary, "encrypted_content": sealed}
            )
            self._hold(len(sealed))
        if item.type in ("message", *_SEARCHES):
            self._thoughts.clear()  # they led to this, and not to the calls
        for part in item.content or ():
            for annotation in part.annotations or ():
                self._cite(annotation)

    def _complete(self, response: Response, kind: str) -> None:
        """End the reply. Items that the stream did not show are read from the whole response."""
        if kind == "response.failed" or response.error:
            self._complain(response.error or "")
            return
        if not self._said and not self._calls:
            for index, item in enumerate(response.output or ()):
                self._read_whole(item, index)
        self._usage = response.usage or self._usage
        incomplete = response.incomplete_details or Incomplete()
        self._reason = incomplete.reason or kind.removeprefix("response.")
        self.done = True

    def _read_whole(self, item: Item, index: int) -> None:
        """Read an item of which no stream was seen."""
        if item.type == "message":
            self._apart = True
            for part in item.content or ():
                self._say_more(part.text or part.refusal or "")
        elif item.type == "reasoning":
            for part in item.summary or item.content or ():
                self._think(part.text or "")
        self._end(item, index)

    def _counted(self) -> Usage:
        usage = self._usage
        details, tools = usage.input_tokens_details, usage.server_tool_use
        told = tools.web_search_requests if tools else 0
        return Usage(
            prompt_tokens=usage.input_tokens or 0,
            cached_tokens=(details.cached_tokens if details else 0) or 0,
            completion_tokens=usage.output_tokens or 0,
            searches=max(sum(self._searches.values()), told or 0),
        )
