"""The events of a stream of the Responses API, as far as they are read."""

import msgspec

from pixi.models.complaint import ErrorField


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
    """What a search did: `search`, or a look into a page."""

    type: str = ""


class Item(msgspec.Struct, gc=False):
    """One thing that the model did: a message, a call, a search, a stretch of reasoning."""

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
    """What the prompt consisted of."""

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
    """The whole of it, as it stands in the events at the beginning and the end of a stream."""

    object: str = ""
    status: str | None = None
    output: list[Item] | None = None
    usage: UsageField | None = None
    error: ErrorField | str | None = None
    incomplete_details: Incomplete | None = None


class Event(Response, gc=False):
    """One event. Without a `type` it is a response by itself, or an error."""

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


decode = msgspec.json.Decoder(Event).decode
"""Reads one event."""
