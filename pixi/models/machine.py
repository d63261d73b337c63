"""This machine, for models: its memory, its speed, and the model servers that run on it."""

import asyncio
import importlib.util
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from pixi.core.errors import PixiError
from pixi.core.llm import Request, SystemLine, Text, UserLine
from pixi.models.weights import Progress, cache_folder, cached, installed

if TYPE_CHECKING:
    import aiohttp

_TRIAL_SECONDS = 2.0
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
LOOPBACK = "127.0.0.1"
FINDING_SECONDS = 0.3
"""Time for all servers together to answer."""
_MOST_BYTES = 1_000_000  # of a listing
_MOST_MODELS = 200
_LONGEST_NAME = 200  # characters


class Trial(msgspec.Struct, frozen=True):
    """Speed of the bundled model here.

    Attributes:
        machine: name, kind and processors of the computer that it was run on.
        bytes: the size of its weights.
        tokens_per_second: what it wrote.
    """

    machine: str
    bytes: int
    tokens_per_second: float

    def expected(self, size: int) -> float:
        """Return the tokens a second to expect of a model whose weights are so many bytes."""
        return self.tokens_per_second * self.bytes / max(1, size)


async def trial(progress: Progress, *, again: bool = False) -> Trial | None:
    """Run the bundled model for two seconds, once on each machine; None where it is not here or does not run.

    Args:
        progress: told what takes long, and "" at the end.
        again: also where it was run before.
    """
    weights = installed() or cached()
    if weights is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    kept = None if again else _kept_trial()
    if kept is not None:
        return kept
    try:
        speed = await _measured_speed(weights, progress)
    except PixiError:
        return None
    finally:
        progress("")
    if not speed:
        return None
    made = Trial(_machine(), weights.stat().st_size, round(speed, 1))
    with suppress(OSError):  # then it is made again the next time
        _trial_file().parent.mkdir(parents=True, exist_ok=True)
        _trial_file().write_bytes(msgspec.json.encode(made))
    return made


def memory_bytes() -> int | None:
    """Return the memory that this program may use; None where the system does not tell."""
    if sys.platform == "win32":
        return _windows_memory()
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None
    for limit in _LIMITS:  # of a container
        with suppress(OSError, ValueError):  # there is none
            total = min(total, int(Path(limit).read_text(encoding="ascii")))
    return total


async def _measured_speed(weights: Path, progress: Progress) -> float:
    """Return the tokens a second that weights write, 0 where they wrote too few to tell."""
    from pixi.models.llama import LocalModel

    model = await LocalModel.open(weights, progress=progress, context_tokens=512, max_tokens=400)
    try:
        progress("measuring the speed of this machine")
        loop = asyncio.get_running_loop()
        first, count, seconds = 0.0, 0, 0.0
        lines = (SystemLine("You tell stories."), UserLine("Tell me a long story about the sea."))
        async with aclosing(model.stream(Request(lines))) as deltas:
            async for delta in deltas:
                if not isinstance(delta, Text):
                    continue
                count += 1  # a piece is a token, unless two came at once
                first = first or loop.time()
                seconds = loop.time() - first
                if seconds >= _TRIAL_SECONDS:
                    break
    finally:
        await model.close()
    return (count - 1) / seconds if seconds else 0.0


def _machine() -> str:
    return f"{platform.node()} {platform.machine()} {os.cpu_count()}"


def _trial_file() -> Path:
    return cache_folder() / "speed.json"


def _kept_trial() -> Trial | None:
    """Return the trial that was made on this machine; None where there was none."""
    try:
        found = msgspec.json.decode(_trial_file().read_bytes(), type=Trial)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.machine == _machine() and found.tokens_per_second > 0 else None


def _windows_memory() -> int | None:
    import ctypes

    class Status(ctypes.Structure):
        """MEMORYSTATUSEX."""

        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "c", "d", "e", "f", "g")),
        )

    status = Status(length=ctypes.sizeof(Status))
    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - other systems have no such name
    return int(status.total) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else None


class KnownServer(msgspec.Struct, frozen=True):
    """A program that serves models, the port where it listens unless told otherwise, and its listing."""

    kind: str
    port: int
    path: str = "/v1/models"


KNOWN_SERVERS = (
    KnownServer("Ollama", 11434, "/api/tags"),  # https://docs.ollama.com/api/tags
    KnownServer("LM Studio", 1234),  # https://lmstudio.ai/docs/developer/openai-compat
    KnownServer("llama.cpp", 8080),  # https://github.com/ggml-org/llama.cpp/tree/master/tools/server
    KnownServer("KoboldCpp", 5001),  # https://github.com/LostRuins/koboldcpp/wiki
    KnownServer("vLLM", 8000),  # https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    KnownServer("Jan", 1337),  # https://www.jan.ai/docs/desktop/api-server
    KnownServer("text-generation-webui", 5000),  # https://github.com/oobabooga/text-generation-webui/wiki
)
"""Servers in the order in which they are preferred where several have the model that is wanted."""


class FoundServer(msgspec.Struct, frozen=True):
    """A program that listens on the port of a known server.

    Attributes:
        kind: which server usually has that port; nothing proves that it is this one.
        base_url: its address for chat completions.
        models: the names that it lists, in its order.
        state: `lists`: it listed its models, perhaps none. `locked`: it wants a key. `silent`: it took the
            connection and gave no listing in time.
    """

    kind: str
    base_url: str
    models: tuple[str, ...] = ()
    state: Literal["lists", "locked", "silent"] = "lists"


async def find_servers(
    known: Sequence[KnownServer] | None = None, *, seconds: float | None = None
) -> tuple[FoundServer, ...]:
    """Ask all known servers on this machine for their models, side by side; return those that are there.

    What answers something else than a listing is no model server, and left out.

    Args:
        known: in the order of the answer; None: `KNOWN_SERVERS`.
        seconds: how long it may take in all; None: `FINDING_SECONDS`.
    """
    # Imported here, and before the time runs: it takes a third of a second.
    import aiohttp

    known = KNOWN_SERVERS if known is None else known
    connected: set[int] = set()  # ports

    async def note(_: object, context: object, __: object) -> None:
        connected.add(context.trace_request_ctx)  # type: ignore[attr-defined]

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(note)
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,  # what says that it is packed all the same is no listing
        trace_configs=[trace],
        timeout=aiohttp.ClientTimeout(),
    ) as session:
        asked = [asyncio.create_task(_ask(session, server)) for server in known]
        with suppress(TimeoutError):
            async with asyncio.timeout(FINDING_SECONDS if seconds is None else seconds):
                await asyncio.gather(*asked)  # cancels them when the time is up
    found = []
    for server, task in zip(known, asked, strict=True):
        if not task.cancelled():
            found.append(task.result())
        elif server.port in connected:
            found.append(FoundServer(server.kind, _base_url(server), state="silent"))
    return tuple(filter(None, found))


def holders_of(name: str, found: Sequence[FoundServer]) -> list[tuple[FoundServer, str]]:
    """Return the servers that have a model of that name, each with its name there: Ollama adds `:latest`."""
    names = (name, f"{name}:latest")
    return [(server, listed) for server in found for listed in names if listed in server.models]


async def _ask(session: "aiohttp.ClientSession", server: KnownServer) -> FoundServer | None:
    """Ask a server for its models; None where nobody answers, or something else than a listing."""
    import aiohttp

    from pixi.models.connections import beginning_of

    try:
        async with session.get(
            f"http://{LOOPBACK}:{server.port}{server.path}",
            allow_redirects=False,
            trace_request_ctx=server.port,
        ) as response:
            if response.status in (401, 403):
                return FoundServer(server.kind, _base_url(server), state="locked")
            if response.status != 200:
                return None
            content = await beginning_of(response, _MOST_BYTES)
    except (aiohttp.ClientError, OSError, ValueError):  # ValueError: a header line without an end
        return None
    names = names_in(content) if len(content) <= _MOST_BYTES else None
    return None if names is None else FoundServer(server.kind, _base_url(server), names)


def _base_url(server: KnownServer) -> str:
    return f"http://{LOOPBACK}:{server.port}/v1"


class _Listed(msgspec.Struct):
    id: str = ""
    name: str = ""


class _Listing(msgspec.Struct):
    data: list[_Listed] | msgspec.UnsetType | None = msgspec.UNSET  # OpenAI's; null where there is none
    models: list[_Listed] | msgspec.UnsetType | None = msgspec.UNSET  # Ollama's; llama.cpp writes both


def names_in(content: bytes) -> tuple[str, ...] | None:
    """Return the names in a listing of models, as OpenAI or Ollama write it; None if it is none.

    Left out are names that are too long, or that hold what a terminal does not show as it is: they are
    nobody's to type, and could be made to look like another.
    """
    try:
        listing = msgspec.json.decode(content, type=_Listing)
    except (ValueError, RecursionError):
        return None
    listed = listing.models if listing.data is msgspec.UNSET else listing.data
    if listed is msgspec.UNSET:
        return None
    names = dict.fromkeys(each.id or each.name for each in listed or ())
    clean = (name for name in names if name.isprintable() and name == name.strip())
    return tuple(name for name in clean if 0 < len(name) <= _LONGEST_NAME)[:_MOST_MODELS]


def trouble_of(server: FoundServer) -> str:
    """Return why a server's models cannot be offered, and the mend; empty where they can."""
    if server.state == "silent":
        return "takes connections and does not answer: is it still starting? Restart it, then try again."
    if server.state == "locked":
        return "wants a key: set model.base_url to it, and its key as OPENAI_API_KEY."
    return "" if server.models else "has no model yet: load one there."
