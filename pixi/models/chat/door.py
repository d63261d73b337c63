"""The door to every OpenAI-compatible server: chat completions, streamed."""

from collections.abc import Collection

from pixi.core.deltas import Request
from pixi.models.chat.body import body
from pixi.models.chat.chunks import ReplyAssembler
from pixi.models.render import Quirk
from pixi.models.server_model import ServerModel


class OpenAIChat(ServerModel):
    """A model behind the chat-completions API of some server; see `ServerModel` for its arguments."""

    path = "chat/completions"
    serves = "chat completions"

    def _body(self, request: Request, quirks: Collection[Quirk]) -> bytes:
        return body(request, self._style, quirks)

    def _assembler(self) -> ReplyAssembler:
        return ReplyAssembler()
