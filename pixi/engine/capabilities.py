"""Capabilities of a persona: its commands and tools, and the tools that it is offered now.

`capabilities_of` chooses what a persona has, once. Where that are more tools than a prompt should hold, a
`ToolSelector` chooses for each turn those that the talk is about.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.llm import AssistantLine, Line, ToolSchema, UserLine, estimate_tools
from pixi.core.lru import LRU
from pixi.core.message import Abilities
from pixi.core.persona import Persona
from pixi.core.prompt import CommandHelp, command_grammar
from pixi.toolbox.commands import BY_SETTING, Command, CommandRegistry
from pixi.toolbox.tools import EVERYBODY, Tool, Toolbox

if TYPE_CHECKING:
    from pixi.toolbox.tool_index import ToolIndex

_log = logging.getLogger("pixi.engine")

WEB_SEARCH = "web_search"
"""The source of the tool that searches the web: left out where a model's provider does so by itself."""

NO_ABILITIES = Abilities()
"""The abilities of a place of which nothing is known."""

_DATABASE = "database"  # beginning of the sources of a database's tools
_SERVER = "mcp"  # the same of the tools of MCP servers, by the hundred

_SHARE = 0.3  # of the model's context, for tools that others serve
_LINES = 6  # the last ones of the talk, which tell what it is about
_EARLIER = 0.4  # weight of earlier words, beside what is answered now
_LONGEST_LINE = 800  # characters
_SURE = 8  # that fit best have to be there, else it is chosen anew
_ENOUGH = 0.4  # that a tool must fit to have to be there: about a word that few others have
_REMEMBERED = 256  # conversations, whose last choice is known


class Capabilities(Struct, frozen=True):
    """A persona's commands and tools, as the parser, the prompt and the model want them.

    Attributes:
        names: the commands, with their aliases.
        help: their lines in the prompt.
        grammar: what a reply may be, as GBNF.
        tools: by name.
        schemas: the tools as a model sees them.
        searches: the model's provider may search the web by itself.
        unserved: commands that are there in other places, or with other settings.
    """

    names: Mapping[str, tuple[str, ...]]
    help: tuple[CommandHelp, ...]
    grammar: str
    tools: dict[str, Tool]
    schemas: tuple[ToolSchema, ...]
    searches: bool = False
    unserved: frozenset[str] = frozenset()


def capabilities_of(
    persona: Persona,
    commands: CommandRegistry,
    toolbox: Toolbox,
    *,
    small: bool,
    searches: bool = False,
    abilities: Abilities = NO_ABILITIES,
) -> Capabilities:
    """Choose what the persona names, of a database or another source all its tools; and what is everybody's.

    What cannot be done in a place of these abilities is left out, and so is a command that some setting would
    bring and that is not there.

    `small`, `searches`: what the model is, and can do by itself; see `pixi.models.model.Traits`.

    Raises:
        ConfigError: it names commands, tools or databases that are not there; all of them are told.
    """
    if missing := missing_names(persona, commands, toolbox):
        who = f"persona {persona.name!r} ({persona.origin or 'in code'})"
        raise ConfigError(*(f"{who}: {each.text}" for each in missing))
    chosen = [command.name for command in commands] if persona.commands is None else persona.commands
    known = {command.name: command for command in commands}
    named = [known[name] for name in chosen if not _is_unset(name, known)]
    served = [command for command in named if command.needs is None or abilities.of(command.needs)]
    named_tools = _tools_of(persona, toolbox)
    has_search = any(tool.source == WEB_SEARCH for tool in named_tools.values())
    tools: dict[str, Tool] = {}
    for name, tool in named_tools.items():
        if searches and tool.source == WEB_SEARCH:
            continue
        allowed = replace(tool, approval=True) if name in persona.confirm else tool
        if _is_usable(allowed, abilities):
            tools[name] = allowed
    lines = tuple(_help(command, abilities) for command in served)
    return Capabilities(
        names={command.name: command.aliases for command in served},
        help=lines,
        grammar=command_grammar(lines, silence=persona.silence, small=small),
        tools=tools,
        schemas=tuple(tool.schema for tool in tools.values()),
        searches=searches and has_search,
        unserved=_unserved(commands, abilities),
    )


def _tools_of(persona: Persona, toolbox: Toolbox) -> dict[str, Tool]:
    """Return the tools that a persona names or is given, by name: first those of its file, in that order."""
    known = {tool.name: tool for tool in toolbox}
    tools: dict[str, Tool] = {}
    for name in persona.tools:
        if name in toolbox.sources:
            tools |= {tool.name: tool for tool in toolbox if tool.source == name}
        elif name in known:
            tools[name] = known[name]
    tools |= {tool.name: tool for tool in toolbox if _is_given(tool, persona)}
    for name in persona.databases:
        source = f"{_DATABASE}:{name}"
        tools |= {tool.name: tool for tool in toolbox if tool.source == source}
    return tools


def _is_usable(tool: Tool, abilities: Abilities) -> bool:
    """Return True if a tool can do its work in a place of these abilities."""
    if tool.needs is not None and not abilities.of(tool.needs):
        return False
    if tool.writes and not abilities.changes:
        return False
    return abilities.asks or tool.approval is not True


def _is_given(tool: Tool, persona: Persona) -> bool:
    """Return True if a persona has a tool without naming it, by its own name or its file's."""
    its_names = {persona.name.casefold(), PurePath(persona.origin).stem.casefold()}
    return tool.personas == EVERYBODY or any(name.casefold() in its_names for name in tool.personas)


def _help(command: Command, abilities: Abilities) -> CommandHelp:
    choices = tuple(abilities.of(command.needs)) if command.needs else ()
    return CommandHelp(command.name, command.argument, command.description, choices)


def _unserved(commands: CommandRegistry, abilities: Abilities) -> frozenset[str]:
    lacking = {c.name for c in commands if c.needs is not None and not abilities.of(c.needs)}
    return frozenset(lacking | {name for name in BY_SETTING if commands.get(name) is None})


class MissingName(Struct, frozen=True):
    """A command, a tool or a database that a persona names and that is not there.

    Attributes:
        key: of the persona's file that names it: `commands`, `tools`, `confirm` or `databases`.
        text: the name and the mend.
        name: that is missing.
    """

    key: str
    text: str
    name: str = ""


def missing_names(persona: Persona, commands: CommandRegistry, toolbox: Toolbox) -> list[MissingName]:
    """List all that the persona names and that is not there, nor may be brought by a setting or a server."""
    known = [command.name for command in commands]
    tools = [tool.name for tool in toolbox]
    # A database that was there and is gone, as a folder may while it is used, is no mistake of the persona's.
    databases = [name for kind, _, name in (s.partition(":") for s in toolbox.sources) if kind == _DATABASE]
    missing: list[MissingName] = []

    def check(key: str, kind: str, name: str, here: Sequence[str]) -> None:
        if name not in here:
            missing.append(MissingName(key, _missing_text(kind, name, here), name))

    for name in persona.commands or ():
        if not _is_unset(name, known):
            check("commands", "command", name, known)
    for name in persona.tools:
        if name not in toolbox.sources and not _may_come(name, toolbox):
            check("tools", "tool", name, tools)
    for name in persona.confirm:
        if not _may_come(name, toolbox):
            check("confirm", "tool", name, tools)
    for name in persona.databases:
        check("databases", "database", name, databases)
    return missing


def _may_come(name: str, toolbox: Toolbox) -> bool:
    """Return True if an MCP server may yet bring a tool of that name: it may join later, or be away."""
    servers = [
        server for kind, _, server in (each.partition(":") for each in toolbox.sources) if kind == _SERVER
    ]
    return any(name.startswith((f"{each}_", f"{each.replace('_', '-')}_")) for each in servers)


def _missing_text(kind: str, name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    brings = "put its folder there" if kind == "database" else "load the addon that brings it"
    mend = f"did you mean {near[0]!r}?" if near else f"remove it, or {brings}."
    return f"no {kind} {name!r}; {mend}"


def not_named(
    persona: Persona, commands: Iterable[str], tools: Iterable[Tool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the names of registered commands and tools that the persona goes without."""
    without_commands: tuple[str, ...] = ()
    if persona.commands is not None:
        without_commands = tuple(name for name in commands if name not in persona.commands)
    its_tools = {*persona.tools}
    without_tools = [
        tool.name
        for tool in tools
        if not (tool.name in its_tools or tool.source in its_tools or _is_given(tool, persona))
    ]
    return without_commands, tuple(without_tools)


def _is_unset(name: str, known: Iterable[str]) -> bool:
    return name in BY_SETTING and name not in known


class ToolRoom(Struct, frozen=True):
    """Room for tools: a number of them, and a model's context in tokens."""

    tools: int
    context_tokens: int

    @property
    def foreign_tokens(self) -> int:
        """Tokens for the tools of MCP servers."""
        return int(self.context_tokens * _SHARE)

    def holds(self, stock: "_Stock") -> bool:
        """Return True if all tools can be offered."""
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
        self._offered: LRU[str, frozenset[str]] = LRU(_REMEMBERED)
        self._was_told = False

    def schemas(
        self,
        capabilities: Capabilities,
        room: ToolRoom,
        *,
        conversation: str,
        asked: str,
        lines: Sequence[Line],
    ) -> tuple[ToolSchema, ...]:
        """Choose what the model is offered in a turn.

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
            before = self._offered.get(conversation) or frozenset()
            called = [name for name in dict.fromkeys(_called(lines)) if name in stock.foreign]
            wanted = [*called[: room.tools // 2], *_telling(stock.foreign, fit)]
            preferred = [name for name in stock.foreign if name in before]
            if not before.issuperset(wanted):
                preferred = [*wanted, *_best(stock.foreign, scores), *preferred]
            order = [*preferred, *stock.one_of_each()]
            chosen |= stock.within(order, room.tools - len(chosen), room.foreign_tokens)
        self._offered.put(conversation, chosen)
        return tuple(tool.schema for name, tool in stock.tools.items() if name in chosen)

    def tokens(self, capabilities: Capabilities, room: ToolRoom) -> int:
        """Estimate how many tokens of a prompt the tools take at most."""
        stock = self._stock_of(capabilities)
        if room.holds(stock):
            return sum(stock.tokens.values())
        own = sum(stock.tokens[name] for name in [*stock.named, *stock.own][: room.tools])
        return own + min(room.foreign_tokens, sum(stock.tokens.values()))

    def _stock_of(self, capabilities: Capabilities) -> "_Stock":
        if self._stock is None or self._stock.tools is not capabilities.tools:
            self._stock = _Stock.of(self._persona, capabilities.tools)
        return self._stock

    def _index_of(self, stock: "_Stock") -> "ToolIndex":
        from pixi.toolbox.tool_index import ToolIndex  # it brings stemmers, which few need

        self._index = self._index or ToolIndex()
        if self._indexed is not stock:
            self._index.take(tool.schema for tool in stock.tools.values())
            self._indexed = stock
        return self._index

    def _tell(self, tools: int, most: int) -> None:
        if not self._was_told:
            self._was_told = True
            _log.info(
                "%s has %d tools, more than a prompt should hold: the model is offered those that the talk "
                "is about, %d at most (tools of [limits])",
                *(self._persona.name, tools, most),
            )


class _Stock(Struct, frozen=True):
    """The tools of a persona, sorted by where they come from.

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
        """Sort the tools of a persona out."""
        named = tuple(name for name in tools if name in persona.tools)
        rest = {name: tool for name, tool in tools.items() if name not in named}
        foreign = {name: tool for name, tool in rest.items() if tool.source.startswith(f"{_SERVER}:")}
        return cls(
            tools,
            named,
            tuple(name for name in rest if name not in foreign),
            foreign,
            {name: estimate_tools([tool.schema]) for name, tool in tools.items()},
        )

    @property
    def foreign_tokens(self) -> int:
        """Tokens that the tools of MCP servers take."""
        return sum(self.tokens[name] for name in self.foreign)

    def one_of_each(self) -> Iterator[str]:
        """Yield the tools of MCP servers, by turns one of each server."""
        servers: dict[str, list[str]] = {}
        for name, tool in self.foreign.items():
            servers.setdefault(tool.source, []).append(name)
        return (name for one in zip_longest(*servers.values()) for name in one if name is not None)

    def within(self, order: Iterable[str], most: int, tokens: int) -> frozenset[str]:
        """Take the first ones, as many as there is room for."""
        chosen: set[str] = set()
        for name in dict.fromkeys(order):
            if len(chosen) >= most:
                break
            if self.tokens[name] <= tokens:
                tokens -= self.tokens[name]
                chosen.add(name)
        return frozenset(chosen)


def _best(names: Iterable[str], scores: Mapping[str, float]) -> list[str]:
    """Give the tools that fit at all, best first."""
    return sorted((name for name in names if name in scores), key=lambda name: -scores[name])


def _telling(names: Iterable[str], scores: Mapping[str, float]) -> list[str]:
    """Give the tools that fit so well that they have to be offered."""
    best = _best(names, scores)[:_SURE]
    enough = max(_ENOUGH, scores[best[0]] / 2) if best else 0.0
    return [name for name in best if scores[name] >= enough]


def _said(lines: Sequence[Line]) -> list[str]:
    """Give what was said lately, by anybody."""
    said = [line.text for line in lines if isinstance(line, UserLine | AssistantLine)]
    return [text[-_LONGEST_LINE:] for text in said[-_LINES:]]


def _called(lines: Sequence[Line]) -> Iterator[str]:
    """Give the tools that were called, the last ones first."""
    for line in reversed(lines):
        if isinstance(line, AssistantLine):
            yield from (call.name for call in reversed(line.calls))
