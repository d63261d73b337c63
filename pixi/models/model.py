"""The one protocol behind which every model stands, and the ways to ask one: `push` and `ask`.

A model may stream its reply (`Model`), which is the easiest to write. Pixi's own models push theirs
(`PushedModel`): a delta is handed on in the call in which the network brought it, and no task is woken for
it. `push` asks either kind. `ask` returns a whole answer, for tasks of which nobody sees the words come.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Protocol

from msgspec import Struct

from pixi.core.errors import ConfigError, ModelError
from pixi.core.llm import Delta, Finished, Prices, Request, Text
from pixi.core.spending import Count, counted

SLICE = 4_096
"""Characters of a delta that are read at once; then others have their turn."""

Take = Callable[[Delta], bool]
"""Takes the next delta of a reply; returns True to have no more of it."""


class Traits(Struct, frozen=True):
    """Traits of a model that its prompt is written for.

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
        """Return the traits that the prompt must know."""
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
        """Return the traits that the prompt must know."""

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


async def ask(
    model: Model,
    request: Request,
    count: Count | None,
    *,
    longest: int,
    heard: Callable[[Delta], object] = lambda delta: None,
    enough: Callable[[str, list[str]], bool] = lambda piece, pieces: False,
) -> str:
    """Ask a model, and return the text of its answer; count what that used, however it ended.

    Args:
        count: told what the request used.
        longest: characters after which the rest is not waited for.
        heard: called with each delta.
        enough: called with the last piece and all pieces; returns True where the rest is not wanted.

    Raises:
        ModelError: the model's own.
    """
    pieces: list[str] = []
    length, finished, failed = 0, Finished(), False
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                heard(delta)
                if isinstance(delta, Finished):
                    finished = delta
                elif isinstance(delta, Text):
                    pieces.append(delta.text)
                    length += len(delta.text)
                    if length > longest or enough(delta.text, pieces):
                        break
    except ModelError:
        failed = True
        raise
    finally:
        if count is not None:
            used = counted(finished, request, length, failed=failed)
            prices = used.prices if used.model else model.traits.prices
            count(used.model or model.name, used.usage, prices)
    return "".join(pieces)


class LazyModel(PushedModel):
    """Stands for a model until that is opened, and hands everything on to it from then on.

    Args:
        name: what it is called until then.
        traits: what is known of it until then.
        open_model: opens it. Where that fails it is tried again for the next request.
    """

    def __init__(
        self, name: str, traits: Traits, open_model: Callable[[], Coroutine[None, None, Model]]
    ) -> None:
        self._name = name
        self._traits = traits
        self._open_model = open_model
        self._opening: asyncio.Task[Model] | None = None
        self._model: Model | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name if self._model else self._name

    @property
    def traits(self) -> Traits:
        """Return the traits that the prompt must know."""
        return self._model.traits if self._model else self._traits

    async def push(self, request: Request, take: Take) -> None:
        """Ask, and hand on each delta as it arrives; see `PushedModel.push`.

        Raises:
            ModelError: as the model's own, or it cannot be opened.
        """
        await push(self._model or await self._opened(), request, take)

    async def close(self) -> None:
        """Close the model, if it was opened. Calling it twice does no harm."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._model is not None:
            await self._model.close()

    async def _opened(self) -> Model:
        if self._closed:
            raise self._is_closed()
        if self._opening is None:
            # A task of its own: whoever stops waiting leaves to others what was begun.
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._ended)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except ConfigError as error:
            raise ModelError(" ".join(str(error).split()), permanent=True) from error
        except asyncio.CancelledError:
            if opening.cancelled() and self._closed:  # it is the opening that was given up, not this request
                raise self._is_closed() from None
            raise

    async def _open(self) -> Model:
        self._model = await self._open_model()
        return self._model

    def _ended(self, opening: asyncio.Task[Model]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # whoever waited is told; where nobody does any more, nobody misses it

    def _is_closed(self) -> ModelError:
        return ModelError(f"The model {self._name} is closed.", permanent=True)
