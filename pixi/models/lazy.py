"""A model that is opened when it is first wanted: one that may never be."""

import asyncio
from collections.abc import Callable, Coroutine

from pixi.core.deltas import Request
from pixi.core.errors import ConfigError, ModelError
from pixi.models.model import Model, PushedModel, Take, Traits, push


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
        """What the prompt must know of it."""
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
