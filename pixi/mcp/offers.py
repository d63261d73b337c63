"""MCP servers and their offers, and the lock file: what of that somebody approved."""

import asyncio
import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from pixi.core.errors import ConfigError, PixiError, ToolError
from pixi.core.message import Image

_HANDED_ON = (
    *("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM"),
    *("TMPDIR", "TZ", "USER"),
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
"""Variables that a program needs to run at all, here or on Windows. Keys are not among them."""
FILE_NAME = "mcp.lock.json"
_ABOUT = "What each MCP server was approved to run and to offer; see `pixi-persona approve --help`."
_LONGEST_KEPT = 4_000  # characters of a description and of a schema: enough to show what changed
_MOST_KEPT = 2_000  # tools of one server, over the years: some name theirs anew whenever they are asked


class NotStarted(PixiError):
    """A program could not be started. The text says why, and the mend."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that speaks over its standard input and output.

    Attributes:
        command: what is run.
        args: its arguments.
        env: what its environment has besides the little that every program needs. It may hold secrets.
        folder: where it runs; None: where we do.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    @property
    def shown(self) -> str:
        """The whole command line, as a shell would take it; of the environment only the names."""
        words = [*(f"{name}=…" for name in sorted(self.env)), shlex.join((self.command, *self.args))]
        return visible(" ".join(words) + (f" (in {self.folder})" if self.folder else ""))

    @property
    def mark(self) -> str:
        """Another one for whatever else would be run. That a secret has another value changes nothing."""
        folder = None if self.folder is None else str(self.folder)
        return digest([self.command, list(self.args), sorted(self.env), folder])

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of the program."""
        return {name: os.environ[name] for name in _HANDED_ON if name in os.environ} | dict(self.env)

    def executable(self) -> str:
        """Return the path of the file that is run.

        Raises:
            NotStarted: there is no such program.
        """
        path = shutil.which(self.command, path=self.environment.get("PATH"))
        if path is None and self.folder is not None:  # `./server` is meant from there
            path = shutil.which(str(self.folder / self.command))
        if path is None:
            raise NotStarted(f"there is no program {self.command!r} here; install it or mend `command`")
        return path


@dataclass(frozen=True, slots=True)
class NetworkServer:
    """A server on the network. `sse`: it speaks the older way of two channels.

    `headers` are sent along with each request, and may hold secrets; so may what stands behind `?`.
    """

    url: str = field(repr=False)
    sse: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The address without what may be secret."""
        parts = urlsplit(self.url)
        query = "?…" if parts.query else ""
        return visible(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}")

    @property
    def mark(self) -> str:
        """Another one for another server. A key in the address may change."""
        return digest([self.shown, self.sse])


Where = Program | NetworkServer


def visible(text: str) -> str:
    """Return the text with all written out that a terminal would obey or not show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def digest(value: object) -> str:
    """Return the same short text for the same value of JSON, and another for another."""
    told = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(told.encode("ascii")).hexdigest()


class ForeignTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it; nothing of it has been looked at yet.

    Attributes:
        server: the name of the server's section, `time` of `[mcp.time]`.
        name: by which the server knows it: any text, in any script.
        title: what people may call it; "" where it has none.
        description: "" where it has none.
        schema: of its arguments, a JSON Schema of any dialect; JSON that came over the wire.
        reads: the server says that it changes nothing.
        destroys: the server says that it may destroy something. Where it says nothing, it may.
    """

    server: str
    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    reads: bool = False
    destroys: bool = True


CallResult = str | list[str | Image]
"""The result of a call as a tool may give it: one text, or where there are pictures, a list.

Pictures are as they came, whatever is in them. A resource, a link or a sound is told in words.
"""


class CallFailed(ToolError):
    """A call gave no result: the server refused, is away, took too long or sent rubbish.

    The text is for the model, one line or a few, and holds at most some clipped words of the server's own.
    """


class ToolServer(Protocol):
    """A server as far as its tools need it: an `McpServer`, or a mere `McpConnection`."""

    @property
    def name(self) -> str:
        """The name of its section."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        """Call a tool by the server's own name for it. Cancelling it cancels it at the server.

        Raises:
            CallFailed: there is no result; says why, and whether to try again.
        """
        ...


class Starting(msgspec.Struct, frozen=True):
    """The server is being started or reached, for the first time or again."""


class Ready(msgspec.Struct, frozen=True):
    """The server can be called.

    Attributes:
        tools: those that may be offered.
        changed: those that wait for an operator's consent, as they are not what was approved.
    """

    tools: tuple[ForeignTool, ...]
    changed: tuple[ForeignTool, ...] = ()


class Waiting(msgspec.Struct, frozen=True):
    """The server is not started before an operator has seen to it. `why`: a sentence that says how."""

    why: str


class Broken(msgspec.Struct, frozen=True):
    """The server could not be started, or is gone.

    Attributes:
        why: a part of a sentence.
        again_at: when it is tried again, on the loop's clock.
    """

    why: str
    again_at: float


class Closed(msgspec.Struct, frozen=True):
    """The server was closed, for good."""


State = Starting | Ready | Waiting | Broken | Closed


class ApprovedTool(msgspec.Struct, frozen=True):
    """A tool as it was approved. `mark`: another one for whatever differs; the rest is to be shown."""

    mark: str
    description: str = ""
    schema: str = ""


class ApprovedServer(msgspec.Struct, frozen=True):
    """The approved state of a server. `mark` and `shown` are of `Where`."""

    mark: str
    shown: str
    tools: Mapping[str, ApprovedTool] = msgspec.field(default_factory=dict)


class _Approvals(msgspec.Struct, kw_only=True):
    about: str = _ABOUT
    servers: Mapping[str, ApprovedServer]


class ComparedTools(msgspec.Struct, frozen=True):
    """A list of tools, held against what was approved.

    Attributes:
        fit: those that may be offered.
        changed: those that are not what was approved.
        new: names of those, among `fit`, that were seen for the first time.
        beyond: how many new ones are more than can be remembered, so that they are not offered.
    """

    fit: tuple[ForeignTool, ...]
    changed: tuple[ForeignTool, ...] = ()
    new: tuple[str, ...] = ()
    beyond: int = 0


def approval_of(tool: ForeignTool) -> ApprovedTool:
    """Return what the lock file keeps of a tool: its words, its schema, and what it says that it may harm."""
    told, schema = full_description(tool)
    mark = digest([tool.title, tool.description, tool.schema, tool.reads, tool.destroys])
    return ApprovedTool(mark, told[:_LONGEST_KEPT], schema[:_LONGEST_KEPT])


def full_description(tool: ForeignTool) -> tuple[str, str]:
    """Return all that a tool says of itself, and its schema as JSON."""
    told = "\n".join(filter(None, (tool.title, tool.description, _harm(tool))))
    return told, json.dumps(tool.schema, sort_keys=True, ensure_ascii=False)


def _harm(tool: ForeignTool) -> str:
    if tool.reads:
        return "It says that it changes nothing."
    return "It says that it may destroy something." if tool.destroys else "It says that it destroys nothing."


def compare_with_approved(approved: ApprovedServer | None, tools: Iterable[ForeignTool]) -> ComparedTools:
    """Hold a list of tools against what was approved. A new one may be offered, a changed one may not."""
    known = {} if approved is None else approved.tools
    room = _MOST_KEPT - len(known)
    fit: list[ForeignTool] = []
    changed: list[ForeignTool] = []
    new: list[str] = []
    beyond = 0
    for tool in tools:
        before = known.get(tool.name)
        if before is None and len(new) >= room:
            beyond += 1
            continue
        if before is None:
            new.append(tool.name)
        (fit if before is None or before.mark == approval_of(tool).mark else changed).append(tool)
    return ComparedTools(tuple(fit), tuple(changed), tuple(new), beyond)


class LockFile:
    """The file. Each method reads it anew, as another process may have written it.

    Args:
        path: of it; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = asyncio.Lock()

    async def approved(self, name: str) -> ApprovedServer | None:
        """Return what was approved of a server; None for one that was never seen.

        Raises:
            ConfigError: the file cannot be read.
        """
        return (await asyncio.to_thread(self._read)).get(name)

    async def approve(self, name: str, where: Where, tools: Iterable[ForeignTool] = ()) -> None:
        """Approve a server as it is, and these of its tools; others that were approved stay so.

        Raises:
            ConfigError: the file cannot be read or written.
        """
        async with self._writing:
            await asyncio.to_thread(self._keep, name, where, tuple(tools), agreed=True)

    async def remember(self, name: str, where: Where, tools: Iterable[ForeignTool]) -> None:
        """Approve what is seen for the first time; whatever was approved of it before stays as it is.

        Raises:
            ConfigError: the file cannot be read or written.
        """
        async with self._writing:
            await asyncio.to_thread(self._keep, name, where, tuple(tools), agreed=False)

    def _keep(self, name: str, where: Where, tools: tuple[ForeignTool, ...], *, agreed: bool) -> None:
        with self._held():
            everything = self._read()
            before = everything.get(name)
            if not agreed and before is not None and before.mark != where.mark:
                return  # meanwhile somebody agreed to another one
            known = dict(before.tools) if before else {}
            seen = {tool.name: approval_of(tool) for tool in tools}
            now = ApprovedServer(where.mark, where.shown, known | seen if agreed else seen | known)
            if now != before:
                self._write(everything | {name: now})

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other processes from writing the file within the block, where the system can do that."""
        if sys.platform == "win32":
            yield
            return
        import fcntl

        try:
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError:  # what is wrong with it, writing tells
            yield
            return
        try:
            with suppress(OSError):  # not every file system can
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _read(self) -> dict[str, ApprovedServer]:
        try:
            return dict(msgspec.json.decode(self.path.read_bytes(), type=_Approvals).servers)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreadable(error.strerror) from None
        except msgspec.ValidationError:
            raise self._unreadable("it is not as Pixi wrote it") from None
        except (ValueError, RecursionError):
            raise self._unreadable("it is not JSON") from None

    def _unreadable(self, why: str | None) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be read ({why}): no MCP server is started. Put the file back, or delete it: "
            "then every server counts as new."
        )

    def _write(self, everything: Mapping[str, ApprovedServer]) -> None:
        written = msgspec.to_builtins(_Approvals(servers=everything), order="deterministic")
        text = json.dumps(written, indent=1)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                beside.unlink()
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "w", encoding="ascii") as file:
                file.write(text + "\n")
            beside.replace(self.path)
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be written ({error.strerror}): what an MCP server was approved to do is "
                "not remembered. Mend its permissions."
            ) from None
