"""What the refusals of providers with an API of their own teach, besides what any server's do."""

import re

from pixi.core.deltas import Request
from pixi.core.errors import ModelError
from pixi.models.faults import Refusal
from pixi.models.quirks import quirk_in
from pixi.models.render import Quirk

_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)
_BESIDE_TOOLS = re.compile(
    r"tool use with function calling|server.?side.?tool|"
    r"(built.?in|search).{0,99}function.?(calling|declaration)|"
    r"function.?(calling|declaration).{0,99}(built.?in|search)|multiple tools",
    re.IGNORECASE,
)
_SEARCH = re.compile(r"web.?search|google.?search|search.?grounding|grounding", re.IGNORECASE)
_REPLY_FORM = re.compile(r"output_(config|format)|response_?(json_?)?schema|response.?mime", re.IGNORECASE)


def lesson_in(fault: ModelError, request: Request, minded: frozenset[Quirk]) -> Quirk | None:
    """What a refusal teaches about its provider: with it minded, the same request may be taken.

    `minded`: what the request minds already.
    """
    if not isinstance(fault, Refusal) or fault.complaint.status not in (0, 400, 404, 422):
        return quirk_in(fault, request, minded)
    words = f"{fault.complaint.code} {fault.complaint.message}"
    if _SIGNATURE.search(words):
        return Quirk.SIGNED_CALLS
    if request.search and Quirk.NO_SEARCH not in minded:
        if request.tools and Quirk.NO_SEARCH_BESIDE_TOOLS not in minded and _BESIDE_TOOLS.search(words):
            return Quirk.NO_SEARCH_BESIDE_TOOLS
        if _SEARCH.search(words):
            return Quirk.NO_SEARCH
    if request.schema is not None and _REPLY_FORM.search(words):
        return Quirk.NO_SCHEMA
    return quirk_in(fault, request, minded)
