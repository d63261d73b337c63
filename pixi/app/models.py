"""Models: made from their settings, opened, and kept by the names under which settings know them."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from pixi.core.errors import ConfigError, ModelError, PixiError, Reporter, silent
from pixi.models.breaker import Breakers
from pixi.models.model import Model, Traits
from pixi.settings import ModelSettings, Settings
from pixi.settings.model_choice import is_openais, key_name, runs_here
from pixi.settings.sections import DEFAULT_MODEL, SAMPLER_TITLES, Sampler

if TYPE_CHECKING:
    from pixi.models.deadlines import Deadlines
    from pixi.models.dialects.dialect import Dialect
    from pixi.models.faults import Retries
    from pixi.models.server_model import ServerModel

_log = logging.getLogger("pixi.models")

Api = Literal["chat", "responses", "anthropic", "gemini"]

_OPENAI = "api.openai.com"
_SEARCHING: Mapping[str, Api] = {
    _OPENAI: "responses",
    "api.x.ai": "responses",
    "openrouter.ai": "responses",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}
"""The hosts that search the web by themselves, and the API in which they do."""

_NO_KEY = """\
There is no key for the model {!r} at {}: set {} in the
environment or in .env. Without --model and model.name the bundled model answers, with no key."""


def wants_native(settings: Settings) -> bool:
    """Return whether providers are to search the web by themselves, where they can."""
    return settings.web_search.engine == "native"


def api_of(chosen: ModelSettings, *, native: bool) -> Api:
    """Return the API that a model is asked by. `native`: its server is to search the web itself if it can."""
    if chosen.api != "auto":
        return chosen.api
    return _SEARCHING.get(_host(chosen), "chat") if native else "chat"


def searches(chosen: ModelSettings, *, native: bool = True) -> bool:
    """Return whether a model's provider is asked to search the web by itself where that is wanted."""
    return native and not runs_here(chosen) and api_of(chosen, native=True) != "chat"


def server_model_of(
    chosen: ModelSettings,
    name: str,
    *,
    native: bool,
    deadlines: "Deadlines",
    retries: "Retries | None" = None,
    breakers: "Breakers | None" = None,
) -> "ServerModel":
    """Return the model at a server that the settings choose; nothing is asked of it yet.

    Args:
        chosen: the model's settings.
        name: its id there.
        native: it is to search the web by itself, if it can.
        deadlines, retries, breakers: see `ServerModel`.

    Raises:
        ConfigError: there is no key for it, or an address is none.
    """
    if chosen.api_key is None and is_openais(chosen.base_url):
        place = next((host for host, api in _SEARCHING.items() if api == chosen.api), _OPENAI)
        raise ConfigError(_NO_KEY.format(chosen.name, place, key_name(chosen)))
    from pixi.models.llama import SMALL_MAX_TOKENS, SMALL_SAMPLING
    from pixi.models.server_model import ServerModel

    api = api_of(chosen, native=native)
    return ServerModel(
        name,
        _dialect(api),
        base_url=_base_url(chosen, api),
        api_key=chosen.api_key.reveal() if chosen.api_key else None,
        traits=traits_of(chosen, native=native),
        temperature=chosen.temperature,
        max_tokens=chosen.max_tokens,
        extra_body=_body_fields(chosen, native=native),
        tools=chosen.tools,
        grammar=chosen.grammar if api == "chat" else "off",
        tiny_style={**SMALL_SAMPLING, "max_tokens": SMALL_MAX_TOKENS},
        search=searches(chosen, native=native),
        learns=api == "chat",
        deadlines=deadlines,
        retries=retries,
        breakers=breakers,
    )


def _dialect(api: Api) -> "Dialect":
    """Return the dialect of an API: the class of its name, from the module of its name."""
    made: Dialect = getattr(import_module(f"pixi.models.dialects.{api}"), api.title())()
    return made


def _base_url(chosen: ModelSettings, api: Api) -> str:
    """Return the address of a model's server: the provider's own, where the settings still have OpenAI's."""
    is_own = api in ("anthropic", "gemini")
    return _dialect(api).base_url if is_own and is_openais(chosen.base_url) else chosen.base_url


def _body_fields(chosen: ModelSettings, *, native: bool) -> dict[str, object]:
    """Return the fields that are added to each request: how the model samples, and `extra_body`.

    Raises:
        ConfigError: it is to sample in a way that its server's API has no words for.
    """
    api = api_of(chosen, native=native)
    sampler: Sampler = "openai" if api == "chat" and is_openais(chosen.base_url) else api
    if unknown := chosen.not_known_to(sampler):
        raise ConfigError(
            f"The model {chosen.name!r} is asked by {SAMPLER_TITLES[sampler]}, "
            f"which knows no {', '.join(unknown)}: remove that from the model's section."
        )
    return chosen.fields_for(sampler, chosen.extra_body)


def traits_of(chosen: ModelSettings, *, native: bool) -> Traits:
    """Return the traits of a model at a server, from its settings alone."""
    context = chosen.context_tokens or Traits().context_tokens
    return Traits(
        context,
        vision=chosen.vision,
        prices=chosen.prices,
        searches=searches(chosen, native=native),
        parameters=chosen.parameters,
    )


def _host(chosen: ModelSettings) -> str:
    return urlsplit(chosen.base_url).hostname or ""


_LISTED_WAIT = 2.0  # seconds that a server may ask for, before the next model of a list is asked instead


async def open_model(
    chosen: ModelSettings,
    turn_seconds: float,
    progress: Reporter,
    breakers: Breakers,
    remark: Reporter = silent,
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
    opening = _Opening(turn_seconds, progress, breakers, remark, native)
    if chosen.fallback:
        return await opening.all_of(replace(chosen, fallback=()), *chosen.fallback)
    return await opening.one(chosen)


class _Opening(Struct, frozen=True):
    """Opens models; see `open_model`."""

    turn_seconds: float
    progress: Reporter
    breakers: Breakers
    remark: Reporter
    native: bool

    async def all_of(self, first: ModelSettings, *others: ModelSettings) -> "Model":
        """Return the models of a list, as one.

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
            seconds=self.turn_seconds,
            told=self.remark,
        )

    async def one(self, chosen: ModelSettings, *, wait: float | None = None) -> "Model":
        """Open a model by itself. `wait`: the longest pause that its server may ask for; None: any."""
        if runs_here(chosen):
            from pixi.models.llama import LocalModel

            return await LocalModel.open(
                _file_of(chosen),
                progress=self.progress,
                context_tokens=chosen.context_tokens,
                temperature=chosen.temperature,
                max_tokens=chosen.max_tokens,
                sampling=chosen.fields_for("llama.cpp"),
                parameters=chosen.parameters,
                tools=chosen.tools,
                grammar=chosen.grammar,
            )
        name = chosen.name or await _only_model(self._server_model(chosen, ""))
        model = self._server_model(chosen, name, wait)
        await model.learn()
        return model

    def _stand_in(self, chosen: ModelSettings, *, is_last: bool) -> "Model":
        wait = None if is_last else _LISTED_WAIT
        if chosen.name and not runs_here(chosen):
            return self._server_model(chosen, chosen.name, wait)
        return self._later(chosen, wait=wait)

    def _later(self, chosen: ModelSettings, *, wait: float | None) -> "Model":
        from pixi.models.model import LazyModel

        async def opened() -> "Model":
            try:
                return await self.one(chosen, wait=wait)
            finally:
                self.progress("")

        return LazyModel(_called(chosen), self._expected(chosen), opened)

    def _server_model(self, chosen: ModelSettings, name: str, wait: float | None = None) -> "ServerModel":
        from pixi.models.deadlines import Deadlines
        from pixi.models.faults import Retries

        return server_model_of(
            chosen,
            name,
            native=self.native,
            deadlines=Deadlines(chosen.first_seconds, chosen.gap_seconds, self.turn_seconds),
            retries=Retries() if wait is None else Retries(wait=wait),
            breakers=self.breakers,
        )

    def _expected(self, chosen: ModelSettings) -> "Traits":
        """Return the traits of a model, from its settings alone."""
        if runs_here(chosen):
            from pixi.models.llama import expected_traits

            return expected_traits(_file_of(chosen), chosen.context_tokens, chosen.parameters, chosen.tools)
        return traits_of(chosen, native=self.native)


def _file_of(chosen: ModelSettings) -> Path | None:
    """Return the file of a model that runs here; None: the bundled one."""
    return None if chosen.name == "local" else Path(chosen.name)


def _called(chosen: ModelSettings) -> str:
    """Return the name of a model before it is open."""
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
    """Return the one model that a server lists, where the settings name none. `server` is closed.

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


_AGAIN_SECONDS = 60.0  # before a model that could not be opened is tried again


class ModelPool:
    """Models by the names under which settings know them.

    Args:
        chosen: what each name stands for; the first is the default.
        turn_seconds: how long a turn may take: so long a model that was exchanged is still in use.
        progress: told what takes long.
        breakers: those of the servers that this program asks.
        native: their providers are to search the web by themselves, where they can.

    Attributes:
        breakers: see above.
    """

    def __init__(
        self,
        chosen: Mapping[str, ModelSettings],
        turn_seconds: float,
        progress: Reporter,
        breakers: Breakers,
        *,
        native: bool = False,
    ) -> None:
        self._chosen = dict(chosen)
        self._turn_seconds = turn_seconds
        self._progress = progress
        self.breakers = breakers
        self._native = native
        self._open: dict[str, Model] = {}
        self._failed: dict[str, float] = {}  # when, on the loop's clock
        self._opening = asyncio.Lock()
        self._retired: dict[asyncio.Task[None], Model] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Models to choose from, the default first."""
        return tuple(self._chosen)

    @property
    def default(self) -> Model:
        """The one that writes where nobody chose another. It was opened by `open_default`."""
        return self._open[self.names[0]]

    @property
    def answers(self) -> bool:
        """True if the default model may be asked now, or one that stands in for it.

        That is one which runs here, or whose server's breaker lets a request through.
        """
        first = self._chosen[self.names[0]]
        return any(
            runs_here(each) or not self.breakers.of(self._place_of(each)).refuses
            for each in (first, *first.fallback)
        )

    def get(self, name: str) -> Model:
        """Return the model of that name if it is open, else the default."""
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

    def _place_of(self, chosen: ModelSettings) -> str:
        """Return the host and port of a model's server, by which its breaker is known."""
        import yarl

        url = yarl.URL(_base_url(chosen, api_of(chosen, native=self._native)).strip())
        return f"{url.host}:{url.port}"

    async def _open_one(self, name: str) -> None:
        self._open[name] = await self._opened(self._chosen[name], self._turn_seconds, native=self._native)

    async def _opened(self, chosen: ModelSettings, turn_seconds: float, *, native: bool) -> Model:
        return await open_model(chosen, turn_seconds, self._progress, self.breakers, native=native)

    def _is_the_same(
        self, name: str, chosen: ModelSettings | None, turn_seconds: float, *, native: bool
    ) -> bool:
        """Return whether the model that is open under a name can stay as it is.

        All but one that runs here by itself count a turn's seconds; those that can search the web by
        themselves are told whether to.
        """
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
    """Return the models of the settings by name: `[model]`, then each `[models.NAME]`."""
    return {DEFAULT_MODEL: settings.model, **settings.models}
