"""The lines of a prompt, written as the JSON body of a request to the Responses API.

Pure, and the same to the byte for the same lines, as `chat.body` is for chat completions. Nothing is kept at
the server (`store`), so each request holds the whole talk: the one before plus a tail. What the persona is
told is an item like the others: there are servers that know no `instructions`, and it is cached as well.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, assert_never

from pixi.core.deltas import Request, ToolSchema
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image
from pixi.models.render import (
    JsonObject,
    Quirk,
    Style,
    data_url,
    encoded,
    json_object,
    plain,
    tool_form,
    unseen,
)

Thoughts = Callable[[ToolCall], Sequence[JsonObject]]
"""The reasoning that led to a call, sealed, as its server handed it out."""


def nothing(_: ToolCall) -> Sequence[JsonObject]:
    """No reasoning is handed back: documented as allowed, the model then thinks again."""
    return ()


def response_body(
    request: Request, style: Style, quirks: Collection[Quirk] = (), thoughts: Thoughts = nothing
) -> bytes:
    """The body of a request for a streamed reply."""
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
    fields.update(style.extra_body)
    return encoded(fields)


def items(
    request: Request,
    form: Literal["native", "text", "off"],
    *,
    vision: bool,
    thoughts: Thoughts = nothing,
) -> list[JsonObject]:
    """The `input` of a request.

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
