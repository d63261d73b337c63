"""What a server's refusal teaches about it: what it does not take, and is asked without from then on."""

import re
from collections.abc import Collection

from pixi.core.deltas import Request
from pixi.core.errors import ModelError
from pixi.core.lines import ToolLine, UserLine
from pixi.models.faults import Refusal
from pixi.models.render import Quirk

_NOT_TAKEN = re.compile(
    r"not support|unsupported|doesn't support|only supported|no endpoints|requires? --|not permitted|"
    r"not allowed|unknown|unrecognized|unexpected|not available|not enabled|not implemented|at most 0|not a ",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\b(tools?|tool_choice|functions?|function.calling)\b", re.IGNORECASE)
_BAD_SCHEMA = re.compile(r"schema", re.IGNORECASE)  # a fault in one tool, not in having tools
_REPLY_FORM = re.compile(
    r"response_format|text\.format|json_schema|json.mode|structured.outputs?|guided|grammar", re.IGNORECASE
)
_SEARCH = re.compile(
    r"web.?search|hosted.tools?|server.tools?|built-?in.tools?|tools[.\[]\d+\]?\.type|tool.types?",
    re.IGNORECASE,
)
_SEALED = re.compile(r"encrypted.content|required following item|type 'reasoning'", re.IGNORECASE)
_PICTURES = re.compile(r"image|picture|multimodal|vision", re.IGNORECASE)


def quirk_in(fault: ModelError, request: Request, minded: Collection[Quirk] = ()) -> Quirk | None:
    """What a refusal teaches about its server: with it minded, the same request may be taken.

    `minded`: what the request minds already.
    """
    if not isinstance(fault, Refusal) or fault.complaint.status in (401, 402, 403, 408, 429):
        return None
    words = f"{fault.complaint.code} {fault.complaint.message}"
    if "stream_options" in words or "include_usage" in words:
        return Quirk.NO_USAGE
    if "return_progress" in words:
        return Quirk.NO_PROGRESS
    if "max_completion_tokens" in words:
        return Quirk.COMPLETION_TOKENS
    if "alternate" in words and "role" in words:
        return Quirk.ALTERNATE
    if _SEALED.search(words):
        return Quirk.NO_REASONING
    searching = request.search and Quirk.NO_SEARCH not in minded and 400 <= fault.complaint.status < 500
    if searching and _SEARCH.search(words):
        return Quirk.NO_SEARCH
    if request.schema is not None and _REPLY_FORM.search(words):
        return Quirk.NO_SCHEMA
    if not _NOT_TAKEN.search(words):
        return None
    if "temperature" in words:
        return Quirk.NO_TEMPERATURE
    if request.tools and "parallel_tool_calls" in words:
        return Quirk.NO_PARALLEL
    if (request.tools or searching) and _TOOLS.search(words) and not _BAD_SCHEMA.search(words):
        return Quirk.NO_SEARCH if searching else Quirk.NO_TOOLS  # the one that is missed less goes first
    pictured = any(isinstance(line, UserLine | ToolLine) and line.images for line in request.lines)
    if pictured and _PICTURES.search(words):
        return Quirk.NO_PICTURES
    return None
