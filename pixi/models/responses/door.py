"""The door to the Responses API: that of OpenAI, and of those who speak as it does (xAI, OpenRouter)."""

from collections.abc import Collection, Sequence
from functools import cached_property

from pixi.core.deltas import Request
from pixi.core.lines import ToolCall
from pixi.models.render import JsonObject, Quirk
from pixi.models.responses.body import response_body
from pixi.models.responses.events import ResponseAssembler, Sealed
from pixi.models.server_model import ServerModel


class Responses(ServerModel):
    """A model behind the Responses API of some server; see `ServerModel` for its arguments.

    With `search` its provider searches the web while it writes, where a request allows that. A reasoning
    model's thoughts between the rounds of tools, which only its server can read, are handed back to it.
    """

    path = "responses"
    serves = "Responses API"

    @cached_property
    def _sealed(self) -> Sealed:
        return Sealed()

    def _body(self, request: Request, quirks: Collection[Quirk]) -> bytes:
        return response_body(request, self._style, quirks, self._thoughts)

    def _assembler(self) -> ResponseAssembler:
        return ResponseAssembler(self._sealed)

    def _search_tool(self, host: str) -> str:
        return "openrouter:web_search" if f".{host}".endswith(".openrouter.ai") else "web_search"

    def _thoughts(self, call: ToolCall) -> Sequence[JsonObject]:
        return self._sealed.of(call.id) or ()
