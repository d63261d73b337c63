"""What a process that reads strangers' files may not do, whatever the files make of its libraries.

Three fences, one behind the other: limits that the system sets to a process (memory, time, size of files),
what the Linux kernel refuses (`linux_sandbox.py`), and what Python itself refuses. The last one alone stands
everywhere; it stops what is done in Python, and not what a fault in a library written in C could be made to
do.
"""

import os
import sys
from contextlib import suppress
from typing import NoReturn

import msgspec

from pixi.knowledge.reading.limits import Limits

_MIB = 1024 * 1024
_OPEN_FILES = 128  # a batch that was handed over, and what Python and its libraries hold
_GRACE = 5  # seconds of computing past the limit: the other side's clock comes first

_FORBIDDEN = (
    "ftplib.",
    "http.client.",
    "imaplib.",
    "nntplib.",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.startfile",
    "os.symlink",
    "os.system",
    "os.truncate",
    "poplib.",
    "pty.spawn",
    "shutil.",
    "smtplib.",
    "socket.",
    "subprocess.",
    "telnetlib.",
    "urllib.",
    "webbrowser.",
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Confinement(msgspec.Struct, array_like=True, frozen=True):
    """What the kernel refuses a process that reads.

    Attributes:
        landlock: the version of Landlock's interface that keeps files, ports and processes from it; 0: none.
        seccomp: True if it can make no system calls but those of a short list.
    """

    landlock: int = 0
    seccomp: bool = False


def confine(limits: Limits) -> Confinement:
    """Take from this process, for good, what reading needs not: memory, files, the network, other processes.

    To be called before there is a second thread. Returns what the kernel keeps of it.
    """
    kept = Confinement()
    if sys.platform != "win32":
        import resource

        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
        _lower(resource.RLIMIT_FSIZE, 0)
        if sys.platform != "darwin":  # there it is refused, or means nothing
            _lower(resource.RLIMIT_AS, limits.megabytes * _MIB)
    if sys.platform == "linux":
        from pixi.knowledge.reading.linux_sandbox import restrict

        kept = Confinement(*restrict(_libraries()))
    sys.addaudithook(_forbid)
    return kept


def _libraries() -> list[str]:
    """Return where Python's modules and what they are linked with may be: readers are imported when needed.

    A folder of modules that is also a project's, or above ours, is left out: keys stand there, in `.env`.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [package, os.path.dirname(os.__file__), "/etc/ld.so.cache", "/nix/store", "/gnu/store"]
    places += [
        f"{prefix}/{lib}" for prefix in ("", "/usr", sys.base_prefix, sys.prefix) for lib in ("lib", "lib64")
    ]
    kept_apart = [os.path.dirname(package), os.path.expanduser("~")]
    with suppress(FileNotFoundError):  # the current folder may be gone
        kept_apart.append(os.getcwd())
    for entry in filter(None, (*sys.path, *os.environ.get("LD_LIBRARY_PATH", "").split(":"))):
        folder = os.path.realpath(entry)
        if folder.endswith("-packages") or not (
            any(_is_in(place, folder) for place in kept_apart) or _is_project(folder)
        ):
            places.append(folder)
    return places


def _is_project(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in (".env", "pixi.toml"))


def _is_in(place: str, folder: str) -> bool:
    return os.path.commonpath([os.path.realpath(place), folder]) == folder


def allow_computing(seconds: float) -> None:
    """From now on, so many seconds of computing and a few; then the system ends the process.

    It ends what hangs where nobody can tell it to any more: the process that asked is gone.
    """
    if sys.platform != "win32":
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime + seconds) + _GRACE
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


class MemoryUse:
    """Tells the most memory that this process has held. To be made before `confine`."""

    def __init__(self) -> None:
        self._status = -1
        if sys.platform == "linux":
            with suppress(OSError):  # there may be no /proc
                self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)

    def was_above(self, megabytes: float) -> bool:
        """Return True if it was ever more than that; False where the system does not tell."""
        return sys.platform != "win32" and self._most_bytes() > megabytes * _MIB

    def _most_bytes(self) -> int:
        if self._status >= 0:
            # What `getrusage` tells on Linux begins with what the process held that started this one.
            for line in os.pread(self._status, 8_192, 0).splitlines():
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
        if sys.platform == "win32":
            return 0
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _lower(what: int, to: int) -> None:
    """Set a limit, as far down as it goes: what is lower already stays."""
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(what)[1]
        low = to if hard == resource.RLIM_INFINITY else min(to, hard)
        resource.setrlimit(what, (low, low))


def _forbid(event: str, arguments: tuple[object, ...]) -> None:
    """Called by Python before each thing of note; what it raises stops that thing."""
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & _WRITES:
            _refuse(event)
    elif event.startswith(_FORBIDDEN):
        _refuse(event)


def _refuse(event: str) -> NoReturn:
    raise PermissionError(f"reading a file may not do this: {event}")
