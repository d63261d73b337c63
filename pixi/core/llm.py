"""Values between Pixi and a model: prompt lines, requests, a reply's deltas, and the pages it cites."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from pixi.core.language import Thought
from pixi.core.message import Image
from pixi.core.untrusted import prompt_name, without_middle

Repeats = Literal["free", "few", "none"]
"""See `Request`."""
ToolMode = Literal["auto", "native", "text", "off"]
"""Form in which a model is offered tools: fields of its API, words of the prompt, or none."""
_ASCII_CHARACTERS_PER_TOKEN = 3.5  # English prose has some 4.3, commands and code fewer
_OTHER_TOKENS_PER_CHARACTER = 0.8  # Chinese has some 0.7, Cyrillic 0.4, emoji up to 3
_TOKENS_PER_LINE = 6  # what a chat template puts round a line
TOKENS_PER_IMAGE = 1_000
"""Some take fewer, few take more."""
MOST_SOURCES = 8
"""Limit for one turn: those who want more look for themselves."""
_TRACE = "From the web: "
_LONGEST_ADDRESS = 500  # one that is cut leads nowhere
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\|\[\]{}();]+", re.IGNORECASE)
_ENTRY = re.compile(rf"(?:(?P<title>[^;()]*) )?\(?(?P<url>{_ADDRESS.pattern})\)?(?:; |$)")
_ODD = re.compile(r"[^\w%/:?#@!$&*+,=~.-]+|[^\x00-\x7f]+")
_PAGE = re.compile(r"https?://[\w%][^/?#@]*([/?#].*)?", re.IGNORECASE)  # nobody needs a password to be shown
_MARKS = re.compile(r"[\[\]【】［］(){}<>`\\|;]")  # what commands, links and markup are made of


class ToolCall(Struct, frozen=True):
    """A whole call that a model asked for. `arguments` is the JSON text as it came, not yet checked."""

    id: str
    name: str
    arguments: str


class SystemLine(Struct, frozen=True):
    """The static prefix: persona, commands, rules."""

    text: str


PartKind = Literal["stamp", "words", "memory", "notice", "document", "summary"]
"""Kind of a part: `stamp` is Pixi's own line, `words` are what people wrote, the others came to mind."""


class Span(Struct, frozen=True, gc=False, array_like=True):
    """A stretch of a user line.

    Attributes:
        length: characters.
        kind: what it is.
        people: ids of those with whom it goes: who wrote it first, then who is quoted or named in it.
        pictures: how many of the line's pictures come with it.
        about: of a memory the name of whom it tells, of other things that came to mind where they are from.
    """

    length: int
    kind: PartKind
    people: tuple[str, ...] = ()
    pictures: int = 0
    about: str = ""


class UserLine(Struct, frozen=True, eq=False):
    """The people's messages since the last reply, stamped once with who and when.

    `spans` say whose each stretch of the text is; there are none where that is not known. They do not count
    where two lines are compared.
    """

    text: str
    images: tuple[Image, ...] = ()
    spans: tuple[Span, ...] = ()

    def __repr__(self) -> str:
        """Return the line as a log may show it: without the ids of people in its spans."""
        return f"UserLine(text={self.text!r}, images={self.images!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UserLine):
            return NotImplemented
        return (self.text, self.images) == (other.text, other.images)

    def __hash__(self) -> int:
        return hash((self.text, self.images))


class AssistantLine(Struct, frozen=True):
    """The persona's actions, as clean commands, and the tools it asked for in that round."""

    text: str
    calls: tuple[ToolCall, ...] = ()


class ToolLine(Struct, frozen=True):
    """The answer to one call. `images` are pictures that the tool brought, for models that see."""

    call_id: str
    name: str
    text: str
    images: tuple[Image, ...] = ()


Line = SystemLine | UserLine | AssistantLine | ToolLine


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
    """Prices of a model, in dollars for a million tokens. `cached`: of a cached prompt token.

    `search`: dollars for one search of the web.
    """

    prompt: float
    completion: float
    cached: float
    search: float = 0.0

    def cost(self, usage: Usage) -> float:
        """Return the dollars of a use. More cached tokens than the prompt had are not believed."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        prompt = fresh * self.prompt + cached * self.cached
        tokens = prompt + usage.completion_tokens * self.completion
        return tokens / 1_000_000 + usage.searches * self.search


FREE = Prices(0.0, 0.0, 0.0)
"""Prices of a model that runs here."""


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


Delta = Text | Thought | ToolCall | Cited | PromptProgress | Finished


class ToolSchema(Struct, frozen=True):
    """A tool as a model sees it. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True):
    """A question to a model: the lines, the tools it may call, and the grammar of the reply.

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


def estimate(line: Line) -> int:
    """Estimate the tokens of a line from its characters."""
    tokens = _TOKENS_PER_LINE + estimate_text(line.text)
    if isinstance(line, UserLine | ToolLine):
        tokens += TOKENS_PER_IMAGE * len(line.images)
    elif isinstance(line, AssistantLine):
        tokens += sum(_TOKENS_PER_LINE + estimate_text(call.name + call.arguments) for call in line.calls)
    return tokens


def estimate_all(lines: Iterable[Line]) -> int:
    """Estimate the tokens of several lines."""
    return sum(map(estimate, lines))


def estimate_tools(tools: Sequence[ToolSchema]) -> int:
    """Estimate the tokens of the tools' descriptions."""
    return sum(estimate_text(f"{t.name}{t.description}{t.parameters}") for t in tools)


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text, without those that a chat template puts round a line."""
    if text.isascii():
        return int(len(text) / _ASCII_CHARACTERS_PER_TOKEN) + 1
    ascii_characters = len(text.encode("ascii", "ignore"))
    others = len(text) - ascii_characters
    return int(ascii_characters / _ASCII_CHARACTERS_PER_TOKEN + others * _OTHER_TOKENS_PER_CHARACTER) + 1


def shortened(said: UserLine, tokens: float) -> UserLine:
    """Return the line within `tokens`: its beginning tells who speaks, its end what is asked."""
    images = said.images[: max(0, int(tokens) // (2 * TOKENS_PER_IMAGE))]
    rest = tokens - _TOKENS_PER_LINE - TOKENS_PER_IMAGE * len(images) - 16  # 16: the words in the gap
    share = min(1.0, max(rest, 0) / estimate_text(said.text))
    while True:
        longest = int(len(said.text) * share)
        text = without_middle(said.text, longest)
        shorter = UserLine(text, images, said.spans if text == said.text else ())
        if estimate(shorter) <= tokens or longest < 2:
            return shorter
        share *= 0.9


def presentable(cited: Cited) -> Cited | None:
    """Return a page with an address and a title that may be shown; None for what is no page's address."""
    url = _address(cited.url)
    return None if url is None else Cited(url, _title(cited.title))


def sources_note(sources: Iterable[Cited]) -> str:
    """Return the note by which the persona knows later where it had something from."""
    return _TRACE + "; ".join(f"{each.title} ({each.url})" if each.title else each.url for each in sources)


def is_sources_note(note: str) -> bool:
    """Return True for a note that `sources_note` made. One that a model writes so itself is not kept."""
    return note.startswith(_TRACE)


def sources_in(notes: Iterable[str]) -> Sequence[Cited]:
    """Return the sources that stand in the notes of a turn."""
    return [
        Cited(entry["url"], entry["title"] or "")
        for note in notes
        if is_sources_note(note)
        for entry in _ENTRY.finditer(note.removeprefix(_TRACE))
    ]


def _title(title: str) -> str:
    return prompt_name(_MARKS.sub(" ", title).replace("@", "＠"))


def _address(url: str) -> str | None:
    """Return the address, escaped for commands, links and lists; None where it is no page's."""
    try:
        url = _ODD.sub(lambda odd: "".join(f"%{byte:02X}" for byte in odd[0].encode()), url.strip())
    except UnicodeEncodeError:  # half a surrogate pair
        return None
    return url if _PAGE.fullmatch(url) and len(url) <= _LONGEST_ADDRESS else None
