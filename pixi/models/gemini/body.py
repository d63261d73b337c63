"""The lines of a prompt, written as a request to Gemini in the types of the provider's own package.

Pure, and the same for the same lines: what a request has in common with the one before is cached there
without being asked for. The package is imported inside the functions: it takes long, and is there by then.
"""

import base64
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pixi.core.deltas import Request
from pixi.core.lines import ToolCall
from pixi.core.message import Image
from pixi.models.packaged.sides import Side, Talk, object_in, talk_of
from pixi.models.render import Quirk, Style, tool_form

if TYPE_CHECKING:
    from google.genai import types

_UNSIGNED = base64.urlsafe_b64decode("skip_thought_signature_validator")
"""The word by which the provider lets a call pass that it has not signed, as another model's."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the provider wants back for a call.

    Attributes:
        before: what came before the calls of that reply, such as its own searches.
        part: the call as it came, with its signature.
    """

    before: "tuple[types.Part, ...]"
    part: "types.Part"


KeptOf = Callable[[str], Kept | None]


def talk_for(request: Request, style: Style, quirks: Collection[Quirk]) -> Talk:
    """The talk as it is shown to this model."""
    vision = style.vision and Quirk.NO_PICTURES not in quirks
    return talk_of(request, tool_form(style, quirks), vision=vision)


def searches(request: Request, style: Style, quirks: Collection[Quirk], *, search: bool) -> bool:
    """Whether the provider may search the web for this request."""
    if not (search and request.search) or Quirk.NO_SEARCH in quirks:
        return False
    beside_tools = bool(request.tools) and tool_form(style, quirks) == "native"
    return not (beside_tools and Quirk.NO_SEARCH_BESIDE_TOOLS in quirks)


def config_of(
    request: Request, talk: Talk, style: Style, quirks: Collection[Quirk], *, search: bool
) -> "types.GenerateContentConfig":
    """What is asked for besides the talk.

    Args:
        search: it may search the web by itself where the request allows it.
    """
    from google.genai import types

    wants_schema = request.schema is not None and Quirk.NO_SCHEMA not in quirks
    config = types.GenerateContentConfig(
        system_instruction=talk.system or None,
        temperature=None if Quirk.NO_TEMPERATURE in quirks else style.temperature,
        max_output_tokens=style.max_tokens,
        response_mime_type="application/json" if wants_schema else None,
        response_json_schema=dict(request.schema) if wants_schema and request.schema else None,
        # Calls are ours to make, and one request is one request.
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )
    offered = [
        types.FunctionDeclaration(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
        )
        for tool in (request.tools if tool_form(style, quirks) == "native" else ())
    ]
    if searches(request, style, quirks, search=search):
        config.tools = [types.Tool(google_search=types.GoogleSearch(), function_declarations=offered or None)]
        if offered:
            config.tool_config = types.ToolConfig(include_server_side_tool_invocations=True)
    elif offered:
        config.tools = [types.Tool(function_declarations=offered)]
    elif named := dict.fromkeys(call.name for side in talk.sides for call in side.calls):
        # A talk with calls in it keeps its tools, though none may be called.
        config.tools = [types.Tool(function_declarations=[types.FunctionDeclaration(name=n) for n in named])]
        none = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.NONE)
        config.tool_config = types.ToolConfig(function_calling_config=none)
    return config


def contents_of(talk: Talk, quirks: Collection[Quirk], kept: KeptOf) -> "list[types.Content]":
    """The talk itself.

    Args:
        kept: what the provider wants back for the call of that id.
    """
    from google.genai import types

    signed = Quirk.SIGNED_CALLS in quirks
    contents: list[types.Content] = []
    for side in talk.sides:
        told = [_told(piece) for piece in side.pieces if isinstance(piece, str | Image)]
        if side.role == "user":
            parts = [*_answered(side, kept), *told]
        else:
            before = _before_calls(side, kept)
            parts = [*before, *told, *_asked(side, kept, signed=signed)]
        contents.append(types.Content(role=side.role, parts=parts))
    return contents


def _told(piece: str | Image) -> "types.Part":
    from google.genai import types

    if isinstance(piece, str):
        return types.Part(text=piece)
    return types.Part(inline_data=types.Blob(mime_type=piece.media_type, data=piece.data))


def _before_calls(side: Side, kept: KeptOf) -> "list[types.Part]":
    """What the provider wants back before the calls of a side; it is the same for all that came together."""
    parts: list[types.Part] = []
    for call in side.calls:
        keepsake = kept(call.id)
        parts += [part for part in (keepsake.before if keepsake else ()) if part not in parts]
    return parts


def _asked(side: Side, kept: KeptOf, *, signed: bool) -> "Iterator[types.Part]":
    """The calls of a side. Of those that came together the provider signs the first."""
    for at, call in enumerate(side.calls):
        keepsake = kept(call.id)
        part = keepsake.part if keepsake else _call(call)
        if signed and at == 0 and part.thought_signature is None:
            part = part.model_copy(update={"thought_signature": _UNSIGNED})
        yield part


def _call(call: ToolCall) -> "types.Part":
    from google.genai import types

    asked = types.FunctionCall(id=call.id, name=call.name, args=object_in(call.arguments))
    return types.Part(function_call=asked)


def _answered(side: Side, kept: KeptOf) -> "Iterator[types.Part]":
    """The results of a side, and after them the pictures that they brought."""
    from google.genai import types

    for line in side.results:
        keepsake = kept(line.call_id)
        # A call that had no id there has none in its answer.
        asked = keepsake.part.function_call if keepsake else None
        answer_to = asked.id if asked else line.call_id
        told = types.FunctionResponse(id=answer_to, name=line.name, response={"result": line.text})
        yield types.Part(function_response=told)
    for line in side.results:
        yield from map(_told, line.images)
