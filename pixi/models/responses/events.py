"""The deltas that the events of a stream of the Responses API make together.

Sans-IO: payloads in, deltas out, as `chat.chunks` does it for chat completions. A server that does not stream
answers with one `response` object; it is read as what such a stream would have come to.
"""

from dataclasses import dataclass, field

import msgspec

from pixi.core.deltas import Cited, Delta, Finished, Usage
from pixi.core.lines import ToolCall
from pixi.models.calls import distinct_id
from pixi.models.complaint import Complaint, ErrorField, complaint_of
from pixi.models.gathering import Gathering
from pixi.models.keepsakes import Keepsakes
from pixi.models.odd_events import is_end_mark, read_oddly
from pixi.models.render import JsonObject
from pixi.models.responses.format import Annotation, Event, Incomplete, Item, Response, UsageField, decode

_PIECE_SIZE = 100  # of what is held without a word in it
_MOST_CITED = 100
_SEARCHES = ("web_search_call", "openrouter:web_search")


Sealed = Keepsakes[tuple[JsonObject, ...]]
"""Stretches of reasoning that only the server can read, by the calls that they led to."""


@dataclass(slots=True)
class _Call:
    """A call as far as it came. `item` is what its stream calls it, `id` what its answer will."""

    item: str
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: str = ""


class ResponseAssembler:
    """Makes deltas of the payloads of one stream: `feed` them, then `close`; see `pixi.models.reply`.

    Args:
        sealed: takes the reasoning that the server wants back with the answers to its calls.
    """

    def __init__(self, sealed: Sealed) -> None:
        self.finish_reason = ""
        self.done = False
        self.complaint: Complaint | None = None
        self.understood = 0
        self.unseen = 0
        self.held = 0
        self._sealed = sealed
        self._thoughts: list[JsonObject] = []
        self._gathering = Gathering()
        self._calls: list[_Call] = []
        self._by_item: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._searches: dict[str, bool] = {}  # by id; whether it was one, and not a look into a page
        self._cited: dict[str, None] = {}
        self._said = False
        self._apart = False  # what is said next is another message
        self._usage = UsageField()

    def feed(self, payloads: list[bytes]) -> list[Delta]:
        """Take the payloads of one read; gives their text, reasoning and citations."""
        deltas: list[Delta] = []
        for payload in payloads:
            if self.done:
                break
            try:
                self._take(decode(payload), deltas)
            except (ValueError, RecursionError):
                for event in self._read_odd(payload):
                    self._take(event, deltas)
        self._gathering.flush(deltas)
        return deltas

    def close(self) -> list[Delta]:
        """The stream is over; gives the tool calls, whole, and `Finished`."""
        deltas = self._gathering.close()
        taken: set[str] = set()
        for call in self._calls:
            call_id = distinct_id(call.id, taken)
            deltas.append(ToolCall(call_id, call.name, call.whole or "".join(call.pieces) or "{}"))
        if self._thoughts:
            self._sealed.keep(taken, tuple(self._thoughts))
        cut = self.finish_reason == "max_output_tokens"
        deltas.append(Finished("length" if cut else "stop", self._counted()))
        return deltas

    def _take(self, event: Event, deltas: list[Delta]) -> None:
        self.understood += 1
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._say(event.delta or "", deltas)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._think(event.delta or "", deltas)
            case "response.function_call_arguments.delta":
                self._call(event.item_id, event.output_index).pieces.append(event.delta or "")
                self._hold(len(event.delta or ""))
            case "response.function_call_arguments.done":
                self._call(event.item_id, event.output_index).whole = event.arguments or ""
            case "response.output_text.annotation.added":
                self._cite(event.annotation, deltas)
            case "response.output_item.added":
                self._begin(event.item or Item(), event.output_index)
            case "response.output_item.done":
                self._end(event.item or Item(), event.output_index, deltas)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._finish(event.response or Response(), event.type, deltas)
            case "" if event.object == "response":
                self._finish(event, f"response.{event.status}", deltas)
            case kind if kind.startswith("response.web_search_call."):
                self._searches.setdefault(event.item_id or "", True)
                self._hold(0)
            case kind if event.error or kind == "error" or (not kind and event.message):
                self.understood -= 1
                self._complain(event.error or ErrorField(event.message, None, event.code, event.param))
            case kind if not kind.startswith("response."):
                self.understood -= 1  # a ping, or another API

    def _say(self, text: str, deltas: list[Delta]) -> None:
        if not text:
            return
        if self._apart and self._said:
            text = f"\n{text}"
        self._apart, self._said = False, True
        self._gathering.say(text, deltas)

    def _think(self, thought: str, deltas: list[Delta]) -> None:
        if thought:
            self._gathering.think(thought, deltas)

    def _cite(self, annotation: Annotation | None, deltas: list[Delta]) -> None:
        if annotation is None or annotation.type != "url_citation" or not annotation.url:
            return
        if annotation.url not in self._cited and len(self._cited) < _MOST_CITED:
            self._cited[annotation.url] = None
            self._gathering.flush(deltas)
            title = annotation.title or ""
            # There are servers that number their sources where titles should stand.
            deltas.append(Cited(annotation.url, "" if title.isdecimal() else title))

    def _call(self, item: str | None, index: int | None) -> _Call:
        """The call that an event is about, by its id or its number; begun where it is the first."""
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
        """The model begins to do something: a sign of work."""
        self._hold(0)
        if item.type == "message":
            self._apart = True
        elif item.type == "function_call":
            call = self._call(item.id, index)
            call.id, call.name = item.call_id or item.id or "", item.name or ""
        elif item.type in _SEARCHES:
            self._searches.setdefault(item.id or "", True)

    def _end(self, item: Item, index: int | None, deltas: list[Delta]) -> None:
        """The model did something; all of it is known."""
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
                self._cite(annotation, deltas)

    def _finish(self, response: Response, kind: str, deltas: list[Delta]) -> None:
        """The reply is over. What the stream did not show stands in the whole of it."""
        if kind == "response.failed" or response.error:
            self._complain(response.error or "")
            return
        if not self._said and not self._calls:
            for index, item in enumerate(response.output or ()):
                self._read_whole(item, index, deltas)
        self._usage = response.usage or self._usage
        incomplete = response.incomplete_details or Incomplete()
        self.finish_reason = incomplete.reason or kind.removeprefix("response.")
        self.done = True

    def _read_whole(self, item: Item, index: int, deltas: list[Delta]) -> None:
        """An item of which no stream was seen."""
        if item.type == "message":
            self._apart = True
            for part in item.content or ():
                self._say(part.text or part.refusal or "", deltas)
        elif item.type == "reasoning":
            for part in item.summary or item.content or ():
                self._think(part.text or "", deltas)
        self._end(item, index, deltas)

    def _complain(self, error: ErrorField | str) -> None:
        self.complaint = self.complaint or complaint_of(error)

    def _hold(self, size: int) -> None:
        self.unseen += 1
        self.held += _PIECE_SIZE + size

    def _read_odd(self, payload: bytes) -> list[Event]:
        """What does not decode at once."""
        if any(map(is_end_mark, payload.split(b"\n"))):
            self.done = True
        events = read_oddly(payload, Event)
        self._gathering.halves |= bool(events)
        return events

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
