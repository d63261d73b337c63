"""What a persona may use: of all registered commands and tools, those that it names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePath

from pixi.core.deltas import ToolSchema
from pixi.core.errors import ConfigError
from pixi.core.grammar import command_grammar
from pixi.core.persona import Persona
from pixi.core.picture import Abilities
from pixi.core.prompt import CommandHelp
from pixi.toolbox.commands import BY_SETTING, Command, CommandRegistry
from pixi.toolbox.tools import EVERYBODY, Tool, Toolbox

WEB_SEARCH = "web_search"
"""The source of the tool that searches the web: left out where a model's provider does so by itself."""

NO_ABILITIES = Abilities()
"""What a place can do of which nothing is known."""

_DATABASE = "database"  # what the sources of a database's tools begin with
_SERVER = "mcp"  # the same of the tools of MCP servers


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A persona's commands and tools, in the forms that the parser, the prompt and the model want.

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


@dataclass(frozen=True, slots=True)
class Missing:
    """A command, a tool or a database that a persona names and that is not there.

    Attributes:
        key: of the persona's file that names it: `commands`, `tools` or `databases`.
        text: the name and the mend.
    """

    key: str
    text: str


def missing_names(persona: Persona, commands: CommandRegistry, toolbox: Toolbox) -> list[Missing]:
    """List all that the persona names and that is not there, nor may be brought by a setting or a server."""
    known = [command.name for command in commands]
    tools = [tool.name for tool in toolbox]
    # A database that was there and is gone, as a folder may while it is used, is no mistake of the persona's.
    databases = [name for kind, _, name in (s.partition(":") for s in toolbox.sources) if kind == _DATABASE]
    wanted = [
        *(("command", name, known) for name in persona.commands or () if not _is_unset(name, known)),
        *(
            ("tool", name, tools)
            for name in persona.tools
            if name not in toolbox.sources and not _may_come(name, toolbox)
        ),
        *(("database", name, databases) for name in persona.databases),
    ]
    return [Missing(f"{kind}s", _told(kind, name, here)) for kind, name, here in wanted if name not in here]


def _told(kind: str, name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, 1)
    brings = "put its folder there" if kind == "database" else "load the addon that brings it"
    mend = f"did you mean {near[0]!r}?" if near else f"remove it, or {brings}."
    return f"no {kind} {name!r}; {mend}"


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
    mine = [command for command in named if command.needs is None or abilities.of(command.needs)]
    tools = {tool.name: tool for tool in toolbox}
    its_tools: dict[str, Tool] = {}
    for name in persona.tools:
        if name in toolbox.sources:
            its_tools |= {tool.name: tool for tool in toolbox if tool.source == name}
        elif name in tools:
            its_tools[name] = tools[name]
    its_tools |= {tool.name: tool for tool in toolbox if _is_given(tool, persona)}
    for name in persona.databases:
        source = f"{_DATABASE}:{name}"
        its_tools |= {tool.name: tool for tool in toolbox if tool.source == source}
    found = {name: tool for name, tool in its_tools.items() if tool.source == WEB_SEARCH}
    if searches:
        its_tools = {name: tool for name, tool in its_tools.items() if name not in found}
    its_tools = {
        name: tool for name, tool in its_tools.items() if tool.needs is None or abilities.of(tool.needs)
    }
    lines = tuple(_help(command, abilities) for command in mine)
    return Capabilities(
        names={command.name: command.aliases for command in mine},
        help=lines,
        grammar=command_grammar(lines, silence=persona.silence, small=small),
        tools=its_tools,
        schemas=tuple(tool.schema for tool in its_tools.values()),
        searches=searches and bool(found),
        unserved=_unserved(commands, abilities),
    )


def _unserved(commands: CommandRegistry, abilities: Abilities) -> frozenset[str]:
    lacking = {c.name for c in commands if c.needs is not None and not abilities.of(c.needs)}
    return frozenset(lacking | {name for name in BY_SETTING if commands.get(name) is None})


def _may_come(name: str, toolbox: Toolbox) -> bool:
    """Whether a server that is to be there would have a tool of that name: it may join later, or be away."""
    servers = [
        server for kind, _, server in (each.partition(":") for each in toolbox.sources) if kind == _SERVER
    ]
    return any(name.startswith((f"{each}_", f"{each.replace('_', '-')}_")) for each in servers)


def unset_commands(persona: Persona, commands: CommandRegistry) -> dict[str, str]:
    """The commands that it names and goes without, with the settings that would bring them."""
    known = {command.name for command in commands}
    return {name: BY_SETTING[name] for name in persona.commands or () if _is_unset(name, known)}


def _is_unset(name: str, known: Iterable[str]) -> bool:
    return name in BY_SETTING and name not in known


def not_named(
    persona: Persona, commands: Iterable[str], tools: Iterable[Tool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of registered commands and tools, list the names of those that the persona goes without."""
    return (
        () if persona.commands is None else tuple(name for name in commands if name not in persona.commands),
        tuple(
            tool.name
            for tool in tools
            if not ({tool.name, tool.source} & {*persona.tools} or _is_given(tool, persona))
        ),
    )


def _help(command: Command, abilities: Abilities) -> CommandHelp:
    choices = tuple(abilities.of(command.needs)) if command.needs else ()
    return CommandHelp(command.name, command.argument, command.description, choices)


def _is_given(tool: Tool, persona: Persona) -> bool:
    """Whether the persona has it without naming it, by its own name or its file's."""
    its_names = {persona.name.casefold(), PurePath(persona.origin).stem.casefold()}
    return tool.personas == EVERYBODY or any(name.casefold() in its_names for name in tool.personas)
