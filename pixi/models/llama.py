"""Models that run here: a `.gguf` file served by llama.cpp in a process of its own."""

import asyncio
import importlib.util
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import aiohttp
from msgspec.structs import replace

from pixi.core.errors import ConfigError, ModelError
from pixi.core.llm import FREE, Delta, Finished, Line, Request, ToolMode, UserLine
from pixi.models.connections import open_session
from pixi.models.deadlines import Deadlines, ReadingSpeed
from pixi.models.dialects.prompt import GrammarField
from pixi.models.faults import Retries
from pixi.models.llama_process import LlamaProcess, ServerSettings
from pixi.models.model import PushedModel, Take, Traits
from pixi.models.saved_slots import SavedSlots, discard, slots_folder
from pixi.models.server_model import ServerModel
from pixi.models.traits import read_head, size_in, sized, tools_for
from pixi.models.weights import Progress, bundled_weights, checked, ticking

_log = logging.getLogger("pixi.models")

# Chosen on the bundled model in talks of ten turns, 30 to 90 turns for each setting. Turns in which a message
# repeats one of before: half without a penalty, a third at 1.05, 3 % at 1.1. Warmer than 0.4 it forgets who
# it is, and greedy it answers "I'm sorry!" to everything.
# The penalties count the words of the prompt too, the persona's name among them: asked who it is, this model
# often gives another. Of its replies to 28 usual openers, judged by reading, a third made sense. Nothing that
# was tried made it more than half: no or weaker penalties (without any it repeats the last example), a
# window of 48 tokens, a presence penalty, none to nine examples, other examples, or another order of them.
SMALL_SAMPLING: Mapping[str, object] = {
    "temperature": 0.4,
    "repeat_penalty": 1.1,
    "repeat_last_n": 128,
    "min_p": 0.05,
}
# llama.cpp's DRY, beside it: a phrase of more than `dry_allowed_length` tokens that stands among the last
# `dry_penalty_last_n` is the less likely the longer it grows. With these values no message came twice within
# five in 300 turns (`python -m benchmarks repeats`), and one word of 3,900 was glued to another to evade it.
# Of 50 messages it begins 9 alike; in one talk each, 37 with an allowed length of 2 and a multiplier of 0.8,
# and 26 with no DRY but a `repeat_last_n` of 256.
# The sampler does not know whose words those are: it would keep a model from quoting a document, a link, or
# the person (llama.cpp's issue 26754). So it is off where a request may want that, and for larger models.
SMALL_DRY: Mapping[str, object] = {
    "dry_multiplier": 2.0,
    "dry_base": 1.75,
    "dry_allowed_length": 6,
    "dry_penalty_last_n": 512,
}
# For a reply that is asked for anew, by any model that runs here: another seed alone brought the same again.
ANEW_DRY: Mapping[str, object] = {**SMALL_DRY, "dry_multiplier": 4.0, "dry_allowed_length": 3}
SMALL_MAX_TOKENS = 160  # two messages of two sentences each, in most scripts

_BUNDLED_CONTEXT = 4096
_BUNDLED_PARAMETERS = 0.135
_OTHER_CONTEXT = 8192
_LARGE_MAX_TOKENS = 2048
_TOO_LARGE = "Perhaps it is too large for the memory of this machine: try a smaller file or context."
# How long it may read before its first word goes by its progress, as at any server near by.
_DEADLINES = Deadlines(gap=60.0, turn=600.0)
_SLOT_SECONDS = 15.0  # to write or read the state of a slot, at most 1 GB


class LocalModel(PushedModel):
    """A model in a process of its own. `open` makes one, and waits until it can be asked.

    The process ends with the model, and with this program however that ends. If it dies, the reply in hand
    fails and the next `stream` starts it again; one that dies again before a reply was whole stays dead.
    """

    def __init__(
        self,
        settings: ServerSettings,
        traits: Traits,
        style: Mapping[str, object],
        progress: Progress,
        control_words: Sequence[str],
        *,
        tools: ToolMode,
        grammar: GrammarField,
    ) -> None:
        self._settings = settings
        self._traits = traits
        self._style = style  # fields of each request's body
        self._progress = progress
        self._control_words = control_words
        self._speed = ReadingSpeed()  # kept here: the door to the process is made anew for each request
        self._tools = tools
        self._grammar = grammar
        # The process and the connections to it. One task at a time starts or ends them.
        self._starting = asyncio.Lock()
        self._process: LlamaProcess | None = None
        self._session: aiohttp.ClientSession | None = None
        self._may_restart = True  # False: it died, and no reply was whole since it was started again
        self._closed = False
        # How often words were forgotten, and how often they had been when the prompt that the slot holds was
        # written. None: no prompt was read since the start, or one is being read.
        self._forgotten = 0
        self._slot_as_of: int | None = None

    @classmethod
    async def open(
        cls,
        path: Path | str | None = None,
        *,
        progress: Progress = lambda _: None,
        context_tokens: int | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        sampling: Mapping[str, object] | None = None,
        parameters: float | None = None,
        tools: ToolMode = "auto",
        grammar: GrammarField | Literal["auto"] = "auto",
    ) -> "LocalModel":
        """Find the weights, start the process and wait until it is ready.

        Args:
            path: a `.gguf` file; None: the bundled model, fetched if it is nowhere.
            progress: told each second which step is being done.
            context_tokens: prompt and reply together; never more than the model was trained for.
            temperature, max_tokens: None: what suits the model's size.
            sampling: fields for llama.cpp's sampler, before what suits the model's size.
            parameters: how many it has, in billions; None: as many as its file tells, or its name.
            tools: `auto`: in the text form, to a model that is large enough.
            grammar: `auto`: for a tiny model alone.

        Raises:
            ConfigError: no weights, no runtime, or the file cannot be loaded.
        """
        check_runtime(path)
        weights = await bundled_weights(progress) if path is None else checked(Path(path))
        context = expected_traits(path, context_tokens).context_tokens
        head = await asyncio.to_thread(read_head, weights)
        parameters = parameters or head.parameters or size_in(weights.stem)
        tools = _tool_form(parameters, tools)
        traits = sized(Traits(context, prices=FREE, reads_long=True, runs_here=True), parameters, tools)
        style: dict[str, object] = dict(SMALL_SAMPLING) if traits.small else {}
        style.update(sampling or {})
        style["max_tokens"] = max_tokens or (SMALL_MAX_TOKENS if traits.small else _LARGE_MAX_TOKENS)
        if temperature is not None:
            style["temperature"] = temperature
        settings = ServerSettings(str(weights), context, _threads(), slots=str(slots_folder()))
        if grammar == "auto":
            grammar = "llama.cpp" if traits.small else "off"
        model = cls(settings, traits, style, progress, head.control_words, tools=tools, grammar=grammar)
        try:
            await model._learn_context(await model._running())
        except BaseException:
            await model.close()
            raise
        return model

    @property
    def name(self) -> str:
        """The file's name, without its ending."""
        return Path(self._settings.path).stem

    @property
    def traits(self) -> Traits:
        """Return the traits that the prompt must know."""
        return self._traits

    async def warm(self, lines: Sequence[Line]) -> None:
        """Read the static prefix of a prompt before anybody waits for it: the first words come sooner.

        Raises:
            ModelError: as for `stream`.
        """
        # Chat templates want somebody to have spoken; what stands before that is what will be met again.
        request = Request((*lines, UserLine("hi")))
        async with ticking(self._progress, "reading the persona"):
            await self._ask(request, dict(self._style) | {"max_tokens": 1}, _log_what_was_read)

    async def push(self, request: Request, take: Take) -> None:
        """Ask, and hand on each delta as it arrives; see `PushedModel.push`.

        Raises:
            ModelError: the process died or could not be started again, or llama.cpp refused.
        """
        await self._ask(request, self._style_of(request), take)

    async def restore_slot(self, slots: SavedSlots, talk: str) -> None:
        """Restore what was read of a talk, so that it is not read again.

        To be called before the first request. Nothing happens where no whole file was saved.
        """
        path = await asyncio.to_thread(slots.find, self._slot_key(talk))
        if path is None or self._process is None or self._session is None:
            return
        try:
            async with asyncio.timeout(_SLOT_SECONDS):
                await self._process.slot(self._session, "restore", path.name)
        except (ModelError, TimeoutError) as error:
            _log.warning("what was read of the last talk is read again: %s", str(error) or "it took too long")
            await asyncio.to_thread(discard, path)

    async def save_slot(self, slots: SavedSlots, talk: str) -> None:
        """Save what was read of a talk, for the next run; where that fails the log says why.

        Nothing is saved where nothing new was read, where the last request was broken off before its first
        word, or where words were forgotten since it was asked.
        """
        process, session = self._process, self._session
        if self._slot_as_of != self._forgotten or process is None or not process.alive or session is None:
            return
        try:
            async with asyncio.timeout(_SLOT_SECONDS):
                with slots.writing(self._slot_key(talk)) as path:
                    await process.slot(session, "save", path.name)
        except (ModelError, OSError) as error:
            _log.warning(
                "what was read of this talk is not kept for the next: %s", str(error) or "it took too long"
            )

    def forget_slot(self) -> None:
        """Save nothing of what was read until now: words of it were forgotten."""
        self._forgotten += 1

    async def close(self) -> None:
        """End the process. Calling it twice does no harm."""
        self._closed = True
        async with self._starting:
            if self._session is not None:
                await self._session.close()
                self._session = None
            if self._process is not None:
                await self._process.close()
                self._process = None

    async def _ask(self, request: Request, style: Mapping[str, object], take: Take) -> None:
        # Before anything is waited for: the request is written.
        as_of, self._slot_as_of = self._forgotten, None
        try:
            process = await self._running()
        except ConfigError as error:
            raise ModelError(str(error), permanent=True) from error
        chat = ServerModel(
            self.name,
            base_url=f"{process.address}/v1",
            api_key=process.api_key,
            traits=self._traits,
            extra_body=style,
            tools=self._tools,
            grammar=self._grammar,
            control_words=self._control_words,
            deadlines=_DEADLINES,
            retries=Retries(attempts=1),
            session=self._session,
            speed=self._speed,
        )

        def heard(delta: Delta) -> bool:
            self._slot_as_of = as_of
            if isinstance(delta, Finished):
                self._may_restart = True
            return take(delta)

        try:
            await chat.push(request, heard)
        except ModelError as error:
            # The connection breaks a moment before the system says that the process is gone.
            if self._closed or not await process.died(within=1.0):
                raise
            mend = "It is started again for the next message." if self._may_restart else _TOO_LARGE
            raise ModelError(f"The local model {self.name} died: {process.last_words}. {mend}") from error

    def _slot_key(self, talk: str) -> str:
        """Name what a saved state must agree with to fit: the weights, the context, llama.cpp, the talk."""
        from importlib.metadata import version

        weights = os.stat(self._settings.path)
        parts = (self._settings.path, weights.st_size, weights.st_mtime_ns, self._settings.context_tokens)
        return "\n".join(map(str, (*parts, version("xllamacpp"), talk)))

    def _style_of(self, request: Request) -> dict[str, object]:
        """Return the fields that choose the sampling of a reply."""
        if request.repeats == "none":
            return {**self._style, **ANEW_DRY}
        if self._traits.small and request.repeats != "free":
            return {**self._style, **SMALL_DRY}
        return dict(self._style)

    async def _running(self) -> LlamaProcess:
        """Return the process, started again if it died.

        Raises:
            ModelError: it is closed, or died twice.
            ConfigError: it cannot be started.
        """
        async with self._starting:
            before = self._process
            if before is not None and before.alive:
                return before
            if self._closed:
                raise ModelError(f"The local model {self.name} is closed.", permanent=True)
            if before is not None:
                if not self._may_restart:
                    raise ModelError(f"The local model {self.name} died twice. {_TOO_LARGE}", permanent=True)
                self._may_restart = False
                await before.close()
            async with ticking(self._progress, f"loading {self.name}"):
                self._process = await LlamaProcess.start(self._settings)
            # llama.cpp closes each connection after a reply, without a word.
            self._session = self._session or open_session(force_close=True)
            return self._process

    async def _learn_context(self, process: LlamaProcess) -> None:
        assert self._session is not None
        trained = await process.trained_context(self._session)
        if trained is not None and trained < self._traits.context_tokens:
            self._traits = replace(self._traits, context_tokens=trained)


def _log_what_was_read(delta: Delta) -> bool:
    if isinstance(delta, Finished):
        used = delta.usage
        _log.info("read %d tokens, %d of them before", used.prompt_tokens, used.cached_tokens)
    return False


def check_runtime(path: Path | str | None = None) -> None:
    """Check, without opening a model, that the runtime and the file are there; see `LocalModel.open`.

    Raises:
        ConfigError: no runtime, or no such file.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "Models that run here need llama.cpp, which is not installed.\n"
            'Run: pip install "pixi-persona[local]"'
        )
    if path is not None:
        checked(Path(path))


def expected_traits(
    path: Path | str | None,
    context_tokens: int | None,
    parameters: float | None = None,
    tools: ToolMode = "auto",
) -> Traits:
    """Return what is known of a model before its file is opened; see `LocalModel.open`."""
    context = context_tokens or (_BUNDLED_CONTEXT if path is None else _OTHER_CONTEXT)
    parameters = parameters or (_BUNDLED_PARAMETERS if path is None else size_in(Path(path).stem))
    return sized(Traits(context, runs_here=True), parameters, _tool_form(parameters, tools))


def file_traits(path: Path, *, parameters: float | None = None, tools: ToolMode = "auto") -> Traits:
    """Return what the head of a `.gguf` file tells of its model; see `LocalModel.open`."""
    parameters = parameters or read_head(path).parameters or size_in(path.stem)
    return sized(Traits(runs_here=True), parameters, _tool_form(parameters, tools))


def _tool_form(parameters: float | None, wanted: ToolMode) -> ToolMode:
    """Return how tools are offered: in the text form, which asks nothing of a model's template."""
    form = tools_for(parameters, wanted)
    return "text" if form == "auto" else form


def _threads() -> int:
    """Return all processors that this program may use, but one.

    llama.cpp's threads wait for each other by spinning: as soon as anything else wants a processor too,
    this program itself for instance, one thread more makes the bundled model eight times slower.
    """
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, count - 1)
