"""What the bodies of requests have in common, whatever the API: their style, and a prompt's lines for it.

Pure, and the same to the byte for the same lines: each request is the one before plus a tail, so that
the server's prefix cache hits all of it.
"""

import base64
import enum
import functools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Literal

import msgspec

from pixi.core.llm import AssistantLine, Line, Request, SystemLine, ToolCall, ToolLine, ToolSchema, UserLine
from pixi.core.message import Image

ToolMode = Literal["auto", "native", "text", "off"]
GrammarField = Literal["off", "llama.cpp", "vllm"]

JsonObject = dict[str, object]


class Quirk(enum.Enum):
    """What a server turned out not to take, or to want otherwise."""

    NO_USAGE = "it refuses stream_options"
    NO_PROGRESS = "it refuses return_progress"
    NO_PARALLEL = "it refuses parallel_tool_calls"
    NO_TOOLS = "it refuses tools"
    NO_SEARCH = "it does not search the web"
    NO_TEMPERATURE = "it refuses temperature"
    NO_REASONING = "it refuses its own reasoning, sealed, as it was handed out"
    NO_PICTURES = "it refuses the pictures of a request"
    COMPLETION_TOKENS = "it calls max_tokens max_completion_tokens"
    NO_SCHEMA = "it refuses response_format"
    ALTERNATE = "its prompt template wants the roles to alternate"
    NO_SEARCH_BESIDE_TOOLS = "it does not search the web where it is offered tools"
    SIGNED_CALLS = "it wants a signature with each call of the past"


@dataclass(frozen=True, slots=True)
class Style:
    """How requests to one model of one server are written.

    Attributes:
        model: the model's id there.
        tools: how tools are offered; `auto` is native where the server takes them, else the text form.
        grammar: the field for a grammar; it never goes together with tools that are offered.
        vision: pictures are shown; otherwise it is said that there was one.
        extra_body: fields merged into the body last.
        search: the name of the tool by which the server searches the web itself; "" where it does not.
        progress: the server is asked to tell how far it has read the prompt.
    """

    model: str
    tools: ToolMode = "auto"
    grammar: GrammarField = "off"
    vision: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, object] = field(default_factory=dict)
    search: str = ""
    progress: bool = False


def tool_form(style: Style, quirks: Collection[Quirk]) -> Literal["native", "text", "off"]:
    """Return the form that tools take in the next request."""
    if style.tools == "auto":
        return "text" if Quirk.NO_TOOLS in quirks else "native"
    return style.tools


def plain(request: Request, form: Literal["native", "text", "off"]) -> list[Line]:
    """Return the lines of a request as servers can take them, in the form that tools have there.

    Where that is not `native`, calls and their answers are words. Where it is, an answer holds words alone:
    the pictures of all that stand together follow them, as if a person showed them.
    """
    lines: Sequence[Line] = request.lines
    if form == "text" and request.tools:
        lines = with_tools_told(lines, request.tools)
    if form != "native":
        return [_in_words(line) for line in lines]
    written: list[Line] = []
    pictured: list[ToolLine] = []
    for line in lines:
        if pictured and not isinstance(line, ToolLine):
            written.append(_brought(pictured))
            pictured = []
        if isinstance(line, ToolLine) and line.images:
            pictured.append(line)
            written.append(replace(line, images=()))
        else:
            written.append(line)
    return [*written, _brought(pictured)] if pictured else written


def _in_words(line: Line) -> Line:
    match line:
        case AssistantLine(text, calls):
            return AssistantLine("\n".join((*([text] if text else []), *map(text_call, calls))))
        case ToolLine(images=images):
            return UserLine(text_result(line), images)
        case _:
            return line


def _brought(lines: Sequence[ToolLine]) -> UserLine:
    names = ", ".join(dict.fromkeys(_attribute(line.name) for line in lines))
    images = tuple(image for line in lines for image in line.images)
    return UserLine(f"({'The picture' if len(images) == 1 else 'The pictures'} that {names} gave.)", images)


def text_call(call: ToolCall) -> str:
    """Return a call of the past in the text form."""
    return f'<tool-call tool="{_attribute(call.name)}">{call.arguments}</tool-call>'


def text_result(line: ToolLine) -> str:
    """Return a tool's answer in the text form. What it holds are strangers' words: they cannot close it."""
    text = re.sub(r"</(?=\s*tool-result)", "&lt;/", line.text, flags=re.IGNORECASE)
    return f'<tool-result tool="{_attribute(line.name)}">{text}</tool-result>'


def _attribute(name: str) -> str:
    return re.sub(r'["<>\s]+', "_", name)


def unseen(text: str, images: Sequence[Image]) -> str:
    """Return a text that says of its pictures that there were some."""
    pictures = "a picture" if len(images) == 1 else f"{len(images)} pictures"
    return f"{text}\n({pictures} that you cannot see)".lstrip()


def data_url(image: Image) -> str:
    """Return the picture as an address that holds it."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def json_object(arguments: str) -> str:
    """Return arguments as servers take them back: many parse them, and refuse the talk where they cannot."""
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        # Handled below, with what is valid JSON but no object.
        pass
    return json.dumps({"not_an_object": arguments}, ensure_ascii=False)


def with_tools_told(lines: Sequence[Line], tools: Sequence[ToolSchema]) -> list[Line]:
    """Return the lines with the tools described at the end of the first system line."""
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
    return resources.files("pixi.models.dialects").joinpath("text_tools.md").read_text("utf-8").strip()


def encoded(fields: JsonObject) -> bytes:
    """Return a body as it is sent."""
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        # Half a surrogate pair in somebody's text: it has no UTF-8, and is shown as U+FFFD.
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
