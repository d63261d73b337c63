"""Tools: typed arguments in, a result out, at the price of another round; and how often each may be used."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Literal, TypedDict, Unpack, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

from pixi.core.errors import ConfigError, ToolError
from pixi.core.llm import ToolSchema
from pixi.core.masking import SecretRedactor, hidden_in
from pixi.core.message import Card, Image, Need
from pixi.core.spending import TOOL_SECONDS, Rate
from pixi.models.pictures import PictureError, fit_for_model
from pixi.store.rates import Rates
from pixi.toolbox.arguments import checked
from pixi.toolbox.context import Context, Notice
from pixi.toolbox.schema import ToolFunction, signature_of

Allowed = Literal["everyone", "managers", "operators"]
Predicate = Callable[[Context], bool | Awaitable[bool]]
Asks = Callable[[Context, Mapping[str, Any]], bool]
EVERYBODY = ("*",)
"""Every persona, in the terms of a tool."""
LEAST_BYTES = 256
"""Least room of a result, however little room is left."""


def as_words(seconds: float) -> str:
    """Return a stretch of time for people: never shorter than it is."""
    for unit, size in (("hour", 3_600), ("minute", 60), ("second", 1)):
        if seconds > size or size == 1:
            count = max(1, -int(-seconds // size))
            return f"{count} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("there is a smallest unit")


class ToolTerms(TypedDict, total=False):
    """Terms of use of a tool; each may be left out.

    Attributes:
        writes: it changes something in the world: it runs by itself, in its turn, and is put on record.
        timeout: seconds that it may take, 20; an engine's own limit may be shorter. None: what the turn has
            left, but for a reserve to answer in; for a tool that gives what it has by `context.seconds_left`.
        result_bytes: length of its result as text, in UTF-8; an engine's own limit may be shorter.
        allow: who may use it, by what the person who asks may do where they ask, at that moment.
        when: says whether it can be used just now; may be async. It may raise `ToolError` with its reason.
        per_person: how often for the same person.
        per_guild: how often in the same guild; where there is none, it does not count.
        writes_per_person: how often the tools of this source may change something for the same person, all
            together. It is counted from the record, so that it holds over restarts and in several processes.
        approval: the person who asks must say yes, each time; or a function that says so of the place and
            the arguments.
        source: where it comes from, e.g. `database:pancakes`: by this it is taken away again.
        personas: who has it without naming it in their file, by names; `EVERYBODY`: whoever there is.
        needs: what the place must have for it; where that is missing, the model is not told of the tool.
        varies: each call may give another answer, as dice do, or a clock: it is carried out each time that it
            is asked for in a turn. So is one that writes.
    """

    writes: bool
    timeout: float | None
    result_bytes: int | None
    allow: Allowed
    when: Predicate | None
    per_person: Rate | None
    per_guild: Rate | None
    writes_per_person: Rate | None
    approval: bool | Asks
    source: str
    personas: tuple[str, ...]
    needs: Need | None
    varies: bool


class BoundCall(Struct, frozen=True):
    """A tool with its arguments, which fit. `run` may be awaited once."""

    arguments: Mapping[str, Any]
    run: Callable[[Context], Awaitable[Any]]


class Tool(Struct, frozen=True):
    """A function that a model may call.

    `bind` checks the arguments; it raises `ToolError` with words the model can act on. `instead` is the same
    tool by another name, for one that must not stand in the way of any that wants its name. All else is as
    in `ToolTerms`.

    Raises:
        ConfigError: the terms cannot hold.
    """

    schema: ToolSchema
    bind: Callable[[Mapping[str, Any]], BoundCall]
    timeout: float | None = TOOL_SECONDS
    writes: bool = False
    result_bytes: int | None = None
    allow: Allowed = "everyone"
    when: Predicate | None = None
    per_person: Rate | None = None
    per_guild: Rate | None = None
    writes_per_person: Rate | None = None
    approval: bool | Asks = False
    source: str = ""
    personas: tuple[str, ...] = ()
    needs: Need | None = None
    varies: bool = False
    instead: "Tool | None" = None

    def __post_init__(self) -> None:
        where = f"tool {self.name!r}"
        if self.timeout is not None and self.timeout <= 0:
            raise ConfigError(f"{where}: its timeout is {self.timeout}; give it some seconds.")
        if self.result_bytes is not None and self.result_bytes < LEAST_BYTES:
            raise ConfigError(
                f"{where}: its result_bytes are {self.result_bytes}; give it {LEAST_BYTES} or more."
            )
        if self.writes_per_person is not None and not (self.writes and self.source):
            raise ConfigError(
                f"{where}: writes_per_person counts what the tools of a source change; set writes=True and a "
                "source."
            )
        if self.allow not in get_args(Allowed):
            raise ConfigError(
                f"{where}: allow is {self.allow!r}; write one of {', '.join(get_args(Allowed))}."
            )

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.schema.name

    @property
    def does(self) -> str:
        """Return what the tool does, in a line."""
        return " ".join(self.schema.description.partition("\n\n")[0].split())

    async def call(self, context: Context, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments and run it, whatever its terms.

        Raises:
            ToolError: the arguments do not fit, or it could not be done.
        """
        return await self.bind(arguments).run(context)


def tool_from(function: ToolFunction, **terms: Unpack[ToolTerms]) -> Tool:
    """Make a tool of `async def name(context, ...)`: name, docstring and type hints make the schema.

    A hint `Annotated[int, Field(description="…", ge=1)]` gives its parameter a description and bounds; a
    description may stand under `Args:` in the docstring as well.

    Raises:
        ConfigError: the function cannot be a tool, or the terms cannot hold.
    """
    signature = signature_of(function)

    def bind(arguments: Mapping[str, Any]) -> BoundCall:
        given = checked(signature, arguments)
        return BoundCall(given, partial(_run, function, given))

    return Tool(signature.schema, bind, **terms)


async def _run(function: ToolFunction, given: Mapping[str, Any], context: Context) -> Any:
    return await function(context, **given)


class Toolbox:
    """The tools that an engine knows, by name.

    Attributes:
        version: another one whenever a tool came or went.
        rates: counts how often tools are used.
        mask: hides secrets in what tools answer; told of them by whoever knows them.
        notices: what addons tell of messages by themselves.
    """

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self._tools: dict[str, Tool] = {}
        self._sources: set[str] = set()
        self.version = 0
        self.rates = Rates()
        self.mask = SecretRedactor()

    @property
    def sources(self) -> frozenset[str]:
        """Return where tools came from, or will; also those that were taken away again."""
        return frozenset(self._sources)

    def announce(self, source: str) -> None:
        """Make a source known of which tools will come: a persona may name it already."""
        self._sources.add(source)

    def add(self, tool: Tool) -> None:
        """Register it. A tool that has another name to go by makes room.

        Raises:
            ConfigError: the name is taken.
        """
        holder = self._tools.get(tool.name)
        if holder is not None:
            if holder.instead is None or tool.instead is not None or holder.instead.name in self._tools:
                raise ConfigError(f"tool {tool.name!r}: the name is taken; give it another.")
            self._tools[holder.instead.name] = holder.instead
        self._tools[tool.name] = tool
        if tool.source:
            self._sources.add(tool.source)
        self.version += 1

    def remove(self, source: str) -> int:
        """Take away the tools of a source; gives how many there were. Calls under way are finished."""
        gone = [tool.name for tool in self if tool.source == source]
        for name in gone:
            del self._tools[name]
        self.version += bool(gone)
        return len(gone)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name."""
        return self._tools.get(name)


# Results, as parts that a model can be told and people can be shown.

Part = str | Image | Card

NOTHING_FOUND = "Nothing was found. Try other words, or fewer."
"""Answer to a model of a search that finds nothing."""

MOST_PICTURES = 4
"""Limit of one result. Each costs a model about a thousand tokens, in every round that follows."""

_LONGEST_SIDE = 1_024  # pixels
_MARGIN = 4_096  # characters beyond the limit in which a secret that stands across it is still found


def parts_of(result: object) -> tuple[Part, ...]:
    """Return the result in parts: pictures, cards, and all else as text, of any type that JSON can say.

    A list or a mapping that holds pictures or cards gives them in their places.

    Raises:
        ToolError: it is of no use to anybody.
    """
    match result:
        case str() | Image():
            return (result,)
        case Card():
            return (result.fitted(),)
        case None:
            return ("Done.",)
        case list() | tuple() if any(isinstance(each, Image | Card) for each in result):
            return tuple(part for each in result for part in parts_of(each))
        case dict() if any(isinstance(each, Image | Card) for each in result.values()):
            shown = [each for each in result.values() if isinstance(each, Image | Card)]
            rest = {name: each for name, each in result.items() if not isinstance(each, Image | Card)}
            return (*((as_json(rest),) if rest else ()), *(part for each in shown for part in parts_of(each)))
        case _:
            return (as_json(result),)


def as_json(value: object) -> str:
    """Return a value as JSON text.

    Raises:
        ToolError: it cannot be said so.
    """
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value, fallback=_named, inf_nan_mode="null", bytes_mode="base64")
        return json.dumps(plain, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        raise ToolError(f"It gave a {type(value).__name__} that cannot be written down.") from None


def _named(value: object) -> Any:
    """Return what JSON cannot say. Its own text may hold anything, an address in memory or a key."""
    if isinstance(value, GeneratorType | AsyncGeneratorType):
        raise TypeError("it may never end")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return f"<{type(value).__name__}>"


async def with_pictures_checked(parts: Sequence[Part], *, vision: bool) -> tuple[Part, ...]:
    """Decode and write each picture anew; one that is none, or one too many, becomes words.

    `vision`: the model can be shown pictures; one that cannot is told of each.
    """
    checked: list[Part] = []
    for part in parts:
        if isinstance(part, Card):
            checked.append(await with_picture_checked(part))
        elif not isinstance(part, Image):
            checked.append(part)
        elif not vision:
            checked.append("(a picture that you cannot see)")
        elif sum(isinstance(each, Image) for each in checked) == MOST_PICTURES:
            checked.append("(one picture more, which is left out)")
        else:
            try:
                checked.append(await asyncio.to_thread(_fitted, part))
            except PictureError as error:
                checked.append(f"(a picture that cannot be shown: {error})")
    return tuple(checked)


async def with_picture_checked(card: Card) -> Card:
    """Return the card; a picture in it that is none is left out."""
    if not isinstance(card.picture, Image):
        return card
    try:
        picture = await asyncio.to_thread(_fitted, card.picture)
    except PictureError:
        return replace(card, picture=None)
    return replace(card, picture=picture)


def _fitted(image: Image) -> Image:
    return fit_for_model(image.data, longest_side=_LONGEST_SIDE)


def within_bytes(text: str, limit: int, mask: SecretRedactor | None = None) -> str:
    """Return the text within so many bytes of UTF-8; where it is cut, it says so.

    With a mask, without secrets.
    """
    whole = len(text)
    if mask is not None:
        # Of a huge text only the beginning is looked through. Its last characters go: there a secret may
        # have been cut in two.
        margin = max(_MARGIN, mask.longest)
        hidden = mask.hide(text[: limit + margin])
        text = hidden[:-margin] if whole > limit + margin else hidden
        whole = whole if whole > limit + margin else len(text)
    head = text[:limit].encode("utf-8", "replace")
    if len(head) <= limit and len(text) <= limit and whole == len(text):
        return head.decode("utf-8")
    notice = f"\n[cut here; the whole has {whole} characters]"
    return head[: max(0, limit - len(notice))].decode("utf-8", "ignore") + notice


def masked(card: Card, mask: SecretRedactor) -> Card:
    """Return the card without secrets; without its picture, where the address holds one."""
    hide = mask.hide
    picture = card.picture
    if isinstance(picture, str) and hide(picture) != picture:
        picture = None
    fields = tuple(replace(f, name=hide(f.name), value=hide(f.value)) for f in card.fields)
    link = card.link if hide(card.link) == card.link else ""
    return replace(
        card,
        title=hide(card.title),
        text=hide(card.text),
        fields=fields,
        picture=picture,
        link=link,
        data=hidden_in(card.data, hide, names=True),
    )
