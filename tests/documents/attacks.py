"""What a process that reads strangers' files must not be able to do, were its machine code theirs.

Run as a program, it tries each attack twice in a process of its own: once free, to see that the attack works
here at all, and once after the real `confine`. An ordinary user tries: started by root, the program becomes
one first. It forks and never starts Python anew, for that user may not be able to read Python's folder.
"""

import ctypes
import json
import mmap
import multiprocessing.util
import os
import resource  # noqa: F401 - as below
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pixi.documents.confinement  # noqa: F401 - `confine` imports it when this user cannot read it
from pixi.documents.confinement import Confinement, confine
from pixi.documents.files import FileLimits

NOBODY = 65_534
CANARY = "sk-canary-of-the-environment"
MEGABYTES = 300

_SECRET = ctypes.create_string_buffer(b"canary in the memory of the parent")
_PR_SET_DUMPABLE = 4
_CLONE_NEWUSER = 0x10000000
_PTRACE_SEIZE = 0x4206
_F_SETOWN = 8
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Targets:
    """What the attacks are aimed at, made before any of them."""

    folder: Path
    parent: int
    tcp: int
    udp: int
    pipe: tuple[int, int]


def call(name: str, *arguments: object) -> int:
    """Call a function of the C library, past everything that Python watches."""
    result: int = getattr(_libc, name)(*arguments)
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def number(x86: int, other: int) -> ctypes.c_long:
    """A system call that the C library may have no function for."""
    return ctypes.c_long(x86 if os.uname().machine == "x86_64" else other)


def path_of(name: str, on: Targets) -> bytes:
    return os.fsencode(on.folder / name)


def environment(on: Targets) -> None:
    assert CANARY in Path(f"/proc/{on.parent}/environ").read_text()


def memory_file(on: Targets) -> None:
    with open(f"/proc/{on.parent}/mem", "rb") as memory:
        memory.seek(ctypes.addressof(_SECRET))
        assert memory.read(6) == b"canary"


def memory_call(on: Targets) -> None:
    here = ctypes.create_string_buffer(6)
    to = struct.pack("@PN", ctypes.addressof(here), 6)
    of = struct.pack("@PN", ctypes.addressof(_SECRET), 6)
    call("process_vm_readv", on.parent, to, ctypes.c_ulong(1), of, ctypes.c_ulong(1), ctypes.c_ulong(0))
    assert here.raw == b"canary"


def opened(path: bytes, flags: int) -> None:
    call("open", path, flags, 0o600)


def connected(family: int, address: bytes) -> None:
    handle = call("socket", family, socket.SOCK_STREAM, 0)
    call("connect", handle, address, len(address))
    call("send", handle, b"GET / HTTP/1.0\r\n\r\n", ctypes.c_size_t(18), 0)


def internet(port: int) -> bytes:
    return struct.pack("@H", socket.AF_INET) + struct.pack("!H", port) + bytes([127, 0, 0, 1]) + bytes(8)


def local(name: bytes) -> bytes:
    return struct.pack("@H", socket.AF_UNIX) + name


def udp(on: Targets) -> None:
    handle = call("socket", socket.AF_INET, socket.SOCK_DGRAM, 0)
    address = internet(on.udp)
    call("sendto", handle, b"x", ctypes.c_size_t(1), 0, address, len(address))


def other_program(on: Targets) -> None:
    real, os.pipe = os.pipe, lambda: on.pipe
    try:
        multiprocessing.util.spawnv_passfds(b"/bin/true", [b"true"], [])
    finally:
        os.pipe = real


def become_other_program(_: Targets) -> None:
    arguments = (ctypes.c_char_p * 3)(b"/bin/echo", b'"worked"', None)
    call("execve", b"/bin/echo", arguments, None)


def fork(_: Targets) -> None:
    if call("fork") == 0:
        os._exit(0)


def spawned(_: Targets) -> None:
    arguments = (ctypes.c_char_p * 2)(b"/bin/true", None)
    refused = _libc.posix_spawn(ctypes.byref(ctypes.c_int()), b"/bin/true", None, None, arguments, None)
    if refused:
        raise OSError(refused, os.strerror(refused))


def signals_by_descriptor(on: Targets) -> None:
    call("fcntl", on.pipe[0], _F_SETOWN, on.parent)


@dataclass(frozen=True)
class Attack:
    """By which fence it is stopped (either, where there are two names), and how it is done."""

    fence: str
    attempt: Callable[[Targets], object]


LANDLOCK, SECCOMP, EITHER, LIMITS = "landlock", "seccomp", "landlock seccomp", ""
RDONLY, WRITE = os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY

ATTACKS = {
    "read the environment of the parent": Attack(LANDLOCK, environment),
    "read the memory of the parent, by its file": Attack(LANDLOCK, memory_file),
    "read the memory of the parent, by a call": Attack(EITHER, memory_call),
    "read .env": Attack(LANDLOCK, lambda on: opened(path_of(".env", on), RDONLY)),
    "read a file of the home folder": Attack(LANDLOCK, lambda on: opened(path_of("home/.netrc", on), RDONLY)),
    "read the users of the system": Attack(LANDLOCK, lambda on: opened(b"/etc/passwd", RDONLY)),
    "list a folder": Attack(LANDLOCK, lambda on: os.listdir(on.folder)),
    "open a pipe that has a name": Attack(LANDLOCK, lambda on: opened(path_of("pipe", on), RDONLY)),
    "write a new file": Attack(EITHER, lambda on: opened(path_of("new", on), WRITE | os.O_CREAT)),
    "write over a file": Attack(EITHER, lambda on: opened(path_of("there", on), WRITE | os.O_TRUNC)),
    "empty a file": Attack(EITHER, lambda on: call("truncate", path_of("there", on), ctypes.c_long(0))),
    "remove a file": Attack(EITHER, lambda on: call("unlink", path_of("there", on))),
    "rename a file": Attack(EITHER, lambda on: call("rename", path_of("there", on), path_of("gone", on))),
    "make a folder": Attack(EITHER, lambda on: call("mkdir", path_of("new", on), 0o700)),
    "make a symbolic link": Attack(EITHER, lambda on: call("symlink", b"/", path_of("new", on))),
    "make a hard link": Attack(EITHER, lambda on: call("link", path_of("there", on), path_of("new", on))),
    "change permissions": Attack(SECCOMP, lambda on: call("chmod", path_of("there", on), 0o777)),
    "connect by TCP": Attack(SECCOMP, lambda on: connected(socket.AF_INET, internet(on.tcp))),
    "send by UDP": Attack(SECCOMP, udp),
    "connect to a socket in a folder": Attack(
        SECCOMP, lambda on: connected(socket.AF_UNIX, local(path_of("socket", on) + b"\0"))
    ),
    "connect to an abstract socket": Attack(
        SECCOMP, lambda on: connected(socket.AF_UNIX, local(b"\0pixi-%d" % on.parent))
    ),
    "start a program as subprocess does": Attack(SECCOMP, other_program),
    "start a program as C does": Attack(SECCOMP, spawned),
    "become another program": Attack(EITHER, become_other_program),
    "fork": Attack(SECCOMP, fork),
    "debug the parent": Attack(EITHER, lambda on: call("ptrace", _PTRACE_SEIZE, on.parent, None, None)),
    "signal the parent": Attack(SECCOMP, lambda on: call("kill", on.parent, signal.SIGCONT)),
    "have the parent signalled": Attack(SECCOMP, signals_by_descriptor),
    "set limits to the parent": Attack(
        SECCOMP, lambda on: call("prlimit", on.parent, 4, struct.pack("@QQ", 0, 0), None)
    ),
    "make a user namespace": Attack(SECCOMP, lambda on: call("unshare", _CLONE_NEWUSER)),
    "make an io_uring": Attack(
        SECCOMP,
        lambda on: call("syscall", number(425, 425), ctypes.c_uint(4), ctypes.create_string_buffer(256)),
    ),
    "keep a file in memory": Attack(SECCOMP, lambda on: call("memfd_create", b"x", 0)),
    "take all the memory": Attack(LIMITS, lambda on: mmap.mmap(-1, 2 * MEGABYTES * 1024 * 1024)),
}


def outcome(attack: Attack, on: Targets, *, confined: bool) -> str:
    """What comes of it in a process of its own: "worked", or "refused" and why."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        try:
            if confined:
                confine(FileLimits(megabytes=MEGABYTES))
            attack.attempt(on)
            told = "worked"
        except (OSError, MemoryError) as error:
            told = f"refused: {type(error).__name__}: {error}"
        except BaseException:
            told = f"failed: {traceback.format_exc()}"
        os.write(1, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    return str(json.loads(told)) if told else f"failed: ended with status {status}"


def kept() -> Confinement:
    """What the kernel keeps here, told by a process that asked it to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        found = confine(FileLimits(megabytes=MEGABYTES))
        os.write(writing, json.dumps([found.landlock, found.seccomp]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        landlock, seccomp = json.load(answer)
    os.waitpid(child, 0)
    return Confinement(landlock, seccomp)


def renewed(folder: Path) -> None:
    """Lay out what is attacked, whatever came of it before."""
    for name in ("new", "gone"):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    for name in (".env", "there", "home/.netrc"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"OPENAI_API_KEY={CANARY}\n")
        (folder / name).chmod(0o600)


def main(folder: Path) -> None:
    """Try everything in that folder, and print what came of it."""
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        call("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)  # as of any program that a user starts
    os.chdir(folder)
    os.mkfifo(folder / "pipe")
    listening = socket.create_server(("127.0.0.1", 0))
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(("127.0.0.1", 0))
    by_name = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
    for each, address in zip(by_name, ("socket", f"\0pixi-{os.getpid()}"), strict=True):
        each.bind(address)
        each.listen(8)
    on = Targets(folder, os.getpid(), listening.getsockname()[1], heard.getsockname()[1], os.pipe())
    told = {}
    for name, attack in ATTACKS.items():
        renewed(folder)
        free = outcome(attack, on, confined=False)
        renewed(folder)
        told[name] = (free, outcome(attack, on, confined=True))
    found = kept()
    print(json.dumps({"landlock": found.landlock, "seccomp": found.seccomp, "outcomes": told}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
