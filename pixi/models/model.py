"""The one protocol behind which every model stands, and how a model's reply is pushed.

A model may stream its reply (`Model`), which is the easiest to write. What Pixi's own models do is push it
(`PushedModel`): a delta is handed on in the call in which the network brought it, and no task is woken for
it. `push` does so with either.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from pixi.core.deltas import Delta, Prices, Request, Text

SLICE = 4_096
"""Characters of a delta that are read at once; then others have their turn."""

Take = Callable[[Delta], bool]
"""Takes the next delta of a reply; returns True to have no more of it."""


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


class PushedModel(ABC):
    """A model that pushes its reply; to stream it is a face over that."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The model's name, for people."""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What the prompt must know of it."""

    @abstractmethod
    async def push(self, request: Request, take: Take) -> None:
        """Ask, and hand on each delta as it arrives; the last is `Finished`.

        Args:
            take: called in the call in which the delta arrived. What it raises ends the reply and is raised.

        Raises:
            ModelError: the model could not be asked, refused, failed, or let a deadline pass.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give back connections and processes. Calling it twice does no harm."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask, and yield the reply as it is written; the last delta is `Finished`.

        Raises:
            ModelError: as for `push`.
        """
        arrived: deque[Delta] = deque()
        more = asyncio.Event()

        def take(delta: Delta) -> bool:
            arrived.append(delta)
            more.set()
            return False

        pushing = asyncio.create_task(self.push(request, take))
        pushing.add_done_callback(lambda _: more.set())
        try:
            while arrived or not pushing.done():
                while arrived:
                    yield arrived.popleft()
                await more.wait()
                more.clear()
            await pushing
        finally:
            if not pushing.done():
                pushing.cancel()
                await asyncio.wait([pushing])
            if not pushing.cancelled():
                pushing.exception()  # where nobody listens any more, nobody misses it


async def push(model: Model, request: Request, take: Take) -> None:
    """Ask a model, and hand on each delta; see `PushedModel.push`. One that only streams is listened to.

    Raises:
        ModelError: the model's own.
    """
    if isinstance(model, PushedModel):
        await model.push(request, take)
        return
    async with aclosing(model.stream(request)) as deltas:
        async for delta in deltas:
            if type(delta) is not Text or len(delta.text) <= SLICE:
                if take(delta):
                    return
                continue
            for piece in slices(delta.text):
                if take(piece):
                    return
                await asyncio.sleep(0)


def slices(text: str) -> Iterator[Text]:
    """Cut a text into deltas that are read at once."""
    return (Text(text[at : at + SLICE]) for at in range(0, len(text), SLICE))
