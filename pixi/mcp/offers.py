"""What an MCP server is and offers: where it is, its state, its tools and what a call gives."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from pixi.core.errors import ToolError
from pixi.core.message import Image

_HANDED_ON = (
    *("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM"),
    *("TMPDIR", "TZ", "USER"),
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
"""What a program needs of our environment to run at all, here or on Windows. Keys are not among it."""


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
        """All that the program's environment holds."""
        return {name: os.environ[name] for name in _HANDED_ON if name in os.environ} | dict(self.env)


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
    """The text with all written out that a terminal would obey or not show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def digest(value: object) -> str:
    """The same short text for the same value of JSON, and another for another."""
    told = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(told.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class ForeignTool:
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


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call gave.

    Attributes:
        parts: texts and pictures, in their order. Pictures are as they came, whatever is in them. What is
            neither (a resource, a link, a sound) is told in words. Never empty.
        structured: the same as a value, where the server sent one. It stands among the parts too, as JSON,
            unless one of the texts says it already.
    """

    parts: tuple[str | Image, ...]
    structured: Any = None

    @property
    def result(self) -> str | list[str | Image]:
        """As a tool may give it: one text, or where there are pictures, a list."""
        if any(isinstance(part, Image) for part in self.parts):
            return list(self.parts)
        return "\n".join(str(part) for part in self.parts)


class CallFailed(ToolError):
    """A call gave no result: the server refused, is away, took too long or sent rubbish.

    The text is for the model, one line or a few, and holds at most some clipped words of the server's own.
    """


class ToolServer(Protocol):
    """A server as far as its tools need it: `Server` is one."""

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


@dataclass(frozen=True, slots=True)
class Starting:
    """It is being started or reached, for the first time or again."""


@dataclass(frozen=True, slots=True)
class Ready:
    """It can be called.

    Attributes:
        tools: those that may be offered.
        changed: those that wait for an operator's consent, as they are not what was approved.
    """

    tools: tuple[ForeignTool, ...]
    changed: tuple[ForeignTool, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is not started before an operator has seen to it. `why`: a sentence that says how."""

    why: str


@dataclass(frozen=True, slots=True)
class Broken:
    """It could not be started, or is gone.

    Attributes:
        why: a part of a sentence.
        again_at: when it is tried again, on the loop's clock.
    """

    why: str
    again_at: float


@dataclass(frozen=True, slots=True)
class Closed:
    """It was closed, for good."""


State = Starting | Ready | Waiting | Broken | Closed
