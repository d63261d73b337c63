"""Parts of a request's body that the dialects share: style and quirks, lines, and turns that alternate."""

import base64
import enum
import functools
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import resources
from typing import Literal

import msgspec
from msgspec.structs import replace

from pixi.core.llm import (
    AssistantLine,
    Line,
    Request,
    SystemLine,
    ToolCall,
    ToolLine,
    ToolMode,
    ToolSchema,
    UserLine,
)
from pixi.core.message import Image
from pixi.core.untrusted import without_halves

GrammarField = Literal["off", "llama.cpp", "vllm"]
JsonObject = dict[str, object]
Piece = str | Image | ToolCall | ToolLine
_BEFORE = "(The talk began before this.)"


class Quirk(enum.Enum):
    """A form that a server turned out not to take, or to want otherwise."""

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


class Style(msgspec.Struct, frozen=True):
    """Style of requests to one model of one server.

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
    extra_body: Mapping[str, object] = msgspec.field(default_factory=dict)
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
            said = [text] if text else []
            return AssistantLine("\n".join([*said, *map(text_call, calls)]))
        case ToolLine(images=images):
            return UserLine(text_result(line), images)
        case _:
            return line


def _brought(lines: Sequence[ToolLine]) -> UserLine:
    names = ", ".join(dict.fromkeys(_attribute(line.name) for line in lines))
    images = tuple(image for line in lines for image in line.images)
    pictures = "The picture" if len(images) == 1 else "The pictures"
    return UserLine(f"({pictures} that {names} gave.)", images)


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
        return without_halves(text).encode()


class Side(msgspec.Struct, frozen=True):
    """The pieces that one side says until the other speaks: at least one, and no text among them is empty.

    Calls and results are here only where both are: the results stand first on the side that follows their
    calls. A call or a result without the other is told in words.
    """

    role: Literal["user", "model"]
    pieces: tuple[Piece, ...]

    @property
    def calls(self) -> list[ToolCall]:
        """Return the calls among the pieces."""
        return [piece for piece in self.pieces if isinstance(piece, ToolCall)]

    @property
    def results(self) -> list[ToolLine]:
        """Return the results among the pieces."""
        return [piece for piece in self.pieces if isinstance(piece, ToolLine)]


class AlternatingTurns(msgspec.Struct, frozen=True):
    """A prompt whose sides speak in turn, the user's first. `system` stands before them."""

    system: str
    sides: tuple[Side, ...]


def alternating_turns(
    request: Request, form: Literal["native", "text", "off"], *, vision: bool
) -> AlternatingTurns:
    """Return the lines of a request as turns that alternate, for APIs that take nothing else.

    Args:
        form: where it is not `native`, calls and results of the past are written in the text form.
        vision: pictures are shown; otherwise it is said that there was one.
    """
    lines: Sequence[Line] = request.lines
    if form == "text" and request.tools:
        lines = with_tools_told(lines, request.tools)
    before = list(itertools.takewhile(lambda line: isinstance(line, SystemLine), lines))
    system = "\n\n".join(line.text for line in before)
    sides = _joined(lines[len(before) :], native=form == "native", vision=vision)
    if not sides or sides[0].role == "model":
        sides.insert(0, Side("user", (_BEFORE,)))
    return AlternatingTurns(without_halves(system), tuple(_matched(sides)))


def object_in(arguments: str) -> JsonObject:
    """Return the arguments of a call as an object, for providers that take nothing else."""
    try:
        fields = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        fields = None
    return fields if isinstance(fields, dict) else {"not_an_object": without_halves(arguments)}


def _joined(lines: Sequence[Line], *, native: bool, vision: bool) -> list[Side]:
    sides: list[Side] = []
    for line in lines:
        role: Literal["user", "model"] = "model" if isinstance(line, AssistantLine) else "user"
        pieces = tuple(_pieces(line, native=native, vision=vision))
        if not pieces:
            continue
        if sides and sides[-1].role == role:
            sides[-1] = replace(sides[-1], pieces=(*sides[-1].pieces, *pieces))
        else:
            sides.append(Side(role, pieces))
    return sides


def _pieces(line: Line, *, native: bool, vision: bool) -> Iterator[Piece]:
    match line:
        case AssistantLine(text, calls):
            if text.strip():
                yield without_halves(text)
            yield from calls if native else (without_halves(text_call(call)) for call in calls)
        case ToolLine(images=images) if native:
            told = line.text if vision or not images else unseen(line.text, images)
            yield replace(line, text=without_halves(told), images=images if vision else ())
        case SystemLine(text):
            if text.strip():
                yield without_halves(text)
        case UserLine(images=images) | ToolLine(images=images):
            text = text_result(line) if isinstance(line, ToolLine) else line.text
            if images and not vision:
                text = unseen(text, images)
            if text.strip():
                yield without_halves(text)
            if vision:
                yield from images


def _matched(sides: Sequence[Side]) -> Iterator[Side]:
    """Yield the sides, with calls and results that lost each other in words: providers refuse such a talk."""
    asked: set[str] = set()
    for at, side in enumerate(sides):
        if side.role == "model":
            answered = {line.call_id for line in sides[at + 1].results} if at + 1 < len(sides) else set()
            asked = {call.id for call in side.calls} & answered
            yield replace(side, pieces=tuple(_with_calls_last(side.pieces, asked)))
        else:
            yield replace(side, pieces=tuple(_with_results_first(side.pieces, asked)))
            asked = set()


def _with_calls_last(pieces: Sequence[Piece], answered: set[str]) -> list[Piece]:
    calls = [piece for piece in pieces if isinstance(piece, ToolCall) and piece.id in answered]
    others = (piece for piece in pieces if not isinstance(piece, ToolCall) or piece.id not in answered)
    return [*(text_call(each) if isinstance(each, ToolCall) else each for each in others), *calls]


def _with_results_first(pieces: Sequence[Piece], asked: set[str]) -> list[Piece]:
    results: list[Piece] = []
    told: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, ToolLine):
            told.append(piece)
        elif piece.call_id in asked:
            results.append(piece)
        else:
            told += [text_result(piece), *piece.images]
    return results + told
