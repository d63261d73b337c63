"""Which of a persona's tools the model is offered, where there are more than a prompt should hold."""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from pixi.core.deltas import ToolSchema
from pixi.core.lines import AssistantLine, Line, UserLine
from pixi.core.persona import Persona
from pixi.core.tokens import estimate_tools
from pixi.engine.repertoire import Capabilities
from pixi.toolbox.tools import Tool

if TYPE_CHECKING:
    from pixi.engine.tool_index import ToolIndex

_FOREIGN = "mcp:"  # what the sources of tools begin with that others serve, by the hundred
_SHARE = 0.3  # of the model's context, for tools that others serve
_LINES = 6  # the last ones of the talk, which tell what it is about
_EARLIER = 0.4  # what those count, beside what is answered now
_LONGEST_LINE = 800  # characters
_SURE = 8  # that fit best have to be there, else it is chosen anew
_ENOUGH = 0.4  # that a tool must fit to have to be there: about a word that few others have
_REMEMBERED = 256  # conversations, whose last choice is known

_log = logging.getLogger("pixi.engine")


@dataclass(frozen=True, slots=True)
class Room:
    """How much there is room for: so many tools, in a model's context of so many tokens."""

    tools: int
    context_tokens: int

    @property
    def foreign_tokens(self) -> int:
        """For the tools of MCP servers."""
        return int(self.context_tokens * _SHARE)

    def holds(self, stock: "_Stock") -> bool:
        """Whether all can be offered."""
        return len(stock.tools) <= self.tools and stock.foreign_tokens <= self.foreign_tokens


class ToolSelector:
    """Chooses tools for turns: the same ones as long as they do, since each change empties a server's cache.

    First come those that the persona names, then Pixi's own and those of addons and databases; what room is
    left goes to the tools of MCP servers: those that were called lately, that the talk is about, that were
    offered before, and some of each server. They always stand in the order of the toolbox.
    """

    def __init__(self, persona: Persona) -> None:
        self._persona = persona
        self._stock: _Stock | None = None
        self._index: ToolIndex | None = None
        self._indexed: _Stock | None = None
        self._offered: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._was_told = False

    def schemas(
        self, capabilities: Capabilities, room: Room, *, conversation: str, asked: str, lines: Sequence[Line]
    ) -> tuple[ToolSchema, ...]:
        """What the model is offered in a turn.

        Args:
            capabilities: all that the persona has.
            room: how much there is room for.
            conversation: its address.
            asked: what is answered.
            lines: what was said before.
        """
        stock = self._stock_of(capabilities)
        if room.holds(stock):
            return capabilities.schemas
        self._tell(len(stock.tools), room.tools)
        index = self._index_of(stock)
        fit = index.scores([(asked, 1.0)])
        scores = index.scores([(asked, 1.0), *((text, _EARLIER) for text in _said(lines))])
        chosen = frozenset([*stock.named, *_best(stock.own, scores), *stock.own][: room.tools])
        if len(stock.named) + len(stock.own) < room.tools:
            before = self._offered.get(conversation, frozenset())
            called = [name for name in dict.fromkeys(_called(lines)) if name in stock.foreign]
            wanted = [*called[: room.tools // 2], *_telling(stock.foreign, fit)]
            kept = [name for name in stock.foreign if name in before]
            if not before.issuperset(wanted):
                kept = [*wanted, *_best(stock.foreign, scores), *kept]
            chosen |= stock.within([*kept, *stock.of_each()], room.tools - len(chosen), room.foreign_tokens)
        self._remember(conversation, chosen)
        return tuple(tool.schema for name, tool in stock.tools.items() if name in chosen)

    def tokens(self, capabilities: Capabilities, room: Room) -> int:
        """How much of a prompt the tools take at most, by estimate."""
        stock = self._stock_of(capabilities)
        if room.holds(stock):
            return sum(stock.tokens.values())
        house = [*stock.named, *stock.own][: room.tools]
        return sum(stock.tokens[name] for name in house) + min(
            room.foreign_tokens, sum(stock.tokens.values())
        )

    def _stock_of(self, capabilities: Capabilities) -> "_Stock":
        if self._stock is None or self._stock.tools is not capabilities.tools:
            self._stock = _Stock.of(self._persona, capabilities.tools)
        return self._stock

    def _index_of(self, stock: "_Stock") -> "ToolIndex":
        from pixi.engine.tool_index import ToolIndex  # it brings stemmers, which few need

        self._index = self._index or ToolIndex()
        if self._indexed is not stock:
            self._index.take(tool.schema for tool in stock.tools.values())
            self._indexed = stock
        return self._index

    def _remember(self, conversation: str, chosen: frozenset[str]) -> None:
        self._offered[conversation] = chosen
        self._offered.move_to_end(conversation)
        if len(self._offered) > _REMEMBERED:
            self._offered.popitem(last=False)

    def _tell(self, tools: int, most: int) -> None:
        if not self._was_told:
            self._was_told = True
            _log.info(
                "%s has %d tools, more than a prompt should hold: the model is offered those that the talk "
                "is about, %d at most (tools of [limits])",
                *(self._persona.name, tools, most),
            )


@dataclass(frozen=True, slots=True)
class _Stock:
    """The tools of a persona, sorted out.

    Attributes:
        tools: all, by name.
        named: those that the persona names, each by its own name.
        own: of Pixi, of addons and of databases.
        foreign: of MCP servers.
        tokens: what each takes in a prompt, by estimate.
    """

    tools: Mapping[str, Tool]
    named: tuple[str, ...]
    own: tuple[str, ...]
    foreign: Mapping[str, Tool]
    tokens: Mapping[str, int]

    @classmethod
    def of(cls, persona: Persona, tools: Mapping[str, Tool]) -> "_Stock":
        """Sort them out."""
        named = tuple(name for name in tools if name in persona.tools)
        rest = {name: tool for name, tool in tools.items() if name not in named}
        foreign = {name: tool for name, tool in rest.items() if tool.source.startswith(_FOREIGN)}
        return cls(
            tools,
            named,
            tuple(name for name in rest if name not in foreign),
            foreign,
            {name: estimate_tools([tool.schema]) for name, tool in tools.items()},
        )

    @property
    def foreign_tokens(self) -> int:
        """What those of MCP servers take."""
        return sum(self.tokens[name] for name in self.foreign)

    def of_each(self) -> Iterator[str]:
        """Those of MCP servers, by turns one of each."""
        servers: dict[str, list[str]] = {}
        for name, tool in self.foreign.items():
            servers.setdefault(tool.source, []).append(name)
        return (name for one in zip_longest(*servers.values()) for name in one if name is not None)

    def within(self, order: Iterable[str], most: int, tokens: int) -> frozenset[str]:
        """The first of them, as many as there is room for."""
        chosen: set[str] = set()
        for name in dict.fromkeys(order):
            if len(chosen) >= most:
                break
            if self.tokens[name] <= tokens:
                tokens -= self.tokens[name]
                chosen.add(name)
        return frozenset(chosen)


def _best(names: Iterable[str], scores: Mapping[str, float]) -> list[str]:
    """Those that fit at all, best first."""
    return sorted((name for name in names if name in scores), key=lambda name: -scores[name])


def _telling(names: Iterable[str], scores: Mapping[str, float]) -> list[str]:
    """Those that fit so well that they have to be offered."""
    best = _best(names, scores)[:_SURE]
    enough = max(_ENOUGH, scores[best[0]] / 2) if best else 0.0
    return [name for name in best if scores[name] >= enough]


def _said(lines: Sequence[Line]) -> list[str]:
    """What was said lately, by whomever."""
    said = [line.text for line in lines if isinstance(line, UserLine | AssistantLine)]
    return [text[-_LONGEST_LINE:] for text in said[-_LINES:]]


def _called(lines: Sequence[Line]) -> Iterator[str]:
    """The tools that were called, the last ones first."""
    for line in reversed(lines):
        if isinstance(line, AssistantLine):
            yield from (call.name for call in reversed(line.calls))
