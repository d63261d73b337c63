"""What a process that reads strangers' files may not do, whatever the files make of its libraries."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

from pixi.knowledge.reading.limits import Limits

_MIB = 1024 * 1024
_OPEN_FILES = 64
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


def confine(limits: Limits) -> None:
    """Take from this process, for good, what reading does not need: memory, files to write, the network."""
    if sys.platform != "win32":
        import resource

        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
        _lower(resource.RLIMIT_FSIZE, 0)
        if sys.platform != "darwin":  # there it is refused, or means nothing
            _lower(resource.RLIMIT_AS, limits.megabytes * _MIB)
    sys.addaudithook(_forbid)


def allow_computing(seconds: float) -> None:
    """From now on, so many seconds of computing and a few; then the system ends the process.

    It ends what hangs where nobody can tell it to any more: the process that asked is gone.
    """
    if sys.platform != "win32":
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime + seconds) + _GRACE
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def grown_past(megabytes: float) -> bool:
    """Whether this process has ever held more memory than that; False where the system does not tell."""
    if sys.platform == "win32":
        return False
    return _most_bytes() > megabytes * _MIB


def _most_bytes() -> int:
    """The most memory that this process has held."""
    if sys.platform == "linux":
        # What `getrusage` tells there begins with what the process held that started this one.
        with suppress(OSError), open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
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
