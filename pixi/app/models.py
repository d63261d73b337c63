"""Opens the models that settings name: the one that runs here, the door to a server, or a list of them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pixi.app.doors import door_to, traits_of
from pixi.core.errors import ConfigError, ModelError
from pixi.models.breaker import Breakers
from pixi.settings import ModelSettings
from pixi.settings.pricing import runs_here

if TYPE_CHECKING:
    from pixi.models.model import Model, Traits
    from pixi.models.server_model import ServerModel

_log = logging.getLogger("pixi.models")

_LISTED_WAIT = 2.0  # seconds that a server may ask for, before the next model of a list is asked instead

Tell = Callable[[str], None]


def _nobody(_: str) -> None: ...


async def open_model(
    chosen: ModelSettings,
    turn_seconds: float,
    progress: Tell,
    breakers: Breakers,
    remark: Tell = _nobody,
    *,
    native: bool = False,
) -> "Model":
    """Open a model, and what stands by it. Of those only what needs nobody else is opened at once.

    Args:
        chosen: which.
        turn_seconds: how long one request may take at most.
        progress: told what takes long.
        breakers: those of the servers that this program asks.
        remark: told, beside the log, when another model of a list answers than before.
        native: its provider is to search the web by itself, if it can.

    Raises:
        ConfigError: there is no such model, or no key for it.
        ModelError: its server cannot be asked.
    """
    opening = _Opening(turn_seconds, progress, breakers, remark, native=native)
    if chosen.fallback:
        return await opening.all_of(replace(chosen, fallback=()), *chosen.fallback)
    return await opening.one(chosen)


class _Opening:
    """How models are opened; see `open_model`."""

    def __init__(
        self, turn_seconds: float, progress: Tell, breakers: Breakers, remark: Tell, *, native: bool
    ) -> None:
        self._turn_seconds = turn_seconds
        self._progress = progress
        self._breakers = breakers
        self._remark = remark
        self._native = native

    async def all_of(self, first: ModelSettings, *others: ModelSettings) -> "Model":
        """The models of a list, as one.

        The window fits the smallest context of those at servers. One that runs here is given what it can
        hold: a small model that is there for the worst case takes nothing from the others.
        """
        from pixi.models.fallback import FallbackModel

        await asyncio.to_thread(_check_runtime, others)
        stand_ins = [self._stand_in(each, is_last=each is others[-1]) for each in others]
        try:
            opened = await self.one(first, wait=_LISTED_WAIT)
        except ModelError as error:  # it has no name, and the server that is to tell it does not answer
            _log.warning("%s is asked later: %s", _called(first), error)
            opened = self._later(first, wait=_LISTED_WAIT)
        at_servers = [model for model, where in zip(stand_ins, others, strict=True) if not runs_here(where)]
        return FallbackModel(
            [opened, *stand_ins],
            context_tokens=min(model.traits.context_tokens for model in (opened, *at_servers)),
            seconds=self._turn_seconds,
            told=self._remark,
        )

    async def one(self, chosen: ModelSettings, *, wait: float | None = None) -> "Model":
        """A model by itself. `wait`: the longest pause that its server may ask for; None: any."""
        if runs_here(chosen):
            from pixi.models.llama import LocalModel

            return await LocalModel.open(
                _file_of(chosen),
                progress=self._progress,
                context_tokens=chosen.context_tokens,
                temperature=chosen.temperature,
                max_tokens=chosen.max_tokens,
                sampling=chosen.fields_for("llama.cpp"),
                parameters=chosen.parameters,
                tools=chosen.tools,
                grammar=chosen.grammar,
            )
        name = chosen.name or await _only_model(self._door(chosen, ""))
        door = self._door(chosen, name, wait)
        await door.learn()
        return door

    def _stand_in(self, chosen: ModelSettings, *, is_last: bool) -> "Model":
        wait = None if is_last else _LISTED_WAIT
        if chosen.name and not runs_here(chosen):
            return self._door(chosen, chosen.name, wait)
        return self._later(chosen, wait=wait)

    def _later(self, chosen: ModelSettings, *, wait: float | None) -> "Model":
        from pixi.models.lazy import LazyModel

        async def opened() -> "Model":
            try:
                return await self.one(chosen, wait=wait)
            finally:
                self._progress("")

        return LazyModel(_called(chosen), self._expected(chosen), opened)

    def _door(self, chosen: ModelSettings, name: str, wait: float | None = None) -> "ServerModel":
        from pixi.models.deadlines import Deadlines
        from pixi.models.faults import Retries

        return door_to(
            chosen,
            name,
            native=self._native,
            deadlines=Deadlines(chosen.first_seconds, chosen.gap_seconds, self._turn_seconds),
            retries=Retries() if wait is None else Retries(wait=wait),
            breakers=self._breakers,
        )

    def _expected(self, chosen: ModelSettings) -> "Traits":
        """What is known of a model from its settings alone."""
        if runs_here(chosen):
            from pixi.models.llama import expected_traits

            return expected_traits(_file_of(chosen), chosen.context_tokens, chosen.parameters, chosen.tools)
        return traits_of(chosen, native=self._native)


def _file_of(chosen: ModelSettings) -> Path | None:
    """The file of a model that runs here; None: the bundled one."""
    return None if chosen.name == "local" else Path(chosen.name)


def _called(chosen: ModelSettings) -> str:
    """What a model is called until it is open."""
    return chosen.name or f"the model at {urlsplit(chosen.base_url).netloc.rpartition('@')[2]}"


def _check_runtime(chosen: tuple[ModelSettings, ...]) -> None:
    """See that models which may have to run here some day could.

    Raises:
        ConfigError: one could not.
    """
    for each in filter(runs_here, chosen):
        from pixi.models.llama import check_runtime

        check_runtime(_file_of(each))


async def _only_model(server: "ServerModel") -> str:
    """The one model that a server lists, where the settings name none. `server` is closed.

    Raises:
        ConfigError: it lists none or several.
        ModelError: it cannot be asked.
    """
    try:
        names = await server.models()
    finally:
        await server.close()
    if len(names) == 1:
        return names[0]
    known = f"several models: {', '.join(sorted(names)[:10])}" if names else "no model"
    raise ConfigError(
        f"No model is named, and the server lists {known}.\nUse --model NAME, or set model.name."
    )
