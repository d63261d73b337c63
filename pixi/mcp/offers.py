"""What an MCP server offers and answers, as plain values. All of it is strangers' words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pixi.core.errors import ToolError
from pixi.core.message import Image


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
