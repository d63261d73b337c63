"""Gemini's own API: `streamGenerateContent`.

What a request has in common with the one before is cached there without being asked for. The model signs its
calls, and wants them back as they were while a turn lasts: they go back as they came, for as long as they are
remembered here. For calls that it did not make, as another model's, there is a word that it takes instead; it
is sent once it was asked for.
"""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
import yarl

from pixi.core.errors import ModelError
from pixi.core.llm import Cited, Finished, Request, ToolCall, Usage
from pixi.core.message import Image
from pixi.models import faults
from pixi.models.dialects.dialect import Dialect, ProviderState, ReplyReader, distinct_id, merged
from pixi.models.dialects.prompt import (
    AlternatingTurns,
    JsonObject,
    Quirk,
    Side,
    Style,
    alternating_turns,
    object_in,
    tool_form,
)
from pixi.models.faults import Complaint, ErrorField, Server

_VERSION = re.compile(r"/(v\d\w*)(/openai)?$")  # the second for its other API, of OpenAI's kind
_USUAL_VERSION = "v1"
_MOST_LISTED = 1000
_UNSIGNED = "skip_thought_signature_validator"  # lets a call pass that the provider has not signed
_CUT = ("MAX_TOKENS", "CONTINUATION")
# Another attempt may do better: what the model wrote was no call, or no answer.
_BOTCHED = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "MALFORMED_RESPONSE",
    "TOO_MANY_TOOL_CALLS",
    "OTHER",
)
_SIGNATURE_MISSED = "MISSING_THOUGHT_SIGNATURE"


class GeminiCallState(msgspec.Struct, frozen=True):
    """State of a call that the provider wants back.

    Attributes:
        before: the parts that came before the calls of that reply, such as its own searches.
        part: the call as it came, with its signature.
    """

    before: tuple[JsonObject, ...]
    part: JsonObject


StateOf = Callable[[str], GeminiCallState | None]


class Gemini(Dialect):
    """The Gemini API.

    Whether the model thinks is its own matter, unless `extra_body` says, in the API's own words:
    `{ generationConfig = { thinkingConfig = { thinkingLevel = "low" } } }`. Older models do not search the
    web where they are offered tools: the tools stay, and the search goes.
    """

    name = "gemini"
    serves = "streamGenerateContent"
    base_url = "https://generativelanguage.googleapis.com"
    key_name = "GEMINI_API_KEY"

    def __init__(self) -> None:
        self._kept: ProviderState[GeminiCallState] = ProviderState()

    def address(self, base: yarl.URL, model: str) -> yarl.URL:
        """Return where a reply is asked for."""
        path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return _versioned(base).joinpath(*f"{path}:streamGenerateContent".split("/")) % {"alt": "sse"}

    def listing(self, base: yarl.URL) -> yarl.URL:
        """Return where the models of a server are asked for."""
        return _versioned(base) / "models" % {"pageSize": _MOST_LISTED}

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the header that authenticates."""
        return {"x-goog-api-key": key}

    def search_tool(self, host: str) -> str:
        """Return the name of the provider's own search."""
        return "googleSearch"

    def fields(self, request: Request, style: Style, quirks: Collection[Quirk]) -> JsonObject:
        """Return the fields of the body of a request."""
        return content_fields(request, style, quirks, self._kept.get)

    def reader(self, server: Server, fields: JsonObject) -> "ContentReader":
        """Make the reader of a reply."""
        return ContentReader(server, self._kept)

    def names_in(self, content: bytes) -> list[str]:
        """Return the ids in a listing of models.

        Raises:
            ValueError, RecursionError: it is none.
        """
        return [model.name.removeprefix("models/") for model in _decode_listing(content).models if model.name]


def _versioned(base: yarl.URL) -> yarl.URL:
    version = _VERSION.search(base.path)
    root = base.with_path(_VERSION.sub("", base.path) or "/")
    return root / (version[1] if version else _USUAL_VERSION)


class _Named(msgspec.Struct):
    name: str = ""


class _Listing(msgspec.Struct):
    models: list[_Named] = []


_decode_listing = msgspec.json.Decoder(_Listing).decode


def content_fields(request: Request, style: Style, quirks: Collection[Quirk], kept: StateOf) -> JsonObject:
    """Return the fields of a request for a streamed reply, with those of `extra_body` on top.

    Args:
        kept: what the provider wants back for the call of that id.
    """
    form = tool_form(style, quirks)
    talk = alternating_turns(request, form, vision=style.vision and Quirk.NO_PICTURES not in quirks)
    fields: JsonObject = {"contents": _contents(talk, kept, signed=Quirk.SIGNED_CALLS in quirks)}
    if talk.system:
        fields["systemInstruction"] = {"parts": [{"text": talk.system}], "role": "user"}
    offered = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
        for tool in (request.tools if form == "native" else ())
    ]
    declared = [{"functionDeclarations": offered}] if offered else []
    searches = bool(request.search and style.search) and Quirk.NO_SEARCH not in quirks
    if searches and not (offered and Quirk.NO_SEARCH_BESIDE_TOOLS in quirks):
        fields["tools"] = [{style.search: {}}, *declared]
        if offered:
            fields["toolConfig"] = {"includeServerSideToolInvocations": True}
    elif offered:
        fields["tools"] = declared
    elif named := dict.fromkeys(call.name for side in talk.sides for call in side.calls):
        # A talk with calls in it keeps its tools, though none may be called.
        fields["tools"] = [{"functionDeclarations": [{"name": name} for name in named]}]
        fields["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
    if config := _config(request, style, quirks):
        fields["generationConfig"] = config
    return merged(fields, style.extra_body)


def _config(request: Request, style: Style, quirks: Collection[Quirk]) -> JsonObject:
    config: JsonObject = {}
    if style.temperature is not None and Quirk.NO_TEMPERATURE not in quirks:
        config["temperature"] = style.temperature
    if style.max_tokens is not None:
        config["maxOutputTokens"] = style.max_tokens
    if request.schema is not None and Quirk.NO_SCHEMA not in quirks:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.schema)}
    return config


def _contents(talk: AlternatingTurns, kept: StateOf, *, signed: bool) -> list[JsonObject]:
    contents: list[JsonObject] = []
    for side in talk.sides:
        told = [_told(piece) for piece in side.pieces if isinstance(piece, str | Image)]
        if side.role == "user":
            parts = [*_answered(side, kept), *told]
        else:
            parts = [*_before_calls(side, kept), *told, *_asked(side, kept, signed=signed)]
        contents.append({"role": side.role, "parts": parts})
    return contents


def _told(piece: str | Image) -> JsonObject:
    if isinstance(piece, str):
        return {"text": piece}
    data = base64.b64encode(piece.data).decode()
    return {"inlineData": {"mimeType": piece.media_type, "data": data}}


def _before_calls(side: Side, kept: StateOf) -> list[JsonObject]:
    """Return what the provider wants back before the calls of a side: the same for all that came together."""
    parts: list[JsonObject] = []
    for call in side.calls:
        state = kept(call.id)
        parts += [part for part in (state.before if state else ()) if part not in parts]
    return parts


def _asked(side: Side, kept: StateOf, *, signed: bool) -> Iterator[JsonObject]:
    """Return the calls of a side. Of those that came together the provider signs the first."""
    for at, call in enumerate(side.calls):
        state = kept(call.id)
        part = state.part if state else _call(call)
        if signed and at == 0 and "thoughtSignature" not in part:
            part = part | {"thoughtSignature": _UNSIGNED}
        yield part


def _call(call: ToolCall) -> JsonObject:
    return {"functionCall": {"id": call.id, "name": call.name, "args": object_in(call.arguments)}}


def _answered(side: Side, kept: StateOf) -> Iterator[JsonObject]:
    """Return the results of a side, and after them the pictures that they brought."""
    for line in side.results:
        state = kept(line.call_id)
        # A call that had no id there has none in its answer.
        answers = _function_call(state.part).get("id") if state else line.call_id
        answer: JsonObject = {"name": line.name, "response": {"result": line.text}}
        yield {"functionResponse": answer | ({"id": answers} if answers else {})}
    for line in side.results:
        yield from map(_told, line.images)


class _Content(msgspec.Struct, gc=False):
    parts: list[JsonObject] | None = None


class _Page(msgspec.Struct, gc=False):
    uri: str | None = None
    title: str | None = None
    domain: str | None = None


class _GroundingChunk(msgspec.Struct, gc=False):
    web: _Page | None = None


class _Support(msgspec.Struct, gc=False, rename="camel"):
    grounding_chunk_indices: list[int] | None = None


class _Grounding(msgspec.Struct, gc=False, rename="camel"):
    web_search_queries: list[str] | None = None
    grounding_chunks: list[_GroundingChunk] | None = None
    grounding_supports: list[_Support] | None = None


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: _Grounding | None = None


class _Feedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Counts(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class ContentChunk(msgspec.Struct, gc=False, rename="camel"):
    """An event."""

    candidates: list[_Candidate] | None = None
    usage_metadata: _Counts | None = None
    prompt_feedback: _Feedback | None = None
    error: ErrorField | str | None = None


class ContentReader(ReplyReader[ContentChunk]):
    """Reads the events of a Gemini stream; see `ReplyReader`.

    Args:
        kept: takes what the server wants back with its calls.
    """

    def __init__(self, server: Server, kept: ProviderState[GeminiCallState]) -> None:
        super().__init__(server, ContentChunk)
        self._kept = kept
        self._spoke = False
        self._reason = ""  # why the reply ended, as the API names it
        self._why = ""  # the same in words
        self._blocked = ""  # why the prompt was refused
        self._before: list[JsonObject] = []  # parts that the server wants back before the calls
        self._calls: list[JsonObject] = []
        # What the server searched for and found: pages by number, and the numbers of those that it cites.
        self._pages: dict[int, tuple[str, str]] = {}
        self._cited: set[int] = set()
        self._queries: dict[str, None] = {}
        self._counts = _Counts()  # told anew with each chunk

    def _finish(self) -> None:
        if not self._spoke and not self._calls and (fault := self._fault()) is not None:
            raise fault
        self._deltas += [Cited(*self._pages[at]) for at in sorted(self._cited & self._pages.keys())]
        taken: set[str] = set()
        for part in self._calls:
            asked = _function_call(part)
            call_id = distinct_id(str(asked.get("id") or ""), taken)
            self._kept.keep([call_id], GeminiCallState(tuple(self._before), part))
            arguments = json.dumps(asked.get("args") or {}, ensure_ascii=False)
            self._deltas.append(ToolCall(call_id, str(asked.get("name") or ""), arguments))
        self._deltas.append(Finished("length" if self._reason in _CUT else "stop", self._counted()))

    def _take(self, event: ContentChunk) -> None:
        if event.candidates or event.usage_metadata or event.prompt_feedback:
            self.understood += 1
        self._counts = event.usage_metadata or self._counts
        if event.prompt_feedback is not None and (reason := event.prompt_feedback.block_reason):
            self._blocked = event.prompt_feedback.block_reason_message or reason
            self.ended = True
        if event.candidates:
            candidate = event.candidates[0]
            for part in (candidate.content.parts if candidate.content else None) or ():
                self._take_part(part)
            if candidate.grounding_metadata is not None:
                self._ground(candidate.grounding_metadata)
            if candidate.finish_reason is not None:
                self._reason = candidate.finish_reason
                self._why = candidate.finish_message or ""
                self.ended = True
        if event.error:
            self._complain(event.error)

    def _take_part(self, part: JsonObject) -> None:
        text = part.get("text")
        if isinstance(text, str) and text:
            if part.get("thought"):
                self._think(text)
            else:
                self._spoke = True
                self._say(text)
        elif isinstance(part.get("functionCall"), dict):
            self._calls.append(part)
            self._hold(len(str(part)))
        elif "toolCall" in part or "toolResponse" in part:
            # What the server did by itself, which it wants back beside the calls that followed.
            self._before.append(part)
            self._hold(len(str(part)))

    def _ground(self, found: _Grounding) -> None:
        """Note what was searched for and found. Each chunk may tell the whole again, or its own part."""
        self._queries |= dict.fromkeys(found.web_search_queries or ())
        chunks = found.grounding_chunks or ()
        for at, chunk in enumerate(chunks):
            if chunk.web is not None and chunk.web.uri:
                self._pages[at] = (chunk.web.uri, chunk.web.title or chunk.web.domain or "")
        supported = [
            at for each in found.grounding_supports or () for at in each.grounding_chunk_indices or ()
        ]
        self._cited |= set(supported or range(len(chunks)))

    def _fault(self) -> ModelError | None:
        if self._blocked:
            return faults.declined(self._server, Complaint(0, self._blocked, "blocked"))
        told = self._why or self._reason
        if self._reason in ("", "STOP", *_CUT):
            return None
        if self._reason == _SIGNATURE_MISSED:
            return faults.refusal(self._server, Complaint(400, told, "thought_signature"))
        if self._reason in _BOTCHED:
            return ModelError(f"{self._server.model} at {self._server.place} wrote no reply: {told}")
        return faults.declined(self._server, Complaint(0, told, self._reason))

    def _counted(self) -> Usage:
        """Return the counts: what the server's own tools brought is prompt, what it thought is reply."""
        counts = self._counts
        return Usage(
            prompt_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
            cached_tokens=counts.cached_content_token_count or 0,
            completion_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
            searches=len(self._queries),
        )


def _function_call(part: JsonObject) -> JsonObject:
    asked = part.get("functionCall")
    return asked if isinstance(asked, dict) else {}
