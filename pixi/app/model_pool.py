"""The models that a bot can talk on: opened when first wanted, exchanged when the settings change."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from pixi.app.doors import searches
from pixi.app.models import Tell, open_model
from pixi.core.errors import ConfigError, ModelError, PixiError
from pixi.models.breaker import Breakers
from pixi.models.model import Model
from pixi.settings import ModelSettings, Settings
from pixi.settings.pricing import runs_here
from pixi.settings.sections import DEFAULT_MODEL

_log = logging.getLogger("pixi.models")

_AGAIN_SECONDS = 60.0  # before a model that could not be opened is tried again


class ModelPool:
    """Models by the names under which settings know them.

    Args:
        chosen: what each name stands for; the first is the default.
        turn_seconds: how long a turn may take: so long a model that was exchanged is still in use.
        progress: told what takes long.
        breakers: those of the servers that this program asks.
        native: their providers are to search the web by themselves, where they can.
    """

    def __init__(
        self,
        chosen: Mapping[str, ModelSettings],
        turn_seconds: float,
        progress: Tell,
        breakers: Breakers,
        *,
        native: bool = False,
    ) -> None:
        self._chosen = dict(chosen)
        self._turn_seconds = turn_seconds
        self._progress = progress
        self._breakers = breakers
        self._native = native
        self._open: dict[str, Model] = {}
        self._failed: dict[str, float] = {}  # when, on the loop's clock
        self._opening = asyncio.Lock()
        self._retired: dict[asyncio.Task[None], Model] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All that may be chosen, the default first."""
        return tuple(self._chosen)

    @property
    def default(self) -> Model:
        """The one that writes where nobody chose another. It was opened by `open_default`."""
        return self._open[self.names[0]]

    def get(self, name: str) -> Model:
        """The model of that name if it is open, else the default."""
        return self._open.get(name) or self.default

    async def open_default(self) -> None:
        """Open the default model.

        Raises:
            ConfigError: there is no such model, or no key for it.
            ModelError: its server cannot be asked.
        """
        await self._open_one(self.names[0])

    async def want(self, name: str) -> None:
        """See that a model is open. One that cannot be is told of in the log, and the default stands in."""
        if name in self._open or name not in self._chosen:
            return
        now = asyncio.get_running_loop().time()
        if now - self._failed.get(name, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
            return
        async with self._opening:
            if name in self._open or name not in self._chosen:
                return  # somebody else was quicker, or the settings changed
            try:
                await self._open_one(name)
            except (ConfigError, ModelError) as error:
                self._failed[name] = now
                _log.warning("[models.%s] cannot be used, the default model stands in: %s", name, error)

    async def exchange(
        self, chosen: Mapping[str, ModelSettings], turn_seconds: float, *, native: bool = False
    ) -> None:
        """Go by new settings: what changed is opened anew, and the old one is closed once no turn can use it.

        Raises:
            PixiError: the new default model cannot be opened. Then everything stays as it was.
        """
        async with self._opening:
            kept = {
                name: model
                for name, model in self._open.items()
                if self._is_the_same(name, chosen.get(name), turn_seconds, native=native)
            }
            default = next(iter(chosen))
            if default not in kept:
                # Until it is open, turns begin on those that there are.
                kept[default] = await self._opened(chosen[default], turn_seconds, native=native)
            retired = [model for name, model in self._open.items() if kept.get(name) is not model]
            in_use = max(self._turn_seconds, turn_seconds)
            self._chosen, self._open = dict(chosen), kept
            self._turn_seconds, self._native = turn_seconds, native
            self._failed.clear()
            for model in retired:
                self._retire(model, in_use)

    async def close(self) -> None:
        """Close all of them."""
        for task in self._retired:
            task.cancel()
        models = [*self._open.values(), *self._retired.values()]
        self._open.clear()
        for model in models:
            await model.close()
        await asyncio.gather(*self._retired, return_exceptions=True)

    async def _open_one(self, name: str) -> None:
        self._open[name] = await self._opened(self._chosen[name], self._turn_seconds, native=self._native)

    async def _opened(self, chosen: ModelSettings, turn_seconds: float, *, native: bool) -> Model:
        return await open_model(chosen, turn_seconds, self._progress, self._breakers, native=native)

    def _is_the_same(
        self, name: str, chosen: ModelSettings | None, turn_seconds: float, *, native: bool
    ) -> bool:
        """Whether the model that is open under a name does as it is. All but one that runs here by itself
        count a turn's seconds; those that can search the web by themselves are told whether to."""
        before = self._chosen[name]
        if native != self._native and any(map(searches, (before, *before.fallback))):
            return False
        is_alone_here = runs_here(before) and not before.fallback
        return before == chosen and (is_alone_here or self._turn_seconds == turn_seconds)

    def _retire(self, model: Model, seconds: float) -> None:
        task = asyncio.create_task(self._close_later(model, seconds))
        self._retired[task] = model
        task.add_done_callback(lambda _: self._retired.pop(task, None))

    async def _close_later(self, model: Model, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(PixiError):
            await model.close()


def chosen_models(settings: Settings) -> dict[str, ModelSettings]:
    """The models of the settings by name: `[model]`, then each `[models.NAME]`."""
    return {DEFAULT_MODEL: settings.model, **settings.models}
