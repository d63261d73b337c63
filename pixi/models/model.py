"""The one protocol behind which every model stands."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from pixi.core.deltas import Delta, Prices, Request


@dataclass(frozen=True, slots=True)
class Traits:
    """What a prompt must know of the model it is written for.

    Attributes:
        context_tokens: how much the model can hold, prompt and reply together.
        parameters: how many the model has, in billions; None: nobody knows.
        small: a tiny model: wants a short prompt and examples as turns, and the grammar.
        tools: it is offered tools.
        vision: it can be shown pictures.
        prices: what it costs; None: not known.
        searches: its provider searches the web by itself where a request allows it.
        reads_long: it may read a prompt for many minutes before its first word, and gives up by itself where
            that takes too long: nobody else has to.
        runs_here: Pixi runs it itself: another reply costs nothing but time.
    """

    context_tokens: int = 8192
    small: bool = False
    vision: bool = False
    prices: Prices | None = None
    searches: bool = False
    reads_long: bool = False
    parameters: float | None = None
    tools: bool = True
    runs_here: bool = False


class Model(Protocol):
    """A model that streams its reply.

    `stream` yields deltas; the last is `Finished`. It raises `ModelError` alone. Retries are its own
    matter, and only before anything but `PromptProgress` was yielded. Closing the generator early closes the
    connection.
    """

    @property
    def name(self) -> str:
        """The model's name, for people."""
        ...

    @property
    def traits(self) -> Traits:
        """What the prompt must know of it."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask, and yield the reply as it is written."""
        ...

    async def close(self) -> None:
        """Give back connections and processes. Calling it twice does no harm."""
        ...
