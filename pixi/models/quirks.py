"""What a server's refusal teaches about it: what it does not take, and is asked without from then on."""

import re
from collections.abc import Collection, Iterator

from pixi.core.errors import ModelError
from pixi.core.llm import Request, ToolLine, UserLine
from pixi.models.dialects.prompt import Quirk
from pixi.models.error_body import Complaint
from pixi.models.faults import Refusal

_NOT_TAKEN = re.compile(
    r"not support|unsupported|doesn't support|only supported|no endpoints|requires? --|not permitted|"
    r"not allowed|unknown|unrecognized|unexpected|not available|not enabled|not implemented|at most 0|not a ",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\b(tools?|tool_choice|functions?|function.calling)\b", re.IGNORECASE)
_BAD_SCHEMA = re.compile(r"schema", re.IGNORECASE)  # a fault in one tool, not in having tools
_REPLY_FORM = re.compile(
    r"response_format|text\.format|json_schema|json.mode|structured.outputs?|guided|grammar|"
    r"output_(config|format)|response_?(json_?)?schema|response.?mime",
    re.IGNORECASE,
)
_SEARCH = re.compile(
    r"web.?search|google.?search|grounding|hosted.tools?|server.tools?|built-?in.tools?|"
    r"tools[.\[]\d+\]?\.type|tool.types?",
    re.IGNORECASE,
)
_BESIDE_TOOLS = re.compile(
    r"tool use with function calling|server.?side.?tool|"
    r"(built.?in|search).{0,99}function.?(calling|declaration)|"
    r"function.?(calling|declaration).{0,99}(built.?in|search)|multiple tools",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)
_SEALED = re.compile(r"encrypted.content|required following item|type 'reasoning'", re.IGNORECASE)
_PICTURES = re.compile(r"image|picture|multimodal|vision", re.IGNORECASE)


def quirk_in(
    fault: ModelError, request: Request, heeded: Collection[Quirk], minded: Collection[Quirk] = ()
) -> Quirk | None:
    """Return what a refusal teaches about its server: with it minded, the same request may be taken.

    Args:
        heeded: what can be minded in requests of this kind at all.
        minded: what the request minds already.
    """
    if not isinstance(fault, Refusal) or fault.complaint.status in (401, 402, 403, 408, 429):
        return None
    open_ = frozenset(heeded) - frozenset(minded)
    return next((quirk for quirk in _taught(fault.complaint, request, open_) if quirk in open_), None)


def _taught(complaint: Complaint, request: Request, open_: Collection[Quirk]) -> Iterator[Quirk]:
    """Return all that a refusal may mean, the likeliest first."""
    words = f"{complaint.code} {complaint.message}"
    if "stream_options" in words or "include_usage" in words:
        yield Quirk.NO_USAGE
    if "return_progress" in words:
        yield Quirk.NO_PROGRESS
    if "max_completion_tokens" in words:
        yield Quirk.COMPLETION_TOKENS
    if "alternate" in words and "role" in words:
        yield Quirk.ALTERNATE
    if _SIGNATURE.search(words):
        yield Quirk.SIGNED_CALLS
    if _SEALED.search(words):
        yield Quirk.NO_REASONING
    searching = request.search and Quirk.NO_SEARCH in open_
    if searching and complaint.status < 500:
        if request.tools and _BESIDE_TOOLS.search(words):
            yield Quirk.NO_SEARCH_BESIDE_TOOLS
        if _SEARCH.search(words):
            yield Quirk.NO_SEARCH
    if request.schema is not None and _REPLY_FORM.search(words):
        yield Quirk.NO_SCHEMA
    if not _NOT_TAKEN.search(words):
        return
    if "temperature" in words:
        yield Quirk.NO_TEMPERATURE
    if request.tools and "parallel_tool_calls" in words:
        yield Quirk.NO_PARALLEL
    if (request.tools or searching) and _TOOLS.search(words) and not _BAD_SCHEMA.search(words):
        yield Quirk.NO_SEARCH if searching else Quirk.NO_TOOLS  # the one that is missed less goes first
    pictured = any(isinstance(line, UserLine | ToolLine) and line.images for line in request.lines)
    if pictured and _PICTURES.search(words):
        yield Quirk.NO_PICTURES
