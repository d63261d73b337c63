"""Fences round a process that reads strangers' files, whatever the files make of its libraries.

Three fences, one behind the other: limits that the system sets to a process (memory, time, size of files),
what the Linux kernel refuses (below), and what Python itself refuses. The last one alone stands
everywhere; it stops what is done in Python, and not what a fault in a library written in C could be made to
do."""

import os
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec

from pixi.documents.files import FileLimits

if TYPE_CHECKING:
    from ctypes import CDLL


_MIB = 1024 * 1024
_OPEN_FILES = 128  # a batch that was handed over, and what Python and its libraries hold
_GRACE = 5  # seconds of computing past the limit: the other side's clock comes first

_FORBIDDEN = (
    *("ftplib.", "http.client.", "imaplib.", "nntplib.", "poplib.", "smtplib.", "socket.", "telnetlib."),
    *("urllib.", "webbrowser."),
    *("os.exec", "os.fork", "os.kill", "os.posix_spawn", "os.spawn", "os.startfile", "os.system"),
    *("pty.spawn", "subprocess."),
    *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"),
    *("os.truncate", "shutil."),
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Confinement(msgspec.Struct, array_like=True, frozen=True):
    """Limits of the kernel for a process that reads.

    Attributes:
        landlock: the version of Landlock's interface that keeps files, ports and processes from it; 0: none.
        seccomp: True if it can make no system calls but those of a short list.
    """

    landlock: int = 0
    seccomp: bool = False


def confine(limits: FileLimits) -> Confinement:
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
    """Allow so many seconds of computing from now on, and a few; then the system ends the process.

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
    """Stop what reading needs not, by raising. Python calls it before each audit event."""
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & _WRITES:
            _refuse(event)
    elif event.startswith(_FORBIDDEN):
        _refuse(event)


def _refuse(event: str) -> NoReturn:
    raise PermissionError(f"reading a file may not do this: {event}")


# Refused by the Linux kernel, even when the machine code of the process is a stranger's.
#
# Two doors of the kernel, each used where it is there. **Landlock** lets the process open nothing but the
# folders that are named to it, and those to read; newer kernels also keep it from TCP ports, and from signals
# and abstract sockets to processes outside (https://docs.kernel.org/userspace-api/landlock.html). **seccomp**
# lets it make no system calls but those of a short list, so that there is no socket, no other program, no
# other process, no new namespace and no debugger for it
# (https://docs.kernel.org/userspace-api/seccomp_filter.html). Neither needs rights, both hold for root too,
# and nobody can take them back. They hold for the thread that asks and those that it starts.
#
# Both are asked for by number, through ctypes: the C library has no function for the first, and the library
# for the second (libseccomp) is not installed everywhere.

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38


def restrict(readable: Iterable[str]) -> tuple[int, bool]:
    """Have the kernel refuse this thread all that reading does not need.

    Args:
        readable: folders with all that is in them, and files; what does not exist is passed over.

    Returns:
        The version of Landlock that refuses, 0 where this kernel has none; and True if seccomp does.
    """
    from ctypes import CDLL

    libc = CDLL(None, use_errno=True)
    if not _prctl(libc, _PR_SET_NO_NEW_PRIVS, 1):
        return 0, False
    return _landlock(libc, readable), _seccomp(libc)  # in this order: the list has no call for Landlock


def _prctl(libc: "CDLL", what: int, value: int, pointer: int = 0) -> bool:
    from ctypes import c_int, c_ulong

    result: int = libc.prctl(c_int(what), c_ulong(value), c_ulong(pointer), c_ulong(0), c_ulong(0))
    return result == 0


# Landlock: the numbers are the same on every architecture.

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Number of rights over files by version; the last are to move, to truncate, to control a device."""
_NETWORK_SINCE, _BIND_AND_CONNECT = 4, 0b11
_SCOPES_SINCE, _ABSTRACT_SOCKETS_AND_SIGNALS = 6, 0b11


def _landlock(libc: "CDLL", readable: Iterable[str]) -> int:
    """Refuse every file but those. Returns the version in force, or 0."""
    version = _call(libc, _CREATE_RULESET, None, 0, _ASK_VERSION)
    if version < 1:
        return 0
    # A right that is named here is refused wherever no rule gives it; one that the kernel does not know is an
    # error.
    attributes = struct.pack("=Q", (1 << max(n for since, n in _FILE_RIGHTS.items() if since <= version)) - 1)
    if version >= _NETWORK_SINCE:
        attributes += struct.pack("=Q", _BIND_AND_CONNECT)
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    rules = _call(libc, _CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return 0
    try:
        for path in readable:
            _let_read(libc, rules, path)
        return version if _call(libc, _RESTRICT_SELF, rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _let_read(libc: "CDLL", rules: int, path: str) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what this process cannot reach needs no rule
    try:
        rights = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE
        _call(libc, _ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(libc: "CDLL", number: int, *arguments: bytes | int | None) -> int:
    from ctypes import c_long

    result: int = libc.syscall(
        c_long(number), *(c_long(each) if isinstance(each, int) else each for each in arguments)
    )
    return result


# seccomp: a program for the kernel's filter machine, which looks at the number of each call and at its
# arguments.

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the tables below, and the kernel's own name, by the system's name."""

CALLS: dict[str, tuple[int | None, int | None]] = {
    # what was handed over is read, and answered
    "read": (0, 63), "readv": (19, 65), "pread64": (17, 67), "recvmsg": (47, 212), "write": (1, 64),
    "writev": (20, 66), "lseek": (8, 62), "close": (3, 57),
    # modules are looked for, and loaded when they are first needed; Landlock says from where
    "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17),
    # memory, up to the limit
    "brk": (12, 214), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216),
    "madvise": (28, 233),
    # threads (see `clone` below), their locks, signals that come
    "exit": (60, 93), "exit_group": (231, 94), "futex": (202, 98), "gettid": (186, 178),
    "restart_syscall": (219, 128), "rseq": (334, 293), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "sched_getaffinity": (204, 123), "sched_yield": (24, 124),
    "set_robust_list": (273, 99), "sigaltstack": (131, 132),
    # clocks, chance, and what this process is
    "clock_getres": (229, 114), "clock_gettime": (228, 113), "clock_nanosleep": (230, 115),
    "gettimeofday": (96, 169), "nanosleep": (35, 101), "poll": (7, None), "ppoll": (271, 73),
    "getegid": (108, 177), "geteuid": (107, 175), "getgid": (104, 176), "getpid": (39, 172),
    "getppid": (110, 173), "getrandom": (318, 278), "getrusage": (98, 165), "getuid": (102, 174),
    "sysinfo": (99, 179), "time": (201, None), "uname": (63, 160),
}  # fmt: skip
"""Calls that are allowed whatever their arguments are: the number on x86-64, and on 64-bit ARM."""

_CLONE_THREAD = 0x10000
_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC = 1, 2, 3, 1030

_UNLESS, _IF, _EQUAL = range(3)
CHECKED: dict[str, tuple[tuple[int | None, int | None], int, int, tuple[int, ...]]] = {
    "open": ((2, None), 1, _UNLESS, (_WRITES,)),
    "openat": ((257, 56), 2, _UNLESS, (_WRITES,)),
    "clone": ((56, 220), 0, _IF, (_CLONE_THREAD,)),  # a thread, no process
    "prlimit64": ((302, 261), 0, _EQUAL, (0,)),  # of this process, not of the one that started it
    # Not F_SETOWN: it sends signals.
    "fcntl": ((72, 25), 1, _EQUAL, (_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC)),
}
"""Calls of which an argument counts: numbers, which argument, unless or if which bits, or for which
values."""

# Of the filter machine: https://www.kernel.org/doc/Documentation/networking/filter.txt
_LOAD, _RETURN = 0x20, 0x06
_JUMP_EQUAL, _JUMP_BITS = 0x15, 0x45
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in what the machine is shown of a call


def _seccomp(libc: "CDLL") -> bool:
    """Refuse every call but those of the tables. Returns True if it is in force."""
    from ctypes import addressof, create_string_buffer

    program = _filter_program(os.uname().machine)
    if not program:
        return False
    code = create_string_buffer(b"".join(program))
    header = create_string_buffer(struct.pack("@HP", len(program), addressof(code)))
    return _prctl(libc, _PR_SET_SECCOMP, 2, addressof(header))


def _filter_program(machine: str) -> Sequence[bytes]:
    """Return the instructions, in order; none for a machine whose calls are not in the tables.

    What is not allowed fails as on a kernel that has no such call (ENOSYS): libraries then try an older one.
    """
    from errno import EACCES, ENOSYS

    if machine not in _ARCHITECTURES or sys.maxsize < 2**32:
        return ()
    column, architecture = _ARCHITECTURES[machine]
    program = [
        _instruction(_LOAD, _ARCHITECTURE_AT),
        _instruction(_JUMP_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _ERROR | ENOSYS),  # 32-bit calls have other numbers
        _instruction(_LOAD, _NUMBER_AT),
    ]
    for numbers in CALLS.values():
        number = numbers[column]
        if number is not None:
            program += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, _ALLOW)]
    for numbers, argument, kind, values in CHECKED.values():
        number = numbers[column]
        if number is None:
            continue
        yes, no = (EACCES, 0) if kind == _UNLESS else (0, EACCES)
        body = [_instruction(_LOAD, _ARGUMENTS_AT + 8 * argument)]  # its lower half, which is all that counts
        for value in values:
            test = _JUMP_EQUAL if kind == _EQUAL else _JUMP_BITS
            body += [_instruction(test, value, 0, 1), _instruction(_RETURN, _ERROR | yes if yes else _ALLOW)]
        body.append(_instruction(_RETURN, _ERROR | no if no else _ALLOW))
        program += [_instruction(_JUMP_EQUAL, number, 0, len(body)), *body]
    return [*program, _instruction(_RETURN, _ERROR | ENOSYS)]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
