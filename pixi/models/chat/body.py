"""The lines of a prompt, written as the JSON body of a chat-completions request.

Pure, and the same to the byte for the same lines: each request is the one before plus a tail, so that
the server's prefix cache hits all of it.
"""

from collections.abc import Collection
from typing import Literal, assert_never

from pixi.core.deltas import Request, ToolSchema
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image
from pixi.models.render import (
    GrammarField,
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


def body(request: Request, style: Style, quirks: Collection[Quirk] = ()) -> bytes:
    """The body of a request for a streamed reply."""
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
    fields.update(style.extra_body)
    return encoded(fields)


def messages(
    request: Request, form: Literal["native", "text", "off"], *, vision: bool, alternate: bool = False
) -> list[JsonObject]:
    """The `messages` of a request.

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
    """What a message says, in parts as they stand beside pictures."""
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
