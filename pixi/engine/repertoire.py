"""What a persona may use: of all registered commands and tools, those that it names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from pixi.core.deltas import ToolSchema
from pixi.core.errors import ConfigError
from pixi.core.grammar import command_grammar
from pixi.core.persona import Persona
from pixi.core.prompt import CommandHelp
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Tool, Toolbox

_DATABASE = "database"  # what the sources of a database's tools begin with


@dataclass(frozen=True, slots=True)
class Repertoire:
    """A persona's commands and tools, in the forms that the parser, the prompt and the model want.

    Attributes:
        names: the commands, with their aliases.
        help: their lines in the prompt.
        grammar: what a reply may be, as GBNF.
        tools: by name.
        schemas: the tools as a model sees them.
    """

    names: Mapping[str, tuple[str, ...]]
    help: tuple[CommandHelp, ...]
    grammar: str
    tools: dict[str, Tool]
    schemas: tuple[ToolSchema, ...]


def repertoire_of(
    persona: Persona, commands: CommandRegistry, toolbox: Toolbox, *, small: bool
) -> Repertoire:
    """Choose what the persona names; of a database all its tools.

    Raises:
        ConfigError: it names a command, a tool or a database that is not there.
    """
    chosen = [command.name for command in commands] if persona.commands is None else persona.commands
    known = {command.name: command for command in commands}
    mine = [known[_checked(persona, "command", name, known)] for name in chosen]
    tools = {tool.name: tool for tool in toolbox}
    its_tools = {_checked(persona, "tool", name, tools): tools[name] for name in persona.tools}
    # A database that was there and is gone, as a folder may while it is used, is no mistake of the persona's.
    databases = {name for kind, _, name in (s.partition(":") for s in toolbox.sources) if kind == _DATABASE}
    for name in persona.databases:
        source = f"{_DATABASE}:{_checked(persona, 'database', name, databases)}"
        its_tools |= {tool.name: tool for tool in toolbox if tool.source == source}
    lines = tuple(CommandHelp(command.name, command.argument, command.description) for command in mine)
    return Repertoire(
        names={command.name: command.aliases for command in mine},
        help=lines,
        grammar=command_grammar(lines, silence=persona.silence, small=small),
        tools=its_tools,
        schemas=tuple(tool.schema for tool in its_tools.values()),
    )


def _checked(persona: Persona, kind: str, name: str, known: Iterable[str]) -> str:
    if name in known:
        return name
    near = get_close_matches(name, known, 1)
    brings = "put its folder there" if kind == "database" else "load the addon that brings it"
    mend = f"did you mean {near[0]!r}?" if near else f"remove it, or {brings}."
    raise ConfigError(f"persona {persona.name!r} ({persona.origin or 'in code'}): no {kind} {name!r}; {mend}")
