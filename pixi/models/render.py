"""The lines of a prompt, written as the JSON body of a chat-completions request.

Pure, and the same to the byte for the same lines: each request is the one before plus a tail, so that
the server's prefix cache hits all of it.
"""

import base64
import enum
import functools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal, assert_never

import msgspec

from pixi.core.deltas import Request, ToolSchema
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image

ToolMode = Literal["auto", "native", "text", "off"]
GrammarField = Literal["off", "llama.cpp", "vllm"]

JsonObject = dict[str, object]


class Quirk(enum.Enum):
    """What a server turned out not to take, or to want otherwise."""

    NO_USAGE = "it refuses stream_options"
    NO_PARALLEL = "it refuses parallel_tool_calls"
    NO_TOOLS = "it refuses tools"
    NO_PICTURES = "it refuses the pictures of a request"
    COMPLETION_TOKENS = "it calls max_tokens max_completion_tokens"
    NO_SCHEMA = "it refuses response_format"
    ALTERNATE = "its prompt template wants the roles to alternate"


@dataclass(frozen=True, slots=True)
class Style:
    """How requests to one model of one server are written.

    Attributes:
        model: the model's id there.
        tools: how tools are offered; `auto` is native where the server takes them, else the text form.
        grammar: the field for a grammar; it never goes together with tools that are offered.
        vision: pictures are shown; otherwise it is said that there was one.
        extra_body: fields merged into the body last.
    """

    model: str
    tools: ToolMode = "auto"
    grammar: GrammarField = "off"
    vision: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, object] = field(default_factory=dict)


def tool_form(style: Style, quirks: Collection[Quirk]) -> Literal["native", "text", "off"]:
    """The form that tools take in the next request."""
    if style.tools == "auto":
        return "text" if Quirk.NO_TOOLS in quirks else "native"
    return style.tools


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
    native_tools = form == "native" and bool(request.tools)
    if native_tools:
        fields["tools"] = [_native_tool(tool) for tool in request.tools]
        if Quirk.NO_PARALLEL not in quirks:
            fields["parallel_tool_calls"] = True
    if style.temperature is not None:
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
    return _encode(fields)


def messages(
    request: Request, form: Literal["native", "text", "off"], *, vision: bool, alternate: bool = False
) -> list[JsonObject]:
    """The `messages` of a request.

    Args:
        form: where it is not `native`, calls and results of the past are written in the text form.
        vision: show pictures.
        alternate: join messages of the same role that stand next to each other.
    """
    lines: Sequence[Line] = request.lines
    if form == "text" and request.tools:
        lines = _with_tools_told(lines, request.tools)
    if form == "native":
        written = _native_messages(lines, vision)
    else:
        written = [_text_message(line, vision) for line in lines]
    return _alternating(written) if alternate else written


def _native_messages(lines: Sequence[Line], vision: bool) -> list[JsonObject]:
    """Answers hold words alone: the pictures of all that stand together follow them in a message."""
    written: list[JsonObject] = []
    pictures: list[ToolLine] = []
    for line in lines:
        if pictures and not isinstance(line, ToolLine):
            written.append(_brought(pictures, vision))
            pictures = []
        written.append(_native_message(line, vision))
        if isinstance(line, ToolLine) and line.images:
            pictures.append(line)
    if pictures:
        written.append(_brought(pictures, vision))
    return written


def _brought(lines: Sequence[ToolLine], vision: bool) -> JsonObject:
    names = ", ".join(dict.fromkeys(_attribute(line.name) for line in lines))
    images = tuple(image for line in lines for image in line.images)
    told = f"({'The picture' if len(images) == 1 else 'The pictures'} that {names} gave.)"
    return {"role": "user", "content": _content(told, images, vision)}


def _native_message(line: Line, vision: bool) -> JsonObject:
    match line:
        case AssistantLine(text, calls) if calls:
            return {
                "role": "assistant",
                "content": text or None,
                "tool_calls": [_native_call(c) for c in calls],
            }
        case ToolLine(call_id, _, text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case _:
            return _text_message(line, vision)


def _text_message(line: Line, vision: bool) -> JsonObject:
    match line:
        case SystemLine(text):
            return {"role": "system", "content": text}
        case UserLine(text, images):
            return {"role": "user", "content": _content(text, images, vision)}
        case AssistantLine(text, calls):
            parts = [text] if text else []
            return {"role": "assistant", "content": "\n".join((*parts, *map(text_call, calls)))}
        case ToolLine(images=images):
            return {"role": "user", "content": _content(text_result(line), images, vision)}
        case _:
            assert_never(line)


def text_call(call: ToolCall) -> str:
    """A call of the past in the text form."""
    return f'<tool-call tool="{_attribute(call.name)}">{call.arguments}</tool-call>'


def text_result(line: ToolLine) -> str:
    """A tool's answer in the text form. What it holds are strangers' words: they cannot close it."""
    text = re.sub(r"</(?=\s*tool-result)", "&lt;/", line.text, flags=re.IGNORECASE)
    return f'<tool-result tool="{_attribute(line.name)}">{text}</tool-result>'


def _attribute(name: str) -> str:
    return re.sub(r'["<>\s]+', "_", name)


def _content(text: str, images: tuple[Image, ...], vision: bool) -> str | list[JsonObject]:
    if not images:
        return text
    if not vision:
        count = len(images)
        pictures = "a picture" if count == 1 else f"{count} pictures"
        return f"{text}\n({pictures} that you cannot see)".lstrip()
    parts: list[JsonObject] = [{"type": "text", "text": text}] if text else []
    for image in images:
        url = f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _native_call(call: ToolCall) -> JsonObject:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": _json_object(call.arguments)},
    }


def _json_object(arguments: str) -> str:
    """Arguments as servers accept them back: many parse them, and refuse the whole talk where they cannot."""
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        # Handled below, with what is valid JSON but no object.
        pass
    return json.dumps({"not_an_object": arguments}, ensure_ascii=False)


def _native_tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _with_tools_told(lines: Sequence[Line], tools: Sequence[ToolSchema]) -> list[Line]:
    """The lines with the tools described at the end of the first system line."""
    listing = "\n\n".join(
        f"- {tool.name}: {tool.description}\n  arguments: {msgspec.json.encode(tool.parameters).decode()}"
        for tool in tools
    )
    told = _tools_prompt().replace("{{tools}}", listing)
    match lines:
        case [SystemLine(text), *rest]:
            return [SystemLine(f"{text}\n\n{told}"), *rest]
        case _:
            return [SystemLine(told), *lines]


@functools.cache
def _tools_prompt() -> str:
    return resources.files("pixi.models").joinpath("text_tools.md").read_text("utf-8").strip()


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


def _encode(fields: JsonObject) -> bytes:
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        # Half a surrogate pair in somebody's text: it has no UTF-8, and is shown as U+FFFD.
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
