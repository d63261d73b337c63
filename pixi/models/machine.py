"""What models can expect of this machine: its memory, and how many tokens a second.

To write one token llama.cpp reads nearly every weight once, and does little with each: what limits it is how
many bytes a second come out of memory, not how fast is computed. So the speed of a model is that of another
one times the ratio of their sizes. The bundled model is run for two seconds, and all others are scaled from
it. This is an estimate: it leaves out what a long talk adds (its keys and values are read too), what every
token costs besides, and the processor's cache, which holds more of a small model than of a large one. Beside
busy programs a trial gives less than on an idle machine.
"""

import asyncio
import importlib.util
import os
import platform
import sys
import tempfile
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec

from pixi.core.errors import PixiError
from pixi.core.llm import Request, SystemLine, Text, UserLine
from pixi.models.weights import Progress, cache_folder, cached, installed

_TRIAL_SECONDS = 2.0
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Trial(msgspec.Struct, frozen=True):
    """How fast the bundled model was here.

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
    kept = None if again else _kept()
    if kept is not None:
        return kept
    try:
        speed = await _run(weights, progress)
    except PixiError:
        return None
    finally:
        progress("")
    if not speed:
        return None
    made = Trial(_machine(), weights.stat().st_size, round(speed, 1))
    with suppress(OSError):  # then it is made again the next time
        _keep(made)
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


async def _run(weights: Path, progress: Progress) -> float:
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


def _file() -> Path:
    return cache_folder() / "speed.json"


def _kept() -> Trial | None:
    """Return the trial that was made on this machine; None where there was none."""
    try:
        found = msgspec.json.decode(_file().read_bytes(), type=Trial)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.machine == _machine() and found.tokens_per_second > 0 else None


def _keep(made: Trial) -> None:
    _file().parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=_file().parent)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(made))
    os.replace(name, _file())


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
