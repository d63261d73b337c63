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
    """Traits of a model, for which its prompt is written.

    Attributes:
        context_tokens: tokens that the model can hold, prompt and reply together.
        small: a tiny model: wants a short prompt, examples as turns, and the grammar.
        vision: the model can be shown pictures.
        prices: None: not known.
        searches: the provider searches the web by itself where a request allows that.
        reads_long: the model may read a prompt for many minutes before its first word. It gives up by itself
            where that takes too long: no caller has to.
        parameters: in billions; None: not known.
        tools: the model is offered tools.
        runs_here: Pixi runs the model itself: another reply costs nothing but time.
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

    `stream` yields deltas; the last is `Finished`. It raises `ModelError` alone. A model retries by itself,
    and only before anything but `PromptProgress` was yielded. Closing the generator early closes the
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
    """A model that pushes its reply. `stream` is made of `push`."""

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
            take: called in the call in which the delta arrived. An error that it raises ends the reply.

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
                pushing.exception()  # asyncio logs an exception that nobody asked for


async def push(model: Model, request: Request, take: Take) -> None:
    """Ask a model of either kind, and hand on each delta; see `PushedModel.push`.

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
    """Cut a text into deltas of at most `SLICE` characters."""
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
    """Opens a model at its first request, and hands all requests on to it.

    Args:
        name: of the model, until it is opened.
        traits: the expected ones, until it is opened.
        open_model: opens the model. Where that fails, the next request tries again.
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
            # A task of its own: a request that is given up leaves the opening to others that wait for it.
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
            opening.exception()  # asyncio logs an exception that nobody asked for

    def _is_closed(self) -> ModelError:
        return ModelError(f"The model {self._name} is closed.", permanent=True)
