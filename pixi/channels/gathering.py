"""A channel for a program that asks and waits: what a persona does is gathered, and handed over whole."""

from collections.abc import Callable
from typing import Any

from pixi.core.channel import Channel
from pixi.core.errors import ChannelForgot
from pixi.core.events import Failed, Progressed, Reacted, Sourced, ToolCalled, TurnEnded, TurnEvent


class GatheringChannel(Channel):
    """Gathers what is said in answer to one message.

    Args:
        happens: told in a line what is being done, as it is done.

    Attributes:
        messages: in order; cards and pictures are told in words among them.
        reactions: to the message.
        sources: pages of the web that the answer rests on.
        failure: what went wrong, for people; "" for nothing.
        finish: how the turn ended.
    """

    def __init__(self, happens: Callable[[str], None] = lambda _: None) -> None:
        self._happens = happens
        self.messages: list[str] = []
        self.reactions: list[str] = []
        self.sources: list[dict[str, Any]] = []
        self.failure = ""
        self.finish = "stop"
        self._nonce = ""

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Keep a message."""
        self._nonce = nonce
        self.messages.append(text)
        self._happens(text)
        return None

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Look up what was kept last. Raises `ChannelForgot` for what an earlier process said."""
        if nonce != self._nonce:
            raise ChannelForgot("what was said earlier cannot be looked at.")
        return nonce

    def show(self, event: TurnEvent) -> None:
        """Keep what is more than words, and tell of what takes time."""
        match event:
            case Reacted(emoji):
                self.reactions.append(emoji)
            case Sourced(sources):
                self.sources += [{"title": each.title, "url": each.url} for each in sources]
            case ToolCalled(_, name, _):
                self._happens(f"using {name}")
            case Progressed(text):
                self._happens(text)
            case Failed(text):
                self.failure = text
            case TurnEnded(finish):
                self.finish = finish
            case _:
                pass
