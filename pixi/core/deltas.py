"""What a model's stream is made of, and what is asked of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct, field

from pixi.core.language import Thought
from pixi.core.lines import Line, ToolCall


class Text(Struct, frozen=True, gc=False):
    """A piece of the reply. Pieces that arrive together may come as one: cutting changes nothing."""

    text: str


class Usage(Struct, frozen=True, gc=False):
    """Tokens as the server counted them; zero where it did not say. `cached` is part of `prompt`.

    `searches`: how often the server searched the web by itself.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    searches: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.searches + other.searches,
        )


class Prices(Struct, frozen=True, gc=False):
    """What a model costs, in dollars for a million tokens. `cached` is the price of a cached prompt token.

    `search`: dollars for one search of the web.
    """

    prompt: float
    completion: float
    cached: float
    search: float = 0.0

    def cost(self, usage: Usage) -> float:
        """Dollars. A server that counts more cached tokens than those of the prompt is not believed."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        prompt = fresh * self.prompt + cached * self.cached
        tokens = prompt + usage.completion_tokens * self.completion
        return tokens / 1_000_000 + usage.searches * self.search


FREE = Prices(0.0, 0.0, 0.0)
"""Of a model that runs here."""


class Finished(Struct, frozen=True, gc=False):
    """The last delta of a stream. `length`: the server cut the reply at its token limit.

    Where another model wrote it than the one that was asked, `model` is its name and `prices` are its own.
    """

    reason: Literal["stop", "length"] = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    prices: Prices | None = None


class Cited(Struct, frozen=True, gc=False):
    """A page of the web from which the server has what it writes: a stranger's address and title."""

    url: str
    title: str = ""


class PromptProgress(Struct, frozen=True, gc=False):
    """The server reads the prompt: a sign that it works, and nothing that a reply consists of.

    It comes before the first piece of a reply, never after it; a reply whose reading was told of may still be
    asked for again.

    Attributes:
        done: tokens that were read, with those that the server had in its cache.
        total: tokens of the whole prompt; estimated where the server does not count them.
        seconds: that the rest takes at the speed measured so far; None: nothing was measured yet.
    """

    done: int
    total: int
    seconds: float | None = None


Repeats = Literal["free", "few", "none"]
"""See `Request`."""

Delta = Text | Thought | ToolCall | Cited | PromptProgress | Finished


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model: the lines, the tools it may call, and the grammar of the reply.

    `grammar` is GBNF for the command language, which has no room for calls: the door to a model leaves it
    out where it offers the tools, or where the server takes none.

    `schema` is a JSON Schema object that the reply is to follow. It is a wish: where the server does not know
    such a thing it is left out, so what comes is to be read as anything that a model may write.

    `search`: the provider may search the web by itself while it writes, where it can.

    `repeats`: how much of what stands in the prompt the reply may say again, at a model whose sampling Pixi
    chooses. `free`: all of it, for there may be something to be quoted. `few`: whole phrases rather not.
    `none`: the reply before this one was a repeat, and was thrown away.
    """

    lines: tuple[Line, ...]
    tools: tuple[ToolSchema, ...] = ()
    grammar: str | None = None
    schema: Mapping[str, object] | None = None
    search: bool = False
    repeats: Repeats = "free"
