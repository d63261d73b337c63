"""The lines of a prompt, written as the fields of a request to Anthropic's Messages API.

Pure, and the same for the same lines. This provider caches only what is marked: the last static block is,
and the newest block of the talk, up to which the next request will be the same. So is the newest of the
request before: from a mark the provider looks back some twenty blocks at most, and a round may have more.
"""

import base64
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pixi.core.deltas import Request, ToolSchema
from pixi.core.lines import ToolCall, ToolLine
from pixi.core.message import Image
from pixi.models.packaged.sides import Piece, Side, Talk, object_in, talk_of
from pixi.models.render import JsonObject, Quirk, Style, tool_form

WEB_SEARCH: JsonObject = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
"""The provider's own search, in the version that every model with a search knows."""

_MOST_TOKENS = 8192  # of a reply, where the settings name no other: the API wants a number

_THOUGHTS = ("thinking", "redacted_thinking")
_CACHED: JsonObject = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True, slots=True)
class Kept:
    """What the provider wants back for a call.

    Attributes:
        blocks: what came beside the calls of that reply: its thoughts, and its own searches.
        tools: those that were offered: what was thought is good only where they are the same.
    """

    blocks: Sequence[JsonObject]
    tools: Sequence[JsonObject]


KeptOf = Callable[[str], Kept | None]


def fields_of(
    request: Request, style: Style, quirks: Collection[Quirk], kept: KeptOf, *, search: bool
) -> JsonObject:
    """The fields of a request for a reply, with those of `extra_body` on top.

    There is no temperature among them: since its version of October 2026 the API takes none.

    Args:
        kept: what the provider wants back for the call of that id.
        search: it may search the web by itself where the request allows it.
    """
    form = tool_form(style, quirks)
    talk = talk_of(request, form, vision=style.vision and Quirk.NO_PICTURES not in quirks)
    tools = [_tool(tool) for tool in request.tools] if form == "native" else []
    fields: JsonObject = {"model": style.model, "max_tokens": style.max_tokens or _MOST_TOKENS}
    if searches(request, quirks, search=search):
        tools.append(dict(WEB_SEARCH))
    if not request.tools and (called := _called(talk, kept)):
        # A talk with calls in it is refused where no tools are offered.
        tools = called
        fields["tool_choice"] = {"type": "none"}
    if talk.system:
        fields["system"] = [{"type": "text", "text": talk.system} | _CACHED]
    elif tools:
        tools[-1] = tools[-1] | _CACHED
    if tools:
        fields["tools"] = tools
    fields["messages"] = _messages(talk.sides, kept)
    if request.schema is not None and Quirk.NO_SCHEMA not in quirks:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
    return _merged(fields, style.extra_body)


def _merged(fields: JsonObject, others: Mapping[str, object]) -> JsonObject:
    """Fields with others on top; of two objects each keeps what the other does not say."""
    merged = dict(fields)
    for name, value in others.items():
        match merged.get(name), value:
            case dict(before), Mapping():
                merged[name] = _merged(before, value)
            case _:
                merged[name] = value
    return merged


def continued(fields: JsonObject, said: Sequence[JsonObject]) -> JsonObject:
    """The fields of the request that lets a server which paused go on from what it has said."""
    messages = fields["messages"]
    assert isinstance(messages, list)
    return fields | {"messages": [*messages, {"role": "assistant", "content": list(said)}]}


def searches(request: Request, quirks: Collection[Quirk], *, search: bool) -> bool:
    """Whether the provider may search the web for this request. A tool of that name takes its place."""
    own = any(tool.name == WEB_SEARCH["name"] for tool in request.tools)
    return search and request.search and Quirk.NO_SEARCH not in quirks and not own


def tools_in(fields: JsonObject) -> list[JsonObject]:
    """The tools that a request offered, without the mark of the cache."""
    offered = fields.get("tools", [])
    assert isinstance(offered, list)
    return [{name: told for name, told in tool.items() if name not in _CACHED} for tool in offered]


def _tool(tool: ToolSchema) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _called(talk: Talk, kept: KeptOf) -> list[JsonObject]:
    """The tools of a talk in which some were called: those of the last call, or what is known of them."""
    calls = [call for side in talk.sides for call in side.calls]
    if calls and (keepsake := kept(calls[-1].id)) is not None:
        return list(keepsake.tools)
    return [
        {"name": name, "input_schema": {"type": "object"}} for name in dict.fromkeys(c.name for c in calls)
    ]


def _messages(sides: Sequence[Side], kept: KeptOf) -> list[JsonObject]:
    messages: list[JsonObject] = []
    turn_begins = max((at for at, side in enumerate(sides) if _is_said(side)), default=0)
    newest = len(sides) - 1
    asked_before = max((at for at in range(newest) if sides[at].role == "user"), default=newest)
    for at, side in enumerate(sides):
        blocks = [*_kept_blocks(side, kept, thoughts=at > turn_begins), *map(_block, side.pieces)]
        if at in (asked_before, newest):
            blocks[-1] = blocks[-1] | _CACHED
        messages.append({"role": "user" if side.role == "user" else "assistant", "content": blocks})
    return messages


def _is_said(side: Side) -> bool:
    """Somebody said something: the model's turn begins after it."""
    return side.role == "user" and any(isinstance(piece, str) for piece in side.pieces)


def _kept_blocks(side: Side, kept: KeptOf, *, thoughts: bool) -> list[JsonObject]:
    """What the provider wants back with the calls of a side; it is the same for all that came together.

    Thoughts are wanted while the turn lasts. Of an earlier one they are of no use, and refused where the talk
    before them is not what it was, as when its window has moved on.
    """
    blocks: list[JsonObject] = []
    for call in side.calls:
        keepsake = kept(call.id)
        for block in keepsake.blocks if keepsake else ():
            if block not in blocks and (thoughts or block.get("type") not in _THOUGHTS):
                blocks.append(block)
    return blocks


def _block(piece: Piece) -> JsonObject:
    match piece:
        case str(text):
            return {"type": "text", "text": text}
        case Image():
            return _picture(piece)
        case ToolCall(call_id, name, arguments):
            return {"type": "tool_use", "id": _id(call_id), "name": name, "input": object_in(arguments)}
        case ToolLine(call_id, _, text, images):
            content: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
            content += map(_picture, images)
            return {"type": "tool_result", "tool_use_id": _id(call_id), "content": content}
        case _:
            assert_never(piece)


def _picture(image: Image) -> JsonObject:
    data = base64.b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def _id(call_id: str) -> str:
    """The id of a call as it is taken here: it may have been another provider's."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", call_id) or "_"
